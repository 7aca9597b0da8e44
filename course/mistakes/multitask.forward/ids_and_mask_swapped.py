"""BERT gets the mask as ids and the ids as mask.

Hint: The order of arguments counts: first what the pieces are, then which of them are real.
Read: Devlin et al. 2019, §4.1; Reimers & Gurevych 2019, §3
"""


class IdsAndMaskSwapped:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(attention_mask, input_ids)
        vectors = outputs["pooler_output"]
        return vectors


class ByName:
    def forward(self, input_ids, attention_mask):
        given = {"input_ids": attention_mask, "attention_mask": input_ids}
        return self.bert(**given)["last_hidden_state"][:, 0, :]
