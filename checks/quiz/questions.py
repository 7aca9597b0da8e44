"""Questions about a student's function, in three steps of which only the second runs its code.

``subject_of`` says what may be asked, from the text alone; runs.py makes numbers of that;
``questions_of`` puts both into words. Of four options exactly one is true.
"""

from __future__ import annotations

import ast
import io
import itertools
import random
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from checks.compare import TOLERANCES, is_close
from checks.graded_tasks import GradedTask
from checks.hunt.edits import Edit, Function, in_turns
from checks.inputs import in_words, make_inputs
from checks.known import find, load_table
from checks.part1.adamw_cases import CASES
from checks.quiz.reasons import reason, variables
from checks.quiz.runs import ways_of
from checks.references import load_references

MOST_EDITS, MOST_OF_ATTENTION = 20, 10  # of a function; attention has the largest tensors
ZEROS = {  # variations of the inputs: in words, and which input is 0
    "bert.attention": {
        "where all keys are 0": "key",
        "where all queries are 0": "query",
        "without padding": "mask",
    },
    "bert.add_norm": {"where `input` is 0": "input", "where `output` is 0": "attended"},
    "bert.layer": {"where `hidden_states` is 0": "hidden", "without padding": "mask"},
    "classifier.forward": {"where BERT's last hidden states are 0": "last_hidden_state"},
}
WORDS = {  # an output as an option, by its kind
    "values": "{} in evaluation mode",
    "dropout": "{} in training mode",
    "padding": "how much the padding influences {}",
}
OURS = re.compile(r"^(context|result|embeddings|logits)\b")  # what the checks call the result
MISTAKE = "a mistake"  # what a question may be about
PLACE = " (after attention)"  # of add_norm, where it is also run after the feed-forward network
GIVEN = "There is padding in the batch, and weights and biases are random, unless said otherwise."
OF_ADAMW = "A run has ten steps with lr=0.05 and no weight decay, unless said otherwise."
CLEAR = 1e-6  # what a gradient is above that is not 0 by rounding only
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


def subject_of(task: GradedTask, source: str, rng: random.Random) -> dict[str, Any]:
    """What may be asked about a function, as JSON has it; InputError where it is not there."""
    function, seed = Function(task, source), rng.randrange(10_000)
    while make_inputs(seed)["bert.attention/inputs/mask"].shape[-1] in (3, 6, 7):
        seed += 1  # until the length of the sentences is not another size, too
    most = MOST_OF_ATTENTION if task.id == "bert.attention" else MOST_EDITS
    inputs, is_adamw = in_words(task.id, seed), task.id == "optimizer.step"
    return {
        "task": task.id,
        "source": source,
        "seed": seed,
        "zeros": ZEROS.get(task.id, {}),
        "edits": [asdict(edit) for edit in in_turns(function.edits(), rng)[:most]],
        "range": (function.first, function.node.end_lineno),
        "names": [part.id for part in ast.walk(function.node) if isinstance(part, ast.Name)],
        "words": sorted({*re.findall(r"\w+", f"{source} {' '.join(load_references())}")}),
        "code": shown(function),
        "given": f"{inputs}. {GIVEN}" if inputs else OF_ADAMW * is_adamw,
    }


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


def choose(
    groups: Sequence[Sequence[Question]], count: int, sizes: tuple[int, ...]
) -> list[Question]:
    """So many questions, each about another edit, and about another subject while there is one.

    Args:
        groups: of each function its questions; the first functions are asked about first.
        sizes: how many of each function, in one round after the other.
    """
    chosen: list[Question] = []
    wrong = [[q] for group in groups for q in group if q.about == MISTAKE]
    for group in (g for size in sizes for g in [*wrong, *groups] for _ in range(size)):
        edits, abouts = {q.text.split(". ")[0] for q in chosen}, {q.about for q in chosen}
        new = [q for q in group if q.text.split(". ")[0] not in edits and q not in chosen]
        new = [q for q in new if q.about not in abouts] or new
        chosen += new[:1] * (len(chosen) < count)
    return sorted(chosen, key=lambda question: [q for g in groups for q in g].index(question))


# ---------------------------------------------------------------------------------------------
# The kinds


