"""All that a batch writes from its results: feedback, tables, gradebooks, pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from course.grading import points
from course.grading.intake import deadlines
from course.grading.intake.lists import Lists
from course.grading.judging.predictions import Gold
from course.grading.pages import class_page, gradebooks, leaderboard, pseudonyms, reports
from course.grading.pages.output import clean
from course.grading.pages.review import to_look_at

Result = Mapping[str, Any]


def write_all(
    out: Path,
    results: Iterable[Result],
    settings: Mapping[str, Any],
    times: Mapping[str, float],
    lists: Lists,
    secret: str,
    gold: Mapping[tuple[str, str], Gold] | None = None,
    more: Iterable[class_page.Section] = (),
) -> list[str]:
    """Everything into OUT; lines on who lacks a mark or is in no gradebook, and the overview.

    Args:
        results: all, those included where the grader failed.
        settings: settings.toml, checked.
        times: when each student's submission was handed in, by the file's time.
        secret: the assignment's.
        more: sections of the staff's page.
    """
    times = {**times, **lists.times}
    results = list(results)
    names = {}
    if settings["leaderboard"]["pseudonyms"]:
        names = pseudonyms.names_of(out, [result["student"] for result in results], secret)
    known = [result for result in results if result["status"] in ("graded", "refused")]
    on_test = leaderboard.write_all(out, known, settings, times, names, gold)
    results = [completed(result, settings, times, lists, names) for result in results]
    feedback_pages = reports.write_feedback(out, results, on_test)
    look = to_look_at(results, limits(settings["look"], gold or {}))
    class_page.write(out, results, settings["course"], look, more)
    messages = [
        clean(f"{result['student']}: {gradebooks.unsettled(result)}")
        for result in results
        if result["sheet"] and result["sheet"].unmarked
    ]
    if lists.roster and known:
        part = known[0]["part"]
        title = f"{settings['course']['name']} part {part}"
        maximum = points.no_points(part, settings).maximum
        messages += gradebooks.write_by_student(
            out, results, lists.roster, title, maximum, feedback_pages
        )
    return [*messages, class_page.overview(results)]


def limits(look: Mapping[str, Any], gold: Mapping[tuple[str, str], Gold]) -> dict[str, float]:
    """The best score on test that is believed of each data set, for the labels that are used."""
    practice = [
        data for (data, split), labels in gold.items() if split == "test" and labels.practice
    ]
    return {**look, **{data: look["practice"].get(data, 1.0) for data in practice}}


def completed(
    result: Result,
    settings: Mapping[str, Any],
    times: Mapping[str, float],
    lists: Lists,
    names: Mapping[str, str],
) -> dict[str, Any]:
    """A result with its sheet of points, and with what does not come from grading."""
    student, late = result["student"], None
    if "part" in result and student in times:
        late = deadlines.lateness(settings, result["part"], times[student])
    sheet = points.points_of(result, settings, lists.marks, late, lists.corrections)
    return {**result, "pseudonym": names.get(student, ""), "late": late, "sheet": sheet}
