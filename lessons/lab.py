"""Predict, then run: which part of a BERT matters, and where in it is a noun's number?

    python -m lessons.lab                                       seven questions, in four rounds
    python -m lessons.lab --rounds heads patching --guess ABC   a letter for each question
    python -m lessons.lab --model bert-base-uncased --each 10 --out predictions/lab

One commits to a guess before anything is computed. In the first rounds a part is switched off, and
its cost is measured in the loss of masked words and in pairs of the grammar exam. In the last one,
hidden states of the grammatical sentence are put into its ungrammatical partner. Takes any
checkpoint with a head for masked words. docs/lab.md says what `books` shows.

Shapes: N sentences or pairs, L tokens, D hidden size, V tokens in the vocabulary.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from datasets import load_pairs
from lessons.fill_mask import load
from lessons.grammar import ROOT, Ids, Pair, differences, encode, read_pairs, sentence_scores
from lessons.heat_maps import Finding, HeatMap, show, write_pictures
from lessons.switches import PADDING, VerbPairs, patching, switches, verb_pairs
from pretraining.model import PretrainingModel
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, positive_int, seed
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import OWN_MODEL
from training.loop.progress import minutes, progress_bar

TEXTS = ROOT / "data" / "practice" / "sts-dev.csv"  # `books` has not read it
ABOUT = "agreement_subject_verb-across_relative_clause"  # of the pairs that ship
MEASURES = {"Loss of masked words": "nats a token", "Grammar exam": "nats a pair"}
RESAMPLES = 2000  # of the bootstrap
FEWEST = 10  # examples that it can say something about
TOO_FEW = f"fewer than {FEWEST}: no interval"
ROUNDS = {"heads": 2, "layers": 2, "parts": 2, "patching": 1}  # and how many questions each asks
LETTERS = "ABC"


class Estimate(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        low_and_high = f"{self.low:+.3f}, {self.high:+.3f}"
        return f"{self.mean:+.3f} [{low_and_high if np.isfinite(self.low) else TOO_FEW}]"


def bootstrap(values: np.ndarray, weights: np.ndarray) -> Estimate:
    """Σ values / Σ weights over N examples, which are drawn again for the interval.

    The draws are the same in every call with the same N, so differences are paired. Fewer than
    FEWEST examples have an infinite interval.
    """
    rng, count = np.random.default_rng(0), len(values)
    times = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)  # (RESAMPLES, N)
    low, high = np.percentile(times @ values / (times @ weights), (2.5, 97.5))
    if count < FEWEST:
        low, high = -np.inf, np.inf
    return Estimate(values.sum() / weights.sum(), low, high)


def judge(
    title: str, effects: Mapping[str, np.ndarray], weights: np.ndarray, guess: str
) -> Finding:
    """The largest of some effects (N,), and whether the guess is it; the guess is always named."""
    estimates = {name: bootstrap(values, weights) for name, values in effects.items()}
    first, second, *_ = sorted(estimates, key=lambda name: -estimates[name].mean) * 2
    rival = second if guess == first else guess
    lead = bootstrap(effects[first] - effects[rival], weights)
    verdict = f"Right: {first}" if guess == first else f"Most: {first} (you said {guess})"
    verdict += f", by {lead} over {rival}"
    if lead.low <= 0:
        verdict = f"Not resolved: the lead of {first} over {rival} is {lead} (you said {guess})"
    return Finding(title, verdict, {name: str(value) for name, value in estimates.items()}, None)


class Lab:
    """A model, sentences and pairs, and what each part that was switched off has cost."""

    def __init__(self, model: PretrainingModel, mask: int, sentences: list[Ids], pairs: list):
        self.model, self.mask, self.sentences, self.pairs = model, mask, sentences, pairs
        tokens = np.array([len(ids) - 2.0 for ids in sentences])  # without [CLS] and [SEP]
        self.weights = (tokens, np.ones(len(pairs)))
        self.parts = switches(model)
        self.costs: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.base = self.measure()

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """The loss of each sentence (N,), and how far each pair's grammatical one is ahead (N,)."""
        scores = sentence_scores(self.model, chain(self.sentences, *self.pairs), self.mask)
        return -np.array([scores[ids] for ids in self.sentences]), differences(self.pairs, scores)

    def compare(self, kind: str, options: Sequence[str], guesses: Sequence[str]) -> list[Finding]:
        """What some parts cost, for each of MEASURES; of heads also a map of all."""
        for name in progress_bar(self.parts[kind] if kind == "heads" else options, kind):
            with self.parts[kind][name]():
                loss, ahead = self.measure()
            self.costs[name] = (loss - self.base[0], self.base[1] - ahead)  # in nats
        findings = []
        for i, (measure, unit) in enumerate(MEASURES.items()):
            costs = {name: self.costs[name][i] for name in options}
            title = f"{measure}, cost in {unit}"
            findings.append(judge(title, costs, self.weights[i], guesses[i]))
            if kind == "heads":
                findings[i] = findings[i]._replace(heat=self.map_of_heads(i, title, guesses[i]))
        return findings

    def map_of_heads(self, measure: int, title: str, guess: str) -> HeatMap:
        """What each head of each layer costs."""
        names, width = [*self.parts["heads"]], self.model.config.num_attention_heads
        means = [self.costs[name][measure].sum() / self.weights[measure].sum() for name in names]
        values = np.array(means).reshape(-1, width)  # (layers, heads)
        rows = [f"layer {i}" for i in range(1, len(values) + 1)]
        columns = [f"head {i}" for i in range(1, width + 1)]
        return HeatMap(title, rows, columns, values, divmod(names.index(guess), width))


