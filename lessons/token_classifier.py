"""Named entities: BERT with a linear layer over every token (Devlin et al. 2019, section 5.3).

    python -m lessons.token_classifier --train TRAIN --dev DEV --test TEST
    python -m lessons.token_classifier --predict 'Ada Lovelace was born in London.' \
        --checkpoint predictions/ner
    python -m lessons.token_classifier --evaluate FILE --checkpoint predictions/ner

A line of a file is a word, a tab and its tag; an empty line ends a sentence. The best epoch on dev
is kept in the folder --out, which ``transformers`` loads too. The idea, and what to try:
docs/ner-and-qa.md.

entities.py reads the files, gives each token its label and scores entities; heads.py has flags,
folders and the head's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from config import BertConfig
from lessons.entities import (
    NO_LABEL,
    OUTSIDE,
    TAG,
    Sentence,
    TaggedWords,
    entities,
    entity_scores,
    labels_of,
    read_sentences,
)
from lessons.heads import BertWithHead, HeadFlags, Trained, load, new_run, run_lesson
from optimizer import AdamW
from tokenizer import split_at_punctuation
from training.cli.flags import flag, positive_int, probability
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_json
from training.loop import clip, evaluation_loader, parts, set_lr
from training.loop.batches import cpu_copy
from training.loop.progress import progress_bar

# The columns of the table (headings and keys) and the curves of the page (keys and names)
COLUMNS = {"loss": "loss", "words right": "right", "dev precision": "dev_precision"}
COLUMNS |= {"dev recall": "dev_recall", "dev F1": "dev_f1"}
CURVES = {"right": "words right (train)", "dev_f1": "entity F1 (dev)"}


class TokenClassifier(BertWithHead):
    """A label for every token: softmax(W h_i + b) of its last hidden state h_i."""

    def __init__(self, config: BertConfig, labels: Sequence[str] | None = None):
        super().__init__(config, labels)
        other = [label for label in self.labels if not TAG.fullmatch(str(label))]
        if other and not self.is_new:
            what = f"{config.name_or_path} has the label {other[0]!r} (id2label)"
            raise InputError(f"{what}, not O, B-TYPE or I-TYPE; correct its config.json")
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, L), (B, L) → logits (B, L, number of labels)."""
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]  # (B, L, D)
        return self.head(self.dropout(hidden))  # (B, L, number of labels)


