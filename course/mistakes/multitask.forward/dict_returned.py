"""All that BERT returns is returned, not one vector for each sentence.

Hint: BERT's result is a dictionary of two tensors, and all heads want to start from one of
them. (If you mean it, your other functions have to take it from there.)
Read: Devlin et al. 2019, §4.1; Reimers & Gurevych 2019, §3
Named: not_a_tensor
"""


class DictReturned:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        return outputs


class Tuple:
    def forward(self, input_ids, attention_mask):
        found = self.bert(input_ids, attention_mask)
        return found["last_hidden_state"][:, 0], found["pooler_output"]
