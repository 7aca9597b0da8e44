"""The leaderboard: who is where, on which half of the test rows, from which submission.

Students see all dev rows, whose labels they have, and the public half of the test rows; staff see
the private half and all rows besides. Only a group's first submissions count on test. It does not
know how predictions are scored.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course.grading.judging.predictions import Gold
from course.grading.pages import ranking
from course.grading.pages.output import Column, page, table, write_csv, write_text
from training.files.errors import InputError

HISTORY = "history.jsonl"
Result = Mapping[str, Any]  # of one submission
Scores = Mapping[str, Mapping[str, Any]]  # "sst-test" → value, public, private, predicted
Labels = Mapping[tuple[str, str], Gold]

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
VIEWS = {  # which rows of the test data, for whom
    "public": "Test, public half",
    "private": "Test, private half",
    "value": "Test, all rows",
}


@dataclass(frozen=True)
class Rules:
    """How many submissions of a group count on test."""

    attempts: int = 1
    exceptions: Mapping[str, int] = field(default_factory=dict)

    def of(self, student: str) -> int:
        """How many of this group's."""
        return self.exceptions.get(student, self.attempts)


# ---------------------------------------------------------------------------------------------
# Scores of one submission


def scores_of(result: Result) -> dict[str, dict[str, float | None]]:
    """A result's predictions by [option-]data-split; those with faults are left out."""
    found = {}
    for entry in result.get("predictions", []):
        if entry.get("value") is None:
            continue
        option = entry.get("option") or ""
        key = "-".join(filter(None, (option, entry["data"], entry["split"])))
        found[key] = {view: entry.get(view) for view in VIEWS}
        if "predicted" in entry:
            found[key]["predicted"] = entry["predicted"]
    return found


def figures(scores: Scores, part: int, split: str, view: str) -> dict[str, float | None]:
    """The columns of one row; None where something is missing."""
    found = {key: scores.get(f"{key}-{split}", {}).get(view) for key in COLUMNS[part]}
    if part == 2:
        parts = [found["sst"], found["para"], found["sts"]]
        if None not in parts:
            sst, para, sts = parts
            found["overall"] = (sst + para + (sts + 1) / 2) / 3
            found["mean"] = (sst + para + sts) / 3
    return found


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
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # the machine stopped while it was written; it is graded again
            continue
        if isinstance(entry, dict) and {"student", "part", "sha256", "time"} <= entry.keys():
            found.append(entry)
    return found


def graded_later(out: Path, times: Mapping[str, float]) -> set[str]:
    """Students of whom a submission was graded that was handed in later than these times."""
    found = ((one["student"], one["time"]) for one in read_history(out / HISTORY))
    return {
        student
        for student, when in found
        if datetime.fromisoformat(when).timestamp() > times.get(student, math.inf) + 1
    }


