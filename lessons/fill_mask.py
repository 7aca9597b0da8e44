"""What a BERT expects in place of [MASK]: the most probable tokens, with their probabilities.

    python -m lessons.fill_mask --text "The captain looked at the [MASK]."
    python -m lessons.fill_mask --model bert-base-uncased --text "…"

Takes any checkpoint with a head for masked words; without --model, models/books, which comes with
the course. docs/fill-mask.md says how that model was trained.
"""

from __future__ import annotations

import torch

from base_bert import read_weights
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import OWN_MODEL, find_model

BAR = 20  # characters of a certain word's bar


def load(name: str) -> tuple[PretrainingModel, BertTokenizer]:
    """A model with its head for masked words, and its vocabulary.

    Raises:
        InputError: the model does not exist, is not a BERT, or has no such head.
    """
    if not PretrainingModel.has_head(read_weights(find_model(name))):
        raise InputError(f"{name} has no head for masked words; {OWN_MODEL} has one")
    model = PretrainingModel.from_pretrained(name, objective="none")
    return model, BertTokenizer.from_pretrained(name)


@torch.no_grad()
def fill_mask(
    model: PretrainingModel, tokenizer: BertTokenizer, text: str, top: int
) -> list[list[tuple[str, float]]]:
    """The most probable tokens for each [MASK] of a text, [(token, probability), …].

    p(w | text) = softmax(E t + b)_w, where t is the head's vector at the [MASK] (Devlin et al.
    2019, section 3.1). Each [MASK] is filled independently of the others.

    Raises:
        InputError: the text has no [MASK] within the positions of the model.
    """
    most = model.config.max_position_embeddings
    ids = tokenizer(text, truncation=True, max_length=most, return_tensors="pt").input_ids  # (1, L)
    positions = (ids[0] == tokenizer.mask_token_id).nonzero().squeeze(1)  # (M,)
    if not len(positions):
        where = f" among its first {most} tokens" if ids.shape[1] == most else ""
        raise InputError(f'"{text[:40]}" has no {tokenizer.mask_token}{where}; write one to fill')
    logits, _ = model(ids, torch.ones_like(ids), positions=positions)  # (M, V)
    # An embedding may have more rows than there are tokens, to round its size up
    chances = logits.softmax(dim=-1)[:, : len(tokenizer)]  # (M, V)
    probabilities, tokens = chances.topk(min(top, len(tokenizer)))  # (M, top)
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


def main() -> None:
    """Fill each text."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", nargs="+", required=True, help="texts with [MASK]")
    parser.add_argument("--model", default=OWN_MODEL, help="name or folder")
    parser.add_argument("--top", type=positive_int, default=10, help="tokens for each [MASK]")
    args = parser.parse_args()
    model, tokenizer = load(args.model)
    for text in args.text:
        if len(args.text) > 1:
            print(text)
        print_predictions(fill_mask(model, tokenizer, text, args.top))


if __name__ == "__main__":
    run_script(main)
