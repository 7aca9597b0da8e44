"""The flags that switch techniques on, and the combinations that are refused.

Everything is off by default. What decides what the model looks like is kept in its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from extensions.features import pooling
from extensions.tasks import COURSE, TASKS
from extensions.text import sampling
from training.cli.flags import flag, positive_float, positive_int, probability, read_flags
from training.cli.task_flags import ABOUT, DATA, OUT, TaskFlags, task_names

EXTRA_HELP = "further loss on vectors"
RANKING = ("ranking", "ranking_symmetric")
EXTRAS = {  # losses on vectors that can be added to a task's own
    "sst": ("simcse",),
    "para": (*RANKING, "simcse"),
    "sts": (*RANKING, "simcse"),
    "nli": RANKING,
}


@dataclass
class ModelFlags:
    """Those that a checkpoint keeps, because the model depends on them."""

    pair_encoding: str = flag("bi", choices=("bi", "cross"), help="a pair's texts alone, or joined")
    pooling: str = flag("pooler", choices=pooling.KINDS, help="what a sentence's vector is")
    similarity: str = flag("linear", choices=("linear", "cosine"), help="head of STS")
    separate_layers: int = flag(0, type=int, help="top layers that each task has alone")
    pals: int | None = flag(None, type=positive_int, help="width of each task's attention layers")
    pal_heads: int = flag(12, type=positive_int, help="their heads")
    adapt: str | None = flag(None, choices=("lora",), help="freeze BERT, train this")
    rank: int = flag(8, type=positive_int, help="of LoRA")


@dataclass
class TechniqueFlags(ModelFlags, TaskFlags):
    """All that a run with techniques needs to know."""

    tasks: list[str] = flag(
        list(COURSE), type=partial(task_names, known=TASKS), help="of sst, para, sts, nli"
    )
    nli_train: str = flag("data/nli-train.csv", **DATA)
    nli_dev: str = flag("data/nli-dev.csv", **DATA)
    nli_test: str = flag("data/nli-test-student.csv", may_change=True, **DATA)
    nli_dev_out: str = flag("predictions/nli-dev-output.csv", **OUT)
    nli_test_out: str = flag("predictions/nli-test-output.csv", **OUT)
    sst_weight: float = flag(1.0, type=positive_float, help="weight of its loss")
    para_weight: float = flag(1.0, type=positive_float, help="weight of its loss")
    sts_weight: float = flag(1.0, type=positive_float, help="weight of its loss")
    nli_weight: float = flag(1.0, type=positive_float, help="weight of its loss")
    sts_loss: str = flag("mse", choices=("mse", "cosent"), help="loss of STS")
    sst_extra: str | None = flag(None, choices=EXTRAS["sst"], help=EXTRA_HELP)
    para_extra: str | None = flag(None, choices=EXTRAS["para"], help=EXTRA_HELP)
    sts_extra: str | None = flag(None, choices=EXTRAS["sts"], help=EXTRA_HELP)
    nli_extra: str | None = flag(None, choices=EXTRAS["nli"], help=EXTRA_HELP)
    extra_weight: float = flag(0.1, type=positive_float, help="weight of further losses")
    sampling: str = flag("round_robin", choices=sampling.KINDS, help="which task comes next")
    first_task: str = flag("para", choices=TASKS, help="with --sampling before: alone in epoch 1")
    regulariser: str | None = flag(None, choices=("r_drop", "smart"), help="on unstable outputs")
    regulariser_weight: float = flag(1.0, type=positive_float, help="λ of SMART, α of R-Drop")
    epsilon: float = flag(5e-2, type=positive_float, help="of SMART: size of the perturbation")
    gradients: str | None = flag(None, choices=("sum", "pcgrad"), help="of a step with all tasks")
    teachers: list[str] | None = flag(None, nargs="+", help="checkpoints to learn from")
    teacher_share: float = flag(0.5, type=probability, help="weight of the teachers' loss")

    def faults(self) -> Iterator[str]:
        """Why these flags make no sense together, a sentence each."""
        yield from super().faults()
        for first, others, why in NOT_TOGETHER:
            for other in others:
                if holds(self, first) and holds(self, other):
                    yield f"{spelled(first)} and {spelled(other)} do not go together: {why}"
        for condition, others in NEEDS:
            if holds(self, condition) and not any(holds(self, other) for other in others):
                yield f"{spelled(condition)} needs {' or '.join(map(spelled, others))}"
        for flag_name in ("sampling=before", "gradients"):
            if holds(self, flag_name) and len(self.tasks) == 1:
                yield f"{spelled(flag_name)} needs two --tasks"
        if self.sampling == "before":
            if self.first_task not in self.tasks or self.epochs == 1:
                yield "--sampling before: --first_task is not in --tasks, or takes all epochs"


# ---------------------------------------------------------------------------------------------
# What is refused. A condition is "flag" (it is given) or "flag=value".

ON_VECTORS = tuple(f"{name}_extra" for name in EXTRAS)
COMPARES_ROWS = (*ON_VECTORS, "sts_loss=cosent")
NOT_TOGETHER: Sequence[tuple[str, Sequence[str], str]] = (
    (
        "pair_encoding=cross",
        ("similarity=cosine", *(name for name in ON_VECTORS if name != "sst_extra")),
        "it makes one vector of both texts",
    ),
    ("accumulate", COMPARES_ROWS, "that loss compares the rows of a batch"),
    (
        "option=pretrain",
        ("regulariser=smart", "adapt", "gradients", "similarity=cosine", *ON_VECTORS),
        "BERT is frozen",
    ),
    ("regulariser=r_drop", ("teachers", *ON_VECTORS), "it has every row twice"),
    ("adapt=lora", ("pals", "separate_layers"), "it freezes what that is about"),
    ("gradients", ("sampling=annealed", "sampling=before"), "a step has all tasks"),
)
NEEDS: Sequence[tuple[str, Sequence[str]]] = (  # a flag, and those without which it does nothing
    ("first_task", ("sampling=before",)),
    ("pal_heads", ("pals",)),
    ("rank", ("adapt=lora",)),
    ("epsilon", ("regulariser=smart",)),
    ("regulariser_weight", ("regulariser",)),
    ("extra_weight", ON_VECTORS),
    ("teacher_share", ("teachers",)),
    ("sts_loss", ("tasks=sts",)),
    *((f"{name}_weight", (f"tasks={name}",)) for name in TASKS),
    *((f"{name}_extra", (f"tasks={name}",)) for name in EXTRAS),
)


def holds(args: TechniqueFlags, condition: str) -> bool:
    """Whether a flag is given, or has a value."""
    name, _, wanted = condition.partition("=")
    value = getattr(args, name)
    if not wanted:
        return value != getattr(TechniqueFlags(), name)
    return wanted in value if isinstance(value, list) else wanted == value


def spelled(condition: str) -> str:
    """A condition as it stands on the command line."""
    return "--" + condition.replace("=", " ")


def get_args(arguments: Sequence[str] | None = None) -> TechniqueFlags:
    """The flags of a command line, checked."""
    return read_flags(TechniqueFlags(), arguments, ABOUT)
