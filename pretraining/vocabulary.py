"""The vocabulary of a run: a ready one, or one that is learned from its text."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pretraining.corpus import AS_TYPED, read_blocks, text_files
from pretraining.flags import PretrainingFlags
from tokenizer import SPECIAL_TOKENS, BertTokenizer, normalise, split_at_punctuation
from training.files.errors import InputError
from training.files.hub import default_model
from training.loop import on_main_process

MOST_CHARACTERS = 1000  # of the alphabet; rarer ones are [UNK]


def find_tokenizer(args: PretrainingFlags) -> BertTokenizer:
    """The tokenizer of --train_vocab, --vocab or --model, or else of the default model."""
    if not args.train_vocab:
        name = args.vocab or args.model or on_main_process(default_model)
        return BertTokenizer.from_pretrained(name)

    on_main_process(lambda: train_vocabulary(args.text, args.train_vocab).save_pretrained(args.out))
    return BertTokenizer.from_pretrained(str(args.out.resolve()))


def train_vocabulary(sources: Sequence[Path], size: int) -> BertTokenizer:
    """A WordPiece vocabulary of that size, learned from text by the tokenizers library.

    The library numbers characters in another order in each run, and that decides between pairs of
    pieces that are equally frequent. Given as special tokens, characters have fixed numbers.
    """
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError as error:
        remedy = "pip install it, or give a ready vocabulary with --vocab DIR"
        raise InputError(f"--train_vocab needs Hugging Face's tokenizers; {remedy}") from error
    files = text_files(sources)
    alphabet, inside = characters(texts_of(files))
    special = [*SPECIAL_TOKENS, *alphabet, *inside]
    options = {"initial_alphabet": alphabet, "limit_alphabet": len(alphabet)}
    learner = BertWordPieceTokenizer(lowercase=True)
    learner.train_from_iterator(
        texts_of(files), size, special_tokens=special, show_progress=False, **options
    )
    learned = sorted(learner.get_vocab().keys() - set(SPECIAL_TOKENS))
    count = len(SPECIAL_TOKENS) + len(learned)
    print(f"vocabulary: {count:,} word pieces learned from the text (--train_vocab {size:,})")
    return BertTokenizer([*SPECIAL_TOKENS, *learned])


def texts_of(files: Sequence[Path]) -> Iterator[str]:
    """The files' texts, in blocks."""
    for text in itertools.chain.from_iterable(map(read_blocks, files)):
        yield text.translate(AS_TYPED)


def characters(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """The most frequent characters of texts, and as ##x those that stand inside of a word."""
    words, counts, inside = Counter(), Counter(), set()
    for text in texts:
        words.update(text.split())
    for word, count in words.items():
        for part in split_at_punctuation(normalise(word)):
            counts.update(dict.fromkeys(part, count))
            inside.update(part[1:])
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    alphabet = sorted(frequent[:MOST_CHARACTERS])
    return alphabet, [f"##{character}" for character in alphabet if character in inside]
