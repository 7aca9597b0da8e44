"""A grammar exam: does a BERT find the grammatical one of two sentences more probable?

    python lessons/grammar.py --model books               2,300 pairs of Zorro, which ship
    python lessons/grammar.py --pairs zorro --each 500    from all of it, in $MINBERT_DATA/grammar
    python lessons/grammar.py --pairs blimp --each 30     BLiMP, from the same folder
    python lessons/grammar.py --pairs mine.txt --show 5

A minimal pair is two sentences that differ in one point of grammar. A file of pairs has a sentence
a line: odd lines are ungrammatical, each even line is the grammatical partner of the line before.
Takes any checkpoint with a head for masked words. docs/grammar.md says what the numbers mean.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import training  # noqa: F401, before torch

# isort: split
import numpy as np
import torch
from torch import Tensor

from lessons.fill_mask import load
from pretraining.blocks import BREAK, SENTENCE, encode_files, text_files
from pretraining.model import PretrainingModel
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.cli.flags import OneLineParser, positive_int, seed, some_text
from training.cli.scripts import run_script
from training.files.errors import InputError, values_of
from training.files.hub import OWN_MODEL, find_model
from training.files.texts import entry, parse_json, read_text, unzip
from training.loop.progress import Progress, pieces_of

SAMPLE = ROOT / "data" / "grammar" / "zorro-sample"
SUITES = {"zorro": "zorro", "blimp": "blimp/BLiMP.zip"}  # in $MINBERT_DATA/grammar
FORMAT = "odd lines are ungrammatical, even lines their grammatical partners"
COUNTS = "unigrams.txt"  # in a model's folder: how often each token is in its text
ROWS = 128  # that are computed together
Z = 1.96  # standard errors of a 95 % interval
PUBLISHED = {  # of whole suites: whose, accuracy, how it was scored
    "zorro": (
        ("BabyBERTa, best of ten (Huebner et al. 2021)", 0.803, "no masks"),
        ("RoBERTa-base (BabyBERTa's model card)", 0.826, "no masks"),
    ),
    "blimp": (
        ("RoBERTa-large (Salazar et al. 2020)", 0.865, "one mask at a time"),
        ("GPT-2, 345 million weights (the same)", 0.826, "from left to right"),
        ("people (Warstadt et al. 2020)", 0.886, "asked which is better"),
    ),
}

# ---------------------------------------------------------------------------------------------
# Pairs


@dataclass(frozen=True)
class Pair:
    """Two sentences.

    Args:
        phenomenon: what they are about, a row of the table.
        paradigm: the template that they were made from; several can test one phenomenon.
        place: file and line, for messages.
    """

    phenomenon: str
    paradigm: str
    bad: str
    good: str
    place: str


def read_pairs(name: str | None) -> list[Pair]:
    """The pairs of a suite, of a folder or of a file; those that ship if no name is given."""
    path = Path(name) if name else SAMPLE
    if name in SUITES:
        path = Path(os.environ.get("MINBERT_DATA") or ROOT / "data") / "grammar" / SUITES[name]
        if not path.exists():
            raise InputError(
                f"{path} does not exist, and --pairs {name} reads it; set MINBERT_DATA to a folder "
                "that has it, or leave out --pairs for the sample that ships"
            )
    if path.suffix == ".zip":
        pairs = read_blimp(path)
    elif path.is_dir():  # of files PHENOMENON-PARADIGM.txt
        about = {file: file.stem.rpartition("-")[0] or file.stem for file in path.glob("*.txt")}
        pairs = [pair for file in sorted(about) for pair in read_file(file, about[file])]
    else:
        pairs = read_file(path, path.stem)
    if not pairs:
        raise InputError(f"{path} has no pairs; name a text file of pairs, or a folder of them")
    return pairs


def read_file(path: Path, phenomenon: str) -> list[Pair]:
    """The pairs of a file: odd lines are ungrammatical, even lines grammatical."""
    lines = read_text(path).rstrip("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip() or "\t" in line:
            what = "has a tab" if "\t" in line else "is empty"
            raise InputError(f"{path}, line {number} {what}; write one sentence a line ({FORMAT})")
    if len(lines) % 2:
        what = f"an odd number of lines, {len(lines)}, so a sentence has no partner"
        raise InputError(f"{path} has {what} ({FORMAT})")
    numbered = zip(range(1, len(lines), 2), lines[::2], lines[1::2], strict=True)
    return [
        Pair(phenomenon, path.stem, bad, good, f"{path}, lines {number} and {number + 1}")
        for number, bad, good in numbered
    ]


def read_blimp(path: Path) -> list[Pair]:
    """The pairs of BLiMP.zip, which has a JSON object a line."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not a zip file; fetch it again")
    names = ("linguistics_term", "UID", "sentence_bad", "sentence_good")
    pairs = []
    with values_of(f"{path} is not BLiMP.zip"), zipfile.ZipFile(path) as archive:
        for file in sorted(archive.namelist()):
            if not (file.startswith("data/") and file.endswith(".jsonl")):
                continue  # what macOS adds to a zip
            for number, line in enumerate(unzip(archive, file).decode().splitlines(), start=1):
                place = f"{file}, line {number}"
                with values_of(f"{path}: {place} is not a pair of BLiMP"):
                    row = parse_json(line, place)
                    pairs.append(Pair(*(entry(row, name, str).strip() for name in names), place))
    return pairs


