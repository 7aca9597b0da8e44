"""Export a trained classifier to a Hugging Face folder, with identical logits.

    python -m lessons.export sst-classifier.pt --to sst-bert

The folder holds config.json, model.safetensors, vocab.txt and tokenizer_config.json, and
``transformers`` loads it as a BertForSequenceClassification. After writing, the script loads what
it wrote and compares. docs/export.md explains the file formats.
"""

from __future__ import annotations

from pathlib import Path

import torch

from bert import BertModel
from classifier import load_model
from lessons.playground import head_of, read_head
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError

SENTENCES = ("a film to see twice .", "it is far from good", "", "unbelievable ! " * 20)


@torch.no_grad()
def export_classifier(checkpoint: str, folder: Path) -> float:
    """Write the folder of a BertForSequenceClassification from a checkpoint of classifier.py.

    Returns:
        The largest difference between the logits of both for a few sentences.
    """
    model, config = load_model(checkpoint, torch.device("cpu"))
    bert, head = model.bert, head_of(model)
    # Dropout before the head has a name of its own there, and differs from that inside BERT
    bert.config.classifier_dropout = config.hidden_dropout_prob
    names = getattr(config, "labels", None) or [f"LABEL_{i}" for i in range(head.out_features)]
    bert.save_pretrained(
        folder,
        head.state_dict(prefix="classifier."),
        architectures=["BertForSequenceClassification"],
        id2label={str(i): name for i, name in enumerate(names)},
        label2id={name: i for i, name in enumerate(names)},
    )
    most = bert.config.max_position_embeddings
    tokenizer = BertTokenizer.from_pretrained(config.model)
    tokenizer.save_pretrained(folder, most)

    options = {"padding": True, "truncation": True, "max_length": most, "return_tensors": "pt"}
    before = tokenizer(list(SENTENCES), **options)
    wanted = model(before.input_ids, before.attention_mask)  # by its forward, perhaps a student's
    after = BertTokenizer.from_pretrained(folder)(list(SENTENCES), **options)
    pooled = BertModel.from_pretrained(folder)(after.input_ids, after.attention_mask)
    return float((read_head(folder)(pooled["pooler_output"]) - wanted).abs().max())


def main() -> None:
    """Export and compare."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", help="sst-classifier.pt, or another one of classifier.py")
    parser.add_argument("--to", type=Path, required=True, help="a folder")
    args = parser.parse_args()
    difference = export_classifier(args.checkpoint, args.to)
    print(f"logits before and after: largest difference {difference:.1e}")
    if not difference < 1e-5:  # more than rounding
        raise InputError("the copy and the original give different numbers; please report this")
    print(f"wrote {args.to}")


if __name__ == "__main__":
    run_script(main)
