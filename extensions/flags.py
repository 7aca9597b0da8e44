"""The flags that switch techniques on, and the combinations that are refused, each with its reason.

Everything is off by default: without these flags a run is that of multitask_classifier.py, to the
last bit. Those that decide what the model looks like are kept in its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from extensions.features import pooling
from extensions.loss.on_vectors import EXTRAS, compares_rows
from extensions.parameters import adapters, heads, lora
from extensions.tasks import LOSSES, TASKS
from extensions.text import sampling
from extensions.update.schedules import KINDS as SCHEDULES
from multitask_classifier import ModelFlags, MultitaskFlags
from training.cli.arguments import positive_float, positive_int, probability
from training.cli.flags import flag
from training.files.course_files import COURSE_STEMS
from training.tasks import task_names

PERTURB = ("r3f", "smart", "fgm", "freelb")
REGULARISERS = ("r_drop", *PERTURB)
RULES = ("sum", "pcgrad", "gradvac", "cagrad")
RANKED = (*lora.KINDS, *adapters.KINDS)
ADAPTATIONS = (*RANKED, "bitfit")
OPTIMIZERS = ("adamw", "adam", "lion", "sgd")
EXTRA = "a loss on vectors, added to the task's own"
NEEDS = {  # a flag: another one without which it does nothing, and its values if not all will do
    "first_task": ("sampling", ("first", "before")),
    "first_epochs": ("sampling", ("first", "before")),
    "pal_heads": ("pals", ()),
    "rank": ("adapt", RANKED),
    "epsilon": ("regulariser", PERTURB),
    "ascents": ("regulariser", ("smart", "freelb")),
    "average_decay": ("average", ("ema",)),
    "synonym_share": ("synonyms", ()),
    "wordnet": ("synonyms", ()),
    "teacher_share": ("teachers", ()),
}


@dataclass
class TechniqueModelFlags(ModelFlags):
    """Those that a checkpoint keeps, because the model depends on them."""

    tasks: list[str] = flag(
        list(COURSE_STEMS),
        type=partial(task_names, known=tuple(TASKS)),
        help="which ones, e.g. sst,sts,nli,names",
    )
    pooling: str = flag("pooler", choices=pooling.KINDS, help="a sentence's vector")
    similarity: str = flag("linear", choices=("linear", "cosine"), help="head of sts")
    separate_layers: int = flag(0, type=int, help="how many top layers each task has alone")
    pals: int | None = flag(
        None, type=positive_int, metavar="SIZE", help="a projected attention layer a task"
    )
    pal_heads: int = flag(12, type=positive_int, help="with --pals")
    adapt: str | None = flag(
        None, choices=ADAPTATIONS, help="fine-tune few numbers, the rest stays as it is"
    )
    rank: int | None = flag(None, type=positive_int, help="of LoRA (8), or an adapter's width (8)")
    mixout: float | None = flag(
        None, type=probability, help="fall back to pretrained weights with that probability"
    )
    reinit: int | None = flag(
        None, type=positive_int, metavar="LAYERS", help="so many top layers are drawn again"
    )
    head_layers: int = flag(1, type=int, choices=heads.LAYERS, help="of every head")
    task_weights: str | None = flag(
        None, choices=("uncertainty",), help="learned weights of the losses"
    )
    tag_words: str | None = flag(
        None, metavar="TAGS", help="'shapes', or a tagger's file: features of words"
    )
    count_features: bool = flag(
        False, action="store_true", help="numbers counted in texts, as features"
    )
    tagger: str | None = None  # the digest of that file


@dataclass
class TechniqueFlags(TechniqueModelFlags, MultitaskFlags):
    """All that a run with techniques needs to know."""

    nli_train: str = flag("data/nli-train.csv")
    nli_dev: str = flag("data/nli-dev.csv")
    nli_test: str = flag("data/nli-test-student.csv")
    nli_dev_out: str | None = flag(None)
    nli_test_out: str | None = flag(None)
    names_train: str = flag("data/names-train.csv", help="a word, a tab and its tag a line")
    names_dev: str = flag("data/names-dev.csv")
    names_test: str = flag("data/names-test-student.csv")
    names_dev_out: str | None = flag(None)
    names_test_out: str | None = flag(None)
    sampling: str = flag("round_robin", choices=sampling.KINDS, help="which task is next")
    first_task: str = flag("para", choices=tuple(TASKS), help="--sampling first, before")
    first_epochs: int = flag(1, type=positive_int, help="--sampling first, before")
    sst_batch_size: int | None = flag(None, type=positive_int, help="default: --batch_size")
    para_batch_size: int | None = flag(None, type=positive_int, help="default: --batch_size")
    sts_batch_size: int | None = flag(None, type=positive_int, help="default: --batch_size")
    nli_batch_size: int | None = flag(None, type=positive_int, help="default: --batch_size")
    names_batch_size: int | None = flag(None, type=positive_int, help="default: --batch_size")
    sst_weight: float = flag(1.0, type=positive_float, help="of its loss")
    para_weight: float = flag(1.0, type=positive_float, help="of its loss")
    sts_weight: float = flag(1.0, type=positive_float, help="of its loss")
    nli_weight: float = flag(1.0, type=positive_float, help="of its loss")
    names_weight: float = flag(1.0, type=positive_float, help="of its loss")
    sst_loss: str = flag("cross_entropy", choices=tuple(LOSSES["sst"]))
    para_loss: str = flag("binary_cross_entropy", choices=tuple(LOSSES["para"]))
    sts_loss: str = flag("mse", choices=tuple(LOSSES["sts"]))
    nli_loss: str = flag("cross_entropy", choices=tuple(LOSSES["nli"]))
    names_loss: str = flag("cross_entropy", choices=tuple(LOSSES["names"]))
    sst_extra: str | None = flag(None, choices=EXTRAS["sst"], help=EXTRA)
    para_extra: str | None = flag(None, choices=EXTRAS["para"], help=EXTRA)
    sts_extra: str | None = flag(None, choices=EXTRAS["sts"], help=EXTRA)
    nli_extra: str | None = flag(None, choices=EXTRAS["nli"], help=EXTRA)
    names_extra: str | None = None  # there is none: a sentence's names are no vector
    extra_weight: float = flag(0.1, type=positive_float, help="of these losses")
    regulariser: str | None = flag(
        None, choices=REGULARISERS, help="outputs that hardly change, or adversaries"
    )
    regulariser_weight: float = flag(1.0, type=positive_float, help="λ or α; not of freelb")
    epsilon: float | None = flag(
        None, type=positive_float, help="size of what is added to embeddings"
    )
    ascents: int | None = flag(None, type=positive_int, help="steps of smart (1) and freelb (2)")
    bregman: float | None = flag(
        None, type=positive_float, help="μ: stay near a slow copy of the model (SMART)"
    )
    gradients: str | None = flag(
        None,
        choices=RULES,
        help="a step takes a batch of every task, and how their gradients become one",
    )
    layer_decay: float | None = flag(
        None, type=positive_float, help="factor on lr from a layer to the one below"
    )
    average: str | None = flag(
        None, choices=("ema", "swa"), help="evaluate and keep averaged weights"
    )
    average_decay: float = flag(0.999, type=probability, help="with --average ema")
    optimizer: str = flag("adamw", choices=OPTIMIZERS, help="adamw is the course's own")
    schedule: str | None = flag(
        None, choices=SCHEDULES, help="how lr falls; --decay is the linear one"
    )
    synonyms: int | None = flag(
        None,
        type=positive_int,
        metavar="N",
        help="so many further wordings of each training sentence of sst, by WordNet",
    )
    synonym_share: float = flag(0.1, type=probability, help="of a sentence's words that change")
    wordnet: str = flag("/usr/share/wordnet", help="folder of WordNet's files")
    teachers: list[str] | None = flag(
        None, nargs="+", metavar="FILE", help="checkpoints whose answers are learned"
    )
    teacher_share: float = flag(
        0.5, type=probability, help="of their loss; the labels have the rest"
    )


def faults(args: TechniqueFlags) -> Iterator[str]:
    """Why these flags make no sense together, a sentence each."""
    if args.sampling in ("first", "before") and args.first_task not in args.tasks:
        yield f"--first_task {args.first_task} is not among the --tasks"
    if args.sampling == "before" and len(args.tasks) == 1:
        yield "--sampling before has to come before another task: name two --tasks"
    if args.sampling in ("first", "before") and args.first_epochs >= args.epochs:
        yield f"--first_epochs {args.first_epochs} leaves no epoch for the other tasks"
    if args.similarity == "cosine" and args.pair_encoding == "cross":
        yield "--similarity cosine compares two vectors, --pair_encoding cross makes one"
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
    yield from _faults_without_effect(args)
    yield from _faults_of_several_tasks(args)
    yield from _faults_of_names(args)
    yield from _faults_of_parts(args)
    if args.layer_decay and args.layer_decay > 1:
        yield f"--layer_decay {args.layer_decay:g}: lower layers learn more slowly, so at most 1"
    if args.synonyms and "sst" not in args.tasks:
        yield "--synonyms is for sst, which is not among the --tasks"
    if args.synonyms and args.tag_words:
        yield "--synonyms makes sentences of which --tag_words has no tags: one of them"
    if args.schedule and args.decay:
        yield f"--decay is the linear schedule, --schedule {args.schedule} another one"
    if args.schedule == "sqrt" and not args.warmup:
        yield "--schedule sqrt falls from the first step on: give it a --warmup"


def _faults_without_effect(args: TechniqueFlags) -> Iterator[str]:
    """Flags that would do nothing."""
    defaults = TechniqueFlags()
    changed = {name for name, value in vars(args).items() if value != getattr(defaults, name)}
    for name, (other, values) in NEEDS.items():
        given = getattr(args, other)
        if name in changed and not (given in values if values else given):
            yield f"--{name} is for --{other} {', '.join(values)}".rstrip()
    if "extra_weight" in changed and not any(getattr(args, f"{one}_extra") for one in args.tasks):
        yield "--extra_weight is for --sst_extra and the other tasks' extras"
    for task in TASKS:
        for kind in ("batch_size", "weight", "loss", "extra"):
            if task not in args.tasks and f"{task}_{kind}" in changed:
                yield f"--{task}_{kind} is for {task}, which is not among the --tasks"
    if args.similarity == "cosine" and "sts" not in args.tasks:
        yield "--similarity is for sts, which is not among the --tasks"


def _faults_of_a_frozen_bert(args: TechniqueFlags) -> Iterator[str]:
    if args.regulariser in PERTURB or args.bregman:
        yield "a frozen BERT cannot learn from changes of its embeddings: use --option finetune"
    if not args.pals and not args.separate_layers:
        for name in args.tasks:
            if getattr(args, f"{name}_extra"):
                yield f"--{name}_extra moves vectors, which a frozen BERT keeps: --option finetune"
        if args.similarity == "cosine" and "sts" in args.tasks:
            yield "--similarity cosine has nothing that learns but BERT: use --option finetune"
    for name in ("adapt", "mixout", "reinit", "layer_decay", "tag_words", "gradients"):
        if getattr(args, name):
            yield f"--{name} is about how BERT learns: use --option finetune"


def _faults_of_several_tasks(args: TechniqueFlags) -> Iterator[str]:
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


def _faults_of_names(args: TechniqueFlags) -> Iterator[str]:
    if "names" in args.tasks:
        for name in ("regulariser", "bregman", "teachers", "tag_words", "count_features"):
            if getattr(args, name):
                yield f"--{name} wants an answer a text, and names has one a word: one of them"


def _faults_of_parts(args: TechniqueFlags) -> Iterator[str]:
    """Techniques that replace or freeze parts of BERT."""
    if args.adapt:
        for name in ("mixout", "reinit", "layer_decay", "pals"):
            if getattr(args, name):
                yield f"--adapt freezes what --{name} is about: one of them"
    if args.regulariser == "r_drop" and args.mixout:
        yield "mixout draws once for a pass, in which r_drop has both of its copies: one of them"
    if args.similarity == "cosine" and args.tasks == ["sts"]:
        for name, given in (
            ("head_layers", args.head_layers > 1),
            ("count_features", args.count_features),
        ):
            if given:
                yield f"--{name} is about a head, and --similarity cosine has none"
    if args.gradients not in (None, "sum") and args.adapt in adapters.KINDS:
        yield (
            f"--gradients {args.gradients} compares tasks by what they share, and with --adapt "
            f"{args.adapt} they share nothing that learns: one of them, or --gradients sum"
        )
    if args.regulariser == "fgm" and args.adapt in RANKED:
        yield f"fgm climbs by the gradient of the embeddings, which --adapt {args.adapt} freezes"
    for name in ("adapt", "mixout"):
        if getattr(args, name) and args.separate_layers:
            yield f"--{name} does not reach --separate_layers: one of them"
    if args.pals and args.pals % args.pal_heads:
        yield f"--pals {args.pals} cannot be split into --pal_heads {args.pal_heads}"
