"""The flags that switch techniques on, and the combinations that are refused.

Everything is off by default. What decides what the model looks like is kept in its checkpoint.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from typing import Any

import torch

from extensions.features import pooling
from extensions.tasks import COURSE, TASKS
from extensions.text import sampling
from optimizer import AdamW
from training.cli.flags import flag, positive_float, positive_int, probability
from training.cli.task_flags import TaskFlags, data_file, parse_task_flags
from training.files.course_files import SPLITS

OPTIMIZERS = {
    "adamw": AdamW,
    "adam": torch.optim.Adam,
    "sgd": partial(torch.optim.SGD, momentum=0.9),
}


def task_names(text: str, known: Iterable[str] = tuple(TASKS)) -> list[str]:
    """An argparse type: sst,para,sts or others, in the table's order."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{unknown[0]!r} is not a task; there are {', '.join(known)}"
        )
    return [name for name in known if name in names]


@dataclass
class ModelFlags:
    """Those that a checkpoint keeps, because the model depends on them."""

    tasks: list[str] = flag(list(COURSE), type=task_names, help="which ones, e.g. sst,sts,nli,ner")
    pair_encoding: str = flag(
        "bi",
        choices=("bi", "cross"),
        help="each sentence on its own, or [CLS] a [SEP] b [SEP] in one pass",
    )
    pooling: str = flag("pooler", choices=pooling.KINDS, help="a sentence's vector")
    similarity: str = flag("linear", choices=("linear", "cosine"), help="head of sts")
    separate_layers: int = flag(0, type=int, help="how many top layers each task has alone")
    pals: int | None = flag(
        None, type=positive_int, metavar="SIZE", help="a projected attention layer a task"
    )
    pal_heads: int = flag(12, type=positive_int, help="with --pals")
    adapt: str | None = flag(None, choices=("lora",), help="the rest of BERT stays as it is")
    rank: int = flag(8, type=positive_int, help="of LoRA")
    tag_words: str | None = flag(
        None, path="reads", metavar="TAGS", help="'shapes', or a tagger's file: features of words"
    )
    tagger: str | None = None  # the digest of that file


def task_fields() -> Iterator[tuple[str, Any, Any]]:
    """The fields of every task: batch size, weight, losses, and the files of further tasks."""
    for name, task in TASKS.items():
        if name not in COURSE:
            for split, ending in SPLITS.items():
                yield f"{name}_{split}", str, data_file(f"data/{name}-{ending}.csv", split)
            for split in ("dev", "test"):
                yield f"{name}_{split}_out", str | None, flag(None, path="writes")
        size = flag(None, type=positive_int, help="default: --batch_size")
        yield f"{name}_batch_size", int | None, size
        yield f"{name}_weight", float, flag(1.0, type=positive_float, help="of its loss")
        yield f"{name}_loss", str, flag(next(iter(task.losses)), choices=tuple(task.losses))
        extra = flag(None, choices=task.extras, help="a loss on vectors, added to the task's own")
        yield f"{name}_extra", str | None, extra if task.extras else field(default=None)


AllTaskFlags = make_dataclass("AllTaskFlags", task_fields(), bases=(TaskFlags,))


@dataclass
class TechniqueFlags(ModelFlags, AllTaskFlags):
    """All that a run with techniques needs to know."""

    sampling: str = flag("round_robin", choices=sampling.KINDS, help="which task is next")
    first_task: str = flag("para", choices=tuple(TASKS), help="--sampling before")
    first_epochs: int = flag(1, type=positive_int, help="--sampling before")
    extra_weight: float = flag(0.1, type=positive_float, help="of --sst_extra and its like")
    regulariser: str | None = flag(
        None, choices=("r_drop", "smart"), help="outputs that hardly change"
    )
    regulariser_weight: float = flag(1.0, type=positive_float, help="λ of SMART, α of R-Drop")
    epsilon: float = flag(5e-2, type=positive_float, help="size of SMART's perturbation")
    ascents: int = flag(1, type=positive_int, help="SMART's steps of the search")
    bregman: float | None = flag(
        None, type=positive_float, help="μ: stay near a slow copy of the model (SMART)"
    )
    gradients: str | None = flag(
        None,
        choices=("sum", "pcgrad"),
        help="a step takes a batch of every task, and how their gradients become one",
    )
    optimizer: str = flag(
        "adamw", choices=tuple(OPTIMIZERS), help="adamw is the course's own, the others torch's"
    )
    teachers: list[str] | None = flag(
        None, nargs="+", metavar="FILE", help="checkpoints whose outputs are learned"
    )
    teacher_share: float = flag(
        0.5, type=probability, help="weight of their loss; the labels have the rest"
    )


