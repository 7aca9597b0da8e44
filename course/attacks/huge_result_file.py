"""Writes a huge result file itself: numbers, names, nested lists that take memory to read.

Defended by: worker.py: a largest text; protocol.py: a largest header and number of numbers.
"""

CODE = {
    "bert.py": """
import json, os, struct, torch
from safetensors.torch import save
def leave(text, data):
    with open("../result", "wb") as file:
        file.write(struct.pack("<II", len(text), len(data)) + text + data)
    os._exit(0)
RAN = json.dumps({"status": "ran", "others": {}, "texts": {}}).encode()
def attention(self, *_):
    name = "public bert.attention|values/context"
    leave(RAN, save({name: torch.zeros(60_000_000, dtype=torch.bool)}))
def add_norm(self, *_):
    text = b'{"status": "ran", "others": {}, "texts": {"a": [' + b"[]," * 20_000_000 + b"[]]}}"
    leave(text, save({}))
def layer(self, *_):
    leave(RAN, save({str(number): torch.zeros(1) for number in range(300_000)}))
def embed(self, *_):
    leave(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b"")
BertSelfAttention.attention, BertLayer.add_norm = attention, add_norm
BertLayer.forward, BertModel.embed = layer, embed
""",
}
