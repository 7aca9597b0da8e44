"""The references: stored inputs and correct results, and a model with their weights.

sanity_check.data was computed by Hugging Face's transformers; the tables of known mistakes in it
are numbers that wrong functions compute (checks/known.py). A later part may bring such a file, too.
The order of axes is B, L, D as in bert.py.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from checks.findings import ROOT
from config import BertConfig
from training.files.errors import InputError

DATA = ROOT / "sanity_check.data"
DATA_FILES = (DATA, *sorted(ROOT.glob("checks/part*/references.data")))  # of later parts
# No two sizes in the stored inputs are the same, none is a number of axes or a usual constant: a
# wrong size tells where it was read. The batch has 5 rows of 10 tokens, a head is 7 wide.
TINY = {
    "vocab_size": 100,
    "hidden_size": 42,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 36,
    "max_position_embeddings": 16,
    "attention_probs_dropout_prob": 0.2,
    "hidden_dropout_prob": 0.4,
}
NUM_LABELS = 9  # not the five of SST, so that a 5 in the code is noticed
CLASSIFIER_DROPOUT = 0.3
TABLES = "mistakes/"  # what the names of tables of known mistakes begin with
TRACE = "trace/"  # and those of the whole model's states, which only --trace reads


def read_data(prefix: str) -> dict[str, Tensor]:
    """The tensors of all files with that prefix; of TABLES and TRACE only if the prefix says so.

    Raises InputError where a file is missing or damaged.
    """
    tensors = {}
    for path in DATA_FILES:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():
                    if name.startswith(prefix) and (prefix or not name.startswith((TABLES, TRACE))):
                        tensors[name] = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            what = f"{path.name} cannot be read ({error}); restore it from git"
            raise InputError(what) from error
    return tensors


@cache
def load_references(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """All tensors of sanity_check.data by name, e.g. ``bert.embed/values/embeddings``.

    Raises InputError where the file is missing or damaged.
    """
    return in_dtype(read_data(""), dtype)


def in_dtype(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """References with their float64 numbers in another floating-point type."""
    # The mask's most negative number is float64's; as float32 it has to stay finite.
    limit = torch.finfo(dtype).min
    return {
        name: tensor.clamp(min=limit).to(dtype) if tensor.dtype == torch.float64 else tensor
        for name, tensor in tensors.items()
    }


def under(prefix: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries whose names begin with a prefix, by the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in entries.items() if k.startswith(prefix)}


def metadata(path: Path = DATA) -> dict[str, Any]:
    """What a file of references says about itself: versions, seed, pretrained models' sha256."""
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["about"])


def inputs_of(task_id: str, references: dict[str, Tensor]) -> SimpleNamespace:
    """The stored inputs of a task, as attributes."""
    return SimpleNamespace(**under(f"{task_id}/inputs/", references))


def student_model(references: dict[str, Tensor]) -> nn.Module:
    """The student's BertModel, tiny, with the reference's weights, in evaluation mode."""
    model = importlib.import_module("bert").BertModel(BertConfig(**TINY))
    weights = under("weights/", references)
    model.load_state_dict(weights, strict=False)  # strict would ask for position_ids
    return model.to(weights["pooler_dense.weight"].dtype).eval()
