"""The site: every link leads somewhere, and a page needs nothing from other hosts."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from support import ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="pip install -r requirements-docs.txt"
)

LOADS = re.compile(r"<(?!a\b)\w+\b[^>]*?\b(?:src|srcset|href|data|action)=[\"']?([^\"'\s>]+)")
STYLE_LOADS = re.compile(r"(?:url\(|@import )\s*[\"']?([^\"')\s]+)")
PICTURES = re.compile(r"<(?:img|source)\b[^>]*?\b(?:src|srcset)=[\"']?([^\"'\s>]+)")
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir"]
    done = subprocess.run(
        [*command, str(folder)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_nothing_is_loaded_from_other_hosts(site):
    looked_at = 0
    for path in site.rglob("*"):
        if path.suffix not in (".html", ".css", ".svg"):
            continue
        text = path.read_text(encoding="utf-8")
        loaded = [
            *STYLE_LOADS.findall(text),
            *(LOADS.findall(text) if path.suffix != ".css" else []),
        ]
        looked_at += len(loaded)
        assert not [aim for aim in loaded if ELSEWHERE.match(aim)], path
        assert "mermaid" not in text or path.suffix == ".css", f"{path}: its script is elsewhere"
    assert looked_at > 200


def test_the_readme_is_the_start_page_and_leads_to_the_texts(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "minBERT: learn how BERT works by building it</h1>" in re.sub("<a.*?</a>", "", page)
    assert '<a href="docs/measured.html">' in page
    assert (site / "docs" / "figures" / "model.svg").is_file()


def test_every_picture_is_there(site):
    shown = 0
    for page in site.rglob("*.html"):
        for name in PICTURES.findall(page.read_text(encoding="utf-8")):
            if not ELSEWHERE.match(name) and not name.startswith("data:"):
                shown += 1
                assert (page.parent / name).is_file(), f"{page.name} shows {name}"
    assert shown > 20
