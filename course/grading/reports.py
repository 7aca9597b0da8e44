"""What people read: feedback for each student, statistics of the class, marks given by hand.

It shows what results hold and computes no verdict. Everything that is written passes ``clean``:
messages may quote a student's code, file names and errors.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS
from course.grading.output import DIGITS, Column, clean, page, table, write_csv, write_text
from course.templates import templates_of
from training.errors import InputError

Result = Mapping[str, Any]
MANUAL_COLUMNS = ["student", "row", "points", "comment"]
STATUSES = (
    "right",
    "wrong",
    "not started",
    "waits",
    "crashed",
    "timeout",
    "memory",
    "missing",
    "invalid answer",
)
SAYS = {
    "waits": "could not be run, because what it needs is not right yet",
    "crashed": "the program ended while the function ran",
    "timeout": "took longer than allowed",
    "memory": "needed more memory than allowed",
    "missing": "the function or its file is not there",
    "invalid answer": "gave back something else than a tensor of the right kind",
}


# ---------------------------------------------------------------------------------------------
# Marks given by hand


def read_manual(
    path: Path, students: Collection[str], limits: Mapping[str, int]
) -> dict[tuple[str, str], tuple[float, str]]:
    """Points and comments by (student, row) from a CSV: student,row,points,comment.

    A line without points is a row that is not marked yet.

    Args:
        students: everybody who handed in.
        limits: the rows and their points, [manual] of settings.toml.

    Raises:
        InputError: the file's first fault, with its line.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            numbered = [(lines.line_num, [cell.strip() for cell in line]) for line in lines]
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (UnicodeDecodeError, OSError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}; save it as CSV in UTF-8") from None
    if not numbered or [cell.lower() for cell in numbered[0][1]] != MANUAL_COLUMNS:
        raise InputError(f"{path}, row 1 is not the header {','.join(MANUAL_COLUMNS)}")
    marks: dict[tuple[str, str], tuple[float, str]] = {}
    seen: set[tuple[str, str]] = set()
    for number, cells in numbered[1:]:
        if not any(cells):
            continue
        fault = _mark_fault(cells, students, limits, seen)
        if fault:
            raise InputError(clean(f"{path}, row {number}: {fault}"))
        student, row, points, comment = cells
        seen.add((student, row))
        if points:
            marks[student, row] = (float(points), comment)
    return marks


def _mark_fault(
    cells: Sequence[str],
    students: Collection[str],
    limits: Mapping[str, int],
    seen: Collection[tuple[str, str]],
) -> str:
    """What is wrong with one line of the file, with a remedy; "" if nothing is."""
    if len(cells) != len(MANUAL_COLUMNS):
        return f"{len(cells)} cells instead of 4; put a comment with commas in quotes"
    student, row, points, _ = cells
    if student not in students:
        return f"no submission of {student!r}; mend the name"
    if row not in limits:
        return f"no row {row!r}; there are {', '.join(limits) or 'none in settings.toml'}"
    if (student, row) in seen:
        return f"{row} of {student} is there twice; remove one of the two"
    if not points:
        return ""
    try:
        value = float(points)
    except ValueError:
        value = math.nan
    if not 0 <= value <= limits[row]:  # also where it is nan
        return f"{points!r} is no number from 0 to {limits[row]}, which {row} can have"
    return ""


def manual_rows(
    student: str,
    marks: Mapping[tuple[str, str], tuple[float, str]],
    limits: Mapping[str, int],
) -> list[dict[str, Any]]:
    """A result's "manual": every row; points None where nobody has given any."""
    rows = []
    for row, most in limits.items():
        points, comment = marks.get((student, row), (None, ""))
        rows.append({"row": row, "points": points, "of": most, "comment": comment})
    return rows


def totals(result: Result) -> tuple[float, float, list[str]]:
    """(points, most points, rows without a mark), the latter in neither of the two numbers."""
    graded = [row for row in result.get("manual", []) if row["points"] is not None]
    entries = [*result.get("tasks", []), *graded]
    missing = [row["row"] for row in result.get("manual", []) if row["points"] is None]
    return sum(e["points"] for e in entries), sum(e["of"] for e in entries), missing


def unmarked(results: Iterable[Result]) -> list[str]:
    """A line for each graded student with rows without a mark."""
    lines = []
    for result in results:
        missing = totals(result)[2] if result["status"] == "graded" else []
        if missing:
            lines.append(f"{clean(result['student'])}: no mark yet for {', '.join(missing)}")
    return lines


# ---------------------------------------------------------------------------------------------
# Feedback


