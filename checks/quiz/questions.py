"""The quiz in three steps: what may be asked, from a function's text alone; numbers, from runs.py
in the process that runs the student's code; questions, from both. Only the second runs code.

There are three kinds of questions: what shape a value has, where an edit changes the result, and
what has a gradient. Of four options exactly one is true.
"""

from __future__ import annotations

import ast
import io
import itertools
import random
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from checks.graded_tasks import GradedTask, graded_task
from checks.hunt.edits import Edit, Function, in_turns
from checks.quiz.facts import SAME, differ, reason, traced

MOST_EDITS = 14  # of a function
MODES = {"in evaluation mode": {}, "in training mode": {"training": True}}
PADDED = {"where the last token of each sentence is padding": {"padding": 1}}
ONE_TOKEN = {"for sentences of one token": {"length": 1}}
SITUATIONS: dict[str, dict[str, dict[str, Any]]] = {  # in words, and what the run gets
    "bert.attention": MODES
    | PADDED
    | ONE_TOKEN
    | {f"where all {names} are 0": {"zero": name} for name, names in (("key", "keys"), ("query", "queries"))}
    | {"for heads of width 1": {"width": 1}},
    "bert.add_norm": MODES | {f"where `{name}` is 0": {"zero": name} for name in ("input", "output")},
    "bert.layer": MODES | PADDED | ONE_TOKEN,
    "bert.embed": MODES
    | ONE_TOKEN
    | {"where the ids come in reverse order": {"reverse": True}}
    | {"where all `token_type_ids` are 1": {"segments": True}},
    "classifier.forward": MODES | PADDED | ONE_TOKEN,
    "classifier.init": {f"with option='{o}'": {"option": o} for o in ("finetune", "pretrain")},
    "optimizer.step": {
        "after two steps": {},
        "after the first step": {"gradients": (2.0,)},
        "with weight_decay=0.5": {"weight_decay": 0.5},
        "with correct_bias=False": {"correct_bias": False},
        "with betas=(0, 0)": {"betas": (0.0, 0.0)},
        "with eps=0": {"eps": 0.0},
        "with lr=0": {"lr": 0.0},
        "where both gradients are 0": {"gradients": (0.0, 0.0)},
    },
}
RESULT = "the result"
HEADS = ("predict_sentiment", "predict_paraphrase", "predict_similarity")
USUAL = {"padding": 0, "training": False, "option": "finetune", "zero": "", "reverse": False}
USUAL |= {"segments": False, "settings": {}}


@dataclass(frozen=True)
class Question:
    """Four options, of which exactly one is true, and what came out for each."""

    task: str  # its id
    kind: str
    text: str
    options: tuple[str, ...]
    reasons: tuple[str, ...]
    key: int
    why: str = ""


# ---------------------------------------------------------------------------------------------
# What may be asked, from a function's text


def subject_of(task: GradedTask, source: str, rng: random.Random) -> dict[str, Any]:
    """What may be asked about a function, as JSON has it; InputError where there is none."""
    function = Function(task, source)
    heads, length, width = rng.sample((3, 4, 5, 6), 3)
    inner, labels = rng.sample([n for n in range(7, 14) if n != heads * width], 2)
    ids = [rng.sample(range(1, 10), length) for _ in range(2)]
    sizes = {"heads": heads, "length": length, "width": width, "inner": inner, "labels": labels}
    situations = situations_of(task.id)
    return {
        "task": task.id,
        "source": source,
        "sizes": USUAL | sizes | {"ids": ids},
        "situations": situations,
        "edits": [asdict(edit) for edit in in_turns(function.edits(), rng)[:MOST_EDITS]],
        "range": (function.first, function.node.end_lineno),
        "names": function.names,
        "code": shown(function),
        "given": given(task, heads, length, width, inner, labels, ids),
    }


