"""Judging (course/grading/judging): what is right gets all, known mistakes cost, tricks fail."""

import contextlib
import functools
import re
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from answers import put, read_all
from factories import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from made import GOLD, needs_sandbox
from scipy import stats

import prepare_submit
from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.hunt.edits import installed_source
from course.grading import batch
from course.grading.judging import canaries, hidden, judge, predictions
from course.grading.judging.predictions import Gold, load_gold, score
from course.grading.judging.submission import checks_text, verdicts_on
from course.grading.sandbox import protocol, runs
from course.grading.sandbox.context import GradingContext, open_context
from course.grading.types import NOT_COUNTED, RIGHT, WRONG, Submission, Verdict
from course.make_tables import functions
from training.files.errors import InputError

OWN = [task for task in GRADED_TASKS if task.part != 2]


def solution(part: int = 1) -> dict[str, str]:
    """Our files of a part."""
    files = {task.file for task in GRADED_TASKS if task.part == part}
    return {file: (ROOT / file).read_text(encoding="utf-8") for file in files}


def submission(files: dict[str, str], part: int = 1, sha256: str = "0") -> Submission:
    """A hand-in of these files."""
    return Submission("1_a", part, {n: t.encode() for n, t in files.items()}, sha256=sha256)


def ask_here(
    context: GradingContext, jobs: list[dict], tensors: dict[str, torch.Tensor]
) -> dict[str, protocol.Reply]:
    """As protocol.ask, without a sandbox: for code that we know."""
    answers = {}
    for job in jobs:
        with contextlib.ExitStack() as opened:
            for file, source in job["files"].items():
                opened.enter_context(installed_source(file, source))
            outputs = getattr(runs, job["run"])(dict(tensors), **job["arguments"])
        kept = {k: v.detach() if isinstance(v, torch.Tensor) else v for k, v in outputs.items()}
        answers[job["name"]] = protocol.Reply("ran", kept)
    return answers


def context_of(*task_ids: str) -> GradingContext:
    """A context for some tasks of one part, which cannot open a sandbox."""
    tasks = tuple(map(graded_task, task_ids))
    return GradingContext(tasks[0].part, {}, tasks, "a secret", Path(), None, 20.0, None)


@pytest.fixture(autouse=True, scope="module")
def made_once():
    """Hidden inputs of a seed, which do not change, are made once."""
    with contextlib.ExitStack() as opened:
        for name in ("make", "trajectories"):
            once = functools.cache(getattr(hidden, name))
            opened.enter_context(mock.patch.object(hidden, name, once))
        yield


def judged_here(files: dict[str, str], *task_ids: str) -> dict[str, Verdict]:
    """Some tasks of a submission, judged in this process."""
    context = context_of(*task_ids)
    with mock.patch.object(protocol, "ask", ask_here):
        return verdicts_on(context, submission(files, context.part))


def verdict_on(source: str, task_id: str) -> Verdict:
    """One task, judged in this process."""
    return judged_here({graded_task(task_id).file: source}, task_id)[task_id]


def wrong_tasks(verdicts: dict[str, Verdict]) -> list[str]:
    """The tasks that are not right."""
    return [task_id for task_id, verdict in verdicts.items() if verdict.status != "right"]


# ---------------------------------------------------------------------------------------------
# What is right, and known mistakes


@pytest.mark.parametrize("task_id", [task.id for task in OWN])
def test_other_correct_solutions_are_right(task_id):
    for answer in read_all(task_id):
        verdict = verdict_on(put(answer), task_id)
        assert verdict.status == "right", (answer.name, verdict.messages)


def with_mistake(task_id: str, switch: str) -> str:
    """Our file of a task, its function replaced by the one with a switch."""
    entry, function = graded_task(task_id), functions()[task_id].run
    source = (ROOT / entry.file).read_text(encoding="utf-8")
    return source + (
        f"\nfrom {function.__module__} import {function.__name__} as switched\n"
        f"{entry.function} = lambda *given: switched(frozenset([{switch!r}]), *given)\n"
    )


