"""A working BERT in one HTML file: type, mask words, look inside; no server, no network.

    python -m lessons.playground --model books --out playground.html
    python -m lessons.playground --model sst-classifier.pt

Takes any checkpoint of a BERT: a name, a folder, or a classifier that classifier.py has trained.
The page has the parts that the model has: words for [MASK], or classes, or both. Its weights are
int8 with one scale per row (as in lessons/quantize.py), and its forward pass,
lessons/playground/bert.js, does in JavaScript what bert.py does. docs/playground.md describes it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor, nn

import tokenizer
from base_bert import read_weights
from bert import BertModel
from classifier import load_model
from config import BertConfig
from lessons.attention_maps import page_of
from lessons.saved_head import check_classes
from lessons.source_lines import code_by_screen, wrong_tasks
from pretraining.model import MASKED_WORD_NAMES, PretrainingModel
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.course_files import trained_names
from training.files.errors import InputError
from training.files.hub import OWN_MODEL, find_model
from training.files.writing import write_whole

ROOT = Path(__file__).resolve().parent.parent

HERE = Path(__file__).with_suffix("")
CHECKPOINT = ".pt"  # the ending of a checkpoint of classifier.py; anything else is a folder
HEAD = ("classifier.weight", "classifier.bias")  # of Hugging Face's BertForSequenceClassification
LEARNED = ROOT / "docs" / "figures" / "grammar-learned.svg"  # when `books` learned which grammar
MAX_MB = 40  # of a page that phones open, and that fits into an e-mail
MAX_TOKENS = 128  # of a sentence in the page
LARGEST = 127  # of int8: −128 is left out, so that the range is symmetric
SENTENCES = (  # the word in braces is hidden at first, where the model has words for [MASK]
    "She opened the {door} and walked into the garden.",
    "The old captain looked at the {sea} and smiled.",
    "He put the bread on the table and sat down to {eat}.",
    "The doctor said that {she} would be late.",
    "The trophy did not fit into the bag because it was too {big}.",
    "Funny, warm and beautifully acted.",
    "It never drags, and it never quite surprises.",
    "Nobody expected the second half to be this good.",
    "I wanted to like it, but the story has no heart.",
    "Two hours that I will not get back.",
)
PAIRS = (  # minimal pairs, the grammatical sentence first
    ("The pictures on the wall are old.", "The pictures on the wall is old."),
    ("The captain saw himself in the water.", "The captain saw herself in the water."),
    ("These letters came from her brother.", "This letters came from her brother."),
    ("He has written to his mother.", "He has wrote to his mother."),
    ("Nobody has ever been here.", "Somebody has ever been here."),
    ("She gave her brother a letter.", "She gave a letter her brother."),
)


def sentences(masked: bool) -> list[str]:
    """The page's examples: first those with a hidden word, or opinions first and no hidden word."""
    if masked:
        return list(SENTENCES)
    texts = sorted(SENTENCES, key=lambda text: "{" in text)
    return [re.sub("[{}]", "", text) for text in texts]


@dataclass
class Loaded:
    """A model, and the parts of it that go into a page.

    Args:
        bert: the encoder.
        tokenizer: its vocabulary.
        masked: the same encoder with its head for masked words, where the model has one.
        head: its classifier, where it has one.
        labels: the names of its classes.
        wrong: the tasks whose functions, of the student's, do not pass their checks.
    """

    bert: BertModel
    tokenizer: BertTokenizer
    masked: PretrainingModel | None = None
    head: nn.Linear | None = None
    labels: Sequence[str] = ()
    wrong: Sequence[str] = ()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All weights, under the names of bert.py's parameters and of the heads."""
        named = dict(self.bert.named_parameters())
        if self.masked:
            named |= {name: self.masked.get_parameter(name) for name in MASKED_WORD_NAMES.values()}
        if self.head:
            named |= {f"classifier.{name}": p for name, p in self.head.named_parameters()}
        return {name: parameter.detach() for name, parameter in named.items()}


def head_of(model: nn.Module) -> nn.Linear:
    """The only linear layer of a classifier outside its BERT, whatever its name."""
    layers = [
        layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and not name.startswith("bert.")
    ]
    if len(layers) != 1:
        what = f"the classifier has {len(layers)} linear layers besides BERT"
        raise InputError(f"{what}; take one with a single layer")
    return layers[0]


def read_head(folder: str | Path) -> nn.Linear | None:
    """The head in a classifier's folder, a layer D → K; None in the folder of a BERT alone."""
    tensors = read_weights(folder)
    if not any(name.startswith("classifier.") for name in tensors):
        return None
    check_classes(BertConfig.from_pretrained(folder), tensors)
    head = nn.Linear(*reversed(tensors[HEAD[0]].shape))
    head.load_state_dict({name.removeprefix("classifier."): tensors[name] for name in HEAD})
    return head


