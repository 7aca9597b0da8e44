"""Questions about a student's function, in three steps of which only the second runs its code.

``subject_of`` reads from the text alone what may be asked; ``numbers`` runs the function, and gives
numbers and no text; ``questions_of`` puts both into words. Of four options exactly one is true.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import itertools
import random
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from checks.compare import TOLERANCES, differing, factor_of, is_close
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.edits import Edit, Function, in_turns, installed_source
from checks.inputs import in_words, make_inputs
from checks.known import find, load_table
from checks.part1.adamw_cases import CASES, run_case
from checks.references import load_references
from checks.task import Outputs, outputs_of, task_of

PLACE = " (after attention)"  # of add_norm, which is also run after the feed-forward network
RESULTS = {  # what the outputs of a task's run call the result
    "bert.attention": "context",
    "bert.add_norm": f"result{PLACE}",
    "bert.layer": "result",
    "bert.embed": "embeddings",
    "classifier.forward": "logits",
}
ZEROS = {  # (task, input that is 0 in one more run) → in words
    ("bert.attention", "bert.attention/inputs/key"): "where all keys are 0",
    ("bert.attention", "bert.attention/inputs/query"): "where all queries are 0",
    ("bert.attention", "bert.attention/inputs/mask"): "without padding",
    ("bert.add_norm", "bert.add_norm/inputs/input"): "where `input` is 0",
    ("bert.add_norm", "bert.add_norm/inputs/attended"): "where `output` is 0",
    ("bert.layer", "bert.layer/inputs/hidden"): "where `hidden_states` is 0",
    ("bert.layer", "bert.layer/inputs/mask"): "without padding",
    ("bert.embed", "weights/pos_embedding.weight"): "where all position embeddings are 0",
    ("bert.embed", "weights/tk_type_embedding.weight"): "where all segment embeddings are 0",
    ("classifier.forward", "classifier.forward/inputs/last_hidden_state"): "where BERT returns 0",
    ("classifier.forward", "weights/head.bias"): "where the bias of the linear layer is 0",
}
WHOLE_LAYER = {"bert.layer": "bert.layer, whole"}  # with the student's own attention and add_norm
MOST_EDITS = 15  # of a function
MISTAKE = "a mistake"  # what a question may be about
GIVEN = "There is padding in the batch, and weights and biases are random, unless said otherwise."
OF_ADAMW = "A run has ten steps with lr=0.05 and no weight decay, unless said otherwise."
TOLERANCE = TOLERANCES[torch.float64]
Numbers = Mapping[str, Tensor]
Asked = Iterator[tuple[str, str, dict[str, tuple[bool, str]]]]  # about, text, option → true, why


@dataclass(frozen=True)
class Question:
    """Four options, of which exactly one is true, and why, where that can be said."""

    task: str  # its id
    about: str
    text: str
    options: tuple[str, ...]
    reasons: tuple[str, ...]
    key: int


def options_of(task_id: str) -> dict[str, tuple[str, str]]:
    """What an edit may change, in words: an output of the task's run, and the input that is 0."""
    if task_id == "optimizer.step":
        return {f"the run: {case.about}": (case.output, "") for case in CASES}
    values, dropout = (f"{kind}/{RESULTS[task_id]}" for kind in ("values", "dropout"))
    runs = {"in evaluation mode": (values, ""), "in training mode": (dropout, "")}
    runs |= {words: (values, zero) for (task, zero), words in ZEROS.items() if task == task_id}
    return {f"the result {words}": run for words, run in runs.items()}


def subject_of(task: GradedTask, source: str, rng: random.Random) -> dict[str, Any]:
    """What may be asked about a function, as JSON has it; InputError where it is not there."""
    function, seed = Function(task, source), rng.randrange(10_000)
    inputs, top = in_words(task.id, seed), function.node.body[0]
    is_docstring = ast.get_docstring(function.node) is not None
    docstring = range(top.lineno, top.end_lineno + 1) if is_docstring else ()
    lines = enumerate((re.split(r"(?:^|  ) *#", x)[0].rstrip() for x in function.lines), start=1)
    own = range(function.first, function.node.end_lineno + 1)
    return {
        "task": task.id,
        "source": source,
        "seed": seed,
        "edits": [asdict(edit) for edit in in_turns(function.edits(), rng)[:MOST_EDITS]],
        "first": function.first,
        "names": function.names,
        "code": [(n, x) for n, x in lines if x and n in own and n not in docstring],
        "given": f"{inputs}. {GIVEN}" if inputs else OF_ADAMW,
    }


# ---------------------------------------------------------------------------------------------
# Runs