SOME = [  # task, mistake, and the rows that it costs, where not the first is wrong
    ("bert.attention", "no_scale", ()),
    ("bert.attention", "no_dropout", ("dropout",)),
    ("bert.add_norm", "residual_twice", ()),
    ("classifier.init", "keep_probability", ()),
    ("bert.attention", "values_alone", ()),
    ("classifier.forward", "softmax_returned", ()),
    ("optimizer.step", "no_bias_correction", ()),
    ("optimizer.step", "coupled_decay", ("weight decay",)),
    ("optimizer.step", "lr_from_defaults", ("parameter groups, schedules",)),
    ("optimizer.step", "gradient_changed", ("gradients left as they are",)),
    ("modern.rotary", "positions_from_one", ()),
]


@pytest.mark.parametrize(("task_id", "switch", "lost"), SOME, ids=[f"{t}-{s}" for t, s, _ in SOME])
def test_a_known_mistake_costs_what_the_table_says_or_the_rows_it_changes(task_id, switch, lost):
    verdict = verdict_on(with_mistake(task_id, switch), task_id)
    assert verdict.status == "wrong"
    assert [mistake.name for mistake in verdict.mistakes] == [switch]
    wanted = {row: WRONG if row in lost else RIGHT for row in verdict.rows}
    if not lost:
        first, *rest = verdict.rows
        wanted = {first: WRONG} | dict.fromkeys(rest, NOT_COUNTED)
    assert verdict.rows == wanted
    costs = judge.costs()[task_id]
    assert verdict.cost == (None if lost else costs.get(switch, costs["known"]))


# ---------------------------------------------------------------------------------------------
# A slip costs once

LAYERS = """        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
"""
LOGITS = "        return self.classifier(self.dropout(pooled))"
CLASSIFIER = ("classifier.init", "classifier.forward")


def classifier_with(*changes: tuple[str, str]) -> dict[str, Verdict]:
    """The verdicts on Tasks 1.6 and 1.7 of a file with other lines in it."""
    text = solution()["classifier.py"]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return judged_here({"classifier.py": text}, *CLASSIFIER)


HEAD = "        return self.head(pooled)"
LINEAR = "nn.Linear(config.hidden_size, config.num_labels)"
DO_NOT_FIT = [  # what is replaced in __init__ by what, and forward's last line
    (LINEAR, "nn.Linear(768, 5)", LOGITS),
    (LAYERS, "        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(768, 5))\n", HEAD),
    ("config.hidden_size", "config.hidden_dim", LOGITS),
    (LAYERS.partition("\n")[0], "", LOGITS),
    (LINEAR, f"[{LINEAR}]", LOGITS.replace("classifier(", "classifier[0](")),
    (f" {LINEAR}", f" nn.Sequential(nn.Linear(8, 4), nn.ReLU(), {LINEAR})", LOGITS),
    (LAYERS, f'        raise NotImplementedError("{graded_task("1.6").title}")\n', LOGITS),
]


@pytest.mark.parametrize(("old", "new", "logits"), DO_NOT_FIT)
def test_forward_is_judged_with_our_init_where_the_student_s_does_not_fit(old, new, logits):
    verdicts = classifier_with((old, new), (LOGITS, logits))
    assert wrong_tasks(verdicts) == ["classifier.init"]


def test_a_mistake_in_forward_is_named_next_to_one_in_init():
    sizes, softmax = (LINEAR, "nn.Linear(768, 5)"), (LOGITS, f"{LOGITS}.softmax(-1)")
    forward = classifier_with(sizes, softmax)["classifier.forward"]
    assert [m.name for m in forward.mistakes] == ["softmax_returned"]
    assert forward.cost == judge.costs()["classifier.forward"]["known"]


