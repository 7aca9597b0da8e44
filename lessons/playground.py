"""A working BERT in one HTML file: type, mask words, look inside; no server, no network.

    python lessons/playground.py --model books --out playground.html
    python lessons/playground.py --model sst-classifier.pt
    python lessons/playground.py --model sst-classifier.pt --dev data/practice/ids-sst-dev.csv

Takes any checkpoint of a BERT: a name, a folder, or a classifier that classifier.py has trained.
The page has the parts that the model has: words for [MASK], or classes, or both. Its weights are
int8 with one scale per row (as in lessons/quantize.py), and its forward pass,
lessons/playground/bert.js, does in JavaScript what bert.py does. docs/playground.md describes it.
"""

from __future__ import annotations

import argparse
import base64
import copy
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import training  # noqa: F401, before torch

# isort: split
import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor, nn

import tokenizer
from base_bert import canonical_name, read_weights
from bert import BertModel
from classifier import load_model
from datasets import load_data
from lessons.attention_maps import policy, templates
from lessons.source_lines import code_by_screen, wrong_tasks
from pretraining.model import MASKED_WORD_NAMES, PretrainingModel
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, positive_float
from training.cli.scripts import run_script
from training.files.course_files import trained_names
from training.files.errors import InputError
from training.files.hub import OWN_MODEL, find_model
from training.files.writing import write_whole
from training.reports.page import STYLE

HERE = Path(__file__).with_suffix("")
LEARNED = ROOT / "docs" / "figures" / "grammar-learned.svg"  # when `books` learned which grammar
CHECKPOINT = ".pt"  # ending of classifier.py's checkpoints; all else is a name or a folder
MAX_MB = 40.0  # of a page, by default: phones open it, and it fits into an e-mail
MAX_TOKENS = 128  # of a sentence in the page
MAX_POINTS = 300  # dev sentences in the page's pictures
LARGEST = 127  # of int8: −128 is left out, so that the range is symmetric
BATCH = 32
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


# ---------------------------------------------------------------------------------------------
# The model


@dataclass
class Loaded:
    """A model, and the parts of it that go into a page.

    Args:
        bert: the encoder.
        tokenizer: its vocabulary.
        masked: the same encoder with its head for masked words, where the model has one.
        head: its classifier, where it has one.
        base: the model that it was fine-tuned from, if known.
        labels: the names of its classes.
        wrong: the tasks whose functions, of the student's, do not pass their checks.
    """

    bert: BertModel
    tokenizer: BertTokenizer
    masked: PretrainingModel | None = None
    head: nn.Linear | None = None
    base: str | None = None
    labels: Sequence[str] = ()
    wrong: Sequence[str] = ()

    @property
    def classes(self) -> int:
        """How many classes it distinguishes; 0 without a classifier."""
        return self.head.out_features if self.head else 0

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All weights, under the names of bert.py's parameters and of the heads."""
        named = dict(self.bert.named_parameters())
        if self.masked:
            named |= {name: self.masked.get_parameter(name) for name in MASKED_WORD_NAMES.values()}
        if self.head:
            named |= {f"classifier.{name}": p for name, p in self.head.named_parameters()}
        return {name: parameter.detach() for name, parameter in named.items()}

    def rounded(self) -> Loaded:
        """The same model with the rounded weights of the page."""
        small = copy.deepcopy(self)
        for tensor in small.tensors.values():
            if tensor.ndim == 2:
                values, scale = quantize_rows(tensor.numpy())
                tensor.copy_(torch.from_numpy(values * scale[:, None]))
        return small

    @torch.no_grad()
    def word_logits(self, ids: Tensor) -> Tensor:
        """Logits of the words at every position: (B, L) → (B, L, V)."""
        return self.masked(ids, torch.ones_like(ids))[0].unflatten(0, ids.shape)

    @torch.no_grad()
    def class_logits(self, ids: Tensor) -> Tensor:
        """Logits of the classes: (B, L) → (B, K)."""
        return self.head(self.bert(ids, torch.ones_like(ids))["pooler_output"])


