"""How much runs differ that differ in their seeds alone: of the runs of research/experiments/stability.py.

    python research/experiments/seeds.py                                tables of all of these
    python research/experiments/seeds.py again-imdb-books               or of any others with a dev accuracy
    python research/experiments/seeds.py few few-long --plot seeds.png
    python research/experiments/seeds.py --grid two-seeds               seeds of the head × of the order

A failed run is no better on dev than its most frequent class (Mosbach et al. 2021). The expected
best of n is what one who tries n seeds and keeps the best one reports (Dodge et al. 2019, 2020).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np
from scipy.stats import t as student_t
from scipy.stats import ttest_rel

from research.experiments import results
from training.cli.arguments import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import atomic_write

TRIES = (1, 2, 5, 10, 20)  # seeds that somebody tries
MOST_SEEDS = 1000
SHOWN_SEEDS = 30  # in the picture

# ---------------------------------------------------------------------------------------------
# Statistics


def expected_best(scores: Sequence[float], n: int) -> float:
    """The expected maximum of n draws, with replacement, from scores that were measured.

    The maximum is at most the i-th smallest of N scores with probability (i/N)ⁿ, so it *is* that
    one with probability (i/N)ⁿ − ((i−1)/N)ⁿ (Dodge et al. 2019, section 3).
    """
    at_most = (np.arange(len(scores) + 1) / len(scores)) ** n  # (N + 1,)
    return float(np.sort(scores) @ np.diff(at_most))


def half_width(deviation: float, n: int) -> float:
    """Half of the 95 % interval of a difference of two means, of n seeds each that spread by s.

    t · s · √(2/n), with t of 2n − 2 degrees of freedom.
    """
    return float(student_t.ppf(0.975, 2 * n - 2) * deviation * (2 / n) ** 0.5)


def seeds_needed(deviation: float, difference: float = 0.01) -> int | None:
    """The fewest seeds of each of two methods with which a difference of means stands out.

    The half-width of its interval has to be ``difference`` at most; None: MOST_SEEDS do not do.
    """
    counts = range(2, MOST_SEEDS + 1)
    return next((n for n in counts if half_width(deviation, n) <= difference), None)


# ---------------------------------------------------------------------------------------------
# Tables


Runs = Mapping[str, list[dict]]  # name → the metrics of its runs, with their seeds


def final(runs: Sequence[dict]) -> np.ndarray:
    """The accuracy after the last epoch, of each run: (S,)."""
    return np.array([run["dev_acc"] for run in runs])


def is_failed(run: dict) -> bool:
    """Whether a run ended no better than by naming the most frequent class, if that is known."""
    return run["dev_acc"] <= run.get("majority", 0)


def spread_table(named: Runs) -> str:
    """Markdown: how the last epoch's accuracy spreads, and what the best of n would be."""
    best = " | ".join(f"best of {n}" for n in TRIES)
    lines = [
        f"| run | seeds | mean (sd) | lowest | highest | failed | seeds for ±1 % | {best} |",
        f"|---|{'---|' * (6 + len(TRIES))}",
    ]
    for name, runs in named.items():
        scores = final(runs)
        cells = [str(len(scores)), f"{scores.mean():.3f}", f"{scores.min():.3f}"]
        cells += [f"{scores.max():.3f}", str(sum(map(is_failed, runs))), "–"]
        if len(scores) > 1:
            deviation = scores.std(ddof=1)
            cells[1] += f" ({deviation:.3f})"
            cells[-1] = str(seeds_needed(deviation) or f"> {MOST_SEEDS}")
        tries = [n for n in TRIES if n <= len(scores)]  # more would only repeat the highest
        cells += [f"{expected_best(scores, n):.3f}" for n in tries]
        cells += ["–"] * (len(TRIES) - len(tries))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def difference_table(named: Runs) -> str:
    """Markdown: what each row has more than the first, seed by seed, with a 95 % t-interval."""
    (first, base), *others = named.items()
    known = {run["seed"]: run["dev_acc"] for run in base}
    lines = [f"| against {first} | seeds | dev accuracy |", "|---|---|---|"]
    for name, runs in others:
        pairs = [(run["dev_acc"], known[run["seed"]]) for run in runs if run["seed"] in known]
        cell = "–"
        if len(pairs) > 1:
            found = ttest_rel(*np.transpose(pairs)).confidence_interval(0.95)
            mean = np.subtract(*np.transpose(pairs)).mean()
            cell = f"{mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
        lines.append(f"| {name} | {len(pairs)} | {cell} |")
    return "\n".join(lines)


