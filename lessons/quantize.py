"""A BERT at a quarter of its size: every matrix as int8, with one scale per row.

    python -m lessons.quantize --model DIR
    python -m lessons.quantize --model DIR --file reviews.csv

DIR is a Hugging Face folder, as lessons.export writes it. With --file (a table of texts and
classes) accuracy is measured before and after, on the same NumPy forward pass
(lessons/numpy_bert.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lessons import numpy_bert
from lessons.playground import quantize_rows
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script


class Int8Matrix:
    """A matrix (R, C) in int8 with a scale per row, that numpy_bert uses in place of an array.

    Of an embedding only the rows that are looked up are turned back into floats, of a linear layer
    nothing, since x Wᵀ = (x Qᵀ) · scale, the scales being those of the outputs.
    """

    __array_ufunc__ = None  # so that NumPy leaves x @ this to __rmatmul__

    def __init__(self, values: np.ndarray, scale: np.ndarray):
        self.values, self.scale = values, scale
        self.nbytes = values.nbytes + scale.nbytes

    @property
    def T(self) -> Int8Matrix:
        """Itself: only ever used in x @ matrix.T, which __rmatmul__ computes."""
        return self

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """The rows as floats: indices (…) → (…, C)."""
        return self.values[rows] * self.scale[rows][..., None]

    def __rmatmul__(self, x: np.ndarray) -> np.ndarray:
        """X Wᵀ: (…, C) → (…, R)."""
        return (x @ self.values.T.astype(np.float32)) * self.scale


def quantize(weights: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Matrices as int8 with their scales, vectors (biases, LayerNorms) as they are."""
    return {
        name: Int8Matrix(*quantize_rows(tensor)) if tensor.ndim == 2 else tensor
        for name, tensor in weights.items()
    }


SENTENCES = ("A film to see twice.", "Two hours I will not get back, however hard I try.", "Fine!")


def print_difference(int8: np.ndarray, float32: np.ndarray) -> None:
    """Print how far int8's logits (N, classes) are from the float32 ones."""
    same = int8.argmax(axis=-1) == float32.argmax(axis=-1)  # (N,)
    line = f"int8: logits at most {np.abs(int8 - float32).max():.1e} from float32's"
    print(f"{line}, the same class in {same.mean():.2%} of {len(same)} texts")


def describe(weights: Mapping[str, np.ndarray], small: Mapping[str, Any]) -> None:
    """Print how much of the model is in matrices, and how far the largest ones are off."""
    matrices = [name for name, tensor in weights.items() if tensor.ndim == 2]
    count = sum(tensor.size for tensor in weights.values())
    fraction = sum(weights[name].size for name in matrices) / count
    print(f"{count:,} parameters, {fraction:.1%} of them in {len(matrices)} matrices")
    for name in sorted(matrices, key=lambda name: -weights[name].size)[:3]:
        back = small[name][np.arange(len(weights[name]))]
        error = np.linalg.norm(back - weights[name]) / np.linalg.norm(weights[name])
        print(f"  {name} {weights[name].shape}: off by {error:.2%} of its norm")
    sizes = [sum(tensor.nbytes for tensor in model.values()) / 1e6 for model in (weights, small)]
    print("{:.2f} MB → {:.2f} MB".format(*sizes))


def main() -> None:
    """Quantize and measure."""
    parser = OneLineParser(description="Weights in int8; accuracy before and after.")
    add = parser.add_argument
    add("--model", required=True, help="Hugging Face folder with model.safetensors, or a name")
    add("--file", type=Path, help="table of texts and classes to measure accuracy on")
    args = parser.parse_args()
    _, config, weights, words = numpy_bert.load(args.model)
    texts, labels = SENTENCES, None
    if args.file:
        _, texts, labels = numpy_bert.read_texts(args.file)
    rows = numpy_bert.encode(texts, words, config)

    small = quantize(weights)
    describe(weights, small)
    outputs = {}
    for name, tensors in (("float32", weights), ("int8", small)):
        outputs[name] = numpy_bert.predict(tensors, config, rows)
        if labels is not None:
            print(f"{name}: ", end="")
            numpy_bert.report(labels, outputs[name].argmax(axis=-1))
    print_difference(outputs["int8"], outputs["float32"])


if __name__ == "__main__":
    run_script(main)
