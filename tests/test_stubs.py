"""A run in a handout whose functions are stubs (training/cli/scripts.py)."""

import os
import subprocess
import sys

import pytest
from factories import ROOT

from checks.graded_tasks import GRADED_TASKS
from course import handout, regions
from course.handout_repository import write_files
from training.cli import scripts


def written(numbers: set[str]) -> dict[str, bytes]:
    """The graded files with these tasks done, and with all that only a solution of them needs."""
    files = {}
    for name in sorted({task.file for task in GRADED_TASKS}):
        tasks = {task.id for task in GRADED_TASKS if task.file == name and task.number in numbers}
        pieces = regions.parse((ROOT / name).read_text(encoding="utf-8"))
        solved = {piece.id for piece in pieces if isinstance(piece, regions.Region)}
        solved -= {task.id for task in GRADED_TASKS if task.number not in numbers}
        files[name] = regions.render(pieces, solved if tasks else ()).encode()
    return files


LAST = "multitask_classifier.py"


@pytest.mark.parametrize(
    ("numbers", "script", "flags", "said"),
    [
        ("", "classifier.py", "", "1.1"),
        ("1.1 1.2 1.3 1.4", "classifier.py", "", "1.5"),
        ("1.1 1.2 1.3 1.4 1.5 1.6", "classifier.py", "", "1.7"),
        ("1.1 1.2 1.3 1.4 1.5", LAST, "", "2.1"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", LAST, "--tasks sst,sts", "2.5"),
        ("1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3", LAST, "--tasks sst", ""),
    ],
)
def test_a_run_whose_function_is_a_stub_prints_one_line(numbers, script, flags, said, tmp_path):
    """And nothing before it; functions that the run does not call may be stubs."""
    write_files(tmp_path, handout.build(ROOT, "all").files | written(set(numbers.split())))
    line = f"{script} --epochs 1 --batch_size 64 --lr 1e-3 --model models/books {flags}"
    done = subprocess.run(
        [sys.executable, *line.split()],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"HF_HUB_OFFLINE": "1", "MINBERT_DATA": "", "OMP_NUM_THREADS": "1"},
    )
    if not said:
        assert (done.returncode, done.stderr) == (0, "")
        return
    (title,) = (task.title for task in GRADED_TASKS if task.number == said)
    line = f"error: {title} is not written yet; run python sanity_check.py --task {said}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)


def test_a_stub_that_an_if_leads_around_does_not_stop_a_run(tmp_path, monkeypatch):
    for name in ("bert.py", "classifier.py"):
        (tmp_path / name).touch()
    step = "def step():\n    if bias:\n        raise NotImplementedError('Task 1.5')\n"
    (tmp_path / "optimizer.py").write_text(step)
    monkeypatch.setattr(scripts, "ROOT", tmp_path)
    scripts.stop_at_stubs("classifier.py", ["forward"])
    (tmp_path / "optimizer.py").write_text(step.replace("if bias", "for p in group"))
    with pytest.raises(NotImplementedError, match=r"Task 1\.5"):
        scripts.stop_at_stubs("classifier.py", ["forward"])
