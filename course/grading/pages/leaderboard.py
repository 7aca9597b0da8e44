"""The leaderboard: who is where, on which half of the test rows, from which submission.

Students see all dev rows, whose labels they have, and the public half of the test rows; staff see
the private half and all rows besides. Only a group's first submissions count on test. It does not
know how predictions are scored.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course.grading.judging.predictions import Gold
from course.grading.judging.types import Submission
from course.grading.pages import ranking
from course.grading.pages.output import Column, page, table, write_csv
from training.files.errors import InputError
from training.files.writing import write_whole

HISTORY = "history.jsonl"
Result = Mapping[str, Any]  # of one submission
Scores = Mapping[str, Mapping[str, Any]]  # "sst-test" → value, public, private, predicted
Labels = Mapping[tuple[str, str], Gold]
Settings = Mapping[str, Any]  # [leaderboard] of settings.toml

# Keys of a row's scores and what heads their columns; the first one makes the order
COLUMNS = {
    1: {
        "finetune-sst": "SST, finetune",
        "pretrain-sst": "SST, pretrain",
        "finetune-cfimdb": "CFIMDB, finetune",
        "pretrain-cfimdb": "CFIMDB, pretrain",
    },
    2: {
        "overall": "Overall",
        "sst": "SST",
        "para": "Paraphrase",
        "sts": "STS",
        "mean": "Plain mean",
    },
}
MEANING = {
    1: "Accuracy; the order is that of SST, finetune.",
    2: "Accuracy of SST and of paraphrases, Pearson's correlation of STS. Overall = (SST + "
    "paraphrases + (STS + 1) / 2) / 3; the plain mean of the three is what older years showed.",
}
VIEWS = {  # which rows: what heads their table, and a sentence about them
    "public": (
        "Test, public half",
        "A fixed secret half of the test rows; the other half is kept for the grade.",
    ),
    "private": (
        "Test, private half",
        "The half of the test rows that no student ever sees a score of.",
    ),
    "value": ("Test, all rows", "Both halves together."),
    "dev": ("Dev, all rows", "From each group's latest submission."),
}
FOR_STUDENTS = ("public", "dev")
ON_TEST = (
    "Only the first submissions of a group count on test ({} unless agreed otherwise), later ones "
    "on dev only. A rank such as 2–5: with other test sentences the group might be second or fifth "
    "(paired bootstrap, 95 %); whose ranks overlap are equally good."
)


# ---------------------------------------------------------------------------------------------
# Scores of one submission


def scores_of(result: Result) -> dict[str, dict[str, float | None]]:
    """A result's predictions by [option-]data-split; those with faults are left out."""
    scores = {}
    for entry in result.get("predictions", []):
        if entry.get("value") is not None:
            key = "-".join(filter(None, (entry.get("option"), entry["data"], entry["split"])))
            scores[key] = {view: entry.get(view) for view in ("value", "public", "private")}
            if "predicted" in entry:
                scores[key]["predicted"] = entry["predicted"]
    return scores


def figures(scores: Scores, part: int, split: str, view: str) -> dict[str, float | None]:
    """The columns of one row (part 3 predicts nothing); None where something is missing."""
    columns = {key: scores.get(f"{key}-{split}", {}).get(view) for key in COLUMNS.get(part, ())}
    if part == 2:
        parts = [columns["sst"], columns["para"], columns["sts"]]
        if None not in parts:
            sst, para, sts = parts
            columns["overall"] = (sst + para + (sts + 1) / 2) / 3
            columns["mean"] = (sst + para + sts) / 3
    return columns


# ---------------------------------------------------------------------------------------------
# History


