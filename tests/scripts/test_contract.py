"""The contract of every script that trains; the scripts are rows of training_scripts.py.

Each learns, repeats by its seed, goes on after a kill to the same bytes, keeps the best epoch, and
computes the same in two processes, in parts, and with --fast.
"""

import csv
import json
import os
import random
import re
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from running import draw_nothing, left_by, needs_fork, run_as_two, run_forked, succeeded, written_at
from safetensors.torch import load_file
from training_scripts import SCRIPTS, WRITTEN, Script, make_files, module_of

from training.loop.checkpoints import load_checkpoint
from training.loop.run import Run

pytestmark = needs_fork


@pytest.fixture(scope="module", autouse=True)
def _no_pictures():
    """Runs draw nothing, which takes longest, and do not wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        draw_nothing(patch)
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory, tiny_data) -> Path:
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    (folder / "data").symlink_to(tiny_data)
    return folder


@pytest.fixture(scope="module", params=SCRIPTS, ids=[script.name for script in SCRIPTS])
def script(request) -> Script:
    return request.param


@pytest.fixture(scope="module")
def new_folder(tmp_path_factory, files):
    """A function: a folder to run in, with the small files; → its path."""

    def make() -> Path:
        folder = tmp_path_factory.mktemp("run")
        for file in files.iterdir():
            (folder / file.name).symlink_to(file)
        return folder

    return make


def words(script: Script, *more: str) -> list[str]:
    """The script's command line without its name, with these flags behind it."""
    return shlex.split(" ".join((script.command, *more)))[1:]


def run(script: Script, folder: Path, *more: str, last_event=None, delay: float = 0.0) -> int:
    """Run it in a forked process, to its end or an event (see ``fork``); → its exit code."""
    counted = (".resume", script.model, "metrics.json")
    return run_forked(
        module_of(script.command).main, folder, words(script, *more), last_event, delay, counted
    )


@pytest.fixture
def here(run_script_here, new_folder, tmp_path, monkeypatch):
    """A function that runs a script in this process, in a folder of its own."""
    folder = new_folder()
    monkeypatch.chdir(folder)

    def run(script: Script, *more: str) -> SimpleNamespace:
        result = run_script_here(module_of(script.command), *words(script, *more))
        return SimpleNamespace(folder=folder, out=succeeded(result).out)

    return run


@pytest.fixture(scope="module")
def with_dropout(script, new_folder) -> Path:
    """The folder of a run with dropout that nobody interrupts."""
    folder = new_folder()
    assert run(script, folder, script.dropout) == 0, (folder / "log.txt").read_text()
    return folder


@pytest.fixture(scope="module")
def plain(script, new_folder) -> SimpleNamespace:
    """What a run without dropout leaves: losses, weights, the names of its files."""
    folder = new_folder()
    assert run(script, folder) == 0, (folder / "log.txt").read_text()
    losses = losses_of(folder)
    assert len(losses) > 5
    assert max(losses) - min(losses) > 1e-2  # it did train
    (folder / "log.txt").unlink()
    weights = weights_of(script, folder)
    return SimpleNamespace(losses=losses, weights=weights, files=names_in(folder))


def names_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*")}


def losses_of(folder: Path) -> list[float]:
    """The loss of every step of a run of one data set or several."""
    tables = sorted({*folder.glob("predictions/*steps.csv"), *folder.glob("out/steps.csv")})
    return [float(row["loss"]) for table in tables for row in csv.DictReader(table.open())]


def weights_of(script: Script, folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of the model that was kept."""
    path = folder / script.model
    return load_checkpoint(path)["model"] if path.suffix == ".pt" else load_file(path)


def test_it_learns_by_heart_and_what_is_kept_predicts(script, here, run_script_here):
    result = here(script, script.learn)
    file, name, least = script.score
    best = json.loads((result.folder / file).read_text())["best"]
    assert best[name] >= least
    first, *_, last = losses_of(result.folder)
    assert last < 0.5 * first
    if script.predict:
        line = shlex.split(script.predict)
        result = succeeded(run_script_here(module_of(script.predict), *line[1:]))
    assert re.search(script.answer, result.out), result.out


def test_the_seed_decides_every_byte(script, with_dropout, here):
    """In this process after others' runs as in a fresh one; another seed gives another model."""
    folder = here(script, script.dropout).folder
    assert left_by(folder, *WRITTEN) == left_by(with_dropout, *WRITTEN)
    before = (folder / script.model).read_bytes()
    here(script, script.dropout, "--seed 5")
    assert (folder / script.model).read_bytes() != before


def test_killed_at_any_step_and_resumed_it_leaves_the_same_bytes(script, with_dropout, new_folder):
    """Killed as a file takes its place, and soon after one; other settings cannot go on from it."""
    folder, chance = new_folder(), random.Random(script.name)
    steps = len(losses_of(with_dropout))
    for more, delay, ends in (("", 0.0, signal.SIGKILL), ("--resume", 0.005, signal.SIGALRM)):
        how = {"last_event": chance.randint(2, steps), "delay": chance.random() * delay}
        code = run(script, folder, script.dropout, more, **how)  # two events a step, and more
        assert code == -ends, (folder / "log.txt").read_text()
        assert list(folder.rglob("*.resume"))
    assert run(script, folder, script.dropout, "--resume --lr 0.5") in (1, 2)
    assert "belongs to a run with lr=0.0" in (folder / "log.txt").read_text()
    code = run(script, folder, script.dropout, "--resume")
    assert code == 0, (folder / "log.txt").read_text()
    assert left_by(folder, *WRITTEN) == left_by(with_dropout, *WRITTEN)
    before = written_at(folder)
    assert run(script, folder, script.dropout, "--resume") in (1, 2)
    assert "is an earlier run's" in (folder / "log.txt").read_text()
    assert written_at(folder) == before


def test_the_best_epoch_alone_is_kept(script, here, monkeypatch):
    """Of scores 0.2, 0.6, 0.6 and 0.4 the second is the best, and the first of its equals."""
    scores, models, is_best = iter((0.2, 0.6, 0.6, 0.4)), [], Run.is_best

    def pretended(run: Run, score: float) -> bool:
        models.append({tensor.numpy().tobytes() for tensor in run.model.state_dict().values()})
        return is_best(run, next(scores))

    monkeypatch.setattr(Run, "is_best", pretended)
    folder = here(script, script.four_epochs).folder
    kept = {tensor.numpy().tobytes() for tensor in weights_of(script, folder).values()}
    assert [kept <= model for model in models] == [False, True, False, False]


@pytest.mark.parametrize("how", ["two processes", "--accumulate 3", "--fast"])
def test_it_computes_the_same(script, plain, here, new_folder, how):
    """The loss of every step, and the model that is kept."""
    if how == "two processes":
        folder = new_folder()
        said = run_as_two(module_of(script.command).main, folder, words(script))
        assert said.count("processes: 2 train together") == 1
        (folder / "log.txt").unlink()
    else:
        folder = here(script, how).folder
    assert names_in(folder) == plain.files
    assert losses_of(folder) == pytest.approx(plain.losses, rel=1e-4, abs=1e-5)
    weights = weights_of(script, folder)
    assert weights.keys() == plain.weights.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, plain.weights[name], atol=1e-4, rtol=1e-3, msg=name)
