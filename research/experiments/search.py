"""Search for hyper-parameters with Optuna, on dev alone; goes on where it was stopped.

    pip install -r requirements-search.txt
    python research/experiments/search.py research/experiments/techniques/search-sst.toml

The TOML is one of a run whose table [search] names the number of trials and, for each flag, a range
(low, high, and log = true for equal steps of its logarithm) or the choices. What is maximised is
the best epoch's overall score on dev, of the run's first seed: the best of many trials looks better
than it is, so run the winner again with other seeds before you believe it.
"""

from __future__ import annotations

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


def read_search(experiment: Experiment) -> tuple[int, dict[str, Any]]:
    """(number of trials, flag → Optuna's distribution) of [search]; integers where both ends are.

    Raises:
        InputError: no such table, or a range is not a range.
    """
    from optuna import distributions

    ranges = dict(experiment.search)
    trials = ranges.pop("trials", None)
    if type(trials) is not int or trials < 1 or not ranges:
        raise InputError(f"{experiment.name}: [search] needs trials = N and a range for some flag")
    try:
        for flag, span in ranges.items():
            kind = distributions.FloatDistribution
            if "choices" in span:
                kind = distributions.CategoricalDistribution
            elif type(span["low"]) is type(span["high"]) is int:
                kind = distributions.IntDistribution
            ranges[flag] = kind(**span)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{experiment.name}: [search] {flag} is neither {{low = …, high = …}} (with "
            f"log = true above 0) nor {{choices = […]}}: {error}"
        ) from None
    return trials, ranges


def try_once(experiment: Experiment, values: dict[str, Any]) -> float | None:
    """Train with one set of values: the overall score on dev, or None if the run failed."""
    changed = replace(experiment, flags=experiment.flags | values)
    with tempfile.TemporaryDirectory() as folder:  # checkpoints of all trials would fill the disk
        command = results.command_of(changed, experiment.seeds[0], Path(folder))
        status, stop_asked = results.call(command)
        if stop_asked:
            raise Stopped("stopped; the same command goes on with the next trial")
        if status:  # such as a loss that is not finite; its one line is above
            return None
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
    ranges = {flag: span for flag, span in experiment.search.items() if flag != "trials"}
    described = json.dumps({"flags": experiment.flags, "search": ranges})
    if study.user_attrs.get("described", described) != described:
        raise InputError(f"{path} is of other flags or ranges; delete it, or give another name")
    study.set_user_attr("described", described)
    return study


def show(score: float | None, values: dict[str, Any]) -> None:
    """Print a trial."""
    shown = "failed" if score is None else f"{score:.4f}"
    print(f"  {shown}  {' '.join(results.as_arguments(values))}", flush=True)


def main() -> None:
    """Run the trials that are still to come, and print the best ones."""
    parser = OneLineParser(
        prog="research/experiments/search.py", description="Search on dev with Optuna."
    )
    parser.add_argument("experiment", metavar="TOML")
    args = parser.parse_args()
    try:
        import optuna
    except ImportError:
        raise InputError("Optuna is missing: pip install -r requirements-search.txt") from None
    experiment = results.read_experiment(args.experiment)
    if experiment.kind != "train":
        raise InputError(f"{args.experiment}: only a run of kind train can be searched")
    trials, ranges = read_search(experiment)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # the lines below say what it would
    study, states = open_study(experiment), optuna.trial.TrialState
    over = study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
    for _ in range(len(over), trials):
        trial = study.ask(ranges)
        score = try_once(experiment, trial.params)
        study.tell(trial, score, states.PRUNED if score is None else states.COMPLETE)
        show(score, trial.params)
    complete = study.get_trials(states=(states.COMPLETE,))
    if not complete:
        raise InputError(f"none of {trials} trials finished; the lines above say why")
    print(f"\nthe best of {len(complete)} trials, overall on dev:")
    for trial in sorted(complete, key=lambda trial: -trial.value)[:5]:
        show(trial.value, trial.params)


if __name__ == "__main__":
    run_script(main)
