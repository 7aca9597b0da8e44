"""The results as Markdown tables and a picture, with what is noise called noise.

    python research/experiments/report.py
    python research/experiments/report.py separate round-robin annealed annealed-cross ensemble-cross

The first name is the baseline. Differences to it have a 95 % interval from a paired bootstrap
(Efron & Tibshirani 1993, chapter 13; Berg-Kirkpatrick et al. 2012 for its use in NLP): dev examples
are drawn with replacement, the same for both; and so are the seeds, where there are several. All
scores are on dev, which also chose the epoch: they flatter every row alike.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np

from multitask_classifier import overall
from research.experiments import results
from research.experiments.results import SCORES, TASKS
from training.cli.arguments import OneLineParser
from training.cli.scripts import run_script
from training.files.course_files import multitask_files
from training.files.errors import InputError
from training.files.writing import atomic_write

RESAMPLES = 5000
CHUNK = 200  # resamples computed at a time, for the memory they take
LEVEL = 0.95
TITLES = {"sst": "SST accuracy", "para": "paraphrase accuracy", "sts": "STS Pearson"}


@dataclass(frozen=True)
class Row:
    """All seeds of one run: predictions on dev, one row of each array a seed."""

    name: str
    seeds: tuple[int | None, ...]
    predicted: dict[str, np.ndarray]  # task → (S, N)
    seconds: tuple[float, ...]
    peak_mb: float | None  # the largest of all; None if a run did not say

    def only(self, seeds: Sequence[int | None]) -> Row:
        """The row of these of its seeds."""
        places = [self.seeds.index(seed) for seed in seeds]
        predicted = {task: values[places] for task, values in self.predicted.items()}
        return replace(self, seeds=tuple(seeds), predicted=predicted)


# ---------------------------------------------------------------------------------------------
# From results.jsonl to rows


def rows_of(found: Sequence[dict], joined: dict[str, Sequence[str]]) -> list[Row]:
    """One row a name, in the order of the results.

    Args:
        found: results, as results.jsonl has them.
        joined: name → names of single-task runs, which become one row of that name.
    """
    row_names = {member: name for name, members in joined.items() for member in members}
    by_row: dict[str, dict[int | None, list[dict]]] = {}
    for result in found:
        name = row_names.get(result["name"], result["name"])
        by_row.setdefault(name, {}).setdefault(result["seed"], []).append(result)
    rows = []
    for name, by_seed in by_row.items():
        members = len(joined.get(name, [name]))
        whole = {seed: part for seed, part in sorted(by_seed.items()) if len(part) == members}
        if len(whole) < len(by_seed):
            print(
                f"note: {name} lacks a member for some seeds, which are left out", file=sys.stderr
            )
        if whole:
            rows.append(_row(name, whole))
    return rows


def _row(name: str, by_seed: dict[int | None, list[dict]]) -> Row:
    dev = [
        {task: values for result in part for task, values in result["dev"].items()}
        for part in by_seed.values()
    ]
    tasks = [task for task in TASKS if all(task in one for one in dev)]
    predicted = {
        task: np.array([[float(value) for value in one[task]] for one in dev]) for task in tasks
    }
    seconds = tuple(sum(result["seconds"] for result in part) for part in by_seed.values())
    peaks = [result.get("peak_mb") for part in by_seed.values() for result in part]
    peak = None if None in peaks else max(peaks)
    return Row(name, tuple(by_seed), predicted, seconds, peak)


def gold_labels(found: Sequence[dict], folder: str | None = None) -> dict[str, np.ndarray]:
    """Of the tasks that results have: the labels (N,) of the dev files in a folder, or at hand.

    Raises InputError if a result was made on other dev files.
    """
    tasks = [task for task in TASKS if any(task in result["dev"] for result in found)]
    data = multitask_files(folder)
    files = {task: Path(data[f"{task}_dev"]) for task in tasks}
    check_data(found, results.fingerprints(files, tasks))
    return {task: np.array(results.gold(task, path)[1], float) for task, path in files.items()}


def check_data(found: Sequence[dict], prints: dict[str, str]) -> None:
    """InputError if a result was made on other dev files than those whose labels we have."""
    for result in found:
        for task, expected in prints.items():
            if result["data"].get(task, expected) != expected:
                name = results.run_name(result["name"], result["seed"])
                raise InputError(
                    f"{name} was measured on another {task} dev file than the one here "
                    f"(its sha256 begins {result['data'][task]}); give --data_dir, or name the runs"
                )


# ---------------------------------------------------------------------------------------------
# Scores, and the bootstrap


def scores(
    row: Row, gold: dict[str, np.ndarray], draws: dict[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Every score of every seed in every resample.

    Args:
        row: predictions (S, N) a task.
        gold: labels (N,) a task.
        draws: how often each example is drawn, (R, N) a task; None: each once, R = 1.

    Returns:
        sst, para, sts and, if all three are there, overall: (S, R) each.
    """
    found = {}
    for task, predicted in row.predicted.items():
        counts = np.ones((predicted.shape[1], 1))  # (N, R)
        if draws is not None:
            counts = draws[task].T.astype(float)
        if TASKS[task].classes:
            found[task] = (predicted == gold[task]) @ counts / counts.sum(axis=0)
        else:
            found[task] = weighted_pearson(predicted, gold[task], counts)
    if found.keys() == TASKS.keys():
        found["overall"] = overall(found)
    return found


