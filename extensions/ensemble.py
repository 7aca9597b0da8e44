"""Several checkpoints of extensions/multitask.py as one: their outputs averaged (Dietterich 2000).

    python -m extensions.ensemble a.pt b.pt c.pt

    p(y | x) = Σ_m p_m(y | x) / M

Class probabilities and similarities are averaged; a checkpoint counts for the tasks it was trained
on, of the course's three.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from torch import nn

from evaluation import FILE_COLUMNS, HeldOut, overall, predict_rows, score, write_in_order
from extensions.flags import TechniqueFlags
from extensions.multitask import load_model
from extensions.tasks import CLASSES, COURSE, read_held_out
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.cli.task_flags import find_files
from training.files.errors import InputError
from training.files.writing import check_writable, write_json
from training.loop import autocast_for, evaluation_loader, pick_device

Outputs = Mapping[tuple[str, str], np.ndarray]  # by task and split, as HeldOut


@dataclass
class EnsembleFlags(TechniqueFlags):
    """What goes into an ensemble, and what testing a model needs to know."""

    checkpoints: list[str] | None = None
    batch_size: int = 32


def outputs_of(model: nn.Module, sets: HeldOut, args: EnsembleFlags) -> Outputs:
    """What a model says of each row, in the order of the data, as it can be averaged.

    → of each set (N, 5) probabilities of sentiments, (N,) of "yes", or (N,) similarities.
    """
    device = next(model.parameters()).device
    outputs = {}
    for (name, split), rows in sets.items():
        with autocast_for(device, args.precision)():
            loader = evaluation_loader(rows, args.batch_size)
            predictions = predict_rows(model, name, loader, device)
        values = predictions["probabilities" if CLASSES[name] else "y_pred"]
        by_id = dict(zip(predictions["sent_ids"], values, strict=True))
        outputs[name, split] = np.array([by_id[row[-1]] for row in rows])
    return outputs


def decide(name: str, outputs: np.ndarray) -> list[float]:
    """Predictions from (averaged) outputs: the likeliest class, or the number itself."""
    if outputs.ndim == 2:
        return outputs.argmax(axis=1).tolist()
    return (outputs > 0.5).astype(int).tolist() if CLASSES[name] else outputs.tolist()


def dev_scores(title: str, outputs: Outputs, sets: HeldOut) -> dict[str, float]:
    """Print and return each task's score on dev, and the overall one."""
    scores = {}
    for (name, split), rows in sets.items():
        if split == "dev":
            predicted = decide(name, outputs[name, split])
            scores[name] = score(name, {"y_true": [row[-2] for row in rows], "y_pred": predicted})
    scores["overall"] = overall(scores)
    shown = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
    print(f"{shown}   {title}", flush=True)
    return scores


def get_args() -> EnsembleFlags:
    """The command line, completed by what a test takes for the rest."""
    parser = OneLineParser(description="Several checkpoints as one.")
    add = parser.add_argument
    add("checkpoints", nargs="+", metavar="CHECKPOINT")
    add("--batch_size", type=positive_int)
    add("--precision", choices=("auto", "fp32", "bf16"))
    add("--use_gpu", action="store_true", help="CUDA, or Apple's MPS")
    add("--data_dir", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--out_dir", help="folder of the prediction files")
    return find_files(parser.parse_args(namespace=EnsembleFlags()))


def main() -> None:
    """Average, write the prediction files and ensemble-metrics.json."""
    begun = time.monotonic()
    args = get_args()
    check_writable(args.out_dir)
    device = pick_device(args.use_gpu)

    @cache
    def read_sets(model: str, *tasks: str) -> HeldOut:
        return read_held_out(replace(args, model=model, tasks=tasks))

    of_members, members, sets = defaultdict(list), [], {}
    for path in args.checkpoints:
        model, config = load_model(path, device)
        tasks = [name for name in COURSE if name in config.tasks]
        if not tasks:
            raise InputError(f"{path} was trained on {config.tasks[0]} alone; leave it out")
        own_sets = read_sets(config.model, *tasks)
        outputs = outputs_of(model, own_sets, args)
        members.append({"checkpoint": path} | dev_scores(path, outputs, own_sets))
        for key, values in outputs.items():
            of_members[key].append(values)
        sets |= own_sets  # labels and ids: the same for all

    means = {key: np.mean(values, axis=0) for key, values in of_members.items()}
    for (name, split), rows in sets.items():
        predicted = decide(name, means[name, split])
        predictions = {"sent_ids": [row[-1] for row in rows], "y_pred": predicted}
        write_in_order(getattr(args, f"{name}_{split}_out"), rows, predictions, FILE_COLUMNS[name])
    metrics = {
        "best": dev_scores(f"outputs of {len(members)} averaged", means, sets),
        "members": members,
        "seconds": round(time.monotonic() - begun, 1),
        "args": vars(args),
    }
    write_json(f"{args.out_dir}/ensemble-metrics.json", metrics)
    print(f"wrote {args.out_dir}/ensemble-metrics.json")


if __name__ == "__main__":
    run_script(main)