def _md(text: Any, limit: int = 300) -> str:
    """A cleaned text that Markdown shows as it is: no link, no tag, no cell of a table."""
    shown = re.sub(r"([\\`*_\[\]<>|~#!&$])", r"\\\1", clean(text, limit))
    return re.sub(r"(?i)(:)(?=//)|(?<=www)(\.)", r"\\\1\2", shown)  # addresses without brackets


def _block(text: str) -> str:
    """Several lines as they are, between fences that are longer than any in it."""
    shown = clean(text, 2000, lines=True)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}text\n{shown}\n{fence}"


TEMPLATES = templates_of(__file__)
TEMPLATES.filters |= {"clean": clean, "md": _md, "block": _block}


def feedback(result: Result, show_test: bool = True) -> str:
    """What one student gets to read, in Markdown; its text is in feedback.md.

    Args:
        show_test: whether this submission counts on the test data; of these the public half only.
    """
    points, most, missing = totals(result)
    return TEMPLATES.get_template("feedback.md").render(
        result=result,
        points=points,
        most=most,
        missing=missing,
        manual=result.get("manual", []),
        says=SAYS,
        graded_tasks=GRADED_TASKS,
        looks_like=_looks_like,
        prediction_cells=partial(_prediction_cells, show_test=show_test),
    )


