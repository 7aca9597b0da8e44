r"""How a vocabulary of word pieces is learned: join the pair with the best score, again and again.

    python -m lessons.wordpiece_training                       on the practice texts
    python -m lessons.wordpiece_training --size 8000 --text books/ --out my-vocabulary
    python -m lessons.wordpiece_training --encode 'an unbelievably dull film'

A pair's score is count(pair) / (count(first) · count(second)), as WordPiece has it (Schuster &
Nakajima 2012), compared with count(pair) alone, as byte-pair encoding has it (Sennrich et al.
2016). With --out the vocabulary is written for BertTokenizer. docs/wordpiece.md explains it.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from datasets import load_data, load_pairs
from pretraining.corpus import text_files
from tokenizer import (
    MAX_WORD_LENGTH,
    SPECIAL_TOKENS,
    BertTokenizer,
    normalise,
    split_at_punctuation,
)
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.course_files import PRACTICE_DATA
from training.files.errors import InputError
from training.files.texts import read_text
from training.files.writing import check_writable

Pair = tuple[str, str]
METHODS = ("wordpiece", "bpe")
HELD_OUT = 10  # every tenth text is held out


class Merge(NamedTuple):
    """One step of learning: two pieces joined into one."""

    first: str
    second: str
    piece: str  # the two joined
    count: int  # how often they were next to each other
    score: float


def practice_texts() -> Iterator[str]:
    """The training sentences that the repository ships."""
    for name in ("sst", "cfimdb"):
        for text, _, _ in load_data(PRACTICE_DATA / f"ids-{name}-train.csv", "train")[0]:
            yield text
    for name, label in (("quora", "is_duplicate"), ("sts", "similarity")):
        for first, second, _, _ in load_pairs(PRACTICE_DATA / f"{name}-train.csv", "train", label):
            yield from (first, second)


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs; words are what BertTokenizer splits into pieces."""
    stretches = Counter(stretch for text in texts for stretch in text.split())
    words: Counter[str] = Counter()
    for stretch, count in stretches.items():  # each stretch of text is cleaned once
        for word in split_at_punctuation(normalise(stretch)):
            if len(word) <= MAX_WORD_LENGTH:  # a longer one is [UNK] whatever is learned
                words[word] += count
    return words


def spell(word: str) -> list[str]:
    """A word as single characters: 'film' → f, ##i, ##l, ##m."""
    return [word[0], *("##" + character for character in word[1:])]


def join(spelled: Sequence[str], first: str, second: str, piece: str) -> list[str]:
    """The spelling with every ``first second`` replaced by ``piece``, from the left."""
    joined: list[str] = []
    for symbol in spelled:
        if symbol == second and joined and joined[-1] == first:
            joined[-1] = piece
        else:
            joined.append(symbol)
    return joined


class PairTable:
    """Counts of all pairs and pieces, in arrays; pairs that vanish keep their row."""

    def __init__(self):
        self.pairs: dict[Pair, int] = {}  # a pair → its row
        self.pieces: dict[str, int] = {}  # a piece → its number
        # NumPy reads these without a copy, and they grow
        self.piece_counts = array("q")
        self.counts, self.first, self.second = array("q"), array("q"), array("q")  # by row

    def add(self, spelled: Sequence[str], count: int) -> None:
        """Count a word with that spelling; a negative count takes it out again."""
        for piece in spelled:
            if piece not in self.pieces:
                self.pieces[piece] = len(self.pieces)
                self.piece_counts.append(0)
            self.piece_counts[self.pieces[piece]] += count
        for pair in pairwise(spelled):
            if pair not in self.pairs:
                self.pairs[pair] = len(self.pairs)
                self.counts.append(0)
                self.first.append(self.pieces[pair[0]])
                self.second.append(self.pieces[pair[1]])
            self.counts[self.pairs[pair]] += count

    def scores(self, method: str) -> np.ndarray:
        """The score of every pair, by one of METHODS; 0 for one that has vanished."""
        counts, alone, first, second = (
            np.frombuffer(numbers, np.int64)
            for numbers in (self.counts, self.piece_counts, self.first, self.second)
        )
        others = np.maximum(alone[first] * alone[second], 1) if method == "wordpiece" else 1
        return counts / others

    def best(self, method: str, least: int) -> tuple[Pair, int, float] | None:
        """The pair to join, its count and score; None if no pair occurs ``least`` times.

        Of equal scores the higher count wins, then the alphabet.
        """
        scores = self.scores(method)
        scores[np.frombuffer(self.counts, np.int64) < least] = 0.0
        top = scores.max(initial=0.0)
        if top == 0.0:
            return None
        pairs = list(self.pairs)
        equal = np.flatnonzero(scores == top).tolist()
        row = min(equal, key=lambda i: (-self.counts[i], pairs[i]))
        return pairs[row], self.counts[row], float(top)


