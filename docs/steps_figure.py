"""Draw what each step from BERT to ModernBERT is worth in equal time: docs/steps.svg, and a table.

    python docs/steps_figure.py

From the runs of research/experiments/books/steps*.toml that are in results.jsonl. A step has all
changes of those before it and one more; its difference is to the step before, seed by seed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from docs.drawing import Drawing, svg_of
from docs.pretraining_figure import mean_and_sd
from docs.techniques_figure import Mark, draw_panel
from research.experiments import results
from research.experiments.intervals import interval
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_whole

FIGURE = Path(__file__).resolve().parent / "steps.svg"
STEPS = {  # by title, what follows in the name of a run
    "BERT": "",
    "+ pre-norm": "-pre-norm",
    "+ no biases": "-no-bias",
    "+ rotary positions": "-rotary",
    "+ GeGLU": "-geglu",
    "+ local layers": "-local",
    "+ Muon": "-muon",
}
LENGTHS = {"steps": ("128", "blue"), "steps-512": ("512", "orange")}  # tokens of a row, by run


def table(runs: Sequence[dict]) -> str:
    """Markdown: of each step and length the held-out loss, the exam and tokens a second."""
    lines = []
    for title, end in STEPS.items():
        line = [title]
        for name in LENGTHS:
            line.append(mean_and_sd([*losses_of(runs, name + end).values()]))
            exams = [run for run in runs if run["name"] == f"{name}-exam{end}"]
            line.append(mean_and_sd([exam["metrics"]["grammar"] for exam in exams]))
            timed = [run for run in runs if run["name"] == name + end]
            speeds = [run["held_out"][-1]["pieces"] / run["seconds"] for run in timed]
            line.append(f"{np.mean(speeds):,.0f}" if speeds else "–")
        lines.append(line)
    columns = ("loss, nats", "grammar", "tokens/s")
    titles = (f"{column}, rows of {n}" for n, _ in LENGTHS.values() for column in columns)
    return results.markdown(["", *titles], lines)


def losses_of(runs: Sequence[dict], name: str) -> dict[int, float]:
    """The held-out loss of each seed of a run; none if there are none."""
    return {run["seed"]: run["metrics"]["mlm_loss"] for run in runs if run["name"] == name}


def marks_of(runs: Sequence[dict]) -> list[Mark]:
    """Each step's difference in loss to the step before, over the seeds that both ran."""
    marks = []
    for (_, before), (title, end) in pairwise(STEPS.items()):
        for name, (_, colour) in LENGTHS.items():
            ours, theirs = losses_of(runs, name + end), losses_of(runs, name + before)
            differences = [ours[seed] - theirs[seed] for seed in ours.keys() & theirs]
            if differences:
                marks.append(Mark(title, colour, interval([np.array(differences)], 0.0)))
    return marks


def figure(d: Drawing, marks: Sequence[Mark]) -> None:
    """What each step from BERT to ModernBERT is worth in equal time.

    A row per step: the difference of its loss of masked words on held-out text to that of the step
    before, with a 95 % interval over seeds; one seed has none. Left of 0 is better. Where the
    interval includes 0, the difference is not resolved.
    """
    for i, (length, colour) in enumerate(LENGTHS.values()):
        d.box(20 + 220 * i, 20, 9, 9, f"{colour} full")
        d.text(38 + 220 * i, 31, f"rows of {length} tokens", "start")
    draw_panel(d, "Loss on held-out text against the step before, nats", marks, 48.0)


def main() -> None:
    """Print the table, and draw the figure of the steps that were run."""
    runs = results.load_results()
    if not any(losses_of(runs, name) for name in LENGTHS):
        command = "python research/experiments/run.py research/experiments/books/steps*.toml"
        raise InputError(f"no results yet; {command}")
    print(table(runs))
    if marks := marks_of(runs):
        write_whole(FIGURE, svg_of(figure, marks))
        print(f"wrote {FIGURE}")


if __name__ == "__main__":
    run_script(main)