def draw(pairs: Sequence[Pair], count: int, seed: int) -> list[Pair]:
    """At most that many pairs of each paradigm, drawn at random, in their order."""
    paradigms: dict[str, list[Pair]] = {}
    for pair in pairs:
        paradigms.setdefault(pair.paradigm, []).append(pair)
    drawn = []
    for group in paradigms.values():
        chosen = np.random.default_rng(seed).permutation(len(group))[:count]
        drawn += [group[i] for i in sorted(chosen)]
    return drawn


# ---------------------------------------------------------------------------------------------
# Scores

Ids = tuple[int, ...]  # of a sentence, with [CLS] and [SEP]


def encode(tokenizer: BertTokenizer, pairs: Sequence[Pair], most: int) -> list[tuple[Ids, Ids]]:
    """The token ids of each pair, first of the ungrammatical sentence.

    Raises:
        InputError: the model cannot read a sentence; see fault_of.
    """
    encoded = []
    for pair in pairs:
        both = []
        for text in (pair.bad, pair.good):
            ids = tuple(tokenizer(text)["input_ids"])
            if fault := fault_of(tokenizer, text, ids, most):
                raise InputError(f'{pair.place}: "{text[:60]}" has {fault}')
            both.append(ids)
        encoded.append((both[0], both[1]))
    return encoded


def fault_of(tokenizer: BertTokenizer, text: str, ids: Ids, most: int) -> str:
    """What a sentence has that the model cannot read, and a remedy; "" if it can read all."""
    if special := [token for token in SPECIAL_TOKENS if token in text]:
        return f"{special[0]}, which is not a word; write one"
    if tokenizer.unk_token_id in ids:
        words = [word for word in text.split() if tokenizer.unk_token_id in tokenizer.encode(word)]
        return f'"{(words or [text])[0][:60]}", which is not in the vocabulary; take another word'
    if len(ids) < 3:
        return "no letter or sign that the model reads; write a sentence"
    what = f"{len(ids)} tokens with [CLS] and [SEP], and the model has {most} positions"
    return f"{what}; shorten it" if len(ids) > most else ""


