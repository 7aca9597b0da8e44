"""Exceptions about shapes: what they mean here, with the shapes at hand.

Entries of the table in checks/exceptions.py. It does not know how any task is solved. Axes are the
course's: B sentences, L pieces, D hidden size, H heads, W = D / H width of a head.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from checks.traces import Case, entry, holds_embeddings, keys, quoted

DICTIONARY = "a dictionary, to be read by name: ['last_hidden_state'] or ['pooler_output']"


PRODUCTS = ("matmul", "mm", "addmm", "linear", "einsum")


def numbers(text: str) -> list[int]:
    """The sizes in a message: "3, 4, 32"."""
    return [int(size) for size in text.split(",") if size.strip()]


def both(case: Case, clash: Callable[[torch.Size, torch.Size], bool]) -> str:
    """The two tensors of an operation with their shapes; "" where they are not what clashes."""
    parts = [part for part in case.place.operands() if isinstance(case.place.value(part), Tensor)]
    shapes = [case.place.value(part).shape for part in parts]
    clashing = len(parts) > 1 and clash(*shapes[:2])
    return " and ".join(map(case.place.show, parts[:2])) if clashing else ""


def written_sizes(sizes: list[int]) -> set[int]:
    """Those that look like bert-base's hidden and intermediate size, heads and their width."""
    heads = {12, 64}
    return {768, 3072}.intersection(sizes) | (heads if heads <= {*sizes} else set())


def in_code(number: int) -> str:
    """On a size of bert-base that is written into the code, or a multiple of its width."""
    times, rest = divmod(number, 768)
    is_multiple = not rest and number not in (768, 3072)
    times_768 = f"{number} is {times} · 768. " if is_multiple else ""
    return (
        f"is {768 if is_multiple else number} written in the code? {times_768}It is a size of "
        "bert-base, and every BERT has its own; the small one here has others: read them off "
        "config, self or a tensor"
    )


# ---------------------------------------------------------------------------------------------
# New shapes


@entry(r"shape '\[(.*)\]' is invalid for input of size (\d+)", RuntimeError)
def shape_of_other_size(case: Case) -> str:
    """A view or reshape to more or fewer numbers."""
    sizes, count = numbers(case.match[1]), case.match[2]
    what = case.first("the tensor")
    if written := written_sizes(sizes) - case.place.letters().keys():
        return f"{what} does not fit {tuple(sizes)}: {in_code(max(written))}"
    asked = case.place.shape(sizes)
    wanted = "a multiple of" if -1 in sizes else "exactly"
    needed = f"{wanted} {abs(math.prod(sizes))}"
    return (
        f"{what} has {count} numbers, and the shape {asked} needs {needed}: "
        "is a size read off another axis than you think?"
    )


@entry(r"permute.*input.dim\(\) = (\d) is not equal to len\(dims\) = (\d)", RuntimeError)
def permuted_axes(case: Case) -> str:
    """A permutation of more or fewer axes than there are."""
    there, named = case.match.groups()
    return (
        f"permute names each axis once; {case.first('the tensor')} has {there}, {named} are named"
    )


# ---------------------------------------------------------------------------------------------
# Products and sums


