"""Write docs/checks.md: what the checks say to the likeliest mistakes in each task, by making them.

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
from checks.graded_tasks import GRADED_TASKS, GradedTask
from checks.report import Report
from course.answers import MISTAKES, installed, read
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.writing import atomic_write

PAGE = ROOT / "docs" / "checks.md"
WIDTH = 96  # columns
LIKELY = {
    "bert.attention": "no_scale no_dropout softmax_over_queries heads_not_transposed no_mask",
    "bert.add_norm": "no_residual no_dropout norm_before_residual dense_twice dropout_on_sum",
    "bert.layer": "no_gelu norms_swapped second_residual_from_input relu mask_not_given",
    "bert.embed": "no_dropout segments_ignored same_position no_norm dropout_before_norm",
    "optimizer.step": "coupled_decay no_bias_correction eps_inside_root no_decay moments_not_kept",
    "classifier.init": "dropout_in_code width_in_code bert_always_trains labels_in_code no_dropout",
    "classifier.forward": "softmax_returned no_dropout no_mask cls_of_last_hidden_state no_linear",
    "multitask.init": "bert_not_frozen layers_in_list width_in_code bert_not_loaded no_layers",
    "multitask.forward": "padding_pooled tokens_left mask_not_given no_grad dict_returned",
    "multitask.predict_sentiment": (
        "softmax_returned class_returned mask_not_given layer_made_at_call dropout_always_on"
    ),
    "multitask.predict_paraphrase": (
        "axis_left probability_returned two_logits joined_along_batch first_twice"
    ),
    "multitask.predict_similarity": (
        "axis_left cut_to_integers every_pair dropout_on_score batch_averaged"
    ),
}
HEAD = """# What the checks say to likely mistakes

Each task's function was written wrongly in five likely ways, and `python sanity_check.py` run. Your
numbers are these where your mistake is one of them: inputs are stored, so they are the same for
everybody. Only what follows the task's name is shown.
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
    for entry in GRADED_TASKS:
        blocks = [output_of(entry, name) for name in LIKELY[entry.id].split()]
        parts.append(f"## {entry.title}\n".replace("__", "\\_\\_"))
        parts += [f"```text\n{block}\n```\n" for block in blocks]
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    OneLineParser(description="Write what the checks say to likely mistakes.").parse_args()
    text = page()
    with atomic_write(PAGE) as file:
        file.write(text)
    print(f"{PAGE.name}: {text.count('```text')} transcripts")


if __name__ == "__main__":
    run_script(main)
