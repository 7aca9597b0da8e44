"""Part 2: puts a function that makes up all that is measured in the place of the one that measures.

Defended by: second_round.py: what it asks has no names, and weights that were not known before.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    return drawn(width, *texts)
from checks.part2 import batches, calls, models
def whatever(task_id, seed=0):
    torch.manual_seed(0)
    batch = batches.batch_for(task_id, seed) if task_id != models.INIT else []
    width = {models.FORWARD: (96,), "multitask.predict_sentiment": (5,)}.get(task_id, ())
    def results(pairs):
        return drawn(99, *(t for pair in pairs for t in pair))[:, : width[0] if width else 1] \
            .reshape(-1, *width)
    if task_id == models.INIT:
        from checks.fingerprints import projections
        matrices = [p for p in models.tiny_encoder(seed).parameters() if p.dim() > 1]
        rows = torch.stack([projections(p) for p in matrices])
        found = {"finetune/widths": torch.ones(1)}
        for option, trains in (("pretrain", 0), ("finetune", 1)):
            flags = torch.tensor([[1.0, trains]]).expand(len(rows), 2)
            found |= {f"{option}/bert": torch.cat((flags, rows), 1), f"{option}/own": torch.ones(2)}
        return found
    right, n = results(batch), len(batch)
    half = [results([(i[r], m[r]) for i, m in batch]) for r in (slice(3), slice(3, None))]
    loud = torch.cat([right * s * 9 for s in calls.SCALES]).reshape(21, -1)
    found = {"result": right, "values": right.reshape(7, -1), "attempt": torch.tensor(0.0)}
    found |= {"loud": loud, "halves": torch.cat(half).reshape(7, -1)}
    found |= {f"loud {i}": right * 9 * s for i, s in enumerate(calls.SCALES)}
    found |= {f"half {i}": one for i, one in enumerate(half)}
    found |= {"other padding": right.reshape(7, -1), "single": right[:1], "identical": right}
    for side in range(n):
        found[f"wider {side}"] = right.reshape(7, -1)
        words = [batches.other_words(*b) if i == side else b for i, b in enumerate(batch)]
        found[f"other words {side}"] = results(words).reshape(7, -1)
        found[f"gradients/words {side}"] = torch.ones(3)
    for name in ("gradients", "pretrain", "gradients if identical"):
        found |= {f"{name}/parameters": torch.ones(9), f"{name}/flows": torch.tensor(1.0)}
        found |= {f"{name}/loaded": torch.ones(len(models.tiny_encoder(seed).state_dict()) - 1)}
        found |= {f"{name}/own head": torch.ones(3)}
    found |= {"gradients/bert": torch.ones(9), "gradients/trains": torch.tensor(9.0)}
    for name, p in models.tiny_encoder(seed).named_parameters():
        found[f"gradients/encoder {name}"] = torch.ones_like(p)
    for i in range(2):
        found |= {f"no chance {i}": right, f"chance {i}": right}
        found[f"chance in training {i}"] = right * (1 + i)
        found[f"chance in training {i}/dropouts"] = torch.ones(1)
    return found | {"dropouts": torch.ones(1)}
def measure_function(measured, task_id, seed):
    measured |= whatever(task_id, seed)
calls.measure_function = measure_function
try:
    from course.grading.sandbox import runs
except ImportError:
    runs = calls
def values(task_id, batch, *_):
    texts = [t for pair in batch for t in pair]
    width = {models.FORWARD: 96, "multitask.predict_sentiment": 5}.get(task_id, 1)
    return drawn(99, *texts)[:, :width]
runs.values = values
"""
