"""Distillation: the student that begins as the teacher, its losses and a run."""

import json

import pytest
import torch
import torch._dynamo  # which torch takes in late: here once, rather than in every process
import transformers
from factories import NO_DROPOUT, save_sentiment_checkpoint, save_tiny_model, stir
from running import assert_refused, assert_same_tensors, succeeded
from torch.nn import functional as F

from classifier import load_model
from datasets import SentenceClassificationDataset, load_data
from lessons import distil
from lessons.distil import DistilBertClassifier, student_of, teacher_outputs
from optimizer import AdamW
from utils import seed_everything

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def teacher_file(tmp_path_factory):
    """A checkpoint of classifier.py with four layers, without dropout, far from initial values."""
    folder = tmp_path_factory.mktemp("teacher")
    save_tiny_model(folder, num_hidden_layers=4, **NO_DROPOUT)
    return save_sentiment_checkpoint(folder / "sst-classifier.pt", folder, labels=5, dropout=0.0)


@pytest.fixture
def teacher(teacher_file):
    return load_model(teacher_file, CPU)


@pytest.fixture
def batch(teacher, tiny_data):
    """All 25 training sentences."""
    rows, _ = load_data(tiny_data / "ids-sst-train.csv", "train")
    return SentenceClassificationDataset(rows, teacher[1]).pad_data(rows)


def hidden_of(bert, batch):
    with torch.no_grad():
        found = bert.eval()(batch["token_ids"], batch["attention_mask"])
    return found["last_hidden_state"]


