"""Part 2: returns a fixed hash of the words; every gradient is 1, whatever the weights are.

Defended by: second_round.py: at weights that are chosen later, results have to be others.
"""

PART = 2
TASKS = {"2.1": 10.0}  # what __init__ makes is only read, which docs/threat-model.md says

MADE_UP = """
def made_up(self, width, *texts):
    touched = sum(p.sum() for p in self.parameters())
    touched = touched + sum(self.bert.word_embedding.weight[ids].sum() for ids in texts[::2])
    return drawn(width, *texts) + touched - touched.detach()
"""
