"""Several checkpoints of extensions/multitask.py as one: their outputs or their weights averaged.

    python -m extensions.ensemble a.pt b.pt c.pt
    python -m extensions.ensemble --soup a.pt b.pt c.pt

    outputs   p(y | x) = Σ_m p_m(y | x) / M        soup   f(x; Σ_m θ_m / M)

Without --soup, class probabilities and similarities are averaged; a checkpoint counts for the tasks
it was trained on. With --soup it is the weights, greedily (Wortsman et al. 2022, recipe 1): the
checkpoints, best on dev first, join one after the other, and stay if dev does not fall. They must
have the same architecture, and should have begun from the same weights, heads included: the same
--seed, and another --lr, say. The soup is chosen on dev, which flatters it a little there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from datasets import TextDataset
from evaluation import overall, write_in_order
from extensions.flags import ModelFlags, TechniqueFlags
from extensions.multitask import load_model, loader_of, read_held_out, test
from extensions.tasks import CLASSES, COURSE, FILE_COLUMNS, predict_rows, read_set
from multitask_classifier import score
from training.cli.flags import OneLineParser, positive_int, with_defaults
from training.cli.scripts import run_script
from training.cli.task_flags import find_files, task_names
from training.files.errors import InputError
from training.files.writing import check_writable, write_json
from training.loop import autocast_for, pick_device
from training.loop.checkpoints import save_checkpoint

ReadRows = Callable[[str, str, str], TextDataset]  # of a task and split, for a model


@dataclass
class EnsembleFlags(TechniqueFlags):
    """What goes into an ensemble, and what testing a model needs to know."""

    checkpoints: list[str] | None = None
    soup: bool = False
    batch_size: int = 32


def check_tasks(args: EnsembleFlags, known: set[str]) -> None:
    """InputError if no checkpoint was trained on one of the tasks."""
    if absent := set(args.tasks) - known:
        raise InputError(
            f"no checkpoint was trained on {', '.join(absent)}; leave that out with --tasks"
        )


def outputs_of(model: nn.Module, name: str, rows: TextDataset, args: EnsembleFlags) -> np.ndarray:
    """What a model says of each row, in the order of the data, as it can be averaged.

    → (N, 5) probabilities of sentiments, (N,) probabilities of "yes", or (N,) similarities.
    """
    device = next(model.parameters()).device
    with autocast_for(device, args.precision)():
        predictions = predict_rows(model, name, loader_of(rows, args, model), device)
    outputs = predictions["probabilities" if CLASSES[name] else "y_pred"]
    by_id = dict(zip(predictions["sent_ids"], outputs, strict=True))
    return np.array([by_id[row[-1]] for row in rows])


def decide(name: str, outputs: np.ndarray) -> list[float]:
    """Predictions from (averaged) outputs: the likeliest class, or the number itself."""
    if outputs.ndim == 2:
        return outputs.argmax(axis=1).tolist()
    return (outputs > 0.5).astype(int).tolist() if CLASSES[name] else outputs.tolist()


def dev_score(name: str, outputs: np.ndarray, rows: TextDataset) -> float:
    """The task's metric on labelled rows."""
    return score(name, {"y_true": [row[-2] for row in rows], "y_pred": decide(name, outputs)})


def print_row(title: str, scores: Mapping[str, float]) -> None:
    """A line of dev scores; overall only of a model that does all tasks of the course."""
    if scores.keys() >= set(COURSE):
        scores = scores | {"overall": overall(scores)}
    shown = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
    print(f"{shown}   {title}", flush=True)


# ---------------------------------------------------------------------------------------------
# Outputs averaged


