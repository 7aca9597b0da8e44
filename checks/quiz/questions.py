"""Questions about a student's function, in three steps of which only the second runs its code.

``subject_of`` reads from the text alone what may be asked; ``numbers`` runs the function, and gives
numbers and no text; ``questions_of`` puts both into words. Of four options exactly one is true.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import itertools
import random
import re
import sys
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from checks.compare import TOLERANCES, differing, factor_of, is_close
from checks.findings import ROOT
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.edits import Edit, Function, code, in_turns, installed_source
from checks.inputs import in_words, make_inputs
from checks.known import find, load_table
from checks.part1.adamw_cases import CASES, run_case
from checks.references import load_references
from checks.task import Outputs, outputs_of, task_of

RESULTS = {  # of a task's run: the result; and inputs that are 0 in one more run each
    "bert.attention": (
        "context",
        {
            "where all keys are 0": "bert.attention/inputs/key",
            "where all queries are 0": "bert.attention/inputs/query",
            "without padding": "bert.attention/inputs/mask",
        },
    ),
    "bert.add_norm": (
        "result (after attention)",
        {
            "where `input` is 0": "bert.add_norm/inputs/input",
            "where `output` is 0": "bert.add_norm/inputs/attended",
        },
    ),
    "bert.layer": (
        "result",
        {
            "where `hidden_states` is 0": "bert.layer/inputs/hidden",
            "without padding": "bert.layer/inputs/mask",
        },
    ),
    "bert.embed": (
        "embeddings",
        {
            "where all position embeddings are 0": "weights/pos_embedding.weight",
            "where all segment embeddings are 0": "weights/tk_type_embedding.weight",
        },
    ),
    "classifier.forward": (
        "logits",
        {
            "where BERT's last hidden states are 0": "classifier.forward/inputs/last_hidden_state",
            "where the bias of the linear layer is 0": "weights/head.bias",
        },
    ),
}
WHOLE_LAYER = {"bert.layer": "bert.layer, whole"}  # with the student's own attention and add_norm
MOST_EDITS = 15  # of a function
MOST_CALLS = 2  # whose variables are kept, for one option
MISTAKE = "a mistake"  # what a question may be about
GIVEN = "There is padding in the batch, and weights and biases are random, unless said otherwise."
OF_ADAMW = "A run has ten steps with lr=0.05 and no weight decay, unless said otherwise."
TOLERANCE = TOLERANCES[torch.float64]
Numbers = Mapping[str, Tensor]
Claims = Mapping[str, tuple[bool, str]]  # option → whether it is true, and why
Asked = Iterator[tuple[str, str, Claims]]  # what it is about, the question, what may be options


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
    what, zeros = RESULTS[task_id]
    options = {"": (f"values/{what}", ""), "in training mode": (f"dropout/{what}", "")}
    options |= {words: (f"values/{what}", zero) for words, zero in zeros.items()}
    return {f"the result {words or 'in evaluation mode'}": run for words, run in options.items()}


# ---------------------------------------------------------------------------------------------
# From the text


def subject_of(task: GradedTask, source: str, rng: random.Random) -> dict[str, Any]:
    """What may be asked about a function, as JSON has it; InputError where it is not there."""
    function, seed = Function(task, source), rng.randrange(10_000)
    while make_inputs(seed)["bert.attention/inputs/mask"].shape[-1] in (3, 6, 7):
        seed += 1  # until the length of the sentences is not another size, too
    inputs = in_words(task.id, seed)
    return {
        "task": task.id,
        "source": source,
        "seed": seed,
        "edits": [asdict(edit) for edit in in_turns(function.edits(), rng)[:MOST_EDITS]],
        "first": function.first,
        "names": last_lines(function.node),
        "code": shown(function),
        "given": f"{inputs}. {GIVEN}" if inputs else OF_ADAMW,
    }


def last_lines(function: ast.FunctionDef) -> dict[str, int]:
    """Of each variable the last line that sets it, or whose method changes it, in their order."""
    lines = {}
    for node in ast.walk(function):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        targets = [node.value] if isinstance(node, ast.Expr) else targets
        for part in (part for target in targets for part in getattr(target, "elts", [target])):
            if part and (name := re.match(r"\(*([^\W\d]\w*)", code(part))):
                lines[name[1]] = max(node.lineno, lines.get(name[1], 0))
    return dict(sorted(lines.items(), key=lambda item: item[1]))


def shown(function: Function) -> list[tuple[int, str]]:
    """The function's lines with their numbers, without docstring, comments and empty lines."""
    lines, top = list(function.lines), function.node.body[0]
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    is_docstring = ast.get_docstring(function.node) is not None
    hidden = range(top.lineno, top.end_lineno + 1) if is_docstring else ()
    numbers = range(function.first, function.node.end_lineno + 1)
    return [(n, lines[n - 1]) for n in numbers if n not in hidden and lines[n - 1].strip()]


