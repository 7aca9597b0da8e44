"""What run.py, report.py and search.py share: descriptions of runs, their results, commands.

A run is described by a TOML, and every run's result is a line of results.jsonl. This file does not
know how anything is trained: it calls the scripts' command lines and reads what they write.
"""

from __future__ import annotations

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

import torch

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from datasets import load_data, load_pairs
from multitask_classifier import TASKS
from training.files.course_files import multitask_files
from training.files.errors import InputError
from training.files.predictions import read_predictions
from training.files.writing import sha256_of
from training.loop.batches import SINGLE

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "research" / "experiments"
RESULTS = FOLDER / "results.jsonl"
RUNS = FOLDER / "runs"

SCORES = (*TASKS, "overall")

# ---------------------------------------------------------------------------------------------
# Descriptions of runs

# train: several tasks at once; classify: sentences of one file; tag: names in sentences;
# pretrain: masked words; probe: a frozen BERT; stability: what makes runs on few labels differ
SCRIPTS = {
    "train": "extensions/multitask.py",
    "classify": "classifier.py",
    "tag": "lessons/token_classifier.py",
    "pretrain": "pretraining/pretrain.py",
    "probe": "research/experiments/probe.py",
    "stability": "research/experiments/stability.py",
}
KINDS = (*SCRIPTS, "ensemble", "joined")


@dataclass(frozen=True)
class Experiment:
    """A TOML: what is run, with which flags, for which seeds."""

    name: str
    kind: str  # of SCRIPTS; ensemble of checkpoints; joined: single-task runs reported as one row
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


def read_experiment(path: str | Path) -> Experiment:
    """Read and check a TOML with the tables [run], [flags] and, if it has them, [search] and
    [variants.NAME].

    Raises:
        InputError: not there, no TOML, an unknown or missing key.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no file {path}; the runs are the .toml files in experiments/") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is no TOML: {error}") from None
    run, flags = content.pop("run", {}), content.pop("flags", {})
    search, variants = content.pop("search", {}), content.pop("variants", {})
    defaults = {"kind": "train", "script": "", "seeds": [], "members": [], "models": []}
    unknown = [*content, *(run.keys() - defaults.keys() - {"name"})]
    if unknown:
        raise InputError(
            f"{path}: unknown {', '.join(sorted(unknown))}; see research/experiments/README.md"
        )
    run = defaults | run
    if not isinstance(run.get("name"), str) or not run["name"]:
        raise InputError(f"{path}: [run] has no name")
    if run["kind"] not in KINDS:
        raise InputError(f"{path}: kind {run['kind']!r} is none of {', '.join(KINDS)}")
    run["script"] = run["script"] or SCRIPTS.get(run["kind"], SCRIPTS["train"])
    wanted = "seeds" if run["kind"] in SCRIPTS else "members"
    if not run[wanted]:
        raise InputError(f"{path}: [run] has no {wanted}, which a run of kind {run['kind']} needs")
    for seed in run["seeds"]:
        if type(seed) is not int or seed < 0:
            raise InputError(f"{path}: the seed {seed!r} is no integer from 0 on")
    lists = {key: tuple(run[key]) for key in ("seeds", "members", "models")}
    if not all(isinstance(more, dict) for more in variants.values()):
        raise InputError(f"{path}: a variant is a table of flags, [variants.NAME]")
    return Experiment(**(run | lists), flags=flags, search=search, variants=variants)


def as_arguments(flags: dict[str, Any]) -> list[str]:
    """Flags of a TOML as they stand on a command line; true is a bare flag, false is left out.

    $MINBERT_DATA and other variables of the environment may stand in a value, and $RUNS.
    """
    arguments = []
    for name, value in flags.items():
        if value is not False:
            values = [] if value is True else value if isinstance(value, list) else [value]
            arguments += [f"--{name}", *map(expanded, values)]
    return arguments


def expanded(value: Any) -> str:
    """A value of a TOML with its variables filled in; $RUNS is research/experiments/runs."""
    return os.path.expandvars(str(value).replace("$RUNS", str(RUNS)))


def run_name(name: str, seed: int | None) -> str:
    """The name of one run, and of its folder: annealed-cross-0."""
    return name if seed is None else f"{name}-{seed}"


# ---------------------------------------------------------------------------------------------
# results.jsonl


KEYS = {"name", "seed", "flags", "metrics", "seconds", "data", "dev"}
REMEDY = "delete that line, and run.py takes it from the run's folder again if that is there"


def load_results() -> list[dict]:
    """All results so far, one a line; waits while another process adds one.

    Raises:
        InputError: a line that is no result, such as a last one that was cut off, or a second
            one of the same run.
    """
    if not RESULTS.is_file():
        return []
    with open(RESULTS, encoding="utf-8") as file:
        _lock(file.fileno(), alone=False)
        return parse_results(file.read())


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
            raise InputError(
                f"{RESULTS}, line {number} is no result: {line[:40]!r}; {REMEDY}"
            ) from None
        if (name, seed) in results:
            raise InputError(f"{RESULTS}, line {number} repeats {run_name(name, seed)}; {REMEDY}")
        results[name, seed] = result
    if text and not text.endswith("\n"):
        raise InputError(f"{RESULTS}: the last line is cut off; {REMEDY}")
    return list(results.values())


def append_result(result: dict) -> None:
    """Add a line, whole or not at all, also while other processes add theirs.

    Where the disk is full a write can come out short, and is then taken back.
    """
    line = (json.dumps(result, ensure_ascii=False) + "\n").encode()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(RESULTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _lock(file, alone=True)
        parse_results(RESULTS.read_text(encoding="utf-8"))  # none goes behind a broken line
        before = os.fstat(file).st_size
        try:
            if os.write(file, line) < len(line):
                raise OSError(None, "no room")
            os.fsync(file)
        except OSError as error:
            os.ftruncate(file, before)
            raise InputError(
                f"cannot write {RESULTS}: {error.strerror}; make room and run again"
            ) from error
    finally:
        os.close(file)


# ---------------------------------------------------------------------------------------------
# Gold labels and predictions on dev


def dev_files(flags: dict[str, Any]) -> dict[str, Path]:
    """Each task's dev file, as the scripts find it with these flags."""
    found = multitask_files(flags.get("data_dir"))
    return {task: Path(flags.get(f"{task}_dev") or found[f"{task}_dev"]) for task in TASKS}


