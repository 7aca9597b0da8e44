"""Run the mistakes of course/switches/ and store what they compute, so that checks can name them.

    python -m course.make_tables                minutes; after a change of a switch or a sentence
    python -m course.make_tables --task 1.1     one task; the other tables stay

A table (checks/known.py) has a row for each switch and for two of different slots. Left out are
those that compute no number, or the same as an earlier row, or that cannot be together. A single
switch that computes what is correct, or the same as another one, is an error. What the switches
say is in course/switches/*.toml.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import itertools
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor
from tqdm import tqdm

from checks import known, references
from checks.findings import Mistake
from checks.graded_tasks import graded_task
from checks.known import Table
from checks.task import Outputs, outputs_of
from course.switches import Switches, adamw, add_norm, attention, classifier, embed, layer, modern
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_whole

ROOT = Path(__file__).resolve().parent.parent

WORDS = sorted((ROOT / "course" / "switches").glob("*.toml"))
ALONE = "alone"


@dataclass(frozen=True)
class Function:
    """A function with switches.

    Attributes:
        run: the function; its first argument are the names of the mistakes that it makes.
        slots: slot → names of switches, of which a wrong function makes one at most; those of
            ALONE are not run with others.
        neutral: switches that are as right: all mistakes are run with each and without.
        chosen: which combinations are run, if not each switch and two of different slots.
    """

    task_id: str
    run: Callable[..., Any]
    slots: Mapping[str, Iterable[str]]
    neutral: tuple[str, ...] = ()
    chosen: Callable[[], Iterator[Switches]] | None = None

    @property
    def is_second_run(self) -> bool:
        """Whether this is a task's second run, for solutions that the first one does not fit."""
        return "," in self.task_id

    def names(self) -> list[str]:
        """All switches that are mistakes, in order."""
        return list(itertools.chain(*self.slots.values()))


def functions() -> dict[str, Function]:
    """All functions with switches, by the names of tables."""
    made = (
        Function("bert.attention", attention.attention, attention.SLOTS),
        Function("bert.add_norm", add_norm.add_norm, add_norm.SLOTS),
        Function("bert.layer", layer.forward, layer.SLOTS),
        Function("bert.layer, whole", layer.forward, layer.SLOTS),
        Function("bert.embed", embed.embed, embed.SLOTS),
        Function("classifier.init", classifier.init, classifier.INIT),
        Function("classifier.forward", classifier.forward, classifier.FORWARD),
        Function("optimizer.step", adamw.step, adamw.SLOTS, ("decay_before",), adamw.combinations),
        Function("modern.rotary", modern.apply_rotary, modern.ROTARY),
        Function("modern.local_mask", modern.local_mask, modern.MASK),
        Function("modern.geglu", modern.geglu, modern.GEGLU),
    )
    return {function.task_id: function for function in made}


@contextlib.contextmanager
def switched(function: Function, wrong: Switches) -> Iterator[None]:
    """While active, the task's function is the one with switches."""
    entry = graded_task(function.task_id.partition(",")[0])
    *owner, name = entry.function.split(".")
    place = importlib.import_module(entry.module)
    place = getattr(place, owner[0]) if owner else place

    def changed(*arguments: Any, **options: Any) -> Any:
        return function.run(wrong, *arguments, **options)

    signature = inspect.signature(function.run)
    changed.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])
    with mock.patch.object(place, name, changed):
        yield


def run(function: Function, wrong: Switches) -> Outputs:
    """What the function computes with these mistakes."""
    with switched(function, wrong):
        return outputs_of(function.task_id)


def combinations(function: Function) -> Iterator[Switches]:
    """Each switch, then two of different slots, if not others are chosen; of ALONE each alone."""
    if function.chosen:
        yield from function.chosen()
        return
    slots = [names for slot, names in function.slots.items() if slot != ALONE]
    for name in function.names():
        yield frozenset([name])
    for first, second in itertools.combinations(slots, 2):
        yield from map(frozenset, itertools.product(first, second))


