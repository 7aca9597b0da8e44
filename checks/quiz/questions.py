"""Questions about a student's function, in three steps of which only the second runs its code.

``subject_of`` reads from the text alone what may be asked; ``numbers`` runs the function, and gives
numbers and no text; ``questions_of`` puts both into words. Of four options exactly one is true.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import random
import re
import sys
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from checks import jobs
from checks.compare import TOLERANCES, is_close
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.edits import SUBJECTS, Edit, Function, in_turns, installed_source, round_robin
from checks.inputs import in_words, make_inputs
from checks.part1.adamw_checks import CASES
from checks.references import TINY, load_references, under
from checks.task import task_of

PLACE = " (after attention)"  # of add_norm, which is also run after the feed-forward network
WHOLE_LAYER = {"bert.layer": "bert.layer, whole"}  # with the student's own attention and add_norm
CALLED = {"bert.layer": ("bert.attention", "bert.add_norm")}  # by its run, the student's own
MOST_EDITS = 25  # of a function
GIVEN = "The batch has padding. Weights are random, unless a question says otherwise."
OF_ADAMW = "A run makes ten steps with lr=0.05, and without weight decay unless it is named."
SIZES = {  # of the tiny BERT → what has so many
    TINY["num_attention_heads"]: "heads",
    TINY["hidden_size"] // TINY["num_attention_heads"]: "numbers for a head",
    TINY["hidden_size"]: "numbers for a token",
    TINY["intermediate_size"]: "numbers for a token in the feed-forward network",
}
TOLERANCE = TOLERANCES[torch.float64]
OPTIONS = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))
Runs = Mapping[str, Mapping[str, Tensor]]  # "0": as it is, "1", …: with an edit; "variables"
Claims = Mapping[str, bool]  # option → whether it is true
Asked = Iterator[tuple[str, str, str, Claims]]  # what it is about, why, the question, options


@dataclass(frozen=True)
class Question:
    """Four options, of which exactly one is true, and why."""

    task: str  # its id
    about: str
    text: str
    options: tuple[str, ...]
    key: int
    why: str = ""

    @property
    def place(self) -> str:
        """The task, and the first line that an edit is of."""
        return self.task + re.match(r"Suppose lines? \d+|.*", self.text)[0]


def options_of(task_id: str) -> dict[str, str]:
    """What an edit may change: an output of ``run`` → in words."""
    if task_id == "optimizer.step":
        return {f"|{case.output}": f"the run: {case.about}" for case in CASES}
    what, evaluated = OPTIONS[task_id]["result"], "the result in evaluation mode"
    options = {f"|values/{what}": evaluated}
    for zero, words in OPTIONS[task_id]["zeros"].items():
        options[f"{zero}|values/{what}"] = f"{evaluated} {words}"
    return options | {f"|dropout/{what}": "the result in training mode"}


def subject_of(task: GradedTask, source: str, rng: random.Random) -> dict[str, Any]:
    """What may be asked about a function, as JSON has it; InputError where it is not there."""
    function, seed = Function(task, source), rng.randrange(10_000)
    while make_inputs(seed)["bert.attention/inputs/mask"].shape[-1] in (3, 6, 7):
        seed += 1  # until the length of the sentences is not another size, too
    inputs, made = in_words(task.id, seed), make_inputs(seed)
    sentences, tokens = made["classifier.forward/inputs/input_ids"].shape
    classes = {"classes": len(made["weights/head.bias"])} if task.id == "classifier.forward" else {}
    edits = [edit for edit in function.edits() if edit.about in SUBJECTS]
    lines = {*range(function.first, function.node.end_lineno + 1)}
    for node in ast.walk(function.node):  # texts alone, such as the docstring, may tell shapes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= {*range(node.lineno, node.end_lineno + 1)}
    return {
        "task": task.id,
        "source": source,
        "seed": seed,
        "edits": [asdict(edit) for edit in in_turns(edits, rng)[:MOST_EDITS]],
        "names": function.names,
        "code": [(n, function.bare[n - 1]) for n in sorted(lines) if function.bare[n - 1].strip()],
        "sizes": {"sentences": sentences, "tokens": tokens, **classes},
        "given": f"{inputs}. {GIVEN}" if inputs else OF_ADAMW,
    }


def numbers_if_right(subject: Mapping[str, Any]) -> tuple[dict[str, Tensor], str]:
    """The numbers of a function that its check finds right; and why nothing is asked, if not.

    Reasons hold for right functions only, and so for one whose run calls none but right ones.
    """
    for task in map(graded_task, (subject["task"], *CALLED.get(subject["task"], ()))):
        if (status := jobs.run(task.id).status) != "ok":
            status = status.replace("waits", "not checked yet")
            return {}, f"{task.check} finds that {task.function} is {status}"
    return numbers(subject), "there is nothing to ask about it"


def numbers(subject: Mapping[str, Any]) -> dict[str, Tensor]:
    """What ``run`` gives of a function as it is (0|…), and with each edit (1|…, 2|…).

    Also the last values of the function's variables (variables|…), in its first call.
    """
    task, variables = graded_task(subject["task"]), {}
    edits = [Edit(**edit) for edit in subject["edits"]]

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code.co_qualname == task.function and not variables:
            values = {n: v for n, v in frame.f_locals.items() if isinstance(v, Tensor)}
            variables.update({f"variables|{n}": v.detach() for n, v in values.items()})

    made = versions(task, subject["source"], edits, subject["seed"])
    sys.setprofile(note)
    runs = [next(made)]
    sys.setprofile(None)
    named = {f"{n}|{name}": x for n, run in enumerate([*runs, *made]) for name, x in run.items()}
    return named | variables if runs[0] else {}


def versions(
    task: GradedTask, source: str, edits: Sequence[Edit], seed: int
) -> Iterator[dict[str, Tensor]]:
    """What ``run`` gives of a file's function, then with each edit; nothing where that raises."""
    for text in (source, *(edit.of(source) for edit in edits)):
        made = {}
        with contextlib.suppress(Exception, SystemExit), installed_source(task.file, text):
            made = run(task.id, seed)
        yield made