def add_to_history(path: Path, results: Iterable[Result], times: Mapping[str, float]) -> int:
    """Append every graded submission that is not there yet; how many were.

    Args:
        times: when each student's file reached the collecting system, in seconds since 1970;
            never a time from inside the zip.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        known = {_identity(entry) for entry in read_history(path)}
        lines = []
        for result in results:
            if result["status"] != "graded" or _identity(result) in known:
                continue
            known.add(_identity(result))
            when = datetime.fromtimestamp(times[result["student"]], UTC)
            entry = {key: result[key] for key in ("student", "part", "sha256")}
            entry |= {"time": when.isoformat(timespec="seconds"), "scores": scores_of(result)}
            lines.append(json.dumps(entry) + "\n")
        if lines:
            broken = file.seek(0, os.SEEK_END) and not _ends_with_newline(file)
            file.write(("\n" * broken + "".join(lines)).encode())
            file.flush()
            os.fsync(file.fileno())
    return len(lines)


def _identity(entry: Mapping[str, Any]) -> tuple:
    return entry["student"], entry["part"], entry["sha256"]


def _ends_with_newline(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def counted(history: Iterable[Mapping], student: str, part: int, rules: Rules) -> tuple[list, int]:
    """(the submissions that count on test, how many there were); only scored ones are attempts."""
    own = [
        entry
        for entry in history
        if (entry["student"], entry["part"]) == (student, part)
        and any(key.endswith("-test") for key in entry.get("scores", {}))
    ]
    own.sort(key=lambda entry: entry["time"])  # stable: the same second, the order of grading
    return own[: rules.of(student)], len(own)


def counts(result: Result, history: Iterable[Mapping], rules: Rules) -> bool:
    """Whether the test scores of this very submission may be shown to its group."""
    first, _ = counted(history, result["student"], result["part"], rules)
    return result["sha256"] in {entry["sha256"] for entry in first}


# ---------------------------------------------------------------------------------------------
# Tables


def scores_on_test(result: Result, history: Iterable[Mapping], rules: Rules) -> tuple[Scores, str]:
    """(the scores of the last submission that counts on test, what to say about others)."""
    first, seen = counted(history, result["student"], result["part"], rules)
    if not first:
        return {}, ""
    number = len(first)
    same = first[-1]["sha256"] == result["sha256"]
    # graded again, perhaps with corrected labels, the present result is the better one
    scores = scores_of(result) if same else first[-1]["scores"]
    if seen == number:
        return scores, ""
    return scores, f"{number} of {seen}; later ones: dev"


def standings(
    results: Iterable[Result],
    history: Sequence[Mapping],
    part: int,
    view: str,
    rules: Rules,
    gold: Labels | None = None,
) -> list[dict[str, Any]]:
    """The rows of one table, the best first; ties share a rank, those without a score have none.

    Of test data with labels "places" are those that the score allows, as 2–5.

    Args:
        view: "dev", or which rows of the test data: a key of VIEWS.
    """
    rows, given = [], []
    for result in results:
        if result["part"] != part or result["status"] != "graded":
            continue
        if view == "dev":
            scores, note = scores_of(result), ""
            row = figures(scores, part, "dev", "value")
        else:
            scores, note = scores_on_test(result, history, rules)
            row = figures(scores, part, "test", view)
        rows.append({"student": result["student"], "note": note, **row})
        given.append(scores)
    allowed = ranking.places_of(given, part, view, gold) if gold and view != "dev" else {}
    for number, row in enumerate(rows):
        first, last = allowed.get(number, (None, None))
        row["places"] = None if first is None else f"{first}–{last}" if last > first else f"{first}"
    main = next(iter(COLUMNS[part]))
    rows.sort(key=lambda row: (row[main] is None, -_shown(row[main] or 0), row["student"]))
    for i, row in enumerate(rows):
        tied = i and rows[i - 1][main] is not None and row[main] is not None
        tied = tied and _shown(rows[i - 1][main]) == _shown(row[main])
        row["rank"] = None if row[main] is None else rows[i - 1]["rank"] if tied else i + 1
        row["places"] = row["places"] or row["rank"]
    return rows


def _shown(value: float) -> float:
    """What the page shows: who is equal there shares a rank."""
    return round(value, 3)


def sections(
    results: Sequence[Result],
    history: Sequence[Mapping],
    rules: Rules,
    names: Mapping[str, str] | None,
    gold: Labels | None = None,
) -> list[tuple[str, str, str, list[dict]]]:
    """(heading, text, HTML, rows) of every table that students, or staff, may see.

    Args:
        names: the pseudonyms under which students see each other; None: for staff.
    """
    found = []
    parts = sorted({result["part"] for result in results})
    for part in parts:
        views = [*(VIEWS if names is None else ["public"]), "dev"]
        for view in views:
            rows = standings(results, history, part, view, rules, gold)
            if names is not None:  # who has no score is nobody else's business
                rows = [row for row in rows if any(row[key] is not None for key in COLUMNS[part])]
                rows = [
                    row | {"student": names.get(row["student"], row["student"])} for row in rows
                ]
            title = VIEWS.get(view, "Dev, all rows")
            heading = f"Part {part}: {title}" if len(parts) > 1 else title
            noted = any(row["note"] for row in rows)
            html = table(_columns(part, rows, noted), rows, heading)
            found.append((heading, _explained(part, view, rules), html, rows))
    return found


def _columns(part: int, rows: Sequence[Mapping[str, Any]], noted: bool) -> list[Column]:
    main, *others = COLUMNS[part]
    columns = [
        Column("places", "Rank", "rank"),
        Column(main, COLUMNS[part][main], "score", bar=True),
    ]
    columns += [Column("student", "Group", "key")]
    used = [key for key in others if any(row[key] is not None for row in rows)]
    columns += [Column(key, COLUMNS[part][key], "score") for key in used]
    return columns + ([Column("note", "Submission")] if noted else [])


def _explained(part: int, view: str, rules: Rules) -> str:
    if view == "dev":
        return f"{MEANING[part]} From each group's latest submission."
    many = "submission counts" if rules.attempts == 1 else f"{rules.attempts} submissions count"
    half = {
        "public": "A fixed secret half of the test rows; the other half is kept for the grade.",
        "private": "The half of the test rows that no student ever sees a score of.",
        "value": "Both halves together.",
    }[view]
    limit = f"A group's first {many} on test, later ones on dev only."
    return (
        f"{MEANING[part]} {half} {limit} A rank such as 2–5: with other test sentences the group "
        "might be second or fifth (paired bootstrap, 95 %); whose ranks overlap are equally good."
    )


def write_all(
    out: Path,
    results: Sequence[Result],
    settings: Mapping[str, Any],
    times: Mapping[str, float],
    names: Mapping[str, str],
    gold: Labels | None = None,
) -> set[str]:
    """Add to OUT's history, write the pages and tables; who may see the test scores of this result.

    Args:
        settings: settings.toml, checked.
        times: see add_to_history.
        names: pseudonyms by student; who has none is shown by name.
        gold: labels, for ranks with intervals.
    """
    add_to_history(out / HISTORY, results, times)
    history = read_history(out / HISTORY)
    write(out, results, history, settings, names, gold)
    graded = [result for result in results if result["status"] == "graded"]
    return {one["student"] for one in graded if counts(one, history, rules_of(settings))}


def rules_of(settings: Mapping[str, Any]) -> Rules:
    """[leaderboard] of settings.toml."""
    return Rules(settings["leaderboard"]["attempts"], settings["leaderboard"]["exceptions"])


def write(
    out: Path,
    results: Sequence[Result],
    history: Sequence[Mapping],
    settings: Mapping[str, Any],
    names: Mapping[str, str],
    gold: Labels | None = None,
) -> None:
    """leaderboard.html and .csv for students, staff-leaderboard.html and .csv for staff."""
    rules = rules_of(settings)
    course = settings["course"]
    title = f"{course['name']}: leaderboard"
    groups = len({result["student"] for result in results})
    for name, shown in (("leaderboard", names), ("staff-leaderboard", None)):
        found = sections(results, history, rules, shown, gold)
        lead = f"{course['term']} · {groups} groups".removeprefix(" · ")
        if shown is None:
            lead = f"Not for students: holds the private half. {lead}"
        html = page(title, lead, [section[:3] for section in found])
        write_text(out / f"{name}.html", html)
        rows = [{"table": heading, **row} for heading, _, _, rows in found for row in rows]
        keys = [key for part in sorted({r["part"] for r in results}) for key in COLUMNS[part]]
        columns = ["table", "rank", "places", "student", *keys, "note"]
        write_csv(out / f"{name}.csv", columns, rows)
