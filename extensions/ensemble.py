"""Several checkpoints of extensions/multitask.py as one: their outputs or their weights averaged.

    python extensions/ensemble.py a.pt b.pt c.pt
    python extensions/ensemble.py --soup a.pt b.pt c.pt

    outputs   p(y | x) = Σ_m p_m(y | x) / M        soup   f(x; Σ_m θ_m / M)

Without --soup, class probabilities and similarities are averaged; a checkpoint counts for the tasks
it was trained on, so that the models may differ in kind, and models of one task each go together.

With --soup it is the weights, greedily (Wortsman et al. 2022, recipe 1): the checkpoints, best on
dev first, join one after the other, and stay if dev does not fall. One model comes out, as fast as
any of its ingredients. They must have the same architecture, and should have begun from the same
weights, heads included: the same --seed, and another --lr or --hidden_dropout_prob, say. Otherwise
the soup is usually the best ingredient alone.

Both are measured on dev; the soup is also chosen there, which flatters it a little.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import training  # noqa: F401, before torch

# isort: split
import numpy as np
import torch
from torch import Tensor, nn

from datasets import TextDataset
from evaluation import overall, write_in_order
from extensions.flags import ModelFlags, TechniqueFlags, task_names
from extensions.multitask import (
    load_model,
    loader_of,
    read_held_out,
    remember_words,
    test,
)
from extensions.tasks import COURSE, TASKS, read_set
from training.cli.flags import OneLineParser, complete, positive_int
from training.cli.scripts import run_script
from training.cli.task_flags import find_files
from training.files.errors import InputError
from training.files.writing import check_writable, write_json
from training.loop.checkpoints import load_checkpoint, save_checkpoint
from training.loop.devices import autocast_for, pick_device


@dataclass
class EnsembleFlags(TechniqueFlags):
    """What goes into an ensemble, and what testing a model needs to know."""

    checkpoints: list[str] | None = None
    soup: bool = False
    batch_size: int = 32


def row_reader(args: EnsembleFlags) -> Callable[[str, str, str], TextDataset]:
    """A function (task, split, pretrained model) → rows, each read and tokenized once."""

    @cache
    def read_rows(name: str, split: str, model: str) -> TextDataset:
        return read_set(name, replace(args, model=model), split)

    return read_rows


def trained_on(path: str) -> list[str]:
    """The tasks that a checkpoint was trained on."""
    try:
        return load_checkpoint(path)["config"]["tasks"]
    except (KeyError, TypeError):
        raise InputError(
            f"{path} is not a checkpoint of extensions/multitask.py; train again"
        ) from None


def check_all_trained(args: EnsembleFlags, trained: Sequence[str]) -> None:
    """InputError if no checkpoint was trained on one of the tasks."""
    if absent := [name for name in args.tasks if name not in trained]:
        raise InputError(
            f"no checkpoint was trained on {', '.join(absent)}; leave that out with --tasks"
        )


def outputs_of(
    model: nn.Module, name: str, rows: TextDataset, args: EnsembleFlags, device: torch.device
) -> np.ndarray:
    """What a model says of each row, in the order of the data, as it can be averaged.

    → (N, 5) probabilities of sentiments, (N,) probabilities of "yes", or (N,) similarities.
    """
    task = TASKS[name]
    with autocast_for(device, args.precision)():
        loader = loader_of(name, rows, args, model)
        predictions = task.predict(loader, getattr(model, task.head), device)
    outputs = predictions["probabilities"] if task.classes else predictions["y_pred"]
    by_id = dict(zip(predictions["sent_ids"], outputs, strict=True))
    return np.array([by_id[row[-1]] for row in rows])


def decide(name: str, outputs: np.ndarray) -> list[float]:
    """Predictions from (averaged) outputs: the likeliest class, or the number itself."""
    if outputs.ndim == 2:
        return outputs.argmax(axis=1).tolist()
    return (outputs > 0.5).astype(int).tolist() if TASKS[name].classes else outputs.tolist()


def score(name: str, outputs: np.ndarray, rows: TextDataset) -> float:
    """The task's metric on labelled rows."""
    return TASKS[name].metric([row[-2] for row in rows], decide(name, outputs))


def print_row(title: str, scores: Mapping[str, float]) -> None:
    """A line of dev scores; overall only of a model that does all tasks of the course."""
    if scores.keys() >= set(COURSE):
        scores = scores | {"overall": overall(scores)}
    shown = "  ".join(f"{name} {score:.3f}" for name, score in scores.items())
    print(f"{shown}   {title}", flush=True)


# ---------------------------------------------------------------------------------------------
# Outputs averaged


def average_outputs(args: EnsembleFlags, device: torch.device) -> dict[str, Any]:
    """Write the six files of averaged outputs: → dev scores of the ensemble and its members."""
    tasks = {path: trained_on(path) for path in args.checkpoints}
    count = {name: sum(name in trained for trained in tasks.values()) for name in args.tasks}
    check_all_trained(args, [name for name in args.tasks if count[name]])
    read_rows = row_reader(args)
    splits = [(name, split) for name in args.tasks for split in ("dev", "test")]
    splits = [(name, split) for name, split in splits if getattr(args, f"{name}_{split}")]
    total: dict[tuple[str, str], Any] = dict.fromkeys(splits, 0.0)
    members = []
    for path in args.checkpoints:
        model, config = load_model(path, device)
        remember_words(model, args)
        scores = {}
        for name, split in splits:
            if name not in tasks[path]:
                continue
            rows = read_rows(name, split, config.model)
            outputs = outputs_of(model, name, rows, args, device)
            total[name, split] += outputs / count[name]
            if split == "dev":
                scores[name] = score(name, outputs, rows)
        members.append({"checkpoint": path, **scores})
        print_row(path, scores)
    scores = {}
    for name, split in splits:
        rows = read_rows(name, split, config.model)  # labels and ids: the same for all
        decided = decide(name, total[name, split])
        predictions = {"sent_ids": [row[-1] for row in rows], "y_pred": decided}
        out = getattr(args, f"{name}_{split}_out")
        write_in_order(out, rows, predictions, TASKS[name].column)
        if split == "dev":
            scores[name] = score(name, total[name, split], rows)
    print_row(f"outputs of {len(args.checkpoints)} averaged", scores)
    return {"best": scores | {"overall": overall(scores)}, "members": members}


