"""What strangers' files hold: the right rows; what is refused is in refusals/."""

import pytest

from datasets import load_data
from training.files.predictions import read_predictions
from training.files.texts import read_text


def test_byte_order_mark_and_crlf(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf\xc3\xa9\r\nb\rc")
    assert read_text(tmp_path / "a.csv") == "é\nb\nc"


def test_predictions_are_as_the_grader_reads_them(tmp_path):
    (tmp_path / "p.csv").write_text("id,P,\na\u2028b,1,\nc\t2\t\n", encoding="utf-8")
    assert read_predictions(tmp_path / "p.csv", "P") == {"a\u2028b": 1, "c": 2}


@pytest.mark.parametrize(
    "text",
    [
        "id\tsentence\tlabel\na\tgood\t1\t\t\nb\tbad\t0\n\t\t\n",
        "ID\t Sentence\tLabel \na\tgood\t1\nb\tbad\t0\n",
        "label\tid\tsentence\t\n1.0\ta\tgood\n 0\tb\tbad\n",
    ],
    ids=["trailing tabs", "header", "order"],
)
def test_rows_that_are_clear(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert load_data(tmp_path / "t.csv", "dev") == [("good", 1, "a"), ("bad", 0, "b")]