def situations_of(task_id: str) -> dict[str, dict[str, Any]]:
    """In which situations a task's function is run."""
    made = SITUATIONS.get(task_id, {})
    if task_id == "optimizer.step":
        return {text: {"settings": settings} for text, settings in made.items()}
    if task_id.startswith("multitask"):
        name = task_id.partition(".")[2]
        methods = HEADS if name == "init" else (name,)
        pairs = itertools.product(methods, ("finetune", "pretrain"))
        return {f"of `{m}`, with option='{o}'": {"method": m, "option": o} for m, o in pairs}
    return made


def shown(function: Function) -> list[tuple[int, str]]:
    """The function's lines with their numbers, without docstring, comments and empty lines."""
    lines = list(function.lines)
    text = io.StringIO("\n".join(lines)).readline
    for token in tokenize.generate_tokens(text):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    first, last, top = function.first, function.node.end_lineno, function.node.body[0]
    hidden = range(0)
    if ast.get_docstring(function.node) is not None:
        hidden = range(top.lineno, top.end_lineno + 1)
    numbers = (n for n in range(first, last + 1) if n not in hidden)
    return [(n, lines[n - 1]) for n in numbers if lines[n - 1].strip()]


def given(
    task: GradedTask, heads: int, length: int, width: int, inner: int, labels: int, ids: list
) -> str:
    """What the function gets, in a sentence or two."""
    tokens, hidden = f"(2, {length}", heads * width
    mask = f"`attention_mask` of shape (2, 1, 1, {length})"
    modes = "It runs in evaluation mode and without padding, unless said otherwise; dropout is 0.5."
    gets = {
        "bert.attention": f"`key`, `query` and `value` of shape (2, {heads}, {length}, {width}), "
        f"and {mask}",
        "bert.add_norm": f"`input` of shape {tokens}, {hidden}) and `output` of shape {tokens}, "
        f"{inner}); `dense_layer` makes {hidden} numbers of {inner}, its biases are 0",
        "bert.layer": f"`hidden_states` of shape {tokens}, {hidden}) and {mask}; there are {heads} "
        f"heads, and the intermediate size is {inner}",
        "bert.embed": f"`input_ids` = {ids}; the hidden size is {hidden}",
        "classifier.init": f"num_labels={labels} and hidden_size={hidden}, among others",
        "classifier.forward": f"`input_ids` and `attention_mask` of shape {tokens}); the hidden "
        f"size is {hidden}, and there are {labels} classes",
        "optimizer.step": "one parameter that is 1, with lr=0.1, betas=(0.5, 0.75), eps=0.1, "
        "weight_decay=0, and gradients of 2 and then −1.5, unless said otherwise",
    }
    if task.id not in gets:
        return f"`{task.function}` is in evaluation mode."
    return f"`{task.function}` gets {gets[task.id]}. " + modes * task.id.startswith(("bert", "classifier.f"))


# ---------------------------------------------------------------------------------------------
# Questions, from numbers

Numbers = Mapping[str, Tensor]
Claims = Mapping[str, tuple[bool, str]]  # option → whether it is true, and the reason


def choose(
    subject: Mapping, kind: str, text: str, claims: Claims, rng: random.Random, why: str = ""
) -> Question | None:
    """The question with one true claim and three others; None where there are too few."""
    true = [option for option, (holds, _) in claims.items() if holds]
    false = [option for option, (holds, _) in claims.items() if not holds]
    if not true or len(false) < 3:
        return None
    right = rng.choice(true)
    options = rng.sample([right, *rng.sample(false, 3)], 4)
    reasons = tuple(claims[option][1] for option in options)
    return Question(subject["task"], kind, text, tuple(options), reasons, options.index(right), why)


