"""Part 2: a bag of words: the embeddings are BERT's, none of its layers is used.

Defended by: second_round.py: other weights in the layers have to give other results.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    pairs = zip(texts[::2], texts[1::2])
    x = [(self.bert.word_embedding.weight[ids] * m[..., None]).sum(1) for ids, m in pairs]
    out = sum((i + 1) * one for i, one in enumerate(x)) @ torch.ones(96, width).cumsum(0).cos()
    return out * self.own[:1]
"""