def test_what_a_right_init_makes_besides_is_a_mistake_of_forward():
    drop = "nn.Dropout(config.hidden_dropout_prob)"
    change = (drop, f"nn.Sequential(nn.ReLU(), {drop})")
    assert wrong_tasks(classifier_with(change)) == ["classifier.forward"]


@pytest.mark.parametrize(("ends", "status"), [(1, "right"), (0, "timeout")])
def test_a_loop_in_another_function_does_not_cost_the_layer(ends, status):
    """Of its two ways of running, the second calls the student's own add_norm."""

    def ask(context, jobs, tensors):
        ran = ask_here(context, jobs[:ends], tensors)
        return {job["name"]: protocol.Reply("timeout") for job in jobs} | ran

    with mock.patch.object(protocol, "ask", ask):
        verdicts = verdicts_on(context_of("bert.layer"), submission(solution()))
    assert verdicts["bert.layer"].status == status


# ---------------------------------------------------------------------------------------------
# Tricks

STEP = """
def step(self, closure=None):
    for group in self.param_groups:
        for p in (p for p in group["params"] if p.grad is not None):
            {}

AdamW.step = step
"""
DECAYING = "p.data.mul_(1 - group['lr'] * group['weight_decay'])"
SUM = "s = self.state[p]; s['m'] = s.get('m', 0) + p.grad; p.data.sub_(group['lr'] * s['m'])"


@pytest.mark.parametrize(
    "line", ["pass", DECAYING, "p.data.sub_(group['lr'] * p.grad.sign())", f"{SUM}; {DECAYING}"]
)
def test_an_optimizer_that_is_not_adamw_gets_nothing(line):
    verdict = verdict_on(solution()["optimizer.py"] + STEP.format(line), "optimizer.step")
    assert RIGHT not in verdict.rows.values()
    assert verdict.cost in (None, 1)


def test_an_unknown_mistake_in_the_update_gets_nothing_one_in_the_decay_the_rest():
    right, decay = solution()["optimizer.py"], 'group["lr"] * group["weight_decay"]'
    for old, new, outcome in (
        ("value=-step_size", "value=-2 * step_size", {WRONG, NOT_COUNTED}),
        (decay, f"3 * {decay}", {WRONG, RIGHT}),
    ):
        assert old in right
        verdict = verdict_on(right.replace(old, new), "optimizer.step")
        assert {*verdict.rows.values()} == outcome
        assert verdict.cost is None


ATTENTION = """
given = BertSelfAttention.attention

def attention(self, key, query, value, attention_mask):
    right = given(self, key, query, value, attention_mask)
    return {}

BertSelfAttention.attention = attention
"""


@pytest.mark.parametrize(
    "result",
    [
        "right.long()",
        "right[:1]",
        "right * torch.nan",
        "None",
        # what a mistake of the dropout computes on the published inputs, elsewhere nothing
        "right if len(key) == 5 and not self.training else right.new_zeros(right.shape)",
    ],
)
def test_wrong_results_of_any_form_get_nothing(result):
    source = solution()["bert.py"] + ATTENTION.format(result)
    verdict = verdict_on(source, "bert.attention")
    assert verdict.status == "wrong"
    assert verdict.rows["values"] == WRONG
    assert (RIGHT in verdict.rows.values(), verdict.cost) == (False, None)


ODD = (None, "text", torch.tensor(torch.nan), torch.ones(2), torch.ones(0), torch.ones(3, 3) > 0)


@pytest.mark.parametrize(
    "entry", [task for task in OWN if task.id != "optimizer.step"], ids=lambda entry: entry.id
)
def test_outputs_of_any_kind_crash_nothing(entry):
    """As of a submission that writes its own answer; the right one with a single odd output."""
    context, asked, wrong = context_of(entry.id), [], 0
    with mock.patch.object(protocol, "ask", lambda *given: asked.append(ask_here(*given)) or {}):
        verdicts_on(context, submission(solution(entry.part), entry.part))
    outputs = {k: v for reply in asked[0].values() for k, v in reply.outputs.items()}
    made = hidden.make(context.seed("1_a", "0"), entry.part)
    for name in (name for name in outputs if " float64|" in name):
        for odd in ODD:
            judge.judge_part_1(entry, {**outputs, name: odd}, made)
        others = {key: value for key, value in outputs.items() if key != name}
        wrong += judge.judge_part_1(entry, others, made).status == "wrong"
    # one of its two ways of running is enough
    assert wrong or entry.id in ("bert.layer", "classifier.forward")
    assert judge.judge_part_1(entry, {}, made).status == "wrong"


