"""multitask_classifier.py with techniques: what a flag switches on is described in its own file.

python extensions/multitask.py --option finetune --lr 2e-5 --gradients pcgrad --average ema
python extensions/multitask.py --option finetune --lr 2e-5 --tasks sts,nli --sampling annealed
python extensions/multitask.py --predict 'How old are you?' 'What is your age?' --checkpoint FILE
torchrun --nproc_per_node 2 extensions/multitask.py --option finetune --regulariser smart

Without a technique it trains what multitask_classifier.py trains, to the last bit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import training.threads  # noqa: F401, before torch

# isort: split
import torch
from torch import nn

from datasets import SentenceClassificationDataset, SentenceClassificationTestDataset, TextDataset
from extensions.flags import TechniqueFlags, TechniqueModelFlags, faults
from extensions.loss.objective import Objective
from extensions.loss.on_vectors import without_duplicates
from extensions.model import TechniquesBERT
from extensions.tasks import LOSSES, STEMS, TASKS
from extensions.text import sampling, synonyms
from extensions.update.step import Updates, make_optimizer
from multitask_classifier import (
    HeldOut,
    cache_texts,
    complete_flags,
    model_config,
    overall,
    predict,
    read_held_out,
    read_set,
    test_on,
)
from optimizer import AdamW
from solution.curriculum import drawn, round_robin
from training.acceleration import accelerate
from training.cli.arguments import given_lines
from training.cli.scripts import run_script
from training.files.course_files import SPLITS
from training.files.errors import InputError
from training.files.hub import default_model
from training.files.tables import read_table
from training.files.writing import sha256_of
from training.loop.batches import SINGLE, LengthBatches, evaluation_loader
from training.loop.checkpoints import restore_model, resume_path, save_model
from training.loop.devices import autocast_for, keep_freed_memory, pick_device
from training.loop.processes import (
    broadcast_parameters,
    is_main_process,
    join_processes,
    on_main_process,
)
from training.tasks import (
    Turns,
    check_run,
    evaluate,
    input_lengths,
    make_parser,
    mean_losses,
    new_run,
    parse_flags,
)
from utils import seed_everything

# ---------------------------------------------------------------------------------------------
# Models


def new_model(args: TechniqueFlags) -> tuple[TechniquesBERT, SimpleNamespace]:
    """A model on a pretrained BERT, and its configuration."""
    config = model_config(args, TechniqueModelFlags)
    model = TechniquesBERT(config)
    config.tagger = tagger_digest(args)  # after the model, which says if there is no tagger
    return model, config


def load_model(
    filepath: str | Path, device: torch.device
) -> tuple[TechniquesBERT, SimpleNamespace]:
    """A model that this script or multitask_classifier.py has saved, and its configuration."""
    return restore_model(
        filepath,
        device,
        TechniquesBERT,
        what="this model",
        script="multitask_classifier.py",
        is_ours=lambda config: "num_labels" not in config,
    )


def tagger_digest(args: TechniqueFlags) -> str | None:
    """Of the file of --tag_words, if it names one."""
    return None if args.tag_words in (None, "shapes") else sha256_of(args.tag_words)


def remember_words(model: TechniquesBERT, args: TechniqueFlags) -> None:
    """If words have features: give the model all texts of a run with their capitals."""
    if model.added.words is None:
        return
    for name in args.tasks:
        columns = ("sentence",) if TASKS[name].keys == SINGLE else ("sentence1", "sentence2")
        for path in filter(None, (getattr(args, f"{name}_{split}") for split in SPLITS)):
            table = read_table(Path(path), ("id", *columns), None)
            model.added.words.remember(table[list(columns)].to_numpy().flatten())


def load_teachers(args: TechniqueFlags, device: torch.device) -> dict[str, list[TechniquesBERT]]:
    """Of each task the models of --teachers that were trained on it; {} without the flag.

    Raises:
        InputError: no teacher knows a task, or one has another vocabulary than the student.
    """
    found: dict[str, list[TechniquesBERT]] = {name: [] for name in args.tasks if args.teachers}

    def pieces(config) -> list[str]:
        return SentenceClassificationTestDataset([], config).tokenizer.pieces

    for path in args.teachers or ():
        model, config = load_model(path, device)
        if pieces(config) != pieces(args):
            raise InputError(f"--teachers {path} has another vocabulary than {args.model}")
        remember_words(model, args)
        known = vars(config).get("tasks", TechniqueFlags().tasks)
        for name in found.keys() & known:
            found[name].append(model)
    for name, models in found.items():
        if not models:
            raise InputError(
                f"none of the --teachers was trained on {name}; leave it out of --tasks"
            )
    return found


# ---------------------------------------------------------------------------------------------
# Training


def batch_sizes(args: TechniqueFlags) -> dict[str, int]:
    """Of each task its own, or --batch_size."""
    return {name: getattr(args, f"{name}_batch_size") or args.batch_size for name in args.tasks}


def plan_epoch(args: TechniqueFlags, sizes: Mapping[str, int], steps: int, epoch: int) -> list[str]:
    """The task of every step of an epoch, from 1 on.

    Args:
        sizes: training examples of each task.
    """
    names = list(sizes)
    if args.gradients:  # in whole rounds: a rule wants every task's gradient
        return round_robin(names, len(names) * -(-steps // len(names)))
    if args.sampling in ("proportional", "annealed"):
        alpha = sampling.annealing(epoch, args.epochs) if args.sampling == "annealed" else 1.0
        return drawn(sampling.weights(sizes, alpha), steps, args.seed, epoch)
    if args.sampling in ("first", "before") and epoch <= args.first_epochs:
        return [args.first_task] * steps
    if args.sampling == "before":
        names.remove(args.first_task)
    return round_robin(names, steps)


def new_turns(args: TechniqueFlags, model: nn.Module, sets: Mapping[str, TextDataset]) -> Turns:
    """The tasks' training batches, in the order of the steps."""
    batches = {
        name: LengthBatches(input_lengths(sets[name], model), size, args.seed)
        for name, size in batch_sizes(args).items()
    }
    batches = without_duplicates(args, sets, batches)
    steps = args.steps_per_epoch or sum(map(len, batches.values()))
    sizes = {name: len(rows) for name, rows in sets.items()}
    plan = [plan_epoch(args, sizes, steps, epoch) for epoch in range(1, args.epochs + 1)]
    return Turns(plan, sets, batches)


