"""Grading part 2 (judging/part2.py): verdicts on arrays, and a few runs in the sandbox."""

import functools
import random
import textwrap
from dataclasses import replace

import pytest
import torch
from support import ROOT, needs_sandbox

from checks.findings import faulty
from checks.graded_tasks import graded_task
from checks.part2.models import FORWARD, INIT
from checks.part2.tasks import CHECKED, findings_in
from course import attacks, table
from course.answers import MISTAKES, VARIANTS, installed, installed_source, put, read, read_all
from course.grading.judging import part2
from course.grading.judging.submission import grade_tasks, task_result
from course.grading.judging.types import Submission
from course.grading.sandbox import protocol, runs
from course.grading.sandbox.context import open_context

ENTRIES = [graded_task(name) for name in CHECKED]
SENTIMENT, PARAPHRASE, SIMILARITY = list(CHECKED)[2:]
SEED = 1234567
FILE = "multitask_classifier.py"
PLAIN = read(VARIANTS, "multitask/plain")


def ask_here(jobs, tensors):
    """What the sandbox would give back, from the version that is installed now."""
    return {
        name: protocol.Reply("ran", runs.part_2(dict(tensors), **given))
        for name, given in jobs.items()
    }


def graded_here(seed=SEED, ask=ask_here):
    """Verdicts by task on the version that is installed now, without a sandbox."""
    findings = part2.ask_all(ask, list(CHECKED), seed, seed + 1)
    return {entry.id: part2.verdict(entry, findings) for entry in ENTRIES}


def lost(verdicts):
    """Tasks that lose points."""
    return {name for name, verdict in verdicts.items() if not all(verdict.rows.values())}


@functools.cache
def right_answers():
    """Both rounds of the plain version, made once."""
    with installed(PLAIN):
        return part2.ask_all(ask_here, list(CHECKED), SEED, SEED + 1)


# ---------------------------------------------------------------------------------------------
# Right answers and known mistakes


def test_our_solution_has_full_marks():
    assert lost(graded_here()) == set()


@pytest.mark.parametrize("answer", read_all(VARIANTS, "multitask"), ids=lambda answer: answer.name)
def test_right_answers_have_full_marks_whatever_the_seed(answer):
    for version, seed in zip(answer.versions, (0, 7, 2**31 - 1, 99), strict=False):
        with installed(answer, version):
            verdicts = graded_here(seed)
        assert lost(verdicts) == set(), {k: v.messages for k, v in verdicts.items()}
        assert {verdict.status for verdict in verdicts.values()} == {"right"}


FILES = [answer for name in CHECKED for answer in read_all(MISTAKES, name)]


@pytest.mark.parametrize("answer", FILES, ids=lambda answer: f"{answer.folder[10:]}-{answer.name}")
def test_a_mistake_costs_in_its_own_task_only_and_is_named(answer):
    version = list(answer.versions)[-1]
    with installed(answer, version):
        verdicts = graded_here()
    verdict = verdicts.pop(answer.task.id)
    assert verdict.status == "wrong"
    assert not all(verdict.rows.values())
    assert [mistake.name for mistake in verdict.mistakes] == [answer.named]
    if answer.task.id == INIT:  # what was not made there cannot be put right
        assert {verdicts[name].status for name in lost(verdicts)} <= {"waits"}
    else:
        assert lost(verdicts) == set()


CHANGES = {  # by task: a line of a right function, what else it does, lost rows, a word of it
    FORWARD: ('vectors = outputs["pooler_output"]\n', "attention_mask[:, 0] = 0", "inputs"),
    SIMILARITY: ("scores = self.similarity(pair)\n", "attention_mask_2 -= 1", "inputs"),
    PARAPHRASE: ("logits = logits.squeeze(-1)\n", "logits = logits * 0", ""),
}


@pytest.mark.parametrize("task_id", CHANGES)
def test_what_a_further_line_costs(task_id):
    """A change in place costs a tenth, a result that depends on nothing everything."""
    line, change, lost_row = CHANGES[task_id]
    source = put(PLAIN)
    assert line in source
    with installed_source(FILE, source.replace(line, f"{line}        {change}\n")):
        verdicts = graded_here()
    assert lost(verdicts) == {task_id}
    verdict, settings = verdicts[task_id], table.read_settings(ROOT)
    if not lost_row:
        assert not any(verdict.rows.values())
        return
    assert [row for row, right in verdict.rows.items() if not right] == [lost_row]
    assert any("which was given, is changed in place" in m for m in verdict.messages)
    scored = task_result(graded_task(task_id), verdict, settings)
    assert scored["points"] == pytest.approx(0.9 * scored["of"])


