"""The German text of the assignment: complete, up to date, the code and links of the original."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest
from test_docs import anchor, headings

from checks.graded_tasks import GRADED_TASKS

polib = pytest.importorskip("polib", reason="no polib: pip install -r requirements-dev.txt")
translate = importlib.import_module("docs.translate")

OWN = rf"(?:{'|'.join(translate.PAGES)})(?:\.de)?\.md"  # the pages that are translated
# Code, links to elsewhere, numbers
KEPT = re.compile(rf"`[^`]+`|\]\((?!#|{OWN})[^)]+\)|\d+\.\d+")

pages = pytest.mark.parametrize("page", translate.PAGES)


@pages
def test_every_paragraph_is_translated(page):
    assert not translate.out_of_date(translate.catalogue_of(page), translate.english(page))


@pages
def test_code_links_and_numbers_are_the_originals(page):
    for entry in translate.catalogue_of(page):
        if not entry.msgid.lstrip().startswith("```"):
            lost = Counter(KEPT.findall(entry.msgid)) - Counter(KEPT.findall(entry.msgstr))
            assert not lost, entry.msgid


@pages
def test_its_links_lead_to_german_headings(page):
    german = translate.german(page)
    assert len(headings(german)) == len(headings(translate.english(page)))
    links = re.findall(rf"\]\(({OWN})?(?:#([^)]+))?\)", german)
    assert links
    for file, place in links:
        name = file.removesuffix(".de.md") or page
        assert name in translate.PAGES, f"{file} is English"
        places = [anchor(text) for _, text in headings(translate.german(name))]
        assert not place or place in places


@pytest.mark.parametrize(
    "task", [task for task in GRADED_TASKS if task.part < 3], ids=lambda task: task.number
)
def test_its_tasks_are_those_of_the_table(task):
    line = f"### Aufgabe {task.number} · {task.function}\n\n`{task.file}` · {task.points} Punkte · "
    line += f"etwa {task.minutes} Minuten · "
    assert translate.german(Path(task.page).stem).replace("\\", "").count(line) == 1


def test_what_has_changed_is_named_and_stays_english():
    text = (
        "# One\n\nA long paragraph\nof two lines.\n\n- an item\n- `code`\n\n| a |\n|---|\n| b |\n"
    )
    entries = {
        "# One": "# Eins",
        "A long paragraph of two lines.": "Ein Absatz.",
        "- an item": "- Es",
    }
    catalogue = translate.update(polib.POFile(), text)
    for entry in catalogue:
        entry.msgstr = entries.get(entry.msgid, "")
    assert translate.translated(text, catalogue) == (
        "# Eins\n\nEin Absatz.\n\n- Es\n- `code`\n\n| a |\n|---|\n| b |\n"
    )
    assert translate.out_of_date(catalogue, text) == [
        f"not translated: {one}" for one in ("- `code`", "| a |", "| b |")
    ]
    changed = text.replace("two lines", "three lines").replace("\n- an item", "")
    later = translate.update(catalogue, changed)
    for one in (catalogue, later):
        named = translate.out_of_date(one, changed)
        assert named[0] == "out of date: A long paragraph of three lines."
    assert "A long paragraph of three lines." in translate.translated(changed, later)
    assert later.find("A long paragraph of three lines.").msgstr == "Ein Absatz."
