"""The checks of part 2 against our MultitaskBERT, wrong versions, and other right ones.

part2_mistakes.txt has a wrong version for each property: method, property, and lines that a student
may write. Right versions are in course/variants/multitask.
"""

import textwrap
from argparse import Namespace

import pytest
import torch
from factories import multitask_variant, read_cases
from torch import nn
from torch.nn import functional as F

import bert
import multitask_classifier
import sanity_check
from checks import compare
from checks.findings import faulty
from checks.graded_tasks import graded_task
from checks.part2 import tasks
from checks.part2.subjects import FORWARD, INIT, PREDICTIONS
from config import BertConfig
from extensions.model import TechniquesBERT

IDS = (INIT, FORWARD, *PREDICTIONS)
MISTAKES = read_cases("part2_mistakes.txt")
SENTENCE = "self, input_ids, attention_mask"
ARGUMENTS = {"init": "self, config", "forward": SENTENCE, "predict_sentiment": SENTENCE}
STUB = "raise NotImplementedError('Task …')"
SHIFT, UNUSED, NO_DROPOUT = "more columns of", "with --option pretrain", "in training no dropout"


@pytest.fixture(autouse=True)
def _nothing_known():
    """No test sees what was found in the functions of another one."""
    tasks.findings_in.cache_clear()
    yield
    tasks.findings_in.cache_clear()


@pytest.fixture
def model(monkeypatch):
    """A class like ours, to be changed."""
    monkeypatch.setattr(compare, "check", lambda _: [])  # bert.py is right
    ours = type("MultitaskBERT", (multitask_classifier.MultitaskBERT,), {})
    monkeypatch.setattr(multitask_classifier, "MultitaskBERT", ours)
    return ours


def written(cls, name, body):
    """Replace a method of a class by a student's lines."""
    names = ARGUMENTS.get(name, "self, ids_1, mask_1, ids_2, mask_2")
    space = {"torch": torch, "nn": nn, "F": F, "BertConfig": BertConfig}
    space |= {"BertModel": bert.BertModel, "make": cls.__init__}
    method = "__init__" if name == "init" else name
    exec(f"def {method}({names}):\n{textwrap.indent(body, '    ')}", space)
    setattr(cls, method, space[method])


def checked(*task_ids):
    """Faults by task, the texts of all hints."""
    findings = {task_id: tasks.check(graded_task(task_id)) for task_id in task_ids or IDS}
    wrong = {task_id: faulty(list_) for task_id, list_ in findings.items() if faulty(list_)}
    return wrong, [f.text for list_ in findings.values() for f in list_ if f.kind == "hint"]


@pytest.mark.parametrize(("method", "name", "body"), MISTAKES, ids=lambda part: part.split("\n")[0])
@pytest.mark.filterwarnings("ignore")
def test_a_mistake_is_named(method, name, body, model):
    written(model, method, body)
    findings = tasks.check(graded_task(f"multitask.{method}"))
    first, fails, explained = (finding for finding in findings if finding.kind != "hint")
    assert (first.name, fails.kind, explained.kind) == (name, "property", "explained")
    assert explained.text.endswith(")")  # what to read
    assert 25 <= len(explained.text.split()) <= 120


SCORE = "u, v = self(ids_1, mask_1), self(ids_2, mask_2)\n"
JOINED = "self.similarity(self.dropout(torch.cat((u, v, u * v), -1)))"
COSINE = "F.cosine_similarity(self.dropout(u), self.dropout(v))"
PRODUCT = "(self.dropout(u) * self.dropout(v)).sum(-1)"
DISTANCE = "(self.dropout(u) - self.dropout(v)).square().sum(-1).sqrt()"
EMBEDDED = "hidden = self.bert.encode(self.bert.embed(input_ids), attention_mask)\n"
LOGITS = "return self.sentiment(self(input_ids, attention_mask))"
START = "make(self, config)\n"
WITHOUT = "u = self(ids_1, mask_1)\nwith torch.no_grad():\n    v = self(ids_2, mask_2)\n"
LIMIT = "no result of the many that were tried is"
EQUAL, SQUEEZED, SMALL = "the gradient of a pair", "a batch of one row", "no score of the many that"