def ask_and_patch(
    model: PretrainingModel, tokenizer: BertTokenizer, pairs: VerbPairs, guesses: Iterator | None
) -> list[Finding]:
    """The round of patching: its question, and what comes back of the two verbs' difference."""
    tokens = tokenizer.convert_ids_to_tokens(pairs.good[0].tolist())
    names = [f"{i} {token}" for i, token in enumerate(tokens)]
    next_to_it = pairs.noun + (1 if pairs.noun + 1 != pairs.verb else -1)
    options = [names[i] for i in (pairs.noun, next_to_it, pairs.verb)]
    count = model.config.num_hidden_layers
    middle = (count + 1) // 2  # layers
    wrong = tokenizer.convert_ids_to_tokens(pairs.bad[0].tolist())
    print(f"states of  {' '.join(tokens)}\nput into   {' '.join(wrong)}  (pairs: {len(pairs.bad)})")
    question = f"After layer {middle}, the state at which position brings most back?"
    [guess] = ask(question, options, ["Your guess"], guesses)
    back, whole = patching(model, pairs)
    if whole.sum() <= 0:
        raise InputError("the verb's logits do not follow the noun here; nothing can come back")
    title = f"Patching after layer {middle}, fraction that comes back"
    effects = {name: back[names.index(name), middle - 1] for name in options}
    columns = [f"layer {i}" for i in range(1, count + 1)]
    place = (names.index(guess), middle - 1)
    fractions = back.sum(-1) / whole.sum()  # (L, layers)
    heat = HeatMap("Patching: fraction that comes back", names, columns, fractions, place)
    return [judge(title, effects, whole, guess)._replace(heat=heat)]


def ask(
    question: str, options: Sequence[str], prompts: Sequence[str], guesses: Iterator[str] | None
) -> list[str]:
    """One option for each prompt: of the letters of --guess, or typed."""
    print(question)
    letters = LETTERS[: len(options)]
    for letter, option in zip(letters, options, strict=True):
        print(f"  {letter}  {option}")
    answers = []
    for prompt in prompts:
        answer = next(guesses) if guesses else ""
        while not (answer and answer in letters):
            if guesses:
                raise InputError(f"--guess has {answer} where the answers are {letters}")
            try:
                answer = input(f"  {prompt} ({', '.join(letters)})? ").strip().upper()[:1]
            except EOFError:
                print()  # ends the line of the prompt
                raise InputError("no guess was typed; give a letter for each to --guess") from None
        answers.append(options[letters.index(answer)])
        print(f"  {prompt}: {answers[-1]}")
    return answers