# ---------------------------------------------------------------------------------------------
# What is refused. A condition is "flag" (it is given) or "flag=value".

EXTRAS = tuple(f"{name}_extra" for name, task in TASKS.items() if task.extras)
ON_PAIRS = tuple(extra for extra in EXTRAS if extra != "sst_extra")
COMPARES_ROWS = (
    *(f"{extra}={kind}" for extra in EXTRAS for kind in ("ranking", "ranking_symmetric", "simcse")),
    "sts_loss=cosent",
)
NOT_TOGETHER: Sequence[tuple[str, Sequence[str], str]] = (
    ("pair_encoding=cross", ("similarity=cosine", *ON_PAIRS), "it makes one vector of both texts"),
    ("accumulate", COMPARES_ROWS, "that loss compares the rows of a batch"),
    ("option=pretrain", ("regulariser=smart", "bregman", "adapt"), "BERT is frozen"),
    ("option=pretrain", ("tag_words", "gradients"), "BERT is frozen"),
    ("compile", ("regulariser=smart", "bregman", *EXTRAS), "that looks into the model"),
    ("regulariser=r_drop", ("bregman", "teachers", *EXTRAS), "it has every row twice in a batch"),
    ("tasks=ner", ("regulariser", "bregman", "teachers", "tag_words"), "it has an output a word"),
    ("adapt=lora", ("pals", "separate_layers"), "it freezes what that is about"),
    ("gradients", tuple(f"sampling={kind}" for kind in sampling.KINDS[1:]), "a step has all tasks"),
)
NEEDS: Sequence[tuple[str, Sequence[str]]] = (  # a flag, and those without which it does nothing
    ("first_task", ("sampling=before",)),
    ("first_epochs", ("sampling=before",)),
    ("pal_heads", ("pals",)),
    ("rank", ("adapt=lora",)),
    ("epsilon", ("regulariser=smart",)),
    ("ascents", ("regulariser=smart",)),
    ("regulariser_weight", ("regulariser",)),
    ("extra_weight", EXTRAS),
    ("teacher_share", ("teachers",)),
)


def holds(args: TechniqueFlags, condition: str) -> bool:
    """Whether a flag is given, or has a value."""
    name, _, value = condition.partition("=")
    given = getattr(args, name)
    if not value:
        return given != getattr(TechniqueFlags(), name)
    return value in given if isinstance(given, list) else value == given


def spelled(condition: str) -> str:
    """A condition as it stands on the command line."""
    return "--" + condition.replace("=", " ")


def faults(args: TechniqueFlags) -> Iterator[str]:
    """Why these flags make no sense together, a sentence each."""
    for first, others, why in NOT_TOGETHER:
        for other in others:
            if holds(args, first) and holds(args, other):
                yield f"{spelled(first)} and {spelled(other)} do not go together: {why}"
    for condition, others in NEEDS:
        if holds(args, condition) and not any(holds(args, other) for other in others):
            yield f"{spelled(condition)} needs {' or '.join(map(spelled, others))}"
    for name in TASKS.keys() - set(args.tasks):
        for kind in ("batch_size", "weight", "loss", "extra"):
            if holds(args, f"{name}_{kind}"):
                yield f"--{name}_{kind} needs {name} among the --tasks"
    if args.sampling == "before":
        if args.first_task not in args.tasks or args.first_epochs >= args.epochs:
            yield "--sampling before: --first_task is not in --tasks, or takes all epochs"
        if len(args.tasks) == 1:
            yield "--sampling before needs two --tasks"
    if args.gradients and len(args.tasks) == 1:
        yield f"--gradients {args.gradients} needs two --tasks"
    if args.option == "pretrain" and not args.pals and not args.separate_layers:
        if args.similarity == "cosine" or any(holds(args, extra) for extra in EXTRAS):
            yield "a loss on vectors has nothing to change in a frozen BERT: use --option finetune"
    if args.pals and args.pals % args.pal_heads:
        yield f"--pals {args.pals} is not a multiple of --pal_heads {args.pal_heads}"


def get_args(arguments: Sequence[str] | None = None) -> TechniqueFlags:
    """The flags of a command line, checked."""
    return parse_task_flags(TechniqueFlags(), arguments, tuple(TASKS), faults)
