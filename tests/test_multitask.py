"""multitask_classifier.py: its contract, the model, training, outputs, the students' skeleton."""

import io
import json
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from factories import PAIRS, stir
from running import assert_refused, succeeded
from torch import nn

import evaluation
import multitask_classifier as multitask
from evaluation import FILE_COLUMNS, TASKS
from multitask_classifier import MultitaskBERT
from optimizer import AdamW
from training.cli.task_flags import find_files, task_names
from training.files.predictions import parse_predictions, read_predictions
from training.loop.checkpoints import restore_model

CPU = torch.device("cpu")


def make_config(model: Path, **values) -> SimpleNamespace:
    """The least that the contract asks of a configuration, and the model's folder."""
    config = {"hidden_size": 32, "hidden_dropout_prob": 0.3, "option": "finetune"}
    return SimpleNamespace(**(config | {"model": str(model)} | values))


DEFAULTS = {  # exactly the attributes that older callers set
    "seed": 11711,
    "epochs": 10,
    "option": "pretrain",
    "use_gpu": False,
    "batch_size": 8,
    "hidden_dropout_prob": 0.3,
    "lr": 1e-5,
}
for name, file in (("sst", "ids-sst"), ("para", "quora"), ("sts", "sts")):
    DEFAULTS[f"{name}_train"] = f"data/{file}-train.csv"
    DEFAULTS[f"{name}_dev"] = f"data/{file}-dev.csv"
    DEFAULTS[f"{name}_test"] = f"data/{file}-test-student.csv"
    DEFAULTS[f"{name}_dev_out"] = f"predictions/{name}-dev-output.csv"
    DEFAULTS[f"{name}_test_out"] = f"predictions/{name}-test-output.csv"


@pytest.fixture
def flags(tiny_model_folder, tiny_data, tmp_path, monkeypatch) -> Namespace:
    """What older callers set, of a short run."""
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    monkeypatch.chdir(tmp_path)
    more = {"option": "finetune", "epochs": 1, "lr": 1e-3, "filepath": "m.pt"}
    flags = Namespace(**DEFAULTS | more)
    for task in TASKS:
        for split in ("train", "dev", "test"):
            path = Path(DEFAULTS[f"{task}_{split}"])
            setattr(flags, f"{task}_{split}", str(tiny_data / path.name))
    return flags


def test_flags_and_defaults():
    args = multitask.get_args([])
    assert {name: getattr(args, name) for name in DEFAULTS} == DEFAULTS
    assert args.tasks == ["sst", "para", "sts"]
    assert find_files(args).filepath == "pretrain-10-1e-05-multitask.pt"
    assert task_names("sts, sst") == ["sst", "sts"]  # in one order, however they are given


def make_model(folder: Path) -> nn.Module:
    """A model whose random weights make a difference, in evaluation mode."""
    torch.manual_seed(5)
    return stir(MultitaskBERT(make_config(folder)), 0.2)


def test_a_bi_encoder_compares_two_pooled_vectors(tiny_model_folder):
    model = make_model(tiny_model_folder)
    ids_1, mask_1, ids_2, mask_2 = PAIRS
    u = model.bert(ids_1, mask_1)["pooler_output"]
    v = model.bert(ids_2, mask_2)["pooler_output"]
    features = torch.cat([u, v, (u - v).abs()], dim=1)  # (4, 96)
    assert torch.equal(model(ids_1, mask_1), u)
    assert torch.equal(model.predict_sentiment(ids_1, mask_1), model.sentiment(u))
    assert torch.equal(model.predict_paraphrase(*PAIRS), model.paraphrase(features)[:, 0])
    expected = 5 * model.similarity(features)[:, 0].sigmoid()
    assert torch.equal(model.predict_similarity(*PAIRS), expected)
    ids, mask = (tensor[1:2, : mask_1[1].sum()] for tensor in PAIRS[:2])  # a row without padding
    torch.testing.assert_close(model(ids, mask), u[1:2], rtol=1e-5, atol=1e-5)


def test_heads_compute_in_float32(tiny_model_folder):
    """bf16 has 128 numbers between 2 and 4: most of many scores would be the same."""
    model = make_model(tiny_model_folder)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        vectors = model.bert(*PAIRS[:2])["pooler_output"]
        outputs = [model.predict_sentiment(*PAIRS[:2]), model.predict_paraphrase(*PAIRS)]
        outputs.append(model.predict_similarity(*PAIRS))
    assert vectors.dtype == torch.bfloat16
    assert {output.dtype for output in outputs} == {torch.float32}
    assert not torch.equal(outputs[2], outputs[2].bfloat16().float())


