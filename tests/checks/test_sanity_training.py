"""checks/part2/loop.py against our loop, the handout's, wrong ones and other right ones."""

import re
import textwrap

import pytest
import torch
from factories import ROOT

import multitask_classifier
from checks import jobs
from checks.findings import faulty
from checks.part2 import loop

PLAIN = (ROOT / "course/variants/multitask.training/plain.py").read_text(encoding="utf-8")
SCRIPT = textwrap.dedent(PLAIN.partition("class Script:\n")[2])


@pytest.fixture
def findings_with(monkeypatch):
    """A function: what is found in a plain loop with one text replaced."""

    def find(old, new):
        assert SCRIPT.count(old) == 1, old
        space = dict(vars(multitask_classifier)) | {"DataLoader": torch.utils.data.DataLoader}
        exec(SCRIPT.replace(old, new), space)
        monkeypatch.setattr(multitask_classifier, "train_multitask", space["train_multitask"])
        return loop.check()

    return find


def test_our_loop_is_right_and_the_handouts_trains_sst_alone(monkeypatch):
    flags = loop.default_flags() | {"clip": 1.0, "warmup": 0.1}
    monkeypatch.setattr(loop, "default_flags", lambda: flags)
    assert loop.check() == []
    monkeypatch.setattr(multitask_classifier, "LOSSES", {"sst": multitask_classifier.LOSSES["sst"]})
    hints = [finding.text for finding in loop.check()]
    assert hints == ["LOSSES has no loss for Quora and STS yet"]


LOSS = "loss = F.mse_loss(scores, labels)"
RANK = "loss = -torch.corrcoef(torch.stack((scores, labels)))[0, 1]"  # their order only


@pytest.mark.parametrize(
    ("loss", "hints"),
    [
        (RANK, []),
        ("loss = scores.square().mean()", ["STS: its labels make no difference to what is learnt"]),
    ],
)
def test_no_correct_loop_is_a_false_positive(loss, hints, findings_with):
    findings = findings_with(LOSS, loss)
    assert faulty(findings) == []
    assert [f.text.partition(";")[0] for f in findings] == hints


SCORES = "scores = model.predict_similarity(ids_1, mask_1, ids_2, mask_2)"
PARAMETERS = "[p for p in model.parameters() if p.requires_grad]"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("nothing_learnt", "loss.backward()", "pass"),
        ("nothing_learnt", "optimizer.step()", "pass"),
        ("nothing_learnt", PARAMETERS, "MultitaskBERT(config).parameters()"),
        ("loss_not_finite", LOSS, "loss = (scores - 100).log().sub(labels).mean()"),
        ("zero_grad_forgotten", "optimizer.zero_grad()", "pass"),
        ("train_forgotten", "model.train()", "model.train(epoch == 0)"),
        ("labels_broadcast", SCORES, f"{SCORES}[:, None]"),
        ("side_unused", SCORES, SCORES.replace("_2", "_1")),
        ("labels_cut_to_integers", LOSS, "loss = F.mse_loss(scores, labels.long().float())"),
        ("labels_cut_to_integers", LOSS, "loss = F.l1_loss(scores, (labels > 3).float())"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_mistake_is_named(name, old, new, findings_with):
    findings = findings_with(old, new)
    assert [finding.name for finding in faulty(findings)] == [name]
    assert findings[1].kind == "property"
    assert findings[2].text.endswith(f"(read {loop.PAPER})")


BEGINNING, MIDDLE = re.search(r"    args = .*\n", SCRIPT)[0], "    best = -1.0\n"
CHANCE = f"    import time\n    torch.manual_seed(time.perf_counter_ns())\n{MIDDLE}"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (BEGINNING, '    raise RuntimeError("no such data")\n', "RuntimeError: no such data"),
        (BEGINNING, "    return\n", "RuntimeError: train_multitask makes no MultitaskBERT"),
        (MIDDLE, CHANCE, "two runs with the same seed and data learn different parameters"),
    ],
)
def test_a_loop_that_cannot_be_checked_is_not_wrong(old, new, reason, findings_with, monkeypatch):
    findings = findings_with(old, new)
    monkeypatch.setattr(loop, "check", lambda: findings)
    outcome = jobs.run("loop")
    assert outcome.status == "skipped"
    assert outcome.about.startswith(f"it is not checked: {reason}")


def test_no_file_and_no_print_stays(tmp_path, monkeypatch, capsys, findings_with):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert findings_with(MIDDLE, f"{MIDDLE}    print(1)\n") == []
    assert list(tmp_path.iterdir()) == []
    assert "".join(capsys.readouterr()) == ""
