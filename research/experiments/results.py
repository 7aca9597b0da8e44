"""What the scripts of experiments share: descriptions of runs, their results, their commands.

A run is described by a TOML, and every run's result is a line of results.jsonl. This file does not
know how anything is trained: it calls the scripts' command lines and reads what they write.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from datasets import load_data, load_pairs
from evaluation import COLUMNS
from training.cli.task_flags import multitask_files
from training.files.errors import InputError
from training.files.predictions import read_predictions
from training.files.writing import sha256_of

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "research" / "experiments"
RESULTS = FOLDER / "results.jsonl"
RUNS = FOLDER / "runs"

TASKS = ("sst", "para", "sts")
PAIR_LABELS = {"para": "is_duplicate", "sts": "similarity"}  # columns of the data files

# ---------------------------------------------------------------------------------------------
# Descriptions of runs

# train: several tasks at once; classify: sentences of one file; tag: names in sentences;
# pretrain: masked words; probe: a frozen BERT
SCRIPTS = {
    "train": "extensions/multitask.py",
    "classify": "classifier.py",
    "tag": "lessons/token_classifier.py",
    "pretrain": "pretraining/pretrain.py",
    "probe": "research/experiments/probe.py",
    "ensemble": "extensions/ensemble.py",  # of checkpoints that other runs have left
}
FAST_KINDS = ("train", "classify", "tag", "pretrain")  # every recorded run was made with --fast
# What results.jsonl keeps of a run's scores: those that tables show.
SCORES = (*TASKS, "dev_acc", "dev_f1", "mlm_loss", "mlm_acc", "nsp_acc")


@dataclass(frozen=True)
class Experiment:
    """A TOML: what is run, with which flags, for which seeds."""

    name: str
    kind: str  # of SCRIPTS
    script: str
    seeds: tuple[int, ...]
    members: tuple[str, ...]
    models: tuple[str, ...]  # folders of weights: all is run once from each
    flags: dict[str, Any]
    search: dict[str, Any]
    variants: dict[str, dict[str, Any]]  # further flags of runs that are compared with this one

    def with_variants(self) -> list[Experiment]:
        """The run itself and, as NAME-VARIANT, its variants; with models NAME-MODEL of each."""
        changed = (
            replace(self, name=f"{self.name}-{name}", flags=self.flags | flags, variants={})
            for name, flags in self.variants.items()
        )
        runs = [self, *changed]
        return [run.from_model(model) for run in runs for model in self.models] or runs

    def from_model(self, model: str) -> Experiment:
        """The run that begins with these weights, named after their folder."""
        named = f"{self.name}-{Path(model).name}"
        return replace(self, name=named, flags=self.flags | {"model": model}, models=())

    def digest(self) -> str:
        """Eight digits for the flags, and an ensemble's members: what a result was made with."""
        made_with = self.flags | ({"members": self.members} if self.kind == "ensemble" else {})
        return hashlib.sha256(json.dumps(made_with, sort_keys=True).encode()).hexdigest()[:8]


