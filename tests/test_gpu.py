"""On a GPU with CUDA: a run computes what the CPU computes, and goes on after Ctrl-C.

Nothing here runs without such a device. Where there is none, --use_gpu computes on the CPU: with
``pytestmark`` taken away, one can try there what the tests themselves do.
"""

from unittest.mock import Mock

import pytest
import torch
from running import at_call, left_by, succeeded

import classifier
from training.loop.run import Run

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="no CUDA device here: what --use_gpu computes is not tested",
)
FILES = ("*.pt", "predictions/*.csv", "predictions/*-metrics.json")


def test_an_interrupted_run_ends_as_if_untouched(
    resumable, sst_line, run_script_here, monkeypatch, tmp_path
):
    """Dropout's random state on the device is resumed, too; seven steps an epoch."""
    line = (*sst_line, "--epochs", "2", "--use_gpu")
    (tmp_path / "untouched").mkdir()
    monkeypatch.chdir(tmp_path / "untouched")
    out = succeeded(run_script_here(classifier, *line)).out
    assert "device check: cuda computes as the CPU does" in out
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        at_call(patch, Run, "gather_gradients", 10, Mock(side_effect=KeyboardInterrupt))
        assert run_script_here(classifier, *line).code == 1
    assert run_script_here(classifier, *line, "--resume").code == 0
    assert left_by(tmp_path, *FILES) == left_by(tmp_path / "untouched", *FILES)
