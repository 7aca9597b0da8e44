"""The site: every link leads somewhere, nothing is on other hosts, no solution is shown."""

import html
import importlib.util
import os
import re
import subprocess
import sys

import pytest
from factories import ROOT

from course.handout import read_regions
from course.regions import secret_lines, surviving

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="pip install -r requirements-docs.txt"
)

LOADS = re.compile(r"<(?!a\b)\w+\b[^>]*?\b(?:src|srcset|href|data|action)=[\"']?([^\"'\s>]+)")
STYLE_LOADS = re.compile(r"(?:url\(|@import )\s*[\"']?([^\"')\s]+)")
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")


def build(folder, *options):
    """Build the site into a folder, warnings being errors."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, encoding="utf-8", env=env
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_nothing_is_loaded_from_other_hosts(site):
    looked_at = 0
    for path in site.rglob("*"):
        if path.suffix not in (".html", ".css", ".svg"):
            continue
        text = path.read_text(encoding="utf-8")
        loaded = STYLE_LOADS.findall(text) + LOADS.findall(text) * (path.suffix != ".css")
        looked_at += len(loaded)
        assert not [aim for aim in loaded if ELSEWHERE.match(aim)], path
        assert "mermaid" not in text or path.suffix == ".css", f"{path}: its script is elsewhere"
    assert looked_at > 200


def readings(text):
    """A file's text as it is, and what a browser makes of HTML and of escapes in a script."""
    yield text
    yield html.unescape(re.sub("<[^>]*>", "", text))
    unescaped = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    yield unescaped.replace("\\n", " ").replace('\\"', '"')


def test_no_file_has_a_line_of_a_solution(site):
    _, regions, _ = read_regions(ROOT)
    secret = secret_lines(regions)
    assert len(secret) > 50
    shown = {
        (path.relative_to(site).as_posix(), secret[line], line)
        for path in site.rglob("*")
        if path.is_file()
        for text in readings(path.read_text(encoding="utf-8", errors="ignore"))
        for line in surviving(secret, text)
    }
    assert not shown


def test_links_in_texts_and_pictures_lead_to_pages(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert '<a href="docs/measured.html">' in page
    assert 'href="playground.html"><picture>' in page
    assert "Formula" in (site / "playground.html").read_text(encoding="utf-8")
    assert '<td data-label="' in (site / "docs" / "measured.html").read_text(encoding="utf-8")


def test_a_link_to_code_leads_to_its_host_or_nowhere(site, tmp_path):
    front = (site / "index.html").read_text(encoding="utf-8")
    assert "<code>bert.py</code>" in front
    assert 'href="bert.py"' not in front
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {ROOT / 'docs'}\nrepo_url: https://x.org/y/\n"
        f"hooks: [{ROOT / 'docs' / 'hooks.py'}]\ntheme: {{custom_dir: {ROOT / 'docs' / 'theme'}}}\n"
    )
    done = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert '<a href="https://x.org/y/blob/HEAD/bert.py"><code>bert.py</code></a>' in front