# ---------------------------------------------------------------------------------------------
# Weights averaged


def mean_weights(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each parameter; buffers of integers are taken from the first."""
    return {
        name: torch.stack([state[name] for state in states]).mean(dim=0)
        if first.is_floating_point()
        else first
        for name, first in states[0].items()
    }


def load_alike(paths: Sequence[str]) -> tuple[nn.Module, SimpleNamespace, list[dict]]:
    """A model, its configuration, and the weights of all checkpoints.

    Raises:
        InputError: they are not all of the same architecture, or not trained on the same tasks.
    """
    kinds, states = [], []
    for path in paths:
        model, config = load_model(path, torch.device("cpu"))
        states.append({name: weight.clone() for name, weight in model.state_dict().items()})
        kinds.append(vars(complete(config, ModelFlags)) | {"model": config.model})
        if kinds[-1] != kinds[0]:
            raise InputError(
                f"{path} and {paths[0]} are different kinds of models: their weights have no mean; "
                f"average their outputs, without --soup"
            )
    return model, config, states


def choose(
    alone: Sequence[float], measure: Callable[[list[int]], float]
) -> tuple[list[int], float]:
    """Wortsman et al.'s recipe 1: → (ingredients, the soup's score on dev).

    Args:
        alone: each ingredient's own score.
        measure: the score of a soup of these ingredients.
    """
    order = sorted(range(len(alone)), key=lambda i: -alone[i])
    chosen, best = order[:1], alone[order[0]]
    for i in order[1:]:
        with_next = measure([*chosen, i])
        if with_next >= best:
            chosen, best = [*chosen, i], with_next
    return chosen, best


def greedy_soup(args: EnsembleFlags, device: torch.device) -> dict[str, Any]:
    """Choose the ingredients on dev, save the soup, write its files: → its dev scores."""
    model, config, states = load_alike(args.checkpoints)
    check_all_trained(args, config.tasks)
    model.to(device)
    remember_words(model, args)
    read_rows = row_reader(args)
    measured: dict[tuple[int, ...], dict[str, float]] = {}

    def measure(chosen: list[int]) -> float:
        model.load_state_dict(mean_weights([states[i] for i in chosen]))
        scores = {}
        for name in args.tasks:
            rows = read_rows(name, "dev", config.model)
            scores[name] = score(name, outputs_of(model, name, rows, args, device), rows)
        measured[tuple(chosen)] = scores
        print_row(" + ".join(args.checkpoints[i] for i in chosen), scores)
        return overall(scores)

    chosen, best = choose([measure([i]) for i in range(len(states))], measure)
    ingredients = [args.checkpoints[i] for i in chosen]
    print(f"the soup: {' + '.join(ingredients)}")
    args.filepath, args.model = f"{args.out_dir}/soup-multitask.pt", config.model
    weights = mean_weights([states[i] for i in chosen])
    saved = {"model": weights, "config": vars(config), "args": vars(args)}
    save_checkpoint(args.filepath, saved)
    test(args, read_held_out(args))
    members = [{"checkpoint": path, **measured[i,]} for i, path in enumerate(args.checkpoints)]
    scores = measured[tuple(chosen)] | {"overall": best}
    return {"best": scores, "ingredients": ingredients, "members": members}


# ---------------------------------------------------------------------------------------------
# The command line


def course_tasks(text: str) -> list[str]:
    """An argparse type: the course's tasks, whose outputs have a mean."""
    return task_names(text, COURSE)


def get_args() -> EnsembleFlags:
    """The command line, completed by what a test takes for the rest."""
    parser = OneLineParser(prog="ensemble.py", description="Several checkpoints as one.")
    add = parser.add_argument
    add("checkpoints", nargs="+", metavar="CHECKPOINT")
    add("--soup", action="store_true", help="average weights, not outputs")
    add("--tasks", type=course_tasks, help="which ones, e.g. sst,sts")
    add("--batch_size", type=positive_int)
    add("--precision", choices=("auto", "fp32", "bf16"))
    add("--use_gpu", action="store_true", help="CUDA, or Apple's MPS")
    add("--data_dir", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--out_dir", help="folder of the prediction files and the soup")
    return find_files(parser.parse_args(namespace=EnsembleFlags()), COURSE)


def main() -> None:
    """Average, write the prediction files and ensemble-metrics.json."""
    begun = time.monotonic()
    args = get_args()
    check_writable(args.out_dir)
    for path in args.checkpoints:
        if not Path(path).is_file():
            raise InputError(f"no checkpoint at {path}; python extensions/multitask.py makes one")
    device = pick_device(args.use_gpu)
    metrics = greedy_soup(args, device) if args.soup else average_outputs(args, device)
    metrics |= {"seconds": round(time.monotonic() - begun, 1), "args": vars(args)}
    write_json(f"{args.out_dir}/ensemble-metrics.json", metrics)
    print(f"wrote {args.out_dir}/ensemble-metrics.json and the predictions")


if __name__ == "__main__":
    run_script(main)
