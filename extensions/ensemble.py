"""Several checkpoints of extensions/multitask.py as one: their outputs or their weights averaged.

    python extensions/ensemble.py a.pt b.pt c.pt
    python extensions/ensemble.py --soup a.pt b.pt c.pt

    outputs   p(y | x) = Σ_m p_m(y | x) / M        soup   f(x; Σ_m θ_m / M)

Without --soup, class probabilities and similarities are averaged; a checkpoint counts for the tasks
it was trained on. With --soup it is the weights, greedily (Wortsman et al. 2022, recipe 1): the
checkpoints, best on dev first, join one after the other, and stay if dev does not fall. They must
have the same architecture, and should have begun from the same weights, heads included: the same
--seed, and another --lr, say. The soup is chosen on dev, which flatters it a little there.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch import Tensor, nn

from datasets import TextDataset
from evaluation import overall, write_in_order
from extensions.flags import ModelFlags, TechniqueFlags
from extensions.multitask import load_model, loader_of
from multitask_classifier import (
    CLASSES,
    FILE_COLUMNS,
    TASKS,
    HeldOut,
    predict_rows,
    read_held_out,
    score,
)
from training.cli.flags import OneLineParser, positive_int, with_defaults
from training.cli.scripts import run_script
from training.cli.task_flags import find_files
from training.files.errors import InputError
from training.files.writing import check_writable, write_json
from training.loop import autocast_for, pick_device
from training.loop.checkpoints import save_checkpoint

Outputs = Mapping[tuple[str, str], np.ndarray]  # by task and split, as HeldOut
ReadSets = Callable[[SimpleNamespace], HeldOut]  # of a model's configuration


@dataclass
class EnsembleFlags(TechniqueFlags):
    """What goes into an ensemble, and what testing a model needs to know."""

    checkpoints: list[str] | None = None
    soup: bool = False
    batch_size: int = 32


def outputs_of(model: nn.Module, sets: HeldOut, args: EnsembleFlags) -> Outputs:
    """What a model says of each row, in the order of the data, as it can be averaged.

    → of each set (N, 5) probabilities of sentiments, (N,) of "yes", or (N,) similarities.
    """
    device = next(model.parameters()).device
    outputs = {}
    for (name, split), rows in sets.items():
        with autocast_for(device, args.precision)():
            predictions = predict_rows(model, name, loader_of(rows, args, model), device)
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

    def score_of(name: str, rows: TextDataset) -> float:
        predicted = decide(name, outputs[name, "dev"])
        return score(name, {"y_true": [row[-2] for row in rows], "y_pred": predicted})

    scores = {name: score_of(name, rows) for (name, split), rows in sets.items() if split == "dev"}
    scores["overall"] = overall(scores)
    shown = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
    print(f"{shown}   {title}", flush=True)
    return scores


def write_predictions(args: EnsembleFlags, outputs: Outputs, sets: HeldOut) -> None:
    """Write the files of predictions."""
    for (name, split), rows in sets.items():
        predicted = decide(name, outputs[name, split])
        predictions = {"sent_ids": [row[-1] for row in rows], "y_pred": predicted}
        write_in_order(getattr(args, f"{name}_{split}_out"), rows, predictions, FILE_COLUMNS[name])


# ---------------------------------------------------------------------------------------------
# The two kinds


def average_outputs(args: EnsembleFlags, read: ReadSets, device: torch.device) -> dict[str, Any]:
    """Write the files of averaged outputs: → dev scores of the ensemble and its members."""
    of_members, members, sets = defaultdict(list), [], {}
    for path in args.checkpoints:
        model, config = load_model(path, device)
        outputs = outputs_of(model, read(config), args)
        members.append({"checkpoint": path} | dev_scores(path, outputs, read(config)))
        for key, values in outputs.items():
            of_members[key].append(values)
        sets |= read(config)  # labels and ids: the same for all
    means = {key: np.mean(values, axis=0) for key, values in of_members.items()}
    write_predictions(args, means, sets)
    title = f"outputs of {len(args.checkpoints)} averaged"
    return {"best": dev_scores(title, means, sets), "members": members}


def mean_weights(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each parameter; buffers of integers are taken from the first."""
    return {
        name: torch.stack([state[name] for state in states]).mean(dim=0)
        if first.is_floating_point()
        else first
        for name, first in states[0].items()
    }


