"""Several processes, started by torchrun: one voice, a stop of all.

That they compute what one computes is in scripts/test_contract.py. They talk through gloo.
"""

from unittest.mock import Mock

import pytest
from running import (
    at_call,
    left_by,
    needs_fork,
    needs_gloo,
    run_as_two,
    run_forked,
    run_together,
)

import classifier
from training.files import errors
from training.loop import processes
from training.loop.checkpoints import load_checkpoint
from training.loop.run import Run

pytestmark = [needs_gloo, needs_fork]


def test_a_refusal_of_the_first_is_that_of_all(tmp_path):
    def refuse():
        raise errors.InputError("no weights")

    def main():
        processes.join_processes(use_gpu=False)
        processes.on_main_process(refuse)

    codes, log = run_together(main, tmp_path, [])
    assert codes == [1, 1]
    assert log.count("error: no weights") == 1


def interrupted_in_the_sixth_step() -> None:
    """Classify, until Ctrl-C reaches both processes in the second epoch of four steps."""
    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, Run, "gather_gradients", 6, Mock(side_effect=KeyboardInterrupt))
        classifier.main()


def test_an_interrupted_run_goes_on(sst_line, tmp_path):
    """25 rows in batches of 8: the last batch has a single row, so one process has none."""
    line = [*sst_line, "--epochs", "3", "--batch_size", "8", "--precision", "fp32"]
    stopped = tmp_path / "stopped"
    codes, log = run_together(interrupted_in_the_sixth_step, stopped, line)
    assert codes == [1, 1]
    assert log.count(" epoch    loss   train acc") == 1  # only the first process speaks
    assert log.count("interrupted") == 1
    assert "terminate called" not in log
    states = load_checkpoint(stopped / "sst-classifier.resume")["random"]
    first, second = (state["cpu"][:8].tolist() for state in states)
    assert first != second  # their seeds; else both would drop the same units

    assert run_forked(classifier.main, stopped, [*line, "--resume"]) != 0
    log = (stopped / "log.txt").read_text()
    assert "belongs to a run with processes=2, not 1" in log

    run_as_two(classifier.main, stopped, [*line, "--resume"])
    run_as_two(classifier.main, tmp_path / "untouched", line)
    files = ("*.pt", "predictions/*")
    assert left_by(stopped, *files) == left_by(tmp_path / "untouched", *files)