def numbers(subject: Mapping[str, Any]) -> dict[str, Tensor]:
    """What a function computes as it is (version 0) and with each edit that does not raise.

    version|option              an output
    version|option|variable     its last value on the way to that output
    version|gradient|name       the largest number of a gradient
    stored|output               of the stored inputs, which tell known mistakes
    """
    task, lines, made = graded_task(subject["task"]), subject["source"].split("\n"), {}
    for version, edit in enumerate([None, *subject["edits"]]):
        source = "\n".join(Edit(**edit).of(lines) if edit else lines)
        with contextlib.suppress(Exception, SystemExit), installed_source(task.file, source):
            made |= {f"{version}|{name}": x for name, x in run(task, subject["seed"]).items()}
            stored = {} if edit else outputs_of(task.id)
            made |= {f"stored|{name}": output for name, output in stored.items()}
    return made


def run(task: GradedTask, seed: int) -> dict[str, Tensor]:
    """What the function that is installed computes: outputs, variables, gradients."""
    options, variables, made = [*options_of(task.id).values()], {}, {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code.co_qualname == task.function:
            values = {n: v for n, v in frame.f_locals.items() if isinstance(v, Tensor | float)}
            variables.update({n: torch.as_tensor(v).detach().clone() for n, v in values.items()})

    ignored = warnings.catch_warnings(action="ignore")  # of what edits do
    with default_dtype(torch.float64), FixedDropout(), ignored, contextlib.ExitStack() as ended:
        ended.callback(sys.setprofile, None)
        sys.setprofile(note)
        for zero, outputs in steps_of(task.id, seed):
            for name, output in outputs.items():
                if (name, zero) in options:
                    n = options.index((name, zero))
                    made[f"{n}"] = output.detach()
                    made |= {f"{n}|{variable}": value for variable, value in variables.items()}
                elif name.startswith("gradients/") and not zero:
                    size = torch.zeros(()) if output is None else output.abs().max()
                    made[name.replace("gradients/", "gradient|")] = size
            variables.clear()
    return made


def steps_of(task_id: str, seed: int) -> Iterator[tuple[str, Outputs]]:
    """The steps of a task's run on random inputs; and again with each input that may be 0."""
    if task_id == "optimizer.step":
        adamw = importlib.import_module("optimizer").AdamW
        yield from (("", {case.output: run_case(adamw, case)}) for case in CASES)
        return
    inputs, task = make_inputs(seed), task_of(WHOLE_LAYER.get(task_id, task_id))
    for zero in ("", *(zero for about, zero in ZEROS if about == task_id)):
        changed = {zero: torch.zeros_like(inputs[zero])} if zero else {}
        yield from ((zero, outputs) for outputs in task.steps(inputs | changed))


# ---------------------------------------------------------------------------------------------
# Questions


def questions_of(
    subject: Mapping[str, Any], numbers: Numbers, rng: random.Random
) -> Iterator[Question]:
    """All questions about a function, the kinds in turns, each about another edit."""
    asked, kinds = set(), (mistakes, changes, shapes, gradients)
    made = itertools.zip_longest(*(kind(subject, numbers, rng) for kind in kinds))
    for about, text, claims in (question for row in made for question in row if question):
        true, false = (
            [o for o, (is_true, _) in claims.items() if is_true is x] for x in (True, False)
        )
        edit = text.split(". ")[0]
        if true and len(false) >= 3 and edit not in asked:
            asked.add(edit)
            right = rng.choice(true)
            options = rng.sample([right, *rng.sample(false, 3)], 4)
            reasons = tuple(claims[option][1] for option in options)
            key = options.index(right)
            yield Question(subject["task"], about, text, tuple(options), reasons, key)


def choose(groups: Sequence[Sequence[Question]], count: int) -> list[Question]:
    """So many questions: those about mistakes, two of each function while that is enough, others.

    Args:
        groups: of each function its questions.
    """
    every = [question for group in groups for question in group]
    first = [question for question in every if question.about == MISTAKE]
    order = dict.fromkeys([*first, *(q for group in groups for q in group[:2]), *every])
    return sorted([*order][:count], key=every.index)


def mistakes(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """Which of the known mistakes the function makes."""
    outputs = {k.partition("|")[2]: v for k, v in numbers.items() if k.startswith("stored|")}
    found = {mistake.name for mistake in find(subject["task"], outputs)[0]} if outputs else set()
    known = load_table(subject["task"]).mistakes.values() if found else ()
    text = "The function does not compute what the task asks. What is true of it?"
    yield MISTAKE, text, {m.says: (m.name in found, m.hint * (m.name in found)) for m in known}


def changes(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """What an edit changes, or what it does not change."""
    for version, edit in enumerate(subject["edits"], start=1):
        claims = {}
        for n, option in enumerate(options_of(subject["task"])):
            if f"0|{n}" in numbers and f"{version}|{n}" in numbers:
                claims[option] = difference(subject, numbers, n, version)
        for wanted, verb in rng.sample([(False, "changes"), (True, "stays the same")], 2):
            asked = {option: (same is wanted, why) for option, (same, why) in claims.items()}
            yield edit["about"], f"Suppose {Edit(**edit)}. Which of these {verb}?", asked


def difference(
    subject: Mapping[str, Any], numbers: Numbers, option: int, version: int
) -> tuple[bool, str]:
    """Whether an edit leaves an output as it is; the first value that changes on the way to it."""
    keys = {f"`{n}` (line {line})": f"|{n}" for n, line in subject["names"].items()}
    pairs = {}
    for words, end in (keys | {"the result": ""}).items():
        before, after = (numbers.get(f"{v}|{option}{end}") for v in (0, version))
        if before is not None and after is not None and not is_close(after, before, TOLERANCE):
            pairs[words] = before, after
    is_same = "the result" not in pairs
    for words, (before, after) in pairs.items():
        return is_same, f"{words} {told(before, after)}{', but the result is the same' * is_same}"
    return True, f"line {subject['edits'][version - 1]['first']} computes the same there"


def told(before: Tensor, after: Tensor) -> str:
    """How a value differs: its shape, a factor, or the first number that is another one."""
    if before.shape != after.shape:
        return f"has the shape {tuple(after.shape)} instead of {tuple(before.shape)}"
    if (factor := factor_of(after, before)) is not None:
        return f"is {factor:.3g} times what it was"
    place = differing(after, before, TOLERANCE).nonzero()[0].tolist()
    old, new = (value[tuple(place)].item() for value in (before, after))
    return f"is {new:.3g} instead of {old:.3g}{f' at {place}' if place else ''}"


def shapes(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """What shape a variable has in the end, where neither an input nor its line gives it away."""
    values = {n: v for n in subject["names"] if (v := numbers.get(f"0|0|{n}")) is not None}
    every, code = {n: tuple(v.shape) for n, v in values.items()}, dict(map(tuple, subject["code"]))
    for name in rng.sample([*values], len(values)):
        size, line = every[name], subject["names"][name]
        words = {*re.findall(r"\w+", code.get(line, ""))} - {name}
        used = {other: shape for other, shape in every.items() if other in words}
        if 1 < len(size) < 5 and size not in used.values() and str(size) not in subject["given"]:
            claims = {f"{s}": (False, "another order") for s in itertools.permutations(size)}
            claims |= {f"{s}": (False, f"`{n}` has it") for n, s in every.items() if len(s) > 1}
            of = ", ".join(f"`{other}` {shape}" for other, shape in used.items())
            claims[f"{size}"] = True, f"line {line} makes it{' of ' * bool(of)}{of}"
            yield "a shape", f"What is the shape of `{name}` when the function returns?", claims


def gradients(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """Which of three inputs or parameters get a gradient, after an edit that matters."""
    start = f"{subject['task']}/gradients/"
    names = [n.removeprefix(start) for n in load_references() if n.startswith(start)]
    keys = {n.removesuffix(PLACE): f"|gradient|{n}" for n in names if "feed-forward" not in n}
    for version, edit in enumerate(subject["edits"], start=1):
        before, after = (
            {n: numbers[v + key].item() for n, key in keys.items() if v + key in numbers}
            for v in ("0", f"{version}")
        )
        lost = [n for n in after if n in before and (after[n] > 0) != (before[n] > 0)]
        others = [n for n in after if n not in lost and not 0 < after[n] < 1e-6]
        if lost and len(others) >= 2:
            three = rng.sample([rng.choice(lost), *rng.sample(others, 2)], 3)
            sizes = {f"`{n}`": after[n] for n in three}
            sets = [s for n in range(4) for s in itertools.combinations(sizes, n)]
            right = tuple(name for name, size in sizes.items() if size > 0)
            why = f"the largest numbers: {', '.join(f'{n} {x:.2g}' for n, x in sizes.items())}"
            claims = {", ".join(s) or "none": (s == right, why * (s == right)) for s in sets}
            text = f"Suppose {Edit(**edit)}. A loss is computed of the result. "
            text += f"Which of {', '.join(sizes)} get a gradient other than 0?"
            yield "a gradient", text, claims
