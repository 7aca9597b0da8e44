"""The page of a run (training/reports/page.py), and the curves in it."""

import re
from types import SimpleNamespace

import pandas as pd

from training.loop.progress import Progress
from training.reports.page import picture, style, write_page
from training.reports.report import Report

HISTORY = [
    {"epoch": i, "loss": 1 / i, "train_acc": 0.5 + i / 10, "dev_acc": score}
    for i, score in ((1, 0.4), (2, 0.6), (3, 0.5))
]


def page(folder, history) -> str:
    """The page of a run of these epochs."""
    steps = pd.DataFrame({"step": range(1, 9), "epoch": 1, "loss": 1.0, "lr": 1e-3})
    steps.to_csv(folder / "x-steps.csv", index=False)
    args = SimpleNamespace(lr=1e-3, seed=3, labels="<b>", clip=None)
    at = {"has_failed": True, "step": 12, "total_steps": 24}
    run = SimpleNamespace(history=history, args=args, **at)
    run.progress = Progress(run)
    write_page(Report(f"{folder}/x-", "a <title>", {}), run)
    return (folder / "x-report.html").read_text(encoding="utf-8")


def test_a_page_loads_nothing_escapes_what_is_filled_in_and_names_its_run(tmp_path):
    text = page(tmp_path, HISTORY)
    assert not re.search(r'(src|href)="[^#]', text)
    assert text.count("<svg") == 2  # of the loss and of the scores
    for part in ("a &lt;title&gt;", "labels=&lt;b&gt;", "seed=3", ">0.600<"):
        assert part in text
    assert "stopped at step 12 of 24" in text
    assert "clip=" not in text
    assert page(tmp_path, HISTORY[:1]).count("<svg") == 1  # one epoch is no curve


def test_dollars_in_a_name_are_no_formula():
    name = r"o$\beta_$5"
    assert name in picture("score", [(pd.Series([3, 4]), style(0, label=name))])
