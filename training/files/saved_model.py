"""A model's folder, as it is written: what Hugging Face's ``transformers`` loads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from training.files.course_files import WEIGHT_FILES
from training.files.writing import write_json, write_whole

# Entries of a configuration that do not describe the model; torch_dtype is an older name of dtype
FIELDS_OF_A_RUN = ("name_or_path", "option", "num_labels", "data_dir", "model", "torch_dtype")


def write_model(
    folder: str | Path, model: Any, head: Mapping[str, Tensor], entries: Mapping[str, Any]
) -> None:
    """Write config.json and model.safetensors of a BertPreTrainedModel.

    Args:
        head: tensors of a task's model around BERT, under Hugging Face's names.
        entries: further ones of config.json, or others in place of the model's own.
    """
    tensors = model.to_hf_weights()
    if head:
        tensors = {f"bert.{name}": tensor for name, tensor in tensors.items()}
        tensors |= {name: tensor.detach().cpu().contiguous() for name, tensor in head.items()}
    values = {k: v for k, v in vars(model.config).items() if k not in FIELDS_OF_A_RUN}
    values |= {"model_type": "bert", "architectures": ["BertModel"]}
    values["dtype"] = str(model.dtype).removeprefix("torch.")
    write_json(Path(folder) / "config.json", values | entries)
    write_whole(Path(folder) / WEIGHT_FILES[0], save(tensors, metadata={"format": "pt"}))
