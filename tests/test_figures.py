"""The drawn figures: as their script draws them, readable by a program, used, and handed out."""

import re
import xml.etree.ElementTree as ET

import pytest
from support import ROOT, load_script

from training.files.errors import InputError

FOLDER = ROOT / "docs" / "figures"
FIGURES = sorted(FOLDER.glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def name_of(path):
    return path.stem


figures = load_script("docs/figures.py")


def test_committed_figures_are_as_drawn(offline_model, monkeypatch, tmp_path):
    figures.main(["--check"])
    assert {path.stem for path in FIGURES} == {draw.__name__ for draw in figures.FIGURES}
    for path in FIGURES:
        text = path.read_text(encoding="utf-8")
        changed = text.replace("the minimum", "a minimum") if path.stem == "adamw" else text
        (tmp_path / path.name).write_text(changed, encoding="utf-8")
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    with pytest.raises(InputError, match=r"^adamw\.svg: no longer as drawn"):
        figures.main(["--check"])
    figures.main([])
    figures.main(["--check"])


def test_rounding_is_no_change():
    assert figures.same("M1.2 30", "M1.3 30")  # rounded up on one machine, down on another
    for other in ("M1.4 30", "M1.2 31", "L1.2 30", "M1.2 30 7"):
        assert not figures.same("M1.2 30", other)


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
