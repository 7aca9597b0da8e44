"""The results as Markdown tables: scores, and differences to a baseline with intervals.

    python -m research.experiments.report again-sst again-sst-double again-sst-smart
    python -m research.experiments.report steps steps-rotary

The first name is the baseline. Scores are those of the epoch that dev chose, which flatters runs
with many epochs, and those of the last one. Differences have 95 % intervals.
How much a difference varies with the dev examples is in example_sd.jsonl for the runs of several
tasks up to version 1.9; all other intervals are over seeds alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from evaluation import overall
from research.experiments import results
from research.experiments.results import TASKS
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError

EXAMPLE_SD = results.FOLDER / "example_sd.jsonl"
EPOCHS = {"metrics": "", "last": ", last epoch"}  # of which scores are shown, and their titles
TITLES = {"sst": "SST accuracy", "para": "paraphrase accuracy", "sts": "STS Pearson"}
TITLES |= {"dev_acc": "accuracy", "dev_f1": "F1", "mlm_loss": "held-out loss"}
SCORES = (*TASKS, "overall", "dev_acc", "dev_f1", "mlm_loss", "grammar")

COLUMNS = {  # headings, in their order: of which score and epoch
    TITLES.get(score, score) + of_which: (score, epoch)
    for score in SCORES
    for epoch, of_which in EPOCHS.items()
}
LEVEL = 0.95
Interval = tuple[float, float, float]  # difference, lower end, upper end


@dataclass(frozen=True)
class Row:
    """All seeds of one run: seed → result, as results.jsonl has it."""

    name: str
    by_seed: Mapping[int | None, dict]

    def scores(self) -> dict[str, np.ndarray]:
        """By the headings of COLUMNS, each score that all seeds have, (S,)."""
        of_epochs = {}
        for epoch in EPOCHS:
            seeds = [result.get(epoch) or {} for result in self.by_seed.values()]
            shared = set.intersection(*map(set, seeds))
            scores = {name: np.array([seed[name] for seed in seeds]) for name in shared}
            if shared >= set(TASKS):
                scores["overall"] = overall({task: scores[task] for task in TASKS})
            of_epochs[epoch] = scores
        return {
            heading: of_epochs[epoch][score]
            for heading, (score, epoch) in COLUMNS.items()
            if score in of_epochs[epoch]
        }


def rows_of(runs: Sequence[dict]) -> dict[str, Row]:
    """Name → row, in the order of the results."""
    by_name: dict[str, dict[int | None, dict]] = {}
    for result in runs:
        by_name.setdefault(result["name"], {})[result["seed"]] = result
    return {name: Row(name, dict(sorted(runs.items()))) for name, runs in by_name.items()}


# ---------------------------------------------------------------------------------------------
# Intervals


def interval(values: np.ndarray, variance: float) -> Interval:
    """The mean of S numbers, one a seed, and its interval; without ends for fewer than two.

    The variance of the mean is that over seeds plus that over dev examples, as in an analysis of
    variance with two crossed factors; the degrees of freedom are Satterthwaite's (1946).

    Args:
        values: (S,), such as differences of two runs with the same seeds.
        variance: of the mean over the dev examples, seeds aside.
    """
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return mean, -np.inf, np.inf
    over_seeds = values.var(ddof=1) / count
    total = over_seeds + variance
    freedom = total**2 / over_seeds**2 * (count - 1) if over_seeds > 0 else np.inf
    half = float(student_t.ppf((1 + LEVEL) / 2, freedom) * total**0.5)
    return mean, mean - half, mean + half


def read_example_sds() -> dict[tuple, dict[str, float]]:
    """(baseline, name, seeds) → score → standard deviation over examples."""
    lines = map(json.loads, results.read_lines(EXAMPLE_SD))
    return {(x["baseline"], x["name"], *x["seeds"]): x["example_sd"] for x in lines}


def intervals_of(row: Row, baseline: Row) -> dict[str, Interval]:
    """By their headings, the differences with intervals, over the seeds that both ran.

    Where they share none, it is the difference of both means, without an interval.
    """
    seeds = [seed for seed in row.by_seed if seed in baseline.by_seed]
    sds = read_example_sds().get((baseline.name, row.name, *seeds), {})
    ours, theirs = (
        Row(side.name, {s: side.by_seed[s] for s in seeds or side.by_seed}).scores()
        for side in (row, baseline)
    )
    return {
        heading: interval(ours[heading] - theirs[heading], sds.get(COLUMNS[heading][0], 0.0) ** 2)
        if seeds
        else (float(ours[heading].mean() - theirs[heading].mean()), -np.inf, np.inf)
        for heading in COLUMNS
        if heading in ours and heading in theirs
    }


# ---------------------------------------------------------------------------------------------
# Tables


def markdown(headings: Iterable[str], rows: Sequence[Mapping[str, object]]) -> str:
    """A table in Markdown of rows' cells by their headings, without those that no row has."""
    header = [heading for heading in headings if any(heading in row for row in rows)]
    cells = [[row.get(heading, "–") for heading in header] for row in rows]
    lines = [header, ["---"] * len(header), *cells]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def score_table(rows: Sequence[Row]) -> str:
    """Markdown: each row's scores, mean (standard deviation) over seeds; minutes."""
    table = []
    for row in rows:
        runs = row.by_seed.values()
        scores = {heading: mean_and_sd(values) for heading, values in row.scores().items()}
        minutes = np.mean([run["seconds"] for run in runs]) / 60
        table.append({"run": row.name, "seeds": len(runs), **scores, "min": f"{minutes:.1f}"})
    return markdown(["run", "seeds", *COLUMNS, "min"], table)


