"""What a technique costs: the time of its training steps, beside those of the plain run.

    python research/benchmarks/technique_cost.py research/experiments/on-sst.toml
    python research/benchmarks/technique_cost.py research/experiments/on-three.toml --baseline on-three-sum

Each variant of a TOML of experiments/ and its baseline run in turns, a process each, with a share
of their steps and a few dev rows: minutes in research/experiments/results.jsonl are whole runs at different
times of day, and on a shared machine say little. Prints a Markdown table: the median of the ratios
of neighbouring runs, the smallest and the largest. Evaluating on the few rows and writing
checkpoints are in the time of both: let $TMPDIR be a folder in memory where the disk is slow.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from research.experiments import results
from research.experiments.results import Experiment
from training.cli.arguments import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError

DEV_ROWS = 16


def shortened(experiment: Experiment, share: int, folder: Path) -> Experiment:
    """The same run with 1/share of the steps, and dev files of DEV_ROWS rows in ``folder``."""
    flags = dict(experiment.flags)
    if "steps_per_epoch" not in flags:
        raise InputError("a TOML without steps_per_epoch cannot be shortened; set it there")
    flags["steps_per_epoch"] = max(1, flags["steps_per_epoch"] // share)
    found = {f"{task}_dev": path for task, path in results.dev_files(flags).items()}
    found |= {name: Path(value) for name, value in flags.items() if name.endswith("_dev")}
    for name, path in found.items():
        if (results.ROOT / path).is_file():  # others' absence is the script's to report
            lines = (results.ROOT / path).read_text(encoding="utf-8").splitlines(keepends=True)
            short = folder / f"{experiment.name}-{name}.csv"
            short.write_text("".join(lines[: DEV_ROWS + 1]), encoding="utf-8")
            flags[name] = str(short)
    return replace(experiment, flags=flags)


def seconds(experiment: Experiment) -> float:
    """Seconds of a run, as it counts them itself: from the first step on."""
    with tempfile.TemporaryDirectory() as name:  # a checkpoint each: not to be kept until the end
        command = results.train_command(experiment.script, experiment.flags, 0, Path(name))
        status, asked = results.call(command)
        if status or asked:
            raise InputError(f"{experiment.name} ended with status {status}; see above")
        return results.read_metrics(Path(name))["seconds"]


def main() -> None:
    """Run all variants in turns with the baseline and print the table."""
    parser = OneLineParser(description="The time of each technique, beside the plain run.")
    parser.add_argument("experiment", metavar="TOML")
    parser.add_argument("--baseline", metavar="NAME", help="default: the TOML's own run")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these variants")
    parser.add_argument("--share", type=positive_int, default=5, help="1/SHARE of the steps")
    parser.add_argument("--repeats", type=positive_int, default=3)
    args = parser.parse_args()
    runs = {one.name: one for one in results.read_experiment(args.experiment).with_variants()}
    baseline = args.baseline or next(iter(runs))
    for name in (baseline, *(args.only or ())):
        if name not in runs:
            raise InputError(f"there is no {name} in {args.experiment}; it has {', '.join(runs)}")
    table = [f"| run | times {baseline} | smallest to largest |", "|---|--:|--:|"]
    with tempfile.TemporaryDirectory() as name:
        runs = {one: shortened(run, args.share, Path(name)) for one, run in runs.items()}
        for chosen in (one for one in args.only or runs if one != baseline):
            ratios = []
            for _ in range(args.repeats):
                plain = seconds(runs[baseline])
                ratios.append(seconds(runs[chosen]) / plain)
            table.append(
                f"| {chosen} | {median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
            )
            print(table[-1], flush=True)
    print("\n".join(table))


if __name__ == "__main__":
    run_script(main)