@entry(r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", RuntimeError)
def layer_of_other_width(case: Case) -> str:
    """A linear layer that is given vectors of another size."""
    place, call = case.place, case.place.node
    given, taken = int(case.match[2]), int(case.match[3])
    layer = place.value(call.func) if isinstance(call, ast.Call) else None
    if taken % 768 == 0 and given % 768:
        return in_code(taken)
    if not isinstance(layer, nn.Module):
        return ""
    value = place.value(call.args[0]) if call.args else None
    fits = isinstance(value, Tensor) and value.shape[-1:] == (given,)
    if not isinstance(layer, nn.Linear) or not fits:
        sizes = f"{place.size(taken)} numbers and gets {place.size(given)}"
        return f"a layer in {quoted(call.func)} takes vectors of {sizes}"
    what = place.show(call.args[0])
    return (
        f"{quoted(call.func)} takes vectors of {place.size(taken)} numbers, and the last axis of "
        f"{what} has {place.size(given)}: is it another tensor's turn, another layer's, or is "
        "another axis last?"
    )


@entry("Expected size for first two dimensions of batch2 tensor|mat1 and mat2 shapes", RuntimeError)
def factors_do_not_meet(case: Case) -> str:
    """A matrix product whose inner sizes differ."""
    node = case.place.node
    named = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
    if "mat1" in case.match[0] and isinstance(node, ast.Call) and named not in PRODUCTS:
        return "a layer, or a matrix in it, is given vectors of another size than it takes"
    tensors = both(case, lambda left, right: left[-1] != right[-2:][0])
    return (
        f"{f'{tensors} are multiplied; ' if tensors else ''}in a matrix product the last axis of "
        "the first factor and the last but one of the second have the same size: is a transpose "
        "missing, or of other axes than you think, or are the factors the wrong way round?"
    )


@entry(r"batch\d must be a 3D tensor|must be a matrix", RuntimeError)
def product_of_heads(case: Case) -> str:
    """Functions for matrices, or for a batch of them, that are given heads as well."""
    name = getattr(getattr(case.place.node, "func", None), "attr", "this function")
    axes = 3 if "3D" in case.match[0] else 2
    tensors = both(case, lambda one, other: {len(one), len(other)} != {axes})
    return (
        f"{name} wants tensors of {axes} axes{f', and is given {tensors}' if tensors else ''}; @, "
        "or torch.matmul, takes any number of axes and multiplies along the last two"
    )


@entry(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at .*dimension (\d)",
    RuntimeError,
)
def shapes_do_not_meet(case: Case) -> str:
    """Two shapes that do not broadcast; of a product, the axes before the last two."""
    node, (first, second, axis) = case.place.node, case.match.groups()
    named = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
    product = named == "matmul" or isinstance(getattr(node, "op", None), ast.MatMult)

    def clash(one: torch.Size, other: torch.Size) -> bool:
        """Whether they differ as the message says, counted from the last axis."""
        axes = [shape[:-2] if product else shape for shape in (one, other)]
        place = int(axis) - max(map(len, axes))
        return {int(first), int(second)} == {shape[place] for shape in axes}

    tensors = both(case, clash)
    sizes = f"on axis {axis} one has {first}, the other {second}"
    what = f"{tensors} do not fit: {sizes}" if tensors else f"two tensors do not fit: {sizes}"
    if product:
        return (
            f"{what}. A matrix product is of the last two axes, and those before them have to be "
            "the same: has a transpose taken other axes than you think?"
        )
    return f"{what}. Axes are matched from the last one on, and only size 1 fits another size"


@entry(r"normalized_shape=\[(\d+)\].*input of size ?\[(.*)\]", RuntimeError)
def norm_of_other_width(case: Case) -> str:
    """A LayerNorm that is given vectors of another size."""
    given = case.place.shape(numbers(case.match[2]))
    return (
        f"this LayerNorm takes vectors of {case.place.size(int(case.match[1]))} numbers, and is "
        f"given {given}: is it the right tensor, after the right layer?"
    )


@entry(r"einsum\(\)", RuntimeError)
def einsum_letters(case: Case) -> str:
    """Letters that do not fit the tensors."""
    tensors = both(case, lambda *_: True)
    return (
        "in einsum every axis of a tensor has a letter, and axes of one letter have one size"
        f"{f'; here are {tensors}' if tensors else ''}"
    )


@entry(r"stack expects each tensor to be equal size, .*?\[(.*?)\] .*and \[(.*?)\]", RuntimeError)
def stack_of_shapes(case: Case) -> str:
    """Tensors to stack that differ."""
    first, second = (case.place.shape(numbers(text)) for text in case.match.groups())
    return f"torch.stack puts tensors of one shape together, and here are {first} and {second}"


# ---------------------------------------------------------------------------------------------
# Axes and places that are not there


@entry(r"Dimension out of range .*in range of \[-(\d+), .*but got (-?\d+)", IndexError)
def axis_out_of_range(case: Case) -> str:
    """A dim that a tensor does not have."""
    count, asked = case.match.groups()
    value = case.place.value(next(iter(case.place.operands()), None))
    fits = isinstance(value, Tensor) and value.dim() == int(count)
    what = case.first("") if fits else "the tensor"
    return (
        f"{what} has {count} axes, counted from 0, or from the end from −1, so there is no axis "
        f"{asked}: did squeeze() or an index take one away?"
    )


@entry(r"too many indices for tensor of dimension (\d)", IndexError)
def too_many_indices(case: Case) -> str:
    """More indices than axes."""
    return f"{case.first('the tensor')} has {case.match[1]} axes, and more indices are given"


@entry(r"index (-?\d+) is out of bounds for dimension (\d) with size (\d+)", IndexError)
def index_out_of_shape(case: Case) -> str:
    """A place that is not on its axis."""
    index, axis, size = case.match.groups()
    if size == "0":  # what torch says of a single number, which has no axis
        return f"{case.first('the tensor')} has no axis left for an index"
    return (
        f"axis {axis} of {case.first('the tensor')} has {size} places, counted from 0, so none is "
        f"{index}: is another axis meant?"
    )


@entry("(?:tuple|list) index out of range", IndexError)
def item_out_of_range(case: Case) -> str:
    """An item that a tuple does not have; of a shape, an axis."""
    what = next(iter(case.place.operands()), None)
    if isinstance(what, ast.Attribute) and what.attr == "shape":
        return f"{case.place.show(what.value)} has fewer axes; the first is 0"
    sequence = case.place.value(what)
    count = len(sequence) if isinstance(sequence, tuple | list) else "fewer"
    return f"{quoted(what)} holds {count} items; the first is 0"


@entry("index out of range in self", IndexError)
def row_out_of_table(case: Case) -> str:
    """An id for which a table of embeddings has no row."""
    call = case.place.node
    table, ids = case.place.value(call.func), case.place.value(call.args[0])
    rows = getattr(table, "num_embeddings", "fewer")
    real = isinstance(ids, Tensor) and ids.numel() and ids.device.type != "meta"
    what = "an id is larger, or negative"
    if real:
        way, edge = ("down", ids.min()) if ids.min() < 0 else ("up", ids.max())
        what = f"{quoted(call.args[0])} goes {way} to {edge.item()}"
    return f"{quoted(call.func)} has {rows} rows, and {what}: are these the ids for that table?"


@entry(r"values to unpack \(expected (\d+)", ValueError)
def unpacked(case: Case) -> str:
    """More or fewer names than there are values."""
    place, source, wanted = case.place, case.place.unpacked(), case.match[1]
    owner = source.func if isinstance(source, ast.Call) else source
    tensor = place.value(getattr(owner, "value", None))
    if isinstance(tensor, Tensor) and owner.attr in ("size", "shape"):
        return f"{place.show(owner.value)} has {tensor.dim()} axes, but here are {wanted} names"
    if holds_embeddings(place.value(owner)):
        return f"{quoted(source)} gives {DICTIONARY}"
    value = place.value(source)
    if isinstance(source, ast.Tuple):
        value = tuple(source.elts)
    if isinstance(value, dict):
        return f"{quoted(source)} is a dictionary, to be read by its keys: {keys(value)}"
    if isinstance(value, tuple):
        return f"{quoted(source)} holds {len(value)} values, but here are {wanted} names"
    return ""


@entry(
    r"cannot unpack non-iterable (\w+)|'(int|float)' object is not (?:iterable|subscr)", TypeError
)
def single_number(case: Case) -> str:
    """One number where several are expected."""
    if "NoneType" in case.match[0]:
        return ""
    gone_through = None if "subscr" in case.match[0] else case.place.unpacked()
    what = quoted(gone_through or next(iter(case.place.operands()), None))
    if case.match[1] not in (None, "int", "float"):
        return f"{what} is one {case.match[1]}, so it cannot be taken apart"
    return f"{what} is a single number, so there is nothing in it to take; x.shape has all sizes"
