"""classifier.py: its contract, its training, its outputs."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from factories import make_rows, write_table
from running import assert_same_tensors, succeeded
from sklearn.metrics import accuracy_score

import classifier
from datasets import load_data
from training.files.predictions import read_predictions
from training.loop.checkpoints import load_checkpoint

CPU = torch.device("cpu")
DEFAULTS = {"use_gpu": False, "batch_size": 8, "hidden_dropout_prob": 0.3}


@pytest.fixture
def flags(tiny_model_folder, tiny_data, tmp_path, monkeypatch) -> Namespace:
    """Exactly the attributes that older callers of train(args) and test(args) set."""
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    monkeypatch.chdir(tmp_path)
    return Namespace(
        **DEFAULTS,
        filepath="sst-classifier.pt",
        lr=1e-3,
        epochs=1,
        train=str(tiny_data / "ids-sst-train.csv"),
        dev=str(tiny_data / "ids-sst-dev.csv"),
        test=str(tiny_data / "ids-sst-test-student.csv"),
        option="finetune",
        dev_out="predictions/finetune-sst-dev-out.csv",
        test_out="predictions/finetune-sst-test-out.csv",
    )


def test_flags_and_defaults():
    args = vars(classifier.get_args([]))
    expected = DEFAULTS | {"seed": 11711, "epochs": 10, "option": "pretrain", "lr": 1e-5}
    expected |= {"dev_out": None, "test_out": None}
    assert {name: args[name] for name in expected} == expected


@pytest.mark.parametrize("option", ["pretrain", "finetune"])
def test_plan(tiny_data, option):
    line = ["--option", option, "--batch_size", "64", "--data_dir", str(tiny_data)]
    runs = classifier.plan(classifier.get_args(line))
    # CFIMDB takes batches of 8, whatever is asked for
    for run, name, batch_size, labels in zip(runs, ("sst", "cfimdb"), (64, 8), (5, 2), strict=True):
        assert run.filepath == f"{name}-classifier.pt"
        assert (run.batch_size, run.num_labels) == (batch_size, labels)
        assert run.dev_out == f"predictions/{option}-{name}-dev-out.csv"
        assert run.test_out == f"predictions/{option}-{name}-test-out.csv"
        assert run.train == str(tiny_data / f"ids-{name}-train.csv")
        assert run.dev == str(tiny_data / f"ids-{name}-dev.csv")
        assert run.test == str(tiny_data / f"ids-{name}-test-student.csv")


@pytest.mark.parametrize("option", ["pretrain", "finetune"])
def test_train_and_test_with_the_attributes_of_older_callers(
    flags, tiny_model_folder, option, capsys
):
    """The checkpoint holds what it needs, and "pretrain" leaves BERT as it is."""
    flags.option = option
    before = vars(flags).copy()
    assert classifier.train(flags) is None
    assert classifier.test(flags) is None
    assert vars(flags) == before
    dev = read_predictions(flags.dev_out, "Predicted_Sentiment")
    rows = load_data(flags.dev, "dev")
    assert list(dev) == [row[-1] for row in rows]  # in the order of the data file
    assert set(dev.values()) <= {0, 1, 2, 3, 4}
    ids = [row[-1] for row in load_data(flags.test, "test")]
    assert list(read_predictions(flags.test_out, "Predicted_Sentiment")) == ids
    accuracy = accuracy_score([row[1] for row in rows], list(dev.values()))
    assert f"dev accuracy {accuracy:.3f}, macro F1" in capsys.readouterr().out
    metrics = json.loads(Path("predictions/finetune-sst-metrics.json").read_text())
    assert metrics["best"]["dev_acc"] == pytest.approx(accuracy)

    saved = load_checkpoint(flags.filepath)
    assert set(saved) == {"model", "optimizer", "args", "config", "kind"}
    assert saved["args"]["lr"] == 1e-3
    model, config = classifier.load_model(flags.filepath, CPU)
    assert not model.training
    assert (config.option, config.num_labels, config.hidden_size) == (option, 5, 32)
    assert config.labels[3] == "somewhat positive"  # what --predict calls the class
    assert_same_tensors(model.state_dict(), saved["model"])
    fresh = classifier.BertModel.from_pretrained(str(tiny_model_folder)).state_dict()
    same = [torch.equal(tensor, fresh[name]) for name, tensor in model.bert.state_dict().items()]
    assert all(same) if option == "pretrain" else sum(same) <= 1  # position_ids is a buffer
    assert model.classifier.bias.abs().max() > 0


def test_a_data_set_of_ones_own(run_script_here, tiny_model_folder, tmp_path):
    rows = make_rows(15, labels="013")
    write_table(tmp_path / "mine.csv", "id sentence label", rows)
    write_table(tmp_path / "check.csv", "id sentence label", rows[:7])
    line = ["--train", "mine.csv", "--dev", "check.csv", "--epochs", "1"]
    result = succeeded(run_script_here(classifier, *line, "--model", tiny_model_folder))
    assert "hint: only the head learns, and at --lr 1e-05 it hardly moves" in result.out
    endings = ("dev-out.csv", "steps.csv", "metrics.json", "report.html")
    expected = {f"pretrain-mine-{ending}" for ending in endings}
    assert {file.name for file in (tmp_path / "predictions").iterdir()} == expected
    model, config = classifier.load_model("mine-classifier.pt", CPU)
    assert config.num_labels == model.classifier.out_features == 4
    assert config.labels == ["0", "1", "2", "3"]
