"""checks/part2/properties.py against our MultitaskBERT, wrong versions, and other right ones.

Most of these are files: course/mistakes/multitask.*/, course/variants/multitask/.
"""

import contextlib
import functools
import sys
from argparse import Namespace
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bert
import multitask_classifier
import sanity_check
from checks import jobs
from checks.findings import Outcome, faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.part1 import tasks as part1_tasks
from checks.part2 import models
from checks.part2 import tasks as part2_tasks
from course.answers import MISTAKES, VARIANTS, installed, read, read_all
from extensions.model import TechniquesBERT

INIT, FORWARD, SENTIMENT = "multitask.init", "multitask.forward", "multitask.predict_sentiment"
PARAPHRASE, SIMILARITY = "multitask.predict_paraphrase", "multitask.predict_similarity"
IDS = (INIT, FORWARD, SENTIMENT, PARAPHRASE, SIMILARITY)
NO_DROPOUT = "no dropout of your own in training mode"
SHIFT = "more columns of padding change results by up to"
FROZEN = "option pretrain: none of your layers takes part"


class Plain(nn.Module):
    """A bi-encoder: a linear layer for each task, over the pooled output or two of them."""

    def __init__(self, config):
        super().__init__()
        self.bert = bert.BertModel.from_pretrained("bert-base-uncased")
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.width = config.hidden_size
        self.make_heads(config)

    def make_heads(self, config):
        self.sentiment = nn.Linear(self.width, 5)
        self.paraphrase = nn.Linear(2 * self.width, 1)
        self.similarity = nn.Linear(2 * self.width, 1)

    def forward(self, ids, mask):
        return self.bert(ids, mask)["pooler_output"]

    def features(self, ids_1, mask_1, ids_2, mask_2):
        pair = self.forward(ids_1, mask_1), self.forward(ids_2, mask_2)
        return self.dropout(torch.cat(pair, dim=-1))

    def predict_sentiment(self, ids, mask):
        vectors = self.forward(ids, mask)
        return self.sentiment(self.dropout(vectors))

    def predict_paraphrase(self, *batch):
        return self.paraphrase(self.features(*batch)).squeeze(-1)

    def predict_similarity(self, *batch):
        return self.similarity(self.features(*batch)).squeeze(-1)


@pytest.fixture
def use(monkeypatch):
    """A function that makes a class the student's MultitaskBERT."""
    module = ModuleType("multitask_classifier")
    module.get_args = lambda: Namespace(pair_model="mini", option="a default")
    monkeypatch.setitem(sys.modules, "multitask_classifier", module)

    def function(cls):
        module.MultitaskBERT = cls
        return module

    return function


@contextlib.contextmanager
def quicker():
    """While active, what was found out of one task is not found out again for another one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("findings_in", "faults"):
            patch.setattr(part2_tasks, name, functools.cache(getattr(part2_tasks, name)))
        yield


def found():
    """Findings by task, only of tasks that have any."""
    with quicker():
        findings = {task_id: part2_tasks.check(graded_task(task_id)) for task_id in IDS}
    return {task_id: list_ for task_id, list_ in findings.items() if list_}


def split(findings):
    """Tasks with faults, the texts of all hints."""
    wrong = {k: faulty(v) for k, v in findings.items()}
    hints = [f.text for v in findings.values() for f in v if f.kind == "hint"]
    return {k: v for k, v in wrong.items() if v}, hints


# ---------------------------------------------------------------------------------------------
# Right ways


class AlwaysPositive(Plain):
    """For these seven pairs, with this start, all logits are between 0 and 1."""

    def make_heads(self, config):
        self.sentiment = nn.Linear(self.width, 5)
        self.paraphrase = nn.Linear(self.width, 1)
        self.similarity = nn.Linear(self.width, 1)
        with torch.no_grad():
            self.paraphrase.weight.mul_(0.1)
            self.paraphrase.bias.fill_(0.5)

    def features(self, ids_1, mask_1, ids_2, mask_2):
        hidden = self.bert.embed(torch.cat((ids_1, ids_2[:, 1:]), 1))
        mask = torch.cat((mask_1, mask_2[:, 1:]), 1)
        return self.dropout(self.bert.encode(hidden, mask)[:, 0])


class HalfFrozen(Plain):
    """Only the upper layer of BERT is fine-tuned."""

    def make_heads(self, config):
        super().make_heads(config)
        self.bert.word_embedding.requires_grad_(False)
        self.bert.bert_layers[0].requires_grad_(False)


class NoDropout(Plain):
    def predict_sentiment(self, ids, mask):
        return self.sentiment(self(ids, mask))


class Root(Plain):
    """A root's gradient is infinite where two sentences are the same."""

    def predict_similarity(self, ids_1, mask_1, ids_2, mask_2):
        u, v = self.dropout(self(ids_1, mask_1)), self.dropout(self(ids_2, mask_2))
        return -(u - v).square().sum(-1).sqrt()


