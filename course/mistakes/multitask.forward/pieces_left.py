"""A vector for each word piece is returned instead of one for each sentence.

Hint: BERT gives two things: a vector of each piece, and one of the sentence. How does the first
become the second, if you start from it?
Read: Devlin et al. 2019, §4.1; Reimers & Gurevych 2019, §3
"""


class PiecesLeft:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        vectors = outputs["last_hidden_state"]
        return vectors


class FromItsParts:
    def forward(self, input_ids, attention_mask):
        return self.bert.encode(self.bert.embed(input_ids), attention_mask)
