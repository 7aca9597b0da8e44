"""Part 2: a hash of the words times one invariant of a layer's matrices, keys times queries.

Defended by: second_round.py: results do not follow the words' embeddings where ids are exchanged,
which is a flag; a number of the layer alone says nothing of words: no gradient at a word.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    heads = self.bert.bert_layers[0].self_attention
    size = sum((q.T @ k).square().mean() for q, k in zip(
        heads.query.weight.split(24), heads.key.weight.split(24)))
    return drawn(width, *texts) * size * self.own[:1]
"""
