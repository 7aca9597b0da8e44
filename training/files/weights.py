"""The tensors of a checkpoint folder, as they are read from its files."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from training.files.course_files import WEIGHT_FILES
from training.files.errors import InputError, first_line, values_of
from training.files.folder import by_name
from training.files.texts import read_json


def read_weights(folder: str | Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint folder: safetensors, else .bin, each one file or shards.

    Raises InputError naming the file if it is missing, truncated or not what it claims to be, or
    if its weights are not floating-point numbers. Their names are those of training.files.folder.
    """
    names = [f"{name}{end}" for name in WEIGHT_FILES for end in ("", ".index.json")]
    file = next((Path(folder, name) for name in names if Path(folder, name).is_file()), None)
    if file is None:
        raise InputError(f"{folder} holds no weights ({' or '.join(WEIGHT_FILES)})")
    files = [file]
    if file.suffix == ".json":
        with values_of(f"{file} does not list shards"):
            shards = sorted(set(read_json(file)["weight_map"].values()))
            files = [Path(folder, Path(shard).name) for shard in shards]
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            if file.suffix == ".safetensors":
                tensors.update(load_file(file))
            else:
                tensors.update(torch.load(file, map_location="cpu", weights_only=True))
        except Exception as error:  # half a dozen types; torch's own text advises to trust the file
            why = "it holds more than tensors, or is truncated"
            why = first_line(error) if file.suffix == ".safetensors" else why
            raise InputError(f"{file} cannot be read ({why}); fetch it again") from error
    check_numbers(f"{folder}:", tensors)
    return by_name(Path(folder), tensors)


def check_numbers(source: str, tensors: Mapping[str, Tensor]) -> None:
    """InputError unless all weights are finite floating-point numbers, of 16 bits or more."""
    for name, tensor in tensors.items():
        if not str(name).endswith((".weight", ".bias", ".gamma", ".beta")):
            continue
        is_exact = tensor.is_floating_point() and tensor.element_size() > 1
        if not (is_exact and tensor.isfinite().all()):
            what = f"{source} {name} does not hold finite floating-point numbers of 16 bits or more"
            raise InputError(f"{what}; take the model as it was trained")