def load(name: str) -> Loaded:
    """A model with the heads that it has; a checkpoint's is the one linear layer outside BERT."""
    if name.endswith(CHECKPOINT):
        model, config = load_model(name, torch.device("cpu"))
        layers = [
            layer
            for path, layer in model.named_modules()
            if isinstance(layer, nn.Linear) and not path.startswith("bert.")
        ]
        if len(layers) != 1:
            raise InputError(f"{name}: the page knows classifiers with one linear layer, not this")
        tokenizer = BertTokenizer.from_pretrained(config.model)
        labels = trained_names(config, layers[0].out_features)
        return Loaded(model.bert, tokenizer, head=layers[0], base=config.model, labels=labels)
    tensors = {canonical_name(key): value for key, value in read_weights(find_model(name)).items()}
    masked = head = None
    if MASKED_WORD_NAMES.keys() <= tensors.keys():
        masked = PretrainingModel.from_pretrained(name, objective="none")
    if "classifier.weight" in tensors:
        head = nn.Linear(*reversed(tensors["classifier.weight"].shape))
        head.load_state_dict({kind: tensors[f"classifier.{kind}"] for kind in ("weight", "bias")})
    bert = masked.bert if masked else BertModel.from_pretrained(name)
    if head:
        bert.config.check_classes(head.out_features)
    labels = trained_names(bert.config, head.out_features) if head else ()
    return Loaded(bert, BertTokenizer.from_pretrained(name), masked, head, labels=labels)


# ---------------------------------------------------------------------------------------------
# Weights as bytes


def quantize_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(R, C) float32 → (R, C) int8 and a scale per row (R,): matrix ≈ int8 · scale.

    Each row's largest number becomes ±127, so the error of no number exceeds half its row's scale.
    """
    scale = np.abs(matrix).max(axis=1) / LARGEST  # (R,)
    scale = np.where(scale > 0, scale, 1).astype(np.float32)  # a row of zeros, such as [PAD]'s
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale


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


# ---------------------------------------------------------------------------------------------
# The dev set as points


@torch.no_grad()
def cls_vectors(model: BertModel, tokenizer: BertTokenizer, texts: Sequence[str]) -> np.ndarray:
    """The last [CLS] vector of each text: (N, D)."""
    limit = min(MAX_TOKENS, model.config.max_position_embeddings)
    vectors = []
    for first in range(0, len(texts), BATCH):
        rows = list(texts[first : first + BATCH])
        batch = tokenizer(
            rows, padding=True, truncation=True, max_length=limit, return_tensors="pt"
        )
        vectors.append(model(batch.input_ids, batch.attention_mask)["last_hidden_state"][:, 0])
    return torch.cat(vectors).numpy()


def principal_components(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean (D,) and the two directions along which vectors (N, D) differ most (2, D)."""
    mean = vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors - mean, full_matrices=False)
    return mean, directions[:2]


