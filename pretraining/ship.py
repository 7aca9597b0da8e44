"""Write a pre-trained model for others: half the bytes, with its head for masked words.

    python pretraining/ship.py runs/books --out models/books

Weights become bfloat16, which has the range of float32 and 8 bits of its fraction. Nothing else
changes, and every script, ``transformers`` too, loads the folder. The sha256 that it prints is for
the model card.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from pretraining.model import PretrainingModel
from pretraining.pretrain import save
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.course_files import WEIGHT_FILES
from training.files.writing import check_writable, sha256_of


def ship(run: Path, folder: Path) -> str:
    """Write a run's best model in bfloat16, and return the sha256 of its weights.

    Raises:
        InputError: the folder does not hold a model.
    """
    tokenizer = BertTokenizer.from_pretrained(str(run))
    model = PretrainingModel.from_pretrained(str(run), objective="none").to(torch.bfloat16)
    check_writable(folder)
    save(model, tokenizer, folder)
    return sha256_of(folder / WEIGHT_FILES[0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the folder and print its size."""
    parser = OneLineParser(prog="ship.py", description="Write a pre-trained model in bfloat16.")
    parser.add_argument("run", type=Path, help="folder that pretrain.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    args = parser.parse_args(arguments)
    digest = ship(args.run, args.out)
    size = (args.out / WEIGHT_FILES[0]).stat().st_size
    print(f"wrote {args.out}, {size / 1e6:.1f} MB, sha256 of {WEIGHT_FILES[0]} {digest}")


if __name__ == "__main__":
    run_script(main)