def mean_and_sd(values: np.ndarray) -> str:
    """A cell; a single seed has no standard deviation."""
    sd = f" ({values.std(ddof=1):.3f})" if len(values) > 1 else ""
    return f"{values.mean():.3f}{sd}"


def difference_table(base: Row, others: Sequence[Row]) -> str:
    """Markdown: each row's differences to the first one, with intervals."""
    first, table = f"against {base.name}", []
    for row in others:
        cells = {heading: shown(x) for heading, x in intervals_of(row, base).items()}
        table.append({first: row.name} | dict.fromkeys(base.scores(), "–") | cells)
    return markdown([first, *COLUMNS], table)


def shown(difference: Interval) -> str:
    """A cell: the difference and its interval, and whether that includes 0."""
    middle, low, high = difference
    if high == np.inf:
        return f"{middle:+.3f}, no interval"
    verdict = ", not resolved" if low <= 0 <= high else ""
    return f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]{verdict}"


def main() -> None:
    """Print a table of scores, and one of differences if several rows are named."""
    parser = OneLineParser(description="Tables of the results.")
    parser.add_argument("names", nargs="+", metavar="NAME", help="rows, the baseline first")
    names = parser.parse_args().names
    rows = rows_of(results.load_results())
    if missing := [name for name in names if name not in rows]:
        raise InputError(
            f"no results of {', '.join(missing)} in {results.RESULTS}; "
            "python -m research.experiments.run TOML makes them"
        )
    ordered = [rows[name] for name in names]
    measured_on: dict[str, str] = {}
    for data in (result["data"] for row in ordered for result in row.by_seed.values()):
        for task, digits in data.items():
            if measured_on.setdefault(task, digits) != digits:
                raise InputError(f"these runs were measured on different dev files of {task}")
    print("\n" + score_table(ordered))
    if len(names) > 1:
        print("\n" + difference_table(ordered[0], ordered[1:]))
        print(
            "\nMean (standard deviation over seeds) on dev. Differences: 95 % interval of Student's"
            "\nt over the seeds that both ran, and over dev examples where example_sd.jsonl has"
            "\ntheir spread. Not resolved: the interval includes 0."
        )


if __name__ == "__main__":
    run_script(main)
