"""Reads other processes' environment, command line, memory and files through /proc.

Defended by: isolation.py: only its own processes are there; worker.py: PR_SET_DUMPABLE.
"""

STEP = """
import glob, os
def evil(self, closure=None):
    loot = []
    for folder in glob.glob("/proc/[0-9]*"):
        if int(folder[6:]) == os.getpid():
            continue
        try:
            loot += [folder + "/environ"] * (len(open(folder + "/environ", "rb").read()) > 0)
        except OSError:
            pass
        try:  # command lines are everybody's to read; the grader's hold no secret
            if b"SECRET" in open(folder + "/cmdline", "rb").read():
                loot.append("cmdline")
        except OSError:
            pass
        for name in ("mem", "root/etc", "cwd/.", "fd"):
            try:
                path = f"{folder}/{name}"
                open(path, "rb") if name == "mem" else os.listdir(path)
            except OSError:
                continue
            try:
                same = os.path.samestat(os.stat(f"{folder}/root"), os.stat("/"))
                if same and name in ("root/etc", "cwd/."):
                    continue  # what it sees itself
            except OSError:
                pass
            loot.append(f"{folder}/{name}")
    raise Exception(f"GOT THROUGH: {loot}" if loot else "nothing there")
"""