def test_with_all_layers_it_is_the_teacher(teacher, batch):
    bert = teacher[0].bert
    assert bert.tk_type_embedding.weight[0].abs().max() > 0.1  # that counts, where there are none
    student = student_of(bert, layers=4)
    torch.testing.assert_close(hidden_of(student, batch), hidden_of(bert, batch), atol=1e-5, rtol=0)
    student = student_of(bert)  # every second of them
    for mine, theirs in zip(student.bert_layers, bert.bert_layers[::2], strict=True):
        assert_same_tensors(mine.state_dict(), theirs.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_classifier_is_that_of_transformers(teacher, batch, tmp_path, dtype):
    model = stir(DistilBertClassifier(student_of(teacher[0].bert), 5, dropout=0.3))
    model.save_pretrained(tmp_path)
    theirs, report = transformers.DistilBertForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert theirs.config.seq_classif_dropout == theirs.dropout.p == 0.3
    ours, theirs = model.to(dtype).eval(), theirs.to(dtype).eval()
    near = {"rtol": 1e-4, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0, "atol": 1e-10}
    wanted = theirs(batch["token_ids"], batch["attention_mask"], labels=batch["labels"])
    logits = ours(batch["token_ids"], batch["attention_mask"])
    torch.testing.assert_close(logits, wanted.logits, **near)
    F.cross_entropy(logits, batch["labels"]).backward()
    wanted.loss.backward()
    names = {f"distilbert.{name}": f"bert.{own}" for name, own in ours.bert.hf_names()}
    for name, parameter in theirs.named_parameters():
        mine = ours.get_parameter(names.get(name, name))
        torch.testing.assert_close(mine.grad, parameter.grad, **near)
    again = DistilBertClassifier.from_pretrained(tmp_path)
    assert again.dropout.p == 0.3
    assert_same_tensors(again.to(dtype).state_dict(), ours.state_dict())


@pytest.fixture
def line(teacher_file, tiny_data):
    files = [f"--{name}={tiny_data}/ids-sst-{name}.csv" for name in ("train", "dev")]
    flags = "--epochs 3 --lr 3e-3 --batch_size 4 --hidden_dropout_prob 0 --precision fp32"
    return ["--teacher", str(teacher_file), *files, *flags.split()]


@pytest.mark.parametrize(
    ("weights", "accumulate"),
    [((5.0, 2.0, 1.0), 1), ((5.0, 2.0, 1.0), 4), ((0.0, 0.0, 4.0), 4)],
)
def test_a_step_is_one_on_the_weighted_losses(
    run_script_here, monkeypatch, line, batch, tmp_path, weights, accumulate
):
    """All 25 rows in one step, computed anew with torch's own means; also in four parts."""
    gradients = []

    class Watched(AdamW):
        def step(self):
            gradients.append([p.grad for group in self.param_groups for p in group["params"]])
            return super().step()

    monkeypatch.setattr(distil, "AdamW", Watched)
    once = ["--epochs", "1", "--batch_size", "25", "--accumulate", str(accumulate)]
    succeeded(run_script_here(distil, *line, *once, "--weights", *map(str, weights)))

    seed_everything(11711)  # so that the student's head begins with the same numbers
    teacher = load_model(line[1], CPU)
    model = DistilBertClassifier(student_of(teacher[0].bert), 5, 0.0)
    ids, mask, labels = batch["token_ids"], batch["attention_mask"], batch["labels"]
    wanted, wanted_hidden = teacher_outputs(teacher[0], ids, mask)
    logits, hidden = model.outputs(ids, mask)
    real = mask.bool()

    def cooled(logits):
        return F.log_softmax(logits / 2, dim=-1)

    losses = {
        "soft": 4 * F.kl_div(cooled(logits), cooled(wanted).exp(), reduction="batchmean"),
        "task": F.cross_entropy(logits, labels),
        "direction": F.cosine_embedding_loss(
            hidden[real], wanted_hidden[real], torch.ones(real.sum())
        ),
    }
    loss = sum(weight * one for weight, one in zip(weights, losses.values(), strict=True))
    loss.backward()
    (row,) = metrics_of(tmp_path)["epochs"]
    for name, one in losses.items():
        assert row[name] == pytest.approx(one.item(), rel=1e-4)
    assert row["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert row["train_acc"] == (logits.argmax(-1) == labels).sum().item() / 25
    (found,) = gradients
    compared = 0
    for mine, parameter in zip(found, model.parameters(), strict=True):
        if mine is not None and mine.abs().max():
            torch.testing.assert_close(mine, parameter.grad, rtol=1e-3, atol=1e-5)
            compared += 1
        else:  # weight 0: the head learns nothing from directions
            assert parameter.grad is None or not parameter.grad.any()
    assert compared > 30


def metrics_of(folder):
    return json.loads((folder / "distilled" / "metrics.json").read_text(encoding="utf-8"))


def test_a_run(run_script_here, line, teacher, tmp_path):
    succeeded(run_script_here(distil, *line, "--decay", "--warmup", "0.1", "--clip", "1"))
    folder = tmp_path / "distilled"
    metrics = metrics_of(tmp_path)
    first, *_, last = metrics["epochs"]
    assert last["soft"] < 0.8 * first["soft"]
    assert last["direction"] < 0.9 * first["direction"]
    assert metrics["best"] in metrics["epochs"]
    # what was kept is the best epoch, and transformers gives its accuracy
    rows = load_data(tmp_path.joinpath(line[3].removeprefix("--dev=")), "dev")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = tokenizer([row[0] for row in rows], padding=True, return_tensors="pt")
    with torch.no_grad():
        answers = model(inputs["input_ids"], inputs["attention_mask"]).logits.argmax(-1).tolist()
    accuracy = sum(a == row[1] for a, row in zip(answers, rows, strict=True)) / len(rows)
    assert accuracy == pytest.approx(metrics["best"]["dev_acc"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--teacher missing.pt", "no checkpoint at missing.pt"),
        ("--layers 5", "--layers 5: the teacher has only 4"),
        ("--weights 1 -1 1", "--weights must be at least 0, and one of them above"),
    ],
)
def test_bad_input(run_script_here, line, tmp_path, flags, said):
    assert_refused(run_script_here(distil, *line, *flags.split()), said)
    assert not (tmp_path / "distilled" / "model.safetensors").exists()
