"""Returns single numbers that fit every shape.

Defended by: judge.py compares shapes first.
"""

CODE = {
    "bert.py": """
def evil(self, first, *_):
    return (first.sum() * 0 if first.is_floating_point() else torch.zeros(())).reshape(1, 1, 1)

for owner, name in ((BertSelfAttention, "attention"), (BertLayer, "add_norm"),
                    (BertLayer, "forward"), (BertModel, "embed")):
    setattr(owner, name, evil)
""",
    "optimizer.py": """
import numpy
from checks.part1 import adamw
adamw.run_case = lambda *_, **__: numpy.zeros((1, 1))
AdamW.step = lambda self, closure=None: None
""",
}
