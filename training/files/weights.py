"""The tensors of a checkpoint folder, as they are read from its files."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from training.files.course_files import WEIGHT_FILES
from training.files.errors import InputError, first_line
from training.files.hub import unwrapped
from training.files.texts import read_json


def _weight_files(folder: Path) -> list[Path]:
    """The shards that an index names, else the one file of weights."""
    files = [folder / f"{name}{end}" for name in WEIGHT_FILES for end in (".index.json", "")]
    index = next(filter(Path.is_file, files), None)
    if index is None or index.suffix != ".json":
        return [index] if index else []
    try:
        shards = set(read_json(index)["weight_map"].values())
        return [folder / Path(shard).name for shard in sorted(shards)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{index} does not list shards ({first_line(error)}); fetch it again"
        ) from error


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
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise InputError(f"{file} is refused: it holds more than tensors")
    for name, tensor in tensors.items():
        is_float = tensor.is_floating_point() and tensor.element_size() > 1
        if name.endswith((".weight", ".bias", ".gamma", ".beta")) and not is_float:
            raise InputError(
                f"{folder}: {name} is {str(tensor.dtype).removeprefix('torch.')}: the model is "
                "quantized, and its numbers mean nothing here; take the one it was made of"
            )
    return {short: tensors[name] for name, short in unwrapped(tensors).items()}
