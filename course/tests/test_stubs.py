"""Runs in a handout whose functions are stubs, or filled in by a student."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
from answers import put, read
from made import built, written
from running import as_process, draw_nothing

from checks.graded_tasks import GRADED_TASKS
from checks.hunt.edits import installed_source
from course.handout_repository import write_files
from utils import seed_everything


@pytest.mark.parametrize(
    ("numbers", "line", "stub"),
    [
        ("", "classifier.py", "1.1"),  # though task 1.6 is reached first
        ("1.1 1.2 1.3 1.4 1.6 1.7", "classifier.py --only sst", "1.5"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", "multitask_classifier.py --tasks sst,sts", "2.5"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", "multitask_classifier.py --tasks sst", ""),
    ],
)
def test_a_run_ends_at_a_stub_that_it_calls_and_names_the_check(numbers, line, stub, tmp_path):
    write_files(tmp_path, built("all").files | written(set(numbers.split())))
    line += " --epochs 1 --batch_size 64 --lr 1e-3 --model models/books"
    done = as_process(*line.split(), folder=tmp_path, HF_HUB_OFFLINE="1", MINBERT_DATA="")
    titles = [task.title for task in GRADED_TASKS if task.number == stub]
    check = f"run python sanity_check.py --task {stub}\n"
    assert done.err == "".join(f"error: {title} is not written yet; {check}" for title in titles)
    assert done.code == len(titles)


def test_the_skeleton_trains_on_sst_once_it_is_filled_in(
    tiny_data, tmp_path, monkeypatch, tiny_model_folder, capsys
):
    monkeypatch.chdir(tmp_path)
    draw_nothing(monkeypatch)
    skeleton = built("2").text("multitask_classifier.py")
    filled_in = put(read("multitask/plain"), source=skeleton)
    args = Namespace(model=str(tiny_model_folder), data_dir=str(tiny_data), option="finetune")
    vars(args).update(epochs=12, lr=3e-3, hidden_dropout_prob=0.0)
    seed_everything(0)
    with installed_source("multitask_classifier.py", filled_in) as module:
        module.train_multitask(args)
        assert "trains sst only: LOSSES has no loss for the rest" in capsys.readouterr().out
        module.test_model(args)
    epochs = json.loads(Path("predictions/multitask-metrics.json").read_text())["epochs"]
    assert epochs[-1]["loss"] < 0.95 * epochs[0]["loss"]
    best = max(row["overall"] for row in epochs)
    assert f"  overall {best:.3f}\n" in capsys.readouterr().out
    assert len([*Path("predictions").glob("*-output.csv")]) == 6
