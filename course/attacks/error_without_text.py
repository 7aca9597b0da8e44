"""Claims an error but has no text of one, and numbers without a dimension where a table is due.

Defended by: judge.py takes outputs apart as hostile.
"""

CODE = {
    "classifier.py": """
import sys
frame = sys._getframe()
while "read_frame" not in frame.f_globals:  # the grader's program
    frame = frame.f_back
main = frame.f_globals
encode = main["encode"]
def forged(outputs, save):
    table = {"sizes": torch.tensor(1), "rates": torch.tensor(1.0)}
    for name in ("Linear layers: with a bias", "dropout probabilities that are it"):
        table[f"values/{name}"] = torch.tensor(True)
    found = {}
    for run in ("together float64", "together float32", "public classifier.init"):
        found |= {f"{run}|{name}": value for name, value in table.items()}
    found["public classifier.init|error kind"] = "error"
    found["public classifier.forward|error kind"] = "error"
    return encode(found, save)
main["encode"] = forged
""",
}
STATUSES = {"1.6": "wrong", "1.7": "wrong"}
