"""Several tasks on one BERT, with techniques: what a flag switches on is described in its own file.

python extensions/multitask.py --option finetune --lr 2e-5 --gradients pcgrad
python extensions/multitask.py --option finetune --lr 2e-5 --tasks sts,nli --sampling annealed
python extensions/multitask.py --predict 'How old are you?' 'What is your age?' --checkpoint FILE
torchrun --nproc_per_node 2 extensions/multitask.py --option finetune --regulariser smart

Without a technique it trains what multitask_classifier.py trains.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import training  # noqa: F401, before torch

# isort: split
import torch

import multitask_classifier as part2
from config import BertConfig
from datasets import SentenceClassificationTestDataset, TextDataset
from evaluation import overall, write_in_order
from extensions.flags import OPTIMIZERS, ModelFlags, TechniqueFlags, get_args
from extensions.gradients.pcgrad import pcgrad
from extensions.gradients.task_gradients import TaskGradients, plain_sum
from extensions.loss import smart
from extensions.model import TechniquesBERT
from extensions.objective import Objective
from extensions.tasks import (
    CLASSES,
    COURSE,
    FILE_COLUMNS,
    HEADS,
    KEYS,
    STEMS,
    TASKS,
    evaluate,
    input_lengths,
    predict_rows,
    read_set,
    relation,
    score,
)
from extensions.text.no_duplicates import without_duplicates
from extensions.text.sampling import Turns, plan_run
from tokenizer import BertTokenizer
from training.cli.flags import complete, given_lines, hint_at_rate, print_settings
from training.cli.scripts import run_script
from training.cli.task_flags import check_files, find_files
from training.files.course_files import SPLITS, class_names
from training.files.errors import InputError
from training.files.hub import default_model
from training.files.tables import read_table
from training.files.writing import sha256_of
from training.loop.batches import SINGLE, LengthBatches, evaluation_loader
from training.loop.checkpoints import (
    ResumePoint,
    end_run,
    has_ended,
    restore_model,
    resume_path,
    run_settings,
    save_model,
)
from training.loop.device_check import check_device
from training.loop.devices import autocast_for, compile_encoder, pick_device, speed_up
from training.loop.encoder_outputs import cache_encoder_outputs, unique_texts
from training.loop.processes import is_main_process, join_processes, on_main_process
from training.loop.run import Run
from training.reports.error_analysis import describe
from utils import seed_everything

RULES = {"sum": plain_sum, "pcgrad": pcgrad}  # how the gradients of all tasks become one

# ---------------------------------------------------------------------------------------------
# Data and models


def read_held_out(args: TechniqueFlags) -> part2.HeldOut:
    """The dev sets, and the test sets of those tasks that have a file of them."""
    named = [(n, split) for n in args.tasks for split in ("dev", "test")]
    named = [(name, split) for name, split in named if getattr(args, f"{name}_{split}")]
    return {(name, split): read_set(name, args, split) for name, split in named}


def new_model(args: TechniqueFlags) -> tuple[TechniquesBERT, SimpleNamespace]:
    """A model on a pretrained BERT, and its configuration."""
    config = SimpleNamespace(
        **{field.name: getattr(args, field.name) for field in fields(ModelFlags)},
        option=args.option,
        hidden_dropout_prob=args.hidden_dropout_prob,
        hidden_size=BertConfig.from_pretrained(args.model).hidden_size,
        data_dir=".",
        model=args.model,
        labels=class_names(args.sst_dev or "", part2.CLASSES["sst"]),
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


def remember_words(model: TechniquesBERT, args: TechniqueFlags) -> None:
    """If words have tags: give the model all texts of a run with their capitals."""
    if model.words is None:
        return
    for name in args.tasks:
        columns = ["sentence"] if KEYS[name] == SINGLE else ["sentence1", "sentence2"]
        for path in filter(None, (getattr(args, f"{name}_{split}") for split in SPLITS)):
            table = read_table(Path(path), ("id", *columns), None)
            model.words.remember(table[columns].to_numpy().flatten())


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
        remember_words(model, args)
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
        extra = getattr(args, f"{name}_extra", None) or ""
        samplers[name] = LengthBatches(input_lengths(rows, joins_pairs), args.batch_size, args.seed)
        if extra.startswith("ranking") or (name, extra) == ("nli", "simcse"):
            pairs = [(a.lower(), b.lower(), relation(name, label)) for a, b, label, _ in rows]
            samplers[name] = without_duplicates(samplers[name], pairs)
    steps = args.steps_per_epoch or sum(map(len, samplers.values()))
    kind = "together" if args.gradients else args.sampling
    sizes = {name: len(rows) for name, rows in sets.items()}
    first = (args.first_task, args.first_epochs)
    return Turns(plan_run(kind, sizes, steps, args.epochs, args.seed, *first), sets, samplers)


def new_run(args: TechniqueFlags, model, optimizer, turns: Turns, slow) -> Run:
    """The run of these flags: its files, what is resumed and what it reports."""
    same = {"teachers": [sha256_of(path) for path in args.teachers or ()]}
    return Run(
        args,
        model,
        optimizer,
        turns,
        point=ResumePoint(resume_path(args.filepath), run_settings(args) | same),
        report=part2.report_of(args, list(turns.datasets)),
        stateful={"slow": slow} if slow else None,
    )


def train(args: TechniqueFlags, held_out: part2.HeldOut) -> None:
    """Train with the techniques of the flags; the best epoch on dev is kept in args.filepath."""
    device = pick_device(args.use_gpu)
    train_sets = {name: read_set(name, args, "train") for name in args.tasks}
    dev_sets = {name: held_out[name, "dev"] for name in args.tasks}
    model, config = new_model(args)
    model.to(device)
    remember_words(model, args)
    turns = new_turns(args, model.joins_pairs, train_sets)
    dev_loaders = {name: loader_of(rows, args, model) for name, rows in dev_sets.items()}
    learning = [p for p in model.parameters() if p.requires_grad]
    optimizer = OPTIMIZERS[args.optimizer](learning, lr=args.lr)
    if args.fast:  # first: copies of the model have to draw the same dropout
        speed_up(model, optimizer)
    check_device(args, model, {HEADS[name]: rows for name, rows in train_sets.items()})
    autocast = autocast_for(device, args.precision)
    objective = Objective(args, model, autocast, load_teachers(args, device))
    gradients = TaskGradients(model) if args.gradients else None
    if args.option == "pretrain" and model.is_cacheable and not args.reencode:
        texts = unique_texts([*train_sets.values(), *dev_sets.values()])
        rows = SentenceClassificationTestDataset(texts, args)
        with autocast():
            heads = [model.predict_sentiment]
            cache_encoder_outputs(model, heads, [rows], args.batch_size, device)
    if args.compile:
        steps = args.epochs * len(turns)
        compile_encoder(model, args, steps, graphs=args.gradients is None)

    with new_run(args, model, optimizer, turns, objective.slow) as run:
        for _ in run.epochs():
            for step in run.batches():
                for name, batch in step["turns"]:  # of one task, or with --gradients of all
                    for *inputs, labels in run.micro_batches(batch, KEYS[name]):
                        loss = objective(name, inputs, labels)
                        weight = getattr(args, f"{name}_weight")
                        loss_of_rows = weight * loss * len(labels) / len(batch["labels"])
                        run.scale(loss_of_rows).backward()
                        run.log(len(labels), **{"loss": loss, f"{name}_loss": loss})
                    if gradients:
                        gradients.take(name)
                if gradients:
                    gradients.combine(RULES[args.gradients], args.seed + run.position.step)
                run.before_update()
                optimizer.step()
                optimizer.zero_grad()
                if objective.slow:
                    beta = smart.momentum(run.position.step, run.total_steps)
                    objective.slow.follow(model, beta)
                run.end_step()
            with run.autocast():
                scores = evaluate(model, dev_loaders, device)
            if run.is_best(scores["overall"]):
                save_model(model, optimizer, args, config, args.filepath)
            run.end_epoch(run.means() | scores)


# ---------------------------------------------------------------------------------------------
# Testing, predicting, the command line


def loader_of(rows: TextDataset, args: TechniqueFlags, model: TechniquesBERT):
    """All rows once, in batches by the length of what the model reads."""
    return evaluation_loader(rows, args.batch_size, input_lengths(rows, model.joins_pairs))


def test(args: TechniqueFlags, held_out: part2.HeldOut) -> None:
    """Write each task's predictions for dev and test, and a report on dev of the course's tasks."""
    device = pick_device(args.use_gpu)
    model, config = load_model(args.filepath, device)
    if args.fast:
        speed_up(model)
    args = complete(SimpleNamespace(**vars(args) | vars(config)), TechniqueFlags)
    remember_words(model, args)
    scores, results = {}, []
    for (name, split), rows in held_out.items():
        with autocast_for(device, args.precision)():
            predictions = predict_rows(model, name, loader_of(rows, args, model), device)
        write_in_order(getattr(args, f"{name}_{split}_out"), rows, predictions, FILE_COLUMNS[name])
        if split == "dev":
            scores[name] = score(name, predictions)
        if split == "dev" and name in COURSE:
            names = class_names(getattr(args, f"{name}_dev"), CLASSES[name])
            results.append(describe(f"{args.out_dir}/multitask-{name}", predictions, rows, names))
    part2.report_of(args, list(scores)).conclude(args, results)
    shown = "".join(f"  {name} {score:.3f}" for name, score in scores.items())
    print(f"dev{shown}  overall {overall(scores):.3f}")
    print(f"wrote predictions to {args.out_dir}")


def lines_for(model: TechniquesBERT, texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The lines to predict, with their capitals given to the model where words have tags."""
    for line in given_lines(texts):
        if model.words is not None:
            model.words.remember(line)
        yield line


def main() -> None:
    """Train and test on all tasks, or predict."""
    args = get_args()
    if args.predict is not None:
        device = pick_device(args.use_gpu)
        model, config = load_model(args.checkpoint, device)
        part2.predict(model, config, lines_for(model, args.predict), device)
        return
    join_processes(args.use_gpu)
    args.model = args.model or on_main_process(default_model)
    find_files(args, TASKS, STEMS)
    if has_ended(resume_path(args.filepath), f"{args.out_dir}/multitask-", args):
        return
    hint_at_rate(args)
    check_files(args)
    print_settings(args, args.tasks)
    held_out = read_held_out(args)  # a fault must show before the training
    seed_everything(args.seed)
    train(args, held_out)
    if is_main_process():
        test(args, held_out)
        end_run(resume_path(args.filepath), f"{args.out_dir}/multitask-")


if __name__ == "__main__":
    run_script(main)
