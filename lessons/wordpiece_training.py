r"""How a vocabulary of word pieces is learned: join the pair with the best score, again and again.

    python lessons/wordpiece_training.py                       on the practice texts
    python lessons/wordpiece_training.py --size 8000 --text books/ --out my-vocabulary
    python lessons/wordpiece_training.py --encode 'an unbelievably dull film'

A pair's score is count(pair) / (count(first) · count(second)), as WordPiece has it (Schuster &
Nakajima 2012), compared with count(pair) alone, as byte-pair encoding has it (Sennrich et al.
2016). With --out the vocabulary is written for BertTokenizer. docs/wordpiece.md explains it. This
file does not know about models.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np

from datasets import load_data, load_pairs
from tokenizer import BertTokenizer
from training.arguments import OneLineParser, positive_int
from training.course_files import PRACTICE_DATA
from training.errors import InputError
from training.files import check_writable
from training.progress import progress_bar
from training.scripts import run_script
from training.wordpieces import (
    MAX_WORD_LENGTH,
    SPECIAL_TOKENS,
    normalise,
    split_at_punctuation,
)

Pair = tuple[str, str]
HELD_OUT = 10  # every tenth text is not learned from


@dataclass(frozen=True)
class Merge:
    """One step of learning: two pieces that became one."""

    first: str
    second: str
    piece: str  # what they make together
    count: int  # how often they were next to each other
    score: float


# ---------------------------------------------------------------------------------------------
# Texts and words


def practice_texts() -> Iterator[str]:
    """The training sentences that the repository ships."""
    for name in ("sst", "cfimdb"):
        for text, _, _ in load_data(PRACTICE_DATA / f"ids-{name}-train.csv", "train")[0]:
            yield text
    for name, label in (("quora", "is_duplicate"), ("sts", "similarity")):
        for first, second, _, _ in load_pairs(PRACTICE_DATA / f"{name}-train.csv", "train", label):
            yield from (first, second)


def texts_in(paths: Sequence[str]) -> Iterator[str]:
    """The lines of text files, and of all *.txt in folders; InputError if one is not UTF-8."""
    for path in map(Path, paths):
        files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path} holds no *.txt; name the files")
        for file in files:
            try:
                with open(file, encoding="utf-8") as lines:
                    yield from lines
            except UnicodeDecodeError as error:
                raise InputError(f"{file} is not UTF-8 ({error}); convert it") from error
            except OSError as error:
                raise InputError(f"cannot read {file}: {error.strerror or error}") from error


def count_words(texts: Iterable[str], lower_case: bool = True) -> Counter[str]:
    """How often each word occurs, words being what BertTokenizer splits into pieces."""
    stretches = Counter(stretch for text in texts for stretch in text.split())
    words: Counter[str] = Counter()
    for stretch, count in stretches.items():  # each stretch of text is cleaned once
        for word in split_at_punctuation(normalise(stretch, lower_case)):
            if len(word) <= MAX_WORD_LENGTH:  # a longer one is [UNK] whatever is learned
                words[word] += count
    return words


def spell(word: str) -> list[str]:
    """A word as single characters: 'film' → f, ##i, ##l, ##m."""
    return [word[0], *("##" + character for character in word[1:])]


# ---------------------------------------------------------------------------------------------
# Learning


