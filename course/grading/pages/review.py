"""What staff should look at before they believe a result; no point depends on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from course.grading.intake.intake import MISSING

Result = Mapping[str, Any]


def to_look_at(results: Sequence[Result], highest: Mapping[str, float]) -> dict[str, list[str]]:
    """Sentences by student.

    Args:
        highest: the best score on test that is believed of a data set, [look] of settings.toml.
    """
    owners = defaultdict(list)  # (student, file) of files of predictions, by their content
    for result in results:
        for entry in result.get("predictions", []):
            owners[contents(entry)].append((result["student"], entry["file"]))
    sentences_of = {}
    for result in results:
        if result["status"] != "graded":
            continue
        entries = result.get("predictions", [])
        lacking = [e["file"] for e in entries if e.get("faults") and not e.get("sha256")]
        sentences = [f"no {name}" for name in lacking]
        if lacking and len(lacking) == len(entries):
            sentences = ["no predictions handed in"]
        sentences += [note for note in result.get("notes", ()) if note.startswith(MISSING)]
        sentences += twice(result["student"], entries, owners)
        unread = [e for e in entries if e.get("faults") and e.get("sha256")]
        sentences += [f"not scored: {'; '.join(e['faults'][:2])}" for e in unread]
        sentences += [f"{e['file']}: {text}" for e in entries for text in e.get("odd", ())]
        too_good = [  # only who has seen the labels would have such scores
            f"{Path(e['file']).stem} {e['value']:.3f}"
            for e in entries
            if e["split"] == "test" and (e["value"] or 0) > highest.get(e["data"], 1.0)
        ]
        if too_good:
            sentences.append(
                f"better than believed possible; were test labels used? {', '.join(too_good)}"
            )
        crashed = defaultdict(list)  # numbers of tasks by what is known of it, as a file's import
        for task in result["tasks"]:
            if task["status"] == "crashed":
                crashed[" ".join(task["messages"][:1])].append(task["number"])
        sentences += [f"crashed: {', '.join(crashed[why])} {why}".rstrip() for why in crashed]
        sentences += result.get("flags", [])
        if sentences:
            sentences_of[result["student"]] = sentences
    return sentences_of


def contents(entry: Mapping[str, Any]) -> str:
    """What two files of predictions share, whatever the order of their rows and their blanks."""
    return entry.get("contents") or entry.get("sha256", "")


def twice(student: str, entries: Sequence[Mapping], owners: Mapping[str, list]) -> list[str]:
    """Files with the same predictions as others, of another group or of this one."""
    others = defaultdict(set)  # the group, or the file of this one → files
    for entry in entries:
        for owner, file in owners[contents(entry)] if contents(entry) else ():
            if owner != student:
                others[f"of {owner}"].add(entry["file"])
            elif file < entry["file"]:
                others[file].add(entry["file"])
    return [
        f"{', '.join(sorted(files)[:2])}{' …' if len(files) > 2 else ''}: "
        f"the same predictions as {other}"
        for other, files in sorted(others.items())[:5]
    ]
