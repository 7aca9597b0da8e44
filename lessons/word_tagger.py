r"""A tagger of words without BERT: learned in a minute, to be one of BERT's features.

    python lessons/word_tagger.py --train TRAIN --dev DEV --out names.json
    python lessons/word_tagger.py --tagger names.json --tag 'Ada Lovelace lived in London.'
    python extensions/multitask.py --option finetune --lr 5e-5 --tag_words names.json

TRAIN and DEV hold a word, a tab and a tag a line, and an empty line after each sentence: WikiANN's
names, or parts of speech. It is the averaged perceptron of extensions/features/tagger.py, whose
weights are counts of mistakes: no network, no download. docs/extensions.md says what a feature is
good for.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from extensions.entities import TAG, Sentence, entity_scores, read_sentences
from extensions.features.tagger import Tagger
from extensions.features.tags import WORD
from training.cli.flags import OneLineParser, positive_int, seed
from training.cli.scripts import run_script
from training.files.writing import check_writable, write_json
from training.loop.progress import minutes


def score(tagger: Tagger, sentences: Sequence[Sentence]) -> str:
    """The fraction of right words, and of the most frequent tag; F1 if tags are of names."""
    gold = [sentence.tags for sentence in sentences]
    predicted = [tagger.tag(sentence.words) for sentence in sentences]
    tags, guesses = (list(chain.from_iterable(rows)) for rows in (gold, predicted))
    usual = max(map(tags.count, set(tags))) / len(tags)
    right = sum(map(str.__eq__, tags, guesses)) / len(tags)
    message = f"{right:.3f} of {len(tags):,} words right (always the same tag: {usual:.3f})"
    if all(TAG.fullmatch(tag) for tag in tags):
        message += f", F1 of entities {entity_scores(gold, predicted).loc['all', 'f1']:.3f}"
    return message


def get_args() -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="lessons/word_tagger.py", description="A tagger of words.")
    add = parser.add_argument
    add("--train", help="file of tagged words to learn from")
    add("--dev", help="another one, to score on")
    add("--out", type=Path, help="where the tagger goes, as JSON")
    add("--epochs", type=positive_int, default=5)
    add("--limit", type=positive_int, help="learn from the first so many sentences")
    add("--seed", type=seed, default=11711, help="of the order of sentences")
    add("--tagger", help="a file that --out wrote")
    add("--tag", metavar="TEXT", help="tag this")
    args = parser.parse_args()
    if bool(args.train) == bool(args.tagger):
        parser.error("give --train to learn a tagger, or --tagger to use one")
    if args.train and not args.out:
        parser.error("--train needs --out, a file for what is learned")
    if not (args.train or args.tag or args.dev):
        parser.error("--tagger needs something to tag: --tag TEXT, or --dev FILE to score on")
    return args


def main() -> None:
    """Learn or load, score, tag."""
    args = get_args()
    dev = read_sentences(args.dev, any_tags=True) if args.dev else None
    if args.train:
        check_writable(args.out.parent)
        sentences = read_sentences(args.train, args.limit, any_tags=True)
        begun = time.monotonic()
        tagger = Tagger()
        pairs = (zip(words, tags, strict=True) for words, tags in sentences)
        tagger.learn(pairs, args.epochs, args.seed)
        write_json(args.out, {"tags": tagger.tags, "weights": tagger.weights})
        took = minutes(time.monotonic() - begun)
        print(f"learned {len(tagger.tags)} tags from {len(sentences):,} sentences in {took}")
        print(f"wrote {args.out}")
    else:
        tagger = Tagger.load(args.tagger)
    if dev:
        print(f"dev: {score(tagger, dev)}")
    if args.tag:
        words = WORD.findall(args.tag)
        print(
            "\n".join(f"{tag}\t{word}" for word, tag in zip(words, tagger.tag(words), strict=True))
        )


if __name__ == "__main__":
    run_script(main)
