"""Judging (course/grading/judging): what is right gets all, known mistakes cost, tricks fail."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from factories import ROOT, make_rows, write_table
from hypothesis import given, settings
from hypothesis import strategies as st
from running import needs_sandbox
from scipy import stats

import prepare_submit
from checks.graded_tasks import GRADED_TASKS, graded_task
from course.answers import VARIANTS, installed_source, put, read, read_all
from course.grading.judging import canaries, hidden, judge, predictions
from course.grading.judging.predictions import Gold, load_gold, score
from course.grading.judging.submission import Judged, checks_text, grade_submission
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


def judged_here(files: dict[str, str], *task_ids: str) -> Judged:
    """Some tasks of a submission, judged in this process; without them those of part 1."""
    context = context_of(*(task_ids or [task.id for task in GRADED_TASKS if task.part == 1]))
    with mock.patch.object(protocol, "ask", ask_here):
        return grade_submission(context, submission(files, context.part))


def verdict_on(source: str, task_id: str) -> Verdict:
    """One task, judged in this process without the students' checks."""
    entry = graded_task(task_id)
    with mock.patch("course.grading.judging.submission.SAYS_MORE", ()):
        return judged_here({entry.file: source}, task_id).verdicts[task_id]


def wrong_tasks(verdicts: dict[str, Verdict]) -> list[str]:
    """The tasks that are not right."""
    return [task_id for task_id, verdict in verdicts.items() if verdict.status != "right"]


# ---------------------------------------------------------------------------------------------
# What is right, and known mistakes


@pytest.mark.parametrize("part", [1, 3])
def test_the_solution_is_right_and_nothing_is_said_about_it(part):
    tasks = [task.id for task in GRADED_TASKS if task.part == part]
    done = judged_here(solution(part), *tasks)
    assert list(done.verdicts) == tasks
    assert not wrong_tasks(done.verdicts)
    assert all({*verdict.rows.values()} == {RIGHT} for verdict in done.verdicts.values())
    assert (done.calls, done.checks) == ((), "")


@pytest.mark.parametrize("task_id", [task.id for task in OWN])
def test_other_correct_solutions_are_right(task_id):
    for answer in read_all(VARIANTS, task_id):
        for version in answer.versions:
            verdict = verdict_on(put(answer, version), task_id)
            assert verdict.status == "right", (answer.name, version, verdict.messages)


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
    ("bert.attention", "value_not_used", ()),
    ("bert.attention", "no_dropout", ("dropout",)),
    ("bert.add_norm", "residual_twice", ()),
    ("bert.layer", "no_gelu", ()),
    ("bert.embed", "same_position", ()),
    ("classifier.init", "keep_probability", ()),
    ("classifier.forward", "softmax_returned", ()),
    ("optimizer.step", "no_bias_correction", ()),
    ("optimizer.step", "coupled_decay", ("weight decay",)),
    ("optimizer.step", "lr_from_defaults", ("parameter groups, schedules",)),
    ("optimizer.step", "gradient_changed", ("gradients left as they are",)),
    ("modern.rotary", "positions_from_one", ()),
    ("modern.geglu", "swapped", ()),
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
    assert verdict.cost == (None if lost else judge.costs().get(task_id, {}).get(switch))


# ---------------------------------------------------------------------------------------------
# A slip costs once

LAYERS = """        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
"""
LOGITS = "        return self.classifier(self.dropout(pooled))"
CLASSIFIER = ("classifier.init", "classifier.forward")


def classifier_with(layers: str = LAYERS, logits: str = LOGITS) -> dict[str, Verdict]:
    """The verdicts on Tasks 1.6 and 1.7 of a file with other lines in it."""
    text = solution()["classifier.py"]
    assert LAYERS in text
    assert LOGITS in text
    text = text.replace(LAYERS, layers).replace(LOGITS, logits)
    with mock.patch("course.grading.judging.submission.SAYS_MORE", ()):
        return dict(judged_here({"classifier.py": text}, *CLASSIFIER).verdicts)


@pytest.mark.parametrize(
    ("layers", "logits"),
    [
        (LAYERS.replace("config.hidden_size", "768"), LOGITS),
        (LAYERS.replace("config.num_labels", "5"), LOGITS),
        ("        self.dropout = nn.Dropout(0.1)\n" + LAYERS.splitlines()[1] + "\n", LOGITS),
        (
            "        self.drop = nn.Dropout(0.1)\n        self.layers = [nn.Linear(768, 5)]\n",
            "        return self.layers[-1](self.drop(pooled))",
        ),
        (
            "        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(768, 5))\n",
            "        return self.head(pooled)",
        ),
    ],
)
def test_forward_is_judged_with_our_init_where_the_student_s_does_not_fit(layers, logits):
    assert wrong_tasks(classifier_with(layers, logits)) == ["classifier.init"]


