"""The leaderboard: one table of all groups' scores on test and dev."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from course.grading.judging.predictions import overall
from course.grading.pages.output import page, write_csv
from course.grading.types import Result
from training.files.writing import write_whole

# Scores by part; the first one makes the order, on test before dev
COLUMNS = {
    1: {
        "finetune-sst": "SST, finetune",
        "pretrain-sst": "SST, pretrain",
        "finetune-cfimdb": "CFIMDB, finetune",
        "pretrain-cfimdb": "CFIMDB, pretrain",
    },
    2: {"overall": "Overall", "sst": "SST", "para": "Paraphrase", "sts": "STS"},
}
ABOUT = {
    1: "Accuracy; the order is that of SST, finetune, on test.",
    2: "Accuracy of SST and of paraphrases, Pearson's correlation of STS. Overall = (SST + "
    "paraphrases + (STS + 1) / 2) / 3; the order is that of overall, test.",
}


def scores_of(result: Result) -> dict[str, float]:
    """A result's scores by name and split, as overall-test; those that there are."""
    values = {score.key: score.value for score in result.scores}
    if result.part == 2:
        values |= {f"overall-{split}": overall(result.scores, split) for split in ("test", "dev")}
    return {key: value for key, value in values.items() if value is not None}


def standings(results: Iterable[Result], part: int) -> list[dict[str, Any]]:
    """A row for each group that has a score, the best first; equal scores share a rank."""
    rows = [{"student": r.student, **scores} for r in results if (scores := scores_of(r))]
    main = [f"{next(iter(COLUMNS[part]))}-{split}" for split in ("test", "dev")]
    place = {r["student"]: [-round(r.get(key, -2), 3) for key in main] for r in rows}
    order = sorted(place.values())
    ranked = [{"rank": order.index(place[row["student"]]) + 1, **row} for row in rows]
    return sorted(ranked, key=lambda row: (row["rank"], row["student"]))


def write(out: Path, results: Iterable[Result], part: int, course: Mapping[str, Any]) -> None:
    """OUT/leaderboard.html and .csv."""
    rows, columns = standings(results, part), {"rank": "Rank", "student": "Group"}
    for key, title in COLUMNS[part].items():
        here = [f"{key}-{s}" for s in ("test", "dev") if any(f"{key}-{s}" in r for r in rows)]
        columns |= {name: f"{title}, {name.split('-')[-1]}" for name in here}
    title = f"{course['name']}: leaderboard, part {part}"
    html = page("tables.html", title, ABOUT[part], sections=[("Scores", columns, rows)])
    write_whole(out / "leaderboard.html", html)
    write_csv(out / "leaderboard.csv", [*columns], rows)
