"""A tagger of words, learnt from tagged sentences: the averaged perceptron (Collins 2002).

For each word of a sentence, from left to right, the tag with the highest score is taken:

    tag = argmax_t Σ_f w[f, t]        f: the features of the word that are there (``word_features``)

and where that is wrong, the weights of its features move by one: w[f, right] += 1, w[f, guess] −= 1
(Collins 2002, but greedily rather than by Viterbi, as in Ratnaparkhi 1996). The result is the mean
of the weights over all steps (there too, after Freund & Schapire 1999), which varies far less than
the last ones. The mean is found without adding up all weights in every step: a weight
that changes at step s by d has, after n steps, (n − s) · d in its sum (Daumé 2006).

It takes any tags: parts of speech, or B-PER, I-PER … of names. It needs no download, and learns
thousands of sentences in seconds. Never let it see text of the test set. To try: leave out the tags
before; count how many more words it gets right with the mean than with the last weights. In front
of the loop:

    tagger = Tagger()
    tagger.learn(sentences)
    tags = tagger.tag(["Ada", "lived", "in", "London"])  # for tags.py
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from training.files.errors import values_of
from training.files.texts import read_json

BEGIN, END = ("<s2>", "<s1>"), ("</s1>", "</s2>")  # around a sentence, as words and tags

Tagged = Sequence[tuple[str, str]]  # a sentence: (word, tag) …


def outline(word: str) -> str:
    """A word's looks: London → Xx, USA → X, mid-1990s → x-dx."""
    kinds = [
        "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word
    ]
    return "".join(kind for kind, _ in groupby(kinds))


def word_features(words: Sequence[str], i: int, before: str, before_that: str) -> list[str]:
    """What is known of word i: itself, its looks, its neighbours, the two tags to its left."""
    around = [*BEGIN, *words, *END]
    at = i + len(BEGIN)
    word, low = words[i], words[i].lower()
    return [
        "bias",
        f"word {low}",
        f"looks {outline(word)}",
        f"end {low[-3:]}",
        f"start {low[:2]}",
        f"tag-1 {before}",
        f"tag-2 {before_that}",
        f"tags {before_that} {before}",
        f"tag-1 word {before} {low}",
        f"word-1 {around[at - 1].lower()}",
        f"looks-1 {outline(around[at - 1])}",
        f"word-2 {around[at - 2].lower()}",
        f"word+1 {around[at + 1].lower()}",
        f"looks+1 {outline(around[at + 1])}",
        f"end+1 {around[at + 1].lower()[-3:]}",
        f"word+2 {around[at + 2].lower()}",
    ]


class Tagger:
    """Tags the words of sentences.

    Args:
        tags, weights: those of ``learn``, feature → tag → number: plain values, for a JSON file.
    """

    def __init__(
        self, tags: Sequence[str] = (), weights: dict[str, dict[str, float]] | None = None
    ):
        self.tags = list(tags)
        self.weights = weights or {}

    @classmethod
    def load(cls, path: str | Path) -> Tagger:
        """The tagger in a JSON file {"tags": […], "weights": {feature: {tag: number}}}."""
        saved = read_json(path)
        with values_of(f"{path} is not a tagger", "take 'shapes' or one of lessons/word_tagger.py"):
            return cls(saved["tags"], saved["weights"])

    def best(self, features: Iterable[str]) -> str:
        """The tag with the highest score; of equal ones the last in the alphabet."""
        scores: dict[str, float] = defaultdict(float)
        for feature in features:
            for tag, weight in self.weights.get(feature, {}).items():
                scores[tag] += weight
        return max(self.tags, key=lambda tag: (scores[tag], tag))

    def tag(self, words: Sequence[str]) -> list[str]:
        """A tag for each word."""
        tags = list(BEGIN)
        for i in range(len(words)):
            tags.append(self.best(word_features(words, i, tags[-1], tags[-2])))
        return tags[len(BEGIN) :]

    def learn(self, sentences: Iterable[Tagged], epochs: int = 5, seed: int = 0) -> None:
        """Learn from nothing; the order of the sentences after the first epoch depends on seed.

        The tags to the left are the tagger's own guesses, as they will be later.
        """
        order = [list(sentence) for sentence in sentences]
        self.tags = sorted({tag for sentence in order for _, tag in sentence})
        self.weights = {}
        late: dict[str, dict[str, float]] = {}  # feature → tag → Σ s · d of its changes
        chance, step = random.Random(seed), 0
        for _ in range(epochs):
            for sentence in order:
                words, guesses = [word for word, _ in sentence], list(BEGIN)
                for i, (_, right) in enumerate(sentence):
                    features = word_features(words, i, guesses[-1], guesses[-2])
                    guess = self.best(features)
                    step += 1
                    if guess != right:
                        for feature in features:
                            weights = self.weights.setdefault(feature, {})
                            lateness = late.setdefault(feature, {})
                            for tag, change in ((right, 1.0), (guess, -1.0)):
                                weights[tag] = weights.get(tag, 0.0) + change
                                lateness[tag] = lateness.get(tag, 0.0) + step * change
                    guesses.append(guess)
            chance.shuffle(order)
        for feature, weights in self.weights.items():
            for tag in weights:  # now the mean of the weights that the guesses were made with
                weights[tag] -= late[feature][tag] / step
