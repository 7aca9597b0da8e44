"""Random inputs for the functions of parts 1 and 3: the grader's, and the bug hunt's.

They have the names of those that are stored, and their shapes but for the batch, the length of the
sentences and the number of classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from checks.part1.runs import STAND_INS
from checks.references import NUM_LABELS, TINY, inputs_of, load_references
from utils import get_extended_attention_mask

ROWS, LENGTH = 5, 10  # of the stored inputs of part 1; no other of their sizes is the same
REPLAYED = tuple(f"bert.layer/{kind}/{n}" for kind in ("values", "dropout") for n in STAND_INS)
GIVEN = ("weights/", "bert.layer/replay/", *REPLAYED)  # and all whose names have "inputs"


def is_given(name: str) -> bool:
    """Whether a stored tensor is an input, not a correct result."""
    return name.startswith(GIVEN) or name.split("/")[1] == "inputs"


def make_inputs(seed: int) -> dict[str, Tensor]:
    """Random weights and inputs of all tasks, in float64, named as in sanity_check.data."""
    generator = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    lengths = torch.tensor([number(5, 11), number(3, 6), 2])
    length = int(lengths.max())
    sizes = {ROWS: len(lengths), LENGTH: length, NUM_LABELS: number(6, 9)}  # not SST's 5
    real = torch.arange(length) < lengths[:, None]  # (B, L)
    ids = torch.randint(5, TINY["vocab_size"], real.shape, generator=generator) * real
    windows = torch.arange(1, 9)  # even and odd
    chosen = {
        "mask": get_extended_attention_mask(real, torch.float64),
        "attention_mask": real.long(),
        "real": real,
        "ids": ids,
        "input_ids": ids,
        "segments": (torch.arange(length) > 1).long() * real,
        "sizes": torch.stack((torch.randint(6, 13, (8,), generator=generator), windows), dim=1),
        "theta": torch.tensor(number(300, 1200), dtype=torch.float64),
    }
    made = {}
    for name, stored in sorted(load_references().items()):
        if not is_given(name):
            continue
        is_part_1 = not name.startswith("modern.")
        shape = [sizes.get(size, size) if is_part_1 else size for size in stored.shape]
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        last = name.split("/")[-1]
        made[name] = chosen[last] if last in chosen else stored.mean() + stored.std() * noise
    # nothing flows back to padding, whose vector some leave out of training and some do not
    made["bert.embed/inputs/cotangent"] *= real[..., None]
    return made


def in_words(task_id: str, seed: int) -> str:
    """The random inputs of a task by the names of its arguments: ids, and shapes of all else."""
    names = {"mask": "attention_mask", "hidden": "hidden_states", "attended": "output"}
    others = ("cotangent", "real", "theta", "sizes", "expanded", "segments")
    given = vars(inputs_of(task_id, make_inputs(seed))).items()
    return ", ".join(
        f"`input_ids` = {x.tolist()}" if n == "ids" else f"`{names.get(n, n)}` {tuple(x.shape)}"
        for n, x in given
        if not n.endswith(others)
    )