def test_a_mistake_in_forward_is_named_next_to_one_in_init():
    wrong = LAYERS.replace("config.hidden_size", "768")
    verdicts = classifier_with(wrong, LOGITS + ".softmax(-1)")
    forward = verdicts["classifier.forward"]
    assert [m.name for m in forward.mistakes] == ["softmax_returned"]
    assert forward.cost == judge.costs()["classifier.forward"]["softmax_returned"]


def test_an_unwritten_forward_is_not_started_whatever_init_is():
    pooled = '        pooled = self.bert(input_ids, attention_mask)["pooler_output"]'
    text = solution()["classifier.py"].replace("config.hidden_size, config", "768, config")
    before, _, after = text.partition(pooled)
    stub = f'        raise NotImplementedError("{graded_task("1.7").title}")\n'
    text = before + stub + after.partition(LOGITS)[2].partition("\n")[2]
    verdicts = judged_here({"classifier.py": text}, *CLASSIFIER).verdicts
    assert [verdicts[name].status for name in CLASSIFIER] == ["wrong", "not started"]


def test_what_a_right_init_makes_besides_is_a_mistake_of_forward():
    layers = LAYERS.replace(
        "nn.Dropout(config.hidden_dropout_prob)",
        "nn.Sequential(nn.ReLU(), nn.Dropout(config.hidden_dropout_prob))",
    )
    assert wrong_tasks(classifier_with(layers)) == ["classifier.forward"]


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
    "line",
    [
        "pass",
        "p.data.zero_()",
        "p.data.fill_(float('nan'))",
        DECAYING,
        "p.data.sub_(group['lr'] * p.grad)",
        "p.data.sub_(group['lr'] * p.grad.sign())",
        f"p.data.sub_(group['lr'] * p.grad); {DECAYING}",
        SUM,
        f"{SUM}; {DECAYING}",
    ],
)
def test_an_optimizer_that_is_not_adamw_gets_nothing(line):
    verdict = verdict_on(solution()["optimizer.py"] + STEP.format(line), "optimizer.step")
    assert (RIGHT in verdict.rows.values(), verdict.cost) == (False, None)


def test_an_unknown_mistake_in_the_update_gets_nothing_one_in_the_decay_the_rest():
    plain = put(read(VARIANTS, "optimizer.step/plain"))
    for old, new, outcome in (
        ("alpha = lr", "alpha = 2 * lr", {WRONG, NOT_COUNTED}),
        ("lr * weight_decay", "3 * lr * weight_decay", {WRONG, RIGHT}),
    ):
        assert old in plain
        verdict = verdict_on(plain.replace(old, new), "optimizer.step")
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
        "right * 3",
        "right.half()",
        "right.long()",
        "right[:1]",
        "right.new_zeros(())",
        "right * torch.nan",
        "right * 1e300",
        "right.to_sparse()",
        "right.tolist()",
        "right.mean() + torch.zeros(1_000_001)",
        "None",
        "'right'",
        "right.to(torch.complex128)",
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


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.id)
def test_outputs_of_any_kind_crash_nothing(entry):
    """As of a submission that writes its own answer; the right one with a single odd output."""
    if entry.id == "optimizer.step":
        return
    context, wrong = context_of(entry.id), 0
    file = {entry.file: (ROOT / entry.file).read_text(encoding="utf-8")}
    given_in = submission(file, entry.part)
    asked = []

    def ask(*arguments):
        asked.append(ask_here(*arguments))
        return asked[-1]

    with mock.patch.object(protocol, "ask", ask):
        grade_submission(context, given_in)
    (outputs,) = (reply[entry.id].outputs for reply in asked)
    made = hidden.make(context.seed("1_a", "0"), entry.part)
    for name in (name for name in outputs if " float64|" in name):
        for odd in ODD:
            judge.judge_part_1(entry, {**outputs, name: odd}, made)
        others = {key: value for key, value in outputs.items() if key != name}
        wrong += judge.judge_part_1(entry, others, made).status == "wrong"
    assert wrong or entry.id == "bert.layer"  # one of its two ways of running is enough
    assert judge.judge_part_1(entry, {}, made).status == "wrong"