@pytest.mark.parametrize(
    ("method", "body", "hints"),
    [
        ("predict_similarity", f"{SCORE}return 5 * {COSINE}", [UNUSED]),
        (
            "predict_similarity",
            f"{SCORE}return 4 * {JOINED}.sigmoid()[:, 0]",
            [f"{SMALL} were tried is above 4,"],
        ),
        ("predict_similarity", f"{SCORE}return -{DISTANCE}", [UNUSED, EQUAL, SMALL]),
        ("predict_similarity", f"{SCORE}return 5 * {PRODUCT}.sigmoid()", [UNUSED]),
        ("predict_similarity", f"{SCORE}return {COSINE} * self.similarity.bias.exp()", []),
        ("predict_similarity", f"{SCORE}return F.relu({JOINED}).squeeze()", [SQUEEZED]),
        ("predict_similarity", f"{WITHOUT}return {JOINED}[:, 0]", ["no gradient passes through"]),
        ("predict_paraphrase", f"{SCORE}return {JOINED}[:, 0].abs()", [f"{LIMIT} below 0"]),
        ("predict_paraphrase", f"{SCORE}return {COSINE}", [f"{LIMIT} below −1", UNUSED]),
        ("predict_sentiment", LOGITS, [NO_DROPOUT]),
        ("predict_sentiment", f"{LOGITS}.log_softmax(-1)", [f"{LIMIT} above 0", NO_DROPOUT]),
        ("forward", f"{EMBEDDED}return self.bert.pooler_dense(hidden[:, 0]).tanh()", []),
        ("init", f"{START}nn.init.zeros_(self.paraphrase.weight)", []),
    ],
)
def test_a_right_way_is_no_false_positive(method, body, hints, model):
    written(model, method, body)
    wrong, said = checked(f"multitask.{method}")
    assert wrong == {}
    assert [hint[: len(start)] for hint, start in zip(said, hints, strict=True)] == hints


@pytest.mark.parametrize(
    ("cls", "options", "hints"),
    [
        (multitask_variant("pairs_as_pairs.py"), {}, [SHIFT, UNUSED]),
        (multitask_classifier.MultitaskBERT, {}, []),
        (TechniquesBERT, {"similarity": "cosine", "pooling": "mean"}, [UNUSED, NO_DROPOUT]),
        (TechniquesBERT, {"separate_layers": 1, "pooling": "cls"}, []),
    ],
)
def test_other_correct_solutions(cls, options, hints, monkeypatch):
    monkeypatch.setattr(multitask_classifier, "MultitaskBERT", cls)
    monkeypatch.setattr(multitask_classifier, "get_args", lambda _: Namespace(**options))
    wrong, said = checked()
    assert wrong == {}
    assert sorted(hint[:10] for hint in said) == sorted(hint[:10] for hint in hints)


def test_a_forward_of_another_form_is_not_blamed_for_one_wrong_prediction(model):
    pooled = "self.bert(input_ids, attention_mask)['pooler_output']"
    written(model, "forward", f"return {{0: {pooled}}}")
    vectors = "self.dropout(self(input_ids, attention_mask)[0])"
    written(model, "predict_sentiment", f"return self.sentiment({vectors})")
    product = "(self(ids_1, mask_1)[0] * self(ids_2, mask_2)[0])"
    written(model, "predict_similarity", f"return {product}.sum(-1).round()")
    wrong, hints = checked(FORWARD, PREDICTIONS[2])
    assert hints[0].startswith("forward returns a dict")
    assert [finding.name for finding in wrong[PREDICTIONS[2]]] == ["rounded"]


@pytest.mark.parametrize("task_id", [INIT, FORWARD, PREDICTIONS[1]])
def test_a_function_that_is_not_begun(task_id, model):
    written(model, task_id.split(".")[1], STUB)
    kinds = {key: (list_[0].kind, list_[0].text) for key, list_ in checked()[0].items()}
    assert kinds.pop(task_id) == ("not started", "")
    others = {INIT: IDS[1:], FORWARD: IDS[2:]}.get(task_id, ())
    assert kinds == dict.fromkeys(others, ("waits", f"for Task {graded_task(task_id).number}"))


def test_an_unfinished_bert_is_no_fault_of_part_2(model, monkeypatch):
    monkeypatch.setattr(bert.BertModel, "embed", lambda *_: 1 / 0)
    monkeypatch.setattr(compare, "check", lambda _: ["wrong"])
    assert checked(FORWARD)[0][FORWARD][0].text == "for bert.py (python sanity_check.py --part 1)"


def test_script_on_part_2(model, check_here, monkeypatch):
    code, lines = check_here("--part", "2")
    following = f"next: train it: {sanity_check.TRAINING[2][0]} (docs/part2.md)"
    assert (code, lines[-2:]) == (0, [f"{len(IDS)} of {len(IDS)} tasks right", following])
    assert any(line.startswith("  ok    the training loop: ") for line in lines)
    written(model, "predict_paraphrase", f"{SCORE}return (u * v).sum(-1).sigmoid()")
    tasks.findings_in.cache_clear()
    code, lines = check_here("--part", "2")
    assert (code, lines[-2]) == (1, "4 of 5 tasks right")
    assert (
        "  --    the training loop is checked once all of multitask_classifier.py is right" in lines
    )
    assert lines[3] == "  WRONG Task 2.4 · MultitaskBERT.predict_paraphrase"
