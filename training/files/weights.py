"""The tensors of a checkpoint folder, as they are read from its files."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from training.files.course_files import WEIGHT_FILES
from training.files.errors import InputError, first_line
from training.files.folder import by_name


def read_weights(folder: str | Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint folder: of model.safetensors, else of pytorch_model.bin.

    Raises InputError naming the file if it is missing, truncated or not what it claims to be, or
    if its weights are not floating-point numbers. Their names are those of training.files.folder.
    """
    file = next((Path(folder, name) for name in WEIGHT_FILES if Path(folder, name).is_file()), None)
    if file is None:
        raise InputError(f"{folder} holds no weights in one file ({' or '.join(WEIGHT_FILES)})")
    is_pickle = file.suffix == ".bin"
    try:
        tensors = dict(torch.load(file, "cpu", weights_only=True) if is_pickle else load_file(file))
    except Exception as error:  # half a dozen types; torch's own text advises to trust the file
        why = "it holds more than tensors, or is truncated" if is_pickle else first_line(error)
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
