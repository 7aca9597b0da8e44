"""Draw the figures of results, from research/experiments/results.jsonl, and print their numbers.

    python -m docs.figures_of_results

Error bars are 95 % intervals over seeds. Scores are those of the last epoch on dev, which was not
used to select anything. Other figures are not drawn here: version 1.10 (commit 2f8ace9c) drew
seeds.svg, and version 1.6 (commit ee8d231) the diagrams.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from html import escape
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from research.experiments import report, results
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.writing import write_whole

FOLDER = Path(__file__).resolve().parent
WIDTH, PIXELS = 640, 720  # of a drawing, and of its picture where there is room
STEPS_OF_TICKS = [1, 2, 5, 10]
COLOURS = {  # light, dark; where models are compared, `books` is blue and MiniLM orange
    "ink": ("#1b2430", "#e8ecf2"),
    "quiet": ("#566273", "#a9b4c2"),
    "grid": ("#d3d8df", "#3a4552"),
    "card": ("#ffffff", "#141a22"),
    "blue": ("#0066ae", "#62b6f2"),
    "orange": ("#c04a00", "#f5a04e"),
    "green": ("#00735c", "#4ccfa8"),
    "purple": ("#8a3d86", "#d995d6"),
}
INK, QUIET, GRID, CARD, BLUE, ORANGE, GREEN, PURPLE = (light for light, _ in COLOURS.values())
STYLE = {
    "font.size": 18,
    "axes.titlesize": 18,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "lines.linewidth": 2,
    "lines.markersize": 7,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "minbert",
}

Rows = Mapping[str, report.Row]

# ---------------------------------------------------------------------------------------------
# Results


def scores_of(rows: Rows, name: str, key: str) -> np.ndarray:
    """A score of each seed of a run, (S,), after the last epoch; empty if there is no such run."""
    if name not in rows:
        return np.array([])
    return (rows[name].scores("last") or rows[name].scores()).get(key, np.array([]))


def by_tokens(rows: Rows, name: str, key: str) -> dict[float, np.ndarray]:
    """Million tokens that BERT had read before → scores, of the runs NAME-pieces-N."""
    begin = f"{name}-pieces-"
    counts = sorted(int(run.removeprefix(begin)) for run in rows if run.startswith(begin))
    return {count / 1e6: scores_of(rows, f"{begin}{count}", key) for count in counts}


def mean_and_half(values: np.ndarray) -> tuple[float, float]:
    """The mean and half of its interval over seeds, which is 0 for a single one."""
    mean, _, high = report.interval(values, 0.0)
    return mean, high - mean if len(values) > 1 else 0.0


# ---------------------------------------------------------------------------------------------
# Drawing


def new_figure(height: float, rows: int = 1, columns: int = 1, **more: object) -> tuple:
    """A figure as wide as a page, and its axes."""
    figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
    figure.get_layout_engine().set(w_pad=14 / 72, h_pad=10 / 72)
    return figure, figure.subplots(rows, columns, **more)


def draw_line(axes: Axes, points: Mapping[float, np.ndarray], colour: str, label: str) -> None:
    """The means of the scores at each x, with their intervals; prints them, too."""
    middles = {x: mean_and_half(values) for x, values in points.items()}
    means, halves = zip(*middles.values(), strict=True)
    axes.errorbar([*middles], means, halves, color=colour, marker="o", label=label)
    print(f"{label}: " + ", ".join(f"{x:g} {m:.3f}±{half:.3f}" for x, (m, half) in middles.items()))


def legend_above(figure: Figure, colours: Mapping[str, str]) -> None:
    """The names of colours above all axes."""
    dots = [matplotlib.lines.Line2D([], [], color=c, marker="o") for c in colours.values()]
    figure.legend(
        dots, [*colours], loc="outside upper left", ncols=3, handlelength=1, columnspacing=1
    )


def tokens_axis(axes: Axes, first: float, zero: bool) -> None:
    """Million tokens read to the right, on a log scale, which begins with a place for 0."""
    axes.set_xscale("symlog", linthresh=first, linscale=0.5) if zero else axes.set_xscale("log")
    powers = [10.0**power for power in range(round(np.log10(first)), 3)]
    axes.set_xticks([0.0] * zero + powers, ["0"] * zero + [f"{power:g}" for power in powers])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(-0.3 * first if zero else first, 140)


def save(figure: Figure, name: str, title: str, about: str) -> None:
    """Write docs/NAME.svg, whose colours follow a reader's light or dark setting.

    ``title`` and ``about`` are for screen readers.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawing = file.getvalue()
    drawing = drawing[drawing.index("<defs>") :]
    for colour, (light, _) in COLOURS.items():
        drawing = drawing.replace(light, f"var(--{colour})")
    drawing = drawing.replace("'DejaVu Sans', 'Bitstream Vera Sans'", "system-ui")
    light, dark = ("".join(f"--{name}:{c[i]};" for name, c in COLOURS.items()) for i in (0, 1))
    height = figure.get_figheight() * 72
    svg = f"""<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 role="img" viewBox="0 0 {WIDTH} {height:g}" width="{PIXELS}" height="{height * PIXELS / WIDTH:g}">
<title>{escape(title)}</title>
<desc>{escape(about)}</desc>
<style>:root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}</style>
<rect width="{WIDTH}" height="{height:g}" rx="14" style="fill: var(--card)"/>
"""
    lines = (svg + drawing).splitlines()
    write_whole(FOLDER / f"{name}.svg", "".join(f"{line.rstrip()}\n" for line in lines))
    print(f"wrote docs/{name}.svg\n")


