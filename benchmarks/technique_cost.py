"""What a technique costs: the time of its training steps, beside those of the plain run.

    python benchmarks/technique_cost.py experiments/on-sst.toml
    python benchmarks/technique_cost.py experiments/on-three.toml --baseline on-three-sum

Each variant of a TOML of experiments/ and its baseline run in turns, a process each, with a share
of their steps and a few dev rows: minutes in experiments/results.jsonl are whole runs at different
times of day, and on a shared machine say little. Prints a Markdown table: the median of the ratios
of neighbouring runs, the smallest and the largest. Data preparation and the last evaluation are in
the time of both.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments import results
from experiments.results import Experiment
from utils import InputError, OneLineParser, positive_int, run_script

DEV_ROWS = 16


def shortened(flags: dict[str, Any], share: int, folder: Path) -> dict[str, Any]:
    """The same flags with 1/share of the steps, and dev files of DEV_ROWS rows in ``folder``."""
    if "steps_per_epoch" not in flags:
        raise InputError("a TOML without steps_per_epoch cannot be shortened; set it there")
    fewer = dict(flags, steps_per_epoch=max(1, flags["steps_per_epoch"] // share))
    for task, path in results.dev_files(flags).items():
        short = folder / f"{task}-dev.csv"
        if path.is_file() and not short.is_file():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            short.write_text("".join(lines[: DEV_ROWS + 1]), encoding="utf-8")
        fewer[f"{task}_dev"] = str(short)
    return fewer


def seconds(experiment: Experiment, share: int, folder: Path) -> float:
    """Seconds of one shortened run, as it counts them itself: from the first step on."""
    out = Path(tempfile.mkdtemp(dir=folder))
    command = results.train_command(
        experiment.script, shortened(experiment.flags, share, folder), 0, out
    )
    status, asked = results.call(command)
    if status or asked:
        raise InputError(f"{experiment.name} ended with status {status}; see above")
    return results.read_metrics(out)["seconds"]


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
        folder = Path(name)
        for chosen in (one for one in args.only or runs if one != baseline):
            ratios = []
            for _ in range(args.repeats):
                plain = seconds(runs[baseline], args.share, folder)
                ratios.append(seconds(runs[chosen], args.share, folder) / plain)
            table.append(
                f"| {chosen} | {median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
            )
            print(table[-1], flush=True)
    print("\n".join(table))


if __name__ == "__main__":
    run_script(main)
