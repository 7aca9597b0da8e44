"""The results as Markdown tables: scores, and differences to a baseline with intervals.

    python research/experiments/report.py
    python research/experiments/report.py separate round-robin annealed-cross ensemble-cross

The first name is the baseline. Differences have the 95 % interval of a paired bootstrap
(bootstrap.py). Scores are those of each run's best epoch on dev, which flatters runs with many
epochs most; --last takes the last epoch's. results.jsonl has scores, not predictions: an interval
is computed once, where the runs' folders are, and kept in intervals.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np

from evaluation import overall
from research.experiments import bootstrap, results
from research.experiments.bootstrap import Interval
from research.experiments.results import TASKS
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError

INTERVALS = results.FOLDER / "intervals.jsonl"
TITLES = {"sst": "SST accuracy", "para": "paraphrase accuracy", "sts": "STS Pearson"}
SCORES = (*TASKS, "overall")

Seeds = tuple[int | None, ...]


@dataclass(frozen=True)
class Row:
    """All seeds of one run: seed → result, as results.jsonl has it."""

    name: str
    by_seed: Mapping[int | None, dict]

    def scores(self, epoch: str = "metrics") -> dict[str, np.ndarray]:
        """Each score that all seeds have, (S,): of the best epoch, or the "last" one."""
        scores = [result.get(epoch) or {} for result in self.by_seed.values()]
        values = {
            task: np.array([seed[task] for seed in scores])
            for task in TASKS
            if all(task in seed for seed in scores)
        }
        return values | ({"overall": overall(values)} if values.keys() == set(TASKS) else {})


def rows_of(runs: Sequence[dict]) -> dict[str, Row]:
    """Name → row, in the order of the results."""
    by_name: dict[str, dict[int | None, dict]] = {}
    for result in runs:
        by_name.setdefault(result["name"], {})[result["seed"]] = result
    return {name: Row(name, dict(sorted(runs.items()))) for name, runs in by_name.items()}


# ---------------------------------------------------------------------------------------------
# Intervals


def seeds_compared(row: Row, baseline: Row) -> tuple[Seeds, Seeds]:
    """The seeds that both ran, in pairs; all of both where there are none."""
    both = tuple(seed for seed in row.by_seed if seed in baseline.by_seed)
    return (both, both) if both else (tuple(row.by_seed), tuple(baseline.by_seed))


def read_intervals() -> dict[tuple, dict[str, Interval]]:
    """(baseline, name, seeds of both) → score → interval."""
    kept = {}
    for line in map(json.loads, results.read_lines(INTERVALS)):
        key = line["baseline"], line["name"], tuple(line["seeds"]), tuple(line["baseline_seeds"])
        kept[key] = {score: tuple(interval) for score, interval in line["scores"].items()}
    return kept


def interval_of(row: Row, baseline: Row) -> dict[str, Interval]:
    """The intervals of a row: kept ones, or computed from the runs' folders and then kept.

    Empty if there are neither.
    """
    seeds, baseline_seeds = seeds_compared(row, baseline)
    key = baseline.name, row.name, seeds, baseline_seeds
    if kept := read_intervals().get(key):
        return kept
    names = [results.run_name(row.name, seed) for seed in seeds]
    names += [results.run_name(baseline.name, seed) for seed in baseline_seeds]
    missing = [name for name in names if not (results.RUNS / name).is_dir()]
    if missing:
        print(f"note: no predictions of {', '.join(missing)}; run.py --again", file=sys.stderr)
        return {}
    files = results.dev_files({})
    ours = predictions_of(row, seeds, files)
    theirs = predictions_of(baseline, baseline_seeds, files)
    gold = {task: results.gold(task, files[task])[1] for task in ours if task in theirs}
    computed = bootstrap.intervals(ours, theirs, gold, paired=seeds == baseline_seeds)
    rounded = {score: [round(end, 5) for end in ends] for score, ends in computed.items()}
    keys = ("baseline", "name", "seeds", "baseline_seeds")
    results.append_line(INTERVALS, dict(zip(keys, key, strict=True)) | {"scores": rounded})
    return computed


def predictions_of(row: Row, seeds: Seeds, files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """The dev predictions of a row's runs: task → (S, N).

    Raises:
        InputError: a run was measured on another dev file.
    """
    predictions: dict[str, list[np.ndarray]] = {}
    for seed in seeds:
        name, data = results.run_name(row.name, seed), row.by_seed[seed]["data"]
        for task, digits in data.items():
            if digits != results.fingerprints(files, [task])[task]:
                raise InputError(
                    f"{name} was measured on another {task} dev file than {files[task]} "
                    f"(its sha256 begins {digits}); set $MINBERT_DATA"
                )
            predicted = results.dev_predictions(results.RUNS / name, task, files[task])
            predictions.setdefault(task, []).append(predicted)
    return {task: np.stack(values) for task, values in predictions.items()}


# ---------------------------------------------------------------------------------------------
# Tables


def score_table(rows: Sequence[Row], epoch: str) -> str:
    """Markdown: each row's scores, mean (standard deviation) over seeds; minutes, peak memory."""
    values = {row.name: row.scores(epoch) for row in rows}
    columns = [score for score in SCORES if any(score in scores for scores in values.values())]
    table = []
    for row in rows:
        runs, scores = row.by_seed.values(), values[row.name]
        peaks = [run.get("peak_mb") for run in runs]
        table.append(
            [row.name, len(runs)]
            + [mean_and_sd(scores[score]) if score in scores else "–" for score in columns]
            + [f"{np.mean([run['seconds'] for run in runs]) / 60:.1f}"]
            + ["–" if None in peaks else f"{max(peaks):,.0f}"]
        )
    titles = (TITLES.get(score, score) for score in columns)
    return results.markdown(["run", "seeds", *titles, "min", "MB"], table)