def learn(
    words: Mapping[str, int], size: int, method: str = "wordpiece", least: int = 1
) -> tuple[list[str], list[Merge]]:
    """Learn a vocabulary: its pieces in the order of their ids, and the merges that made them.

    It begins with the special tokens and all characters.

    Args:
        words: how often each occurs.
        size: of the vocabulary; it may end smaller, when nothing is left to join.
        method: 'wordpiece' or 'bpe', which is how pairs are scored.
        least: how often a pair has to occur.

    Raises:
        InputError: there are no words, or ``size`` is too small for the characters.
    """
    if not words:
        raise InputError("there are no words to learn from; give other --text")
    spellings = {word: spell(word) for word in words}
    alphabet = sorted({piece for spelled in spellings.values() for piece in spelled})
    pieces = dict.fromkeys([*SPECIAL_TOKENS, *alphabet])  # a set that keeps the order
    if size < len(pieces):
        raise InputError(
            f"--size {size} is too small for {len(alphabet)} characters (those inside of words "
            f"count again) and the special tokens; it takes at least {len(pieces)}"
        )
    table = PairTable()
    holders: defaultdict[Pair, set[str]] = defaultdict(set)  # words that a pair was seen in
    for word, count in words.items():
        table.add(spellings[word], count)
        for pair in pairwise(spellings[word]):
            holders[pair].add(word)
    merges = []
    while len(pieces) < size and (best := table.best(method, least)):
        (first, second), count, score = best
        piece = first + second.removeprefix("##")
        merges.append(Merge(first, second, piece, count, score))
        for word in holders.pop((first, second)):
            table.add(spellings[word], -words[word])
            spellings[word] = join(spellings[word], first, second, piece)
            table.add(spellings[word], words[word])
            for pair in pairwise(spellings[word]):
                holders[pair].add(word)
        pieces.setdefault(piece)  # 'a' + '##bc' and 'ab' + '##c' make the same one
    return list(pieces), merges


def show_merges(merges: Mapping[str, Sequence[Merge]], shown: int) -> None:
    """Print the first merges of the methods side by side."""
    print("\n step" + "".join(f"   {name:>24s}     count       score" for name in merges))
    for step in range(min(shown, *map(len, merges.values()))):
        line = f"{step + 1:5d}"
        for merge in (learned[step] for learned in merges.values()):
            pair = f"{merge.first} + {merge.second}"
            line += f"   {pair:>24s}{merge.count:10d}{merge.score:12.6g}"
        print(line)


def quality(tokenizer: BertTokenizer, words: Mapping[str, int]) -> tuple[float, float, float]:
    """Pieces per word of held-out words, and the fractions that are one piece or unknown."""
    cuts = [(tokenizer.tokenize(word), count) for word, count in words.items()]
    pieces = sum(len(cut) * count for cut, count in cuts)
    whole = sum(count for cut, count in cuts if len(cut) == 1 and cut != ["[UNK]"])
    unknown = sum(count for cut, count in cuts if "[UNK]" in cut)
    total = sum(words.values())
    return pieces / total, whole / total, unknown / total


def main() -> None:
    """Learn by every method, print the merges, compare, write."""
    parser = OneLineParser(description="Learn a vocabulary of word pieces.")
    add = parser.add_argument
    add("--text", nargs="+", metavar="PATH", help="text files or folders (the practice texts)")
    add("--size", type=positive_int, default=2000, help="of the vocabulary (default: 2000)")
    add("--least", type=positive_int, default=2, help="how often a pair has to occur (default: 2)")
    add("--show", type=positive_int, default=20, help="how many merges are printed")
    add("--encode", metavar="TEXT", help="cut this text with each vocabulary")
    add("--out", metavar="DIR", help="write the vocabulary, for BertTokenizer and --model folders")
    add("--method", choices=METHODS, default="wordpiece", help="which of them is written")
    args = parser.parse_args()
    if args.out:
        check_writable(args.out)
    files = (read_text(file).rstrip("\n").split("\n") for file in text_files(args.text or ()))
    texts = [*chain.from_iterable(files)] if args.text else [*practice_texts()]
    texts = [text.lower() for text in texts]
    held_out = texts[HELD_OUT - 1 :: HELD_OUT]
    del texts[HELD_OUT - 1 :: HELD_OUT]
    words, other_words = count_words(texts), count_words(held_out)
    total = f"{sum(words.values()):,} words, {len(words):,} different ones"
    print(f"{total}, in {len(texts):,} texts")
    learned = {method: learn(words, args.size, method, args.least) for method in METHODS}
    tokenizers = {method: BertTokenizer(pieces) for method, (pieces, _) in learned.items()}
    show_merges({method: merges for method, (_, merges) in learned.items()}, args.show)
    if count := sum(other_words.values()):
        print(f"\non {count:,} words of other texts")
        print("vocabulary        size   pieces/word     whole words   [UNK]")
        for name, tokenizer in tokenizers.items():
            line = "{:12s}{:10,d}{:16.3f}{:14.1%}{:8.2%}"
            print(line.format(name, len(tokenizer), *quality(tokenizer, other_words)))
    if args.encode is not None:
        print()
        for method, tokenizer in tokenizers.items():
            print(f"{method:10s} {' '.join(tokenizer.tokenize(args.encode.lower()))}")
    if args.out:
        tokenizers[args.method].save_pretrained(args.out)
        print(f"\nwrote {len(tokenizers[args.method]):,} tokens ({args.method}) to {args.out}")


if __name__ == "__main__":
    run_script(main)