class PairTable:
    """Counts of all pairs and pieces, in arrays, so that the best score is found in one go.

    Pairs keep their row when they vanish; their count is then 0.
    """

    def __init__(self):
        self.pairs: list[Pair] = []
        self.rows: dict[Pair, int] = {}
        self.pieces: dict[str, int] = {}
        self.piece_counts = np.zeros(1024, np.int64)  # (room for pieces,)
        self.counts = np.zeros(1024, np.int64)  # (room for pairs,), as are the two below
        self.first = np.zeros(1024, np.int64)  # which piece
        self.second = np.zeros(1024, np.int64)

    def add(self, spelled: Sequence[str], count: int) -> None:
        """Count a word with that spelling; a negative count takes it out again."""
        numbers = [self._piece(piece) for piece in spelled]  # these two make room first
        rows = [self._row(pair) for pair in pairwise(spelled)]
        for number in numbers:
            self.piece_counts[number] += count
        for row in rows:
            self.counts[row] += count

    def scores(self, method: str) -> np.ndarray:
        """Of every pair: 'wordpiece' or 'bpe'; 0 of one that has vanished."""
        used = len(self.pairs)
        counts = self.counts[:used]
        if method == "bpe":
            return counts.astype(np.float64)
        alone = self.piece_counts[self.first[:used]] * self.piece_counts[self.second[:used]]
        return counts / np.maximum(alone, 1)

    def best(self, method: str, least: int) -> tuple[Pair, int, float] | None:
        """The pair to join, its count and score; None if no pair occurs ``least`` times.

        Of equal scores the higher count wins, then the alphabet.
        """
        scores = self.scores(method)
        scores[self.counts[: len(scores)] < least] = 0.0
        top = scores.max(initial=0.0)
        if top == 0.0:
            return None
        equal = np.flatnonzero(scores == top)
        row = min(equal.tolist(), key=lambda i: (-self.counts[i], self.pairs[i]))
        return self.pairs[row], int(self.counts[row]), float(top)

    def _piece(self, piece: str) -> int:
        if piece not in self.pieces:
            self.pieces[piece] = len(self.pieces)
            if len(self.pieces) > len(self.piece_counts):
                self.piece_counts = _twice(self.piece_counts)
        return self.pieces[piece]

    def _row(self, pair: Pair) -> int:
        if pair not in self.rows:
            row = self.rows[pair] = len(self.pairs)
            self.pairs.append(pair)
            if row == len(self.counts):
                self.counts, self.first, self.second = map(
                    _twice, (self.counts, self.first, self.second)
                )
            self.first[row], self.second[row] = map(self._piece, pair)
        return self.rows[pair]


def _twice(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros_like(array)])


def join(spelled: Sequence[str], first: str, second: str, piece: str) -> list[str]:
    """The spelling with every ``first second`` replaced by ``piece``, from the left."""
    joined: list[str] = []
    for one in spelled:
        if one == second and joined and joined[-1] == first:
            joined[-1] = piece
        else:
            joined.append(one)
    return joined


def learn(
    words: Mapping[str, int], size: int, method: str = "wordpiece", least: int = 1
) -> tuple[list[str], list[Merge]]:
    """Learn a vocabulary; → its pieces in the order of their ids, and the merges that made them.

    It begins with the special tokens and all characters, at the beginning and inside of words.

    Args:
        words: how often each occurs.
        size: of the vocabulary; it may end smaller, when nothing is left to join.
        method: 'wordpiece' or 'bpe', which is how pairs are scored.
        least: how often a pair has to occur.

    Raises:
        InputError: there are no words, or ``size`` has no room for the characters.
    """
    if not words:
        raise InputError("there are no words to learn from; give other --text")
    spellings = {word: spell(word) for word in words}
    alphabet = sorted({piece for spelled in spellings.values() for piece in spelled})
    pieces = dict.fromkeys([*SPECIAL_TOKENS, *alphabet])  # a set that keeps the order
    if size < len(pieces):
        raise InputError(
            f"--size {size} has no room for {len(alphabet)} characters (at the beginning of a word "
            f"and inside count as two) and the special tokens; it takes at least {len(pieces)}"
        )
    table = PairTable()
    holders: defaultdict[Pair, set[str]] = defaultdict(set)  # words that a pair was seen in
    for word, count in words.items():
        table.add(spellings[word], count)
        for pair in pairwise(spellings[word]):
            holders[pair].add(word)
    merges = []
    bar = iter(progress_bar(range(size - len(pieces)), "merges"))
    while len(pieces) < size and (found := table.best(method, least)):
        (first, second), count, score = found
        piece = first + second.removeprefix("##")
        merges.append(Merge(first, second, piece, count, score))
        for word in holders.pop((first, second)):
            table.add(spellings[word], -words[word])
            spellings[word] = join(spellings[word], first, second, piece)
            table.add(spellings[word], words[word])
            for pair in pairwise(spellings[word]):
                holders[pair].add(word)
        if piece not in pieces:  # 'a' + '##bc' and 'ab' + '##c' make the same one
            pieces[piece] = None
            next(bar, None)
    list(bar)  # so that the bar goes, had there been less to join
    return list(pieces), merges


