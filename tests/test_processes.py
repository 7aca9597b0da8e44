"""Several processes, started by torchrun: what they tell each other, one voice, a stop of all.

That they compute what one computes is in scripts/test_contract.py. They talk through gloo.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from factories import ROOT
from running import left_by, needs_fork, needs_gloo, run_as_two, run_forked, run_together

import classifier
from training.files import errors
from training.loop import processes
from training.loop.checkpoints import load_checkpoint

pytestmark = [needs_gloo, needs_fork]


def messages() -> None:
    """Processes that use different parameters."""
    processes.join_processes(use_gpu=False)
    number = processes.rank()
    model = torch.nn.ParameterDict({name: torch.ones(2) for name in ("a", "b", "c")})
    (model["a"] * (number + 1)).sum().backward()
    if number == 1:
        model["b"].sum().backward()
    processes.sum_gradients(model)
    heard = {
        "grads": [None if p.grad is None else p.grad.tolist() for p in model.values()],
        "gathered": processes.gather((number, f"of {number}")),
        "found": processes.on_main_process(processes.rank),  # a hub may answer one of them only
    }
    Path(f"heard-{number}.json").write_text(json.dumps(heard))
    processes.leave_processes()


def test_gradients_and_plain_values_between_two_processes(tmp_path):
    run_as_two(messages, tmp_path, [])
    heard = [json.loads((tmp_path / f"heard-{n}.json").read_text()) for n in (0, 1)]
    assert heard[0] == heard[1]
    assert heard[0] == {
        "grads": [[3.0, 3.0], [1.0, 1.0], None],
        "gathered": [[0, "of 0"], [1, "of 1"]],
        "found": 0,
    }


def test_a_refusal_of_the_first_is_that_of_all(tmp_path):
    def refuse():
        raise errors.InputError("no weights")

    def main():
        processes.join_processes(use_gpu=False)
        processes.on_main_process(refuse)

    codes, log = run_together(main, tmp_path, [])
    assert codes == [1, 1]
    assert log.count("error: no weights") == 1


def test_a_stopped_run_goes_on(model_without_dropout, tiny_data, tmp_path):
    """Ctrl-C reaches torchrun and all its processes; the resumed run ends as if untouched.

    25 rows in batches of 8: the last batch has a single row, so one process has none.
    """
    line = (
        f"--only sst --option finetune --lr 3e-3 --epochs 12 --model {model_without_dropout} "
        f"--precision fp32 --data_dir {tiny_data}"
    ).split()
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    launcher = "-m torch.distributed.run --standalone --nproc_per_node 2".split()
    run = subprocess.Popen(
        [sys.executable, *launcher, str(ROOT / "classifier.py"), *line],
        cwd=stopped,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (stopped / "sst-classifier.resume").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=300)
    assert run.returncode != 0
    assert out.count(" epoch    loss   train acc") == 1  # only the first process speaks
    assert err.count("stopped; --resume goes on from sst-classifier.resume") == 1
    assert "terminate called" not in err
    states = load_checkpoint(stopped / "sst-classifier.resume")["random"]
    first, second = (state["cpu"][:8].tolist() for state in states)
    assert first != second  # their seeds; else both would drop the same units

    assert run_forked(classifier.main, stopped, [*line, "--resume"]) != 0
    log = (stopped / "log.txt").read_text()
    assert "belongs to a run with processes=2, this one has 1" in log

    run_as_two(classifier.main, stopped, [*line, "--resume"])
    run_as_two(classifier.main, tmp_path / "untouched", line)
    files = ("*.pt", "predictions/*")
    assert left_by(stopped, *files) == left_by(tmp_path / "untouched", *files)