def read_history(path: Path) -> list[dict[str, Any]]:
    """Every submission seen so far, in the order of grading; a line broken off is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    history = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # the machine stopped while it was written; it is graded again
            continue
        if isinstance(entry, dict) and {"student", "part", "sha256", "time"} <= entry.keys():
            history.append(entry)
    return history


def graded_later(out: Path, times: Mapping[str, float]) -> Mapping[str, set[str]]:
    """Digests, by student, of what was graded and was handed in later than these times."""
    later = defaultdict(set)
    for entry in read_history(out / HISTORY):
        time = datetime.fromisoformat(entry["time"]).timestamp()
        if time > times.get(entry["student"], math.inf) + 1:
            later[entry["student"]].add(entry["sha256"])
    return later


def times_of_others(
    out: Path, results: Iterable[Result], submissions: Iterable[Submission]
) -> dict[str, float]:
    """When the results were handed in that are of later submissions than these."""
    now = {submission.student: submission.sha256 for submission in submissions}
    history = {identity(entry): entry["time"] for entry in read_history(out / HISTORY)}
    return {
        result["student"]: datetime.fromisoformat(history[identity(result)]).timestamp()
        for result in results
        if result["sha256"] != now[result["student"]] and identity(result) in history
    }


def add_to_history(
    path: Path, results: Iterable[Result], times: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Append every graded submission that is not there yet; the whole history.

    Args:
        times: when each student's file reached the collecting system, in seconds since 1970;
            never a time from inside the zip.
    """
    history = read_history(path)
    seen = len(history)
    known = {identity(entry) for entry in history}
    for result in results:
        if result["status"] == "graded" and identity(result) not in known:
            known.add(identity(result))
            when = datetime.fromtimestamp(times[result["student"]], UTC)
            entry = {key: result[key] for key in ("student", "part", "sha256")}
            entry |= {"time": when.isoformat(timespec="seconds"), "scores": scores_of(result)}
            history.append(entry)
    if len(history) > seen:
        write_whole(path, "".join(f"{json.dumps(entry)}\n" for entry in history))
    return history


def identity(entry: Mapping[str, Any]) -> tuple:
    """What two entries of the same submission share."""
    return entry["student"], entry["part"], entry["sha256"]


def attempts_of(student: str, board: Settings) -> int:
    """How many submissions of a group count on test."""
    return board["exceptions"].get(student, board["attempts"])


def attempts_on_test(
    history: Iterable[Mapping], result: Result, board: Settings
) -> tuple[list[Mapping], int]:
    """(a group's submissions that count on test, how many were scored on test in all)."""
    own = [
        entry
        for entry in history
        if (entry["student"], entry["part"]) == (result["student"], result["part"])
        and any(key.endswith("-test") for key in entry.get("scores", {}))
    ]
    own.sort(key=lambda entry: entry["time"])  # stable: the same second, the order of grading
    return own[: attempts_of(result["student"], board)], len(own)


def counts_on_test(result: Result, history: Iterable[Mapping], board: Settings) -> bool:
    """Whether the test scores of this very submission may be shown to its group."""
    counting, _ = attempts_on_test(history, result, board)
    return identity(result) in map(identity, counting)


# ---------------------------------------------------------------------------------------------
# Tables


def scores_on_test(
    result: Result, history: Iterable[Mapping], board: Settings
) -> tuple[Scores, str]:
    """(the scores of the last submission that counts on test, what to say about others)."""
    counting, seen = attempts_on_test(history, result, board)
    if not counting:
        return {}, ""
    # graded again, perhaps with corrected labels, the present result is the better one
    same = identity(counting[-1]) == identity(result)
    later = f"{len(counting)} of {seen}; later ones: dev" if seen > len(counting) else ""
    return scores_of(result) if same else counting[-1]["scores"], later