def load(name: str) -> Loaded:
    """A model with the heads that it has; a checkpoint's is the one linear layer outside BERT."""
    if name.endswith(CHECKPOINT):
        model, config = load_model(name, torch.device("cpu"))
        head = head_of(model)
        labels = class_labels(config, head)
        tokenizer = BertTokenizer.from_pretrained(config.model)
        return Loaded(model.bert, tokenizer, head=head, labels=labels)
    folder = find_model(name)
    masked = None
    if PretrainingModel.has_head(read_weights(folder)):
        masked = PretrainingModel.from_pretrained(name, objective="none")
    head = read_head(folder)
    bert = masked.bert if masked else BertModel.from_pretrained(name)
    labels = class_labels(bert.config, head) if head else ()
    return Loaded(bert, BertTokenizer.from_pretrained(name), masked, head, labels)


def class_labels(config: Any, head: nn.Linear) -> list[str]:
    """The names that classes had in training; "class 0", "class 1" … where these were numbers."""
    names = trained_names(config, head.out_features)
    return [f"class {i}" if name == str(i) else name for i, name in enumerate(names)]


def quantize_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(…, C) float32 → (…, C) int8 and a scale per row (…): matrix ≈ int8 · scale.

    Each row's largest number becomes ±127, so the error of no number exceeds half its row's scale.
    """
    scale = np.abs(matrix).max(axis=-1) / LARGEST  # (…)
    scale = np.where(scale > 0, scale, 1).astype(np.float32)  # a row of zeros, such as [PAD]'s
    return np.rint(matrix / scale[..., None]).astype(np.int8), scale


def pack(tensors: Mapping[str, Tensor]) -> tuple[bytes, list[dict[str, Any]]]:
    """All weights one after the other, and a table of where each begins; bert.js unpacks them.

    The float32 ones come first, so that they lie at multiples of four bytes.
    """
    floats, integers, table = [], [], []
    for name, tensor in tensors.items():
        entry = {"name": name, "shape": list(tensor.shape), "at": 0, "scales": None}
        numbers = tensor.numpy()
        if tensor.ndim == 2:
            values, numbers = quantize_rows(numbers)
            integers.append((entry, "at", values.tobytes()))
        floats.append((entry, "at" if tensor.ndim == 1 else "scales", numbers.tobytes()))
        table.append(entry)
    place = 0
    for entry, key, content in floats + integers:
        entry[key] = place
        place += len(content)
    return b"".join(content for _, _, content in floats + integers), table


IN_WORKER = ("bert", "worker")
# The page explains with the same functions, bert.js, as the worker computes
IN_PAGE = "bert tokenizer draw mask grammar inside attention classes page".split()


def scripts(*names: str) -> str:
    """The JavaScript files of these names, concatenated."""
    return "\n".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in names)


def page(loaded: Loaded, name: str, code: Mapping[str, Any] | None = None) -> str:
    """The HTML page of a model, in one file; ``code`` is shown in place of the lines of bert.py."""
    content, table = pack(loaded.tensors)
    config = loaded.bert.config
    shape = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    values = {
        "name": name,
        "parameters": sum(tensor.numel() for tensor in loaded.tensors.values()),
        "config": {key: getattr(config, key) for key in (*shape, "layer_norm_eps")},
        "most": min(MAX_TOKENS, config.max_position_embeddings),
        "pieces": loaded.tokenizer.pieces,
        "lowerCase": loaded.tokenizer.lower_case,
        "unicode": {"letters": tokenizer.ADDED_LATER, "moved": tokenizer.MOVED},
        "table": table,
        "words": loaded.masked is not None,
        "labels": loaded.labels,
        "pairs": PAIRS,
        "sentences": sentences(masked=loaded.masked is not None),
        "code": code or code_by_screen(loaded.wrong),
    }
    return page_of(
        HERE,
        scripts(*IN_PAGE),
        more="blob:; worker-src blob:; img-src data:",
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        title=f"BERT in one page: {name}",
        name=name,
        data=values,  # the template escapes what could end its script element
        weights=base64.b64encode(content).decode(),
        worker=Markup(scripts(*IN_WORKER)),
        loaded=loaded,
        learned=base64.b64encode(LEARNED.read_bytes()).decode(),
    )


def main() -> None:
    """Load a model, write its page and print its size."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--model", default=OWN_MODEL, help="name, folder or checkpoint of classifier.py")
    add("--out", default="playground.html", help="the page")
    args = parser.parse_args()
    loaded = load(args.model)
    is_checkpoint = args.model.endswith(CHECKPOINT)
    loaded.wrong = wrong_tasks(("bert.py", "classifier.py") if is_checkpoint else ("bert.py",))
    for task in loaded.wrong:
        print(f"{task} does not pass its check (sanity_check.py); the page does not use it")
    text = page(loaded, Path(args.model).name)
    write_whole(args.out, text)
    parts = ["words for [MASK]"] * bool(loaded.masked) + ["classes"] * bool(loaded.labels)
    print(f"it has {' and '.join(parts) or 'no head: vectors and attention only'}")
    megabytes = len(text.encode()) / 1e6
    if megabytes > MAX_MB:
        print(f"browsers are slow with more than {MAX_MB} MB; a smaller model makes a lighter page")
    print(f"wrote {args.out}, {megabytes:.1f} MB: open it in a browser")


if __name__ == "__main__":
    run_script(main)
