"""Random weights and inputs for the functions of part 1: the grader's, and the bug hunt's.

It does not know what a function makes of them.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

import bert
from checks.part1.references import TINY
from checks.part1.stand_ins import STAND_INS
from config import BertConfig
from utils import get_extended_attention_mask

LAYER = "bert.layer"


def make_inputs(seed: int, stand_ins: bool = False) -> dict[str, Tensor]:
    """Random weights and inputs of all tasks of part 1, named as in sanity_check.data.

    With ``stand_ins``, also what takes the place of attention and add_norm in bert.layer: random
    tensors, which say nothing about the right result.
    """
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    heads, width, wide = TINY["num_attention_heads"], TINY["hidden_size"], TINY["intermediate_size"]
    lengths = torch.tensor([number(5, 11), number(3, 6), 2])
    batch, length, labels = len(lengths), int(lengths.max()), number(3, 9)
    real = torch.arange(length) < lengths[:, None]  # (B, L)
    mask = get_extended_attention_mask(real, torch.float64)
    ids = torch.randint(5, TINY["vocab_size"], real.shape, generator=generator) * real
    head_shape, shape = (batch, heads, length, width // heads), (batch, length, width)
    tensors = {n: 0.3 * noise(*size) + n.endswith("norm.weight") for n, size in weight_shapes()}
    tensors |= {"weights/head.weight": noise(labels, width), "weights/head.bias": noise(labels)}
    put = {
        "bert.attention": {
            **{name: noise(*head_shape) for name in ("key", "query", "value")},
            "mask": mask,
            "cotangent": noise(*shape),
        },
        "bert.add_norm": {
            "input": noise(*shape),
            "attended": noise(*shape),
            "expanded": noise(batch, length, wide),
            "cotangent": noise(*shape),
        },
        LAYER: {"hidden": noise(*shape), "mask": mask, "cotangent": noise(*shape)},
        "bert.embed": {
            "ids": ids,
            "segments": (torch.arange(length) > 1).long() * real,
            "real": real,
            "cotangent": noise(*shape) * real[..., None],
            "pooler_cotangent": noise(batch, width),
        },
        "classifier.forward": {
            "input_ids": ids,
            "attention_mask": real.long(),
            "last_hidden_state": noise(*shape),
            "pooler_output": noise(batch, width),
            "cotangent": noise(batch, labels),
        },
    }
    tensors |= {
        f"{task_id}/inputs/{name}": value
        for task_id, values in put.items()
        for name, value in values.items()
    }
    if stand_ins:
        shapes = stand_in_shapes(shape, head_shape, (batch, length, wide))
        tensors |= {f"{LAYER}/{name}": noise(*size) for name, size in shapes.items()}
    return tensors


Shape = tuple[int, ...]


def stand_in_shapes(shape: Shape, head_shape: Shape, wide_shape: Shape) -> dict[str, Shape]:
    """What takes the place of attention and add_norm in bert.layer: (B, L, D), (B, H, L, W)."""
    shapes = {f"{kind}/{name}": shape for kind in ("values", "dropout") for name in STAND_INS}
    shapes |= {f"replay/attended {name}": head_shape for name in ("key", "query", "value")}
    shapes |= {f"replay/{n}": shape for n in ("normed input", "normed output", "result input")}
    return shapes | {"replay/result output": wide_shape}


@cache
def weight_shapes() -> list[tuple[str, Shape]]:
    """Names and shapes of the tiny BertModel's weights."""
    model = bert.BertModel(BertConfig(**TINY))
    return sorted((f"weights/{name}", tuple(w.shape)) for name, w in model.named_parameters())
