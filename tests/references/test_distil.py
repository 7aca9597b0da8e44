"""Distillation: the student that begins as the teacher, and its losses by torch's own means."""

import json

import pytest
import torch
import transformers
from factories import NO_DROPOUT, save_sentiment_checkpoint, save_tiny_model, stir
from running import assert_same_tensors, succeeded
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


def test_the_classifier_is_that_of_transformers(teacher, batch, tmp_path):
    ours = stir(DistilBertClassifier(student_of(teacher[0].bert), 5, dropout=0.3))
    ours.save_pretrained(tmp_path)
    theirs, report = transformers.DistilBertForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert theirs.config.seq_classif_dropout == theirs.dropout.p == 0.3
    assert theirs.config.id2label[4] == "LABEL_4"
    inputs = batch["token_ids"], batch["attention_mask"]
    logits, wanted = ours.double()(*inputs), theirs.double().eval()(*inputs).logits
    torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-10)


def test_a_step_is_one_on_the_weighted_losses(
    run_script_here, monkeypatch, teacher_file, tiny_data, batch, tmp_path
):
    """All 25 rows in one step, in four parts, computed again with torch's own means."""
    gradients = []

    class Watched(AdamW):
        def step(self):
            gradients.append([p.grad for group in self.param_groups for p in group["params"]])
            return super().step()

    monkeypatch.setattr(distil, "AdamW", Watched)
    flags = "--epochs 1 --batch_size 25 --hidden_dropout_prob 0 --precision fp32 --data_dir"
    line = ["--teacher", teacher_file, *flags.split(), tiny_data, "--accumulate", 4]
    weights = 5.0, 2.0, 1.0
    succeeded(run_script_here(distil, *line, "--weights", *weights))

    seed_everything(11711)  # so that the student's head begins with the same numbers
    teacher = load_model(teacher_file, CPU)[0]
    model = DistilBertClassifier(student_of(teacher.bert), 5, 0.0)
    ids, mask, labels = batch["token_ids"], batch["attention_mask"], batch["labels"]
    wanted, wanted_hidden = teacher_outputs(teacher, ids, mask)
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
    metrics = json.loads((tmp_path / "distilled/metrics.json").read_text(encoding="utf-8"))
    (row,) = metrics["epochs"]
    for name, one in (losses | {"loss": loss}).items():
        assert row[name] == pytest.approx(one.item(), rel=1e-4)
    assert row["train_acc"] == (logits.argmax(-1) == labels).sum().item() / 25
    (found,) = gradients
    wanted = [parameter.grad for parameter in model.parameters()]
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)
