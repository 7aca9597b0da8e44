"""BERT's whole forward pass in NumPy: every step a line of arithmetic, and no torch.

    python -m lessons.numpy_bert --model DIR --text "A film to see twice."
    python -m lessons.numpy_bert --model DIR --file reviews.csv --out predictions/numpy.csv

DIR is a Hugging Face folder: config.json, vocab.txt, model.safetensors. `python -m lessons.export`
writes one from a trained classifier's checkpoint. --text prints every step's shape and role; --file
predicts a table (separated by commas or tabs), and scores it where it has labels.
Shapes: B batch, L tokens, D hidden size, H heads, W = D / H, I intermediate size, V vocabulary.
None of this needs torch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf
from tqdm import tqdm

from config import BertConfig
from lessons.saved_head import check_classes
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.files.course_files import trained_names
from training.files.errors import InputError, output_fault, values_of
from training.files.folder import CORE, by_name, check_surplus
from training.files.hub import find_model
from training.files.tables import class_labels, read_table, refuse
from training.files.writing import write_whole

Weights = Mapping[str, Any]  # Hugging Face's names → arrays, or what multiplies like one
Show = Callable[[str, np.ndarray, str], None]  # called with every step: its name, result and role
MAX_TOKENS = 512  # longer texts are cut, as classifier.py does
BATCH = 16  # texts that are computed together


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU(x) = x · Φ(x), Φ the normal distribution function (Hendrycks & Gimpel 2016)."""
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def softmax(x: np.ndarray) -> np.ndarray:
    """Along the last axis; the largest score is taken off first, so that exp cannot overflow."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def layer_norm(x: np.ndarray, weights: Weights, name: str, eps: float) -> np.ndarray:
    """Each token's D numbers to mean 0 and variance 1, then scaled and shifted (Ba et al. 2016)."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)  # (…, 1), divided by D
    return centred / np.sqrt(variance + eps) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    """Affine map x Wᵀ + b: (…, in) → (…, out); checkpoints keep W as (out, in)."""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """(B, L, D) → (B, H, L, W): each head gets its own W of the D numbers."""
    batch, length, size = x.shape
    return x.reshape(batch, length, heads, size // heads).transpose(0, 2, 1, 3)


def silent(name: str, value: np.ndarray, role: str) -> None:
    """Show nothing."""


def embed(
    weights: Weights, config: BertConfig, ids: np.ndarray, segments: np.ndarray, show: Show
) -> np.ndarray:
    """Three tables' rows, added and normalised: (B, L), (B, L) → (B, L, D)."""
    words = weights["embeddings.word_embeddings.weight"][ids]  # (B, L, D)
    show("word embeddings", words, "row ids[l] of the table (V, D): which token it is")
    kinds = weights["embeddings.token_type_embeddings.weight"][segments]  # (B, L, D)
    show("segment embeddings", kinds, "first or second sentence")
    places = weights["embeddings.position_embeddings.weight"][np.arange(ids.shape[1])]  # (L, D)
    show("position embeddings", places, "row l: the token's position; attention knows no order")
    x = layer_norm(words + kinds + places, weights, "embeddings.LayerNorm", config.layer_norm_eps)
    show("sum, LayerNorm", x, "one vector a token, each of mean 0 and variance 1 before its scale")
    return x


def layer(
    weights: Weights,
    config: BertConfig,
    number: int,
    x: np.ndarray,
    mask: np.ndarray,
    show: Show,
) -> np.ndarray:
    """One encoder layer: (B, L, D) and a mask (B, L) of 1 and 0 → (B, L, D)."""
    name, heads = f"encoder.layer.{number}", config.num_attention_heads
    query, key, value = (
        split_heads(linear(x, weights, f"{name}.attention.self.{part}"), heads)
        for part in ("query", "key", "value")
    )  # (B, H, L, W) each
    show("query", query, "x Wᵀ + b, in heads: what each token looks for")
    show("key", key, "the same with other weights: what each token offers")
    show("value", value, "and again: what it hands over")
    scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1])  # (B, H, L, L)
    show("scores", scores, "Q Kᵀ / √W: how well token i's query fits token j's key")
    hidden = mask[:, None, None, :] == 0  # (B, 1, 1, L)
    scores = np.where(hidden, np.finfo(scores.dtype).min, scores)
    probabilities = softmax(scores)  # (B, H, L, L)
    show("probabilities", probabilities, "softmax over j: each row sums to 1, padding gets 0")
    context = probabilities @ value  # (B, H, L, W)
    show("context", context, "each head's mean of the values, with these weights")
    context = context.transpose(0, 2, 1, 3).reshape(x.shape)  # (B, L, D)
    attended = linear(context, weights, f"{name}.attention.output.dense")  # (B, L, D)
    show("attention output", attended, "heads side by side, mixed by one matrix (D, D)")
    norm = f"{name}.attention.output.LayerNorm"
    x = layer_norm(x + attended, weights, norm, config.layer_norm_eps)
    show("add & norm", x, "what went in is kept: x + attention(x), normalised")
    wide = gelu(linear(x, weights, f"{name}.intermediate.dense"))  # (B, L, I)
    show("expand, GELU", wide, "each token alone, to I numbers; GELU bends")
    narrow = linear(wide, weights, f"{name}.output.dense")  # (B, L, D)
    show("contract", narrow, "back to D")
    x = layer_norm(x + narrow, weights, f"{name}.output.LayerNorm", config.layer_norm_eps)
    show("add & norm", x, "x + feed_forward(x), normalised: the layer's output")
    return x