# ---------------------------------------------------------------------------------------------
# What of torch was run, and what the students' checks print

KERNEL = "torch.nn.functional.scaled_dot_product_attention"


@pytest.mark.parametrize(
    "kernel",
    [
        KERNEL,
        "torch.ops.aten.scaled_dot_product_attention",
        "torch.ops.aten.scaled_dot_product_attention.default",
        "torch._C._nn.scaled_dot_product_attention",
        "getattr(torch.nn.functional, 'scaled_dot' + '_product_attention')",
        "torch.nn.MultiheadAttention.__init__.__globals__['F'].scaled_dot_product_attention",
    ],
)
def test_torch_s_attention_is_told_however_it_is_named(kernel):
    kernel += "(query, key, value, attention_mask).transpose(1, 2).flatten(2) * 0 + right"
    source = solution()["bert.py"] + ATTENTION.format(kernel)
    done = judged_here({"bert.py": source}, "bert.attention")
    assert not wrong_tasks(done.verdicts)
    assert done.calls == ("Task 1.1 ran torch's own attention",)


@pytest.mark.parametrize(
    "base",
    [
        "torch.optim.AdamW",
        "{c.__name__: c for c in Optimizer.__subclasses__()}['Adam']",
        "torch.optim.Adam.__init__.__globals__['Adam']",
    ],
)
def test_torch_s_optimizers_are_told(base):
    source = solution()["optimizer.py"] + (
        "\ngiven = AdamW.step\n\ndef step(self, closure=None):\n"
        "    p = torch.nn.Parameter(torch.ones(1)); p.grad = torch.ones(1)\n"
        f"    {base}([p]).step()\n    return given(self, closure)\n\nAdamW.step = step\n"
    )
    done = judged_here({"optimizer.py": source}, "optimizer.step")
    assert not wrong_tasks(done.verdicts)
    assert done.calls == ("Task 1.5 ran torch's own optimizers",)


def test_what_the_students_checks_print_of_what_is_wrong():
    source = with_mistake("bert.attention", "no_scale") + "\nprint('hello')\n"
    done = judged_here(solution() | {"bert.py": source})
    assert done.checks.startswith("  WRONG Task 1.1")
    assert "probably: The scores are not divided" in done.checks
    assert "Task 1.2" not in done.checks


def test_a_cause_that_several_tasks_share_is_said_once():
    texts = [f"  WRONG bert.py is bad\n  waits  Task {n}\n" for n in (1, 2)]
    replies = {
        f"checks {n}": protocol.Reply(
            "ran", {"text": torch.tensor(list(text.encode()), dtype=torch.uint8)}
        )
        for n, text in enumerate(texts)
    }
    replies["checks 2"] = protocol.Reply("timeout")
    replies["checks 3"] = protocol.Reply("ran", {"text": torch.ones(2)})
    with mock.patch.object(protocol, "ask", return_value=replies):
        text = checks_text(context_of("1.1"), submission({}), dict.fromkeys("0123", ""))
    assert text.count("bert.py is bad") == 1
    assert text.count("waits") == 2
    assert "did not end" in text
    assert "cannot be read" in text


def test_hidden_inputs_are_new_for_each_hand_in():
    asked = []
    for digest in ("x", "y", "x"):
        with mock.patch.object(protocol, "ask", lambda *given: asked.append(given) or {}):
            grade_submission(context_of("1.1", "1.5"), submission(solution(), sha256=digest))
    seeds = [jobs[-1]["arguments"]["seed"] for _, jobs, _ in asked]
    inputs = [tensors["hidden/bert.attention/inputs/query"] for _, _, tensors in asked]
    assert torch.equal(inputs[0], inputs[2])
    assert not torch.equal(inputs[0], inputs[1])
    assert seeds[0] == seeds[2] != seeds[1]


# ---------------------------------------------------------------------------------------------
# In the sandbox


@pytest.fixture(scope="module", params=[1, 2, 3])
def open_contexts(request, fit_sandbox):
    with open_context(request.param, "0") as context:
        yield context


def test_the_canaries_sing(open_contexts):
    canaries.check(open_contexts)


@needs_sandbox
def test_a_submission_of_part_1_in_the_sandbox():
    no_scale = solution()["bert.py"].replace("scores / math.sqrt(query.size(-1))", "scores")
    files = solution() | {"bert.py": no_scale}
    files["optimizer.py"] = "import nothing_there\n"
    with open_context(1, "0") as context:
        done = grade_submission(context, submission(files))
    assert wrong_tasks(done.verdicts) == ["bert.attention", "optimizer.step"]
    assert done.verdicts["bert.attention"].cost == 0.6
    crashed = done.verdicts["optimizer.step"]
    assert (crashed.status, RIGHT in crashed.rows.values()) == ("crashed", False)
    assert "probably: The scores are not divided" in done.checks
    assert "No module named 'nothing_there'" in done.checks


