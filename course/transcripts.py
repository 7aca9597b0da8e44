"""Write docs/checks.md: what the checks say to likely mistakes in each task, by making them.

    python course/transcripts.py    seconds; again whenever the checks or their words change

A test asks whether the page is up to date.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks import jobs
from checks.graded_tasks import GradedTask, graded_task
from checks.report import Report
from course.answers import MISTAKES, installed, read
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.writing import write_whole

PAGE = ROOT / "docs" / "checks.md"
WIDTH = 96  # columns
LIKELY = {  # a mistake or more of each task
    "bert.attention": "no_scale no_dropout",
    "bert.add_norm": "no_residual",
    "bert.layer": "norms_swapped",
    "bert.embed": "same_position",
    "optimizer.step": "coupled_decay",
    "classifier.init": "width_in_code",
    "classifier.forward": "softmax_returned",
    "multitask.init": "layers_in_list",
    "multitask.forward": "padding_pooled",
    "multitask.predict_sentiment": "layer_made_at_call",
    "multitask.predict_paraphrase": "joined_along_batch",
    "multitask.predict_similarity": "axis_left",
    "modern.rotary": "interleaved positions_from_one",
    "modern.local_mask": "off_by_one past_only",
    "modern.geglu": "swapped",
}
HEAD = """# What the checks say to likely mistakes

What `python sanity_check.py` prints for common mistakes. The inputs are stored: the same
mistake gives the same numbers.

- `probably` names the mistake that computes exactly what your function does.
- `cause` says what was measured in a function that makes no known mistake.
- Then comes what was compared, where it first differs, and by how much at most.
- An exception is followed by its line, with the tensors in it and their shapes.
- `--all` shows every difference, not only the first of each kind.
- `--quiz` asks questions about your own code, such as what changes if a line is edited; `--task`
  and `--part` choose, `--seed` asks the same ones again.
"""


def output_of(entry: GradedTask, name: str) -> str:
    """What is printed about a task with one mistake in it, without the first line.

    Numbers of lines are those of a student's own file.
    """
    with installed(read(MISTAKES, f"{entry.id}/{name}")):
        outcome = jobs.check_task(entry)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        Report().end(outcome)
    lines = (line[8:] for line in out.getvalue().splitlines()[1:])
    return re.sub(r"\.py:\d+", ".py:…", "\n".join(lines))


def page() -> str:
    """All transcripts, as Markdown."""
    os.environ["COLUMNS"] = str(WIDTH)
    parts = [HEAD]
    for entry in map(graded_task, LIKELY):
        blocks = [output_of(entry, name) for name in LIKELY[entry.id].split()]
        parts.append(f"## {entry.title}\n".replace("__", "\\_\\_"))
        parts += [f"```text\n{block}\n```\n" for block in blocks]
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    OneLineParser(description="Write what the checks say to likely mistakes.").parse_args()
    write_whole(PAGE, page())


if __name__ == "__main__":
    run_script(main)
