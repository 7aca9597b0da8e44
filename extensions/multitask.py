"""Several tasks on one BERT, with techniques: what a flag switches on is described in its own file.

python -m extensions.multitask --option finetune --lr 2e-5 --gradients pcgrad
python -m extensions.multitask --option finetune --lr 2e-5 --tasks sts,nli --sampling annealed
python -m extensions.multitask --predict 'How old are you?' 'What is your age?' --checkpoint FILE
torchrun --nproc_per_node 2 -m extensions.multitask --option finetune --regulariser smart

Without a technique it trains what multitask_classifier.py trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader

import multitask_classifier as part2
from datasets import TextDataset
from evaluation import HEADS, HeldOut, predict_held_out
from extensions import tasks as our
from extensions.flags import RANKING, ModelFlags, TechniqueFlags, get_args
from extensions.gradients.pcgrad import pcgrad
from extensions.gradients.task_gradients import TaskGradients, plain_sum
from extensions.model import TechniquesBERT
from extensions.objective import Objective
from extensions.text.no_duplicates import NoDuplicates, compared_texts
from extensions.text.sampling import Turns
from optimizer import AdamW
from tokenizer import BertTokenizer
from training import loop
from training.cli.flags import given_lines, hint_at_rate
from training.cli.scripts import run_script
from training.cli.task_flags import find_files
from training.files.errors import InputError
from training.files.hub import default_model
from training.loop.batches import LengthBatches
from utils import seed_everything

RULES = {"sum": plain_sum, "pcgrad": pcgrad}  # how the gradients of all tasks become one

# ---------------------------------------------------------------------------------------------
# Data and models


def new_model(args: TechniqueFlags) -> tuple[TechniquesBERT, SimpleNamespace]:
    """A model on a pretrained BERT, and its configuration."""
    kept = {field.name: getattr(args, field.name) for field in fields(ModelFlags)}
    return part2.new_model(args, TechniquesBERT, **kept)


# The model that save_model wrote, in evaluation mode, and its configuration
load_model = partial(loop.restore_model, kind=TechniquesBERT)  # of a path, on a device


def load_teachers(args: TechniqueFlags, device: torch.device) -> dict[str, list[TechniquesBERT]]:
    """Of each task the models of --teachers that were trained on it; {} without the flag.

    Raises:
        InputError: no teacher knows a task, or one has another vocabulary than the student.
    """
    if not args.teachers:
        return {}
    known = {path: load_model(path, device) for path in args.teachers}
    for path, (_, config) in known.items():
        both = [BertTokenizer.from_pretrained(x.model) for x in (config, args)]
        theirs, ours = ((one.pieces, one.lower_case) for one in both)
        if theirs != ours:
            raise InputError(f"--teachers {path} has another tokenizer than {args.model}")
    teachers = {name: [m for m, c in known.values() if name in c.tasks] for name in args.tasks}
    for name, models in teachers.items():
        if not models:
            raise InputError(f"none of --teachers was trained on {name}; leave it out of --tasks")
    return teachers


# ---------------------------------------------------------------------------------------------
# Training


def new_turns(args: TechniqueFlags, sets: Mapping[str, TextDataset]) -> Turns:
    """The tasks' training batches, in the order of the steps."""
    loaders = {}
    for name, rows in sets.items():
        order = (rows.lengths(), args.batch_size, args.seed)
        batches = LengthBatches(*order)
        if getattr(args, f"{name}_extra") in RANKING:
            keys = [compared_texts(a, b, our.relation(name, label)) for a, b, label, _ in rows]
            batches = NoDuplicates(*order, keys)
        loaders[name] = DataLoader(rows, batch_sampler=batches)
    steps = args.steps_per_epoch or sum(map(len, loaders.values()))
    kind = "together" if args.gradients else args.sampling
    options = {"epochs": args.epochs, "seed": args.seed, "first_task": args.first_task}
    return Turns(loaders, steps, kind, **options)


def train(args: TechniqueFlags, held_out: HeldOut) -> None:
    """Train with the techniques of the flags; the best epoch on dev is kept in args.filepath."""
    device = loop.pick_device(args.use_gpu)
    autocast = loop.autocast_for(device, args.precision)
    train_sets = {name: our.read_set(name, args, "train") for name in args.tasks}
    model, config = new_model(args)
    model.to(device)
    turns = new_turns(args, train_sets)
    dev_sets = {name: held_out[name, "dev"] for name in args.tasks}
    dev_loaders = {t: loop.evaluation_loader(rows, args.batch_size) for t, rows in dev_sets.items()}
    optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    if args.fast:  # first: copies of the model have to draw the same dropout
        loop.speed_up(model, optimizer)
    loop.check_device(args, model, {HEADS[name]: rows for name, rows in train_sets.items()})
    objective = Objective(args, model, autocast, load_teachers(args, device))
    gradients = TaskGradients(model) if args.gradients else None

    with loop.Run(args, model, optimizer, turns, part2.report_of(args, args.tasks)) as run:
        for _ in run.epochs():
            for step in run.batches():
                for batch in step["turns"]:  # of one task, or with --gradients of all
                    name = batch["task"]
                    for *inputs, labels in loop.parts(batch, args.accumulate, device):
                        loss = objective(name, inputs, labels)
                        weight = getattr(args, f"{name}_weight")
                        loss_of_rows = weight * loss * len(labels) / len(batch["labels"])
                        run.scale(loss_of_rows).backward()
                        run.log(len(labels), **{"loss": loss, f"{name}_loss": loss})
                    if gradients:
                        gradients.take(name)
                if gradients:
                    gradients.combine(RULES[args.gradients], args.seed + run.step)
                run.gather_gradients()
                loop.clip(model, args.clip)
                loop.set_lr(optimizer, args, run.step, run.total_steps)
                optimizer.step()
                optimizer.zero_grad()
                run.end_step()
            with autocast():
                scores = part2.evaluate(model, dev_loaders, device)
            if run.is_best(scores["overall"]):
                loop.save_model(model, optimizer, args, config, args.filepath)
            run.end_epoch(scores)


# ---------------------------------------------------------------------------------------------
# Testing, predicting, the command line


def test(args: TechniqueFlags, held_out: HeldOut) -> None:
    """Write each task's predictions for dev and test, and print its score on dev."""
    device = loop.pick_device(args.use_gpu)
    model, config = load_model(args.filepath, device)
    if args.fast:
        loop.speed_up(model)
    with loop.autocast_for(device, args.precision)():
        predict_held_out(args, model, device, held_out, config.tasks)


def main() -> None:
    """Train and test on all tasks, or predict."""
    args = get_args()
    if args.predict is not None:
        device = loop.pick_device(args.use_gpu)
        part2.predict(*load_model(args.checkpoint, device), given_lines(args.predict), device)
        return
    loop.join_processes(args.use_gpu)
    args.model = args.model or loop.on_main_process(default_model)
    find_files(args)
    hint_at_rate(args)
    with loop.sole_run([args], [f"{args.out_dir}/multitask"]):
        held_out = our.read_held_out(args)  # a fault must show before the training
        seed_everything(args.seed)
        train(args, held_out)
        if loop.is_main_process():
            test(args, held_out)


if __name__ == "__main__":
    run_script(main)