def test_the_overall_score_of_some_tasks():
    assert multitask.overall({"sst": 0.5, "sts": -1.0, "nli": 0.9}) == 0.25
    assert multitask.overall({"nli": 0.9}) == 0.9


OUTPUTS = {
    *(f"{name}-{split}-output.csv" for name in TASKS for split in ("dev", "test")),
    *("multitask-metrics.json", "multitask-steps.csv", "multitask-report.html"),
}


def test_train_and_test_with_the_attributes_of_older_callers(flags):
    """evaluation.test_multitask, which older scripts call, writes the same predictions again."""
    before, folder = vars(flags).copy(), Path("predictions")
    assert multitask.train_multitask(flags) is None
    assert multitask.test_model(flags) is None
    assert multitask.test_multitask is multitask.test_model
    assert vars(flags) == before
    assert {file.name for file in folder.iterdir()} == OUTPUTS
    metrics = json.loads((folder / "multitask-metrics.json").read_text())
    assert set(metrics) == {"best", "epochs", "seconds", "args"}
    losses = {"loss", "sst_loss", "para_loss", "sts_loss"}
    assert set(metrics["best"]) == losses | {"epoch", "sst", "para", "sts", "overall"}
    scores = {}
    # scores that hardly differ yet: their correlation turns on the last digits of an evaluation
    close = partial(pytest.approx, abs=1e-3)
    for task in TASKS:
        rows = multitask.read_set(task, flags, "dev")
        dev = read_predictions(getattr(flags, f"{task}_dev_out"), FILE_COLUMNS[task])
        assert list(dev) == [row[-1] for row in rows]
        predictions = {"y_true": [row[-2] for row in rows], "y_pred": list(dev.values())}
        scores[task] = multitask.score(task, predictions)
        assert metrics["best"][task] == close(scores[task])
        test = read_predictions(getattr(flags, f"{task}_test_out"), FILE_COLUMNS[task])
        assert list(test) == [row[-1] for row in multitask.read_set(task, flags, "test")]
    assert metrics["best"]["overall"] == close(multitask.overall(scores))

    ours = {file.name: file.read_text() for file in folder.glob("*-output.csv")}
    for file in folder.glob("*-output.csv"):
        file.unlink()
    model, _ = restore_model(flags.filepath, CPU, MultitaskBERT)
    evaluation.test_multitask(flags, model, CPU)
    for task in TASKS:
        for split in ("dev", "test"):
            path, column = Path(getattr(flags, f"{task}_{split}_out")), FILE_COLUMNS[task]
            expected = parse_predictions(ours[path.name], column, path.name)
            predicted = read_predictions(path, column)
            assert list(predicted) == list(expected)
            assert predicted == pytest.approx(expected, abs=1e-3)


def test_predictions_of_the_lines_of_standard_input_and_of_a_part_of_the_tasks(
    run_script_here, tiny_model_folder, monkeypatch
):
    """Of a model that prefers class 3, yes, and a similarity of 5 / (1 + e) · e."""
    model = MultitaskBERT(make_config(tiny_model_folder))
    with torch.no_grad():
        for head in (model.sentiment, model.paraphrase, model.similarity):
            head.weight.zero_()
            head.bias.zero_()
        model.sentiment.bias[3] = 9.0
        model.paraphrase.bias.fill_(2.0)
        model.similarity.bias.fill_(1.0)

    def said_by(tasks: list[str], *texts: str):
        config = make_config(tiny_model_folder, tasks=tasks)
        multitask.save_model(model, AdamW(model.parameters()), Namespace(), config, "x.pt")
        return run_script_here(multitask, "--predict", *texts, "--checkpoint", "x.pt")

    monkeypatch.setattr(sys, "stdin", io.StringIO("one film\n\nOne?\tTwo \n\tx\n"))
    result = succeeded(said_by([*TASKS]))
    assert [line for line in result.out.splitlines() if " | " in line or "[" in line] == [
        "class 3   [0: 0.000  1: 0.000  2: 0.000  3: 1.000  4: 0.000]   one film",
        "paraphrase 0.881  similarity 3.66   One? | Two",
    ]
    line = said_by(["sst", "sts"], "one", "two").out.splitlines()[-1]
    assert line == "similarity 3.66   one | two"
    assert_refused(said_by(["sst"], "one", "two"), "no answer to a pair")
    assert_refused(said_by(["sts"]), "standard input has no text")
    assert_refused(said_by(["para", "sts"], "one"), "no answer to one text")
