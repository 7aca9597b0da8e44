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
from pathlib import Path
from types import SimpleNamespace

import torch

import multitask_classifier as part2
from config import BertConfig
from datasets import SentenceClassificationTestDataset, TextDataset
from evaluation import overall, write_in_order
from extensions import tasks as our
from extensions.flags import RANKING, ModelFlags, TechniqueFlags, get_args
from extensions.gradients.pcgrad import pcgrad
from extensions.gradients.task_gradients import TaskGradients, plain_sum
from extensions.model import TechniquesBERT
from extensions.objective import Objective
from extensions.text.no_duplicates import without_duplicates
from extensions.text.sampling import Turns, plan_run
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.cli.flags import given_lines, hint_at_rate, print_settings, with_defaults
from training.cli.scripts import run_script
from training.cli.task_flags import check_files, find_files
from training.files.course_files import class_names
from training.files.errors import InputError
from training.files.hub import default_model
from training.files.writing import sha256_of
from training.loop import (
    Run,
    autocast_for,
    cache_encoder_outputs,
    check_device,
    clip,
    compile_encoder,
    evaluation_loader,
    is_main_process,
    join_processes,
    on_main_process,
    parts,
    pick_device,
    refuse_ended,
    restore_model,
    resume_path,
    save_model,
    set_lr,
    speed_up,
    unique_texts,
)
from training.loop.batches import LengthBatches
from training.loop.checkpoints import ResumePoint, run_settings
from utils import seed_everything

RULES = {"sum": plain_sum, "pcgrad": pcgrad}  # how the gradients of all tasks become one

# ---------------------------------------------------------------------------------------------
# Data and models


def read_held_out(args: TechniqueFlags) -> part2.HeldOut:
    """The dev sets, and the test sets of those tasks that have a file of them."""
    named = [(name, split) for name in args.tasks for split in ("dev", "test")]
    named = [(name, split) for name, split in named if getattr(args, f"{name}_{split}")]
    return {(name, split): our.read_set(name, args, split) for name, split in named}


def new_model(args: TechniqueFlags) -> tuple[TechniquesBERT, SimpleNamespace]:
    """A model on a pretrained BERT, and its configuration."""
    config = SimpleNamespace(
        **{field.name: getattr(args, field.name) for field in fields(ModelFlags)},
        option=args.option,
        hidden_dropout_prob=args.hidden_dropout_prob,
        hidden_size=BertConfig.from_pretrained(args.model).hidden_size,
        data_dir=".",
        model=args.model,
        labels=class_names(args.sst_dev or "", our.CLASSES["sst"]),
    )
    return TechniquesBERT(config), config


def load_model(
    filepath: str | Path, device: torch.device
) -> tuple[TechniquesBERT, SimpleNamespace]:
    """The model that save_model wrote, in evaluation mode, and its configuration."""
    return restore_model(
        filepath,
        device,
        TechniquesBERT,
        script="extensions/multitask.py",
        is_ours=lambda config: "pair_encoding" in config,
    )


def load_teachers(args: TechniqueFlags, device: torch.device) -> dict[str, list[TechniquesBERT]]:
    """Of each task the models of --teachers that were trained on it; {} without the flag.

    Raises:
        InputError: no teacher knows a task, or one has another vocabulary than the student.
    """
    teachers: dict[str, list[TechniquesBERT]] = {name: [] for name in args.tasks if args.teachers}
    for path in args.teachers or ():
        model, config = load_model(path, device)
        pieces = [BertTokenizer.from_pretrained(x.model).pieces for x in (config, args)]
        if pieces[0] != pieces[1]:
            raise InputError(f"--teachers {path} has another vocabulary than {args.model}")
        for name in teachers.keys() & config.tasks:
            teachers[name].append(model)
    for name, models in teachers.items():
        if not models:
            raise InputError(
                f"none of the --teachers was trained on {name}; leave it out of --tasks"
            )
    return teachers


# ---------------------------------------------------------------------------------------------
# Training


def new_turns(args: TechniqueFlags, joins_pairs: bool, sets: Mapping[str, TextDataset]) -> Turns:
    """The tasks' training batches, in the order of the steps."""
    samplers = {}
    for name, rows in sets.items():
        lengths = our.input_lengths(rows, joins_pairs)
        samplers[name] = LengthBatches(lengths, args.batch_size, args.seed)
        if getattr(args, f"{name}_extra") in RANKING:
            pairs = [(a.lower(), b.lower(), our.relation(name, label)) for a, b, label, _ in rows]
            samplers[name] = without_duplicates(samplers[name], pairs)
    steps = args.steps_per_epoch or sum(map(len, samplers.values()))
    kind = "together" if args.gradients else args.sampling
    sizes = {name: len(rows) for name, rows in sets.items()}
    first = (args.first_task, args.first_epochs)
    return Turns(plan_run(kind, sizes, steps, args.epochs, args.seed, *first), sets, samplers)


