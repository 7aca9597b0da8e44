"""What each student reads: points and feedback, as Markdown and as a page.

It shows what results hold and computes no verdict. Everything that is written passes ``clean``:
messages may quote a student's code, file names and errors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from checks.graded_tasks import GRADED_TASKS
from course.grading.intake.names import plain_name
from course.grading.pages.output import clean, page
from course.templates import templates_of
from training.files.errors import InputError
from training.files.writing import write_whole

Result = Mapping[str, Any]
# What Markdown may take for a sign; "_" inside a word and "#" inside a line are none
ACTIVE = re.compile(r"[\\`*\[\]<~$]|(?<!\w)_|_(?!\w)|^[#>]|&(?=#?\w+;)")
SAYS = {
    "waits": "could not be run, because what it needs is not right yet",
    "crashed": "the program ended before the function did, or the file cannot be imported",
    "timeout": "took longer than allowed",
    "memory": "needed more memory than allowed",
    "disk": "wrote more, or more files, than allowed",
    "missing": "the function or its file is not there",
    "invalid answer": "gave back something else than a tensor of the right kind",
}

MEANS = {  # what a row of points is given for
    "values": "the results in evaluation mode are those of the reference",
    "gradients": "the gradients of all inputs and weights are those of the reference",
    "padding": "padding changes nothing",
    "dropout": "the results in training mode are right",
    "inputs": "the function leaves its arguments unchanged",
    "form": "the result has the right shape and kind of numbers",
    "sentences": "the result depends on its own sentence, or on both of a pair",
    "neighbours": "the result depends on no other row of the batch, and not on padding",
    "learning": "gradients reach the weights that have to learn",
    "the update": "steps without weight decay follow the equations",
    "weight decay": "each step takes lr · weight_decay · θ off the parameters",
    "correct_bias=False": "steps without bias correction are right",
    "parameter groups, schedules": "each group has its own settings, and a changed lr is followed",
    "parameters without gradients": "these stay as they are",
    "resuming": "state_dict and load_state_dict keep the averages and the count of steps",
    "gradients left as they are": "a step does not change p.grad",
}
TRIED = "wrong: "  # before the case of an optimizer


# ---------------------------------------------------------------------------------------------
# Feedback


def _md(text: Any, limit: int = 300) -> str:
    """A cleaned text that Markdown shows as it is: no link, no tag, no cell of a table."""
    shown = ACTIVE.sub(r"\\\g<0>", clean(text, limit))
    return re.sub(r"(?i)(:)(?=//)|(?<=www)(\.)", r"\\\1\2", shown)  # addresses without brackets


def _block(text: str) -> str:
    """Several lines as they are, between fences that are longer than any in it."""
    shown = clean(text, 2000, lines=True)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}text\n{shown}\n{fence}"


TEMPLATES = templates_of(__file__)
TEMPLATES.filters |= {"clean": clean, "md": _md, "block": _block}


def contents(result: Result, show_test: bool) -> dict[str, Any]:
    """What both templates of feedback show; see ``feedback``."""
    sheet = result["sheet"]
    tasks = [row.task for row in sheet.of_kind("task") if row.task] if sheet else []
    wrong = [task for task in tasks if task["status"] != "right"]
    lost = sorted(wrong, key=lambda task: task["points"] - task["of"])  # the most points first
    first = {str(task["messages"]): task["number"] for task in reversed(wrong)}
    return {
        "result": result,
        "heading": result["student"] + (f", part {result['part']}" if "part" in result else ""),
        "sheet": sheet,
        "right": [task for task in tasks if task["status"] == "right"],
        "wrong": [task | about(task, first[str(task["messages"])]) for task in wrong],
        "further": sheet.of_kind("extra", "manual") if sheet else [],
        "changes": sheet.of_kind("correction", "late") if sheet else [],
        "predictions": [predicted(entry, show_test) for entry in result.get("predictions", [])],
        "to_fix": [(task["title"], task["of"] - task["points"]) for task in lost[:3]],
        "says": SAYS,
        "means": MEANS,
    }


def feedback(result: Result, show_test: bool = True) -> str:
    """What one student gets to read, in Markdown; its text is in feedback.md.

    Args:
        show_test: whether this submission counts on the test data; of these the public half only.
    """
    text = TEMPLATES.get_template("feedback.md").render(contents(result, show_test))
    return re.sub(r"\n{3,}", "\n\n", text)


def feedback_page(result: Result, show_test: bool = True) -> str:
    """The same as a page; its text is in feedback.html."""
    shown = contents(result, show_test)
    return page(shown["heading"], "", template="feedback.html", **shown)


def about(entry: Mapping[str, Any], first: str) -> dict[str, Any]:
    """What a wrong task looks like, where to read, and its messages.

    Args:
        first: the first task with the same messages, such as those of a file that fails.
    """
    named = zip(entry.get("mistakes", []), entry.get("hints", []), strict=False)
    known = [task for task in GRADED_TASKS if task.number == entry["number"]]
    repeated = entry["messages"] and first != entry["number"]
    messages = [f"as Task {first}"] if repeated else with_cases(entry["messages"])
    return {"looks_like": list(named), "known": known, "messages": messages}


def with_cases(messages: Iterable[str]) -> list[str]:
    """Messages, of which those on the cases of an optimizer become one."""
    others = [text for text in messages if not text.startswith(TRIED)]
    cases = [text.removeprefix(TRIED) for text in messages if text.startswith(TRIED)]
    return others + [f"tried, with a wrong result: {'; '.join(cases)}"] * bool(cases)


def predicted(entry: Mapping[str, Any], show_test: bool) -> dict[str, Any]:
    """A file's metric with its interval; of test data the public half, or nothing."""
    test = entry["split"] == "test"
    keys = [f"public{end}" for end in ("", "_low", "_high")] if test else ["value", "low", "high"]
    value, low, high = map(entry.get, keys)
    shown, interval = "", ""
    if faults := entry.get("faults"):
        interval = f"not scored: {'; '.join(faults[:10])}"
    elif test and not show_test:
        interval = "only your first submissions count on test"
    elif value is None:
        interval = entry.get("note") or "not scored"
    else:
        shown, interval = f"{value:.3f}", f"{low:.3f} to {high:.3f}"
    return {
        "file": entry["file"],
        "rows": "public half" if test else "all rows",
        "metric": entry["metric"],
        "value": shown,
        "interval": interval,
    }


def write_feedback(
    out: Path, results: Iterable[Result], on_test: Collection[str]
) -> dict[str, str]:
    """OUT/feedback/<student>.md and .html for everybody; the latter by student.

    Args:
        on_test: the students whose present submission counts on test.
    """
    pages = {}
    for result in results:
        name = result["student"]
        if not name or name != plain_name(name).replace(" ", "_"):
            raise InputError(f"{clean(repr(name))} is not a name for a file of feedback")
        pages[name] = feedback_page(result, name in on_test)
        write_whole(out / "feedback" / f"{name}.md", feedback(result, name in on_test))
        write_whole(out / "feedback" / f"{name}.html", pages[name])
    return pages
