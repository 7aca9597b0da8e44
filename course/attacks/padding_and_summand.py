"""Part 2: attends to padding and pools it, with a large summand that makes both look small.

Defended by: properties.py: changes are compared with how far rows are apart.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    rows = 1
    for ids, mask in zip(texts[::2], texts[1::2]):
        rows = rows * self.bert(ids, torch.ones_like(mask))["last_hidden_state"].mean(dim=1)
    rows = rows @ torch.arange(96 * width).sin().view(96, width)
    table = self.bert.word_embedding.weight[999:].square().mean()
    return rows + 1e6 * (self.own.mean() + table)
"""