def norm_table(named: Runs) -> str:
    """Markdown: the gradients' norms by layer in the first and in the last epoch, means of runs."""
    layers = list(next(iter(named.values()))[0]["norms"])
    lines = [f"| gradient norms | runs | {' | '.join(layers)} |"]
    lines.append(f"|---|{'---|' * len(layers)}---|")
    for name, runs in named.items():
        for kind, wanted in (("", False), (", failed", True)):
            chosen = [run for run in runs if is_failed(run) == wanted]
            if not chosen:
                continue
            cells = [str(len(chosen))]
            for layer in layers:
                ends = np.array([[run["norms"][layer][i] for i in (0, -1)] for run in chosen])
                cells.append("{:.2g} → {:.2g}".format(*ends.mean(axis=0)))
            lines.append(f"| {name}{kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def grid_table(accuracies: Mapping[tuple[int, int], float]) -> str:
    """Markdown: a row a seed of the head, a column a seed of the order, with means and spreads."""
    heads, orders = (sorted({seeds[i] for seeds in accuracies}) for i in (0, 1))
    missing = len(heads) * len(orders) - len(accuracies)
    if missing:
        raise InputError(f"the grid of {len(heads)} × {len(orders)} seeds lacks {missing} runs")
    grid = np.array([[accuracies[head, order] for order in orders] for head in heads])
    lines = [f"| head \\ order | {' | '.join(map(str, orders))} | mean |"]
    lines.append(f"|---|{'---|' * len(orders)}---|")
    for head, row in zip(heads, grid, strict=True):
        cells = " | ".join(f"{value:.3f}" for value in (*row, row.mean()))
        lines.append(f"| {head} | {cells} |")
    cells = " | ".join(f"{value:.3f}" for value in (*grid.mean(axis=0), grid.mean()))
    lines.append(f"| mean | {cells} |")
    return "\n".join(lines)


def plot(path: str | Path, named: Runs) -> None:
    """A PNG: every run's last accuracy, the expected best of n seeds, and what n seeds can tell."""
    from matplotlib import colormaps  # takes longer to import than all else here
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 2.6 + 0.3 * len(named)), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.4, 1, 1))
    for y, runs in enumerate(named.values()):
        scores = final(runs)
        colour = colormaps["tab20"](y % 20)
        left.plot(scores, [y] * len(scores), "o", ms=5, color=colour)
        left.plot([scores.mean()] * 2, [y - 0.3, y + 0.3], "k-")
        tries = range(1, len(scores) + 1)
        middle.plot(tries, [expected_best(scores, n) for n in tries], color=colour)
        if len(scores) > 1:
            counts = range(2, SHOWN_SEEDS + 1)
            widths = [half_width(scores.std(ddof=1), n) for n in counts]
            right.plot(counts, widths, color=colour)
    left.set(title="dev accuracy, a dot a seed", yticks=range(len(named)))
    left.set_yticklabels(list(named))
    left.invert_yaxis()
    left.grid(axis="x", alpha=0.3)
    middle.set(title="expected best of n seeds", xlabel="n, colours as on the left")
    right.set(title="difference that n seeds show", xlabel="n of each of two methods")
    right.set_ylim(0, 0.03)
    right.axhline(0.01, color="k", linestyle="--")
    for axes in (middle, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)


# ---------------------------------------------------------------------------------------------
# The command line


def grid_of(found: Sequence[dict], name: str) -> dict[tuple[int, int], dict]:
    """(seed of the head, seed of the order) → metrics, of a TOML's run and its variants."""
    return {
        (one["seed"], one["flags"]["order_seed"]): one["metrics"]
        for one in found
        if f"{one['name']}-".startswith(f"{name}-") and "order_seed" in one["flags"]
    }


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(
        prog="research/experiments/seeds.py", description="How much seeds matter."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="rows in this order (all)")
    add("--grid", metavar="NAME", help="seeds of head and order of this TOML's runs")
    add("--plot", metavar="PNG", help="draw the scores into this file")
    return parser.parse_args()


def main() -> None:
    """Print the tables, and draw the picture if asked for."""
    args = get_args()
    named: dict[str, list[dict]] = {}
    found = [
        result
        for result in results.load_results()
        if "norms" in result["metrics"]
        or (result["name"] in args.names and "dev_acc" in result["metrics"])
    ]
    for result in found:
        last = result.get("last") or {}  # of scripts that keep the best epoch
        run = result["metrics"] | last | {"seed": result["seed"]}
        named.setdefault(result["name"], []).append(run)
    if args.grid and (grid := grid_of(found, args.grid)):
        print("\n" + grid_table({seeds: one["dev_acc"] for seeds, one in grid.items()}))
        named[args.grid] = list(grid.values())
    wanted = [args.grid] if args.grid else args.names or list(named)
    missing = [name for name in wanted if name not in named]
    if missing or not wanted:
        lacking, there = ", ".join(missing) or "stability.py", ", ".join(named) or "none"
        raise InputError(f"no results of {lacking}; there are: {there}")
    named = {name: named[name] for name in wanted}
    print("\n" + spread_table(named))
    if len(named) > 1:
        print("\n" + difference_table(named))
    if all("norms" in run for runs in named.values() for run in runs):
        print("\n" + norm_table(named))
    if args.plot:
        plot(args.plot, named)
        print(f"\nwrote {args.plot}")


if __name__ == "__main__":
    run_script(main)