def greedy_soup(args: EnsembleFlags, read: ReadSets, device: torch.device) -> dict[str, Any]:
    """Choose the ingredients on dev, save the soup, write its files: → its dev scores."""
    kinds, states = [], []
    for path in args.checkpoints:
        model, config = load_model(path, torch.device("cpu"))
        states.append({name: weight.clone() for name, weight in model.state_dict().items()})
        further = {"model": config.model, "tasks": config.tasks}
        kinds.append(vars(with_defaults(config, ModelFlags)) | further)
        if kinds[-1] != kinds[0]:
            raise InputError(
                f"{path} and {args.checkpoints[0]} are different kinds of models: their weights "
                "have no mean; average their outputs, without --soup"
            )
    model.to(device)
    dev_sets = {key: rows for key, rows in read(config).items() if key[1] == "dev"}

    def measure(*chosen: int) -> dict[str, float]:
        model.load_state_dict(mean_weights([states[i] for i in chosen]))
        title = " + ".join(args.checkpoints[i] for i in chosen)
        return dev_scores(title, outputs_of(model, dev_sets, args), dev_sets)

    alone = [measure(i) for i in range(len(states))]
    first, *others = sorted(range(len(states)), key=lambda i: -alone[i]["overall"])
    chosen, best = [first], alone[first]
    for i in others:
        scores = measure(*chosen, i)
        if scores["overall"] >= best["overall"]:
            chosen, best = [*chosen, i], scores
    ingredients = [args.checkpoints[i] for i in chosen]
    print(f"the soup: {' + '.join(ingredients)}")
    weights = mean_weights([states[i] for i in chosen])
    args.filepath, args.model = f"{args.out_dir}/soup-multitask.pt", config.model
    save_checkpoint(args.filepath, {"model": weights, "config": vars(config), "args": vars(args)})
    model.load_state_dict(weights)
    write_predictions(args, outputs_of(model, read(config), args), read(config))
    members = [{"checkpoint": p} | own for p, own in zip(args.checkpoints, alone, strict=True)]
    return {"best": best, "ingredients": ingredients, "members": members}


# ---------------------------------------------------------------------------------------------
# The command line


def get_args() -> EnsembleFlags:
    """The command line, completed by what a test takes for the rest."""
    parser = OneLineParser(prog="ensemble.py", description="Several checkpoints as one.")
    add = parser.add_argument
    add("checkpoints", nargs="+", metavar="CHECKPOINT")
    add("--soup", action="store_true", help="average weights, not outputs")
    add("--batch_size", type=positive_int)
    add("--precision", choices=("auto", "fp32", "bf16"))
    add("--use_gpu", action="store_true", help="CUDA, or Apple's MPS")
    add("--data_dir", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--out_dir", help="folder of the prediction files and the soup")
    return find_files(parser.parse_args(namespace=EnsembleFlags()), TASKS)


def main() -> None:
    """Average, write the prediction files and ensemble-metrics.json."""
    begun = time.monotonic()
    args = get_args()
    check_writable(args.out_dir)

    @cache
    def read_sets(model: str, *tasks: str) -> HeldOut:
        return read_held_out(replace(args, model=model, tasks=tasks))

    def read(config: SimpleNamespace) -> HeldOut:
        return read_sets(config.model, *config.tasks)

    combine = greedy_soup if args.soup else average_outputs
    metrics = combine(args, read, pick_device(args.use_gpu))
    metrics |= {"seconds": round(time.monotonic() - begun, 1), "args": vars(args)}
    write_json(f"{args.out_dir}/ensemble-metrics.json", metrics)
    print(f"wrote {args.out_dir}/ensemble-metrics.json and the predictions")


if __name__ == "__main__":
    run_script(main)