# ---------------------------------------------------------------------------------------------
# What else is found out


def test_what_torch_has_of_it_is_told_where_code_names_it():
    context, source = context_of("bert.attention", "optimizer.step"), solution()["bert.py"]
    files = {
        "bert.py": f"{source}# nn.MultiheadAttention\nF.scaled_dot_product_attention\n",
        "optimizer.py": "from torch.optim import AdamW as Given\n",
        "classifier.py": "torch.optim.SGD\n",  # not a file of these tasks
    }
    assert [*batch.of_torch(context, submission(files))] == [
        "bert.py names scaled_dot_product_attention",
        "optimizer.py names torch.optim import AdamW",
    ]
    assert not [*batch.of_torch(context, submission(solution()))]


def test_a_line_that_several_checks_print_is_shown_once():
    texts = [f"  WRONG bert.py is bad\n  waits  Task {n}\n" for n in (1, 2)]
    replies = [protocol.Reply("ran", {"text": text}) for text in texts]
    replies += [protocol.Reply("timeout"), protocol.Reply("ran", {"text": torch.ones(2)})]
    with mock.patch.object(protocol, "ask", return_value=dict(enumerate(replies))):
        text = checks_text(context_of("multitask.init"), submission({}, 2))
    assert text.count("bert.py is bad") == 1
    assert text.count("waits") == 2
    assert "did not end" in text
    assert "cannot be read" in text


def test_hidden_inputs_are_new_for_each_hand_in():
    asked = []
    for digest in ("x", "y", "x"):
        with mock.patch.object(protocol, "ask", lambda *given: asked.append(given) or {}):
            verdicts_on(context_of("1.1", "1.5"), submission(solution(), sha256=digest))
    seeds = [jobs[-1]["arguments"]["seed"] for _, jobs, _ in asked]
    inputs = [tensors["hidden/bert.attention/inputs/query"] for _, _, tensors in asked]
    assert torch.equal(inputs[0], inputs[2])
    assert not torch.equal(inputs[0], inputs[1])
    assert seeds[0] == seeds[2] != seeds[1]


# ---------------------------------------------------------------------------------------------
# In the sandbox


@needs_sandbox
def test_the_canaries_of_part_3_sing():
    """Those of parts 1 and 2 do before each batch of test_pipeline.py."""
    with open_context(3, "0") as context:
        canaries.check(context)


@pytest.mark.parametrize("part", [1, 3])
def test_a_canary_that_comes_out_otherwise_stops_grading(part):
    """A solution that is wrong, and a known mistake that is not found."""
    context = context_of(*(task.id for task in GRADED_TASKS if task.part == part))
    wrong_task, judged, both = canaries.MISTAKES[part][0], canaries.verdicts_on, []
    with mock.patch.object(protocol, "ask", ask_here):
        grade = mock.Mock(side_effect=lambda *given: both.append(judged(*given)) or both[-1])
        with mock.patch.object(canaries, "verdicts_on", grade):
            canaries.check(context)
    for number, verdict, fault in (
        (0, Verdict("wrong", messages=("bad",)), r"own solution is wrong in Task [13].1 .*bad"),
        (1, Verdict("right"), r"the known mistake \w+ is not found in \w+"),
        (1, Verdict("wrong"), r"the known mistake \w+ is not found in \w+"),
    ):
        pair = [dict(verdicts) for verdicts in both]
        pair[number][wrong_task] = verdict
        with mock.patch.object(canaries, "verdicts_on", side_effect=pair):
            with pytest.raises(InputError, match=fault):
                canaries.check(context)


