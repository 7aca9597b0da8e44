"""The tensors of a checkpoint folder, as they are read from its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from training.files.course_files import WEIGHT_FILES
from training.files.errors import InputError, first_line, values_of
from training.files.hub import unwrapped
from training.files.texts import read_json

PARAMETERS = (".weight", ".bias", ".gamma", ".beta")


def _weight_files(folder: Path) -> list[Path]:
    """The shards that an index names, else the one file of weights."""
    files = [folder / f"{name}{end}" for name in WEIGHT_FILES for end in (".index.json", "")]
    index = next(filter(Path.is_file, files), None)
    if index is None or index.suffix != ".json":
        return [index] if index else []
    saved = read_json(index)
    with values_of(f"{index} does not list shards"):
        return [folder / Path(shard).name for shard in sorted(set(saved["weight_map"].values()))]


def read_weights(folder: str | Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint folder: safetensors, else .bin, each one file or shards.

    Raises InputError naming the file if it is missing, truncated or not what it claims to be, or
    if its weights are not floating-point numbers.
    """
    folder = Path(folder)
    files = _weight_files(folder)
    if not files:
        raise InputError(f"{folder} holds no weights ({' or '.join(WEIGHT_FILES)})")
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            if file.suffix == ".safetensors":
                tensors.update(load_file(file))
            else:
                tensors.update(torch.load(file, map_location="cpu", weights_only=True))
        except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
            raise InputError(
                f"{file} cannot be read ({first_line(error)}); fetch it again"
            ) from error
        except Exception as error:  # UnpicklingError: it wants to run code, or is no torch file
            raise InputError(
                f"{file} is refused: it holds more than tensors, is truncated, or torch.save did "
                "not write it"
            ) from error
        if not all(isinstance(x, Tensor) and isinstance(name, str) for name, x in tensors.items()):
            raise InputError(f"{file} is refused: it holds more than tensors under their names")
    check_numbers(f"{folder}:", tensors)
    return {short: tensors[name] for name, short in unwrapped(tensors).items()}


def check_numbers(source: str, tensors: Mapping[str, Tensor]) -> None:
    """InputError unless all weights are finite floating-point numbers, of 16 bits or more."""
    for name, tensor in tensors.items():
        if not name.endswith(PARAMETERS) or not isinstance(tensor, Tensor):
            continue
        fault = ""
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            kind = str(tensor.dtype).removeprefix("torch.")
            fault = f"is {kind}, not floating-point of 16 bits or more"
        elif tensor.layout != torch.strided or tensor.is_meta:
            fault = "holds no numbers, or not all"
        elif not tensor.isfinite().all():
            fault = "holds nan or inf"
        if fault:
            raise InputError(f"{source} {name} {fault}; take the model as it was trained")
