"""Runs compared (python evaluation.py --compare), in the console and on a page."""

import json
import re

import pandas as pd
import pytest
from support import assert_refused, succeeded

import evaluation
from training.reports.error_analysis import write_report

REPORT = """              precision    recall  f1-score   support

           0      0.500     0.500     {first:.3f}         4
           1      0.250     0.250     0.250         4

    accuracy                          0.375         8
"""


def leave(folder, stem="finetune-sst", lr=1e-3, scores=(0.4, 0.6), first=0.5, **more) -> str:
    """What a run of these scores leaves; → how the names of its files begin."""
    folder.mkdir(exist_ok=True)
    epochs = [
        {"epoch": i, "loss": 1 / i, "train_acc": 0.9, "dev_acc": score}
        for i, score in enumerate(scores, start=1)
    ]
    settings = {"lr": lr, "seed": 1, "dev": "x/mine.csv", "labels": "<b>bad</b>,good"} | more
    best = max(epochs, key=lambda row: row["dev_acc"])
    found = {"best": best, "epochs": epochs, "seconds": 61.0, "peak_mb": 500.0, "args": settings}
    (folder / f"{stem}-metrics.json").write_text(json.dumps(found))
    steps = pd.DataFrame({"step": range(1, 60), "epoch": 1, "loss": 1.0, "lr": lr})
    steps.to_csv(folder / f"{stem}-steps.csv", index=False)
    (folder / f"{stem}-report.txt").write_text(REPORT.format(first=first))
    return str(folder / stem)


@pytest.fixture
def page(run_script_here, tmp_path):
    """A function that compares runs; → what the console shows, in words, and the page."""

    def run(*places: str) -> tuple[list[list[str]], str]:
        done = succeeded(run_script_here(evaluation, "--compare", *places, "--out", "c.html"))
        lines = [line.split() for line in done.out.splitlines()]
        return lines, (tmp_path / "c.html").read_text(encoding="utf-8")

    return run


def test_scores_settings_and_classes(page, tmp_path):
    one = leave(tmp_path / "a", scores=(0.4, 0.6, 0.5), first=0.5)
    two = leave(tmp_path / "b", scores=(0.7, 0.6), first=0.75, lr=1e-5)
    lines, text = page(one, two)
    assert ["1", one] in lines
    assert ["best", "epoch", "2", "1"] in lines
    assert ["dev_acc", "0.600", "0.700*"] in lines
    assert ["train_acc", "0.900", "0.900"] in lines  # no score on dev, no star
    assert ["lr", "0.001", "1e-05"] in lines
    assert not any("seed" in line for line in lines)
    assert ["<b>bad</b>", "0.500", "0.750", "(+0.250)"] in lines
    assert ["good", "0.250", "0.250", "(+0.000)"] in lines
    assert "<b>" not in text
    assert "0.750 (+0.250)" in text
    assert text.count("<svg") == 2  # the loss and the one score on dev
    assert not re.search(r'(src|href)="[^#]', text)  # it loads nothing


def test_classes_that_do_not_occur_and_none_that_is_right(page, tmp_path):
    """Where nothing is right scikit-learn counts rows as 8.0."""
    names = {"labels": "bad,so,good"}
    one, two = (leave(tmp_path / name, **names) for name in "ab")
    write_report(f"{one}-report.txt", [0, 2, 0, 2], [0, 2, 2, 2], 3)
    write_report(f"{two}-report.txt", [0, 2, 0, 2], [2, 0, 2, 0], 3)
    lines, _ = page(one, two)
    assert ["bad", "0.667", "0.000", "(-0.667)"] in lines
    assert ["so", "0.000", "0.000", "(+0.000)"] in lines
    assert ["good", "0.800", "0.000", "(-0.800)"] in lines


def test_classes_of_a_run_whose_name_begins_alike_are_its_own(page, tmp_path):
    one = leave(tmp_path / "a", "finetune-s", first=0.5)
    leave(tmp_path / "a", "finetune-s-big", first=0.75)
    lines, _ = page(one, f"{one}-big")
    assert ["<b>bad</b>", "0.500", "0.750", "(+0.250)"] in lines
    assert not any("big" in line for line in lines)


def test_a_run_is_named_by_its_file_its_folder_or_its_beginning(page, tmp_path):
    leave(tmp_path / "a")
    lines, _ = page("a", "a/finetune-sst", "a/finetune-sst-", "a/finetune-sst-metrics.json")
    assert [line[1] for line in lines[:4]] == ["a/finetune-sst"] * 4


def test_runs_of_different_tasks_and_one_without_steps(page, tmp_path):
    leave(tmp_path / "a")
    (tmp_path / "a/finetune-sst-steps.csv").unlink()
    leave(tmp_path / "b", "multitask", scores=(0.5,))
    path = tmp_path / "b/multitask-metrics.json"
    path.write_text(path.read_text().replace("dev_acc", "overall"))
    lines, text = page("a", "b")
    assert ["dev_acc", "0.600*"] in lines
    assert ["overall", "0.500*"] in lines
    assert text.count("<svg") == 3


@pytest.mark.parametrize("place", ["nowhere", "both", "broken", "empty"])
def test_what_is_not_a_run_is_refused(run_script_here, message, tmp_path, place):
    leave(tmp_path / "both", "one")
    leave(tmp_path / "both", "two")
    for folder, text in (("broken", "{"), ("empty", "{}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x-metrics.json").write_text(text)
    result = run_script_here(evaluation, "--compare", "both/one", place)
    assert_refused(result)
    message(result.err)
    assert not (tmp_path / "predictions").exists()
