"""The leaderboard: one table of all groups' scores on test and dev."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from course.grading.judging.predictions import overall
from course.grading.pages.output import page, write_csv
from course.grading.types import Result
from training.files.writing import write_whole

# Scores by part; the first one makes the order, on test before dev
SCORES = {
    1: ("finetune-sst", "pretrain-sst", "finetune-cfimdb", "pretrain-cfimdb"),
    2: ("overall", "sst", "para", "sts"),
}
ABOUT = {
    1: "Accuracy; the order is that of finetune-sst-test.",
    2: "Accuracy of SST and of paraphrases, Pearson's correlation of STS. Overall = (SST + "
    "paraphrases + (STS + 1) / 2) / 3; the order is that of overall-test.",
}


def scores_of(result: Result) -> dict[str, float]:
    """A result's scores by name and split, as overall-test; those that there are."""
    values = {score.key: score.value for score in result.scores}
    if result.part == 2:
        values |= {f"overall-{split}": overall(result.scores, split) for split in ("test", "dev")}
    return {key: value for key, value in values.items() if value is not None}


def standings(results: Iterable[Result], part: int) -> list[dict[str, Any]]:
    """A row for each group that has a score, the best first; equal scores share a rank."""
    scored = {r.student: scores for r in results if (scores := scores_of(r))}
    keys = [f"{name}-{split}" for name in SCORES[part] for split in ("test", "dev")]
    shown = [key for key in keys if any(key in scores for scores in scored.values())]
    place = {
        s: [-round(scores.get(key, -2), 3) for key in keys[:2]] for s, scores in scored.items()
    }
    order = sorted(place.values())
    return [
        {"rank": order.index(place[s]) + 1, "student": s}
        | {key: scored[s].get(key) for key in shown}
        for s in sorted(scored, key=lambda s: (place[s], s))
    ]


def write(out: Path, results: Iterable[Result], part: int, course: str) -> None:
    """OUT/leaderboard.html and .csv."""
    rows, title = standings(results, part), f"{course}: leaderboard, part {part}"
    html = page("tables.html", title, ABOUT[part], tables={"Scores": rows}, links=False)
    write_whole(out / "leaderboard.html", html)
    write_csv(out / "leaderboard.csv", rows)