def read_experiment(path: str | Path) -> Experiment:
    """Read and check a TOML with the tables [run], [flags] and, if it has them, [search] and
    [variants.NAME].

    Raises:
        InputError: the file is missing or not a TOML, or a key is unknown or missing.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"no file {path}; research/experiments/README.md lists the TOMLs"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is not a TOML: {error}") from None
    tables = {name: content.pop(name, {}) for name in ("flags", "search", "variants")}
    run = content.pop("run", {})
    defaults = {"kind": "train", "script": "", "seeds": [], "members": [], "models": []}
    unknown = [*content, *(run.keys() - defaults.keys() - {"name"})]
    if unknown:
        names = ", ".join(sorted(unknown))
        raise InputError(f"{path}: unknown {names}; see research/experiments/README.md")
    run = defaults | run
    check_run(path, run)
    if not all(isinstance(flags, dict) for flags in tables["variants"].values()):
        raise InputError(f"{path}: a variant is a table of flags, [variants.NAME]")
    run["script"] = run["script"] or SCRIPTS[run["kind"]]
    lists = {key: tuple(run[key]) for key in ("seeds", "members", "models")}
    return Experiment(**(run | lists | tables))


def check_run(path: Path, run: dict[str, Any]) -> None:
    """Raise InputError if the table [run] lacks something or names something unknown."""
    if not isinstance(run.get("name"), str) or not run["name"]:
        raise InputError(f"{path}: [run] has no name")
    if run["kind"] not in SCRIPTS:
        raise InputError(f"{path}: kind {run['kind']!r} is not one of {', '.join(SCRIPTS)}")
    wanted = "members" if run["kind"] == "ensemble" else "seeds"
    if not run[wanted]:
        raise InputError(f"{path}: [run] has no {wanted}, which a run of kind {run['kind']} needs")
    for seed in run["seeds"]:
        if type(seed) is not int or seed < 0:
            raise InputError(f"{path}: the seed {seed!r} is not an integer from 0 on")


def as_arguments(flags: dict[str, Any]) -> list[str]:
    """Flags of a TOML as command-line arguments; true is a bare flag, false is left out."""
    arguments = []
    for name, value in flags.items():
        if value is not False:
            values = [] if value is True else value if isinstance(value, list) else [value]
            arguments += [f"--{name}", *map(expanded, values)]
    return arguments


def expanded(value: Any) -> str:
    """A value of a TOML with variables of the environment filled in; $RUNS is the folder runs."""
    return os.path.expandvars(str(value).replace("$RUNS", str(RUNS)))


def run_name(name: str, seed: int | None) -> str:
    """The name of one run, and of its folder: annealed-cross-0."""
    return name if seed is None else f"{name}-{seed}"


# ---------------------------------------------------------------------------------------------
# Files with a JSON object on each line: results.jsonl, intervals.jsonl

KEYS = {"name", "seed", "flags", "metrics", "seconds", "data"}
REMEDY = "delete that line, and run.py takes it from the run's folder again if that is there"


def load_results() -> list[dict]:
    """All results so far, in the order of the file; waits while another process adds one.

    Raises:
        InputError: a line is not a result, was cut off, or repeats a run.
    """
    return parse_results(read_locked(RESULTS))


def read_locked(path: Path) -> str:
    """A file's text, read while nobody writes; empty if there is no such file."""
    if not path.is_file():
        return ""
    with open(path, encoding="utf-8") as file:
        _lock(file.fileno(), alone=False)
        return file.read()


def _lock(file: int, alone: bool) -> None:
    """Wait for one's turn with an open file, until it is closed; not on Windows."""
    if fcntl:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)


def parse_results(text: str) -> list[dict]:
    """The lines of results.jsonl, checked; see load_results."""
    results: dict[tuple, dict] = {}
    for number, line in enumerate(text.split("\n")[: text.count("\n")], start=1):
        try:
            result = json.loads(line)
            name, seed = result["name"], result["seed"]
            if not KEYS <= result.keys():
                raise KeyError
        except (ValueError, KeyError, TypeError):
            place = f"{RESULTS}, line {number}"
            raise InputError(f"{place} is not a result: {line[:40]!r}; {REMEDY}") from None
        if (name, seed) in results:
            raise InputError(f"{RESULTS}, line {number} repeats {run_name(name, seed)}; {REMEDY}")
        results[name, seed] = result
    if text and not text.endswith("\n"):
        raise InputError(f"{RESULTS}: the last line is cut off; {REMEDY}")
    return list(results.values())


def append_result(result: dict) -> None:
    """Add a line to results.jsonl, but never behind a broken one."""
    load_results()
    append_line(RESULTS, result)


