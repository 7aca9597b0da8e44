"""What part 2 hands in, besides the files of part 1; prepare_submit.py checks and zips it.

It imports none of a student's code.
"""

from __future__ import annotations

from pathlib import Path

from training.files.course_files import COURSE_STEMS
from training.files.errors import InputError

CODE = ("multitask_classifier.py", "README.md")
# Sentences that are in the handout's README.md, and in the template of a report
OF_THE_COURSE = "Begin with [the assignment](docs/handout.md)"
IN_THE_TEMPLATE = "<!-- Copy this file over README.md of your group's repository and fill it in."
COMMAND = "python multitask_classifier.py --option finetune"
FILES = {  # of predictions: task and split
    f"predictions/{task}-{split}-output.csv": (task, split)
    for task in COURSE_STEMS
    for split in ("dev", "test")
}


def check_readme(path: Path) -> None:
    """InputError where a report is there and is not the group's own."""
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    if OF_THE_COURSE in text:
        what = "is the course's: copy README.template.md over it and write your report"
        raise InputError(f"{path} {what}")
    if IN_THE_TEMPLATE in text:
        what = "still has the template's first comment: fill it in, remove the comments"
        raise InputError(f"{path} {what}")


def find_ai_card() -> Path:
    """The AI-usage card: the one PDF of the current folder; InputError where there is not one."""
    cards = sorted(path for path in Path(".").glob("*.*") if path.suffix.lower() == ".pdf")
    if len(cards) != 1:
        what = f"{len(cards)} PDFs in this folder" if cards else "no PDF in this folder"
        raise InputError(f"{what}; put the AI-usage card there, as the only PDF")
    if not cards[0].is_file() or not cards[0].read_bytes().startswith(b"%PDF-"):
        raise InputError(f"{cards[0]} is not a PDF, despite its name; hand in the card as a PDF")
    return cards[0]