def run(task_id: str, seed: int) -> dict[str, Tensor]:
    """What the function that is installed computes on random inputs, one of which may be 0.

    Outputs are named zero|output. One without numbers raises; a gradient that is None is 0.
    """
    inputs, task, made = make_inputs(seed), task_of(WHOLE_LAYER.get(task_id, task_id)), {}
    ignored = warnings.catch_warnings(action="ignore")  # of what edits do
    with default_dtype(torch.float64), FixedDropout(), ignored:
        for zero in ("", *OPTIONS.get(task_id, {}).get("zeros", ())):
            changed = {zero: torch.zeros_like(inputs[zero])} if zero else {}
            for name, output in task.run(inputs | changed).items():
                is_missing = output is None and name.startswith("gradients/")
                made[f"{zero}|{name}"] = torch.zeros(()) if is_missing else output.detach()
    return made


def questions_of(
    subject: Mapping[str, Any], numbers: Mapping[str, Tensor], rng: random.Random
) -> list[Question]:
    """Questions about a function, their kinds round-robin, one for a subject in the same lines."""
    runs: Runs = defaultdict(dict)
    for key, number in numbers.items():
        head, _, name = key.partition("|")
        runs[head][name] = number
    made = [
        [q for x in kind(subject, runs) if (q := question(subject["task"], *x, rng))]
        for kind in rng.sample([changes, shapes, gradients], 3)
    ]
    first: dict[tuple[str, str], Question] = {}
    for each in round_robin(made):
        first.setdefault((each.place, each.about), each)
    return [*first.values()]


def question(
    task_id: str, about: str, why: str, text: str, claims: Claims, rng: random.Random
) -> Question | None:
    """A question with four of these options, one of them true; None where there are too few."""
    true = [option for option, is_true in claims.items() if is_true]
    false = [option for option, is_true in claims.items() if not is_true]
    if not true or len(false) < 3:
        return None
    right = rng.choice(true)
    options = rng.sample([right, *rng.sample(false, 3)], 4)
    return Question(task_id, about, text, tuple(options), options.index(right), why)


