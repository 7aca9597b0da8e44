"""Writes the task's result file itself: lists as status, NUL in types, halves of characters, links.

Defended by: protocol.py takes a frame apart as hostile; worker.py follows no link and opens regular
files only.
"""

STEP = """
import json, os, struct
def frame(said, data=b""):
    text = json.dumps(said).encode()
    return struct.pack("<II", len(text), len(data)) + text + data

from safetensors.torch import save
def evil(self, closure=None):
    texts = {"hidden|error kind": "error", "public|error kind": "error"}
    said = {"status": "ran", "others": {}, "texts": texts}
    open("../result", "wb").write(frame(said, b"\\x08\\0\\0\\0\\0\\0\\0\\0{\\"a\\":{}}"))
    os._exit(0)
"""
CODE = {
    "bert.py": """
import json, os, struct
def frame(said, data=b""):
    text = json.dumps(said).encode()
    return struct.pack("<II", len(text), len(data)) + text + data

import os, torch
from safetensors.torch import save
def leave(said, data=None):
    def evil(self, *_):
        data_ = save({}) if data is None else data
        open("../result", "wb").write(frame(said, data_) if isinstance(said, dict) else said)
        os._exit(0)
    return evil
BertSelfAttention.attention = leave({"status": ["ran"], "job": ["x"]})
BertLayer.add_norm = leave({
    "status": "ran", "others": {"together float64|values/x": "a\\0b", "y": "\\ud800"},
    "texts": {"together float64|error kind": "error",
              "together float64|error": "half \\ud800"}})
def linked(self, *_):
    os.symlink("/etc/passwd", "../result")
    os._exit(0)
BertLayer.forward = linked
def pipe(self, *_):
    os.mkfifo("../result")
    os._exit(0)
BertModel.embed = pipe
""",
}
STATUSES = {"1.1": "invalid answer", "1.2": "wrong", "1.3": "crashed", "1.4": "crashed"}
