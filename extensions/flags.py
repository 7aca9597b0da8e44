"""The flags that switch techniques on, and the combinations that are refused, each with its reason.

Everything is off by default: without these flags a run is the plain one, to the last bit. Flags
that decide what the model looks like are MODEL_FLAGS; a checkpoint has to keep them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from extensions import adapters, heads, lora
from training.arguments import positive_float, positive_int, probability

EXTRAS = {  # losses on sentences' vectors, beside a task's own
    "sst": ("supcon", "simcse"),
    "para": ("ranking", "ranking_symmetric", "cosine_embedding", "simcse"),
    "sts": ("ranking", "ranking_symmetric", "angle", "simcse"),
    "nli": ("ranking", "ranking_symmetric", "simcse"),
}
COMPARE_ROWS = {"supcon", "simcse", "ranking", "ranking_symmetric", "angle"}
PERTURB = ("r3f", "smart", "fgm", "freelb")
REGULARISERS = ("r_drop", *PERTURB)
RULES = ("sum", "pcgrad", "gradvac", "cagrad")
RANKED = (*lora.KINDS, *adapters.KINDS)
ADAPTATIONS = (*RANKED, "bitfit")
OPTIMIZERS = ("adamw", "adam", "lion", "sgd")
SCHEDULES = ("cosine", "sqrt")
MODEL_FLAGS = (
    "reinit",
    "mixout",
    "adapt",
    "rank",
    "pals",
    "pal_heads",
    "head_layers",
    "task_weights",
    "tag_words",
    "count_features",
)


def add_flags(parser: argparse.ArgumentParser, tasks: dict[str, Any]) -> None:
    """All flags of this folder that a training script of several tasks takes."""
    group = parser.add_argument_group("techniques (docs/extensions.md)")
    add = group.add_argument
    for name in tasks:
        add(
            f"--{name}_extra",
            choices=EXTRAS.get(name, ()),
            help="a loss on vectors beside the task's own",
        )
    add("--extra_weight", type=positive_float, default=0.1, help="of these losses")
    add("--regulariser", choices=REGULARISERS, help="outputs that hardly change, or adversaries")
    add("--regulariser_weight", type=positive_float, default=1.0, help="λ or α; not of freelb")
    add("--epsilon", type=positive_float, help="size of what is added to embeddings")
    add("--ascents", type=positive_int, help="steps of smart (1) and freelb (2)")
    add("--bregman", type=positive_float, help="μ: stay near a slow copy of the model (SMART)")
    add(
        "--gradients",
        choices=RULES,
        help="a step takes a batch of every task, and how their gradients become one",
    )
    add("--task_weights", choices=("uncertainty",), help="learned weights of the losses")
    add("--pals", type=positive_int, metavar="SIZE", help="a projected attention layer a task")
    add("--pal_heads", type=positive_int, default=12, help="with --pals")
    add("--adapt", choices=ADAPTATIONS, help="fine-tune few numbers, the rest stays as it is")
    add("--rank", type=positive_int, help="of LoRA (8); of adapters their width (8)")
    add("--mixout", type=probability, help="fall back to pretrained weights with that probability")
    add("--reinit", type=positive_int, metavar="LAYERS", help="so many top layers start anew")
    add("--layer_decay", type=positive_float, help="factor on lr from a layer to the one below")
    add("--average", choices=("ema", "swa"), help="evaluate and keep averaged weights")
    add("--average_decay", type=probability, default=0.999, help="with --average ema")
    add("--optimizer", choices=OPTIMIZERS, default="adamw", help="adamw is the course's own")
    add("--schedule", choices=SCHEDULES, help="how lr falls; --decay is the linear one")
    add("--head_layers", type=int, choices=heads.LAYERS, default=1, help="of every head")
    add("--teachers", nargs="+", metavar="FILE", help="checkpoints whose answers are learned")
    add("--teacher_share", type=probability, default=0.5, help="of their loss; the labels' is rest")
    add("--tag_words", metavar="TAGS", help="'shapes', or a tagger's file: features of words")
    add("--count_features", action="store_true", help="numbers counted in texts, as features")


def faults(args: argparse.Namespace) -> Iterator[str]:
    """Why these flags make no sense together, a sentence each."""
    extras = {name: getattr(args, f"{name}_extra") for name in args.tasks}
    on_pairs = [name for name, extra in extras.items() if extra and name != "sst"]
    if on_pairs and args.pair_encoding == "cross":
        yield f"--{on_pairs[0]}_extra compares two vectors; --pair_encoding cross makes one of both"
    if what := compares_rows(args):
        if args.accumulate > 1:
            yield (
                f"{what} compares the rows of a batch with each other, so the parts of a batch do "
                "not add up to it: leave --accumulate out"
            )
    if args.epsilon and args.regulariser not in PERTURB:
        yield f"--epsilon is for --regulariser {', '.join(PERTURB)}"
    if args.ascents and args.regulariser not in ("smart", "freelb"):
        yield "--ascents is for --regulariser smart and freelb"
    if args.option == "pretrain":
        yield from _faults_of_a_frozen_bert(args)
    if args.compile and (args.regulariser in PERTURB or args.bregman or any(extras.values())):
        yield "techniques that look at embeddings or vectors within the model run without --compile"
    if args.regulariser == "freelb" and (args.bregman or args.teachers or any(extras.values())):
        yield "freelb has no pass without a perturbation that another loss could be of"
    if args.regulariser == "r_drop" and (args.bregman or args.teachers or any(extras.values())):
        yield "r_drop has every row twice in a batch, which another loss is not made for"
    if args.regulariser in ("freelb", None) and args.regulariser_weight != 1:
        yield "--regulariser_weight is for r_drop, r3f, smart and fgm; freelb has no other loss"
    if args.regulariser == "freelb" and args.task_weights:
        yield "freelb takes its loss in parts, to each of which --task_weights would add its term"
    yield from _faults_of_several_tasks(args)
    yield from _faults_of_parts(args)
    if args.layer_decay and args.layer_decay > 1:
        yield f"--layer_decay {args.layer_decay:g}: lower layers learn more slowly, so at most 1"
    if args.schedule and args.decay:
        yield f"--decay is the linear schedule, --schedule {args.schedule} another one"
    if args.schedule == "sqrt" and not args.warmup:
        yield "--schedule sqrt falls from the first step on: give it a --warmup"


def compares_rows(args: argparse.Namespace) -> str | None:
    """The flag whose loss is not a mean over rows, if there is one."""
    for name in args.tasks:
        extra = getattr(args, f"{name}_extra")
        if extra in COMPARE_ROWS:
            return f"--{name}_extra {extra}"
    if "sts" in args.tasks and args.sts_loss == "cosent":
        return "--sts_loss cosent"
    return None


def _faults_of_a_frozen_bert(args: argparse.Namespace) -> Iterator[str]:
    if args.regulariser in PERTURB or args.bregman:
        yield "a frozen BERT cannot learn from changes of its embeddings: use --option finetune"
    if not args.pals and not args.separate_layers:
        for name in args.tasks:
            if getattr(args, f"{name}_extra"):
                yield f"--{name}_extra moves vectors, which a frozen BERT keeps: --option finetune"
        if args.similarity == "cosine" and "sts" in args.tasks:
            yield "--similarity cosine has nothing that learns but BERT: use --option finetune"
    for flag in ("adapt", "mixout", "reinit", "layer_decay", "tag_words", "gradients"):
        if getattr(args, flag):
            yield f"--{flag} is about how BERT learns: use --option finetune"


def _faults_of_several_tasks(args: argparse.Namespace) -> Iterator[str]:
    if args.gradients:
        if len(args.tasks) < 2:
            yield f"--gradients {args.gradients} is for two tasks or more"
        if args.sampling != "round_robin":
            yield f"--gradients {args.gradients} takes a batch of every task a step: round_robin"
        if args.task_weights and args.gradients != "sum":
            yield (
                f"--gradients {args.gradients} and --task_weights both decide what a task counts: "
                "one of them, or --gradients sum"
            )
    if args.task_weights and any(getattr(args, f"{name}_weight") != 1 for name in args.tasks):
        yield "--task_weights uncertainty learns the weights of the losses: give none"


def _faults_of_parts(args: argparse.Namespace) -> Iterator[str]:
    """Techniques that replace or freeze parts of BERT."""
    if args.adapt:
        for flag in ("mixout", "reinit", "layer_decay", "pals"):
            if getattr(args, flag):
                yield f"--adapt freezes what --{flag} is about: one of them"
    if args.rank and args.adapt not in RANKED:
        yield f"--rank is for --adapt {', '.join(RANKED)}"
    if args.regulariser == "r_drop" and args.mixout:
        yield "mixout draws once for a pass, in which r_drop has both of its copies: one of them"
    if args.similarity == "cosine" and args.tasks == ["sts"]:
        for flag, given in (
            ("head_layers", args.head_layers > 1),
            ("count_features", args.count_features),
        ):
            if given:
                yield f"--{flag} is about a head, and --similarity cosine has none"
    if args.regulariser == "fgm" and args.adapt in RANKED:
        yield f"fgm climbs by the gradient of the embeddings, which --adapt {args.adapt} freezes"
    for flag in ("adapt", "mixout"):
        if getattr(args, flag) and args.separate_layers:
            yield f"--{flag} does not reach --separate_layers: one of them"
    if args.pals and args.pals % args.pal_heads:
        yield f"--pals {args.pals} cannot be split into --pal_heads {args.pal_heads}"
