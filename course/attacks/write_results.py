"""Writes results.json, grades.csv and the like wherever it may write.

Defended by: the grader reads no file of the sandbox's; bubblewrap: all but /tmp is read-only;
without it, what is left in folders that all may write is removed.
"""

STEP = """
import json, os, sys, tempfile
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
            own = os.path.realpath(tempfile.gettempdir())
            shared = os.stat(folder).st_mode & 0o1777 == 0o1777  # as /tmp: the grader clears it
            if not (shared or (os.path.realpath(folder) + "/").startswith(own + "/")):
                got.append(folder)
    raise Exception(f"GOT THROUGH: {got}" if got else "nowhere to write")
"""
