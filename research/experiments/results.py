"""What the scripts of experiments share: descriptions of runs, their results, their commands.

A run is described by a TOML, and every run's result is a line of results.jsonl.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from training.cli.task_flags import TaskFlags, find_files
from training.files.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "research" / "experiments"
RESULTS = FOLDER / "results.jsonl"
RUNS = FOLDER / "runs"

TASKS = ("sst", "para", "sts")

# ---------------------------------------------------------------------------------------------
# Descriptions of runs

# train: several tasks at once; classify: sentences of one file; tag: names in sentences;
# pretrain: masked words
SCRIPTS = {
    "train": "extensions.multitask",
    "classify": "classifier",
    "tag": "lessons.token_classifier",
    "pretrain": "pretraining.pretrain",
    "ensemble": "extensions.ensemble",  # of checkpoints that other runs have left
}
# What results.jsonl keeps of a run's scores: those that tables show.
SCORES = (*TASKS, "dev_acc", "dev_f1", "mlm_loss", "mlm_acc", "nsp_acc")


@dataclass(frozen=True)
class Experiment:
    """A TOML: the table [run], and those of flags and of variants."""

    name: str
    kind: str = "train"  # of SCRIPTS
    seeds: Sequence[int] = ()
    members: Sequence[str] = ()  # of an ensemble: runs
    models: Sequence[str] = ()  # folders of weights: all is run once from each
    flags: dict[str, Any] = field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)  # further flags, by name

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
    """Read and check a TOML.

    Raises:
        InputError: the file is missing or not a TOML, or a key is unknown.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        experiment = Experiment(**content.pop("run", {}), **content)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is not a TOML ({error})") from None
    except TypeError as error:  # a key that is not a field, or no name
        raise InputError(f"{path}: {error}; see research/experiments/README.md") from None
    if experiment.kind not in SCRIPTS:
        raise InputError(f"{path}: kind {experiment.kind!r} is not one of {', '.join(SCRIPTS)}")
    return experiment


def as_arguments(flags: dict[str, Any], seed: int | None = None) -> list[str]:
    """Flags of a TOML as command-line arguments; true is a bare flag, false is left out.

    Variables are filled in: $RUNS, $SEED and those of the environment.
    """
    arguments = []
    for name, value in flags.items():
        if value is not False:
            values = [] if value is True else value if isinstance(value, list) else [value]
            arguments += [f"--{name}", *map(str, values)]
    filled = (word.replace("$RUNS", str(RUNS)).replace("$SEED", str(seed)) for word in arguments)
    return [*map(os.path.expandvars, filled)]


def run_name(name: str, seed: int | None) -> str:
    """The name of one run, and of its folder: annealed-cross-0."""
    return name if seed is None else f"{name}-{seed}"


# ---------------------------------------------------------------------------------------------
# Files with a JSON object on each line: results.jsonl, example_sd.jsonl

KEYS = {"name", "seed", "flags", "metrics", "seconds", "data"}


def read_lines(path: Path) -> list[str]:
    """The lines of a file; none if there is no such file."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [line for line in text.split("\n") if line]


def append_line(path: Path, value: dict) -> None:
    """Add a line of JSON, in one call of the system: other processes may add theirs."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{json.dumps(value, ensure_ascii=False)}\n")


def load_results() -> list[dict]:
    """All results so far, in the order of the file.

    Raises:
        InputError: a line is not a result, or repeats a run.
    """
    results: dict[tuple, dict] = {}
    for number, line in enumerate(read_lines(RESULTS), start=1):
        try:
            result = json.loads(line)
            key = result["name"], result["seed"]
            if key in results or not result.keys() >= KEYS:
                raise KeyError
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{RESULTS}, line {number} is not a result, or that of a run with another line: "
                f"{line[:40]!r}; delete it and run again"
            ) from None
        results[key] = result
    return list(results.values())


def dev_files(flags: dict[str, Any]) -> dict[str, Path]:
    """Each task's dev file, as the scripts find it with these flags."""
    args = find_files(TaskFlags(data_dir=flags.get("data_dir")))
    return {t: Path(flags.get(f"{t}_dev") or getattr(args, f"{t}_dev")) for t in TASKS}


# ---------------------------------------------------------------------------------------------
# Commands


def call(command: Sequence[str], folder: Path = ROOT) -> tuple[int, bool]:
    """Run a command in a folder: (exit status, whether Ctrl-C was pressed).

    Ctrl-C reaches the command too, which stops at the end of its step and writes its resume file;
    until it has, we wait.
    """
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    with subprocess.Popen(command, cwd=folder, env=environment) as child:
        try:
            return child.wait(), False
        except KeyboardInterrupt:
            return child.wait(), True


def command_of(experiment: Experiment, seed: int | None, folder: Path) -> list[str]:
    """The command line of a run that writes into ``folder``, and resumes what is there."""
    checkpoints = [str(RUNS / member / "model.pt") for member in experiment.members]
    where = {
        "train": ["--out_dir", str(folder), "--filepath", str(folder / "model.pt")],
        "classify": [],  # it writes into the current folder
        "ensemble": ["--out_dir", str(folder)],
    }.get(experiment.kind, ["--out", str(folder)])
    return [
        sys.executable,
        "-m",
        SCRIPTS[experiment.kind],
        *checkpoints,
        *as_arguments(experiment.flags, seed),
        *(["--fast"] if experiment.kind != "ensemble" else []),  # as every recorded run
        *([] if seed is None else ["--seed", str(seed)]),
        *where,
        *(["--resume"] if any(folder.glob("*.resume")) else []),
    ]


METRICS = {
    "train": "multitask-metrics.json",
    "classify": "predictions/*-metrics.json",
    "ensemble": "ensemble-metrics.json",
}


def read_metrics(folder: Path, kind: str) -> dict[str, Any]:
    """What a run's metrics.json says: scores of the best and of the last epoch, seconds.

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
        return result
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is missing or damaged ({error!r}); run again") from None


# ---------------------------------------------------------------------------------------------
# What a result comes from


def commit() -> str | None:
    """The commit, with "-dirty" if any Python file differs from it; None outside git."""
    git = ["git", "-C", str(ROOT), "--no-optional-locks"]
    head, changed = (
        subprocess.run([*git, *words.split()], capture_output=True, text=True, check=False).stdout
        for words in ("rev-parse --short=12 HEAD", "status --porcelain -- *.py")
    )
    return head.strip() + "-dirty" * bool(changed) or None


def machine(use_gpu: bool) -> str:
    """In short: processor or GPU, threads, version of torch."""
    name = platform.processor() or platform.machine()
    if (cpus := Path("/proc/cpuinfo")).is_file():
        model = re.search(r"^model name\s*: (.*)", cpus.read_text(encoding="utf-8"), re.M)
        name = model[1] if model else name
    if use_gpu and torch.cuda.is_available():
        name = torch.cuda.get_device_name()
    return f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}"
