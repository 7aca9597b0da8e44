"""The options that every training script takes."""

from __future__ import annotations

import argparse

from utils import positive_float, positive_int, probability


def add_flags(
    parser: argparse.ArgumentParser,
    frozen: bool = True,
    evaluations: str = "epochs without a better dev",
) -> None:
    """Add the options that ``Run`` and its neighbours read; all off but the precision.

    Args:
        frozen: whether the script has a mode in which the encoder does not learn.
        evaluations: what --patience counts.
    """
    add = parser.add_argument
    add(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default="auto",
        help="of matrix products; auto takes bf16 where the hardware computes in it",
    )
    add("--accumulate", type=positive_int, default=1, help="parts a batch is computed in")
    add("--clip", type=positive_float, help="largest norm of all gradients together")
    add("--warmup", type=probability, default=0.0, help="share of the steps with rising lr")
    add(
        "--decay",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="let lr fall linearly to 0 after the warm-up",
    )
    add("--patience", type=positive_int, help=f"stop after that many {evaluations}")
    add("--compile", action="store_true", help="torch.compile the model: slow start, then faster")
    if frozen:
        add("--reencode", action="store_true", help="run a frozen encoder again for every batch")
    add("--resume", action="store_true", help="go on where an interrupted run stopped")