# ---------------------------------------------------------------------------------------------
# Predictions

gold = load_gold(*GOLD)  # the practice set's: 200 rows of SST, 100 of the others' pairs


def file_of(labelled: Gold, values: Iterable) -> bytes:
    """A file of predictions."""
    rows = [f"{key},{value}" for key, value in zip(labelled.ids, values, strict=True)]
    return ("\n".join([f"id,{labelled.column}", *rows]) + "\n").encode()


def score_of(content: bytes, data="sst", split="dev"):
    """The score of one file of part 2."""
    name = f"predictions/{data}-{split}-output.csv"
    scores = score(Submission("a", 2, {name: content}), gold)
    return next(each for each in scores if each.file == name)


@pytest.mark.parametrize("part", [1, 2])
def test_files_that_have_to_be_handed_in_are_missed(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where there are none of CFIMDB, which may be missing
    required = {*prepare_submit.predictions_of(part)}
    (note,) = batch.missing_files(Submission("a", part))
    assert {name for name in re.split("[:,] ", note) if name.endswith(".csv")} == required
    assert score(Submission("a", part), gold) == ()


def test_without_labels_there_is_no_score_and_no_fault():
    name, labelled = "predictions/sst-dev-output.csv", gold["sst", "dev"]
    handed_in = Submission("a", 2, {name: file_of(labelled, labelled.labels)})
    (result, *_) = score(handed_in, {("sts", "dev"): gold["sts", "dev"]})
    assert (result.file, result.value, result.faults) == (name, None, ())


@pytest.mark.parametrize("scale", [1e-300, 1.7e308, -1e300, 0.0, 1.0])
def test_the_scale_of_similarities_does_not_matter(scale):
    labels, predicted = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.1, 0.3, 0.2, 1.0])
    wanted = stats.pearsonr(labels, predicted).statistic
    assert predictions.pearson(predicted * scale, labels) == pytest.approx(np.sign(scale) * wanted)
    labelled = gold["sts", "dev"]
    assert score_of(file_of(labelled, labelled.labels / 2), "sts").value == pytest.approx(1)


HEAD = b"id,Predicted_Sentiment\n"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("KEY,5", "other than the classes 0 to 4: 1"),
        ("KEY,1\nffff,1", "does not have: 1, such as ffff"),
        ("\ud800,1", "not UTF-8"),
        (HEAD + b"9" * 10**6, "too long"),
        (b"id,Predicted_Similarity\n", "header"),
        (HEAD, "without a prediction: 200"),
    ],
)
def test_faults_are_named_and_give_no_value(content, word):
    """Of a right file with one row replaced, or of a whole file."""
    labelled = gold["sst", "dev"]
    if isinstance(content, str):
        lines = file_of(labelled, labelled.labels).decode().split("\n")
        lines[3] = content.replace("KEY", labelled.ids[2])
        content = "\n".join(lines).encode("utf-8", "surrogatepass")
    result = score_of(content)
    assert (result.value, result.contents) == (None, "")
    assert word in result.faults[0]
    assert "predictions/sst-dev-output.csv" in result.faults[0]
    assert len(result.faults[0]) <= 1000


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_crash_it(content, with_header):
    assert score_of(HEAD * with_header + content).faults


def test_accuracy_and_the_same_predictions_are_known_again():
    labelled = gold["sst", "dev"]
    content = file_of(labelled, [3, 1] * 100)
    head, *rows = content.decode().split("\n")
    result = score_of(content)
    assert result.value == pytest.approx(np.mean(labelled.labels == [3, 1] * 100))
    for text in ("\n".join([head, *rows[::-1]]), content.decode().replace(",3", " , 3.0")):
        assert score_of(text.encode()) == result
    assert score_of(file_of(labelled, [3, 1] * 99 + [1, 1])).contents != result.contents