def append_line(path: Path, value: dict) -> None:
    """Add a line of JSON, whole or not at all, also while other processes add theirs.

    A disk that is full may cut a write short, which is then undone.
    """
    line = (json.dumps(value, ensure_ascii=False) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _lock(file, alone=True)
        before = os.fstat(file).st_size
        try:
            if os.write(file, line) < len(line):
                raise OSError(None, "the disk is full")
            os.fsync(file)
        except OSError as error:
            os.ftruncate(file, before)
            raise InputError(
                f"cannot write {path}: {error.strerror}; free some space and run again"
            ) from error
    finally:
        os.close(file)


# ---------------------------------------------------------------------------------------------
# Gold labels and predictions on dev


def dev_files(flags: dict[str, Any]) -> dict[str, Path]:
    """Each task's dev file, as the scripts find it with these flags."""
    files = multitask_files(flags.get("data_dir"))
    return {task: Path(flags.get(f"{task}_dev") or files[f"{task}_dev"]) for task in TASKS}


@cache
def gold(task: str, path: Path) -> tuple[list[str], np.ndarray]:
    """(ids, labels) of a dev file, in its order."""
    label = PAIR_LABELS.get(task)
    rows = load_pairs(path, "dev", label) if label else load_data(path, "dev")
    return [row[-1] for row in rows], np.array([row[-2] for row in rows], dtype=float)


def dev_predictions(folder: Path, task: str, path: Path) -> np.ndarray:
    """What the run in a folder predicted on a task's dev file, in the order of that file."""
    file = folder / f"{task}-dev-output.csv"
    predictions = read_predictions(file, COLUMNS[TASKS.index(task)])
    ids, _ = gold(task, path)
    if predictions.keys() != set(ids):
        raise InputError(f"{file} has other ids than {path}; run again")
    return np.array([predictions[key] for key in ids], dtype=float)


def fingerprints(files: dict[str, Path], tasks: Sequence[str]) -> dict[str, str]:
    """The first 12 digits of each dev file's SHA-256: results compare on the same file only."""
    return {task: sha256_of(files[task])[:12] for task in tasks}


# ---------------------------------------------------------------------------------------------
# Commands


def call(command: Sequence[str], folder: Path = ROOT) -> tuple[int, bool]:
    """Run a command in a folder: (exit status, whether a stop was asked for).

    Ctrl-C reaches the command too, which stops at the end of its step and writes its resume file;
    until it has, we wait.
    """
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        if number == signal.SIGTERM:  # which a terminal, unlike Ctrl-C, does not send to the child
            child.terminate()

    with subprocess.Popen(command, cwd=folder) as child:
        before = {sig: signal.signal(sig, ask) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            status = child.wait()
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
    return status, asked


def train_command(experiment: Experiment, seed: int, folder: Path) -> list[str]:
    """The command line of a training run that writes into ``folder``, and resumes what is there."""
    kind = experiment.kind
    where = {
        "train": ["--out_dir", str(folder), "--filepath", str(folder / "model.pt")],
        "classify": [],  # it writes into the current folder
    }.get(kind, ["--out", str(folder)])
    return [
        sys.executable,
        str(ROOT / experiment.script),
        *as_arguments(experiment.flags),
        *(["--fast"] if kind in FAST_KINDS else []),
        *("--seed", str(seed)),
        *where,
        *(["--resume"] if any(folder.glob("*.resume")) else []),
    ]


METRICS = {
    "train": "multitask-metrics.json",
    "classify": "predictions/*-metrics.json",
    "ensemble": "ensemble-metrics.json",
}


def read_metrics(folder: Path, kind: str) -> dict[str, Any]:
    """What a run's metrics.json says: scores of the best and of the last epoch, seconds, memory.

    No score on dev has chosen the last epoch. Pre-training has its curve on held-out text instead,
    and the unigram entropy it is measured against.
    """
    pattern = METRICS.get(kind, "metrics.json")
    path = next(folder.glob(pattern), folder / pattern)
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
        result = {"metrics": dict(metrics["best"]), "seconds": round(float(metrics["seconds"]), 1)}
        if kind == "pretrain":
            curve = [
                {key: row[key] for key in ("pieces", "mlm_loss")} for row in metrics["held_out"]
            ]
            return result | {"unigram_entropy": metrics["unigram_entropy"], "held_out": curve}
        if metrics.get("epochs"):
            result["last"] = metrics["epochs"][-1]
        if metrics.get("peak_mb"):
            result["peak_mb"] = metrics["peak_mb"]
        return result
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is missing or damaged ({error!r}); run again") from None


# ---------------------------------------------------------------------------------------------
# Where and from what a result comes


def commit() -> str | None:
    """The commit, with "-dirty" if any Python file differs from it; None outside git."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD").strip()
        return f"{head}-dirty" if _git("status", "--porcelain", "--", "*.py").strip() else head
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "--no-optional-locks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def origin(code: str | None, use_gpu: bool) -> dict[str, Any]:
    """What a result says of where it comes from; ``code`` is ``commit()`` when the run began."""
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime())  # UTC
    return {"commit": code, "when": when, "machine": machine(use_gpu)}


def machine(use_gpu: bool) -> str:
    """In short: processor or GPU, threads, version of torch."""
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        models = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
        name = models[0].strip() if models else name
    if use_gpu and torch.cuda.is_available():
        name = torch.cuda.get_device_name()
    return f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}"