def choose(groups: Sequence[Sequence[Question]], count: int) -> list[Question]:
    """So many questions of all groups, one group a function, evenly over lines and subjects."""
    every = [question for group in groups for question in group]
    repeats: dict[Question, int] = {}  # how many come before that are alike
    so_far: Counter[str] = Counter()
    for question in round_robin(groups):
        alike = question.about, question.place
        repeats[question] = sum(so_far[key] for key in alike)
        so_far.update(alike)
    return sorted(sorted(repeats, key=repeats.get)[:count], key=every.index)


def changes(subject: Mapping[str, Any], runs: Runs) -> Asked:
    """What an edit changes, or what it does not change."""
    for version, edit in enumerate(subject["edits"], start=1):
        before, after = runs["0"], runs[f"{version}"]
        claims = {
            option: is_close(after[key], before[key], TOLERANCE)
            for key, option in options_of(subject["task"]).items()
            if key in before and key in after
        }
        for wanted, verb in ((False, "changes"), (True, "stays the same")):
            asked = {option: same is wanted for option, same in claims.items()}
            text = f"Suppose {Edit(**edit)}. Which of these {verb}?"
            yield edit["about"], reason(edit["about"], asked), text, asked


def shapes(subject: Mapping[str, Any], runs: Runs) -> Asked:
    """What shape the first variable of that shape has in the end, where no input has it."""
    values = runs["variables"]
    shape_of = {n: tuple(values[n].shape) for n in subject["names"] if n in values}
    whose = SIZES | {size: name for name, size in subject["sizes"].items()}
    for name, size in {s: (n, s) for n, s in reversed(shape_of.items())}.values():
        if 1 < len(size) < 5 and size[0] in subject["sizes"].values():
            axes = range(1, len(size))
            others = [(*size[:i], n, *size[i + 1 :]) for i in axes for n in whose]
            others += [(size[0], *axes) for axes in itertools.permutations(size[1:])]
            others += [s for s in shape_of.values() if len(s) > 1]
            claims = {f"{s}": s == size for s in (*others, size)}
            axes_in_words = ", ".join(f"{n} {whose.get(n, '')}".strip() for n in size)
            if f"{size}" not in subject["given"]:
                text = f"What is the shape of `{name}` when the function returns?"
                yield "a shape", f"Its axes: {axes_in_words}.", text, claims


def reason(about: str, claims: Claims) -> str:
    """Why options are true or not: by what exactly the true ones, or the others, have in common."""
    true = {option for option, is_true in claims.items() if is_true}
    for entry in SUBJECTS.values():
        for pattern in entry.get("separates", ()):
            if {o for o in claims if re.search(pattern, o)} in (true, claims.keys() - true):
                return " ".join(entry["says"].split())
    return " ".join(SUBJECTS[about]["says"].split())


def gradients(subject: Mapping[str, Any], runs: Runs) -> Asked:
    """Which of three inputs or parameters get a gradient, after an edit that matters."""
    names = under(f"{subject['task']}/gradients/", load_references())
    places = [name for name in names if "feed-forward" not in name]
    keys = {f"`{name.removesuffix(PLACE)}`": f"|gradients/{name}" for name in places}
    for version, edit in enumerate(subject["edits"], start=1):
        before, after = (
            {name: run[key].abs().max().item() for name, key in keys.items() if key in run}
            for run in (runs["0"], runs[f"{version}"])
        )
        clear = [n for n in after if n in before and (after[n] == 0 or 1e-6 < after[n] < 1e30)]
        lost = [name for name in clear if (before[name] > 0) != (after[name] > 0)]
        three = sorted([*lost[:2], *(name for name in clear if name not in lost)][:3])
        if lost and len(three) == 3:
            sets = [s for n in range(4) for s in itertools.combinations(three, n)]
            right = tuple(name for name in three if after[name] > 0)
            claims = {", ".join(s) or "none": s == right for s in sets}
            text = f"Suppose {Edit(**edit)}. A loss is computed from the result. "
            text += f"Which of {', '.join(three)} get a gradient other than 0?"
            more = " detach() ends one such path and leaves the others."
            why = reason("gradient", claims) + more * ("detach()" in edit["text"])
            yield "a gradient", why, text, claims
