"""A grammar exam: does a BERT find the grammatical one of two sentences more probable?

    python -m lessons.grammar --model books               2,300 pairs of Zorro, which ship
    python -m lessons.grammar --pairs ZORRO               all of it, in that folder
    python -m lessons.grammar --pairs mine.txt --show 5

A minimal pair is two sentences that differ in one point of grammar. A file of pairs has a sentence
a line: odd lines are ungrammatical, each even line is the grammatical partner of the line before.
Takes any checkpoint with a head for masked words. docs/grammar.md says what the numbers mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lessons.fill_mask import load
from pretraining.model import PretrainingModel
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import OWN_MODEL, find_model
from training.files.texts import read_text
from training.loop.progress import progress_bar

ROOT = Path(__file__).resolve().parent.parent

SAMPLE = ROOT / "data" / "grammar" / "zorro-sample"
COUNTS = "unigrams.txt"  # in a model's folder: how often each token is in its text
ROWS = 128  # that are computed together
Z = 1.96  # standard errors of a 95 % interval


class Pair(NamedTuple):
    """Two sentences, the phenomenon that they are about, and the template they are made from."""

    phenomenon: str
    paradigm: str
    bad: str
    good: str


def read_pairs(name: str | None) -> list[Pair]:
    """The pairs of a folder or of a file; those that ship if no name is given."""
    path = Path(name) if name else SAMPLE
    if path.is_dir():  # of files PHENOMENON-PARADIGM.txt
        files = [(file, file.stem.rpartition("-")[0] or file.stem) for file in path.glob("*.txt")]
        pairs = [pair for file, about in sorted(files) for pair in read_file(file, about)]
    else:
        pairs = read_file(path, path.stem)
    if not pairs:
        raise InputError(f"{path} has no pairs; name a text file of pairs, or a folder of them")
    return pairs


def read_file(path: Path, phenomenon: str) -> list[Pair]:
    """The pairs of a file: odd lines are ungrammatical, even lines grammatical."""
    lines = [line.strip() for line in read_text(path).rstrip("\n").split("\n")]
    if len(lines) % 2 or "" in lines:
        what = f"line {lines.index('') + 1} is empty" if "" in lines else "its last line is alone"
        remedy = "odd lines are ungrammatical, even lines their grammatical partners"
        raise InputError(f"{path}: {what}; write a sentence a line: {remedy}")
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return [Pair(phenomenon, path.stem, bad, good) for bad, good in pairs]


Ids = tuple[int, ...]  # of a sentence, with [CLS] and [SEP]


def encode(tokenizer: BertTokenizer, pairs: Sequence[Pair], most: int) -> list[tuple[Ids, Ids]]:
    """The token ids of each pair, first of the ungrammatical sentence.

    Raises:
        InputError: a sentence has no token, more than ``most``, or one that is not a word.
    """

    def ids_of(text: str) -> Ids:
        ids = tuple(tokenizer(text)["input_ids"])
        tokens = tokenizer.convert_ids_to_tokens(ids[1:-1])
        if odd := [token for token in SPECIAL_TOKENS if token in tokens]:
            raise InputError(f'"{text[:60]}" contains {odd[0]} for the model; write words')
        if not 2 < len(ids) <= most:
            limits = f"the model reads 3 to {most}"
            raise InputError(f'"{text[:60]}" has {len(ids)} tokens, and {limits}; change it')
        return ids

    return [(ids_of(pair.bad), ids_of(pair.good)) for pair in pairs]


def log_probabilities(model: PretrainingModel, ids: Tensor, mask: int) -> Tensor:
    """The log p(token | the rest of its sentence) of S sentences of one length, in nats.

    Each token but [CLS] and [SEP] is hidden in turn, by the id of [MASK]: (S, L) → (S, L - 2).
    """
    count, length = ids.shape
    inside = torch.arange(1, length - 1)  # (L - 2,)
    rows = ids.repeat_interleave(len(inside), dim=0)  # (R, L), R = S · (L - 2)
    starts = length * torch.arange(len(rows)).view(count, -1)  # (S, L - 2)
    positions = (starts + inside).flatten()  # (R,) in the flattened (R · L)
    rows = rows.flatten().index_fill(0, positions, mask).view(-1, length)
    logits, _ = model(rows, torch.ones_like(rows), positions=positions)  # (R, V)
    targets = ids[:, inside].flatten()  # (R,)
    chosen = logits.log_softmax(dim=-1).gather(1, targets[:, None])  # (R, 1)
    return chosen.view(count, -1)


@torch.no_grad()
def sentence_scores(
    model: PretrainingModel, sentences: Iterable[Ids], mask: int
) -> dict[Ids, float]:
    """The pseudo-log-likelihood of each sentence, the sum over its tokens (Salazar et al. 2020).

    A sentence that occurs twice is computed once.
    """
    by_length: dict[int, list[Ids]] = {}
    for sentence in dict.fromkeys(sentences):
        by_length.setdefault(len(sentence), []).append(sentence)
    chunks = []  # of sentences of one length, so that nothing is padded
    for length, group in sorted(by_length.items()):
        step = max(1, ROWS // length)
        chunks += [group[first : first + step] for first in range(0, len(group), step)]
    scores: dict[Ids, float] = {}
    for chunk in progress_bar(chunks, "exam"):
        values = log_probabilities(model, torch.tensor(chunk), mask).double()  # a row a sentence
        scores |= zip(chunk, values.sum(dim=1).tolist(), strict=True)
    return scores


def differences(encoded: Sequence[tuple[Ids, Ids]], scores: Mapping[Ids, float]) -> np.ndarray:
    """By how much the score of each grammatical sentence is above its partner's: (N,)."""
    return np.array([scores[good] - scores[bad] for bad, good in encoded])


