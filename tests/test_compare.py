"""Runs compared, in the console and on a page (training/reports/compare.py)."""

import json
import re
from pathlib import Path

import pandas as pd
from running import succeeded

from training.reports import compare


def leave(folder, stem="finetune-sst", lr=1e-3, scores=(0.4, 0.6), metric="dev_acc") -> str:
    """What a run of these scores leaves; → how the names of its files begin."""
    folder.mkdir(exist_ok=True)
    epochs = [
        {"epoch": i, "loss": 1 / i, "train_acc": 0.9, metric: score}
        for i, score in enumerate(scores, start=1)
    ]
    best = max(epochs, key=lambda row: row[metric])
    metrics = {"best": best, "epochs": epochs, "seconds": 61.0}
    metrics["args"] = {"lr": lr, "seed": 1, "labels": "<b>bad</b>,good", "dev": f"{folder}/dev.csv"}
    metrics["args"] |= {"dev_out": f"{folder}/{lr}-out.csv", "filepath": f"{folder}/{lr}.pt"}
    (folder / f"{stem}-metrics.json").write_text(json.dumps(metrics))
    steps = pd.DataFrame({"step": range(1, 60), "epoch": 1, "loss": 1.0, "lr": lr})
    steps.to_csv(folder / f"{stem}-steps.csv", index=False)
    return str(folder / stem)


def compared(run_script_here, *places: str) -> tuple[list[list[str]], str]:
    """What the console shows, in words, and the page."""
    done = succeeded(run_script_here(compare, *places, "--out", "c.html"))
    return [line.split() for line in done.out.splitlines()], Path("c.html").read_text("utf-8")


def test_scores_and_settings(run_script_here, tmp_path):
    first = leave(tmp_path / "a", scores=(0.4, 0.6, 0.5))
    second = leave(tmp_path / "<b>", scores=(0.7, 0.6), lr=1e-5)
    lines, text = compared(run_script_here, first, second)
    assert ["1", first] in lines
    assert ["best", "epoch", "2", "1"] in lines
    assert ["dev_acc", "0.600", "0.700*"] in lines
    assert ["train_acc", "0.900", "0.900"] in lines  # no score on dev, no star
    assert lines[lines.index(["Settings", "that", "differ"]) + 2 :][:2] == [
        ["lr", "0.001", "1e-05"],  # no seed, the same dev.csv elsewhere, and not where results go
        [],
    ]
    assert "<h1>2 runs</h1>" in text
    assert "<b>/" not in text
    assert text.count("<svg") == 2  # the loss and the one score on dev
    ticks = re.findall(r">(\d[\d.]*)</text>", text.split("by epoch</figcaption>")[1])
    assert ticks[:3] == ["1", "2", "3"]  # epochs are whole numbers
    assert not re.search(r'(src|href)="[^#]', text)  # it loads nothing


def test_runs_of_different_tasks_and_one_without_steps_by_any_name(run_script_here, tmp_path):
    """A run is named by its folder, its file, or how its files begin."""
    leave(tmp_path / "a")
    (tmp_path / "a/finetune-sst-steps.csv").unlink()
    leave(tmp_path / "b", "multitask", scores=(0.5,), metric="overall")
    places = "a", "b/multitask-metrics.json", "a/finetune-sst-"
    lines, text = compared(run_script_here, *places)
    assert [line[1] for line in lines[:3]] == ["a/finetune-sst", "b/multitask", "a/finetune-sst"]
    assert ["dev_acc", "0.600*", "0.600*"] in lines
    assert ["overall", "0.500*"] in lines
    assert text.count("<svg") == 2  # one epoch of overall makes no curve
