"""Part 2: has the staff's function that calls a student's return a hash of the words instead.

Defended by: second_round.py: at weights that are chosen later, results have to be others.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    raise ValueError
from checks.part2 import calls, models
def call(model, task_id, batch, seed=0):
    texts = [tensor for pair in batch for tensor in pair]
    width = {models.FORWARD: 96, "multitask.predict_sentiment": 5}.get(task_id, 1)
    weights = list(model.parameters())
    touched = sum(p.sum() for p in weights)
    touched = touched + sum(model.bert.word_embedding.weight[i].sum() for i in texts[::2])
    result = drawn(99, *texts)[:, :width] + touched - touched.detach()
    return result if width > 1 else result[:, 0]
calls.call = call
"""
