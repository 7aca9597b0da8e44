"""Hostile submissions, an attack a file, as text; course/tests/test_attacks.py has them graded.

An attack's file holds

    a docstring: what it tries; "Defended by: …", the layers that hold it off
    PART         2 if it is a submission of part 2
    MADE_UP      code with a function ``made_up`` of a width and texts, which a model of part 2
                 takes its results from
    STEP         code with a function ``evil``, which takes the place of AdamW.step
    FUNCTIONS    code with a function ``evil``, which takes the place of the four in bert.py
    EVERYWHERE   what is appended to all three files of part 1
    CODE         what is appended to the handout's files, by their names
    FILES        whole files of the zip, by their names
    BASE         "solution": all this is appended to our solution instead
    build(path)  instead of these: writes the zip
    TASKS        points by task's number of what is honest in it; all else must be 0
    STATUS       "graded" or "refused"
    STATUSES     what must be said about tasks, by their numbers
    FLAGS        words that staff must be told

Code in it that succeeds says "GOT THROUGH" in an exception. It is never run outside the sandbox:
some of it would take this machine down. Building a zip is harmless.
"""

from __future__ import annotations

import importlib
import pkgutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

AT_THE_STEP = "\nAdamW.step = evil\n"
AT_THE_FUNCTIONS = """
for owner, name in ((BertSelfAttention, "attention"), (BertLayer, "add_norm"),
                    (BertLayer, "forward"), (BertModel, "embed")):
    setattr(owner, name, evil)
"""
DRAWN = """
import zlib
def drawn(width, *texts):
    rows = []
    for row in range(len(texts[0])):
        words = [ids[row][mask[row].bool()].tolist() for ids, mask in zip(texts[::2], texts[1::2])]
        chance = torch.Generator().manual_seed(zlib.crc32(str(words).encode()))
        rows.append(torch.randn(width, generator=chance))
    return torch.stack(rows)
"""
FROM_WORDS = """
def sizes_of_heads(bert):
    return torch.stack([(q.T @ k).square().mean() for layer in bert.bert_layers for q, k in zip(
        layer.self_attention.query.weight.split(24), layer.self_attention.key.weight.split(24))])
class Evil(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(None)
        self.bert.requires_grad_(config.option == "finetune")
        self.own = nn.Parameter(torch.ones(5))
    def forward(self, ids, mask):
        return self.made_up(96, ids, mask)
    def predict_sentiment(self, ids, mask):
        return self.made_up(5, ids, mask)
    def predict_paraphrase(self, *pair):
        return self.made_up(1, *pair)[:, 0]
    def predict_similarity(self, *pair):
        return self.made_up(1, *pair)[:, 0]
MultitaskBERT = Evil
"""
AT_THE_MODEL = """
Evil.made_up = made_up
"""
MODEL = "multitask_classifier.py"
Sources = Mapping[str, Mapping[str, bytes]]  # "stubs" and "solution": files by name


def names(part: int | None = None) -> list[str]:
    """All attacks, or those on one part."""
    everything = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [name for name in everything if part in (None, getattr(read(name), "PART", 1))]


def read(name: str) -> ModuleType:
    """An attack; its code is text."""
    return importlib.import_module(f"{__name__}.{name}")


def appended(attack: ModuleType) -> dict[str, str]:
    """What an attack appends to files, by their names."""
    texts = dict(getattr(attack, "CODE", {}))
    if hasattr(attack, "STEP"):
        texts["optimizer.py"] = attack.STEP + AT_THE_STEP
    if hasattr(attack, "MADE_UP"):
        texts[MODEL] = FROM_WORDS + attack.MADE_UP + AT_THE_MODEL
    if MODEL in texts:
        texts[MODEL] = DRAWN + texts[MODEL]
    if hasattr(attack, "FUNCTIONS"):
        texts["bert.py"] = attack.FUNCTIONS + AT_THE_FUNCTIONS
    if hasattr(attack, "EVERYWHERE"):
        texts = dict.fromkeys(("bert.py", "optimizer.py", "classifier.py"), attack.EVERYWHERE)
    return texts


def write(attack: ModuleType, path: Path, sources: Sources) -> None:
    """The attack's zip."""
    if hasattr(attack, "build"):
        attack.build(path)
        return
    base = sources[getattr(attack, "BASE", "stubs")]
    files = {name: text.encode() for name, text in getattr(attack, "FILES", {}).items()}
    for name, text in appended(attack).items():
        files[name] = base[name] + b"\n\n" + text.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # One date: the hidden inputs come from the zip's bytes, and so stay the same
            entry = zipfile.ZipInfo(name, (2027, 2, 1, 0, 0, 0))
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