def unigram_scores(counts: Sequence[int], sentences: Iterable[Ids]) -> dict[Ids, float]:
    """The baseline: scores of a model that knows only how frequent tokens are."""
    logs = np.log((np.array(counts) + 1) / (sum(counts) + len(counts)))  # (V,), add-one smoothing
    # fsum rounds once, so that the same tokens in another order are a tie
    return {ids: math.fsum(logs[list(ids[1:-1])]) for ids in sentences}


def known_counts(name: str, tokenizer: BertTokenizer) -> list[int] | None:
    """The counts in a model's folder, one a line in the order of its vocabulary, if it has them."""
    path = find_model(name) / COUNTS
    if not path.is_file():
        return None
    counts = [*map(int, read_text(path).split())]
    if len(counts) != len(tokenizer):
        raise InputError(f"{path} has {len(counts)} counts for {len(tokenizer)} tokens; remove it")
    return counts


def marks(above: np.ndarray) -> np.ndarray:
    """1 for a pair whose grammatical sentence has the higher score, 1/2 for a tie, else 0."""
    return (np.sign(above) + 1) / 2


def wilson(accuracy: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a fraction of independent pairs (Wilson 1927)."""
    shrunk = (accuracy + Z**2 / (2 * count)) / (1 + Z**2 / count)
    variance = accuracy * (1 - accuracy) / count + Z**2 / (4 * count**2)
    half = Z * math.sqrt(variance) / (1 + Z**2 / count)
    return shrunk - half, shrunk + half


def print_table(pairs: Sequence[Pair], above: np.ndarray, baseline: np.ndarray | None) -> None:
    """A row for each phenomenon, and one for all pairs."""
    phenomena = np.array([pair.phenomenon for pair in pairs])  # (N,)
    names = [*dict.fromkeys(phenomena.tolist()), "all"]
    width = max(len(name) for name in (*names, "phenomenon"))
    print(f"{'phenomenon':{width}}   pairs  accuracy  95 % interval   unigrams")
    for name in names:
        chosen = (phenomena == name) | (name == "all")  # (N,)
        points = marks(above[chosen])
        low, high = wilson(points.mean(), len(points))
        base = "–" if baseline is None else f"{marks(baseline[chosen]).mean():.3f}"
        print(
            f"{name:{width}}  {len(points):6,}     {points.mean():.3f}  "
            f"[{low:.3f}, {high:.3f}]     {base:>5}"
        )
    if ties := int((above == 0).sum()):
        print(f"ties, which count half: {ties}")


def print_worst(pairs: Sequence[Pair], above: np.ndarray, count: int) -> None:
    """The pairs whose ungrammatical sentence is most clearly preferred."""
    order = [i for i in np.argsort(above, kind="stable")[:count] if above[i] < 0]
    print(f"most clearly wrong ({len(order)}), and by how many nats:")
    for i in order:
        print(f"  {-above[i]:6.2f}  {pairs[i].phenomenon}")
        print(f"          preferred    {pairs[i].bad}\n          grammatical  {pairs[i].good}")


def main() -> None:
    """Examine one model."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--model", default=OWN_MODEL, help="name or folder")
    add("--pairs", help="a file or folder of pairs")
    add("--show", type=positive_int, help="print that many of the worst pairs")
    args = parser.parse_args()
    pairs = read_pairs(args.pairs)
    model, tokenizer = load(args.model)
    encoded = encode(tokenizer, pairs, model.config.max_position_embeddings)
    sentences = [*chain.from_iterable(encoded)]
    counts = known_counts(args.model, tokenizer)
    baseline = differences(encoded, unigram_scores(counts, sentences)) if counts else None
    above = differences(encoded, sentence_scores(model, sentences, tokenizer.mask_token_id))
    print(f"{args.model}, {len(pairs):,} pairs, one mask at a time")
    print_table(pairs, above, baseline)
    if args.show:
        print_worst(pairs, above, args.show)


if __name__ == "__main__":
    run_script(main)