def draw(pairs: Sequence[Pair], count: int, seed: int) -> list[Pair]:
    """At most that many pairs of each paradigm, drawn at random, in their order."""
    drawn = []
    for paradigm in dict.fromkeys(pair.paradigm for pair in pairs):
        group = [pair for pair in pairs if pair.paradigm == paradigm]
        chosen = np.random.default_rng(seed).permutation(len(group))[:count]
        drawn += [group[i] for i in sorted(chosen)]
    return drawn


def new_lab(args: Namespace, model: PretrainingModel, tokenizer: BertTokenizer) -> Lab:
    """The sentences and pairs that the flags ask for, and what the whole model makes of them."""
    most = model.config.max_position_embeddings - PADDING
    texts = [text for text, *_ in load_pairs(TEXTS, "dev", "similarity")[: args.each]]
    sentences = [tuple(tokenizer(t, truncation=True, max_length=most)["input_ids"]) for t in texts]
    pairs = [pair for pair in read_pairs(None) if args.about in pair.paradigm]
    if not pairs:
        raise InputError(f"no file of data/grammar/zorro-sample has {args.about!r} in its name")
    pairs = draw(pairs, args.each, args.seed)
    encoded = encode(tokenizer, pairs, most)
    began = time.monotonic()
    lab = Lab(model, tokenizer.mask_token_id, sentences, encoded)
    loss, ahead = map(bootstrap, lab.base, lab.weights)
    print(f"{args.model}, nothing switched off")
    print(f"  loss of masked words: {loss} nats a token (sentences: {len(texts)})")
    print(f"  lead of grammatical sentences: {ahead} nats a pair (pairs: {len(pairs)}, such as")
    print(f'    "{pairs[0].good}" and, ungrammatical, "{pairs[0].bad}")')
    print(f"a part takes about {minutes(time.monotonic() - began)} (--each N: fewer examples)\n")
    return lab


def main() -> None:
    """Ask, run, and compare with the guesses."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--model", default=OWN_MODEL, help="name or folder")
    add("--rounds", nargs="+", choices=ROUNDS, default=[*ROUNDS], help="what is asked")
    add("--guess", type=str.upper, help="the answers, such as ABCABCA, instead of typing them")
    add("--about", default=ABOUT, help="pairs of the files with this in their name")
    add("--each", type=positive_int, default=100, help="sentences, and pairs of each file")
    add("--seed", type=seed, default=1, help="draws the pairs, and the parts that are asked about")
    add("--out", metavar="PREFIX", help="also write PREFIX.html and PREFIX-1.svg …")
    args = parser.parse_args()
    questions = sum(ROUNDS[name] for name in args.rounds)
    if args.guess is not None and len(args.guess) != questions:
        parser.error(f"--guess has {len(args.guess)} letters, and {questions} questions are asked")
    if args.guess and set(args.guess) - set(LETTERS):
        parser.error(f"--guess {args.guess}: the answers are {', '.join(LETTERS)}")
    guesses = iter(args.guess) if args.guess else None
    model, tokenizer = load(args.model)
    lab = new_lab(args, model, tokenizer)
    verbs = verb_pairs(tokenizer, lab.pairs) if "patching" in args.rounds else None
    rng, findings = np.random.default_rng(args.seed), []
    for number, name in enumerate(args.rounds, start=1):
        print(f"Round {number} of {len(args.rounds)}: {name}")
        if name == "patching":
            results = ask_and_patch(model, tokenizer, verbs, guesses)
        else:
            parts = [*lab.parts[name]]
            options = [parts[i] for i in sorted(rng.permutation(len(parts))[: len(LETTERS)])]
            question = "Which of these costs most when it is switched off?"
            results = lab.compare(name, options, ask(question, options, [*MEASURES], guesses))
        print()
        for finding in results:
            show(finding)
        print()
        findings += results
    if args.out:
        print("wrote", ", ".join(write_pictures(args.out, args.model, findings)))


if __name__ == "__main__":
    run_script(main)
