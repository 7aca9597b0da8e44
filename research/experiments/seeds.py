"""How much runs differ that differ in their seeds alone: their spread, and the expected best of n.

    python research/experiments/seeds.py few-labels few-labels-uncorrected
    python research/experiments/seeds.py again-imdb-books again-imdb-tapt-imdb-0

Of runs with an accuracy on dev; the last epoch counts. The expected best of n is what somebody who
tries n seeds and keeps the best one reports (Dodge et al. 2019, 2020).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np
from scipy.stats import t as student_t

from research.experiments import results
from research.experiments.intervals import interval
from research.experiments.report import mean_and_sd
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError

TRIES = (1, 2, 5, 10, 20)  # seeds that somebody tries
MOST_SEEDS = 1000

Runs = Mapping[str, list[dict]]  # name → the scores of its runs, with their seeds

# ---------------------------------------------------------------------------------------------
# Statistics


def expected_best(scores: Sequence[float], n: int) -> float:
    """The expected maximum of n draws, with replacement, from scores that were measured.

    The maximum is at most the i-th smallest of N scores with probability (i/N)ⁿ, so it *is* that
    one with probability (i/N)ⁿ − ((i−1)/N)ⁿ (Dodge et al. 2019, section 3).
    """
    at_most = (np.arange(len(scores) + 1) / len(scores)) ** n  # (N + 1,)
    return float(np.sort(scores) @ np.diff(at_most))


def seeds_needed(deviation: float) -> int | None:
    """The fewest seeds of each of two methods whose interval is within ±0.01.

    Of n seeds each that spread by s, half of the 95 % interval is t · s · √(2/n), with t of 2n − 2
    degrees of freedom. A true difference of that size is then resolved about every second time.
    None: MOST_SEEDS do not suffice.
    """
    for n in range(2, MOST_SEEDS + 1):
        if student_t.ppf(0.975, 2 * n - 2) * deviation * (2 / n) ** 0.5 <= 0.01:
            return n
    return None


# ---------------------------------------------------------------------------------------------
# Tables


def spread_table(named: Runs) -> str:
    """Markdown: how the last epoch's accuracy spreads, and what the best of n would be."""
    table = []
    for name, runs in named.items():
        scores = np.array([run["dev_acc"] for run in runs])  # (S,)
        needed = "–"
        if len(scores) > 1:
            needed = seeds_needed(scores.std(ddof=1)) or f"> {MOST_SEEDS}"
        best = [  # of more than were run, it would only repeat the highest
            f"{expected_best(scores, n):.3f}" if n <= len(scores) else "–" for n in TRIES
        ]
        ends = f"{scores.min():.3f}", f"{scores.max():.3f}"
        table.append([name, len(scores), mean_and_sd(scores), *ends, needed, *best])
    header = ["run", "seeds", "mean (sd)", "lowest", "highest", "seeds for ±1 %"]
    return results.markdown([*header, *(f"best of {n}" for n in TRIES)], table)


def difference_table(named: Runs) -> str:
    """Markdown: what each row has more than the first, seed by seed, with a 95 % t-interval."""
    (first, base), *others = named.items()
    known = {run["seed"]: run["dev_acc"] for run in base}
    table = []
    for name, runs in others:
        more = [run["dev_acc"] - known[run["seed"]] for run in runs if run["seed"] in known]
        cell = "–"
        if len(more) > 1:
            cell = "{:+.3f} [{:+.3f}, {:+.3f}]".format(*interval([np.array(more)], 0.0))
        table.append([name, len(more), cell])
    return results.markdown([f"against {first}", "seeds", "dev accuracy"], table)


def main() -> None:
    """Print the tables."""
    parser = OneLineParser(
        prog="research/experiments/seeds.py", description="How much seeds matter."
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="rows in this order")
    args = parser.parse_args()
    named: dict[str, list[dict]] = {name: [] for name in args.names}
    for result in results.load_results():
        scores = result["metrics"] | (result.get("last") or {})
        if result["name"] in named and "dev_acc" in scores:
            named[result["name"]].append(scores | {"seed": result["seed"]})
    missing = [name for name, runs in named.items() if not runs]
    if missing:
        raise InputError(f"no accuracies of {', '.join(missing)} in {results.RESULTS}")
    print("\n" + spread_table(named))
    if len(named) > 1:
        print("\n" + difference_table(named))


if __name__ == "__main__":
    run_script(main)
