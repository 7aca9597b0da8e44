r"""Export to a Hugging Face folder and back, with identical logits.

    python lessons/export.py sst-classifier.pt --to sst-bert     a trained classifier → a folder
    python lessons/export.py sst-bert --to again.pt              and back, for classifier.py
    python lessons/export.py bert-base-uncased --to my-bert      a pretrained BERT → a folder

A folder holds config.json, model.safetensors, vocab.txt and tokenizer_config.json, and
``transformers`` loads it: BertForSequenceClassification for a classifier, else BertModel. After
writing, the script loads what it wrote and compares. docs/export.md explains the file formats.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch
from torch import Tensor, nn

from base_bert import read_weights
from bert import BertModel
from classifier import BertSentimentClassifier, load_model
from config import BertConfig
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.course_files import trained_names
from training.files.errors import InputError
from training.files.hub import find_model
from training.files.writing import check_writable
from training.loop.checkpoints import save_model

CHECKPOINT = ".pt"  # the ending of a checkpoint of classifier.py; anything else is a folder
HEAD = ("classifier.weight", "classifier.bias")  # of Hugging Face's BertForSequenceClassification
SENTENCES = (  # to compare a model with its copy on
    "a film to see twice .",
    "it is not the worst , but it is far from good",
    "",
    "unbelievable ! " * 20,
)


# ---------------------------------------------------------------------------------------------
# A checkpoint → a folder


def head_of(model: nn.Module) -> nn.Linear:
    """The only linear layer of a classifier outside its BERT, whatever its name."""
    layers = [
        layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and not name.startswith("bert.")
    ]
    if len(layers) != 1:
        raise InputError(
            f"the classifier has {len(layers)} linear layers besides BERT; a "
            f"BertForSequenceClassification has one, so this classifier cannot be exported"
        )
    return layers[0]


def export_classifier(
    checkpoint: str | Path, folder: str | Path, labels: Sequence[str] | None = None
) -> None:
    """Write the folder of a BertForSequenceClassification from a checkpoint of classifier.py.

    Args:
        labels: the names of the classes, in order; if not given, the checkpoint's own.

    Raises:
        InputError: not a checkpoint of classifier.py, or not a label per class.
    """
    model, config = load_model(checkpoint, torch.device("cpu"))
    head = head_of(model)
    labels = labels or getattr(config, "labels", None)
    if labels is not None and len(labels) != head.out_features:
        raise InputError(f"{len(labels)} --labels for {head.out_features} classes; name them all")
    # Dropout before the head has a name of its own there, and differs from that inside BERT
    model.bert.config.classifier_dropout = config.hidden_dropout_prob
    names = {}
    if labels is not None:
        names["id2label"] = {str(i): label for i, label in enumerate(labels)}
        names["label2id"] = {label: i for i, label in enumerate(labels)}
    model.bert.save_pretrained(folder, classifier=head, **names)
    positions = model.bert.config.max_position_embeddings
    BertTokenizer.from_pretrained(config.model).save_pretrained(folder, positions)


def export_encoder(name_or_path: str, folder: str | Path) -> BertModel:
    """Write the folder of a BertModel, with its tokenizer; a task's head is left out."""
    model = BertModel.from_pretrained(name_or_path)
    tokenizer = BertTokenizer.from_pretrained(name_or_path)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder, model.config.max_position_embeddings)
    return model


# ---------------------------------------------------------------------------------------------
# A folder → a checkpoint of classifier.py


def read_head(folder: str | Path) -> dict[str, Tensor]:
    """The head's weight (K, D) and bias (K,) of a classifier's folder."""
    tensors = read_weights(folder)
    missing = [name for name in HEAD if name not in tensors]
    if missing:
        raise InputError(
            f"{folder} holds no {' and no '.join(missing)}: it is a BERT without a classifier, "
            f"which classifier.py --model {folder} trains"
        )
    return {name.removeprefix("classifier."): tensors[name].float() for name in HEAD}


def import_classifier(folder: str | Path, checkpoint: str | Path) -> None:
    """Write a checkpoint that ``classifier.py --predict --checkpoint`` takes.

    It names the folder as the BERT it was built on, so the folder has to stay where it is.
    """
    folder = find_model(folder).resolve()
    tensors = read_head(folder)
    config = BertConfig.from_pretrained(folder)
    classes, width = len(tensors["weight"]), config.hidden_size
    shapes = [tuple(tensors[kind].shape) for kind in ("weight", "bias")]
    if shapes != [(classes, width), (classes,)]:
        raise InputError(
            f"{folder}: the head's tensors are {shapes[0]} and {shapes[1]}, which do not fit a "
            f"hidden size of {width}; export it again"
        )
    config.check_classes(classes)
    dropout = getattr(config, "classifier_dropout", None)
    if not isinstance(dropout, (int, float, type(None))) or not 0 <= (dropout or 0) < 1:
        raise InputError(f"{folder}: classifier_dropout is {dropout!r}, not from 0 to 1; fix it")
    ours = SimpleNamespace(
        hidden_dropout_prob=config.hidden_dropout_prob if dropout is None else dropout,
        num_labels=classes,
        hidden_size=width,
        data_dir=".",
        option="finetune",
        model=str(folder),
        labels=trained_names(config, classes),
    )
    model = BertSentimentClassifier(ours)
    head_of(model).load_state_dict(tensors)
    save_model(model, AdamW(model.parameters()), SimpleNamespace(), ours, checkpoint)