NO_MASK = "self.bert(input_ids, torch.ones_like(attention_mask))['last_hidden_state'].mean(1)"


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        (f"{NO_MASK} + 1e5", "almost everything in common"),
        (f"{NO_MASK} - 100", "attention_mask has to reach BERT"),
        (f"1e-6 * {NO_MASK}", "attention_mask has to reach BERT"),
        ("vectors + 0.05 * vectors.mean(dim=0) - 30", "half of the others are not in"),
        ("1e5 - vectors", "almost everything in common"),
        ("vectors + 30", ""),
        ("1e-6 * vectors", ""),
        ("torch.cat([vectors[:, :-1], 1e6 * vectors[:, -1:]], dim=1)", ""),
        (f"torch.cat([{NO_MASK}[:, :-1], 1e6 * vectors[:, -1:]], 1)", "has to reach BERT"),
    ],
)
def test_no_summand_and_no_scale_hides_a_change(vectors, said):
    source = put(PLAIN)
    line = 'vectors = outputs["pooler_output"]\n'
    with installed_source(FILE, source.replace(line, f"{line}        vectors = {vectors}\n")):
        findings = faulty(findings_in(FORWARD))
    assert any(said in finding.text for finding in findings) == bool(said), findings


def test_what_is_not_begun():
    source = put(PLAIN)
    for function in ("forward", "predict_similarity"):
        start = source.index(f"    def {function}(self")
        end = source.index("\n\n", start)
        body = f"    def {function}(self, *_):\n        raise NotImplementedError('Task 2')"
        source = source[:start] + body + source[end:]
    with installed_source(FILE, source):
        verdicts = graded_here()
    statuses = {name: verdict.status for name, verdict in verdicts.items()}
    assert statuses == dict.fromkeys(CHECKED, "right") | dict.fromkeys(
        (FORWARD, SIMILARITY), "not started"
    )
    assert lost(verdicts) == {FORWARD, SIMILARITY}


# ---------------------------------------------------------------------------------------------
# Gradients that are not those of the results


# With the second seed, a step along the made-up gradient once left one sum as it was, by chance
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("made_up_gradients", 12345),
        ("made_up_gradients", 340575550),
        ("words_and_invariants", 12345),
        ("bag_of_words", 12345),
    ],
)
def test_what_is_made_up_costs_the_same_whatever_the_seed(name, seed):
    attack, settings = attacks.read(name), table.read_settings(ROOT)
    with installed_source(FILE, f"{put(PLAIN)}\n{attacks.appended(attack)[FILE]}"):
        verdicts = graded_here(seed)
    points = {t.number: task_result(t, verdicts[t.id], settings)["points"] for t in ENTRIES}
    assert {number: worth for number, worth in points.items() if worth} == attack.TASKS


def test_a_larger_table_of_words_is_not_taken_for_one_that_says_nothing():
    """What is not the loaded one gets no other embeddings: staff are told, points stay."""
    source = put(PLAIN) + textwrap.dedent("""
        made = MultitaskBERT.__init__
        def init(self, config):
            made(self, config)
            old = self.bert.word_embedding.weight
            table = nn.Embedding(len(old) + 5, old.shape[1])
            table.weight.data[: len(old)] = old.data
            self.bert.word_embedding = table.requires_grad_(old.requires_grad)
        MultitaskBERT.__init__ = init
    """)
    with installed_source(FILE, source):
        verdicts = graded_here()
    assert lost(verdicts) == set()
    assert "depend on the ids" in str(verdicts[FORWARD].flags)


@pytest.mark.parametrize("flat", [False, True])
def test_only_results_that_do_not_change_at_all_lose_every_row(flat):
    """The sum whose gradient is told may stay the same by chance: one row is lost."""
    right = right_answers()
    number = {name: str(at) for at, name in enumerate(right.second[SENTIMENT].names)}
    outputs = dict(right.replies[SENTIMENT].outputs)
    outputs[number["gradients 0 1"]] = outputs[number["gradients 0 -1"]]
    if flat:
        outputs[number["gradients near"]] = outputs[number["again"]]
    replies = right.replies | {SENTIMENT: protocol.Reply("ran", outputs)}
    findings = part2.Findings(SEED, right.answers, right.second, replies)
    verdict = part2.verdict(graded_task(SENTIMENT), findings)
    lost_rows = [row for row, kept in verdict.rows.items() if not kept]
    assert lost_rows == (list(verdict.rows) if flat else ["learning"])


# ---------------------------------------------------------------------------------------------
# Forged answers


FORGED = {
    "nothing": lambda name, value: None,
    "texts": lambda name, value: "9" * 2000,
    "all the same": lambda name, value: torch.ones_like(value) if "seen" not in name else value,
    "NaN": lambda name, value: torch.full(value.shape, torch.nan),
    "whole numbers": lambda name, value: value.long(),
    "one row more": lambda name, value: torch.cat([value[None], value[None]]),
    "one axis less": lambda name, value: value.flatten() if value.dim() > 1 else value.sum(),
    "made up": lambda name, value: torch.randn(value.shape) if "seen" not in name else value,
    "made up from the result on": lambda name, value: (
        value if name.partition("/")[0] in ("result", "seen 0") else torch.rand(value.shape)
    ),
}