# ---------------------------------------------------------------------------------------------
# Runs


def numbers(subject: Mapping[str, Any]) -> dict[str, Tensor]:
    """What a function computes as it is (version 0) and with each edit that does not raise.

    version|option                  an output
    version|option|call|variable    the last value of a variable, in the first calls for it
    version|gradient|name           the largest number of a gradient
    stored|output                   of the stored inputs, which tell known mistakes
    """
    task, lines, made = graded_task(subject["task"]), subject["source"].split("\n"), {}
    for version, edit in enumerate([None, *subject["edits"]]):
        source = "\n".join(Edit(**edit).of(lines) if edit else lines)
        own, ignored = {}, warnings.catch_warnings(action="ignore")  # of what edits do
        with contextlib.suppress(Exception, SystemExit), installed_source(task.file, source):
            with default_dtype(torch.float64), FixedDropout(), ignored:
                own = {f"{version}|{name}": value for name, value in run(subject).items()}
            stored = {} if edit else outputs_of(task.id)
            made |= own | {f"stored|{name}": output for name, output in stored.items()}
    return made


def run(subject: Mapping[str, Any]) -> dict[str, Tensor]:
    """What the function that is installed computes: outputs, variables, gradients."""
    options, made = options_of(subject["task"]), {}
    with last_values(subject) as calls:
        for zero in dict.fromkeys(zero for _, zero in options.values()):
            for step in steps_of(subject, zero):
                for n, wanted in enumerate(options.values()):
                    if wanted[1] == zero and wanted[0] in step:
                        made[f"{n}"] = step[wanted[0]].detach()
                        for call, values in enumerate(calls[:MOST_CALLS]):
                            made |= {f"{n}|{call}|{name}": x for name, x in values.items()}
                for name in (name for name in step if name.startswith("gradients/") and not zero):
                    grad = torch.zeros(1) if step[name] is None else step[name]
                    made[name.replace("gradients/", "gradient|")] = grad.abs().max()
                calls.clear()
    return made


def steps_of(subject: Mapping[str, Any], zero: str) -> Iterator[Outputs]:
    """The run of a task on random inputs, of which one may be 0."""
    task_id, inputs = subject["task"], make_inputs(subject["seed"])
    if task_id == "optimizer.step":
        adamw = importlib.import_module("optimizer").AdamW
        return ({case.output: run_case(adamw, case)} for case in CASES)
    changed = {zero: torch.zeros_like(inputs[zero])} if zero else {}
    return task_of(WHOLE_LAYER.get(task_id, task_id)).steps(inputs | changed)


@contextlib.contextmanager
def last_values(subject: Mapping[str, Any]) -> Iterator[list[dict[str, Tensor]]]:
    """While active, each call of the function adds its variables' values when it returns."""
    calls: list[dict[str, Tensor]] = []
    place = str(ROOT / graded_task(subject["task"]).file), subject["first"]

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and (frame.f_code.co_filename, frame.f_code.co_firstlineno) == place:
            values = ((n, v) for n, v in frame.f_locals.items() if isinstance(v, Tensor | float))
            calls.append({n: torch.as_tensor(value).detach().clone() for n, value in values})

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


# ---------------------------------------------------------------------------------------------
# Questions


def questions_of(
    subject: Mapping[str, Any], numbers: Numbers, rng: random.Random
) -> Iterator[Question]:
    """All questions about a function, the kinds in turns."""
    kinds = [kind(subject, numbers, rng) for kind in (mistakes, changes, shapes, gradients)]
    for about, text, claims in (q for row in itertools.zip_longest(*kinds) for q in row if q):
        true = [option for option, (holds, _) in claims.items() if holds]
        false = [option for option, (holds, _) in claims.items() if not holds]
        if true and len(false) >= 3:
            right = rng.choice(true)
            options = rng.sample([right, *rng.sample(false, 3)], 4)
            reasons = tuple(claims[option][1] for option in options)
            key = options.index(right)
            yield Question(subject["task"], about, text, tuple(options), reasons, key)