# ---------------------------------------------------------------------------------------------
# Looking at what was learned


def show_merges(merges: Mapping[str, Sequence[Merge]], shown: int) -> None:
    """Print the first merges of the methods side by side."""
    print("\n step" + "".join(f"   {name:>24s}     count       score" for name in merges))
    for step in range(min(shown, *map(len, merges.values()))):
        line = f"{step + 1:5d}"
        for merge in (one[step] for one in merges.values()):
            pair = f"{merge.first} + {merge.second}"
            line += f"   {pair:>24s}{merge.count:10d}{merge.score:12.6g}"
        print(line)


def quality(tokenizer: BertTokenizer, words: Mapping[str, int]) -> dict[str, float]:
    """Of words that were not learned from: pieces a word, and shares of whole and unknown ones."""
    total = sum(words.values())
    pieces = whole = unknown = 0
    for word, count in words.items():
        ids = tokenizer.remembered.wordpiece(word)
        pieces += count * len(ids)
        whole += count * (len(ids) == 1 and ids[0] != tokenizer.unk_token_id)
        unknown += count * (tokenizer.unk_token_id in ids)
    return {"pieces": pieces / total, "whole": whole / total, "unknown": unknown / total}


def show_quality(tokenizers: Mapping[str, BertTokenizer], words: Mapping[str, int]) -> None:
    """Print how the vocabularies cut words of other texts."""
    print(f"\non {sum(words.values()):,} words of other texts")
    print("vocabulary        size   pieces a word   whole words   [UNK]")
    for name, tokenizer in tokenizers.items():
        found = quality(tokenizer, words)
        print(
            f"{name:12s}{len(tokenizer):10,d}{found['pieces']:16.3f}{found['whole']:14.1%}"
            f"{found['unknown']:8.2%}"
        )


def make_parser() -> argparse.ArgumentParser:
    """All flags."""
    parser = OneLineParser(
        prog="lessons/wordpiece_training.py", description="Learn a vocabulary of word pieces."
    )
    add = parser.add_argument
    add("--text", nargs="+", metavar="PATH", help="text files or folders (the practice texts)")
    add("--size", type=positive_int, default=2000, help="of the vocabulary (default: 2000)")
    add("--least", type=positive_int, default=2, help="how often a pair has to occur (default: 2)")
    add("--show", type=positive_int, default=20, help="how many merges are printed")
    add("--encode", metavar="TEXT", help="cut this text with each vocabulary")
    add("--cased", action="store_true", help="keep capitals and accents")
    add("--out", metavar="DIR", help="write the vocabulary, for BertTokenizer and --model folders")
    add(
        "--method",
        choices=("wordpiece", "bpe"),
        default="wordpiece",
        help="which of the two is written (default: wordpiece)",
    )
    return parser


def main() -> None:
    """Learn by both scores, print the merges, compare, write."""
    args = make_parser().parse_args()
    if args.out:
        check_writable(args.out)
    read, other = [], []
    for i, text in enumerate(texts_in(args.text) if args.text else practice_texts()):
        (other if i % HELD_OUT == HELD_OUT - 1 else read).append(text)
    words, other_words = (count_words(texts, not args.cased) for texts in (read, other))
    print(f"{sum(words.values()):,} words, {len(words):,} different ones, in {len(read):,} texts")
    merges, tokenizers = {}, {}
    for method in ("wordpiece", "bpe"):
        pieces, merges[method] = learn(words, args.size, method, args.least)
        tokenizers[method] = BertTokenizer(pieces, lower_case=not args.cased)
    show_merges(merges, args.show)
    if other_words:
        show_quality(tokenizers, other_words)
    if args.encode is not None:
        print()
        for method, tokenizer in tokenizers.items():
            print(f"{method:10s} {' '.join(tokenizer.tokenize(args.encode))}")
    if args.out:
        tokenizers[args.method].save_pretrained(args.out)
        print(f"\nwrote {len(tokenizers[args.method]):,} pieces ({args.method}) to {args.out}")


if __name__ == "__main__":
    run_script(main)