def train(args: TechniqueFlags, held_out: part2.HeldOut) -> None:
    """Train with the techniques of the flags; the best epoch on dev is kept in args.filepath."""
    device = pick_device(args.use_gpu)
    autocast = autocast_for(device, args.precision)
    train_sets = {name: our.read_set(name, args, "train") for name in args.tasks}
    dev_sets = {name: held_out[name, "dev"] for name in args.tasks}
    model, config = new_model(args)
    model.to(device)
    turns = new_turns(args, model.joins_pairs, train_sets)
    dev_loaders = {name: loader_of(rows, args, model) for name, rows in dev_sets.items()}
    optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    if args.fast:  # first: copies of the model have to draw the same dropout
        speed_up(model, optimizer)
    check_device(args, model, {our.HEADS[name]: rows for name, rows in train_sets.items()})
    objective = Objective(args, model, autocast, load_teachers(args, device))
    gradients = TaskGradients(model) if args.gradients else None
    if args.option == "pretrain" and model.is_cacheable and not args.reencode:
        texts = unique_texts([*train_sets.values(), *dev_sets.values()])
        rows = SentenceClassificationTestDataset(texts, args)
        with autocast():
            heads = [model.predict_sentiment]
            cache_encoder_outputs(model, heads, [rows], args.batch_size, device)
    if args.compile:
        compile_encoder(model, args, args.epochs * len(turns), graphs=gradients is None)

    teachers = {"teachers": [sha256_of(path) for path in args.teachers or ()]}
    point = ResumePoint(resume_path(args.filepath), run_settings(args) | teachers)
    report = part2.report_of(args, list(train_sets))

    with Run(args, model, optimizer, turns, report=report, point=point) as run:
        for _ in run.epochs():
            for step in run.batches():
                for name, batch in step["turns"]:  # of one task, or with --gradients of all
                    for *inputs, labels in parts(batch, args.accumulate, device, our.KEYS[name]):
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
                clip(model, args.clip)
                set_lr(optimizer, args, run.step, run.total_steps)
                optimizer.step()
                optimizer.zero_grad()
                run.end_step()
            with autocast():
                scores = our.evaluate(model, dev_loaders, device)
            if run.is_best(scores["overall"]):
                save_model(model, optimizer, args, config, args.filepath)
            run.end_epoch(run.means() | scores)


# ---------------------------------------------------------------------------------------------
# Testing, predicting, the command line


def loader_of(rows: TextDataset, args: TechniqueFlags, model: TechniquesBERT):
    """All rows once, in batches by the length of what the model reads."""
    return evaluation_loader(rows, args.batch_size, our.input_lengths(rows, model.joins_pairs))


def test(args: TechniqueFlags, held_out: part2.HeldOut) -> None:
    """Write each task's predictions for dev and test, and a report on dev of the course's tasks."""
    device = pick_device(args.use_gpu)
    model, config = load_model(args.filepath, device)
    if args.fast:
        speed_up(model)
    args = with_defaults(SimpleNamespace(**vars(args) | vars(config)), TechniqueFlags)
    report, scores = part2.report_of(args, args.tasks), {}
    for (name, split), rows in held_out.items():
        with autocast_for(device, args.precision)():
            predictions = our.predict_rows(model, name, loader_of(rows, args, model), device)
        out = getattr(args, f"{name}_{split}_out")
        write_in_order(out, rows, predictions, our.FILE_COLUMNS[name])
        if split == "dev":
            scores[name] = part2.score(name, predictions)
        if split == "dev" and name in our.COURSE:
            names = class_names(getattr(args, f"{name}_dev"), our.CLASSES[name])
            report.describe(f"{args.out_dir}/multitask-{name}", predictions, rows, names)
    report.conclude(args)
    shown = "".join(f"  {name} {score:.3f}" for name, score in scores.items())
    print(f"dev{shown}  overall {overall(scores):.3f}")
    print(f"wrote predictions to {args.out_dir}")


def main() -> None:
    """Train and test on all tasks, or predict."""
    args = get_args()
    if args.predict is not None:
        device = pick_device(args.use_gpu)
        part2.predict(*load_model(args.checkpoint, device), given_lines(args.predict), device)
        return
    join_processes(args.use_gpu)
    args.model = args.model or on_main_process(default_model)
    find_files(args, our.TASKS, our.STEMS)
    refuse_ended(args, [args.filepath], [resume_path(args.filepath)])
    hint_at_rate(args)
    check_files(args)
    print_settings(args, args.tasks)
    held_out = read_held_out(args)  # a fault must show before the training
    seed_everything(args.seed)
    train(args, held_out)
    if is_main_process():
        test(args, held_out)
        resume_path(args.filepath).unlink(missing_ok=True)


if __name__ == "__main__":
    run_script(main)