def weighted_pearson(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Pearson's r of examples that each count several times: (S, N), (N,), (N, R) → (S, R).

    0 where x or y is constant.
    """
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean()  # for precision: r does not change
    n = counts.sum(axis=0)
    mean_x, mean_y = x @ counts / n, y @ counts / n
    covariance = (x * y) @ counts / n - mean_x * mean_y
    var_x, var_y = x**2 @ counts / n - mean_x**2, y**2 @ counts / n - mean_y**2
    varies = (var_x > 1e-12) & (var_y > 1e-12)
    return covariance / np.sqrt(np.where(varies, var_x * var_y, 1.0))  # nothing varies: 0 / 1


def intervals(
    row: Row, baseline: Row, gold: dict[str, np.ndarray], resamples: int = RESAMPLES
) -> dict[str, tuple[float, float, float]]:
    """(difference to the baseline, and the ends of its interval) of every score both have.

    Only seeds count that both ran; where there are none, all do. Each resample draws the dev
    examples anew, the same ones for both rows, and seeds too, the same for both if both ran them. A
    single seed is always drawn: the interval then says nothing of how much seeds differ.
    """
    paired = [seed for seed in row.seeds if seed in baseline.seeds]
    if paired:
        row, baseline = row.only(paired), baseline.only(paired)
    rng = np.random.default_rng(0)
    drawn: dict[str, list[np.ndarray]] = {}
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        draws = {task: multinomial(rng, len(labels), size) for task, labels in gold.items()}
        seeds = multinomial(rng, len(row.seeds), size)
        base_seeds = seeds if paired else multinomial(rng, len(baseline.seeds), size)
        ours, theirs = scores(row, gold, draws), scores(baseline, gold, draws)
        for score in ours.keys() & theirs.keys():
            difference = over_seeds(ours[score], seeds) - over_seeds(theirs[score], base_seeds)
            drawn.setdefault(score, []).append(difference)
    ours, theirs = scores(row, gold), scores(baseline, gold)
    found = {}
    for score, differences in drawn.items():
        low, high = np.quantile(np.concatenate(differences), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        found[score] = (float(ours[score].mean() - theirs[score].mean()), float(low), float(high))
    return found


def multinomial(rng: np.random.Generator, size: int, resamples: int) -> np.ndarray:
    """How often each of ``size`` things is drawn in as many draws with replacement: (R, size)."""
    return rng.multinomial(size, np.full(size, 1 / size), size=resamples)


def over_seeds(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Means over the seeds that each resample drew: (S, R), (R, S) → (R,)."""
    return (values * seeds.T).sum(axis=0) / seeds.sum(axis=1)


def is_noise(interval: tuple[float, float, float]) -> bool:
    """Whether the interval of a difference contains 0."""
    return interval[1] <= 0 <= interval[2]


# ---------------------------------------------------------------------------------------------
# Tables and picture


def score_table(rows: Sequence[Row], gold: dict[str, np.ndarray]) -> str:
    """Markdown: each row's scores, mean (standard deviation) over seeds; minutes, peak memory."""
    shown = columns(rows)
    titles = " | ".join(TITLES.get(score, score) for score in shown)
    lines = [f"| run | seeds | {titles} | min | MB |", f"|---|--:|{'--:|' * len(shown)}--:|--:|"]
    for row in rows:
        found = scores(row, gold)
        cells = [_mean_sd(found[score][:, 0]) if score in found else "–" for score in shown]
        minutes = np.mean(row.seconds) / 60
        cells += [f"{minutes:.1f}", "–" if row.peak_mb is None else f"{row.peak_mb:,.0f}"]
        lines.append(f"| {row.name} | {len(row.seeds)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def columns(rows: Sequence[Row]) -> list[str]:
    """The scores that any row has."""
    whole = any(row.predicted.keys() == TASKS.keys() for row in rows)
    tasks = {task for row in rows for task in row.predicted}
    return [score for score in SCORES if score in tasks or (score == "overall" and whole)]


def _mean_sd(values: np.ndarray) -> str:
    sd = f" ({values.std(ddof=1):.3f})" if len(values) > 1 else ""
    return f"{values.mean():.3f}{sd}"


def difference_table(rows: Sequence[Row], gold: dict[str, np.ndarray]) -> str:
    """Markdown: each row's differences to the first one, with intervals; noise is called so."""
    base, shown = rows[0], columns(rows)
    titles = " | ".join(TITLES.get(score, score) for score in shown)
    lines = [f"| against {base.name} | {titles} |", f"|---|{'---|' * len(shown)}"]
    for row in rows[1:]:
        found = intervals(row, base, gold)
        cells = [_interval(found[score]) if score in found else "–" for score in shown]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(interval: tuple[float, float, float]) -> str:
    middle, low, high = interval
    noise = ", noise" if is_noise(interval) else ""
    return f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]{noise}"


def plot(path: str | Path, rows: Sequence[Row], gold: dict[str, np.ndarray]) -> None:
    """A PNG: each score of each row, a dot a seed and a line at the mean."""
    from matplotlib.figure import Figure  # takes longer to import than all else here

    figure = Figure(figsize=(11, 1.2 + 0.4 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(SCORES), sharey=True)
    for axes, score in zip(panels, SCORES, strict=True):
        for y, row in enumerate(rows):
            values = scores(row, gold).get(score)
            if values is not None:
                axes.plot(values[:, 0], [y] * len(values), "o", ms=4, alpha=0.6, color="C0")
                axes.plot([values.mean()] * 2, [y - 0.3, y + 0.3], "k-")
        axes.set(title=TITLES.get(score, score), yticks=range(len(rows)))
        axes.set_yticklabels([row.name for row in rows])
        axes.grid(axis="x", alpha=0.3)
    panels[0].invert_yaxis()
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(
        prog="research/experiments/report.py", description="Tables of the results."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="rows in this order, the baseline first (all)")
    add("--data_dir", help="folder of the dev files measured on")
    add("--plot", metavar="PNG", help="draw the scores into this file")
    return parser.parse_args()


def main() -> None:
    """Print both tables, and draw the picture if asked for."""
    args = get_args()
    joined = {}
    for path in sorted(results.FOLDER.glob("*.toml")):
        experiment = results.read_experiment(path)
        if experiment.kind == "joined":
            joined[experiment.name] = experiment.members
    found = [result for result in results.load_results() if result["dev"]]
    if args.names:
        wanted = {member for name in args.names for member in joined.get(name, [name])}
        found = [result for result in found if result["name"] in wanted]
    if not found:
        raise InputError(
            f"no results yet in {results.RESULTS}; python research/experiments/run.py TOML"
        )
    gold = gold_labels(found, args.data_dir)
    rows = {row.name: row for row in rows_of(found, joined)}
    missing = [name for name in args.names if name not in rows]
    if missing:
        raise InputError(f"no results of {', '.join(missing)}; there are: {', '.join(rows) or '–'}")
    ordered = [rows[name] for name in args.names or rows]

    print("\n" + score_table(ordered, gold))
    if len(ordered) > 1:
        print("\n" + difference_table(ordered, gold))
        print(
            "\nMean (standard deviation over seeds) on dev. Differences: 95 % interval of a paired"
            f" bootstrap, {RESAMPLES:,} resamples of examples and of the seeds that both ran;"
            " noise: it contains 0."
            "\nA row's runs: python research/experiments/run.py TOML --only NAME"
        )
    if args.plot:
        plot(args.plot, ordered, gold)
        print(f"\nwrote {args.plot}")


if __name__ == "__main__":
    run_script(main)