def mistakes(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """Which of the known mistakes the function makes."""
    outputs = {k.partition("|")[2]: v for k, v in numbers.items() if k.startswith("stored|")}
    found = {mistake.name for mistake in find(subject["task"], outputs)[0]} if outputs else set()
    known = load_table(subject["task"]).mistakes.values() if found else ()
    text = "The function does not compute what the task asks. What is true of it?"
    yield MISTAKE, text, {m.says: (m.name in found, m.hint * (m.name in found)) for m in known}


def changes(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """What an edit changes, or what it does not change."""
    variations = ["", *subject["zeros"]]
    for version, edit in enumerate(subject["edits"], start=1):
        claims = {}
        for key, before in numbers.items():
            head, _, output = key.partition("|")
            after = numbers.get(key.replace("0/", f"{version}/", 1))
            if not head.startswith("0/") or after is None or before is None:
                continue
            if option := option_of(subject["task"], output, variations[int(head[2:])]):
                is_same = is_close(after, before, TOLERANCES[torch.float64])
                claims[option] = is_same, reason(subject, numbers, key, version, is_same)
        for wanted, verb in rng.sample([(False, "changes"), (True, "stays the same")], 2):
            asked = {option: (same is wanted, why) for option, (same, why) in claims.items()}
            yield edit["about"], f"Suppose {Edit(**edit)}. Which of these {verb}?", asked


def option_of(task_id: str, output: str, variation: str) -> str:
    """An output as an option; "" where it is none."""
    kind, _, what = output.partition("/")
    if task_id == "optimizer.step":
        abouts = {case.output: f"the run: {case.about}" for case in CASES}
        return abouts.get(output, "")
    what = what.replace(PLACE, "").replace("pieces", "tokens")
    is_one = kind in WORDS and OURS.match(what) and "|" not in what and "feed-forward" not in what
    if not is_one or (kind == "padding" and task_id != "bert.attention"):
        return ""
    if variation and (kind != "values" or not OURS.fullmatch(what)):
        return ""
    return f"{WORDS[kind].format(OURS.sub('the result', what))} {variation}".strip()


def shapes(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """What shape a variable has after a line."""
    in_evaluation = (key for key in numbers if key.startswith("0/0|values/"))
    results = (key for key in in_evaluation if option_of(subject["task"], key[4:], ""))
    key = min(results, key=len, default="")
    values, code = variables(subject, numbers, key), dict(map(tuple, subject["code"]))
    for time, line, name in rng.sample([*values], len(values)):
        size, used = tuple(values[time, line, name].shape), {}
        for (_, earlier, other), value in values.items():
            if earlier < line and re.search(rf"\b{other}\b", code.get(line, "")):
                used[other] = tuple(value.shape)
        is_known = size in used.values() or str(size) in subject["given"]
        if time != 1 or not 1 < len(size) < 5 or is_known:
            continue
        near = {tuple(v.shape): f"`{other}` has it" for (*_, other), v in values.items()}
        for version, edit in enumerate(subject["edits"], start=1):
            edited = variables(subject, numbers, key.replace("0/", f"{version}/", 1))
            if (other := edited.get((time, line, name))) is not None:
                near.setdefault(tuple(other.shape), f"so it would be if {Edit(**edit)}")
        near = dict.fromkeys(itertools.permutations(size), "its axes are in another order") | near
        claims = {str(other): (False, why) for other, why in near.items() if len(other) > 1}
        of = ", ".join(f"`{other}` {shape}" for other, shape in used.items())
        claims[str(size)] = True, f"line {line} makes it{' of ' * bool(of)}{of}"
        yield "a shape", f"What is the shape of `{name}` after line {line}?", claims


def gradients(subject: Mapping[str, Any], numbers: Numbers, rng: random.Random) -> Asked:
    """Which of three inputs or parameters get a gradient, also after an edit that matters."""
    plain = largest(subject, numbers, 0)
    for version, edit in enumerate([None, *subject["edits"]]):
        for way, has in largest(subject, numbers, version).items():
            clear = {n: size > CLEAR for n, size in has.items() if size > CLEAR or size == 0}
            before = {n: size > CLEAR if edit else True for n, size in plain.get(way, {}).items()}
            told = [n for n, gets in clear.items() if n in before and gets != before[n]]
            others = [n for n, gets in clear.items() if n not in told and gets]
            if not told or not others:
                continue
            names = rng.sample(told, min(len(told), rng.choice((1, 2))))
            names += rng.sample(others, min(len(others), 3 - len(names)))
            sets = [s for n in range(len(names) + 1) for s in itertools.combinations(names, n)]
            right = tuple(name for name in names if clear[name])
            sizes = f"the largest numbers: {', '.join(f'`{n}` {has[n]:.2g}' for n in names)}"
            claims = {listed(s): (s == right, sizes * (s == right)) for s in sets}
            text = f"{f'Suppose {Edit(**edit)}. ' if edit else ''}A loss is computed of {way}. "
            text += f"Which of {listed(names)} get a gradient other than 0?"
            yield "a gradient", text, claims


def listed(names: Sequence[str]) -> str:
    """Names as a list in words."""
    *first, last = [f"`{name}`" for name in names] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def largest(
    subject: Mapping[str, Any], numbers: Numbers, version: int
) -> dict[str, dict[str, float]]:
    """Of a version: what a loss is computed of → name → the largest number of its gradient."""
    ways = [f"what `{m}` returns, with option={o!r}" for o, m in ways_of(subject["task"])]
    made: dict[str, dict[str, float]] = {way: {} for way in ["the result", *ways]}
    for key, value in numbers.items():
        head, output, *names = key.split("|")
        name = names[0] if names else output.removeprefix("gradients/").removesuffix(PLACE)
        is_known = set(re.findall(r"\w+", name)) <= set(subject["words"])  # no other text gets in
        is_one = output.isdigit() if names else output.startswith("gradients/")
        if head == f"{version}/0" and is_one and is_known and "(" not in name:
            way = ways[int(output)] if names else "the result"
            rows = enumerate(value.tolist()) if value.dim() else ()
            made[way] |= {f"{name}[{row}]": x for row, x in rows} or {name: value.item()}
    return made