def read_training_set(name: str, args: TechniqueFlags) -> TextDataset:
    """A task's training rows; those of sst with further wordings, if they are asked for."""
    found = read_set(TASKS[name], args, "train")
    if name != "sst" or not args.synonyms:
        return found
    known = synonyms.read_synonyms(args.wordnet)
    rows = synonyms.augmented(found.dataset, known, args.synonyms, args.synonym_share, args.seed)
    print(f"synonyms: {len(found)} sentences of sst have become {len(rows)}")
    return SentenceClassificationDataset(rows, args)


def train(args, held_out: HeldOut | None = None) -> None:
    """Train with the techniques of the flags; otherwise as train_multitask."""
    args = complete_flags(args, TechniqueFlags, STEMS)
    keep_freed_memory()
    device = pick_device(args.use_gpu)
    train_sets = {name: read_training_set(name, args) for name in args.tasks}
    dev_sets = (held_out or read_held_out(args, ["dev"], TASKS))["dev"]
    model, config = new_model(args)
    broadcast_parameters(model.to(device))
    turns = new_turns(args, model, train_sets)
    dev_loaders = {
        TASKS[name]: evaluation_loader(dev_sets[name], size, input_lengths(dev_sets[name], model))
        for name, size in batch_sizes(args).items()
    }
    remember_words(model, args)
    autocast = autocast_for(device, args.precision)
    losses = {name: LOSSES[name][getattr(args, f"{name}_loss")] for name in args.tasks}
    weights = {name: getattr(args, f"{name}_weight") for name in args.tasks}
    optimizer = make_optimizer(args, model, AdamW)
    accelerate(model, optimizer)  # first: copies of the model have to draw the same dropout
    objective = Objective(args, model, losses, autocast, load_teachers(args, device))
    update = Updates(args, model, objective.slow, len(turns) * args.epochs)
    if args.option == "pretrain" and model.texts_alone and not args.reencode:
        cache_texts(model.bert, [*train_sets.values(), *dev_sets.values()], args, device)
    if args.compile:
        model.compile()

    further = {"teachers": [sha256_of(path) for path in args.teachers or ()]}
    further["tagger"] = tagger_digest(args)
    stateful = {"turns": turns, "update": update}
    factor = update.factor if args.schedule else None
    run = new_run(args, model, optimizer, turns, further, stateful=stateful, factor=factor)
    with run:
        for _ in run.epochs():
            for batch in run.batches():
                task = TASKS[batch["task"]]
                for *inputs, labels in run.micro_batches(batch, task.keys):
                    share = len(labels) / len(batch["labels"])
                    for loss in objective(task, inputs, labels):  # one, or FreeLB's several
                        run.backward(loss * weights[task.name] * share)
                        run.add(**{f"{task.name}_loss": loss.item() * share})
                    run.add(**{f"{task.name}_steps": share})
                run.reduce()
                if update.is_whole(task.name, run.step_number - 1):  # every task's gradient is in
                    run.step()
                    update.after(run.step_number - 1)
            with run.autocast(), update.averaged_weights(model):
                scores = evaluate(model, dev_loaders, device)
                if run.is_best(overall(scores)):
                    save_model(model, optimizer, args, config, args.filepath)
            run.end_epoch(mean_losses(run.totals.sums) | scores | {"overall": overall(scores)})


