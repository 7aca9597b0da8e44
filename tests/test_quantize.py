"""lessons/quantize.py: int8 by rows, its errors, and accuracy before and after."""

import numpy as np
from factories import save_classifier_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as shapes
from running import succeeded

from lessons import numpy_bert, quantize
from lessons.quantize import Int8Matrix, quantize_rows


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


def test_the_command_measures_before_and_after(run_script_here, tmp_path):
    save_classifier_folder(tmp_path / "trained")
    lines = [f"{i},{i % 2},{text} {i}" for i, text in enumerate(["warm film", "dull", "a cat"] * 5)]
    (tmp_path / "t.csv").write_text("\n".join(["id,label,text", *lines]) + "\n")
    done = succeeded(run_script_here(quantize, "--model", "trained", "--file", "t.csv"))
    _, config, weights, words = numpy_bert.load(str(tmp_path / "trained"))
    _, texts, labels = numpy_bert.read_texts(tmp_path / "t.csv")
    rows = numpy_bert.encode(texts, words, config)
    logits = {}
    for name, tensors in (("float32", weights), ("int8", quantize.quantize(weights))):
        logits[name] = numpy_bert.predict(tensors, config, rows)
        right = int((logits[name].argmax(-1) == labels).sum())
        assert f"{name}: accuracy {right / 15:.5f}" in done.out
    far = np.abs(logits["int8"] - logits["float32"]).max()
    assert 1e-5 < far < 2e-2
    assert f"int8: logits at most {far:.1e} " in done.out
