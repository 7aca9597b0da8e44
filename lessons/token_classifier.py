"""Which words are names: BERT with a linear layer over every word piece (Devlin et al., 5.3).

    python lessons/token_classifier.py --train TRAIN --dev DEV --test TEST
    python lessons/token_classifier.py --predict 'Ada Lovelace was born in London.' \
        --checkpoint predictions/ner
    python lessons/token_classifier.py --evaluate FILE --checkpoint predictions/ner

Without --train the files are $MINBERT_DATA/ner/wikiann_en/train, dev and test. A file holds a word
and its tag a line, with a tab between, and an empty line after each sentence. The best epoch on dev
is kept in the folder --out as one that ``transformers`` loads too. The idea, and what to try:
docs/token-classification.md.

This file has the model, its training and its use. How files look, which piece has a word's label
and what counts as an entity is extensions/entities.py's; flags, folders and the head's weights are
heads.py's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import training.threads  # noqa: F401, before torch

# isort: split
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from config import BertConfig
from extensions.entities import (
    NO_LABEL,
    OUTSIDE,
    Sentence,
    TaggedWords,
    entities,
    entity_scores,
    labels_of,
    likeliest_tags,
    read_sentences,
)
from lessons.heads import (
    OUT_HELP,
    BertWithHead,
    HeadFlags,
    checked,
    new_run,
    restore,
    settle_length,
    train_and_score,
)
from tokenizer import BertTokenizer, split_at_punctuation
from training.cli.arguments import OneLineParser, positive_int, probability
from training.cli.flags import add_fields, flag
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import atomic_write, write_json
from training.loop.batches import evaluation_loader
from training.loop.devices import keep_freed_memory, pick_device
from training.loop.progress import progress_bar

# What is summed up, what the table shows (headings and keys) and the picture (keys and names)
TOTALS = ("words", "loss", "right")
COLUMNS = {
    "loss": "loss",
    "words right": "right",
    "dev precision": "dev_precision",
    "dev recall": "dev_recall",
    "dev F1": "dev_f1",
}
CURVES = {"right": "words right (train)", "dev_f1": "entity F1 (dev)"}

# ---------------------------------------------------------------------------------------------
# The model


class TokenClassifier(BertWithHead):
    """A label for every word piece: softmax(W h_i + b) of its last hidden state h_i."""

    def __init__(self, config: BertConfig, labels: Sequence[str] | None = None):
        super().__init__(config, labels)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, L), (B, L) → logits (B, L, number of labels)."""
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]  # (B, L, D)
        return self.head(self.dropout(hidden))  # (B, L, number of labels)


