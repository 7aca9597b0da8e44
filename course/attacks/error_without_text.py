"""Claims an error but has no text of one, and numbers without a dimension where a table is due.

Defended by: judge.py takes outputs apart as hostile.
"""

CODE = {
    "classifier.py": """
import sys
main = sys.modules["__main__"]  # the grader's program
encode = main.encode
def forged(outputs, save):
    table = {"sizes": torch.tensor(1), "rates": torch.tensor(1.0)}
    for name in ("Linear layers: with a bias", "dropout probabilities that are it"):
        table[f"values/{name}"] = torch.tensor(True)
    made_up = {}
    for run in ("together float64", "together float32", "public classifier.init"):
        made_up |= {f"{run}|{name}": value for name, value in table.items()}
    made_up["public classifier.init|error kind"] = "error"
    made_up["public classifier.forward|error kind"] = "error"
    return encode(made_up, save)
main.encode = forged
""",
}
STATUSES = {"1.6": "wrong", "1.7": "wrong"}