# ---------------------------------------------------------------------------------------------
# Testing, predicting, the command line


def test(args, held_out: HeldOut | None = None) -> None:
    """What test_model of multitask_classifier.py does, for a model with techniques."""
    args = complete_flags(args, TechniqueFlags, STEMS)
    device = pick_device(args.use_gpu)
    model, config = load_model(args.filepath, device)
    vars(args).update(vars(config))
    remember_words(model, args)
    sizes = {TASKS[name]: size for name, size in batch_sizes(args).items()}
    test_on(model, sizes, args, device, held_out or read_held_out(args, tasks=TASKS))


def remembered(model: TechniquesBERT, lines: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """The lines; before each the model is given its words, if words have features."""
    for texts in lines:
        if model.added.words is not None:
            model.added.words.remember(texts)
        yield texts


def get_args(arguments: Sequence[str] | None = None) -> TechniqueFlags:
    """The flags of a command line, checked."""
    parser, args = make_parser(TechniqueFlags), TechniqueFlags()
    parse_flags(parser, args, arguments, STEMS)
    for fault in faults(args):
        parser.error(fault)
    return args


def main() -> None:
    """Train and test on all tasks, or predict."""
    args = get_args()
    if args.predict is not None:
        device = pick_device(args.use_gpu)
        model, config = load_model(args.checkpoint, device)
        predict(model, config, remembered(model, given_lines(args.predict)), device)
        return
    join_processes(args.use_gpu)
    args.model = args.model or on_main_process(default_model)
    args = complete_flags(args, TechniqueFlags, STEMS)
    check_run(args)
    held_out = read_held_out(args, tasks=TASKS)  # a fault must show before the training
    seed_everything(args.seed)
    train(args, held_out)
    if is_main_process():
        test(args, held_out)
        resume_path(args.filepath).unlink(missing_ok=True)


if __name__ == "__main__":
    run_script(main)
