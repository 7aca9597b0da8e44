"""Run what TOMLs describe, once for every seed, and keep the results.

    python research/experiments/run.py research/experiments/tasks/round-robin.toml
    python research/experiments/run.py research/experiments/tasks/annealed-cross.toml --seeds 0 1

A run writes into research/experiments/runs/NAME-SEED, and when it is done a line into
research/experiments/results.jsonl. Runs that have their line are skipped, and interrupted ones go
on. The runs' models are not in git: --again makes them once more.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from research.experiments import results
from research.experiments.results import Experiment, as_arguments, run_name
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_json

AGAIN = "(a run that has its line already wants --again)"
OF_TASKS = ("train", "ensemble")  # the kinds that write predictions on dev


def seeds_of(experiment: Experiment, only: list[int] | None) -> list[int | None]:
    """The seeds to run; an ensemble has none of its own."""
    if experiment.kind == "ensemble":
        return [None]
    return [seed for seed in experiment.seeds if only is None or seed in only]


def is_done(experiment: Experiment, seed: int | None) -> bool:
    """Whether results.jsonl has this run.

    Raises:
        InputError: it has a run of that name and seed with other flags.
    """
    name = run_name(experiment.name, seed)
    for result in results.load_results():
        if (result["name"], result["seed"]) != (experiment.name, seed):
            continue
        if result["flags"] != experiment.digest():
            raise InputError(
                f"{name} is in {results.RESULTS.name} with other flags; give this one another "
                f"name, or delete that line and {results.RUNS / name}"
            )
        return True
    return False


def command_of(experiment: Experiment, seed: int | None, folder: Path) -> list[str]:
    """The command line of one run."""
    if experiment.kind != "ensemble":
        return results.train_command(experiment, seed, folder)
    checkpoints = [results.RUNS / member / "model.pt" for member in experiment.members]
    missing = [path.parent.name for path in checkpoints if not path.is_file()]
    if missing:
        needed = f"{experiment.name} needs the runs {', '.join(missing)}; run these first"
        raise InputError(f"{needed} {AGAIN}")
    script, flags = str(results.ROOT / experiment.script), as_arguments(experiment.flags)
    return [sys.executable, script, *map(str, checkpoints), *flags, "--out_dir", str(folder)]


def run_one(experiment: Experiment, seed: int | None, has_line: bool) -> None:
    """Run a command; keep its result in its folder, and append it if it has no line yet."""
    name = run_name(experiment.name, seed)
    folder = results.RUNS / name
    check_earlier_runs(experiment, name)
    command = command_of(experiment, seed, folder)
    if experiment.kind in OF_TASKS:
        results.dev_files(experiment.flags)  # a missing file must show now, not after an hour
    folder.mkdir(parents=True, exist_ok=True)
    code = results.commit()  # before the run: that is the code it runs
    print(f"\n=== {name}: {' '.join(command[1:])}", flush=True)
    working_folder = folder if experiment.kind == "classify" else results.ROOT
    status, asked = results.call(command, working_folder)
    if status:
        raise InputError(f"{name} ended with status {status}; the same command goes on with it")
    result = {"name": experiment.name, "seed": seed, "flags": experiment.digest()}
    result |= outcome(experiment, folder)
    result |= results.origin(code, bool(experiment.flags.get("use_gpu")))
    write_json(folder / "result.json", result)
    if not has_line:
        results.append_result(result)
    if asked:
        raise InputError(f"stopped after {name}; the same command goes on")


def check_earlier_runs(experiment: Experiment, name: str) -> None:
    """Raise InputError if the run begins with files of an earlier run that are not there."""
    for value in experiment.flags.values():
        if str(value).startswith("$RUNS/") and not (path := Path(results.expanded(value))).exists():
            raise InputError(
                f"{name} reads {path}, which is not there; research/experiments/README.md says "
                f"what makes it {AGAIN}"
            )


def outcome(experiment: Experiment, folder: Path) -> dict[str, Any]:
    """Scores and seconds that a run wrote, and which dev files its tasks were measured on."""
    result = results.read_metrics(folder, experiment.kind)
    for key in {"metrics", "last"} & result.keys():
        result[key] = scores_of(result[key])
    files, tasks = {}, []
    if experiment.kind in OF_TASKS:
        tasks = [task for task in results.TASKS if task in result["metrics"]]
        files = results.dev_files(experiment.flags)
        for task in tasks:
            results.dev_predictions(folder, task, files[task])  # must be of these files
    return result | {"data": results.fingerprints(files, tasks)}


def scores_of(row: dict[str, Any]) -> dict[str, float]:
    """The scores that tables show, to five decimals."""
    return {key: round(row[key], 5) for key in results.SCORES if key in row}


def kept_result(experiment: Experiment, seed: int | None) -> dict | None:
    """The result in the run's folder, if it is of this run: its line was lost, the work is not."""
    path = results.RUNS / run_name(experiment.name, seed) / "result.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if result.get("flags") == experiment.digest() else None


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(
        prog="research/experiments/run.py", description="Run what a TOML describes."
    )
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
    experiments = [
        experiment
        for path in args.experiments
        for experiment in results.read_experiment(path).with_variants()
    ]
    names = [one.name for one in experiments]
    for name in args.only or ():
        if name not in names:
            raise InputError(f"--only {name}: there are {', '.join(names)}")
    for experiment in experiments:
        if args.only and experiment.name not in args.only:
            continue
        for seed in seeds_of(experiment, args.seeds):
            has_line = is_done(experiment, seed)
            if has_line and not args.again:
                print(f"{run_name(experiment.name, seed)} is in {results.RESULTS.name} already")
            elif not has_line and (kept := kept_result(experiment, seed)):
                results.append_result(kept)
                print(f"{run_name(experiment.name, seed)}: took the result in its folder")
            else:
                run_one(experiment, seed, has_line)


if __name__ == "__main__":
    run_script(main)
