"""A BERT at a quarter of its size: every matrix as int8, with one scale per row.

    python lessons/quantize.py --model DIR --out SMALL
    python lessons/quantize.py --model DIR --out SMALL --file reviews.csv
    python lessons/quantize.py --model DIR --onnx model.onnx --file reviews.csv

DIR is a Hugging Face folder, as lessons/export.py writes it; SMALL gets its config.json and
vocabulary and a model.int8.safetensors. With --file (a table of texts and classes) accuracy is
measured before and after, on the same NumPy forward pass (lessons/numpy_bert.py). --onnx writes
the model for onnxruntime and runs it there; it needs ``pip install onnx onnxruntime``.
"""

from __future__ import annotations

import argparse
import importlib
import io
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert import BertModel
from config import BertConfig
from lessons import numpy_bert, text_tables
from lessons.export import read_head
from lessons.playground import LARGEST, quantize_rows
from tokenizer import WordPieces, read_vocabulary
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError, first_line, trouble_in_one_line
from training.files.hub import find_model
from training.files.writing import write_whole

INT8_FILE = "model.int8.safetensors"
SCALE = ".scale"  # the scales of matrix NAME are the vector NAME.scale
OTHER_FILES = ("config.json", "vocab.txt", "tokenizer_config.json")


class Int8Matrix:
    """A matrix (R, C) in int8 with a scale per row, that numpy_bert uses in place of an array.

    Of an embedding only the rows that are looked up are turned back into floats, of a linear layer
    nothing, since x Wᵀ = (x Qᵀ) · scale, the scales being those of the outputs.

    Args:
        quantize_input: round x as well, with a scale per token, as a chip with integer
            arithmetic does.
    """

    __array_ufunc__ = None  # so that NumPy leaves x @ this to __rmatmul__

    def __init__(self, values: np.ndarray, scale: np.ndarray, quantize_input: bool = False):
        self.values, self.scale, self.quantize_input = values, scale, quantize_input

    @property
    def shape(self) -> tuple[int, ...]:
        """(R, C)"""
        return self.values.shape

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.values.size

    @property
    def T(self) -> Int8Matrix:
        """Itself: only ever used in x @ matrix.T, which __rmatmul__ computes."""
        return self

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """The rows as floats: indices (…) → (…, C)."""
        return self.values[rows] * self.scale[rows][..., None]

    def __rmatmul__(self, x: np.ndarray) -> np.ndarray:
        """X Wᵀ: (…, C) → (…, R)."""
        x_scale = 1.0
        if self.quantize_input:
            x_scale = np.abs(x).max(axis=-1, keepdims=True) / LARGEST  # (…, 1)
            x = np.rint(x / x_scale)  # whole numbers; as floats, for which there is a fast product
        return (x @ self.values.T.astype(np.float32)) * x_scale * self.scale