# ---------------------------------------------------------------------------------------------
# Comparing


def classifier_logits(checkpoint: str | Path) -> Tensor:
    """Logits (B, K) of the sentences above, by a checkpoint of classifier.py."""
    model, config = load_model(checkpoint, torch.device("cpu"))
    return _run(model, config.model)


def folder_logits(folder: str | Path) -> Tensor:
    """Logits (B, K) of the sentences above, by a classifier's folder.

    BERT, then the linear layer on its pooled output: without dropout a
    BertForSequenceClassification computes nothing else.
    """
    head = read_head(folder)
    bert = BertModel.from_pretrained(folder)
    pooled = _run(bert, str(folder))["pooler_output"]  # (B, D)
    return nn.functional.linear(pooled, head["weight"], head["bias"])  # (B, K)


@torch.no_grad()
def _run(model: nn.Module, name_or_path: str):
    tokenizer = BertTokenizer.from_pretrained(name_or_path)
    limit = BertConfig.from_pretrained(name_or_path).max_position_embeddings
    batch = tokenizer(
        list(SENTENCES),
        padding=True,
        truncation=True,
        max_length=min(limit, tokenizer.model_max_length),
        return_tensors="pt",
    )
    return model.eval()(batch["input_ids"], batch["attention_mask"])


def report(before: Tensor, after: Tensor, what: str) -> None:
    """Print the largest difference; InputError if there is one that rounding does not explain."""
    difference = (before - after).abs().max().item()
    print(f"{what} before and after: largest difference {difference:.1e}")
    if not difference < 1e-5:
        raise InputError("the copy and the original give different numbers; please report this")


# ---------------------------------------------------------------------------------------------
# The command line


def convert(source: str, to: str, labels: Sequence[str] | None) -> None:
    """Convert in one of the three directions, chosen by the endings of the names."""
    if source.endswith(CHECKPOINT) and to.endswith(CHECKPOINT):
        raise InputError("both are checkpoints; one of the two has to be a folder")
    if labels is not None and not source.endswith(CHECKPOINT):
        raise InputError("--labels goes with a checkpoint as the source; a folder has its names")
    check_target(source, to)
    if source.endswith(CHECKPOINT):
        export_classifier(source, to, labels)
        report(classifier_logits(source), folder_logits(to), "logits")
    elif to.endswith(CHECKPOINT):
        import_classifier(source, to)
        report(folder_logits(find_model(source)), classifier_logits(to), "logits")
    else:
        before = _run(export_encoder(source, to), source)
        after = _run(BertModel.from_pretrained(to), to)
        report(before["pooler_output"], after["pooler_output"], "pooled outputs")
    print(f"wrote {to}")


def check_target(source: str, to: str) -> None:
    """InputError if the target cannot be written, is the source, or exists as another kind."""
    target = Path(to)
    is_checkpoint = to.endswith(CHECKPOINT)
    try:
        same = target.exists() and target.samefile(source)
    except OSError:  # the source is a model's name
        same = False
    if same:
        raise InputError(f"{to} is the source; choose another place for --to")
    if target.exists() and target.is_dir() == is_checkpoint:
        kind = "folder" if target.is_dir() else "file"
        raise InputError(f"{to} is already a {kind}; choose another place for --to")
    check_writable(target if target.is_dir() else target.parent)


def main() -> None:
    """Convert and compare."""
    parser = OneLineParser(
        prog="lessons/export.py",
        description="Convert between checkpoints of classifier.py and Hugging Face folders.",
    )
    parser.add_argument("source", help="sst-classifier.pt, a folder, or a model's name")
    parser.add_argument("--to", required=True, help="a folder, or a checkpoint: NAME.pt")
    parser.add_argument("--labels", help="the classes' names, comma-separated: bad,good")
    args = parser.parse_args()
    labels = None if args.labels is None else [name.strip() for name in args.labels.split(",")]
    if labels is not None and (len(set(labels)) < len(labels) or "" in labels):
        parser.error("--labels must be different names, none of them empty")
    convert(args.source, args.to, labels)


if __name__ == "__main__":
    run_script(main)
