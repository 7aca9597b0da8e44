"""On a GPU with CUDA: a run computes what the CPU computes, and goes on after Ctrl-C.

Nothing here runs without such a device. Where there is none, --use_gpu computes on the CPU: with
``pytestmark`` taken away, one can try there what the tests themselves do.
"""

import itertools

import pytest
import torch
from running import draw_nothing, left_by, succeeded

import classifier
from training.loop.checkpoints import ResumePoint
from training.loop.run import Run

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="no CUDA device here: what --use_gpu computes is not tested",
)
FILES = ("*.pt", "predictions/*.csv", "predictions/*-metrics.json")


def test_an_interrupted_run_ends_as_if_untouched(
    tiny_model_folder, tiny_data, run_script_here, monkeypatch, tmp_path
):
    """Dropout's random state on the device is resumed, too; seven steps an epoch."""
    line = "--use_gpu --only sst --option finetune --lr 1e-3 --epochs 2 --batch_size 4".split()
    line += ["--model", str(tiny_model_folder), "--data_dir", str(tiny_data)]
    draw_nothing(monkeypatch)
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (0.0,))
    (tmp_path / "untouched").mkdir()
    monkeypatch.chdir(tmp_path / "untouched")
    out = succeeded(run_script_here(classifier, *line)).out
    assert "device check: cuda computes as the CPU does" in out
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        gather, steps = Run.gather_gradients, itertools.count(1)

        def interrupted_in_the_tenth(run: Run) -> None:
            gather(run)
            if next(steps) == 10:
                raise KeyboardInterrupt

        patch.setattr(Run, "gather_gradients", interrupted_in_the_tenth)
        assert run_script_here(classifier, *line).code == 1
    assert run_script_here(classifier, *line, "--resume").code == 0
    assert left_by(tmp_path, *FILES) == left_by(tmp_path / "untouched", *FILES)
