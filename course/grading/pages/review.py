"""What staff should look at before they believe a result; no point depends on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Result = Mapping[str, Any]


def to_look_at(results: Sequence[Result], highest: Mapping[str, float]) -> dict[str, list[str]]:
    """Sentences by student.

    Args:
        highest: the best score on test that is believed of a data set, [look] of settings.toml.
    """
    owners = owners_of(results)
    sentences_of = {}
    for result in results:
        if result["status"] != "graded":
            continue
        entries = result.get("predictions", [])
        sentences = [*not_there(entries), *twice(result["student"], entries, owners)]
        sentences += [
            f"{entry['file']}: {text}" for entry in entries for text in entry.get("odd", ())
        ]
        sentences += too_good(entries, highest)
        crashed = [task["number"] for task in result["tasks"] if task["status"] == "crashed"]
        sentences += [f"crashed: {', '.join(crashed)}"] if crashed else []
        sentences += result.get("flags", [])
        if sentences:
            sentences_of[result["student"]] = sentences
    return sentences_of


def not_there(entries: Sequence[Mapping]) -> list[str]:
    """Which required files of predictions were not handed in."""
    lacking = [e["file"] for e in entries if e.get("faults") and not e.get("sha256")]
    if len(lacking) == len(entries):
        return ["no predictions handed in"] if entries else []
    return [f"no {name}" for name in lacking]


def owners_of(results: Sequence[Result]) -> dict[str, list[tuple[str, str]]]:
    """(student, file) of all files of predictions by their content."""
    owners = defaultdict(list)
    for result in results:
        for entry in result.get("predictions", []):
            if entry.get("sha256"):
                owners[entry["sha256"]].append((result["student"], entry["file"]))
    return owners


def twice(student: str, entries: Sequence[Mapping], owners: Mapping[str, list]) -> list[str]:
    """Files that are byte for byte others, of another group or of this one."""
    others = defaultdict(set)  # the group, or the file of this one → files
    for entry in entries:
        for owner, file in owners.get(entry.get("sha256", ""), ()):
            if owner != student:
                others[f"of {owner}"].add(entry["file"])
            elif file != entry["file"] and file < entry["file"]:
                others[file].add(entry["file"])
    return [
        f"{', '.join(sorted(files)[:2])}{' …' if len(files) > 2 else ''}: byte for byte as {other}"
        for other, files in sorted(others.items())[:5]
    ]


def too_good(entries: Sequence[Mapping], highest: Mapping[str, float]) -> list[str]:
    """Scores on test that only who has seen its labels would have."""
    scores = [
        f"{Path(entry['file']).stem} {entry['value']:.3f}"
        for entry in entries
        if entry["split"] == "test" and (entry["value"] or 0) > highest.get(entry["data"], 1.0)
    ]
    return [f"are the public test labels in it? {', '.join(scores)}"] if scores else []
