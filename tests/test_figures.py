"""The figures of the texts: readable by a program, on a phone, in light and dark, and used."""

import re
import xml.etree.ElementTree as ET

import pytest
from factories import ROOT

FOLDER = ROOT / "docs"
FIGURES = sorted([*FOLDER.glob("*.svg"), *FOLDER.glob("figures/*.svg")])
SVG = "{http://www.w3.org/2000/svg}"


def name_of(path):
    return path.stem


@pytest.mark.parametrize("path", FIGURES, ids=name_of)
def test_a_figure_can_be_read(path):
    """By a screen reader, in light and dark, and on a phone, where 18 units are 10 pixels."""
    text = path.read_text(encoding="utf-8")
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    assert len(root.find(f"{SVG}title").text) > 10
    assert len(root.find(f"{SVG}desc").text) > 40
    assert "prefers-color-scheme:dark" in text
    assert min(map(int, re.findall(r"(\d+)px", text))) >= 18


@pytest.mark.parametrize("path", FIGURES, ids=name_of)
def test_a_figure_is_shown_in_a_text_with_what_is_seen(path):
    place = path.relative_to(FOLDER).as_posix()
    texts = [page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md")]
    said = [words for text in texts for words in re.findall(rf"!\[(.*)\]\({place}\)", text)]
    assert said
    assert all(len(words) > 40 and words.endswith(".") for words in said)