def forging(change, rounds=(1, 2)):
    """Gives the plain version's answers, those of some rounds changed."""
    right = right_answers()
    # what is asked later depends on the first answers
    known = {1: right.answers, 2: {} if 1 in rounds else right.replies}

    def ask(jobs, tensors):
        now = 2 if any("asked" in given for given in jobs.values()) else 1
        missing = {name: given for name, given in jobs.items() if name not in known[now]}
        answers = {**known[now], **ask_here(missing, tensors)}
        return {
            name: protocol.Reply("ran", change(answers[name].outputs))
            if now in rounds
            else answers[name]
            for name in jobs
        }

    return ask


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_answer_is_wrong_and_no_error_of_ours(name):
    def change(outputs):
        return {key: FORGED[name](key, value) for key, value in outputs.items()}

    with installed(PLAIN):
        assert lost(graded_here(ask=forging(change))) == set(CHECKED)
        later = lost(graded_here(ask=forging(change, rounds=[2])))
    assert later == set(CHECKED) - {INIT}


def test_no_array_can_cause_an_error():
    answers = right_answers().answers
    chance = random.Random(0)
    odd = [None, "text", torch.zeros(0), torch.zeros(2, 0), torch.tensor(True), torch.ones(3, 4)]
    odd += [torch.full((7,), torch.nan), torch.zeros(7, dtype=torch.uint8), object()]
    for task_id, answer in answers.items():
        for name in answer.outputs:
            without = {k: v for k, v in answer.outputs.items() if k != name}
            for forged in (without, *({**without, name: bad} for bad in chance.sample(odd, 2))):
                reply = protocol.Reply("ran", forged)
                findings = part2.Findings(SEED, answers | {task_id: reply}).first(task_id)
                assert faulty(findings) or name != "result", (task_id, name)


def test_an_answer_to_other_words_is_wrong():
    def stale(jobs, tensors):
        return ask_here({name: given | {"seed": 0} for name, given in jobs.items()}, tensors)

    with installed(PLAIN):
        assert lost(graded_here(ask=stale)) == set(CHECKED)


@pytest.mark.parametrize("status", ["timeout", "invalid answer"])
@pytest.mark.parametrize("now", [1, 2])
def test_a_job_without_an_answer(status, now):
    right = right_answers()
    answers, later = dict(right.answers), dict(right.replies)
    (answers if now == 1 else later)[SIMILARITY] = protocol.Reply(status)
    again = part2.Findings(SEED, answers, right.second, later)
    verdict = part2.verdict(graded_task(SIMILARITY), again)
    assert verdict.status == (status if now == 1 else "wrong")
    assert not any(verdict.rows.values())
    assert verdict.messages


# ---------------------------------------------------------------------------------------------
# In the sandbox


@pytest.fixture(scope="module")
def context():
    with open_context(2, "secret") as made:
        yield made


@pytest.fixture(scope="module")
def grade(context):
    """A function that gives verdicts on files that were handed in."""

    def verdicts_on(files, **changes):
        files = {name: source.encode() for name, source in files.items()}
        return grade_tasks(replace(context, **changes), Submission("1_group", 2, files))

    return verdicts_on


TROUBLE = {  # what is handed in: status of Task 2.1, what the message holds
    "syntax error": ("def (:", "crashed", "SyntaxError"),
    "a package that is not there": ("import nltk_of_nobody", "crashed", "README.md names"),
    "exit at import": ("import os; os._exit(0)", "crashed", "ended before"),
    "polite exit": ("import sys; sys.exit(0)", "crashed", "SystemExit"),
    "endless loop": ("while True: pass", "timeout", "did not end"),
}


@needs_sandbox
@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_at_import_has_a_status(grade, name):
    source, status, words = TROUBLE[name]
    verdicts = grade({FILE: source}, **({"seconds": 0.5} if name == "endless loop" else {}))
    assert lost(verdicts) == set(CHECKED)
    assert words in verdicts[INIT].messages[0]
    assert {verdicts[name].status for name in CHECKED} == {status}


@needs_sandbox
def test_part_2_with_a_broken_part_1_and_a_wrong_forward(grade):
    files = {"bert.py": "raise RuntimeError", "optimizer.py": "1 +"}
    verdicts = grade(files | {FILE: (ROOT / FILE).read_text(encoding="utf-8")})
    assert lost(verdicts) == set(), {k: v.messages for k, v in verdicts.items()}
    verdicts = grade(files | {FILE: put(read(MISTAKES, f"{FORWARD}/padding_pooled"))})
    assert lost(verdicts) == {FORWARD}
    assert verdicts[SENTIMENT].messages == [part2.AGAIN]
    verdicts = grade({"README.md": "hello"})
    assert {verdict.status for verdict in verdicts.values()} == {"missing"}
    assert lost(verdicts) == set(CHECKED)
