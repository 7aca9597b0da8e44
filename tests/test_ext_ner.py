"""NER next to the other tasks: labels, loss and scores against the lesson's and transformers'."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from support import one_line_error
from test_techniques import make_model, run  # noqa: F401  (run is a fixture)
from transformers import BertForTokenClassification

from extensions import multitask
from extensions.entities import entity_scores
from extensions.model import TechniquesBERT
from extensions.ner import TAGS, entity_f1, read_ner, tag_loss, tag_words
from training.loop.batches import evaluation_loader

TEXT = """ab\tB-PER
\u200e\tI-PER
cd\tO

a\tB-LOC
e\tI-LOC
b\tI-ORG
c\tO

d\tO
"""


@pytest.fixture
def tagged(tmp_path) -> Path:
    file = tmp_path / "names.tsv"
    file.write_text(TEXT, encoding="utf-8")
    return file


@pytest.fixture
def rows(tagged, tiny_model_folder):
    return read_ner(tagged, Namespace(model=str(tiny_model_folder)))


@pytest.fixture
def model(tiny_model_folder) -> TechniquesBERT:
    return make_model(tiny_model_folder, tasks=["sst", "ner"])


def test_outputs_loss_and_gradients_are_those_of_transformers(rows, model, tmp_path):
    model.bert.save_pretrained(tmp_path / "bert", model.ner)
    theirs = BertForTokenClassification.from_pretrained(
        tmp_path / "bert", attn_implementation="eager"
    ).eval()
    assert theirs.classifier.out_features == len(TAGS)
    batch = rows.collate_fn(list(rows))
    ids, mask, labels = batch["token_ids"], batch["attention_mask"], batch["labels"]
    expected = theirs(ids, attention_mask=mask, labels=labels)
    logits = model.predict_tags(ids, mask)
    torch.testing.assert_close(logits, expected.logits, rtol=0, atol=1e-5)
    loss = tag_loss(logits, labels)
    torch.testing.assert_close(loss, expected.loss, rtol=0, atol=1e-5)
    loss.backward()
    expected.loss.backward()
    for ours, other in (
        (model.ner.weight, theirs.classifier.weight),
        (model.bert.word_embedding.weight, theirs.bert.embeddings.word_embeddings.weight),
    ):
        torch.testing.assert_close(ours.grad, other.grad, rtol=1e-4, atol=1e-7)


def test_a_batch_without_a_labelled_token_has_a_loss_of_0():
    assert tag_loss(torch.randn(2, 3, 7), torch.full((2, 3), -100)) == 0


def test_each_word_gets_the_tag_of_its_first_piece(rows):
    """A model that answers with the label of every place, from the other end of the alphabet."""
    batches = list(evaluation_loader(rows, 2))
    answers = iter(batch["labels"].clamp(min=0) for batch in batches)
    found = tag_words(
        batches, lambda ids, mask: 9 * torch.eye(7)[next(answers)], torch.device("cpu")
    )
    by_id = dict(zip(found["sent_ids"], found["y_pred"], strict=True))
    # the word of a control character has no piece, and so is none of a name
    assert by_id == {0: "B-PER O O", 1: "B-LOC I-LOC I-ORG O", 2: "O"}
    gold = dict(zip(found["sent_ids"], found["y_true"], strict=True))
    assert gold == {0: "B-PER I-PER O", 1: "B-LOC I-LOC I-ORG O", 2: "O"}
    shares = dict(zip(found["sent_ids"], found["confidence"], strict=True))
    assert shares[0][1] == 0
    assert min(shares[0][0], *shares[1], *shares[2]) > 0.99
    # of three names two are found as they are, and one is cut short
    assert entity_f1(found["y_true"], found["y_pred"]) == pytest.approx(2 / 3)
    table = entity_scores([["B-PER", "I-PER"]], [["B-PER", "O"]])
    assert entity_f1(["B-PER I-PER"], ["B-PER O"]) == table.loc["all", "f1"] == 0


def test_ner_is_learned_with_sentiment(run, tagged, monkeypatch):  # noqa: F811
    files = {f"ner_{split}": str(tagged) for split in ("train", "dev", "test")}
    flags = {"tasks": ["sst", "ner"], "epochs": 12, "steps_per_epoch": 6}
    run(**files, **flags, gradients="sum")  # MTRec's: a batch of each, and one update
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    losses = [epoch["ner_loss"] for epoch in metrics["epochs"]]
    assert losses[-1] < losses[0] / 2
    described = []
    monkeypatch.setattr("extensions.ner.describe", lambda *args: described.append(args))
    multitask.test(run.args, multitask.read_held_out(run.args))
    lines = Path("predictions/ner-dev-output.csv").read_text().splitlines()
    assert lines[0] == "id,Predicted_Tags"
    assert [len(line.split(",")[1].split()) for line in lines[1:]] == [3, 4, 1]
    _, words, texts, classes = described[-1]
    assert classes == TAGS
    assert len(words["y_true"]) == len(texts) == 8
    assert set(words["sent_ids"]) == {"0.1", "0.2", "0.3", "1.1", "1.2", "1.3", "1.4", "2.1"}
    assert "ab · ab" in " ".join(row[0] for row in texts)


def test_a_frozen_bert_still_gives_every_word_a_vector(run, tagged):  # noqa: F811
    files = {f"ner_{split}": str(tagged) for split in ("train", "dev")} | {"ner_test": ""}
    saved = run(tasks=["sst", "ner"], option="pretrain", **files)["model"]
    assert saved["ner.weight"].abs().sum() > 0


def test_other_tags_are_refused(tmp_path, tiny_model_folder):
    file = tmp_path / "others.tsv"
    file.write_text("ab\tO\n\ncd\tB-product\n", encoding="utf-8")
    with one_line_error("sentence 2: 'cd' has the tag B-product", str(file)):
        read_ner(file, Namespace(model=str(tiny_model_folder)))
