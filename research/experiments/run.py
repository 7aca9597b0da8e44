"""Run what TOMLs describe, once for every seed, and keep the results.

    python -m research.experiments.run research/experiments/tasks/round-robin.toml
    python -m research.experiments.run research/experiments/tasks/annealed-cross.toml --seeds 0 1

A run writes into research/experiments/runs/NAME-SEED, and when it is done a line into
research/experiments/results.jsonl. Runs that have their line are skipped, and interrupted ones go
on. The runs' models are not in git: --again makes them once more.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from research.experiments import results
from research.experiments.results import Experiment, run_name
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import sha256_of

OF_TASKS = ("train", "ensemble")  # the kinds that write predictions on dev


def is_done(experiment: Experiment, seed: int | None) -> bool:
    """Whether results.jsonl has this run.

    Raises:
        InputError: it has a run of that name and seed with other flags.
    """
    name = run_name(experiment.name, seed)
    lines = {(line["name"], line["seed"]): line["flags"] for line in results.load_results()}
    flags = lines.get((experiment.name, seed))
    if flags not in (None, experiment.digest()):
        raise InputError(
            f"{name} is in {results.RESULTS.name} with other flags; give this one another "
            f"name, or delete that line and {results.RUNS / name}"
        )
    return flags is not None


def run_one(experiment: Experiment, seed: int | None, has_line: bool) -> None:
    """Run a command, and append its result if it has no line yet."""
    name = run_name(experiment.name, seed)
    folder = results.RUNS / name
    command = results.command_of(experiment, seed, folder)
    if experiment.kind in OF_TASKS:
        results.dev_files(experiment.flags)  # a missing file must show now, not after an hour
    folder.mkdir(parents=True, exist_ok=True)
    code = results.commit()  # before the run: that is the code it runs
    print(f"\n=== {name}: {' '.join(command[1:])}", flush=True)
    working_folder = folder if experiment.kind == "classify" else results.ROOT
    status, stop_asked = results.call(command, working_folder)
    if status:
        raise InputError(f"{name} ended with status {status}; the same command resumes it")
    result = {"name": experiment.name, "seed": seed, "flags": experiment.digest()}
    result |= outcome(experiment, folder)
    result |= {"commit": code, "when": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}  # UTC
    result["machine"] = results.machine(bool(experiment.flags.get("use_gpu")))
    if not has_line:
        results.append_line(results.RESULTS, result)
    if stop_asked:
        raise InputError(f"stopped after {name}; the same command resumes")


def outcome(experiment: Experiment, folder: Path) -> dict[str, Any]:
    """Scores and seconds that a run wrote, and which dev files its tasks were measured on."""
    result = results.read_metrics(folder, experiment.kind)
    for key in {"metrics", "last"} & result.keys():
        scores = result[key].items()
        result[key] = {name: round(score, 5) for name, score in scores if name in results.SCORES}
    data = {}
    if experiment.kind in OF_TASKS:
        files = results.dev_files(experiment.flags)
        tasks = [task for task in results.TASKS if task in result["metrics"]]
        data = {task: sha256_of(files[task])[:12] for task in tasks}
    return result | {"data": data}


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(description="Run what a TOML describes.")
    parser.add_argument("experiments", nargs="+", metavar="TOML")
    parser.add_argument("--seeds", nargs="+", type=int, help="only these of the TOML's seeds")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these of a TOML's variants")
    parser.add_argument(
        "--again",
        action="store_true",
        help="also those that have their line, which stays as it is: for the models they leave",
    )
    return parser.parse_args()


def main() -> None:
    """Run all that is not in results.jsonl yet."""
    args = get_args()
    experiments = {
        experiment.name: experiment
        for path in args.experiments
        for experiment in results.read_experiment(path).with_variants()
    }
    if unknown := set(args.only or ()) - experiments.keys():
        raise InputError(f"--only {', '.join(sorted(unknown))}: there are {', '.join(experiments)}")
    for name, experiment in experiments.items():
        if args.only and name not in args.only:
            continue
        # an ensemble has no seeds of its own
        seeds = [None] if experiment.kind == "ensemble" else experiment.seeds
        for seed in (seed for seed in seeds if seed is None or seed in (args.seeds or seeds)):
            has_line = is_done(experiment, seed)
            if has_line and not args.again:
                print(f"{run_name(name, seed)} is in {results.RESULTS.name} already")
            else:
                run_one(experiment, seed, has_line)


if __name__ == "__main__":
    run_script(main)
