"""The class is returned, not the five logits.

Hint: Which class is largest is for the evaluation to ask. The loss needs the numbers before
that, and an argmax has no gradient.
Read: Devlin et al. 2019, §4.1
"""


class ClassReturned:
    def predict_sentiment(self, input_ids, attention_mask):
        vectors = self.forward(input_ids, attention_mask)
        vectors = self.dropout(vectors)
        logits = self.sentiment(vectors)
        classes = logits.argmax(dim=-1)
        return classes


class OneHot:
    def predict_sentiment(self, input_ids, attention_mask):
        x = self.sentiment(self.dropout(self(input_ids, attention_mask)))
        return (x == x.amax(1, keepdim=True)).float()
