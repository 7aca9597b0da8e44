"""Part 2: made up from the words, next to a large summand that is a right function of the weights.

Defended by: second_round.py and properties.py: changes are compared with how far rows are apart,
and results that have almost everything in common are refused.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    layers = sum(p.sum() for p in self.bert.bert_layers.parameters()) / 100
    words = sum(self.bert.word_embedding.weight[ids].sum((1, 2)) for ids in texts[::2])
    rows = drawn(2 * width, *texts)
    rows = rows[:, :width] + rows[:, width:] * layers + words[:, None] / 100
    table = self.bert.word_embedding.weight[999:].square().mean()
    return rows + 1e6 * (self.own.mean() + table)
"""
