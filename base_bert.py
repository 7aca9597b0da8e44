"""What every BERT model shares: initialisation, and weights in from and out to Hugging Face files.

The correspondence between the two sets of parameter names is the literal table below.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from config import BertConfig
from training.files.course_files import WEIGHT_FILES
from training.files.errors import values_of
from training.files.folder import CORE, check_surplus, read_weights, require
from training.files.hub import find_model, print_once
from training.files.writing import write_json, write_whole
from utils import get_parameter_dtype

# Entries of a configuration that do not describe the model; torch_dtype is an older name of dtype
FIELDS_OF_A_RUN = ("name_or_path", "option", "num_labels", "data_dir", "model", "torch_dtype")

# Hugging Face's name → ours, once for the embeddings and the pooler …
MODEL_NAMES = {
    "embeddings.word_embeddings.weight": "word_embedding.weight",
    "embeddings.position_embeddings.weight": "pos_embedding.weight",
    "embeddings.token_type_embeddings.weight": "tk_type_embedding.weight",
    "embeddings.LayerNorm.weight": "embed_layer_norm.weight",
    "embeddings.LayerNorm.bias": "embed_layer_norm.bias",
    "pooler.dense.weight": "pooler_dense.weight",
    "pooler.dense.bias": "pooler_dense.bias",
}
# … and once for each layer, behind "encoder.layer.{i}." and "bert_layers.{i}."; each module has a
# weight and a bias
LAYER_MODULES = {
    "attention.self.query": "self_attention.query",
    "attention.self.key": "self_attention.key",
    "attention.self.value": "self_attention.value",
    "attention.output.dense": "attention_dense",
    "attention.output.LayerNorm": "attention_layer_norm",
    "intermediate.dense": "interm_dense",
    "output.dense": "out_dense",
    "output.LayerNorm": "out_layer_norm",
}
LAYER_NAMES = {
    f"{theirs}.{kind}": f"{ours}.{kind}"
    for theirs, ours in LAYER_MODULES.items()
    for kind in ("weight", "bias")
}
POOLER = "pooler."  # checkpoints of pure language models have no pooler; all else is required


def weight_names(num_hidden_layers: int) -> Iterator[tuple[str, str]]:
    """All pairs (Hugging Face's name, our name) of a BertModel with that many layers."""
    yield from MODEL_NAMES.items()
    for i in range(num_hidden_layers):
        for theirs, ours in LAYER_NAMES.items():
            yield f"encoder.layer.{i}.{theirs}", f"bert_layers.{i}.{ours}"


def load_tensors(
    module: nn.Module, tensors: Mapping[str, Tensor], names: Mapping[str, str], source: str
) -> None:
    """Copy tensors into a module; InputError unless all of them are there, in its shapes.

    Args:
        names: of the tensors: Hugging Face's → the module's.
    """
    own = module.state_dict()
    shapes = {name: tuple(tensors[name].shape) if name in tensors else None for name in names}
    with values_of(f"{source} does not have the shape in its config.json", "take another model"):
        require(shapes, {theirs: tuple(own[ours].shape) for theirs, ours in names.items()})
    for theirs, ours in names.items():
        own[ours].copy_(tensors[theirs])


class BertPreTrainedModel(nn.Module):
    """Base class: keeps the configuration, initialises, loads and saves pretrained weights."""

    config_class = BertConfig

    def __init__(self, config: BertConfig, *args: Any, **kwargs: Any):
        super().__init__()
        self.config = config
        self.name_or_path = getattr(config, "name_or_path", "")

    def init_weights(self) -> None:
        """Initialise all submodules as BERT was; call it at the end of ``__init__``."""
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        """N(0, initializer_range²) for weights and embeddings, biases 0, LayerNorm = identity."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the parameters."""
        return get_parameter_dtype(self)

    @classmethod
    def from_pretrained(cls, name_or_path, *args, local_files_only=False, config=None, **kwargs):
        """A model with pretrained weights, in evaluation mode.

        Args:
            name_or_path: a folder, or a model's name, or None: see training.files.hub.find_model.
            local_files_only: never ask the hub.
            config: a BertConfig to use instead of the checkpoint's.
            args, kwargs: what ``cls.__init__`` takes goes to it, other keywords into the config.

        Raises:
            InputError: no such model, unreadable or missing weights, or a shape that differs.
        """
        folder = find_model(name_or_path, local_files_only)
        if config is None:
            config = cls.config_class.from_pretrained(name_or_path, local_files_only)
        accepted = inspect.signature(cls.__init__).parameters
        own = {key: kwargs.pop(key) for key in list(kwargs) if key in accepted}
        vars(config).update(kwargs)
        model = cls(config, *args, **own)
        model.load_hf_weights(read_weights(folder), source=str(folder))
        return model.eval()

    def load_hf_weights(self, tensors: dict[str, Tensor], source: str) -> None:
        """Copy tensors under Hugging Face's names into this model, checking every shape.

        A missing pooler keeps its initial values, with a warning; anything else that is missing is
        an error, as is a tensor of another shape, or one too many inside of BERT. Other tensors
        that BERT does not have are counted.
        """
        core = getattr(self, "bert", self)  # a subclass may hold its encoder as .bert
        names = dict(weight_names(len(core.bert_layers)))
        check_surplus(source, tensors, names, *CORE)
        if not any(name.startswith(POOLER) for name in tensors):
            print_once(f"weights: {source} has no pooler; it starts from random values")
            names = {k: v for k, v in names.items() if not k.startswith(POOLER)}
        load_tensors(core, tensors, names, source)
        if unexpected := tensors.keys() - names.keys():
            parts = ", ".join(sorted({name.split(".")[0] for name in unexpected}))
            what = f"weights: {len(unexpected)} tensors of {source} are not BertModel's"
            print_once(f"{what}: ignored ({parts})")

    def to_hf_weights(self) -> dict[str, Tensor]:
        """The tensors under Hugging Face's names (without a prefix), contiguous, on the CPU."""
        core = getattr(self, "bert", self)
        state, names = core.state_dict(), weight_names(len(core.bert_layers))
        return {theirs: state[ours].cpu().contiguous() for theirs, ours in names}

    def save_pretrained(
        self, folder: str | Path, head: Mapping[str, Tensor] | None = None, **entries: Any
    ) -> None:
        """Write config.json and model.safetensors, which ``transformers`` loads.

        Args:
            head: tensors of a task's model around BERT, under Hugging Face's names.
            entries: further ones of config.json, or others in place of the model's own.
        """
        tensors = self.to_hf_weights()
        if head:
            tensors = {f"bert.{name}": tensor for name, tensor in tensors.items()}
            tensors |= {name: tensor.detach().cpu().contiguous() for name, tensor in head.items()}
        values = {k: v for k, v in vars(self.config).items() if k not in FIELDS_OF_A_RUN}
        values |= {"model_type": "bert", "architectures": ["BertModel"]}
        values["dtype"] = str(self.dtype).removeprefix("torch.")
        write_json(Path(folder) / "config.json", values | entries)
        write_whole(Path(folder) / WEIGHT_FILES[0], save(tensors, metadata={"format": "pt"}))