def tag_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of all labelled pieces, summed: (B, L, C), (B, L) with −100 → ()."""
    flat = logits.float().flatten(0, 1)  # (B · L, C)
    return F.cross_entropy(flat, labels.flatten(), ignore_index=NO_LABEL, reduction="sum")


# ---------------------------------------------------------------------------------------------
# Tagging


@torch.no_grad()
def tag_words(
    model: TokenClassifier,
    dataset: TaggedWords,
    batch_size: int,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager],
) -> tuple[list[list[str]], list[list[float]]]:
    """The likeliest tag of every word of every sentence, and its probability, in their order."""
    model.eval()
    tags: list[list[str]] = [[]] * len(dataset)
    shares: list[list[float]] = [[]] * len(dataset)
    for batch in progress_bar(evaluation_loader(dataset, batch_size), "eval"):
        with autocast():
            logits = model(batch["token_ids"].to(device), batch["attention_mask"].to(device))
        found = likeliest_tags(logits, batch["places"], model.labels)
        for i, one in zip(batch["sent_ids"], found, strict=True):
            tags[i], shares[i] = one
    return tags, shares


# ---------------------------------------------------------------------------------------------
# Training and scoring


def train(args) -> None:
    """Train on args.train; the epoch with the best entity F1 on args.dev is kept in args.out."""
    if args.test:
        read_sentences(args.test)  # a fault in it must not show after an hour of training
    keep_freed_memory()
    device = pick_device(args.use_gpu)
    sentences, dev = (read_sentences(file, args.limit) for file in (args.train, args.dev))
    labels = labels_of(sentences)
    tokenizer = BertTokenizer.from_pretrained(args.model)
    model = TokenClassifier.from_pretrained(args.model, labels=labels)
    model.dropout.p = args.hidden_dropout_prob
    settle_length(args, model)
    train_set, dev_set = (
        TaggedWords(some, tokenizer, labels, args.length) for some in (sentences, dev)
    )
    tell_size(train_set, dev_set)

    with new_run(args, model.to(device), train_set, TOTALS, COLUMNS, CURVES) as run:
        for _ in run.epochs():
            for batch in run.batches():
                words = max(1, int((batch["labels"] != NO_LABEL).sum()))  # of all micro-batches
                for ids, mask, targets in run.micro_batches(batch):
                    with run.autocast():
                        logits = model(ids, mask)  # (B, L), (B, L) → (B, L, labels)
                    loss = tag_loss(logits, targets)
                    run.backward(loss / words)
                    right = (logits.argmax(dim=-1) == targets).sum().item()
                    labelled = (targets != NO_LABEL).sum().item()
                    run.add(words=labelled, loss=loss.item(), right=right)
                run.step()
            tags, _ = tag_words(model, dev_set, args.batch_size, device, run.autocast)
            found = entity_scores([tags for _, tags in dev], tags).loc["all"].to_dict()
            if run.is_best(found["f1"]):
                model.save_pretrained(args.out)
                tokenizer.save_pretrained(args.out, model.config.max_position_embeddings)
            scores = {f"dev_{name}": found[name] for name in ("precision", "recall", "f1")}
            run.end_epoch({name: run.mean(name) for name in ("loss", "right")} | scores)


def tell_size(*datasets: TaggedWords) -> None:
    """Say how much there is to learn from, and what of it the model will not see."""
    print("sentences: " + ", ".join(f"{len(one):,}" for one in datasets))
    unseen = sum(one.unseen for one in datasets)
    if unseen:
        print(
            f"note: {unseen} words lie beyond --length; they are not trained on and get the tag O"
        )


def evaluate(args) -> None:
    """Score the model of args.checkpoint on a file; write its tags next to it.

    The folder gets NAME-scores.json, and NAME-tags.tsv with word, tag and predicted tag a line.
    """
    file = args.evaluate or args.test or args.dev
    ours = restore(args, TokenClassifier)
    sentences = read_sentences(file, args.limit)
    dataset = TaggedWords(sentences, ours.tokenizer, ours.model.labels, args.length)
    tell_size(dataset)
    tags, _ = tag_words(ours.model, dataset, args.batch_size, ours.device, ours.autocast)
    scores = entity_scores([one.tags for one in sentences], tags)
    print(f"entities of {file}\n{scores.to_string(float_format='{:.3f}'.format)}")
    stem = Path(args.out) / Path(file).name
    write_json(f"{stem}-scores.json", scores.to_dict(orient="index"))
    with atomic_write(f"{stem}-tags.tsv") as out:
        for one, found in zip(sentences, tags, strict=True):
            for line in zip(*one, found, strict=True):
                out.write("\t".join(line) + "\n")
            out.write("\n")


def predict(args, texts: Iterable[str]) -> None:
    """Print each text's entities: type, words, and the probability of the least sure word."""
    ours = restore(args, TokenClassifier)
    for text in texts:
        words = split_at_punctuation(text)
        if not words:
            continue
        sentence = Sentence(words, [OUTSIDE] * len(words))
        dataset = TaggedWords([sentence], ours.tokenizer, ours.model.labels, args.length)
        (tags,), (shares,) = tag_words(ours.model, dataset, 1, ours.device, ours.autocast)
        print(" ".join(words))
        for kind, first, last in entities(tags):
            name, sure = " ".join(words[first : last + 1]), min(shares[first : last + 1])
            print(f"    {kind:8} {sure:.3f}  {name}", flush=True)


# ---------------------------------------------------------------------------------------------
# The command line


@dataclass
class TokenFlags(HeadFlags):
    """The command line's options."""

    out: str = flag("predictions/ner", help=OUT_HELP)
    epochs: int = flag(3, type=positive_int)
    batch_size: int = flag(32, type=positive_int)
    hidden_dropout_prob: float = flag(0.1, type=probability, help="before the head")
    train: str | None = flag(
        None, help="file of word<TAB>tag lines ($MINBERT_DATA/ner/wikiann_en/train)"
    )
    dev: str | None = flag(None, help="the same, to choose the best epoch on (…/dev)")
    test: str | None = flag(
        None, help="the same, scored once, at the end (…/test; optional with --train)"
    )
    predict: str | None = flag(
        None, nargs="?", const="-", metavar="TEXT", help="or lines from standard input"
    )


def get_args(arguments: Sequence[str] | None = None) -> TokenFlags:
    """Read and check the command line."""
    parser = OneLineParser(
        prog="lessons/token_classifier.py", description="Tag words (names of persons, places …)."
    )
    add_fields(parser, TokenFlags)
    return checked(parser, parser.parse_args(arguments, namespace=TokenFlags()))


def default_files(args) -> None:
    """Without --train: WikiANN below $MINBERT_DATA."""
    if not args.train:
        folder = Path(os.environ.get("MINBERT_DATA", "data")) / "ner" / "wikiann_en"
        if not (folder / "train").is_file():
            raise InputError(f"no {folder / 'train'}: give --train and --dev, or set $MINBERT_DATA")
        args.train, args.dev, args.test = (str(folder / n) for n in ("train", "dev", "test"))


def main() -> None:
    """Train and score, or score or predict with a model that was trained."""
    args = get_args()
    if args.predict is not None:
        predict(args, sys.stdin if args.predict == "-" else [args.predict])
        return
    train_and_score(args, default_files, train, evaluate)


if __name__ == "__main__":
    run_script(main)
