"""lessons/quantize.py: int8 by rows, its size, its errors; ONNX where its packages are."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as shapes
from support import assert_refused, save_classifier_folder, succeeded

from config import BertConfig
from lessons import numpy_bert, quantize, text_tables
from lessons.quantize import Int8Matrix, quantize_rows
from tokenizer import WordPieces, read_vocabulary
from training.files.errors import InputError


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A small random classifier."""
    folder = tmp_path_factory.mktemp("classifier")
    save_classifier_folder(folder)
    return folder


@pytest.fixture
def table(tmp_path) -> Path:
    lines = [f"{i},{i % 2},{text} {i}" for i, text in enumerate(["warm film", "dull", "a cat"] * 5)]
    file = tmp_path / "table.csv"
    file.write_text("\n".join(["id,label,text", *lines]) + "\n")
    return file


def read(folder: Path):
    config = BertConfig.from_json(folder / "config.json")
    return config, numpy_bert.read_weights(folder, config)


# ---------------------------------------------------------------------------------------------
# The arithmetic


@settings(max_examples=100, deadline=None)
@given(
    shapes.arrays(
        np.float32,
        st.tuples(st.integers(1, 5), st.integers(1, 7)),
        elements=st.floats(-1e6, 1e6, width=32).map(lambda x: x if abs(x) > 1e-6 else 0.0),
    )
)
def test_no_number_is_off_by_more_than_half_a_step(matrix):
    values, scale = quantize_rows(matrix)
    assert (values.dtype, scale.dtype) == (np.int8, np.float32)
    assert values.min() >= -127
    assert (scale > 0).all()
    back = values * scale[:, None].astype(np.float64)
    assert (np.abs(back - matrix) <= 0.5001 * scale[:, None]).all()
    int8, x = Int8Matrix(values, scale), np.ones((2, 3, matrix.shape[1]), np.float32)
    np.testing.assert_allclose(x @ int8.T, x @ back.T, rtol=1e-4, atol=1e-5 * np.abs(back).sum())
    rows = np.array([[0, len(matrix) - 1], [0, 0]])
    np.testing.assert_allclose(int8[rows], back[rows], rtol=1e-6)


def test_rounded_inputs_are_whole_numbers_of_a_step_a_token():
    chance = np.random.default_rng(1)
    matrix, x = (chance.normal(size=shape).astype(np.float32) for shape in ((4, 8), (2, 3, 8)))
    x[1] *= 100  # a scale for all tokens together would flatten the others
    int8 = Int8Matrix(*quantize_rows(matrix), quantize_input=True)
    steps = np.abs(x).max(axis=-1, keepdims=True) / 127
    rounded = np.rint(x / steps).astype(np.int64)
    whole = rounded @ int8.values.T.astype(np.int64)  # in integers, as a chip would
    np.testing.assert_allclose(x @ int8.T, whole * steps * int8.scale, rtol=1e-5)
    assert 0.001 < np.abs(x[0] @ int8.T - x[0] @ matrix.T).max() < 0.1


# ---------------------------------------------------------------------------------------------
# Whole models


def test_logits_stay_near_after_writing_and_reading(trained, tmp_path):
    config, weights = read(trained)
    quantize.save(quantize.quantize(weights), trained, tmp_path / "small")
    loaded = quantize.load(tmp_path / "small", config, quantize_input=True)
    ids = np.random.default_rng(3).integers(1, config.vocab_size, (40, 20))
    mask = np.ones_like(ids)
    mask[:20, 10:] = 0
    before = numpy_bert.forward(weights, config, ids, mask)["logits"]
    after = numpy_bert.forward(loaded, config, ids, mask)["logits"]
    assert after.dtype == np.float32
    assert 1e-5 < np.abs(after - before).max() < 2e-2


