"""Puts pipes, links and closed folders where the next tasks of this run will have their files.

Defended by: worker.py and removal.py: all of it is removed before the next task begins.
"""

BASE = "solution"
CODE = {
    "bert.py": """
import os
for number in range(1, 9):
    place = f"{os.environ.get('TMPDIR', '/tmp')}/job-{number}"
    if os.path.lexists(place):
        continue
    try:
        if number % 3 == 0:
            os.mkfifo(place)
        elif number % 3 == 1:
            os.makedirs(f"{place}/result/in/it")
            os.chmod(f"{place}/result", 0)
            os.chmod(place, 0)
        else:
            os.symlink("/usr", place)
    except OSError:
        pass
"""
}
TASKS = {"1.1": 20, "1.2": 10, "1.3": 15, "1.4": 15}