def table_of(function: Function, mistakes: dict[str, Mistake]) -> Table:
    """The table of a task.

    Raises:
        InputError: a single switch computes no number, what is correct, or the same as another.
    """
    order = {name: index for index, name in enumerate(function.names())}
    ways = [frozenset(), *(frozenset([name]) for name in function.neutral)]
    right = [run(function, way) for way in ways]
    made = {name for outputs in right for name in outputs if not name.startswith("inputs/")}
    columns = [*sorted(made), known.ERROR]
    are_results = torch.tensor([not name.startswith("gradient") for name in columns])
    rows = [known.fingerprints(outputs, columns) for outputs in right]
    names: list[tuple[str, ...]] = [()] * len(ways)
    base = list(range(len(ways)))
    every = [(wrong, i) for wrong in combinations(function) for i in range(len(ways))]
    stored = torch.stack(rows)
    for wrong, way in tqdm(every, desc=f"{function.task_id:20}", disable=None):
        outputs = run(function, wrong | ways[way])
        row = known.fingerprints(outputs, columns)
        same = known.alike(stored, row.expand_as(stored)).all(1).nonzero().flatten().tolist()
        switches = tuple(sorted(wrong, key=order.__getitem__))
        has_numbers = (row[:, 0] >= 0) & (row[:, 1] < known.HUGE)
        if same or not has_numbers[are_results].any():  # many mistakes give nan, or one exception
            if len(wrong) == 1 and way == 0 and not function.is_second_run:
                what = ", ".join(names[same[0]]) if same else "others: no number"
                what = what or "what is correct"
                raise InputError(f"{function.task_id}: {switches[0]} computes the same as {what}")
            continue
        names.append(tuple(dict.fromkeys(entry_of(name, mistakes) for name in switches)))
        base.append(way)
        stored = torch.cat((stored, row[None]))
    used = {name for row in names for name in row}
    kept = {name: mistake for name, mistake in mistakes.items() if name in used}
    return Table(columns, names, stored, torch.tensor(base), kept)


def entry_of(switch: str, mistakes: dict[str, Mistake]) -> str:
    """The name of a switch's sentence: its own, or without its last word."""
    name = switch if switch in mistakes else switch.rpartition("_")[0]
    if name not in mistakes:
        raise InputError(f"course/switches/*.toml have no entry for {switch}")
    return name


@functools.cache
def sentences() -> dict[str, dict[str, Mistake]]:
    """What is said about mistakes: task → name → words."""
    return {
        task_id: {name: Mistake(name, **words) for name, words in entries.items()}
        for path in WORDS
        for task_id, entries in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }


def packed(table: Table) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A table as words for JSON and numbers: of each row only what its mistakes change."""
    order = {name: index for index, name in enumerate(table.mistakes)}
    most = max(map(len, table.names))
    names = [
        [int(base), *(order[name] for name in names), *[-1] * (most - len(names))]
        for base, names in zip(table.base, table.names, strict=True)
    ]
    changed = ~known.alike(table.rows, table.rows[table.base])
    changed[: int(table.base.max()) + 1] = True  # the correct functions come first
    mistakes = [[m.name, m.says, m.hint, m.read] for m in table.mistakes.values()]
    words = {"outputs": table.outputs, "mistakes": mistakes}
    numbers = {"names": torch.tensor(names, dtype=torch.int16), "changed": changed}
    return words, numbers | {"rows": table.rows[changed].float()}


def data_with(tables: dict[str, Table], path: Path) -> bytes:
    """A file of references with these tables in place of those that it has."""
    about = references.metadata(path)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    mistakes = about.setdefault("mistakes", {})
    for task_id, table in tables.items():
        prefix = f"{references.TABLES}{task_id}"
        mistakes[task_id], numbers = packed(table)
        tensors |= {f"{prefix}/{name}": tensor for name, tensor in numbers.items()}
    return save({k: tensors[k] for k in sorted(tensors)}, metadata={"about": json.dumps(about)})


def main() -> None:
    """Make the tables and write them into the files of references."""
    parser = OneLineParser(description="Store what known mistakes compute.")
    entries = {name: graded_task(name.partition(",")[0]) for name in functions()}
    numbers = sorted({entry.number for entry in entries.values()})
    parser.add_argument("--task", choices=numbers, help="one task; the other tables stay")
    chosen = parser.parse_args().task
    torch.set_num_threads(1)
    for part, path in zip((1, 3), references.DATA_FILES, strict=True):
        mine = {k: e for k, e in entries.items() if e.part == part and chosen in (None, e.number)}
        made = {key: table_of(functions()[key], sentences()[e.id]) for key, e in mine.items()}
        if made:
            write_whole(path, data_with(made, path))


if __name__ == "__main__":
    run_script(main)
