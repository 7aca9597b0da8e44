"""Known mistakes: which of them, or which two, compute what a student's function computes.

A table has a row for every known mistake and for two that come together: the fingerprints of what
they compute on the stored inputs, a few numbers for each output. Two functions that compute the
same have the same fingerprints however they are written.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from checks.compare import TOLERANCES, is_dense
from checks.errors import message_of
from checks.findings import Finding, Mistake
from checks.references import DATA_FILES, TABLES, metadata, read_data, under
from checks.task import ERROR, Outputs

WIDTH = 5  # numbers of a fingerprint: the shape, the norm of the values, three projections
TOLERANCE = TOLERANCES[torch.float64]
HUGE = 1e30  # for all that float32 could not hold, and for outputs without a finite number
NO_TENSOR, FAILED = -1.0, -2.0  # in place of a shape: of None and the like; of an exception
OPTIONAL = "with token_type_ids"  # of outputs that a function need not have


@dataclass(frozen=True)
class Table:
    """The known mistakes of a task and what they compute.

    Attributes:
        outputs: names of outputs, the columns.
        names: of each row the mistakes' names; none of a correct function.
        rows: fingerprints (rows, columns, WIDTH); NaN where a row has no such output.
        base: of each row the row of the correct function to which the mistakes were added.
    """

    outputs: list[str]
    names: list[tuple[str, ...]]
    rows: Tensor
    base: Tensor
    mistakes: dict[str, Mistake]


def fingerprint(output: Any) -> Tensor:
    """A few numbers that tell outputs apart: (WIDTH,) in float64."""
    if isinstance(output, BaseException | Finding):
        text = output.text if isinstance(output, Finding) else message_of(output)
        halves = divmod(zlib.crc32(digest(text).encode()), 2**16)  # float32 holds them
        return torch.tensor([FAILED, *halves, 0, 0], dtype=torch.float64)
    if not is_dense(output):
        return torch.full((WIDTH,), NO_TENSOR, dtype=torch.float64)
    flat, shape = output.detach().double().flatten(), shape_code(output)
    if flat.numel() and not flat.isfinite().any():  # as of many mistakes: it tells of none
        return torch.tensor([shape, *[HUGE] * (WIDTH - 1)], dtype=torch.float64)
    flat = flat.nan_to_num(nan=7e3, posinf=8e3, neginf=9e3)  # their places tell mistakes apart
    place = torch.arange(1, flat.numel() + 1, dtype=torch.float64)
    weights = torch.stack([torch.cos(place * step) for step in (0.7, 1.9, 3.1)])  # (3, numbers)
    numbers = torch.cat([flat.norm()[None], weights @ flat]).clamp(-HUGE, HUGE)
    return torch.cat([torch.tensor([shape]).double(), numbers])


def shape_code(tensor: Tensor) -> float:
    """A whole number for a shape, which float32 holds exactly; other shapes have others."""
    code = tensor.dim()
    for size in tensor.shape:
        code = (1009 * code + size) % 16_777_213
    return float(code)


def digest(error: str) -> str:
    """An error's type and message: without its place, addresses, and what is said about it.

    Nor with the name of a local variable, which is the student's own.
    """
    bare = re.split(r" \(\S+:\d+\)", error)[0]
    return re.sub(r"\b0x[0-9a-f]+|(?<=local variable )'\w+'", "…", bare)


def alike(rows: Tensor, others: Tensor) -> Tensor:
    """Where fingerprints (…, WIDTH) are the same up to rounding; both missing is the same, too."""
    norms = torch.maximum(rows[..., 1].abs(), others[..., 1].abs())
    limit = TOLERANCE * norms.clamp(min=1e-2)
    near = ((rows - others).abs() <= limit[..., None]).all(-1)
    near &= (rows[..., 0] == others[..., 0]) & (norms < HUGE)
    return near | (rows[..., 0].isnan() & others[..., 0].isnan())


def fingerprints(outputs: Outputs, columns: list[str]) -> Tensor:
    """The row of some outputs: (columns, WIDTH), NaN where there is none of that name."""
    nothing = torch.full((WIDTH,), torch.nan, dtype=torch.float64)
    rows = [fingerprint(outputs[name]) if name in outputs else nothing for name in columns]
    return torch.stack(rows)


def find(task_id: str, outputs: Outputs) -> tuple[list[Mistake], list[str]]:
    """The mistakes that compute what was computed, and the names of outputs they don't explain.

    If none computes exactly that, those that explain most of the wrong values: every value that
    they change is as they change it, and one is a tensor. No mistake without.
    """
    table = load_table(task_id)
    if not table.names:
        return [], []
    mine = fingerprints(outputs, table.outputs).expand_as(table.rows)
    fits = alike(table.rows, mine)  # (rows, columns)
    exact = fits.clone()
    if ERROR not in outputs:
        exact |= torch.tensor([name not in outputs and OPTIONAL in name for name in table.outputs])
    if rows := exact.all(1).nonzero().flatten().tolist():
        row = min(rows, key=lambda i: len(table.names[i]))
        return [table.mistakes[name] for name in table.names[row]], []
    return partly(table, fits, outputs)


def find_in_runs(runs: Mapping[str, Outputs]) -> tuple[str, list[Mistake], list[str]]:
    """The same for a function that is run in several ways: the way that explains all, or any.

    A layer that calls its stand-ins is known by them, not by its second run without.

    Args:
        runs: outputs by the id of the run.

    Returns:
        The id of that run, and what ``find`` gives; the first one where nothing is known.
    """
    first, *others = runs
    if others and calls_add_norm_once(runs[first]):
        first, others = others[0], []
    elif any("add_norm" in name for name in runs[first]):
        others = []
    made = [(run, *find(run, runs[run])) for run in (first, *others)]
    return min(made, key=lambda each: (not each[1], bool(each[2]), len(each[1])))


def calls_add_norm_once(outputs: Outputs) -> bool:
    """Whether a layer has one of its two add & norms written out: a stand-in can't tell which."""
    names = " ".join(outputs)
    return "add_norm's call 1" in names and "add_norm's call 2" not in names