def quantize(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Matrices as int8 with their scales, vectors (biases, LayerNorms) as they are."""
    small = {}
    for name, tensor in weights.items():
        if tensor.ndim == 2:
            small[name], small[name + SCALE] = quantize_rows(tensor)
        else:
            small[name] = tensor
    return small


def usable(small: Mapping[str, np.ndarray], quantize_input: bool = False) -> dict[str, Any]:
    """The result of quantize, as numpy_bert.forward takes it."""
    return {
        name: Int8Matrix(tensor, small[name + SCALE], quantize_input)
        if tensor.dtype == np.int8
        else tensor
        for name, tensor in small.items()
        if not name.endswith(SCALE)
    }


def save(small: Mapping[str, np.ndarray], source: Path, folder: Path) -> int:
    """Write the int8 weights and the other files of ``source``; the bytes of the weights."""
    from safetensors.numpy import save as to_bytes

    if folder.resolve() == source.resolve():
        raise InputError(f"--out {folder} is the folder of --model; name another one")
    content = to_bytes({name: np.ascontiguousarray(tensor) for name, tensor in small.items()})
    write_whole(folder / INT8_FILE, content)
    with trouble_in_one_line("free space", f"cannot write {folder}: "):
        for name in OTHER_FILES:
            if (source / name).is_file():
                shutil.copyfile(source / name, folder / name)
    return len(content)


def load(folder: Path, config: BertConfig, quantize_input: bool = False) -> dict[str, Any]:
    """The weights of a folder that ``save`` wrote, ready for numpy_bert.forward."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = folder / INT8_FILE
    try:
        small = load_file(file)
        weights = usable(small, quantize_input)
    except FileNotFoundError:
        raise InputError(f"{folder} holds no {INT8_FILE}; --out writes one") from None
    except (SafetensorError, OSError, KeyError) as error:
        raise InputError(f"{file} is damaged ({first_line(error)}); write it again") from error
    for name, shape in numpy_bert.shapes(config).items():
        if name not in weights or weights[name].shape != shape:
            raise InputError(f"{file}: {name} is missing or not {shape}, as config.json says")
    return weights


# ---------------------------------------------------------------------------------------------
# ONNX, an optional extra


def need(*modules: str) -> list[Any]:
    """The optional modules, or an InputError that says how to install them."""
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError as error:
        names = " ".join(modules)
        raise InputError(
            f"--onnx needs packages that are not installed ({error}): pip install {names}"
        ) from None


def export_onnx(folder: Path, path: Path) -> None:
    """Write the classifier in ``folder`` as a graph of ONNX operators, for any B and L."""
    (onnx,) = need("onnx")
    tensors = read_head(folder)
    head = torch.nn.Linear(*reversed(tensors["weight"].shape))
    head.load_state_dict(tensors)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert, self.classifier = BertModel.from_pretrained(folder), head

        def forward(self, input_ids, attention_mask):
            return self.classifier(self.bert(input_ids, attention_mask)["pooler_output"])

    ids = torch.ones(2, 8, dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0  # or the recorded run would never have added a mask
    names = ("input_ids", "attention_mask")
    dynamic = {name: {0: "batch", 1: "length"} for name in names} | {"logits": {0: "batch"}}
    graph = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter, which records one run
        torch.onnx.export(
            Logits().eval(),
            (ids, mask),
            graph,
            input_names=list(names),
            output_names=["logits"],
            dynamic_axes=dynamic,
            opset_version=17,
            dynamo=False,  # the newer one needs further packages and splits the file in two
        )
    onnx.checker.check_model(graph.getvalue())
    write_whole(path, graph.getvalue())


def onnx_logits(path: Path) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function that runs an ONNX file: ids and mask (B, L) → logits (B, classes)."""
    (runtime,) = need("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0]


# ---------------------------------------------------------------------------------------------
# The command line

SENTENCES = ("A film to see twice.", "Two hours I will not get back, however hard I try.", "Fine!")


def compare(name: str, logits: np.ndarray, reference: np.ndarray, what: str) -> None:
    """Print how far logits (or pooled vectors) are from the float32 ones."""
    far = np.abs(logits - reference).max()
    line = f"{name}: {what} at most {far:.1e} from float32's"
    if what == "logits":
        same = (logits.argmax(axis=-1) == reference.argmax(axis=-1)).mean()
        line += f", the same class in {same:.2%} of {len(logits)} texts"
    print(line)


def make_parser() -> argparse.ArgumentParser:
    """All flags."""
    parser = OneLineParser(
        prog="lessons/quantize.py", description="Weights in int8; accuracy before and after."
    )
    add = parser.add_argument
    add("--model", required=True, help="Hugging Face folder with model.safetensors, or a name")
    add("--out", type=Path, help="write the int8 model into this folder")
    add("--file", type=Path, help="table of texts and classes to measure accuracy on")
    add("--column", help="its column of texts (default: text or sentence)")
    add("--label", help="its column of classes (default: label or sentiment)")
    add("--limit", type=positive_int, help="only that many of its rows, from the beginning")
    add("--activations", action="store_true", help="measure with int8 inputs of products as well")
    add("--onnx", type=Path, help="also write this ONNX file and run it in onnxruntime")
    add("--batch_size", type=positive_int, default=16)
    return parser


def main() -> None:
    """Quantize, write, and measure."""
    args = make_parser().parse_args()
    if args.onnx:
        need("onnx", "onnxruntime")  # before an hour of measuring
    folder = find_model(args.model)
    config = BertConfig.from_json(folder / "config.json")
    weights = numpy_bert.read_weights(folder, config)
    if "classifier.weight" in weights:
        config.check_classes(len(weights["classifier.weight"]))
    needed = "classifier" if args.file or args.onnx else "pooler.dense"
    if f"{needed}.weight" not in weights:
        raise InputError(f"{folder} has no {needed}; lessons/export.py writes one with all of them")
    words = WordPieces(*read_vocabulary(folder))
    texts, labels = SENTENCES, None
    if args.file:
        _, texts, labels = text_tables.read_table(args.file, args.column, args.label)
        texts, labels = texts[: args.limit], labels if labels is None else labels[: args.limit]
    rows = [numpy_bert.encode(text, words, config) for text in texts]
    numpy_bert.report_cut(texts, words, config)

    small = quantize(weights)
    matrices = [name for name, tensor in weights.items() if tensor.ndim == 2]
    count = sum(tensor.size for tensor in weights.values())
    fraction = sum(weights[name].size for name in matrices) / count
    print(f"{count:,} parameters, {fraction:.1%} of them in {len(matrices)} matrices")
    for name in sorted(matrices, key=lambda name: -weights[name].size)[:3]:
        back = small[name] * small[name + SCALE][:, None]
        error = np.linalg.norm(back - weights[name]) / np.linalg.norm(weights[name])
        print(f"  {name} {weights[name].shape}: off by {error:.2%} of its norm")
    if args.out:
        size = save(small, folder, args.out)
        before = sum(tensor.nbytes for tensor in weights.values())
        print(f"{before / 1e6:.2f} MB → {size / 1e6:.2f} MB: {args.out / INT8_FILE}")
        int8 = load(args.out, config, args.activations)
    else:
        int8 = usable(small, args.activations)

    what = "logits" if "classifier.weight" in weights else "pooler_output"

    def run(tensors: Mapping[str, Any]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        return lambda ids, mask: numpy_bert.forward(tensors, config, ids, mask)[what]

    functions = {"float32": run(weights), "int8": run(int8)}
    if args.onnx:
        export_onnx(folder, args.onnx)
        functions["onnxruntime"] = onnx_logits(args.onnx)
        print(f"wrote {args.onnx}, {args.onnx.stat().st_size / 1e6:.2f} MB")
    outputs = {}
    for name, function in functions.items():
        outputs[name] = numpy_bert.predict(rows, function, args.batch_size, words.vocab["[PAD]"])
        if labels is not None:
            print(f"{name}: ", end="")
            text_tables.report(labels, outputs[name].argmax(axis=-1))
        if name != "float32":
            compare(name, outputs[name], outputs["float32"], what)


if __name__ == "__main__":
    run_script(main)