@pytest.fixture(params=[1, 3])
def canary_context(request):
    tasks = [task.id for task in GRADED_TASKS if task.part == request.param]
    with mock.patch.object(protocol, "ask", ask_here):
        yield context_of(*tasks)


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        (0, 1, None),
        (1, 1, r"our own solution is wrong in Task [13].1"),
        (0, 0, r"the known mistake \w+ is not found in \w+"),
    ],
)
def test_a_canary_that_comes_out_otherwise_stops_grading(
    canary_context, monkeypatch, first, second, fault
):
    made = canaries.submissions(canary_context)
    names = [name for _, name in made]
    pairs = [(made[first][0], names[0]), (made[second][0], names[1])]
    monkeypatch.setattr(canaries, "submissions", lambda _: pairs)
    with pytest.raises(InputError, match=fault) if fault else contextlib.nullcontext():
        canaries.check(canary_context)


# ---------------------------------------------------------------------------------------------
# Predictions

LABELS = {"sst": "01234", "cfimdb": "01", "para": ("0.0", "1.0"), "sts": ("0.0", "2.6", "5.0")}


@pytest.fixture(scope="module")
def gold(tmp_path_factory) -> dict[tuple[str, str], Gold]:
    """All eight labelled files, 60 rows each."""
    folder = tmp_path_factory.mktemp("gold")
    for number, (data, (stem, _, label, _)) in enumerate(predictions.SETS.items()):
        single = data in ("sst", "cfimdb")
        columns = f"id {'sentence' if single else 'sentence1 sentence2'} {label}"
        for half, split in enumerate(("dev", "test")):
            rows = make_rows(60, 1 if single else 2, LABELS[data], 1000 * (2 * number + half))
            write_table(folder / f"{stem}-{split}.csv", columns, rows)
    return load_gold(folder)


def file_of(labelled: Gold, values: Iterable, column: str = "") -> bytes:
    """A file of predictions."""
    rows = [f"{key},{value}" for key, value in zip(labelled.ids, values, strict=True)]
    return ("\n".join([f"id,{column or labelled.column}", *rows]) + "\n").encode()


def score_of(gold, content: bytes, data="sst", split="dev"):
    """The score of one file of part 2."""
    name = f"predictions/{data}-{split}-output.csv"
    scores = score(Submission("a", 2, {name: content}), gold)
    return next(each for each in scores if each.file == name)


@pytest.mark.parametrize("part", [1, 2])
def test_the_names_are_those_that_prepare_submit_asks_for(part, tiny_data, gold):
    asked = {p.path: p.split for p in prepare_submit.predictions_of(part, tiny_data)}
    assert {path: split for path, (_, split, *_) in predictions.FILES[part].items()} == asked
    required = {p.path for p in prepare_submit.predictions_of(part, tiny_data) if p.required}
    scores = score(Submission("a", part), gold)
    assert {each.file for each in scores} == required
    assert all("is missing" in each.faults[0] for each in scores)


def test_folders_without_labels_are_refused(tmp_path):
    with pytest.raises(InputError, match="no labelled file"):
        load_gold(tmp_path)
    write_table(tmp_path / "sts-test.csv", "id sentence1 sentence2", make_rows(3, 2))
    with pytest.raises(InputError, match="lacks the column similarity"):
        load_gold(tmp_path)


def test_without_labels_there_is_no_score_and_no_fault(gold):
    content = file_of(gold["sst", "dev"], gold["sst", "dev"].labels)
    result = score_of({("sts", "dev"): gold["sts", "dev"]}, content)
    assert (result.value, result.faults) == (None, ())


@pytest.mark.parametrize("data", ["sst", "sts"])
def test_metrics(gold, data):
    labelled, chance = gold[data, "test"], np.random.default_rng(1)
    if data == "sst":
        predicted = np.where(chance.random(60) < 0.5, labelled.labels, chance.integers(0, 5, 60))
        wanted = np.mean(predicted == labelled.labels)
    else:
        predicted = labelled.labels + chance.normal(size=60)
        wanted = stats.pearsonr(labelled.labels, predicted).statistic
    result = score_of(gold, file_of(labelled, predicted), data, "test")
    assert result.value == pytest.approx(wanted)
    assert result.metric == {"sst": "accuracy", "sts": "Pearson"}[data]


