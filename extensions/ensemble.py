"""Several checkpoints of part 2 as one: their answers or their weights averaged.

    python extensions/ensemble.py a.pt b.pt c.pt
    python extensions/ensemble.py --soup a.pt b.pt c.pt

Without --soup, class probabilities and similarities are averaged; a checkpoint counts for the tasks
it was trained on, so that the models may differ in kind, and models of one task each go together.

With --soup it is the weights, greedily (Wortsman et al. 2022, recipe 1): the checkpoints, best on
dev first, join one after the other, and stay if dev does not fall. One model comes out, as fast as
any of its ingredients. They must have the same architecture, and should have begun from the same
weights, heads included: the same --seed, and another --lr or --hidden_dropout_prob, say. Otherwise
little comes of it, and the soup is the best ingredient alone.

Both are measured on dev; the soup is also chosen there, which flatters it a little.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import training.threads  # noqa: F401, before torch

# isort: split
import numpy as np
import torch
from torch import Tensor, nn

from evaluation import write_in_order
from extensions.flags import TechniqueFlags, TechniqueModelFlags
from extensions.multitask import batch_sizes, load_model, remember_words, test
from extensions.tasks import STEMS
from multitask_classifier import (
    TASKS,
    Task,
    complete_flags,
    overall,
    read_set,
)
from training.cli.arguments import OneLineParser, positive_int
from training.cli.flags import complete
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import check_writable, write_json
from training.loop.batches import evaluation_loader
from training.loop.checkpoints import load_checkpoint, save_checkpoint
from training.loop.devices import autocast_for, pick_device
from training.tasks import input_lengths, task_names


@dataclass
class EnsembleFlags(TechniqueFlags):
    """What goes into an ensemble, and what testing a model needs to know."""

    checkpoints: list[str] | None = None
    soup: bool = False
    batch_size: int = 32


class Sets:
    """The data sets of all tasks, read and tokenized once for each pretrained model."""

    def __init__(self, args: EnsembleFlags):
        self.args = args
        self.known: dict[tuple, Any] = {}

    def get(self, task: Task, split: str, config: SimpleNamespace):
        """The data set as checkpoints of this configuration's pretrained model need it."""
        model = vars(config).get("model")
        key = (task.name, split, model)
        if key not in self.known:
            self.known[key] = read_set(task, replace(self.args, model=model), split)
        return self.known[key]


def trained_on(path: str) -> list[str]:
    """The tasks that a checkpoint was trained on; all of them if it doesn't say."""
    saved = load_checkpoint(path)
    args = saved.get("args") if isinstance(saved, dict) else None
    args = vars(args) if hasattr(args, "__dict__") else args or {}
    return [name for name in TASKS if name in args.get("tasks", TASKS)]


def answers(model: nn.Module, task: Task, rows, args, device: torch.device) -> np.ndarray:
    """What a model says of each row, in the order of the data, as it can be averaged.

    → (N, 5) probabilities of sentiments, (N,) probabilities of "yes", or (N,) similarities.
    """
    loader = evaluation_loader(rows, batch_sizes(args)[task.name], input_lengths(rows, model))
    with autocast_for(device, args.precision)():
        found = task.predict(loader, getattr(model, task.head), device)
    said = found["probabilities"] if task.classes else found["y_pred"]
    by_id = dict(zip(found["sent_ids"], said, strict=True))
    return np.array([by_id[row[-1]] for row in rows])


def decide(task: Task, said: np.ndarray) -> list[float]:
    """Predictions from (averaged) answers: the likeliest class, or the number itself."""
    if said.ndim == 2:
        return said.argmax(axis=1).tolist()
    return (said > 0.5).astype(int).tolist() if task.classes else said.tolist()


def score(task: Task, said: np.ndarray, rows) -> float:
    """The task's metric on labelled rows."""
    return task.metric([row[-2] for row in rows], decide(task, said))


def print_row(name: str, scores: Mapping[str, float], tasks: Sequence[str]) -> None:
    """A line of the table of dev scores; overall only of a model that does all tasks."""
    cells = [f"{scores[task]:7.3f}" if task in scores else "      –" for task in tasks]
    whole = f"{overall(scores):9.3f}" if len(cells) == len(scores) else "        –"
    print(f"{'  '.join(cells)}  {whole}   {name}", flush=True)


def print_heading(tasks: Sequence[str]) -> None:
    """The line above print_row's."""
    print("  ".join(f"{task:>7}" for task in tasks) + "    overall   (dev)")


# ---------------------------------------------------------------------------------------------
# Answers averaged


