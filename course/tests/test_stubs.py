"""Runs in a handout whose functions are stubs, or filled in by a student."""

import pytest
from made import built, written
from running import as_process

from checks.graded_tasks import GRADED_TASKS
from course.handout_repository import write_files


@pytest.mark.parametrize(
    ("numbers", "line", "stub"),
    [
        ("", "classifier.py", "1.6"),
        ("1.1 1.2 1.3 1.4 1.6 1.7", "classifier.py --only sst", "1.5"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", "multitask_classifier.py --tasks sst,sts", "2.5"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", "multitask_classifier.py --tasks sst", ""),
    ],
)
def test_a_run_ends_at_a_stub_that_it_calls_and_names_it(numbers, line, stub, tmp_path):
    write_files(tmp_path, built("all").files | written(set(numbers.split())))
    line += " --epochs 1 --batch_size 64 --lr 1e-3 --model models/books"
    done = as_process(*line.split(), folder=tmp_path, HF_HUB_OFFLINE="1", MINBERT_DATA="")
    titles = [task.title for task in GRADED_TASKS if task.number == stub]
    check = "python sanity_check.py says where to begin\n"
    assert done.err == "".join(f"error: {title} is not written yet; {check}" for title in titles)
    assert done.code == len(titles)