def _looks_like(entry: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The names of a task's mistakes and what to look at."""
    return itertools.zip_longest(entry.get("mistakes", []), entry.get("hints", []), fillvalue="")


def _prediction_cells(entry: Mapping[str, Any], show_test: bool) -> tuple[str, ...]:
    """A file's metric with its interval; of test data the public half, or nothing."""
    test = entry["split"] == "test"
    keys = [f"public{end}" for end in ("", "_low", "_high")] if test else ["value", "low", "high"]
    value, low, high = map(entry.get, keys)
    if entry.get("faults"):
        shown, interval = "–", "not scored: see below"
    elif test and not show_test:
        shown, interval = "–", "only your first submissions count on test"
    elif value is None:
        shown, interval = "–", _md(entry.get("note") or "not scored")
    else:
        shown, interval = f"{value:.3f}", f"{low:.3f} to {high:.3f}"
    return _md(entry["file"]), "public half" if test else "all", entry["metric"], shown, interval


def write_feedback(out: Path, results: Iterable[Result], on_test: Collection[str]) -> None:
    """OUT/feedback/<student>.md for everybody.

    Args:
        on_test: the students whose present submission counts on test.
    """
    for result in results:
        name = result["student"]
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise InputError(f"{clean(repr(name))} is no name for a file of feedback")
        write_text(out / "feedback" / f"{name}.md", feedback(result, name in on_test))


# ---------------------------------------------------------------------------------------------
# The class


def class_rows(results: Iterable[Result]) -> list[dict[str, Any]]:
    """A row a task: how many graded submissions have each status, mean points, common mistakes."""
    graded = [result for result in results if result["status"] == "graded"]
    entries: dict[str, list[Mapping]] = {}
    for result in graded:
        for entry in result["tasks"]:
            entries.setdefault(entry["number"], []).append(entry)
    rows = []
    for number in sorted(entries, key=lambda text: [int(n) for n in re.findall(r"\d+", text)]):
        group = entries[number]
        statuses = Counter(entry["status"] for entry in group)
        mistakes = Counter(name for entry in group for name in set(entry["mistakes"]))
        rows.append(
            {
                "task": number,
                "title": group[0]["title"],
                "graded": len(group),
                **{status: statuses[status] for status in STATUSES},
                "mean points": sum(entry["points"] for entry in group) / len(group),
                "of": group[0]["of"],
                "common mistakes": ", ".join(f"{n} ({k})" for n, k in mistakes.most_common(5)),
            }
        )
    return rows


def _overview(results: Sequence[Result]) -> str:
    """How many there are of what, and points, in a sentence or two."""
    statuses = Counter(result["status"] for result in results)
    listed = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    graded = [result for result in results if result["status"] == "graded"]
    if not graded:
        return f"{len(results)} submissions: {listed or 'none'}."
    shares = [points / most for points, most, _ in map(totals, graded) if most]
    mean = f"Mean share of the points {sum(shares) / len(shares):.0%}. " if shares else ""
    rest = "What was refused or went wrong on the staff's side is in no mean."
    return f"{len(results)} submissions: {listed}. {mean}{rest}"


def class_section(results: Sequence[Result]) -> tuple[str, str, str]:
    """The section of the staff's page: heading, text, HTML."""
    columns = [
        Column("task", "Task"),
        Column("title", "Function", "key"),
        *(Column(status, status.capitalize(), "count") for status in STATUSES),
        Column("mean points", "Mean points", "points"),
        Column("of", "Of", "count"),
        Column("common mistakes", "Common mistakes", "long"),
    ]
    rows = class_rows(results)
    for row in rows:
        row["title"] = row["title"].split(" · ")[-1]
    used = {key for row in rows for key, value in row.items() if value not in (0, None)}
    always = {"right", "wrong", "not started"}
    kept = [c for c in columns if c.key in used or c.key in always or c.kind not in DIGITS]
    return "Tasks", _overview(results), table(kept, rows, "Tasks")


def student_section(results: Sequence[Result]) -> tuple[str, str, str]:
    """Every submission with its points, and what staff have to look at."""
    rows = []
    for result in results:
        points, most, missing = totals(result)
        graded = result["status"] == "graded"
        notes = [result.get("why", "")]
        notes += [f"no mark for {', '.join(missing)}"] if graded and missing else []
        notes += [f"notes: {len(result['notes'])}"] if result.get("notes") else []
        rows.append(
            {
                "student": result["student"],
                "status": result["status"],
                "points": points if graded else None,
                "of": most if graded else None,
                "layers": ", ".join(result.get("layers", [])),
                "look": "; ".join(filter(None, notes)),
            }
        )
    columns = [
        Column("student", "Group", "key"),
        Column("status", "Status"),
        Column("points", "Points", "points"),
        Column("of", "Of graded rows", "points"),
        Column("look", "To look at", "long"),
    ]
    text = "Rows of the rubric without a mark are in neither number. Layers of the sandbox: " + (
        "; ".join(sorted({row["layers"] for row in rows if row["layers"]})) or "none"
    )
    return "Submissions", text, table(columns, rows, "Submissions")


def write_statistics(out: Path, results: Sequence[Result]) -> None:
    """OUT/statistics.csv: a row a task, and one for all."""
    graded = [result for result in results if result["status"] == "graded"]
    rows = class_rows(results)
    if graded:
        sums = [totals(result) for result in graded]
        rows.append(
            {
                "task": "all",
                "graded": len(graded),
                "mean points": sum(points for points, _, _ in sums) / len(graded),
                "of": max(most for _, most, _ in sums),
                "common mistakes": _overview(results),
            }
        )
    columns = ["task", "title", "graded", *STATUSES, "mean points", "of", "common mistakes"]
    write_csv(out / "statistics.csv", columns, rows)


def write_grades(out: Path, results: Sequence[Result]) -> None:
    """OUT/grades.csv: a row a student; who could not be graded has no points, not zero."""
    rows = []
    for result in results:
        points, most, missing = totals(result)
        graded = result["status"] == "graded"
        rows.append(
            {
                "student": result["student"],
                "part": result.get("part"),
                "status": result["status"],
                "points": points if graded else None,
                "of graded rows": most if graded else None,
                "rows without a mark": ", ".join(missing) if graded else "",
                "why": result.get("why", ""),
                "sha256": result.get("sha256", ""),
            }
        )
    columns = ["student", "part", "status", "points", "of graded rows", "rows without a mark"]
    write_csv(out / "grades.csv", [*columns, "why", "sha256"], rows)


def write_staff_page(
    out: Path,
    results: Sequence[Result],
    course: Mapping[str, Any],
    more: Iterable[tuple[str, str, str]] = (),
) -> None:
    """OUT/staff.html: tasks, submissions, and the sections that other parts made."""
    sections = [class_section(results), student_section(results), *more]
    lead = f"Not for students. {course['term']}".strip()
    write_text(out / "staff.html", page(f"{course['name']}: the class", lead, sections))


def write_all(
    out: Path,
    results: Iterable[Result],
    settings: Mapping[str, Any],
    marks: Path | None = None,
    on_test: Collection[str] = (),
    more: Iterable[tuple[str, str, str]] = (),
) -> list[str]:
    """Everything of this file; a line for each student with rows of the rubric without a mark.

    Args:
        results: all, staff errors included; what people gave is added from ``marks``.
        settings: settings.toml, checked.
        on_test: what leaderboard.write_all returns.
        more: sections of the staff's page.
    """
    results = list(results)
    limits = settings["manual"]
    # people mark part 2; a result without a part is an error of ours, whose student may have marks
    students = {one["student"] for one in results if one.get("part") != 1}
    given = read_manual(marks, students, limits) if marks else {}
    marked = [
        {**one, "manual": manual_rows(one["student"], given, limits)}
        if one.get("part") == 2
        else one
        for one in results
    ]
    write_feedback(out, marked, on_test)
    write_statistics(out, marked)
    write_grades(out, marked)
    write_staff_page(out, marked, settings["course"], more)
    return unmarked(marked)
