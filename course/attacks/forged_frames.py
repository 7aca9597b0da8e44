"""Writes frames of its own for all tasks into every descriptor it can find, its parents', too.

Defended by: worker.py closes the answers' descriptor in the child; prctl and namespaces keep the
parents'.
"""

FUNCTIONS = """
import json, os, struct
def frame(said, data=b""):
    text = json.dumps(said).encode()
    return struct.pack("<II", len(text), len(data)) + text + data

import glob, torch
from safetensors.torch import save
def evil(self, *_):
    forged = b"".join(
        frame({"job": job, "status": "ran", "others": {}, "texts": {"GOT THROUGH": "x"}}, save({}))
        for job in ("bert.attention", "bert.add_norm", "bert.layer", "bert.embed"))
    written = []
    for number in range(256):
        try:
            os.write(number, forged)
            written.append(number)
        except OSError:
            pass
    got = []
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        if int(path.split("/")[2]) == os.getpid():
            continue
        try:
            handle = os.open(path, os.O_WRONLY)
            os.write(handle, forged)
            got.append(path)
        except OSError:
            pass
    raise Exception(f"GOT THROUGH: {got}" if got else f"only {written}")
"""
