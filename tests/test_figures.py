"""The drawn figures: as their script draws them, readable by a program, used, and handed out."""

import re
import xml.etree.ElementTree as ET

import pytest
from support import ROOT, load_script

FOLDER = ROOT / "docs" / "figures"
FIGURES = sorted(FOLDER.glob("*.svg"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")
SVG = "{http://www.w3.org/2000/svg}"


def name_of(path):
    return path.stem


figures = load_script("docs/figures.py")


def numbers_of(svg: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(svg)]


@pytest.mark.parametrize("draw", figures.FIGURES, ids=lambda draw: draw.__name__)
def test_a_committed_figure_is_as_drawn(offline_model, draw):
    """But for rounding, which differs by one in a last decimal between machines."""
    committed = (FOLDER / f"{draw.__name__}.svg").read_text(encoding="utf-8")
    drawn = figures.svg_of(draw)
    assert NUMBER.split(drawn) == NUMBER.split(committed), "run python docs/figures.py"
    assert numbers_of(drawn) == pytest.approx(numbers_of(committed), rel=0, abs=0.101)


@pytest.mark.parametrize("path", FIGURES, ids=name_of)
def test_a_figure_can_be_read(path):
    """By a screen reader, in light and dark, and on a phone, where 18 units are 10 pixels."""
    text = path.read_text(encoding="utf-8")
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert len(root.find(f"{SVG}title").text) > 10
    assert len(root.find(f"{SVG}desc").text) > 40
    assert "prefers-color-scheme:dark" in text
    assert min(map(int, re.findall(r"(\d+)px", text))) >= 18


@pytest.mark.parametrize("path", FIGURES, ids=name_of)
def test_a_figure_is_shown_in_a_text_with_what_is_seen(path):
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    said = [
        found for text in texts for found in re.findall(rf"!\[(.*)\]\(figures/{path.name}\)", text)
    ]
    assert said
    assert all(len(words) > 40 and words.endswith(".") for words in said)
