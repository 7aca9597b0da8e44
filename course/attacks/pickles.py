"""Brings pickled weights and results that run code when they are loaded.

Defended by: intake.py: no such files; nothing is ever unpickled.
"""

CODE = {"optimizer.py": ""}
EVIL = """cos
system
(S'touch /tmp/GOT-THROUGH'
tR.
"""
NAMES = (
    "sst-classifier.pt",
    "finetune-10-1e-05.pt",
    "weights.pkl",
    "results.pkl",
    "predictions/finetune-sst-dev-out.pkl",
    "model.safetensors",
    "pytorch_model.bin",
)
FILES = dict.fromkeys(NAMES, EVIL)
