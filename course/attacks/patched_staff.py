"""Patches the staff's own code in its process: runners, encoder, comparing, safetensors.

Defended by: two processes: what is patched there only gives other numbers.
"""

CODE = {
    "bert.py": """
import sys, json
import safetensors.torch
from checks import differences
from checks.part1 import compare, runners
from checks.part1.references import load_references
from course.grading.sandbox import runs
from course.grading.sandbox import confine, runs
main = sys.modules["__main__"]
def answers(task_id):
    def run(references, **_):
        right = load_references(torch.get_default_dtype())
        prefix = f"{task_id}/"
        return {n.removeprefix(prefix): t for n, t in right.items() if n.startswith(prefix)}
    return run
for task_id in list(runners.RUNS):
    runners.RUNS[task_id] = answers(task_id)
compare.compare = differences.difference = lambda *_, **__: []
main.encode = lambda outputs, save: ({"status": "right", "points": 100}, b"")
safetensors.torch.save = lambda *_: b"GOT THROUGH"
""",
}