class Squeezed(Plain):
    def predict_similarity(self, *batch):
        return self.similarity(self.features(*batch)).squeeze()


RIGHT = {  # what is in no file: class, words of the hints that are given
    "plain": (Plain, []),
    "logits between 0 and 1": (AlwaysPositive, [SHIFT] * 2),
    "half frozen": (HalfFrozen, ["option finetune: only 22 of 39 "]),
    "no dropout": (NoDropout, [NO_DROPOUT]),
    "root": (Root, [FROZEN, "the gradient of a pair of identical sentences is not finite"]),
    "squeeze of all axes": (Squeezed, ["a batch of one gives shape (): squeeze() without"]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_way_is_no_false_positive(name, use):
    cls, words = RIGHT[name]
    use(cls)
    assert_only_hints(words)


def assert_only_hints(words):
    """Nothing is wrong; the hints begin with these words."""
    wrong, hints = split(found())
    assert wrong == {}
    assert [hint[: len(start)] for hint, start in zip(hints, words, strict=True)] == words


# ---------------------------------------------------------------------------------------------
# Wrong ones: each changes one thing of Plain


def wrong(**methods):
    """Plain with other methods."""
    return type("Wrong", (Plain,), methods)


def after(name, change):
    """Plain whose method ``name`` returns ``change`` of what it should."""
    method = getattr(Plain, name)
    return wrong(**{name: lambda self, *batch: change(method(self, *batch))})


def init(change):
    """Plain with something done to it at the end of __init__."""

    def __init__(self, config):
        Plain.__init__(self, config)
        change(self, config)

    return wrong(__init__=__init__)


def another_bert(self, config):
    self.bert = bert.BertModel(bert.BertConfig(**models.TINY))


def wide_head(self, config):
    self.similarity = nn.Linear(768 * 2, 1)


def frozen_heads(self, *batch):
    return F.linear(self(*batch), self.sentiment.weight.data)


PROBABILITY = after("predict_paraphrase", lambda x: x.sigmoid())
WRONG = {  # what is in no file: task that is wrong, class, words that a finding must hold
    "another BERT than the loaded one": (INIT, init(another_bert), "BERT is not part of the model"),
    "width of one layer": (
        INIT,
        init(wide_head),
        "takes 1536 numbers, but config.hidden_size is 96 here, so predict_similarity gives it 7x",
    ),
    "constant": (FORWARD, after("forward", lambda x: x * 0), "the sentence has no effect"),
    "NaN": (FORWARD, after("forward", lambda x: x / 0 * 0), "not finite: [nan, nan, nan] …"),
    "head cut off": (SENTIMENT, wrong(predict_sentiment=frozen_heads), "none of your layers takes"),
    "a list": (PARAPHRASE, after("predict_paraphrase", lambda x: x.tolist()), "returns a list"),
    "root of zero": (
        SIMILARITY,
        after("predict_similarity", lambda x: x + (x * 0).sqrt()),
        "gradients that are not finite reach the parameters",
    ),
    "left with quit()": (
        SENTIMENT,
        wrong(predict_sentiment=lambda self, *batch: exit(2)),
        "SystemExit",
    ),
}


def assert_only_this_is_wrong(task_id):
    """All other tasks are right, or wait for this one; the findings on this one."""
    wrong, _ = split(found())
    accused = [key for key, findings in wrong.items() if findings[0].kind != "waits"]
    assert accused == [task_id], wrong
    for key in wrong.keys() - {task_id}:
        assert [finding.text for finding in wrong[key]] == [
            f"for Task {graded_task(task_id).number}"
        ]
    return wrong[task_id]


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_said_in_words_and_concerns_its_own_task_only(name, use, monkeypatch):
    task_id, cls, words = WRONG[name]
    use(cls)
    monkeypatch.setattr(part2_tasks, "check_model", lambda _: [])  # bert.py is right: saves time
    findings = assert_only_this_is_wrong(task_id)
    assert any(words in finding.text for finding in findings), findings


FILES = [answer for task_id in IDS for answer in read_all(MISTAKES, task_id)]


@pytest.mark.parametrize("answer", FILES, ids=lambda answer: f"{answer.folder[10:]}-{answer.name}")
def test_a_known_mistake_is_named_however_it_is_written(answer, monkeypatch):
    """And no other task gets a false positive; where only this function differs, that is clear."""
    monkeypatch.setattr(part2_tasks, "check_model", lambda _: [])
    for version, methods in answer.versions.items():
        with installed(answer, version):
            findings = part2_tasks.check(answer.task)
            if methods.keys() != {models.function_of(answer.task.id)}:
                assert_only_this_is_wrong(answer.task.id)
        wrong = faulty(findings)
        assert {finding.name for finding in findings if finding.name} == {answer.named}, findings
        assert wrong[0].name == answer.named  # what is printed first
        assert wrong[0].text.endswith(f"(read {answer.read})")


HINTS = {  # version of a correct solution: words of the hints that are given
    "AllOfBert": ["returns a dict instead of a tensor with an emb"],
    "Distance": [FROZEN],
    "FiveTimes": [FROZEN],
    "OfPairs": ["TypeError: "],
    "PaddedSideBySide": [SHIFT] * 2,
    "ShortCosine": [FROZEN],
}


@pytest.mark.parametrize("answer", read_all(VARIANTS, "multitask"), ids=lambda answer: answer.name)
def test_no_correct_solution_is_a_false_positive(answer):
    for version in answer.versions:
        with installed(answer, version):
            assert_only_hints(HINTS.get(version, []))


def test_a_forward_of_another_form_is_not_blamed_for_one_wrong_prediction():
    with installed(read(VARIANTS, "multitask/another_forward"), "AllOfBert") as module:
        right = module.MultitaskBERT.predict_similarity
        module.MultitaskBERT.predict_similarity = lambda *inputs: right(*inputs).round()
        wrong, _ = split(found())
    assert {key: findings[0].name for key, findings in wrong.items()} == {SIMILARITY: "rounded"}


# ---------------------------------------------------------------------------------------------
# Our solution, and what is not begun or has to wait


@pytest.mark.parametrize(
    ("cls", "options", "hints"),
    [
        (multitask_classifier.MultitaskBERT, {}, []),
        (TechniquesBERT, {"similarity": "cosine", "pooling": "mean"}, [FROZEN, NO_DROPOUT]),
        (TechniquesBERT, {"separate_layers": 1, "pooling": "cls"}, []),
    ],
)
def test_our_models_are_right(cls, options, hints, monkeypatch):
    monkeypatch.setattr(multitask_classifier, "MultitaskBERT", cls)
    monkeypatch.setattr(multitask_classifier, "get_args", lambda: Namespace(**options))
    assert_only_hints(hints)


def unwritten_as(task_id):
    """A stub under the name that it has in the students' file."""
    name = models.function_of(task_id)
    space = {}
    exec(f"def {name}(self, *_):\n    raise NotImplementedError('Task …')", space)
    return space[name]


@pytest.mark.parametrize("task_id", IDS)
def test_a_function_that_is_not_begun(task_id, use):
    use(wrong(**{models.function_of(task_id): unwritten_as(task_id)}))
    findings = {key: list_[0] for key, list_ in found().items()}
    assert findings.pop(task_id).kind == "not started"
    others = {INIT: IDS[1:], FORWARD: IDS[2:]}.get(task_id, ())
    said = {key: (finding.kind, finding.text) for key, finding in findings.items()}
    assert said == {key: ("waits", f"for Task {graded_task(task_id).number}") for key in others}


def test_an_unfinished_bert_is_no_fault_of_part_2(use, monkeypatch):
    use(Plain)
    monkeypatch.setattr(bert.BertModel, "embed", unwritten_as("bert.embed"))
    waiting = {key: [finding.text for finding in list_] for key, list_ in found().items()}
    assert waiting == {key: ["for bert.py (python sanity_check.py --part 1)"] for key in IDS[1:]}


def test_random_numbers_and_the_class_are_left_as_they_were(use):
    use(Plain)
    state, load = torch.get_rng_state(), bert.BertModel.from_pretrained
    assert found() == {}
    assert torch.equal(torch.get_rng_state(), state)
    assert bert.BertModel.from_pretrained == load


# ---------------------------------------------------------------------------------------------
# The script


def test_script_on_part_2(use, check_here):
    use(NoDropout)
    code, lines = check_here("--task", "2.3")
    assert (code, lines[2]) == (0, "1 of 1 task right")
    assert lines[1].startswith(f"        hint: {NO_DROPOUT}")
    use(PROBABILITY)
    code, lines = check_here("--part", "2")
    assert code == 1
    assert lines[3] == "  WRONG Task 2.4 · MultitaskBERT.predict_paraphrase"
    assert lines[-3:] == [
        "  --    the training loop is checked once all tasks of part 2 are right",
        "4 of 5 tasks right",
        "next: Task 2.4 · MultitaskBERT.predict_paraphrase "
        f"({graded_task('2.4').check}), see {graded_task('2.4').paper}",
    ]


@pytest.fixture
def model_is(monkeypatch):
    """A function: let part 1's functions be right, and the whole model of this status."""

    def function(status: str) -> None:
        monkeypatch.setattr(part1_tasks, "check", lambda entry: [])
        for job in ("whole", "pretrained"):
            outcome = Outcome("the whole BertModel", status)
            monkeypatch.setitem(jobs.OTHERS, job, lambda outcome=outcome: outcome)

    return function


def test_without_a_choice_part_2_follows_part_1(use, model_is, check_here):
    model_is("ok")
    use(Plain)
    code, lines = check_here()
    count = len(GRADED_TASKS)
    assert (code, lines[-2:]) == (0, [f"{count} of {count} tasks right", sanity_check.MEET])
    use(PROBABILITY)
    code, lines = check_here()
    assert (code, lines[-1][:14]) == (1, "next: Task 2.4")


def test_a_student_of_part_1_is_not_told_of_part_2s_tasks(use, model_is, check_here):
    model_is("ok")
    use(wrong(**{models.function_of(task_id): unwritten_as(task_id) for task_id in IDS}))
    code, lines = check_here()
    assert code == 0
    assert lines[-3:] == [
        "  --    part 2 is not begun (python sanity_check.py --part 2)",
        "7 of 7 tasks right",
        sanity_check.MEET,
    ]
    model_is("wrong")
    code, lines = check_here()
    assert code == 1
    assert lines[-2] == "  --    part 2 is checked once part 1 is right, or with --part 2"
    code, lines = check_here("--part", "1")
    assert (code, lines[-1]) == (1, "7 of 7 tasks right")