def log_probabilities(model: PretrainingModel, ids: Tensor, mask: int | None) -> Tensor:
    """The log p(token | the rest of its sentence) of S sentences of one length, in nats.

    With the id of [MASK], each token but [CLS] and [SEP] is hidden in turn: (S, L) → (S, L - 2).
    With None nothing is hidden, and the model sees what it is asked for: (S, L) → (S, L).
    """
    count, length = ids.shape
    places = torch.arange(length) if mask is None else torch.arange(1, length - 1)
    rows = ids if mask is None else ids.repeat_interleave(len(places), dim=0)  # (R, L)
    starts = length * torch.arange(len(rows)).view(count, -1)  # (S, 1), or one a place: (S, L - 2)
    positions = (starts + places).flatten()  # (M,) in the flattened (R · L)
    if mask is not None:
        rows = rows.flatten().index_fill(0, positions, mask).view(-1, length)
    logits, _ = model(rows, torch.ones_like(rows), positions=positions)  # (M, V)
    targets = ids[:, places].flatten()  # (M,)
    chosen = logits.log_softmax(dim=-1).gather(1, targets[:, None])  # (M, 1)
    return chosen.view(count, -1)


@torch.no_grad()
def sentence_scores(
    model: PretrainingModel, sentences: Iterable[Ids], mask: int | None
) -> dict[Ids, float]:
    """The score of each sentence; one that occurs twice is computed once.

    With masks it is the pseudo-log-likelihood, the sum over the tokens (Salazar et al. 2020).
    Without, it is BabyBERTa's: one pass, and the mean over all tokens (Huebner et al. 2021).
    """
    by_length: dict[int, list[Ids]] = {}
    for sentence in dict.fromkeys(sentences):
        by_length.setdefault(len(sentence), []).append(sentence)
    chunks = []  # of sentences of one length, so that nothing is padded
    for length, group in sorted(by_length.items()):
        step = max(1, ROWS // length)
        chunks += [group[first : first + step] for first in range(0, len(group), step)]
    reads = [{"ids": x, "attention_mask": torch.tensor([len(x) * len(x[0]) ** 2])} for x in chunks]
    progress = Progress(sum(pieces_of(read) for read in reads), what="the exam")
    scores: dict[Ids, float] = {}
    for read in progress.bar(reads, "exam", 0, len(reads)):
        values = log_probabilities(model, torch.tensor(read["ids"]), mask)
        values = values.double().mean(dim=1) if mask is None else values.double().sum(dim=1)
        scores |= zip(read["ids"], values.tolist(), strict=True)
    return scores


def differences(encoded: Sequence[tuple[Ids, Ids]], scores: Mapping[Ids, float]) -> np.ndarray:
    """By how much the score of each grammatical sentence is above its partner's: (N,)."""
    return np.array([scores[good] - scores[bad] for bad, good in encoded])


# ---------------------------------------------------------------------------------------------
# The baseline: how frequent the tokens are


def count_tokens(tokenizer: BertTokenizer, text: str) -> list[int]:
    """How often each token of the vocabulary is in a text file, or in a folder's *.txt.

    The text is read as pre-training reads it.
    """
    counts, replaced = np.zeros(len(tokenizer), int), 0
    for block in encode_files(text_files([text]), tokenizer):
        ids = block.tokens[block.tokens != BREAK] & ~SENTENCE
        counts += np.bincount(ids, minlength=len(tokenizer))
        replaced += block.bad_lines
    if not counts.any():
        raise InputError(f"{text} has no words to count; name another text")
    if replaced:
        print(f"{text}: {replaced} lines are not UTF-8, so bytes were lost")
    return counts.tolist()


def unigram_scores(counts: Sequence[int], sentences: Iterable[Ids]) -> dict[Ids, float]:
    """Scores of a model that knows only how frequent tokens are."""
    logs = np.log((np.array(counts) + 1) / (sum(counts) + len(counts)))  # (V,), add-one smoothing
    # fsum rounds once, so that the same tokens in another order are a tie
    return {ids: math.fsum(logs[list(ids[1:-1])]) for ids in sentences}


def known_counts(name: str, tokenizer: BertTokenizer) -> list[int] | None:
    """The counts in a model's folder, one a line in the order of its vocabulary, if it has them."""
    path = find_model(name) / COUNTS
    if not path.is_file():
        return None
    with values_of(f"{path} does not have a count for each token", "remove it, or count again"):
        counts = [int(line) for line in read_text(path).split()]
        if len(counts) != len(tokenizer):
            raise ValueError(f"{len(counts)} counts for {len(tokenizer)} tokens")
        for count in counts:
            if not 0 <= count < 2**53:
                raise ValueError(f"{count} is not a count")
    return counts


# ---------------------------------------------------------------------------------------------
# What is printed


def marks(above: np.ndarray) -> np.ndarray:
    """1 for a pair whose grammatical sentence has the higher score, 1/2 for a tie, else 0."""
    return (np.sign(above) + 1) / 2


def wilson(accuracy: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a fraction of independent pairs (Wilson 1927)."""
    shrunk = (accuracy + Z**2 / (2 * count)) / (1 + Z**2 / count)
    variance = accuracy * (1 - accuracy) / count + Z**2 / (4 * count**2)
    half = Z * math.sqrt(variance) / (1 + Z**2 / count)
    return shrunk - half, shrunk + half


def by_phenomenon(pairs: Sequence[Pair], points: np.ndarray) -> dict[str, np.ndarray]:
    """The marks of each phenomenon, and of all pairs."""
    groups: dict[str, list[float]] = {}
    for pair, point in zip(pairs, points, strict=True):
        groups.setdefault(pair.phenomenon, []).append(point)
    return {name: np.array(group) for name, group in groups.items()} | {"all": points}


def print_table(pairs: Sequence[Pair], above: np.ndarray, baseline: np.ndarray | None) -> None:
    """A row for each phenomenon, and one for all pairs."""
    unigrams = {} if baseline is None else by_phenomenon(pairs, marks(baseline))
    rows = by_phenomenon(pairs, marks(above))
    width = max(len(name) for name in (*rows, "phenomenon"))
    print(f"{'phenomenon':{width}}   pairs  accuracy  95 % interval   unigrams")
    for name, points in rows.items():
        low, high = wilson(points.mean(), len(points))
        base = f"{unigrams[name].mean():.3f}" if unigrams else "–"
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
        print(f"  {-above[i]:6.2f}  {pairs[i].paradigm}")
        print(f"          preferred    {pairs[i].bad}\n          grammatical  {pairs[i].good}")


def get_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="grammar.py", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--model", default=OWN_MODEL, help="name or folder")
    add("--pairs", type=some_text, help=f"zorro, blimp, or a file or folder of pairs: {FORMAT}")
    add("--each", type=positive_int, help="draw at most that many pairs of each paradigm")
    add("--seed", type=seed, default=11711, help="of --each")
    add("--show", type=positive_int, default=0, help="print that many of the worst pairs")
    add("--no_masks", action="store_true", help="score as BabyBERTa does: one pass, nothing hidden")
    add("--unigrams", type=some_text, help="text, or folder of *.txt, for the baseline's counts")
    return parser.parse_args(arguments)


def main() -> None:
    """Examine one model."""
    args = get_args()
    pairs = read_pairs(args.pairs)
    pairs = draw(pairs, args.each, args.seed) if args.each else pairs
    model, tokenizer = load(args.model)
    encoded = encode(tokenizer, pairs, model.config.max_position_embeddings)
    sentences = [*chain.from_iterable(encoded)]
    if args.unigrams:
        counts = count_tokens(tokenizer, args.unigrams)
    else:
        counts = known_counts(args.model, tokenizer)
    baseline = differences(encoded, unigram_scores(counts, sentences)) if counts else None
    mask = None if args.no_masks else tokenizer.mask_token_id
    above = differences(encoded, sentence_scores(model, sentences, mask))
    way = "no masks" if args.no_masks else "one mask at a time"
    print(f"{args.model}, {len(pairs):,} pairs, {way}")
    print_table(pairs, above, baseline)
    if not counts:
        print(f"no unigrams: {args.model} has no {COUNTS}; --unigrams TEXT counts tokens")
    for whose, accuracy, how in PUBLISHED.get(args.pairs or "zorro", ()):
        print(f"published: {whose}: {accuracy:.3f}, {how}")
    if args.show:
        print_worst(pairs, above, args.show)


if __name__ == "__main__":
    run_script(main)