def points_of(loaded: Loaded, dev: str, base: str | None) -> dict[str, Any]:
    """Sentences of a dev file as points, before and after fine-tuning, and the projection."""
    rows = load_data(dev, "dev", loaded.classes)
    rows = rows[:: -(-len(rows) // MAX_POINTS)]
    texts = [text for text, *_ in rows]
    pictures = []
    if base:
        before = cls_vectors(BertModel.from_pretrained(base), loaded.tokenizer, texts)
        pictures.append(("before", before))
    pictures.append(("after", cls_vectors(loaded.bert, loaded.tokenizer, texts)))
    points: dict[str, Any] = {"texts": texts, "classes": [label for _, label, _ in rows]}
    for name, vectors in pictures:
        mean, directions = principal_components(vectors)
        points[name] = np.round((vectors - mean) @ directions.T, 4).tolist()
    return points | {"mean": mean.tolist(), "directions": directions.tolist()}


# ---------------------------------------------------------------------------------------------
# The page

IN_WORKER = ("bert.js", "worker.js")
IN_PAGE = (
    "bert.js",  # the page explains with the same functions as the worker computes
    "tokenizer.js",
    "draw.js",
    "mask.js",
    "grammar.js",
    "inside.js",
    "attention.js",
    "classes.js",
    "page.js",
)


def read(*names: str) -> str:
    """Files of the template's folder, concatenated."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


Shown = Mapping[str, Any] | None  # by a part of the page, where it is there


def page(
    loaded: Loaded, name: str, labels: Sequence[str], points: Shown, code: Shown = None
) -> str:
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
        "labels": labels,
        "points": points,
        "pairs": PAIRS,
        "sentences": sentences(masked=loaded.masked is not None),
        "code": code or code_by_screen(loaded.wrong),
    }
    script = read(*IN_PAGE)
    template = templates(HERE).get_template("page.html")
    return template.render(
        policy=Markup(policy(script, "blob:; worker-src blob:; img-src data:")),
        name=name,
        style=Markup(STYLE + read("page.css")),
        data=values,  # the template escapes what could end its script element
        weights=base64.b64encode(content).decode(),
        worker=Markup(read(*IN_WORKER)),
        script=Markup(script),
        loaded=loaded,
        learned=base64.b64encode(LEARNED.read_bytes()).decode(),
    )


# ---------------------------------------------------------------------------------------------
# What rounding changes


def agreement(loaded: Loaded, texts: Iterable[str]) -> str:
    """How often rounded and float32 weights give the same first word, and the same class."""
    small = loaded.rounded()
    words, classes = [], []
    for text in texts:
        ids = loaded.tokenizer(text, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        ids = ids.input_ids[:, : loaded.bert.config.max_position_embeddings]  # (1, L)
        if loaded.classes:
            first, second = (x.class_logits(ids).argmax(dim=-1) for x in (loaded, small))
            classes += (first == second).tolist()
        if loaded.masked:
            places = torch.arange(1, ids.shape[1] - 1)  # all but [CLS] and [SEP], M of them
            masked = ids.repeat(len(places), 1)  # (M, L)
            masked[range(len(places)), places] = loaded.tokenizer.mask_token_id
            logits = (x.word_logits(masked) for x in (loaded, small))
            first, second = (x[range(len(places)), places].argmax(dim=-1) for x in logits)  # (M)
            words += (first == second).tolist()
    parts = [
        f"the same {what} as float32 in {np.mean(same):.1%} of {len(same)} {of}"
        for what, same, of in (("first word", words, "places"), ("class", classes, "sentences"))
        if same
    ]
    return "; ".join(parts) or "nothing to compare: the model has neither words nor classes"


# ---------------------------------------------------------------------------------------------
# The command line


def get_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = OneLineParser(prog="playground.py", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--model", default=OWN_MODEL, help="name, folder or checkpoint of classifier.py")
    add("--out", default="playground.html", help="the page")
    add("--labels", help="names of the classes, separated by commas, if not those of the training")
    add("--dev", metavar="FILE", help="labelled sentences of a classifier, shown as points")
    add("--base", help="the model before fine-tuning (a checkpoint names its own)")
    add("--most_mb", type=positive_float, default=MAX_MB, help="refuse to write a larger page")
    add(
        "--agreement",
        action="store_true",
        help="print how often int8 and float32 agree, on --dev's sentences if given",
    )
    return parser.parse_args(arguments)


def class_labels(loaded: Loaded, names: str | None) -> list[str]:
    """Names of the classes: those of --labels or of the training, or numbers."""
    if names is None:
        return [f"class {i}" if name == str(i) else name for i, name in enumerate(loaded.labels)]
    labels = [label.strip() for label in names.split(",")]
    if not loaded.classes:
        raise InputError("--labels name classes, and this model has no classifier")
    if len(labels) != loaded.classes:
        raise InputError(f"{len(labels)} --labels for {loaded.classes} classes; name them all")
    return labels


def check_size(loaded: Loaded, most_mb: float) -> None:
    """InputError if the page would be too large."""
    count = sum(tensor.numel() for tensor in loaded.tensors.values())
    megabytes = 4 / 3 * count / 1e6  # base64
    if megabytes > most_mb:
        raise InputError(
            f"{count:,} parameters make a page of {megabytes:.0f} MB, and browsers are slow with "
            f"more than {MAX_MB:.0f}; take a smaller model, or --most_mb {megabytes + 1:.0f}"
        )


def main() -> None:
    """Load a model, write its page and print its size."""
    args = get_args()
    loaded = load(args.model)
    labels = class_labels(loaded, args.labels)
    check_size(loaded, args.most_mb)
    points = None
    if args.dev:
        if not loaded.classes:
            raise InputError("--dev shows what a classifier does, and this model has none")
        points = points_of(loaded, args.dev, args.base or loaded.base)
    loaded.wrong = wrong_tasks(("bert.py", "classifier.py") if loaded.base else ("bert.py",))
    for task in loaded.wrong:
        print(f"{task} does not pass its check (sanity_check.py); the page does not use it")
    text = page(loaded, Path(args.model).name, labels, points)
    write_whole(args.out, text)
    parts = ["words for [MASK]"] * bool(loaded.masked) + ["classes"] * bool(labels)
    print(f"it has {' and '.join(parts) or 'no head: vectors and attention only'}")
    if args.agreement:
        print(agreement(loaded, points["texts"] if points else sentences(masked=False)))
    print(f"wrote {args.out}, {len(text.encode()) / 1e6:.1f} MB: open it in a browser")


if __name__ == "__main__":
    run_script(main)
