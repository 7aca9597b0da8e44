r"""Export to a Hugging Face folder and back, with identical logits.

    python -m lessons.export sst-classifier.pt --to sst-bert     a trained classifier → a folder
    python -m lessons.export sst-bert --to again.pt              and back, for classifier.py

A folder holds config.json, model.safetensors, vocab.txt and tokenizer_config.json, and
``transformers`` loads it as a BertForSequenceClassification. After writing, the script loads what
it wrote and compares. docs/export.md explains the file formats.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

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


def export_classifier(checkpoint: str, folder: str) -> None:
    """Write the folder of a BertForSequenceClassification from a checkpoint of classifier.py."""
    model, config = load_model(checkpoint, torch.device("cpu"))
    # Dropout before the head has a name of its own there, and differs from that inside BERT
    model.bert.config.classifier_dropout = config.hidden_dropout_prob
    labels = getattr(config, "labels", None) or []
    names: dict[str, dict] = {}
    if labels:
        names["id2label"] = {str(i): label for i, label in enumerate(labels)}
        names["label2id"] = {label: i for i, label in enumerate(labels)}
    model.bert.save_pretrained(folder, classifier=head_of(model), **names)
    positions = model.bert.config.max_position_embeddings
    BertTokenizer.from_pretrained(config.model).save_pretrained(folder, positions)


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
    head_of(model).load_state_dict(head.state_dict())
    save_model(model, AdamW(model.parameters()), SimpleNamespace(), ours, checkpoint)


@torch.no_grad()
def logits_of(name: str) -> Tensor:
    """What a checkpoint or a folder computes for SENTENCES: (B, K)."""
    is_checkpoint = name.endswith(CHECKPOINT)
    if is_checkpoint:
        model, config = load_model(name, torch.device("cpu"))
        bert, tokenizer = model.bert, BertTokenizer.from_pretrained(config.model)
    else:
        bert, tokenizer = BertModel.from_pretrained(name), BertTokenizer.from_pretrained(name)
    batch = tokenizer(
        list(SENTENCES),
        padding=True,
        truncation=True,
        max_length=bert.config.max_position_embeddings,
        return_tensors="pt",
    )
    if is_checkpoint:  # through its own forward, which may be a student's
        return model(batch.input_ids, batch.attention_mask)
    return read_head(find_model(name))(bert(batch.input_ids, batch.attention_mask)["pooler_output"])


def convert(source: str, to: str) -> None:
    """Convert in one of the two directions, chosen by the endings of the names, and compare."""
    if source.endswith(CHECKPOINT) == to.endswith(CHECKPOINT):
        raise InputError(f"{source} and {to}: give a checkpoint ({CHECKPOINT}) and a folder")
    if source.endswith(CHECKPOINT):
        export_classifier(source, to)
    else:
        import_classifier(source, to)
    difference = (logits_of(source) - logits_of(to)).abs().max().item()
    print(f"logits before and after: largest difference {difference:.1e}")
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
    args = parser.parse_args()
    convert(args.source, args.to)


if __name__ == "__main__":
    run_script(main)
