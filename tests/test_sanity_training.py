"""checks/part2/loop.py against our loop, the handout's, wrong ones and other right ones.

Wrong and right ones are files: course/mistakes/multitask.training.txt, course/variants/.
"""

import os
import sys

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_post_hooks

import bert
import multitask_classifier
import sanity_check
from checks.findings import Finding, faulty
from checks.graded_tasks import graded_task
from checks.part2 import loop, models
from course.answers import (
    MISTAKES,
    ROOT,
    TRAINING,
    VARIANTS,
    installed,
    installed_source,
    put,
    read,
    read_all,
)
from course.handout import build


def findings_in(source):
    with installed_source("multitask_classifier.py", source):
        return loop.check()


def loop_with(old, new):
    """What is found in the plain loop with one text replaced."""
    source = put(read(VARIANTS, f"{TRAINING}/plain"))
    assert source.count(old) == 1, old
    return findings_in(source.replace(old, new))


def test_our_loop_is_right(monkeypatch):
    flags = models.default_flags() | {"clip": 1.0, "warmup": 0.1}
    monkeypatch.setattr(loop, "default_flags", lambda: flags)
    assert loop.check() == []


REGRESSION = "loss = F.mse_loss(scores, labels)"
ALIKE = "F.binary_cross_entropy_with_logits(scores, (labels >= 4).float())"


@pytest.mark.parametrize(
    ("loss", "hints"),
    [
        (REGRESSION, []),
        ("loss = -torch.corrcoef(torch.stack((scores, labels)))[0, 1]", []),  # their order only
        (f"loss = {ALIKE}", ["STS: a label of 3.6 is learnt like one of 3.9"]),  # has a threshold
    ],
)
def test_no_correct_loop_is_a_false_positive(loss, hints):
    findings = loop_with(REGRESSION, loss)
    assert faulty(findings) == []
    assert [f.text.partition(";")[0] for f in findings] == hints


def test_a_loop_that_wants_768_numbers_gets_them():
    names = "hidden_dropout_prob=0.3, hidden_size=768, data_dir='.', option=args.option"
    source = put(read(VARIANTS, f"{TRAINING}/plain")).replace(
        "model, config = new_model(args)",
        f"config = SimpleNamespace({names}); model = MultitaskBERT(config)",
    )
    with (
        installed_source("multitask_classifier.py", source),
        loop.nothing_stays() as folder,
    ):
        student_loop, run = loop.loop_and_first_run(folder)
        assert student_loop.bert.name == "bert-768"
        assert loop.in_itself(run) == []


def test_the_loop_of_the_handout_trains_sst_alone():
    source = build(ROOT, "2").files["multitask_classifier.py"].decode()
    findings = findings_in(put(read(VARIANTS, "multitask/plain"), source=source))
    assert findings == [Finding("hint", "not trained yet: Quora, STS")]
    (nothing,) = findings_in(source)  # with stubs
    assert (nothing.kind, nothing.text[:8]) == ("waits", "Task 2.1")


@pytest.mark.parametrize("answer", read_all(MISTAKES, TRAINING), ids=lambda answer: answer.name)
def test_a_known_mistake_is_named(answer):
    for version in answer.versions:
        with installed(answer, version):
            findings = loop.check()
        assert {finding.name for finding in findings if finding.name} == {answer.named}, findings
        assert faulty(findings)[0].text.endswith(f"(read {answer.read})")


def test_labels_that_are_not_learnt_from_are_a_hint():
    (finding,) = loop_with("F.mse_loss(scores, labels)", "scores.square().mean()")
    assert (finding.kind, finding.text[:39]) == ("hint", "STS: its labels make no difference to w")


BEGINNING = "    args = find_files(complete(args, MultitaskFlags), TASKS)\n    train_sets"
MIDDLE = "    best = -1.0\n"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            BEGINNING,
            '    raise RuntimeError("no such data")\n    _',
            "RuntimeError: no such data (multitask_classifier.py",
        ),
        (BEGINNING, "    raise SystemExit(2)\n    _", "SystemExit: 2"),
        (BEGINNING, "    raise NotImplementedError\n    _", "not written"),
        (BEGINNING, "    return\n    _", "RuntimeError: train_multitask makes no MultitaskBERT"),
        (
            MIDDLE,
            f"    import time\n    torch.manual_seed(time.perf_counter_ns())\n{MIDDLE}",
            "two runs with the same seed and data learn different parameters",
        ),
    ],
)
def test_a_loop_that_cannot_be_checked(old, new, reason):
    (finding,) = loop_with(old, new)
    assert finding.kind == "waits"
    assert finding.text.startswith(reason)


def test_nothing_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def state():
        return (
            dict(os.environ),
            os.getcwd(),
            list(sys.path),
            torch.autograd.backward,
            len(_global_optimizer_post_hooks),
            bert.BertModel.from_pretrained,
            multitask_classifier.MultitaskBERT.__init__,
        )

    before = state()
    assert loop_with(MIDDLE, f"{MIDDLE}    print(1)\n") == []
    assert state() == before
    assert list(tmp_path.iterdir()) == []
    assert "".join(capsys.readouterr()) == ""


HINT = Finding("hint", "not trained yet: Quora")
CUT = Finding("values", "labels are cut", name="labels_cut_to_integers")
OK = "  ok    the training loop: both sentences and unrounded labels reach the losses"
UNFIT = "  --    the training loop: it is not checked: no such file"
LATER = "  --    the training loop is checked once all tasks of part 2 are right"


@pytest.mark.parametrize(
    ("findings", "todo", "status", "lines"),
    [
        ([], [], 0, [OK]),
        ([HINT], [], 0, [OK, "        hint: not trained yet: Quora"]),
        ([CUT], [], 1, ["  WRONG the training loop", "        labels are cut"]),
        ([Finding("waits", "no such file")], [], 0, [UNFIT]),
        ([], [graded_task("2.5")], 1, [LATER]),
    ],
)
def test_what_the_script_says(findings, todo, status, lines, monkeypatch, check_here):
    monkeypatch.setattr(loop, "check", lambda: findings)
    monkeypatch.setattr(sanity_check.Session, "run_tasks", lambda s, _: s.todo.extend(todo))
    code, printed = check_here("--part", "2")
    assert (code, printed[: len(lines)]) == (status, lines)
