"""Laptop BERT: check an entry against the rules, examine it, print its row of the table.

    python research/laptop_bert.py MODEL --report entry.toml
    python research/laptop_bert.py books --report research/experiments/books/books.toml

docs/laptop-bert.md has the rules. A report is the TOML of a run with its line in results.jsonl,
which run.py has written. Each broken rule is a line on stderr, and the exit status is 1. Whether
another text or a larger model helped is not checked: no file shows it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lessons import grammar
from pretraining.building import build
from pretraining.corpus import Corpus
from pretraining.flags import PretrainingFlags
from pretraining.model import PretrainingModel
from research.experiments import exam, results
from research.experiments.results import Experiment, run_name
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import OWN_MODEL, find_model
from training.files.texts import read_text
from training.loop.progress import minutes

MOST_BYTES = 12_000_000  # of the model's folder
MOST_SECONDS = {"CPU": 3 * 3600, "GPU": 600}
MOST_THREADS = 2  # of a CPU
SEED = 0  # of each run: it decides which chapters are held out
TEXT = "$MINBERT_DATA/pretrain_text/books"
TEXTS = results.FOLDER / "books" / "texts.sha256"
LOSS_DIFFERS = 0.1  # nats, at most: other batches of held-out rows, weights in bfloat16

Stage = tuple[Experiment, dict[str, Any]]  # a run of an entry, and its line in results.jsonl


def read_stage(path: str) -> Stage:
    """The run that a TOML describes.

    Raises:
        InputError: no such file, or no pre-training with these flags in results.jsonl.
    """
    experiment = results.read_experiment(path)
    runs = {(line["name"], line["seed"]): line for line in results.load_results()}
    result = runs.get((experiment.name, SEED), {"flags": None})
    if experiment.kind != "pretrain" or result["flags"] != experiment.digest():
        raise InputError(
            f"{results.RESULTS.name} has no pre-training {run_name(experiment.name, SEED)} with "
            f"the flags of {path}; python research/experiments/run.py {path} makes it"
        )
    return experiment, result


def model_faults(
    folder: Path, size: int, model: PretrainingModel, tokenizer: BertTokenizer
) -> list[str]:
    """What is against the rules in a model's folder of that many bytes."""
    faults = []
    if size > MOST_BYTES:
        faults.append(f"{folder} has {size:,} bytes, and {MOST_BYTES:,} are allowed")
    ours = BertTokenizer.from_pretrained(OWN_MODEL)
    if (tokenizer.pieces, tokenizer.lower_case) != (ours.pieces, ours.lower_case):
        faults.append(f"{folder} has another vocabulary than {OWN_MODEL}; losses would not compare")
    positions, needed = model.config.max_position_embeddings, PretrainingFlags.length
    if positions < needed:
        faults.append(f"{folder} has {positions} positions, and held-out rows need {needed}")
    return faults


def run_faults(stages: Sequence[Stage], seconds: float) -> list[str]:
    """What is against the rules in the runs: text, initial weights, threads, time in all."""
    faults = []
    device = "GPU" if any(run.flags.get("use_gpu") for run, _ in stages) else "CPU"
    trained: list[Path] = []  # folders of the entry's earlier runs
    for run, result in stages:
        for name, allowed in (("text", TEXT), ("held_out", PretrainingFlags.held_out)):
            if (value := run.flags.get(name, allowed)) != allowed:
                faults.append(f"{run.name}: {name} is {value}, and {allowed} is allowed")
        start = run.flags.get("model")
        if start and not any(Path(start).is_relative_to(folder) for folder in trained):
            faults.append(f"{run.name} begins with {start}, which no report before it has trained")
        trained.append(Path("$RUNS", run_name(run.name, SEED)))
        threads = re.search(r", (\d+) threads", result.get("machine", ""))
        if device == "CPU" and not (threads and int(threads[1]) <= MOST_THREADS):
            machine = result.get("machine", "an unknown machine")
            faults.append(f"{run.name} ran on {machine}, and {MOST_THREADS} threads are allowed")
    if seconds > MOST_SECONDS[device]:
        allowed = minutes(MOST_SECONDS[device])
        faults.append(f"training took {minutes(seconds)} on a {device}; {allowed} are allowed")
    return faults


def books(tokenizer: BertTokenizer) -> Corpus | None:
    """The 66 books as tokens, built once in runs/laptop-bert; None where they are not there.

    Raises:
        InputError: other texts are there.
    """
    folder = Path(results.expanded(TEXT))
    if not folder.is_dir():
        return None
    corpus = build([folder], tokenizer, results.RUNS / "laptop-bert")
    sums = {line.split()[0] for line in read_text(TEXTS).splitlines()}
    if {source["sha256"] for source in corpus.description["sources"]} != sums:
        raise InputError(
            f"{folder} does not hold the texts of {TEXTS.name}, so losses would not compare; "
            "unset MINBERT_DATA to measure grammar alone"
        )
    return corpus


def main() -> None:
    """Check one entry."""
    parser = OneLineParser(prog="research/laptop_bert.py", description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="MODEL", help="name or folder, as it is shipped")
    parser.add_argument("--report", nargs="+", required=True, metavar="TOML", help="its runs")
    parser.add_argument("--pairs", help="zorro: all of it, in $MINBERT_DATA (the sample)")
    args = parser.parse_args()
    stages = [read_stage(path) for path in args.report]
    seconds = sum(result["seconds"] for _, result in stages)
    model, tokenizer = exam.examined(args.model)
    folder = find_model(args.model)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    stop_at(model_faults(folder, size, model, tokenizer) + run_faults(stages, seconds))
    pairs, corpus = grammar.read_pairs(args.pairs), books(tokenizer)
    marks, loss = exam.measure(model, tokenizer, pairs, corpus, SEED)
    result, loss_text = stages[-1][1], "–"
    if loss is None:
        print(f"not checked: held-out loss, and whether the report is of this model: no {TEXT}")
    else:
        loss_text, reported = f"{loss:.3f}", result["metrics"]["mlm_loss"]
        if abs(loss - reported) > LOSS_DIFFERS:
            stop_at([f"the report's loss is {reported:.3f}, the model's {loss_text}"])
    accuracy = marks["all"].mean()
    low, high = grammar.wilson(accuracy, len(pairs))
    print(
        f"| {args.model} | {accuracy:.3f} [{low:.3f}, {high:.3f}] | {loss_text} "
        f"| {size / 1e6:.1f} | {minutes(seconds)} | {result['machine']} | {result['commit']} |"
    )


def stop_at(faults: Sequence[str]) -> None:
    """Leave with a line for each broken rule, if there is one."""
    if faults:
        sys.exit("\n".join(f"broken rule: {fault}" for fault in faults))


if __name__ == "__main__":
    run_script(main)