def shapes(subject: Mapping, numbers: Numbers, rng: random.Random) -> Iterator[Question | None]:
    """What shape a variable has after a line."""
    values = traced(subject, numbers, 0, 0)
    values[1, subject["range"][1], RESULT] = numbers["0/0/result"]
    code = dict(map(tuple, subject["code"]))
    for place in rng.sample([*values], len(values)):
        size, (time, line, name) = tuple(values[place].shape), place
        earlier = {k[2]: tuple(v.shape) for k, v in values.items() if k[1] < line}
        used = {n: s for n, s in earlier.items() if re.search(rf"\b{n}\b", code.get(line, ""))}
        if len(size) < 2 or time != 1 or size in used.values() or str(size) in subject["given"]:
            continue
        near = {tuple(v.shape): f"`{k[2]}` has it" for k, v in values.items()}
        for version, edit in enumerate(subject["edits"], start=1):
            other = traced(subject, numbers, version, 0).get(place)
            if other is not None:
                near.setdefault(tuple(other.shape), f"so it is if {Edit(**edit)}")
        for other in itertools.permutations(size):
            near.setdefault(other, "its axes are in another order")
        claims = {str(s): (False, why) for s, why in near.items() if len(s) > 1}
        before = ", ".join(f"`{n}` {s}" for n, s in used.items())
        claims[str(size)] = True, f"line {line} makes it of {before}"
        where = name if name == RESULT else f"`{name}` after line {line}"
        text = f"What is the shape of {where}?"
        yield choose(subject, f"shape {name}", text, claims, rng)


def changes(subject: Mapping, numbers: Numbers, rng: random.Random) -> Iterator[Question | None]:
    """Where an edit changes the result, or where it does not."""
    for version, edit in enumerate(subject["edits"], start=1):
        claims = {}
        for n, situation in enumerate(subject["situations"]):
            pair = [numbers.get(f"{v}/{n}/result") for v in (0, version)]
            if pair[0] is None:
                continue
            is_other = differ(*pair) if pair[1] is not None else None
            if is_other is None:
                break
            claims[situation] = is_other, reason(subject, numbers, version, n)
        else:
            for changes in rng.sample((True, False), 2):
                words = "does the result change" if changes else "is the result the same as before"
                asked = {o: (holds is changes, why) for o, (holds, why) in claims.items()}
                text = f"Suppose {Edit(**edit)}. Where {words}?"
                yield choose(subject, edit["about"], text, asked, rng)


def gradients(subject: Mapping, numbers: Numbers, rng: random.Random) -> Iterator[Question | None]:
    """What gets a gradient, as the function is or after an edit that matters."""
    situations = [n for n, s in enumerate(subject["situations"].values()) if not s or "option" in s]
    versions = [(0, None), *enumerate(subject["edits"], start=1)]
    for (version, edit), n in itertools.product(versions, situations):
        plain, has = (largest(numbers, f"{v}/{n}/gradient/") for v in (0, version))
        changed = [k for k in has if edit and (has[k] > SAME) != (plain.get(k, 0) > SAME)]
        if edit and not changed:
            continue
        for wanted in rng.sample((True, False), 2):
            claims = {
                f"`{name}`": ((size > SAME) is wanted, f"its largest number is {size:.2g}" if size > SAME else "it has none")
                for name, size in has.items()
                if not SAME / 1000 < size < 10 * SAME
                and (name in changed or not edit or (size > SAME) is not wanted)
            }
            suppose = f"Suppose {Edit(**edit)}. " if edit else ""
            text = (
                f"{suppose}A loss is computed from the result {[*subject['situations']][n]}. Which of "
                f"these has {'a' if wanted else 'no'} gradient other than 0 after `loss.backward()`?"
            )
            yield choose(subject, "gradient", text, claims, rng, "")


def largest(numbers: Numbers, prefix: str) -> dict[str, float]:
    """The largest number of each gradient, by name; the rows of a table each for itself."""
    made = {}
    for key, value in numbers.items():
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and value.dim():
            made |= {f"{name}[{row}]": float(size) for row, size in enumerate(value.tolist())}
        elif key.startswith(prefix):
            made[name] = float(value)
    return made
