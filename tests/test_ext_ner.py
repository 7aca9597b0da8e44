"""NER next to the other tasks: labels, loss and scores against the lesson's and transformers'."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from support import one_line_error
from test_techniques import run  # noqa: F401  (a fixture)

from extensions import multitask
from extensions.ner import entity_f1, predict_tags, read_ner
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


def test_each_word_gets_the_tag_of_its_first_piece(rows):
    """A model that answers with the label of every place; places without one are of no word."""
    batches = list(evaluation_loader(rows, 2))
    answers = iter(batch["labels"].clamp(min=0) for batch in batches)
    predictions = predict_tags(
        batches, lambda ids, mask: 9 * torch.eye(7)[next(answers)], torch.device("cpu")
    )
    columns = (predictions[key] for key in ("sent_ids", "y_pred", "y_true", "probabilities"))
    sentences = sorted(zip(*columns, strict=True))
    # the word of a control character has no piece, and so is none of a name
    assert [row[1] for row in sentences] == ["B-PER O O", "B-LOC I-LOC I-ORG O", "O"]
    assert [row[2] for row in sentences] == ["B-PER I-PER O", "B-LOC I-LOC I-ORG O", "O"]
    assert sentences[0][3][1] == 0
    assert min(sentences[0][3][0], *sentences[1][3], *sentences[2][3]) > 0.99
    # of three names two are found as they are, and one is cut short
    assert entity_f1(predictions["y_true"], predictions["y_pred"]) == pytest.approx(2 / 3)


def test_ner_is_learned_with_sentiment(run, tagged):  # noqa: F811
    files = {f"ner_{split}": str(tagged) for split in ("train", "dev", "test")}
    flags = {"tasks": ["sst", "ner"], "epochs": 12, "steps_per_epoch": 6}
    run(**files, **flags, gradients="sum")  # MTRec's: a batch of each, and one update
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    losses = [epoch["ner_loss"] for epoch in metrics["epochs"]]
    assert losses[-1] < losses[0] / 2
    multitask.test(run.args, multitask.read_held_out(run.args))
    lines = Path("predictions/ner-dev-output.csv").read_text().splitlines()
    assert lines[0] == "id,Predicted_Tags"
    assert [len(line.split(",")[1].split()) for line in lines[1:]] == [3, 4, 1]


def test_other_tags_are_refused(tmp_path, tiny_model_folder):
    file = tmp_path / "others.tsv"
    file.write_text("ab\tO\n\ncd\tB-product\n", encoding="utf-8")
    with one_line_error("sentence 2: 'cd' has the tag B-product", str(file)):
        read_ner(file, Namespace(model=str(tiny_model_folder)))