def standings(
    results: Iterable[Result],
    history: Sequence[Mapping],
    part: int,
    view: str,
    board: Settings,
    gold: Labels | None = None,
    names: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The rows of one table, the best first; ties share a rank, those without a score have none.

    Of test data with labels "places" are those that the score allows, as 2–5.

    Args:
        view: a key of VIEWS.
        board: [leaderboard] of settings.toml.
        names: under which groups are shown; ties are in their order.
    """
    rows, scores_of_rows, split = [], [], "dev" if view == "dev" else "test"
    for result in results:
        if result["part"] != part or result["status"] != "graded":
            continue
        if split == "dev":
            scores, note = scores_of(result), ""
        else:
            scores, note = scores_on_test(result, history, board)
        row = figures(scores, part, split, "value" if split == "dev" else view)
        student = (names or {}).get(result["student"], result["student"])
        rows.append({"student": student, "note": note, **row})
        scores_of_rows.append(scores)
    if gold and split == "test":
        for number, places in ranking.places_of(scores_of_rows, part, view, gold).items():
            first, last = places
            rows[number]["places"] = f"{first}–{last}" if last > first else f"{first}"
    main = next(iter(COLUMNS[part]))
    shown = {row["student"]: round(row[main] or 0, 3) for row in rows}  # who is equal there is tied
    rows.sort(key=lambda row: (row[main] is None, -shown[row["student"]], row["student"]))
    for row in rows:
        ahead = sum(score > shown[row["student"]] for score in shown.values())
        row["rank"] = None if row[main] is None else ahead + 1
        row.setdefault("places", row["rank"])
    return rows


def columns_of(part: int, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Those in which any row has something."""
    main, *others = COLUMNS[part]
    columns = [Column("places", "Rank", "rank"), Column("student", "Group", "key")]
    columns += [Column(main, COLUMNS[part][main], "score", bar=True)]
    used = [key for key in others if any(row[key] is not None for row in rows)]
    columns += [Column(key, COLUMNS[part][key], "score") for key in used]
    noted = any(row["note"] for row in rows)
    return columns + ([Column("note", "Submission")] if noted else [])


def write_all(
    out: Path,
    results: Sequence[Result],
    settings: Mapping[str, Any],
    times: Mapping[str, float],
    names: Mapping[str, str],
    gold: Labels | None = None,
) -> set[str]:
    """Add to OUT's history, write the tables; who may see the test scores of this result.

    leaderboard.html and .csv are for students, staff-leaderboard.html and .csv for staff.

    Args:
        settings: settings.toml, checked.
        times: see add_to_history.
        names: pseudonyms by student; who has none is shown by name.
        gold: labels, for ranks with intervals.
    """
    history = add_to_history(out / HISTORY, results, times)
    board, course = settings["leaderboard"], settings["course"]
    lead = f"{course['term']} · {len(results)} groups".removeprefix(" · ")
    parts = sorted({result["part"] for result in results} & COLUMNS.keys())  # 3 predicts nothing
    keys = [key for part in parts for key in COLUMNS[part]]
    for staff, name in ((False, "leaderboard"), (True, "staff-leaderboard")):
        sections, lines = [], []
        for part, view in ((part, view) for part in parts for view in VIEWS):
            if not staff and view not in FOR_STUDENTS:
                continue
            rows = standings(results, history, part, view, board, gold, None if staff else names)
            if not staff:  # who has no score is nobody else's business
                rows = [row for row in rows if any(row[key] is not None for key in COLUMNS[part])]
            heading, about = VIEWS[view]
            text = f"{MEANING[part]} {about}"
            if view != "dev":
                text += f" {ON_TEST.format(board['attempts'])}"
            sections.append((heading, text, table(columns_of(part, rows), rows, heading)))
            lines += [{"table": heading, **row} for row in rows]
        secret = "Not for students: holds the private half. " if staff else ""
        html = page(f"{course['name']}: leaderboard", secret + lead, sections)
        write_whole(out / f"{name}.html", html)
        write_csv(out / f"{name}.csv", ["table", "rank", "places", "student", *keys, "note"], lines)
    return {
        result["student"]
        for result in results
        if result["status"] == "graded" and counts_on_test(result, history, board)
    }
