"""Search for hyper-parameters with Optuna, on dev alone; goes on where it was stopped.

    pip install -r requirements-search.txt
    python research/experiments/search.py research/experiments/techniques/search-sst.toml

The TOML is one of a run whose table [search] names the number of trials and, for each flag, a range
(low, high, and log = true for equal steps of its logarithm) or the choices. What is maximised is
the best epoch's overall score on dev, of the run's first seed: the best of many trials looks better
than it is, so run the winner again with other seeds before you believe it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from research.experiments import results
from research.experiments.results import Experiment
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError, Stopped


def check_ranges(experiment: Experiment) -> tuple[int, dict[str, dict]]:
    """(number of trials, flag → range) of [search].

    Raises:
        InputError: no such table, or a range is not a range.
    """
    ranges = dict(experiment.search)
    trials = ranges.pop("trials", None)
    if type(trials) is not int or trials < 1 or not ranges:
        raise InputError(f"{experiment.name}: [search] needs trials = N and a range for some flag")
    for flag, span in ranges.items():
        keys = span.keys() if isinstance(span, dict) else set()
        good = keys == {"choices"} and span["choices"]
        if {"low", "high"} <= keys <= {"low", "high", "log"}:
            good = 0 < span["low"] < span["high"] if span.get("log") else span["low"] < span["high"]
        if not good:
            raise InputError(
                f"{experiment.name}: [search] {flag} is neither {{low = …, high = …}} (with "
                f"log = true above 0) nor {{choices = […]}}"
            )
    return trials, ranges


def suggest(trial: Any, ranges: dict[str, dict]) -> dict[str, Any]:
    """Values of the searched flags for one trial; integers where both ends are."""
    values = {}
    for flag, span in ranges.items():
        if "choices" in span:
            values[flag] = trial.suggest_categorical(flag, span["choices"])
        elif type(span["low"]) is int and type(span["high"]) is int:
            values[flag] = trial.suggest_int(flag, **span)
        else:
            values[flag] = trial.suggest_float(flag, **span)
    return values


def try_once(trial: Any, experiment: Experiment, ranges: dict[str, dict]) -> float:
    """Train with one set of values: the overall score on dev."""
    import optuna

    flags = experiment.flags | suggest(trial, ranges)
    with tempfile.TemporaryDirectory() as folder:  # checkpoints of all trials would fill the disk
        command = results.train_command(
            replace(experiment, flags=flags), experiment.seeds[0], Path(folder)
        )
        status, asked = results.call(command)
        if asked:
            raise Stopped("stopped; the same command goes on with the next trial")
        if status:  # such as a loss that is not finite; its one line stands above
            raise optuna.TrialPruned
        return float(results.read_metrics(Path(folder), "train")["metrics"]["overall"])


def open_study(experiment: Experiment) -> Any:
    """The study in its file, with what earlier calls have tried."""
    import optuna

    results.RUNS.mkdir(parents=True, exist_ok=True)
    path = results.RUNS / f"search-{experiment.name}.sqlite3"
    study = optuna.create_study(
        storage=f"sqlite:///{path}",
        study_name=experiment.name,
        direction="maximize",
        load_if_exists=True,
    )
    # With the same seed again, a search that goes on would propose its first values once more.
    study.sampler = optuna.samplers.TPESampler(seed=experiment.seeds[0] + len(study.trials))
    described = json.dumps({"flags": experiment.flags, "search": _without_trials(experiment)})
    if study.user_attrs.get("described", described) != described:
        raise InputError(f"{path} is of other flags or ranges; delete it, or give another name")
    study.set_user_attr("described", described)
    return study


def _without_trials(experiment: Experiment) -> dict[str, Any]:
    return {flag: span for flag, span in experiment.search.items() if flag != "trials"}


def _line(trial: Any) -> str:
    score = "failed" if trial.value is None else f"{trial.value:.4f}"
    return f"  {score}  {' '.join(results.as_arguments(trial.params))}"


def main() -> None:
    """Run the trials that are still to come, and print the best ones."""
    parser = OneLineParser(
        prog="research/experiments/search.py", description="Search on dev with Optuna."
    )
    parser.add_argument("experiment", metavar="TOML")
    args: argparse.Namespace = parser.parse_args()
    try:
        import optuna
    except ImportError:
        raise InputError("Optuna is missing: pip install -r requirements-search.txt") from None
    experiment = results.read_experiment(args.experiment)
    if experiment.kind != "train":
        raise InputError(f"{args.experiment}: only a run of kind train can be searched")
    trials, ranges = check_ranges(experiment)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # the lines below say what it would
    study = open_study(experiment)
    over = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    done = len(study.get_trials(deepcopy=False, states=over))
    if done < trials:
        study.optimize(
            lambda trial: try_once(trial, experiment, ranges),
            n_trials=trials - done,
            callbacks=[lambda _, trial: print(_line(trial), flush=True)],
        )
    complete = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    if not complete:
        raise InputError(f"none of {trials} trials finished; the lines above say why")
    print(f"\nthe best of {len(complete)} trials, overall on dev:")
    for trial in sorted(complete, key=lambda trial: -trial.value)[:5]:
        print(_line(trial))


if __name__ == "__main__":
    run_script(main)