def forward(
    weights: Weights,
    config: BertConfig,
    ids: np.ndarray,
    mask: np.ndarray,
    segments: np.ndarray | None = None,
    show: Show = silent,
) -> dict[str, np.ndarray]:
    """The whole of BERT, and a classifier's logits where the weights have one.

    Args:
        ids, mask, segments: (B, L) integers: tokens, 1 or 0 for padding, 0 or 1 for the sentence.
        show: is called with every step of the embeddings, the first layer and the head.

    Returns:
        last_hidden_state (B, L, D), pooler_output (B, D), and logits (B, number of classes).
    """
    x = embed(weights, config, ids, np.zeros_like(ids) if segments is None else segments, show)
    for number in range(config.num_hidden_layers):
        x = layer(weights, config, number, x, mask, silent if number else show)
        if number:
            show(f"layer {number + 1}", x, "the same steps with its own weights")
    result = {"last_hidden_state": x}
    if "pooler.dense.weight" in weights:
        pooled = np.tanh(linear(x[:, 0], weights, "pooler.dense"))  # (B, D)
        show("pooler", pooled, "tanh(Wᵀ [CLS] + b): the sentence in one vector")
        result["pooler_output"] = pooled
        if "classifier.weight" in weights:
            result["logits"] = linear(pooled, weights, "classifier")  # (B, classes)
            show("logits", result["logits"], "one score a class")
    return result


FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}


def as_array(entry: Mapping[str, Any]) -> np.ndarray:
    """A tensor of a safetensors file in float32; nan where its numbers have another type."""
    if entry["dtype"] not in FLOATS:
        return np.full(entry["shape"], np.nan, np.float32)
    numbers = np.frombuffer(entry["data"], FLOATS[entry["dtype"]])
    if entry["dtype"] == "BF16":  # the upper half of a float32, whose lower half becomes 0
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers.astype(np.float32).reshape(entry["shape"])


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """The tensors of model.safetensors in float32, under the names of training.files.folder."""
    from safetensors import SafetensorError, deserialize

    file = folder / "model.safetensors"
    try:
        tensors = dict(deserialize(file.read_bytes()))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file} cannot be read ({error}); write it by lessons.export") from error
    weights = by_name(folder, {name: as_array(entry) for name, entry in tensors.items()})
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise InputError(f"{file}: {name} does not hold finite floating-point numbers alone")
    return weights


class Read(dict):
    """Arrays by their names; those that were looked up are noted in ``names``."""

    def __getitem__(self, name: str) -> np.ndarray:
        self.names.add(name)
        return super().__getitem__(name)


class Model(NamedTuple):
    """What a Hugging Face folder holds."""

    folder: Path
    config: BertConfig
    weights: dict[str, np.ndarray]
    words: BertTokenizer


def load(name: str | None) -> Model:
    """The model in a folder, or of that name; InputError where there is none to compute with."""
    folder = find_model(name)
    config = BertConfig.from_json(folder / "config.json")
    weights = read_weights(folder)
    if any(name.startswith("classifier.") for name in weights):
        check_classes(config, weights)
    ids, read = np.zeros((1, 1), int), Read(weights)
    read.names = set()
    with values_of(f"{folder} holds no BERT of the shape in config.json", "write it again"):
        forward(read, config, ids, ids + 1)
    check_surplus(str(folder), weights, read.names, *CORE)
    return Model(folder, config, weights, BertTokenizer.from_pretrained(name))


def print_step(name: str, value: np.ndarray, role: str) -> None:
    """Print a step of the forward pass as a row of a table."""
    first = " ".join(f"{number:8.4f}" for number in value.ravel()[:3])
    print(f"{name:<20} {value.shape!s:<18} {first:<26} {role}")