def test_command_measures_before_and_after(run_script_here, trained, table, tmp_path):
    flags = ("--model", trained, "--out", "small", "--file", table)
    done = succeeded(run_script_here(quantize, *flags))
    lines = done.out.splitlines()
    config, weights = read(trained)
    tokenizer = WordPieces(*read_vocabulary(trained))
    _, texts, labels = text_tables.read_table(table)
    rows = [numpy_bert.encode(text, tokenizer, config) for text in texts]
    for name, tensors in (("float32", weights), ("int8", quantize.load(Path("small"), config))):
        logits = numpy_bert.predict(
            rows, lambda i, m, t=tensors: numpy_bert.forward(t, config, i, m)["logits"]
        )
        right = int((logits.argmax(-1) == labels).sum())
        assert any(line.startswith(f"{name}: accuracy {right / 15:.5f}") for line in lines)
    assert any(line.startswith("int8: logits at most ") for line in lines)


def test_an_encoder_alone_is_quantized_too(run_script_here, tiny_model_folder):
    done = succeeded(run_script_here(quantize, "--model", tiny_model_folder, "--out", "small"))
    assert "int8: pooler_output at most " in done.out
    assert "class" not in done.out


# ---------------------------------------------------------------------------------------------
# What is wrong is said in one line


def test_bad_input_is_one_line(run_script_here, trained, tiny_model_folder, table, tmp_path):
    (tmp_path / "quoted.tsv").write_text('id\ttext\tlabel\na\t"good\t1\nb\tbad"\t0\n')
    for flags, message in (
        (("--model", trained, "--file", "quoted.tsv"), "row 1 (id a) runs on over the next row"),
        (("--model", tiny_model_folder, "--file", table), "has no classifier"),
        (("--model", trained, "--out", trained), "is the folder of --model"),
        (("--model", trained, "--file", "nowhere.csv"), "cannot be read (No such file"),
        (("--model", trained, "--out", table), "cannot write"),
    ):
        assert_refused(run_script_here(quantize, *flags), message)


def test_a_damaged_int8_file_is_refused(trained, tmp_path):
    config, weights = read(trained)
    small = quantize.quantize(weights)
    file = tmp_path / quantize.INT8_FILE
    with pytest.raises(InputError, match=r"holds no model\.int8"):
        quantize.load(tmp_path, config)
    for change, message in (
        (lambda s: s.pop("encoder.layer.0.output.dense.bias"), "layer.0.output.dense.bias is miss"),
        (lambda s: s.pop("pooler.dense.weight.scale"), "is damaged"),
    ):
        broken = dict(small)
        change(broken)
        quantize.save(broken, trained, tmp_path)
        with pytest.raises(InputError, match=message):
            quantize.load(tmp_path, config)
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(InputError, match="is damaged"):
        quantize.load(tmp_path, config)


# ---------------------------------------------------------------------------------------------
# ONNX


def test_without_the_packages_one_line_says_so(run_script_here, trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = run_script_here(quantize, "--model", trained, "--onnx", "model.onnx")
    assert_refused(done, "pip install onnx onnxruntime", code=1)
    assert not Path("model.onnx").exists()


def test_onnxruntime_computes_the_same_logits(run_script_here, trained, table, tmp_path):
    pytest.importorskip("onnx", reason="ONNX is an extra: pip install onnx onnxruntime")
    pytest.importorskip("onnxruntime", reason="ONNX is an extra: pip install onnx onnxruntime")
    done = succeeded(
        run_script_here(quantize, "--model", trained, "--onnx", "model.onnx", "--file", table)
    )
    assert "onnxruntime: logits at most" in done.out
    config, weights = read(trained)
    logits_of = quantize.onnx_logits(Path("model.onnx"))
    for shape in ((1, 3), (5, 17), (2, 64)):  # others than the recorded one
        ids = np.random.default_rng(0).integers(1, 80, shape)
        mask = np.ones_like(ids)
        mask[-1, 2:] = 0
        wanted = numpy_bert.forward(weights, config, ids, mask)["logits"]
        assert np.abs(logits_of(ids, mask) - wanted).max() < 1e-5