@cache
def gold(task: str, path: Path) -> tuple[list[str], list[float]]:
    """(ids, labels) of a dev file, in its order."""
    kind = TASKS[task]
    single = kind.keys == SINGLE
    rows = load_data(path, "dev") if single else load_pairs(path, "dev", kind.label)
    return [row[-1] for row in rows], [row[-2] for row in rows]


def dev_predictions(folder: Path, files: dict[str, Path], tasks: Sequence[str]) -> dict[str, Any]:
    """What a run predicted on dev, short enough for a line: digits, or numbers with 3 decimals.

    Values stand in the order of the data file, whose ids go without saying.
    """
    found: dict[str, Any] = {}
    for task in tasks:
        path = folder / f"{task}-dev-output.csv"
        predicted = read_predictions(path, TASKS[task].column)
        ids, _ = gold(task, files[task])
        if predicted.keys() != set(ids):
            raise InputError(f"{path} has other ids than {files[task]}; run again")
        values = [predicted[key] for key in ids]
        if TASKS[task].classes:
            found[task] = "".join(str(int(value)) for value in values)
        else:
            found[task] = [round(value, 3) for value in values]
    return found


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
    """The command line of a training run that writes into ``folder``, and goes on where it was."""
    kind = experiment.kind
    where = {
        "train": ["--out_dir", str(folder), "--filepath", str(folder / "model.pt")],
        "classify": [],  # it writes into the current folder
    }.get(kind, ["--out", str(folder)])
    return [
        sys.executable,
        str(ROOT / experiment.script),
        *as_arguments(experiment.flags),
        *("--seed", str(seed)),
        *where,
        *(["--resume"] if any(folder.glob("*.resume")) else []),
    ]


METRICS = {
    "train": "multitask-metrics.json",
    "classify": "predictions/*-metrics.json",
    "tag": "metrics.json",
    "pretrain": "metrics.json",
    "probe": "metrics.json",
    "stability": "metrics.json",
    "ensemble": "ensemble-metrics.json",
}


def read_metrics(folder: Path, kind: str) -> dict:
    """What a run's metrics.json says: best (a row of scores), seconds, and peak_mb if it does.

    Also the last epoch's row, which no score on dev has chosen. That of pre-training has the curve
    on held-out text instead, and what it is measured against.
    """
    path = next(folder.glob(METRICS[kind]), folder / METRICS[kind])
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
        found = {"best": dict(metrics["best"]), "seconds": float(metrics["seconds"])}
        if kind == "pretrain":
            return found | {key: metrics.get(key) for key in ("unigram_entropy", "held_out")}
        last = metrics["epochs"][-1] if metrics.get("epochs") else None
        return found | {"last": last, "peak_mb": metrics.get("peak_mb")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is missing or damaged ({error!r}); run again") from None


# ---------------------------------------------------------------------------------------------
# Where and from what a result comes


def commit() -> tuple[str | None, bool]:
    """(the commit, whether any Python file differs from it); (None, False) outside git."""
    try:
        head = _git("rev-parse", "HEAD").strip()
        return head, bool(_git("status", "--porcelain", "--", "*.py").strip())
    except (OSError, subprocess.CalledProcessError):
        return None, False


def origin(code: tuple[str | None, bool], use_gpu: bool) -> dict[str, Any]:
    """What a result says of where it comes from.

    Args:
        code: ``commit()`` as it was when the run began.
    """
    head, dirty = code
    return {"commit": head, "dirty": dirty, "when": now(), "machine": machine(use_gpu)}


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "--no-optional-locks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


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


def now() -> str:
    """The time in UTC: 2026-01-31 12:00."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime())
