"""Loops for ever while it is imported, in a kernel of torch's.

Defended by: worker.py: importing is part of the task's seconds.
"""

CODE = {
    "classifier.py": """
matrix = torch.eye(700, dtype=torch.float64)
while True:
    matrix = torch.linalg.matrix_power(matrix, 2**20 - 1)
""",
}
STATUSES = {"1.6": "timeout", "1.7": "timeout"}