def tag_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy, summed over labelled tokens: (B, L, C), (B, L) with −100 → ()."""
    flat = logits.float().flatten(0, 1)  # (B · L, C)
    return F.cross_entropy(flat, labels.flatten(), ignore_index=NO_LABEL, reduction="sum")


@torch.no_grad()
def tag(
    trained: Trained, dataset: TaggedWords, batch_size: int
) -> tuple[list[list[str]], list[list[float]]]:
    """Of every sentence the most probable tag of every word, and their probabilities.

    A word without a position in its row is tagged O, with probability 0.
    """
    model, device = trained.model.eval(), trained.device
    tags: list[list[str]] = [[]] * len(dataset)
    chances: list[list[float]] = [[]] * len(dataset)
    for batch in progress_bar(evaluation_loader(dataset, batch_size), "eval"):
        with trained.autocast():
            logits = model(batch["token_ids"].to(device), batch["attention_mask"].to(device))
        best = logits.float().softmax(dim=-1).max(dim=-1)  # values and indices, (B, L) each
        columns = batch["rows"], best.values.tolist(), best.indices.tolist(), batch["positions"]
        for i, values, numbers, positions in zip(*columns, strict=True):
            tags[i] = [OUTSIDE if at is None else model.labels[numbers[at]] for at in positions]
            chances[i] = [0.0 if at is None else values[at] for at in positions]
    return tags, chances


def train(args: TokenFlags) -> None:
    """Train on args.train; the epoch with the best entity F1 on args.dev is kept in args.out."""
    if args.test:
        read_sentences(args.test)  # an error in it must not show after an hour of training
    sentences, dev = (read_sentences(file, args.limit) for file in (args.train, args.dev))
    labels = labels_of(sentences)
    trained = load(args, TokenClassifier, labels)
    model, tokenizer, device, autocast = trained
    model.dropout.p = args.hidden_dropout_prob
    train_set, dev_set = (
        TaggedWords(rows, tokenizer, labels, args.length) for rows in (sentences, dev)
    )
    print_size(train_set, dev_set)
    optimizer = AdamW(model.parameters(), lr=args.lr)

    with new_run(args, model, optimizer, train_set, COLUMNS, CURVES) as run:
        for _ in run.epochs():
            for batch in run.batches():
                words = count_words(batch["labels"])
                for ids, mask, targets in parts(batch, args.accumulate, device):
                    with autocast():
                        logits = model(ids, mask)  # (B, L), (B, L) → (B, L, labels)
                    loss = tag_loss(logits, targets)
                    run.scale(loss / words).backward()
                    count = count_words(cpu_copy(targets))
                    right = (logits.argmax(dim=-1) == targets) & (targets != NO_LABEL)  # (B, L)
                    run.log(count, loss=loss / count, right=right)
                run.gather_gradients()
                clip(model, args.clip)
                set_lr(optimizer, args, run.step, run.total_steps)
                optimizer.step()
                optimizer.zero_grad()
                run.end_step()
            tags, _ = tag(trained, dev_set, args.batch_size)
            scores = entity_scores([sentence.tags for sentence in dev], tags).loc["all"]
            if run.is_best(scores["f1"]):
                model.save_pretrained(args.out)
                tokenizer.save_pretrained(args.out, model.config.max_position_embeddings)
            results = {f"dev_{name}": float(scores[name]) for name in ("precision", "recall", "f1")}
            run.end_epoch(results)


def count_words(labels: Tensor) -> int:
    """How many of the tokens (B, L), on the CPU, have a label; at least 1."""
    return max(1, int((labels.numpy() != NO_LABEL).sum()))


def print_size(*datasets: TaggedWords) -> None:
    """Print how many sentences there are, and how many of their words are cut off."""
    print("sentences: " + ", ".join(f"{len(dataset):,}" for dataset in datasets))
    if unseen := sum(dataset.unseen for dataset in datasets):
        print(f"note: {unseen} words lie beyond --length, are not trained on and get the tag O")


def evaluate(args: TokenFlags) -> None:
    """Score the model of args.checkpoint on a file; args.out gets NAME-scores.json."""
    file = args.evaluate or args.test or args.dev
    trained = load(args, TokenClassifier)
    sentences = read_sentences(file, args.limit)
    dataset = TaggedWords(sentences, trained.tokenizer, trained.model.labels, args.length)
    print_size(dataset)
    tags, _ = tag(trained, dataset, args.batch_size)
    scores = entity_scores([sentence.tags for sentence in sentences], tags)
    print(f"entities of {file}\n{scores.to_string(float_format='{:.3f}'.format)}")
    path = Path(args.out) / f"{Path(file).name}-scores.json"
    write_json(path, scores.to_dict(orient="index"))


def predict(args: TokenFlags) -> None:
    """Print a text's entities: type, lowest probability of a word, words."""
    trained = load(args, TokenClassifier)
    words = split_at_punctuation(args.predict)
    sentence = Sentence(words, [OUTSIDE] * len(words))
    dataset = TaggedWords([sentence], trained.tokenizer, trained.model.labels, args.length)
    print_size(dataset)
    (tags,), (chances,) = tag(trained, dataset, 1)
    for kind, first, last in entities(tags):
        name, lowest = " ".join(words[first : last + 1]), min(chances[first : last + 1])
        print(f"    {kind:8} {lowest:.3f}  {name}")


@dataclass
class TokenFlags(HeadFlags):
    """The command line's options."""

    out: str = flag("predictions/ner", may_change=True, help="folder for everything written")
    epochs: int = flag(3, type=positive_int, help="passes over the training data")
    batch_size: int = flag(32, type=positive_int, help="rows per update")
    hidden_dropout_prob: float = flag(0.1, type=probability, help="dropout before the head")
    train: str | None = flag(None, help="file of word<TAB>tag lines")
    dev: str | None = flag(None, help="the same, to choose the epoch")
    test: str | None = flag(None, may_change=True, help="the same, scored at the end")
    predict: str | None = flag(None, may_change=True, metavar="TEXT", help="tag this text")


def main() -> None:
    """Train and score, or score or predict with a model that was trained."""
    run_lesson("Tag words (names of persons, places …).", TokenFlags(), train, evaluate, predict)


if __name__ == "__main__":
    run_script(main)
