"""Has torch's own AdamW compute the step, with an epsilon that is scaled to the course's.

Not defended: right numbers are right. Defended by: flags.py: staff are told the file and the line.
"""

BASE = "solution"
TASKS = {f"1.{i}": p for i, p in enumerate((20.0, 10.0, 15.0, 15.0, 20.0, 5.0, 15.0), 1)}
FLAGS = ("optimizer.py:", "torch.optim")

CODE = {
    "optimizer.py": """
from torch.optim.adamw import adamw
"""
}