def encode(texts: Sequence[str], words: BertTokenizer, config: BertConfig) -> list[list[int]]:
    """The ids of [CLS] text [SEP] for each text, cut to what the model has positions for."""
    limit = min(MAX_TOKENS, config.max_position_embeddings)
    rows = [words.text_to_ids(text) for text in texts]
    if too_long := sum(len(row) > limit - 2 for row in rows):
        print(f"data: {too_long} of {len(texts)} texts were cut at {limit} tokens")
    return [[words.vocab["[CLS]"], *row[: limit - 2], words.vocab["[SEP]"]] for row in rows]


def predict(weights: Weights, config: BertConfig, rows: Sequence[list[int]]) -> np.ndarray:
    """The logits of N rows of ids, computed in batches of similar length: (N, classes)."""
    if "classifier.weight" not in weights:
        what = f"{config.name_or_path} has no classifier"
        raise InputError(f"{what}; python -m lessons.export writes one")
    results: list[np.ndarray | None] = [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
    for start in tqdm(range(0, len(rows), BATCH), desc="predict", leave=False, disable=None):
        batch = order[start : start + BATCH]
        ids = np.full((len(batch), len(rows[batch[0]])), config.pad_token_id, np.int64)  # (B, L)
        mask = np.zeros_like(ids)
        for at, i in enumerate(batch):
            ids[at, : len(rows[i])] = rows[i]
            mask[at, : len(rows[i])] = 1
        for i, row in zip(batch, forward(weights, config, ids, mask)["logits"], strict=True):
            results[i] = row
    return np.stack(results)


def read_texts(path: Path) -> tuple[list[str], list[str], np.ndarray | None]:
    """Read ids, texts and labels from a table; labels may be missing."""
    table = read_table(path, ("sentence",), "sentiment", may_lack_labels=True)
    empty = table["sentence"].str.strip() == ""
    refuse(path, table, empty, "has an empty sentence", "fill it in or remove the row")
    labels = class_labels(path, table).to_numpy() if "label" in table else None
    return [*table["id"]], [*table["sentence"]], labels


def report(labels: np.ndarray, predicted: np.ndarray) -> None:
    """Print the accuracy."""
    right = labels == predicted  # (N,)
    print(f"accuracy {right.mean():.5f} ({right.sum()} of {len(right)})")


def explain(model: Model, text: str) -> None:
    """Print every step for one sentence, and the probability of each class."""
    _, config, weights, words = model
    (row,) = encode([text], words, config)
    print("tokens:", *(words.pieces[i] for i in row))
    print("ids:   ", *row)
    print(f"{'step':<20} {'shape':<18} {'first numbers':<26} role")
    ids = np.array([row])  # (1, L)
    mask = np.ones_like(ids)
    result = forward(weights, config, ids, mask, show=print_step)
    if "logits" not in result:
        print("no classifier in this folder: the encoder ends here")
        return
    chances = softmax(result["logits"])[0]
    for name, chance in zip(trained_names(config, len(chances)), chances, strict=True):
        print(f"class {name}: {chance:.4f}")


def main() -> None:
    """Show how a sentence passes through BERT, or predict a table."""
    sys.stdout.reconfigure(errors="replace")  # a console without UTF-8 shows ? for what it lacks
    parser = OneLineParser(description="BERT's forward pass in NumPy.")
    add, either = parser.add_argument, parser.add_mutually_exclusive_group(required=True)
    add("--model", help="folder with config.json, vocab.txt, model.safetensors; or a model's name")
    either.add_argument("--text", help="show every step for this sentence")
    either.add_argument("--file", type=Path, help="predict this table")
    add("--out", type=Path, help="write id,Predicted_Sentiment here")
    args = parser.parse_args()
    model = load(args.model)
    folder, config, weights, words = model
    print(f"{sum(tensor.size for tensor in weights.values()):,} parameters from {folder}")
    if args.text is not None:
        return explain(model, args.text)
    ids, texts, labels = read_texts(args.file)
    predicted = predict(weights, config, encode(texts, words, config)).argmax(axis=-1)
    if labels is not None:
        report(labels, predicted)
    if args.out:
        rows = [f"{id_},{label}\n" for id_, label in zip(ids, predicted, strict=True)]
        write_whole(args.out, "".join(["id,Predicted_Sentiment\n", *rows]))
        print(f"wrote {args.out}")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except ValueError as error:  # InputError among them: bad input
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError:
        fault = output_fault()
        if fault is None:
            raise
        sys.exit(fault or 1)