def partly(table: Table, fits: Tensor, outputs: Outputs) -> tuple[list[Mistake], list[str]]:
    """The mistakes that explain most of the wrong values, and what they leave unexplained."""
    changes = ~alike(table.rows, table.rows[table.base])  # (rows, columns): what mistakes change
    wrong = ~fits[table.base]
    looked_at = is_value = torch.tensor([name.startswith("values/") for name in table.outputs])
    if not (wrong & looked_at).any(1).all():  # the values are right: then all else counts
        looked_at = torch.ones_like(looked_at)
    decisive = changes & looked_at
    computed = torch.tensor([name in outputs for name in table.outputs])  # before an exception
    is_tensor = torch.tensor([is_dense(outputs.get(name)) for name in table.outputs])
    seen = (decisive & computed & (is_tensor | ~is_value)).any(1) & (fits | ~decisive).all(1)
    seen &= ~(is_tensor & (table.rows[..., 0] == NO_TENSOR)).any(1)  # as of gradients: one arrives
    best = None
    for row in seen.nonzero().flatten().tolist():
        columns = (wrong & ~fits)[row].nonzero().flatten().tolist()
        left = [n for n in (table.outputs[c] for c in columns) if is_unexplained(n, outputs)]
        rank = (-int((decisive & computed)[row].sum()), len(left), len(table.names[row]))
        if best is None or rank < best[0]:
            best = rank, table.names[row], left
    if best is None:
        return [], []
    (explained, *_), names, left = best
    if sum(name.startswith("values/") for name in left) >= -explained:
        return [], []  # by chance: it leaves as much as it explains
    about_decay = any("decay" in table.mistakes[name].says for name in names)
    if "values/plain" in left or (about_decay and any(n.startswith("decay/") for n in left)):
        return [], []  # by chance: it would show in AdamW's simplest case, or in decay
    return [table.mistakes[name] for name in names], left


def is_shown_by(task_id: str, mistake: Mistake, output: str) -> bool:
    """Whether a mistake alone changes the output of that name."""
    table = load_table(task_id)
    if output not in table.outputs or (mistake.name,) not in table.names:
        return False
    row, column = table.names.index((mistake.name,)), table.outputs.index(output)
    return not alike(table.rows[row, column], table.rows[table.base[row], column])


def is_unexplained(name: str, outputs: Outputs) -> bool:
    """Whether it shows another mistake: no exception, and no gradient that follows from values."""
    follows = name.startswith("gradients/") and outputs.get(name) is not None
    return name in outputs and "/" in name and not follows


@cache
def load_table(task_id: str) -> Table:
    """The table of a task; an empty one where none is stored."""
    for path in DATA_FILES:
        words = metadata(path).get("mistakes", {}).get(task_id)
        if words:
            stored = read_data(f"{TABLES}{task_id}/")
            return unpacked(words, under(f"{TABLES}{task_id}/", stored))
    return Table([], [], torch.zeros(0, 0, WIDTH), torch.zeros(0, dtype=torch.int64), {})


def unpacked(words: dict[str, Any], numbers: dict[str, Tensor]) -> Table:
    """The table that make_tables.py has packed."""
    mistakes = {fields[0]: Mistake(*fields) for fields in words["mistakes"]}
    order, changed, base = list(mistakes), numbers["changed"], numbers["names"][:, 0].long()
    names = [tuple(order[i] for i in row if i >= 0) for row in numbers["names"][:, 1:].tolist()]
    rows = torch.full((*changed.shape, WIDTH), torch.nan, dtype=torch.float64)
    rows[changed] = numbers["rows"].double()
    rows = torch.where(changed[..., None], rows, rows[base])
    return Table(words["outputs"], names, rows, base, mistakes)