@pytest.mark.parametrize("scale", [1e-300, 1.7e308, -1e300, 0.0])
def test_the_scale_of_similarities_does_not_matter(scale):
    labels, predicted = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.1, 0.3, 0.2, 1.0])
    wanted = stats.pearsonr(labels, predicted).statistic
    assert predictions.pearson(predicted * scale, labels) == pytest.approx(np.sign(scale) * wanted)


def test_the_overall_score(gold):
    files = {}
    for data in ("sst", "para", "sts"):
        labelled = gold[data, "dev"]
        files[f"predictions/{data}-dev-output.csv"] = file_of(labelled, labelled.labels)
    whole = score(Submission("a", 2, files), gold)
    assert predictions.overall(whole, "dev") == pytest.approx(1)
    assert predictions.overall(whole, "test") is None
    halved = [dataclasses.replace(s, value=0.0) if s.data == "sts" else s for s in whole]
    assert predictions.overall(halved, "dev") == pytest.approx(2.5 / 3)


def test_older_spellings_are_read(gold):
    labelled = gold["sst", "dev"]
    pairs = zip(labelled.ids, labelled.labels, strict=True)
    rows = [f"{key.upper()} , {label}.0 \r\n" for key, label in pairs]
    content = "\ufeff" + "id \t Predicted_Sentiment \r\n" + "".join(reversed(rows))
    assert score_of(gold, content.encode()).value == 1.0
    labelled = gold["sts", "dev"]
    content = file_of(labelled, labelled.labels, "Predicted_Similiary")
    assert score_of(gold, content, "sts").value == pytest.approx(1.0)


HEAD = b"id,Predicted_Sentiment\n"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("KEY,nan", "is not 'id,number'"),
        ("KEY," + "9" * 9000, "is not 'id,number'"),
        ("KEY,5", "other than the classes 0 to 4: 1"),
        ("KEY,1.5", "other than the classes 0 to 4: 1"),
        ("", "without a prediction: 1"),
        ("ffff,1", "without a prediction: 1"),
        ("OTHER,1", "occurs twice"),
        ("KEY,1\nffff,1", "does not have: 1, such as ffff"),
        ("\ud800,1", "not UTF-8"),
        (b"", "header"),
        (b"PK\x03\x04\xff\xfe", "not UTF-8"),
        (HEAD + b"9" * 10**6, "too long"),
        (HEAD + b"\n" * 20_000, "too long"),
        (b"id,Predicted_Similarity\n", "header"),
        (HEAD, "without a prediction: 60"),
    ],
)
def test_faults_are_named_and_give_no_value(gold, content, word):
    """Of a right file with one row replaced, or of a whole file."""
    labelled = gold["sst", "dev"]
    if isinstance(content, str):
        lines = file_of(labelled, labelled.labels).decode().split("\n")
        lines[3] = content.replace("KEY", labelled.ids[2]).replace("OTHER", labelled.ids[5])
        content = "\n".join(lines).encode("utf-8", "surrogatepass")
    result = score_of(gold, content)
    assert (result.value, result.contents) == (None, "")
    assert word in result.faults[0]
    assert "predictions/sst-dev-output.csv" in result.faults[0]
    assert len(result.faults[0]) <= 1000


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_crash_it(gold, content, with_header):
    assert score_of(gold, HEAD * with_header + content).faults


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=60, max_size=60))
def test_no_finite_similarities_crash_it(gold, values):
    result = score_of(gold, file_of(gold["sts", "dev"], map(repr, values)), "sts")
    assert -1 <= result.value <= 1


def test_the_same_predictions_are_known_again(gold):
    labelled = gold["sst", "dev"]
    content = file_of(labelled, [3, 1] * 30)
    head, *rows = content.decode().split("\n")
    same = score_of(gold, content).contents
    for text in ("\n".join([head, *rows[::-1]]), content.decode().replace(",3", " , 3.0")):
        assert score_of(gold, text.encode()).contents == same
    assert score_of(gold, file_of(labelled, [3, 1] * 29 + [1, 1])).contents != same
    values, sts = [0.25 * (row % 7) for row in range(60)], gold["sts", "dev"]
    scaled = [[3 * value - 1 for value in values], [1 - 2 * value for value in values]]
    first, *others = (score_of(gold, file_of(sts, v), "sts") for v in (values, *scaled))
    assert [each.contents == first.contents for each in others] == [True, False]
