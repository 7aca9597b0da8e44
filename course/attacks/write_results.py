"""Writes results.json, grades.csv and the like wherever it may write.

Defended by: the grader reads no file of the sandbox's; isolation.py: all but
/tmp is read-only.
"""

STEP = """
import json, os, sys
def evil(self, closure=None):
    forged = json.dumps({"score": 100, "points": 100, "status": "graded", "tests": []})
    got = []
    folders = [".", "..", "../..", "/tmp", "/autograder/results", "/", *sys.path]
    for folder in folders:
        for name in ("results.json", "result.json", "grades.csv", "output.json"):
            try:
                with open(os.path.join(folder, name), "w") as file:
                    file.write(forged)
            except OSError:
                continue
            if not (os.path.realpath(folder) + "/").startswith("/tmp/"):
                got.append(folder)
    raise Exception(f"GOT THROUGH: {got}" if got else "nowhere to write")
"""