def choose(groups: Sequence[Sequence[Question]], count: int) -> list[Question]:
    """So many questions, each about another edit, and about another subject while there is one.

    Args:
        groups: of each function its questions; the first functions are asked about first.
    """
    chosen: list[Question] = []
    wrong = [[q] for group in groups for q in group if q.about == MISTAKE]
    for group in (g for size in (2, count) for g in [*wrong, *groups] for _ in range(size)):
        edits, abouts = {q.text.split(". ")[0] for q in chosen}, {q.about for q in chosen}
        new = [q for q in group if q.text.split(". ")[0] not in edits and q not in chosen]
        new = [q for q in new if q.about not in abouts] or new
        chosen += new[:1] * (len(chosen) < count)
    return sorted(chosen, key=lambda question: [q for g in groups for q in g].index(question))


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
            before, after = (numbers.get(f"{v}|{n}") for v in (0, version))
            if before is not None and after is not None:
                same = is_close(after, before, TOLERANCE)
                claims[option] = same, reason(subject, numbers, n, version)
        for wanted, verb in rng.sample([(False, "changes"), (True, "stays the same")], 2):
            asked = {option: (same is wanted, why) for option, (same, why) in claims.items()}
            yield edit["about"], f"Suppose {Edit(**edit)}. Which of these {verb}?", asked


def variables(subject: Mapping[str, Any], numbers: Numbers, run: str) -> dict[str, Tensor]:
    """The variables in a run, "version|option|call", in the order of their lines."""
    values = ((name, numbers.get(f"{run}|{name}")) for name in subject["names"])
    return {name: value for name, value in values if value is not None}


def reason(subject: Mapping[str, Any], numbers: Numbers, option: int, version: int) -> str:
    """The first variable that an edit changes on the way to an output, and how."""
    pairs = {}
    for call in range(MOST_CALLS):
        before, after = (variables(subject, numbers, f"{v}|{option}|{call}") for v in (0, version))
        for name in (name for name in before if name in after):
            step = "in step 2, " if call else ""
            pairs[f"{step}`{name}` (line {subject['names'][name]})"] = before[name], after[name]
    result = numbers[f"0|{option}"], numbers[f"{version}|{option}"]
    pairs["the result"] = result
    changed = {k: pair for k, pair in pairs.items() if not is_close(*pair[::-1], TOLERANCE)}
    if not changed:
        return f"line {subject['edits'][version - 1]['first']} computes the same there"
    where, pair = next(iter(changed.items()))
    at_the_end = "" if is_close(*result[::-1], TOLERANCE) is False else ", but the result is not"
    return f"{where} {'is another' if at_the_end else told(*pair)}{at_the_end}"


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
    """What shape a variable has in the end."""
    values, code = variables(subject, numbers, "0|0|0"), dict(map(tuple, subject["code"]))
    for name in rng.sample([*values], len(values)):
        size, line = tuple(values[name].shape), subject["names"][name]
        words = re.findall(r"\w+", code.get(line, ""))
        used = {n: tuple(v.shape) for n, v in values.items() if n in words and n != name}
        if not 1 < len(size) < 5 or size in used.values() or str(size) in subject["given"]:
            continue
        claims = dict.fromkeys(map(str, itertools.permutations(size)), (False, "another order"))
        for other, value in values.items():
            if value.dim() > 1:
                claims[str(tuple(value.shape))] = False, f"`{other}` has it"
        of = ", ".join(f"`{other}` {shape}" for other, shape in used.items())
        claims[str(size)] = True, f"line {line} makes it{' of ' * bool(of)}{of}"
        yield "a shape", f"What is the shape of `{name}` when the function returns?", claims


def gradients(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """Which of three inputs or parameters get a gradient, after an edit that matters."""
    start = f"{subject['task']}/gradients/"
    names = [n.removeprefix(start) for n in load_references() if n.startswith(start)]
    for version, edit in enumerate(subject["edits"], start=1):
        sizes: dict[bool, dict[str, float]] = defaultdict(dict)  # whether the edit matters → …
        for name in names:
            before, after = (numbers.get(f"{v}|gradient|{name}") for v in (0, version))
            if before is not None and after is not None and "feed-forward" not in name:
                is_lost = bool(after == 0) is not bool(before == 0)
                sizes[is_lost][name.removesuffix(" (after attention)")] = after.item()
        lost, others = [*sizes[True]], [name for name, size in sizes[False].items() if size > 1e-6]
        if not lost or not others:
            continue
        three = rng.sample(lost, min(len(lost), rng.choice((1, 2))))
        three += rng.sample(others, min(len(others), 3 - len(three)))
        size_of = {name: (sizes[True] | sizes[False])[name] for name in three}
        right = tuple(name for name in three if size_of[name] > 0)
        why = f"the largest numbers: {', '.join(f'`{n}` {x:.2g}' for n, x in size_of.items())}"
        sets = [s for n in range(len(three) + 1) for s in itertools.combinations(three, n)]
        claims = {listed(s): (s == right, why * (s == right)) for s in sets}
        text = f"Suppose {Edit(**edit)}. A loss is computed of the result. "
        yield "a gradient", f"{text}Which of {listed(three)} get a gradient other than 0?", claims


def listed(names: Sequence[str]) -> str:
    """Names as a list in words."""
    *first, last = [f"`{name}`" for name in names] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last
