"""Several processes, started by torchrun: the same loss curve as one, one voice, nothing lost.

The processes are real ones that talk through gloo. torchrun is ``python -m torch.distributed.run``;
where it does not matter who starts them they are forked, which spares them the imports.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from factories import ROOT
from running import load_script, needs_fork, needs_gloo, run_as_two, run_forked, run_together

import classifier
import multitask_classifier
from training.files import errors
from training.loop import processes
from training.loop.checkpoints import ResumePoint, StopRequest, load_checkpoint

pytestmark = [needs_gloo, needs_fork]


def start(folder: Path, count: int, line: list[str], script: str = "classifier.py"):
    """``torchrun --nproc_per_node N script …`` in a folder."""
    folder.mkdir(exist_ok=True)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]
    return subprocess.Popen(
        [sys.executable, *launcher, str(ROOT / script), *line],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def line(model_without_dropout, tiny_data) -> list[str]:
    """25 rows in batches of 8: the last batch has a single row, so one process has none."""
    return (
        f"--only sst --option finetune --lr 3e-3 --epochs 4 --batch_size 8 --precision fp32 "
        f"--hidden_dropout_prob 0 --accumulate 2 --clip 1 --warmup 0.2 --decay "
        f"--model {model_without_dropout} --data_dir {tiny_data}"
    ).split()


@pytest.fixture(scope="module")
def runs(tmp_path_factory, line) -> dict[int, tuple[Path, str]]:
    """The same run in one, two and three processes: folder and output of each."""
    folders = {count: tmp_path_factory.mktemp(f"{count}-processes") for count in (1, 2, 3)}
    two = start(folders[2], 2, line)
    assert run_forked(classifier.main, folders[1], line) == 0
    codes, log = run_together(classifier.main, folders[3], line, count=3)
    assert codes == [0, 0, 0], log
    code, out, err = finish(two)
    assert code == 0, err
    assert "terminate called" not in err
    return {1: (folders[1], ""), 2: (folders[2], out), 3: (folders[3], log)}


def curve(folder: Path, name: str = "finetune-sst") -> list[dict]:
    return json.loads((folder / f"predictions/{name}-metrics.json").read_text())["epochs"]


@pytest.mark.parametrize("count", [2, 3])
def test_the_loss_curve_of_one(runs, count):
    """Losses, hits and dev scores of every epoch, and the trained parameters."""
    alone, together = curve(runs[1][0]), curve(runs[count][0])
    assert len(alone) == 4
    assert abs(alone[0]["loss"] - alone[-1]["loss"]) > 1e-3  # it did train
    for mine, theirs in zip(alone, together, strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], abs=1e-5)
        assert theirs["train_acc"] == mine["train_acc"]
        assert theirs["dev_acc"] == mine["dev_acc"]
    models = [
        torch.load(runs[n][0] / "sst-classifier.pt", weights_only=True)["model"] for n in (1, count)
    ]
    for name, tensor in models[0].items():
        torch.testing.assert_close(models[1][name], tensor, atol=1e-4, rtol=1e-4)


def test_only_the_first_prints_and_writes(runs):
    folder, out = runs[2]
    for once in ("processes: 2 train together", " epoch    loss   train acc", "option finetune"):
        assert out.count(once) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["predictions", "sst-classifier.pt"]


@pytest.mark.parametrize("more", ["", "--gradients pcgrad"])
def test_several_tasks_have_the_loss_curve_of_one(tmp_path, model_without_dropout, tiny_data, more):
    """A step of one task leaves the other tasks' heads without gradients, in every process.

    With PCGrad the orders that are drawn have to be the same in all.
    """
    line = (
        f"--option finetune --lr 3e-3 --epochs 2 --batch_size 8 --precision fp32 {more} "
        f"--hidden_dropout_prob 0 --model {model_without_dropout} --data_dir {tiny_data}"
    ).split()
    main = load_script("extensions/multitask.py").main if more else multitask_classifier.main
    assert run_forked(main, tmp_path / "1", line) == 0
    run_as_two(main, tmp_path / "2", line)
    alone, together = (curve(tmp_path / count, "multitask") for count in ("1", "2"))
    assert len(alone) == 2
    assert abs(alone[0]["loss"] - alone[1]["loss"]) > 1e-3
    for mine, theirs in zip(alone, together, strict=True):
        assert theirs.keys() == mine.keys() >= {"sst_loss", "para_loss", "sts_loss", "overall"}
        for name, value in mine.items():
            # a correlation of scores that hardly differ yet turns on their last digits
            far = 1e-3 if name in ("sts", "overall") else 1e-5
            assert theirs[name] == pytest.approx(value, abs=far)


def pieces() -> None:
    """Processes that use different parameters."""
    processes.join_processes(use_gpu=False)
    number = processes.rank()
    model = torch.nn.ParameterDict({name: torch.ones(2) for name in ("a", "b", "c")})
    (model["a"] * (number + 1)).sum().backward()
    if number == 1:
        model["b"].sum().backward()
    flag = processes.sum_gradients(model, number == 1)
    heard = {
        "grads": [None if p.grad is None else p.grad.tolist() for p in model.values()],
        "gathered": processes.gather((number, f"of {number}")),
        "found": processes.on_main_process(processes.rank),  # a hub may answer one of them only
        "flag": flag,
    }
    try:
        with StopRequest() as stop:
            stop.asked = number == 1
            stop.leave_if_asked(ResumePoint("x", {}))
    except errors.InputError as error:
        heard["stopped"] = str(error)
    Path(f"heard-{number}.json").write_text(json.dumps(heard))
    processes.leave_processes()


def test_the_pieces_between_two_processes(tmp_path):
    run_as_two(pieces, tmp_path, [])
    heard = [json.loads((tmp_path / f"heard-{n}.json").read_text()) for n in (0, 1)]
    assert heard[0] == heard[1]
    assert heard[0] == {
        "grads": [[3.0, 3.0], [1.0, 1.0], None],
        "gathered": [[0, "of 0"], [1, "of 1"]],
        "found": 0,
        "flag": True,
        "stopped": "stopped; --resume goes on from x",
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


def test_a_stopped_run_goes_on(tmp_path, line):
    """Ctrl-C reaches torchrun and all its processes; the resumed run ends as if untouched."""
    line = [*line, "--hidden_dropout_prob", "0.3", "--epochs", "12"]
    untouched, stopped = tmp_path / "untouched", tmp_path / "stopped"
    run = start(stopped, 2, line)
    deadline = time.monotonic() + 120
    while not (stopped / "sst-classifier.resume").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    code, _, err = finish(run)
    assert code != 0
    assert err.count("stopped; --resume goes on from sst-classifier.resume") == 1
    assert not (stopped / "predictions/finetune-sst-dev-out.csv").exists()
    states = load_checkpoint(stopped / "sst-classifier.resume")["random"]
    first, second = (state["cpu"][:8].tolist() for state in states)
    assert first != second  # their seeds; else both would drop the same units

    assert run_forked(classifier.main, stopped, [*line, "--resume"]) == 1
    log = (stopped / "log.txt").read_text()
    assert "belongs to a run with processes=2, this one has 1" in log

    run_as_two(classifier.main, stopped, [*line, "--resume"])
    run_as_two(classifier.main, untouched, line)
    for split in ("dev", "test"):
        name = f"predictions/finetune-sst-{split}-out.csv"
        assert (stopped / name).read_bytes() == (untouched / name).read_bytes()
    assert curve(stopped) == curve(untouched)