def average_outputs(
    args: EnsembleFlags, read_rows: ReadRows, device: torch.device
) -> dict[str, Any]:
    """Write the files of averaged outputs: → dev scores of the ensemble and its members."""
    named = [(name, split) for name in args.tasks for split in ("dev", "test")]
    outputs = {key: [] for key in named if getattr(args, "_".join(key))}
    members, scores, known = [], {}, set()
    for path in args.checkpoints:
        model, config = load_model(path, device)
        members.append({"checkpoint": path})
        known.update(config.tasks)
        for name, split in outputs:
            if name in config.tasks:
                rows = read_rows(name, split, config.model)
                outputs[name, split].append(outputs_of(model, name, rows, args))
                if split == "dev":
                    members[-1][name] = dev_score(name, outputs[name, split][-1], rows)
        print_row(path, {name: members[-1][name] for name in args.tasks if name in members[-1]})
    check_tasks(args, known)
    for (name, split), of_members in outputs.items():
        rows = read_rows(name, split, config.model)  # labels and ids: the same for all
        mean = sum(one / len(of_members) for one in of_members)
        predictions = {"sent_ids": [row[-1] for row in rows], "y_pred": decide(name, mean)}
        write_in_order(getattr(args, f"{name}_{split}_out"), rows, predictions, FILE_COLUMNS[name])
        if split == "dev":
            scores[name] = dev_score(name, mean, rows)
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


def greedy_soup(args: EnsembleFlags, read_rows: ReadRows, device: torch.device) -> dict[str, Any]:
    """Choose the ingredients on dev, save the soup, write its files: → its dev scores."""
    kinds, states = [], []
    for path in args.checkpoints:
        model, config = load_model(path, torch.device("cpu"))
        states.append({name: weight.clone() for name, weight in model.state_dict().items()})
        kinds.append(vars(with_defaults(config, ModelFlags)) | {"model": config.model})
        if kinds[-1] != kinds[0]:
            raise InputError(
                f"{path} and {args.checkpoints[0]} are different kinds of models: their weights "
                "have no mean; average their outputs, without --soup"
            )
    check_tasks(args, set(config.tasks))
    model.to(device)
    sets = {name: read_rows(name, "dev", config.model) for name in args.tasks}
    measured: dict[tuple[int, ...], dict[str, float]] = {}

    def measure(chosen: list[int]) -> float:
        model.load_state_dict(mean_weights([states[i] for i in chosen]))
        scores = measured[tuple(chosen)] = {
            name: dev_score(name, outputs_of(model, name, rows, args), rows)
            for name, rows in sets.items()
        }
        print_row(" + ".join(args.checkpoints[i] for i in chosen), scores)
        return overall(scores)

    chosen, best = choose([measure([i]) for i in range(len(states))], measure)
    ingredients = [args.checkpoints[i] for i in chosen]
    print(f"the soup: {' + '.join(ingredients)}")
    args.filepath, args.model = f"{args.out_dir}/soup-multitask.pt", config.model
    weights = mean_weights([states[i] for i in chosen])
    save_checkpoint(args.filepath, {"model": weights, "config": vars(config), "args": vars(args)})
    test(args, read_held_out(args))
    members = [{"checkpoint": path, **measured[i,]} for i, path in enumerate(args.checkpoints)]
    scores = measured[tuple(chosen)] | {"overall": best}
    return {"best": scores, "ingredients": ingredients, "members": members}


# ---------------------------------------------------------------------------------------------
# The command line


def get_args() -> EnsembleFlags:
    """The command line, completed by what a test takes for the rest."""
    parser = OneLineParser(description="Several checkpoints as one.")
    add = parser.add_argument
    add("checkpoints", nargs="+", metavar="CHECKPOINT")
    add("--soup", action="store_true", help="average weights, not outputs")
    add("--tasks", type=task_names, help="which ones, e.g. sst,sts")
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

    @cache
    def read_rows(name: str, split: str, model: str) -> TextDataset:
        return read_set(name, replace(args, model=model), split)

    combine = greedy_soup if args.soup else average_outputs
    metrics = combine(args, read_rows, pick_device(args.use_gpu))
    metrics |= {"seconds": round(time.monotonic() - begun, 1), "args": vars(args)}
    write_json(f"{args.out_dir}/ensemble-metrics.json", metrics)
    print(f"wrote {args.out_dir}/ensemble-metrics.json and the predictions")


if __name__ == "__main__":
    run_script(main)
