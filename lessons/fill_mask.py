"""What a BERT expects in place of [MASK]: the most probable tokens, with their probabilities.

    python lessons/fill_mask.py --text "The captain looked at the [MASK]."
    python lessons/fill_mask.py < sentences.txt
    python lessons/fill_mask.py                         asks for sentences
    python lessons/fill_mask.py --model bert-base-uncased --text "…"

Takes any checkpoint with a head for masked words; without --model, models/books, which comes with
the course. docs/fill-mask.md says how that model was trained.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import training  # noqa: F401, before torch

# isort: split
import torch

from base_bert import canonical_name, read_weights
from config import BertConfig
from pretraining.model import MASKED_WORD_NAMES, PretrainingModel
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, given_lines, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import OWN_MODEL, find_model

BAR = 20  # characters of a certain word's bar


def load(name: str) -> tuple[PretrainingModel, BertTokenizer]:
    """A model with its head for masked words, and its vocabulary.

    Raises:
        InputError: the model does not exist, is not a BERT, or has no such head.
    """
    config = BertConfig.from_pretrained(name)
    names = {canonical_name(name) for name in read_weights(find_model(name))}
    if not MASKED_WORD_NAMES.keys() <= names:
        raise InputError(
            f"{name} has no head for masked words; take a model that has one, such as "
            f"{OWN_MODEL} or bert-base-uncased"
        )
    model = PretrainingModel.from_pretrained(name, config=config, objective="none")
    return model, BertTokenizer.from_pretrained(name)


@torch.no_grad()
def fill_mask(
    model: PretrainingModel, tokenizer: BertTokenizer, text: str, top: int
) -> list[list[tuple[str, float]]]:
    """The most probable tokens for each [MASK] of a text, [(token, probability), …].

    p(w | text) = softmax(E t + b)_w, where t is the head's vector at the [MASK] (Devlin et al.
    2019, section 3.1). Each [MASK] is filled independently of the others.

    Raises:
        InputError: the text has no [MASK], or one beyond the positions of the model.
    """
    if tokenizer.mask_token not in text:
        raise InputError(f'"{text[:40]}" has no {tokenizer.mask_token}, the place to be filled')
    ids = tokenizer(text, return_tensors="pt").input_ids  # (1, L)
    most = model.config.max_position_embeddings
    places = ids == tokenizer.mask_token_id  # (1, L), M of them
    if ids.shape[1] > most and places[0, most - 1 :].any():
        raise InputError(
            f"a {tokenizer.mask_token} is beyond token {most - 1}, and the model has {most} "
            "positions; give a shorter text"
        )
    if ids.shape[1] > most:
        print(f"data: the text was cut at {most} tokens")
    ids = ids[:, :most]
    ids[0, -1] = tokenizer.sep_token_id
    positions = places[0, :most].nonzero().squeeze(1)  # (M,)
    logits, _ = model(ids, torch.ones_like(ids), positions=positions)  # (M, V)
    probabilities, tokens = logits.softmax(dim=-1).topk(min(top, logits.shape[1]))  # (M, top)
    return [
        list(zip(tokenizer.convert_ids_to_tokens(row.tolist()), chances.tolist(), strict=True))
        for row, chances in zip(tokens, probabilities, strict=True)
    ]


def print_predictions(predictions: list[list[tuple[str, float]]]) -> None:
    """Print a line with a bar for each token."""
    for number, rows in enumerate(predictions, start=1):
        if len(predictions) > 1:
            print(f"[MASK] {number}")
        for token, chance in rows:
            print(f"  {chance:6.1%}  {'#' * round(BAR * chance):{BAR}}  {token}")


def get_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="fill_mask.py", description=__doc__.split("\n")[0])
    parser.add_argument("--text", nargs="+", default=[], help="or lines of standard input")
    parser.add_argument("--model", default=OWN_MODEL, help="name or folder")
    parser.add_argument("--top", type=positive_int, default=10, help="tokens for each [MASK]")
    return parser.parse_args(arguments)


def main() -> None:
    """Fill each text; one that cannot be filled ends a list, but not a conversation."""
    args = get_args()
    model, tokenizer = load(args.model)
    asks = not args.text and sys.stdin.isatty()
    if asks:
        print(f"a sentence with {tokenizer.mask_token}, or Ctrl-D:")
    for text, *_ in ([text] for text in args.text) if args.text else given_lines(()):
        if not args.text and not text.strip():
            continue
        if len(args.text) != 1 and not asks:
            print(text)
        try:
            print_predictions(fill_mask(model, tokenizer, text, args.top))
        except InputError as error:
            if not asks:
                raise
            print(error)


if __name__ == "__main__":
    run_script(main)
