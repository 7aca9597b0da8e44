"""Has a runner return a million outputs.

Defended by: worker.py: a child without a result in time has 0; protocol.py: a largest header.
"""

CODE = {
    "bert.py": """
from checks.part1 import runners
def many(*_, **__):
    return {f"values/{number}": None for number in range(1_000_000)}
runners.RUNS["bert.attention"] = many
""",
}
