"""lessons/quantize.py: int8 by rows, its errors, and accuracy before and after."""

from pathlib import Path

import numpy as np
import pytest
from factories import save_classifier_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as shapes
from running import assert_refused, succeeded
from safetensors.numpy import load_file

from lessons import numpy_bert, quantize
from lessons.quantize import Int8Matrix, quantize_rows


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


def test_command_measures_before_and_after(run_script_here, trained, table, tmp_path):
    flags = ("--model", trained, "--out", "small", "--file", table)
    done = succeeded(run_script_here(quantize, *flags))
    lines = done.out.splitlines()
    _, config, weights, words = numpy_bert.load(str(trained))
    written = quantize.usable(load_file(tmp_path / "small" / quantize.INT8_FILE))
    _, texts, labels = numpy_bert.read_table(table)
    rows = numpy_bert.encode(texts, words, config)
    logits = {}
    for name, tensors in (("float32", weights), ("int8", written)):
        logits[name] = numpy_bert.predict(
            rows, lambda i, m, t=tensors: numpy_bert.forward(t, config, i, m)["logits"]
        )
        right = int((logits[name].argmax(-1) == labels).sum())
        assert any(line.startswith(f"{name}: accuracy {right / 15:.5f}") for line in lines)
    far = np.abs(logits["int8"] - logits["float32"]).max()
    assert 1e-5 < far < 2e-2
    assert any(line.startswith(f"int8: logits at most {far:.1e} ") for line in lines)


def test_an_encoder_alone_is_quantized_too(run_script_here, tiny_model_folder):
    done = succeeded(run_script_here(quantize, "--model", tiny_model_folder, "--out", "small"))
    assert "int8: pooler_output at most " in done.out
    assert "class" not in done.out


def test_bad_input_is_one_line(run_script_here, trained, tiny_model_folder, table):
    for flags, message in (
        (("--model", tiny_model_folder, "--file", table), "has no classifier"),
        (("--model", trained, "--out", table), "cannot write"),
    ):
        assert_refused(run_script_here(quantize, *flags), message)
