r"""Export to a Hugging Face folder and back, with identical logits.

    python -m lessons.export sst-classifier.pt --to sst-bert     a trained classifier → a folder
    python -m lessons.export sst-bert --to again.pt              and back, for classifier.py
    python -m lessons.export bert-base-uncased --to my-bert      a pretrained BERT → a folder

A folder holds config.json, model.safetensors, vocab.txt and tokenizer_config.json, and
``transformers`` loads it: BertForSequenceClassification for a classifier, else BertModel. After
writing, the script loads what it wrote and compares. docs/export.md explains the file formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from bert import BertModel
from classifier import BertSentimentClassifier, load_model
from config import BertConfig
from lessons.playground import CHECKPOINT, head_of, read_head
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.course_files import trained_names
from training.files.errors import InputError
from training.files.hub import find_model
from training.loop.checkpoints import save_model

SENTENCES = ("a film to see twice .", "it is far from good", "", "unbelievable ! " * 20)


def export_classifier(
    checkpoint: str | Path, folder: str | Path, labels: Sequence[str] | None = None
) -> None:
    """Write the folder of a BertForSequenceClassification from a checkpoint of classifier.py.

    ``labels`` are the names of the classes, in order; if not given, the checkpoint's own.
    """
    model, config = load_model(checkpoint, torch.device("cpu"))
    head = head_of(model)
    labels = labels or getattr(config, "labels", None) or []
    if labels and len(labels) != head.out_features:
        raise InputError(f"{len(labels)} --labels for {head.out_features} classes; name them all")
    # Dropout before the head has a name of its own there, and differs from that inside BERT
    model.bert.config.classifier_dropout = config.hidden_dropout_prob
    names: dict[str, dict] = {}
    if labels:
        names["id2label"] = {str(i): label for i, label in enumerate(labels)}
        names["label2id"] = {label: i for i, label in enumerate(labels)}
    model.bert.save_pretrained(folder, classifier=head, **names)
    positions = model.bert.config.max_position_embeddings
    BertTokenizer.from_pretrained(config.model).save_pretrained(folder, positions)


def export_encoder(name: str, folder: str | Path) -> None:
    """Write the folder of a BertModel, with its tokenizer; a task's head is left out."""
    model = BertModel.from_pretrained(name)
    model.save_pretrained(folder)
    positions = model.config.max_position_embeddings
    BertTokenizer.from_pretrained(name).save_pretrained(folder, positions)


def import_classifier(folder: str | Path, checkpoint: str | Path) -> None:
    """Write a checkpoint that ``classifier.py --predict --checkpoint`` takes.

    It names the folder as the BERT it was built on, so the folder has to stay where it is.
    """
    folder = find_model(folder).resolve()
    head = read_head(folder)
    if head is None:
        raise InputError(
            f"{folder} is a BERT without a classifier, which classifier.py --model {folder} trains"
        )
    config = BertConfig.from_pretrained(folder)
    config.check_classes(head.out_features)
    dropout = getattr(config, "classifier_dropout", None)
    ours = SimpleNamespace(
        hidden_dropout_prob=config.hidden_dropout_prob if dropout is None else dropout,
        num_labels=head.out_features,
        hidden_size=config.hidden_size,
        data_dir=".",
        option="finetune",
        model=str(folder),
        labels=trained_names(config, head.out_features),
    )
    model = BertSentimentClassifier(ours)
    if head.in_features != config.hidden_size:
        shape, size = tuple(head.weight.shape), config.hidden_size
        raise InputError(
            f"{folder}: a head {shape} does not fit hidden size {size}; export it again"
        )
    head_of(model).load_state_dict(head.state_dict())
    save_model(model, AdamW(model.parameters()), SimpleNamespace(), ours, checkpoint)


@torch.no_grad()
def outputs(name: str, with_head: bool) -> Tensor:
    """What a checkpoint or a folder computes for SENTENCES: logits (B, K).

    Of a folder without its head it is the pooled vectors, (B, D).
    """
    if name.endswith(CHECKPOINT):
        model, config = load_model(name, torch.device("cpu"))
        bert, name = model.bert, config.model
    else:
        bert = BertModel.from_pretrained(name)
        head = read_head(find_model(name)) if with_head else nn.Identity()

        def model(ids: Tensor, mask: Tensor) -> Tensor:
            return head(bert(ids, mask)["pooler_output"])

    limit = bert.config.max_position_embeddings
    batch = BertTokenizer.from_pretrained(name)(
        list(SENTENCES), padding=True, truncation=True, max_length=limit, return_tensors="pt"
    )
    return model(batch.input_ids, batch.attention_mask)


def convert(source: str, to: str, labels: Sequence[str] | None) -> None:
    """Convert in one of the three directions, chosen by the endings of the names, and compare."""
    outward, inward = source.endswith(CHECKPOINT), to.endswith(CHECKPOINT)
    if (outward and inward) or Path(to).resolve() == Path(source).resolve():
        raise InputError("--to has to be another place, and a folder if the source is a checkpoint")
    if labels and not outward:
        raise InputError("--labels goes with a checkpoint as the source; a folder has its names")
    if outward:
        export_classifier(source, to, labels)
    elif inward:
        import_classifier(source, to)
    else:
        export_encoder(source, to)
    before, after = (outputs(name, outward or inward) for name in (source, to))
    difference = (before - after).abs().max().item()
    what = "logits" if outward or inward else "pooled outputs"
    print(f"{what} before and after: largest difference {difference:.1e}")
    if not difference < 1e-5:  # more than rounding
        raise InputError("the copy and the original give different numbers; please report this")
    print(f"wrote {to}")


def main() -> None:
    """Convert and compare."""
    parser = OneLineParser(
        description="Convert between checkpoints of classifier.py and Hugging Face folders.",
    )
    parser.add_argument("source", help="sst-classifier.pt, a folder, or a model's name")
    parser.add_argument("--to", required=True, help="a folder, or a checkpoint: NAME.pt")
    parser.add_argument("--labels", help="the classes' names, comma-separated: bad,good")
    args = parser.parse_args()
    labels = [name.strip() for name in args.labels.split(",")] if args.labels else None
    convert(args.source, args.to, labels)


if __name__ == "__main__":
    run_script(main)