def mean_and_sd(values: np.ndarray) -> str:
    """A cell; a single seed has no standard deviation."""
    sd = f" ({values.std(ddof=1):.3f})" if len(values) > 1 else ""
    return f"{values.mean():.3f}{sd}"


def difference_table(base: Row, others: Sequence[Row]) -> str:
    """Markdown: each row's differences to the first one, with intervals."""
    intervals = {row.name: interval_of(row, base) for row in others}
    known = [base.scores(), *intervals.values()]
    columns = [score for score in SCORES if any(score in scores for scores in known)]
    titles = (TITLES.get(score, score) for score in columns)
    table = [
        [name, *(shown_interval(of_row.get(score)) for score in columns)]
        for name, of_row in intervals.items()
    ]
    return results.markdown([f"against {base.name}", *titles], table)


def shown_interval(interval: Interval | None) -> str:
    """A cell: the difference and its interval, and whether that includes 0."""
    if interval is None:
        return "–"
    middle, low, high = interval
    verdict = ", not resolved" if low <= 0 <= high else ""
    return f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]{verdict}"


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(
        prog="research/experiments/report.py", description="Tables of the results."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="rows in this order, the baseline first (all)")
    add("--last", action="store_true", help="scores of the last epoch instead of the best")
    return parser.parse_args()


def main() -> None:
    """Print a table of scores, and one of differences if rows are named."""
    args = get_args()
    rows = rows_of([result for result in results.load_results() if result["data"]])
    missing = [name for name in args.names if name not in rows]
    if missing or not rows:
        there = ", ".join(rows) or "none"
        raise InputError(
            f"no results of {', '.join(missing) or 'several tasks'} in {results.RESULTS}, "
            f"there are: {there}; python research/experiments/run.py TOML makes them"
        )
    ordered = [rows[name] for name in args.names or rows]
    print("\n" + score_table(ordered, "last" if args.last else "metrics"))
    if len(args.names) > 1 and not args.last:
        print("\n" + difference_table(ordered[0], ordered[1:]))
        print(
            "\nMean (standard deviation over seeds) on dev. Differences: 95 % interval of a paired"
            f" bootstrap, {bootstrap.RESAMPLES:,} resamples of examples and of the seeds that both"
            " ran; not resolved: it includes 0."
            "\nA row's runs: python research/experiments/run.py TOML --only NAME"
        )


if __name__ == "__main__":
    run_script(main)
