"""Looks over the whole disk for labels, results, other submissions, the secret and our solution.

Defended by: isolation.py: none of it is there; grade.py does not start where it would be.
"""

STEP = """
import os
def search(most=200_000):
    seen = 0
    for folder, folders, files in os.walk("/"):
        if folder.startswith(("/proc/", "/sys", "/usr", "/lib")) or "site-packages" in folder:
            folders.clear()
            continue
        for name in files:
            seen += 1
            if seen > most:
                return
            yield os.path.join(folder, name)

names = ("assignment.json", "history.jsonl", "ids-sst-test.csv", "answers.py", "judge.py")
def evil(self, closure=None):
    loot = []
    for path in search():
        if os.path.basename(path) in names or path.endswith("_submission.zip"):
            try:
                open(path, "rb").read(1)
            except OSError:
                continue
            loot.append(path)
    loot.sort(key=os.path.getmtime, reverse=True)  # first those of the grading that runs now
    for folder in ("..", "../..", "/proc/1/root", "/proc/1/cwd", "/proc/self/root/root", "/root"):
        try:
            listed = os.listdir(folder)
        except OSError:
            continue
        loot += [name for name in listed if name.startswith(("results", "submissions", "gold"))]
    raise Exception(f"GOT THROUGH: {loot}" if loot else "nothing there")
"""