# ---------------------------------------------------------------------------------------------
# Curves

FEW, SOME, ALL = GREEN, PURPLE, INK  # labels, in all panels
SCORE_PANELS = (  # title, numbers of labels, score, runs
    ("SST-2, accuracy", "200; 2,000; 67,349", "dev_acc",
     {"books-sst2-200": FEW, "books-sst2-2000": SOME, "books-sst2-all": ALL}),
    ("IMDB, accuracy", "500; 33,750", "dev_acc", {"books-imdb-500": FEW, "books-imdb-all": ALL}),
    ("Similarity, Pearson's r", "none; 6,040 pairs", "sts",
     {"books-sts-untrained": FEW, "books-sts": ALL}),
    ("NER, F1 of entities", "5,000 sentences", "dev_f1", {"books-names": ALL}),
)  # fmt: skip


def books_scores(rows: Rows) -> None:
    """docs/books-scores.svg."""
    figure, grid = new_figure(720, 2, 2)
    for axes, (title, labels, key, runs) in zip(grid.flat, SCORE_PANELS, strict=True):
        print(title)
        for name, colour in runs.items():
            draw_line(axes, by_tokens(rows, name, key), colour, name)
            controls = [scores_of(rows, f"{name}-{end}", key) for end in ("control-cut", "control")]
            for value in np.concatenate(controls)[:1]:  # the one that reads what BERT reads
                axes.axhline(value, color=colour, linestyle="--", linewidth=1.5)
        tokens_axis(axes, 1, zero=True)
        axes.grid(axis="x", visible=False)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS_OF_TICKS, min_n_ticks=3))
        axes.set_title(f"{title}\n", pad=8)
        axes.annotate(labels, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points")
    legend_above(figure, {"few labels, or none": GREEN, "2,000 labels": PURPLE, "all labels": INK})
    figure.supxlabel(
        "million tokens read before (0: random weights); dashed: without BERT", fontsize=18
    )
    about = "Scores after fine-tuning against the tokens read before; a line per number of labels."
    save(figure, "books-scores", "What pre-training buys", about)


def books_loss(rows: Rows) -> None:
    """docs/books-loss.svg; a repetition with the same seed has earlier checkpoints."""
    (run,) = rows["books"].by_seed.values()
    losses = {point["pieces"] / 1e6: point["mlm_loss"] for point in run["held_out"]}
    again = by_tokens(rows, "grammar", "mlm_loss").items()
    losses = {x: loss[0] for x, loss in again if 0 < x < min(losses)} | losses
    figure, axes = new_figure(400)
    axes.plot([*losses], [*losses.values()], color=BLUE, linewidth=4)
    entropy, last = run["unigram_entropy"], [*losses.values()][-1]
    axes.axhline(entropy, color=QUIET, linestyle="--")
    axes.text(130, entropy + 0.15, f"unigram entropy {entropy:.2f}", ha="right", color=QUIET)
    axes.text(130, last - 0.65, f"{last:.2f}", ha="right", color=BLUE)
    tokens_axis(axes, 0.1, zero=False)
    axes.set_ylim(1.5, 9)
    axes.set_title("loss of masked words on held-out text, nats")
    axes.set_xlabel("million tokens read")
    about = "The held-out loss of masked words against the tokens read, and the unigram entropy."
    save(figure, "books-loss", "The long run's loss", about)


PHENOMENA = {  # of the exam, and their names in the figure
    "agreement_determiner_noun": "determiner and noun",
    "agreement_subject_verb": "subject and verb",
    "filler-gap": "filler-gap",
    "island-effects": "island effects",
    "npi_licensing": "“ever” (NPI)",
}


def grammar_learned(rows: Rows) -> None:
    """docs/figures/grammar-learned.svg, which the playground shows, too."""
    tokens = [*by_tokens(rows, "grammar", "grammar")]
    runs = [rows[f"grammar-pieces-{round(count * 1e6)}"].by_seed[0] for count in tokens]
    everything = [run["metrics"]["grammar"] for run in runs]
    figure, grid = new_figure(860, 3, 2)
    for axes, (name, title) in zip(grid.flat, PHENOMENA.items(), strict=False):
        values = [run["phenomena"][name] for run in runs]
        axes.plot(tokens, everything, color=QUIET)
        axes.plot(tokens, values, color=BLUE, linewidth=4)
        axes.axhline(0.5, color=QUIET, linestyle=":")
        axes.set_ylim(0.1, 1.05)
        axes.set_title(title)
        print(f"{title}: " + ", ".join(f"{value:.3f}" for value in values))
    grid.flat[-1].plot(tokens, [run["metrics"]["mlm_loss"] for run in runs], color=INK, linewidth=4)
    grid.flat[-1].set_title("loss, nats")
    for axes in grid.flat:
        tokens_axis(axes, 0.1, zero=True)
        axes.grid(axis="x", visible=False)
    legend_above(figure, {"fraction correct": BLUE, "all 13 phenomena": QUIET})
    figure.supxlabel("million tokens read (0: random weights)", fontsize=18)
    about = "Accuracy on minimal pairs by phenomenon, and the held-out loss, against tokens read."
    save(figure, "figures/grammar-learned", "When grammar is learned", about)


RATES = {1e-5: "-1e-5", 3e-5: "-3e-5", 1e-4: "", 3e-4: "-3e-4", 1e-3: "-1e-3"}
SIZES = {100: "", 300: "-300", 1000: "-1000", 3000: "-3000"}
SST_LINES = (  # label, colour, how runs are named, the run with all 8,544 labels
    ("from books", BLUE, "{}-books{}", "rates-books-3e-4"),
    ("from MiniLM", ORANGE, "{}-minilm{}", "rates-minilm"),
    ("TF-IDF", GREEN, "{}-books{}-control", "rates-books-control"),
)


def sst(rows: Rows) -> None:
    """docs/figures/sst-rates.svg and sst-sizes.svg."""
    for kind, axis, places, lines in (
        ("rates", "learning rate, three epochs", RATES, SST_LINES[:2]),
        ("sizes", "labels", SIZES, SST_LINES),
    ):
        figure, axes = new_figure(420)
        for label, colour, name, whole in lines:
            runs = {x: name.format(kind, end) for x, end in places.items()}
            runs |= {8544: whole} if kind == "sizes" else {}
            scores = {x: scores_of(rows, run, "dev_acc") for x, run in runs.items()}
            draw_line(axes, scores, colour, label)
        ticks = [f"{x:,}" if x >= 1 else f"{x:.0e}".replace("e-0", "e-") for x in runs]
        axes.set_xscale("log")
        axes.set_xticks([*runs], ticks)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title("accuracy on SST's dev set, five classes")
        axes.set_xlabel(axis)
        figure.legend(loc="outside upper left", ncols=3)
        about = f"Means of the last epoch and 95 % intervals over seeds, against {axis}."
        save(figure, f"figures/sst-{kind}", "SST, five classes: accuracy on dev", about)


FIGURES = (books_scores, books_loss, grammar_learned, sst)


def main() -> None:
    """Draw all figures."""
    OneLineParser(description="Draw the figures of results.").parse_args()
    rows = report.rows_of(results.load_results())
    with matplotlib.rc_context(STYLE):
        for draw in FIGURES:
            draw(rows)


if __name__ == "__main__":
    run_script(main)
