"""There are logits for each word piece instead of for each sentence.

Hint: All heads start from one vector for each sentence, which forward gives.
Read: Devlin et al. 2019, §4.1
"""


class PiecesLeft:
    def predict_sentiment(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        vectors = outputs["last_hidden_state"]
        vectors = self.dropout(vectors)
        logits = self.sentiment(vectors)
        return logits


class FromItsParts:
    def predict_sentiment(self, input_ids, attention_mask):
        return self.sentiment(
            self.dropout(self.bert.encode(self.bert.embed(input_ids), attention_mask))
        )
