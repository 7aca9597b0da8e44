"""What the head in a model's folder is for, and the names of its outputs. Needs no torch."""

from collections.abc import Mapping
from typing import Any

from config import BertConfig
from training.files.errors import values_of
from training.files.folder import check_surplus, require

ONE_CLASS = {"architectures": ["BertForSequenceClassification"]}
ONE_CLASS |= {"problem_type": "single_label_classification"}


def output_names(config: BertConfig) -> list[str]:
    """The names of a head's outputs; transformers leaves out LABEL_0 and LABEL_1."""
    usual = {str(i): f"LABEL_{i}" for i in range(getattr(config, "num_labels", 0) or 2)}
    named = getattr(config, "id2label", None) or usual
    what = f"id2label in the config.json of {config.name_or_path} does not count from 0 on"
    with values_of(what, "give each output of the head its number and name"):
        return [named[str(i)] for i in range(len(named))]


def check_classes(config: BertConfig, tensors: Mapping[str, Any]) -> None:
    """InputError unless the tensors have a linear layer for logits of classes, one of a text.

    Args:
        tensors: all of the checkpoint's, under Hugging Face's names.
    """
    classes, size = len(output_names(config)), config.hidden_size
    wanted = {"classifier.weight": (classes, size), "classifier.bias": (classes,)}
    wanted |= {"pooler.dense.weight": (size, size), "pooler.dense.bias": (size,)}
    check_surplus(config.name_or_path, tensors, wanted, "classifier")
    what = f"the head in {config.name_or_path} does not choose one of some classes for a text"
    with values_of(what, "take another model, or train a head on it"):
        require({name: value for name, value in vars(config).items() if value}, ONE_CLASS)
        require({name: getattr(tensors.get(name), "shape", None) for name in wanted}, wanted)
        if classes < 2:
            raise ValueError("it has one output, which is for regression")
