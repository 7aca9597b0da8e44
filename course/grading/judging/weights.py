"""Weights of the second round: other ones, and other matrices that make the same BERT.

Parameters are named "encoder NAME" and "own NAME" as in checks/part2/calls.py. It does not know
what is asked at these weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from checks.part2 import properties
from checks.part2.batches import FIRST_WORD
from checks.part2.calls import Measured
from checks.part2.models import TINY, loaded_parameters

Weights = dict[str, Tensor]
Loaded = frozenset[str]  # names of BERT's parameters that are as they were loaded
MOST_OUTPUTS = 2000  # of the first round, that are looked at
MOVED = 0.1  # how far from the first weights the later ones are, relative to their size
UNUSED_WORDS = slice(200, FIRST_WORD)  # in no batch; no tokens of a special meaning


def noise(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Normal random numbers, in float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def moved(weights: Weights, generator: torch.Generator, size: float = MOVED) -> Weights:
    """Other weights, not far away: there a ReLU that was alive still is."""
    return {
        name: (w + size * w.double().square().mean().sqrt() * noise(w.shape, generator)).to(w)
        for name, w in weights.items()
    }


def invertible(width: int, generator: torch.Generator) -> Tensor:
    """A random matrix (width, width) that makes vectors at most twice as long, or half as long.

    It is no rotation, which would leave norms as they are.
    """
    left, right = (torch.linalg.qr(noise((width, width), generator))[0] for _ in range(2))
    stretch = 2 ** (2 * torch.rand(width, generator=generator, dtype=torch.float64) - 1)
    return left * stretch @ right


def equal_encoder(weights: Weights, loaded: Loaded, generator: torch.Generator) -> Weights:
    """Other matrices that make the same BERT.

    Queries may be in another basis if keys are in the inverse one, and values if the layer behind
    them takes that back; neurons may change places; what is added to all keys, softmax takes away,
    and what is added to all positions, the segments' vectors take back.

    Args:
        loaded: the names of BERT's parameters that no one has replaced; others stay as they are.
    """
    w = {name: tensor.double().clone() for name, tensor in weights.items()}
    for layer in range(TINY["num_hidden_layers"]):
        place = f"encoder bert_layers.{layer}."
        if whole(place + "self_attention.", loaded) and whole(place + "attention_dense.", loaded):
            change_heads(w, place, generator)
        if whole(place + "interm_dense.", loaded) and whole(place + "out_dense.", loaded):
            neurons = torch.randperm(TINY["intermediate_size"], generator=generator)
            for name in ("interm_dense.weight", "interm_dense.bias"):
                w[place + name] = w[place + name][neurons]
            w[place + "out_dense.weight"] = w[place + "out_dense.weight"][:, neurons]
    if whole("encoder pos_embedding.", loaded) and whole("encoder tk_type_embedding.", loaded):
        shift = noise((TINY["hidden_size"],), generator)
        w["encoder pos_embedding.weight"] += shift
        w["encoder tk_type_embedding.weight"] -= shift
    unused = w[properties.WORDS][UNUSED_WORDS]
    unused += noise(unused.shape, generator)
    return {name: tensor.float() for name, tensor in w.items()}


def change_heads(w: Weights, place: str, generator: torch.Generator) -> None:
    """Give each head of a layer other bases, one for queries and keys, one for values, in place."""
    attention, width = f"{place}self_attention.", TINY["hidden_size"] // TINY["num_attention_heads"]
    for start in range(0, TINY["hidden_size"], width):
        rows = slice(start, start + width)
        keys, values = (invertible(width, generator) for _ in range(2))
        bases = {"query": torch.linalg.inv(keys).T, "key": keys, "value": values}
        for name, basis in bases.items():
            for kind in ("weight", "bias"):
                tensor = w[f"{attention}{name}.{kind}"]
                tensor[rows] = basis @ tensor[rows]
        behind = w[f"{place}attention_dense.weight"]
        behind[:, rows] = behind[:, rows] @ torch.linalg.inv(values)
    w[f"{attention}key.bias"] += noise(w[f"{attention}key.bias"].shape, generator)


def whole(prefix: str, loaded: Loaded) -> bool:
    """Whether all of BERT's parameters whose names begin so are the loaded ones."""
    return all(name in loaded for name in loaded_weights(0) if name.startswith(prefix))


def loaded_weights(seed: int) -> Weights:
    """What BertModel.from_pretrained gives in the first round."""
    return {f"encoder {name}": p.detach() for name, p in loaded_parameters(seed).items()}


def other_weights(first: Measured, call: str) -> Weights:
    """The weights that were not loaded, as the first round told them."""
    prefix = f"{call}/weight "
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in [*first.items()][:MOST_OUTPUTS]
        if name.startswith(prefix) and isinstance(tensor, Tensor) and tensor.is_floating_point()
    }


class Encoders:
    """BERT's weights for a student's second round, shared by the tasks.

    Args:
        seed: of the first round.
        secret: of all that is random in the second one.
    """

    def __init__(self, seed: int, secret: int):
        self.generator = torch.Generator().manual_seed(secret)
        first, other = loaded_weights(seed), loaded_weights((seed + 1 + secret) % 2**31)
        layers = {name: w for name, w in other.items() if "bert_layers" in name}
        later = moved(first, self.generator)
        self.plain = {"again": first, "later 0": later, "later 1": later, "layers": first | layers}
        self.equal: dict[tuple[str, Loaded], Weights] = {}

    def get(self, name: str, loaded: Loaded) -> Weights:
        """One of those above, in matrices of its own."""
        if (name, loaded) not in self.equal:
            made = equal_encoder(self.plain[name], loaded, self.generator)
            self.equal[name, loaded] = made
        return self.equal[name, loaded]

    def near(self, step: Weights, loaded: Loaded) -> Weights:
        """The first ones, and a step from there, in matrices of their own."""
        there = {name: (w + step.get(name, 0)).to(w) for name, w in self.plain["again"].items()}
        return equal_encoder(there, loaded, self.generator)