def average_answers(args: EnsembleFlags, device: torch.device) -> dict[str, Any]:
    """Write the six files of averaged answers: → dev scores of the ensemble and its members."""
    able = {path: trained_on(path) for path in args.checkpoints}
    count = {name: sum(name in able[path] for path in args.checkpoints) for name in args.tasks}
    without = [name for name, number in count.items() if not number]
    if without:
        raise InputError(
            f"no checkpoint here was trained on {', '.join(without)}; add one, or leave that out "
            f"with --tasks"
        )
    sets = Sets(args)
    splits = [(TASKS[name], split) for name in args.tasks for split in ("dev", "test")]
    splits = [(task, split) for task, split in splits if getattr(args, f"{task.name}_{split}")]
    total: dict[tuple[str, str], Any] = dict.fromkeys(
        ((task.name, split) for task, split in splits), 0.0
    )
    members = []
    print_heading(args.tasks)
    for path in args.checkpoints:
        model, config = load_model(path, device)
        remember_words(model, args)
        scores = {}
        for task, split in splits:
            if task.name not in able[path]:
                continue
            rows = sets.get(task, split, config)
            said = answers(model, task, rows, args, device)
            total[task.name, split] += said / count[task.name]
            if split == "dev":
                scores[task.name] = score(task, said, rows)
        members.append({"checkpoint": path, **scores})
        print_row(path, scores, args.tasks)
    scores = {}
    for task, split in splits:
        rows = sets.get(task, split, config)  # labels and ids: the same for all
        said = total[task.name, split]
        found = {"sent_ids": [row[-1] for row in rows], "y_pred": decide(task, said)}
        write_in_order(getattr(args, f"{task.name}_{split}_out"), rows, found, task.column)
        if split == "dev":
            scores[task.name] = score(task, said, rows)
    print_row(f"answers of {len(args.checkpoints)} averaged", scores, args.tasks)
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
    training_only = {"hidden_dropout_prob", "option"}
    kinds, states = [], []
    for path in paths:
        model, config = load_model(path, torch.device("cpu"))
        states.append({name: weight.clone() for name, weight in model.state_dict().items()})
        kind = vars(complete(config, TechniqueModelFlags)) | {"model": vars(config).get("model")}
        kind = {key: value for key, value in kind.items() if key not in training_only}
        kinds.append((kind, trained_on(path)))
        if kinds[-1] != kinds[0]:
            raise InputError(
                f"{path} and {paths[0]} are different kinds of models: their weights have no mean; "
                f"average their answers, without --soup"
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
        tried = measure([*chosen, i])
        if tried >= best:
            chosen, best = [*chosen, i], tried
    return chosen, best


def greedy_soup(args: EnsembleFlags, device: torch.device) -> dict[str, Any]:
    """Choose the ingredients on dev, save the soup, write its files: → its dev scores.

    The soup is never worse on dev than its best ingredient.
    """
    model, config, states = load_alike(args.checkpoints)
    absent = [name for name in args.tasks if name not in trained_on(args.checkpoints[0])]
    if absent:
        raise InputError(
            f"the checkpoints know no {', '.join(absent)}; leave that out with --tasks"
        )
    model.to(device)
    remember_words(model, args)
    sets = Sets(args)
    tasks = {TASKS[name]: sets.get(TASKS[name], "dev", config) for name in args.tasks}
    measured: dict[tuple[int, ...], dict[str, float]] = {}

    def measure(chosen: list[int]) -> float:
        model.load_state_dict(mean_weights([states[i] for i in chosen]))
        scores = {
            task.name: score(task, answers(model, task, rows, args, device), rows)
            for task, rows in tasks.items()
        }
        measured[tuple(chosen)] = scores
        print_row(" + ".join(args.checkpoints[i] for i in chosen), scores, args.tasks)
        return overall(scores)

    print_heading(args.tasks)
    alone = [measure([i]) for i in range(len(states))]
    chosen, best = choose(alone, measure)
    ingredients = [args.checkpoints[i] for i in chosen]
    print(f"the soup: {' + '.join(ingredients)}")
    args.filepath = f"{args.out_dir}/soup-multitask.pt"
    weights = mean_weights([states[i] for i in chosen])
    kept = {"config": vars(config), "args": vars(args)}
    save_checkpoint(args.filepath, {"model": weights, **kept})
    test(args)
    members = [{"checkpoint": path, **measured[i,]} for i, path in enumerate(args.checkpoints)]
    scores = measured[tuple(chosen)] | {"overall": best}
    return {"best": scores, "ingredients": ingredients, "members": members}


# ---------------------------------------------------------------------------------------------
# The command line


def get_args() -> EnsembleFlags:
    """The command line, completed by what a test takes for the rest."""
    parser = OneLineParser(prog="ensemble.py", description="Several checkpoints as one.")
    add = parser.add_argument
    add("checkpoints", nargs="+", metavar="CHECKPOINT")
    add("--soup", action="store_true", help="average weights, not answers")
    add("--tasks", type=partial(task_names, known=TASKS), help="which ones, e.g. sst,sts")
    add("--batch_size", type=positive_int)
    add("--precision", choices=("auto", "fp32", "bf16"))
    add("--use_gpu", action="store_true", help="CUDA, or Apple's MPS")
    add("--data_dir", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--out_dir", help="folder of the prediction files and the soup")
    return complete_flags(parser.parse_args(namespace=EnsembleFlags()), EnsembleFlags, STEMS)


def main() -> None:
    """Average, write the prediction files and ensemble-metrics.json."""
    begun = time.monotonic()
    args = get_args()
    check_writable(args.out_dir)
    for path in args.checkpoints:
        if not Path(path).is_file():
            raise InputError(f"no checkpoint at {path}; python multitask_classifier.py makes one")
    device = pick_device(args.use_gpu)
    found = greedy_soup(args, device) if args.soup else average_answers(args, device)
    found |= {"seconds": round(time.monotonic() - begun, 1), "args": vars(args)}
    write_json(f"{args.out_dir}/ensemble-metrics.json", found)
    print(f"wrote {args.out_dir}/ensemble-metrics.json and the predictions")


if __name__ == "__main__":
    run_script(main)
