"""What the site makes of our texts; mkdocs.yml names this file.

The site has the repository's folders and README.md is its start page, so a link leads to the same
file as on a code host. Of the files outside docs/ it has the texts of the navigation, and the texts
and pictures that a text links to or shows. It has no code, which holds the solution: a link to code
leads to ``repo_url`` of mkdocs.yml, and is none without. The playground's page is made here; a link
to the script that writes it leads to the page. A missing file fails a strict build.
"""

import itertools
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # mkdocs knows docs/ only

from lessons import playground

IN_HTML = r"""<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)=["']"""
TO_FILE = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^)\s:#]+)\)")
PASSAGE_MARK = re.compile(r"<!-- /?(?:staff|part [23]) -->")  # course/regions.py has the others
FORMULAS = {  # which the playground shows in place of the lines of bert.py
    "embeddings": "LayerNorm(word[id] + position[i] + segment[0])",
    "projections": "Q = X W_Qᵀ + b_Q, and so K and V",
    "scores": "A = softmax(Q Kᵀ / √W + mask)",
    "sum": "A V",
    "heads": "[A₁V₁ | A₂V₂ | … | A_H V_H]: (H, L, W) → (L, D)",
    "add_norm": "LayerNorm(x + Dropout(z Wᵀ + b))",
    "feed_forward": "GELU(x W₁ᵀ + b₁) W₂ᵀ + b₂",
    "pooler": "tanh(h W_Pᵀ + b_P), with h the last [CLS]",
}
TAKEN = (".md", ".svg", ".png")  # endings of files that the site has; all else is code
LINK = re.compile(rf"""(?:\]\(|{IN_HTML})([^)"'\s:#]+)""")
LOADED = re.compile(rf"""({IN_HTML})([^"'\s:#]+)(?=["'\s#])""")
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
LIST_AFTER_TEXT = re.compile(r"^((?!- |\s).+\n)(?=- )", re.MULTILINE)
PLAYGROUND, ITS_SCRIPT = "playground.html", "lessons/playground.py"
TO_FILL_IN = "README.template.md"
TABLE = re.compile("<table>.*?</table>", re.DOTALL)
log = logging.getLogger("mkdocs.hooks")  # a warning fails a strict build


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Give the files of docs/ their folder back, and add what lies outside."""
    docs = Path(config.docs_dir)
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    names = [path.relative_to(ROOT).as_posix() for path in sorted(docs.glob("*.md"))]
    names = list(dict.fromkeys([*names, *texts_of(config.nav), *config.extra_css]))
    for name in names:  # and names grows
        if name.endswith(".md") and (ROOT / name).is_file():
            names += [aim for aim in linked_from(name) if aim not in names]
    for name in names:
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    shown = {
        screen: {"title": "Formula", "isRight": True, "lines": [{"text": formula, "here": True}]}
        for screen, formula in FORMULAS.items()
    }
    page = playground.page(playground.load("books"), "books", shown)
    files.append(File.generated(config, PLAYGROUND, content=page))
    return files


def texts_of(navigation: list | dict | str) -> Iterator[str]:
    """The files that the navigation names."""
    if isinstance(navigation, str):
        yield navigation
    else:
        inside = navigation.values() if isinstance(navigation, dict) else navigation
        for entry in inside:
            yield from texts_of(entry)


def linked_from(name: str) -> list[str]:
    """The files of the repository that a text links to or shows."""
    aims = LINK.findall((ROOT / name).read_text(encoding="utf-8"))
    paths = (os.path.normpath(os.path.join(os.path.dirname(name), aim)) for aim in aims)
    return sorted({path for path in paths if path.endswith(TAKEN) and (ROOT / path).is_file()})


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to the code's host, or none to code; what Python-Markdown needs for a list."""
    here = os.path.dirname(page.file.src_uri)

    def without_code(found: re.Match) -> str:
        aim = os.path.normpath(os.path.join(here, found[2]))
        if aim == ITS_SCRIPT:
            return f"[{found[1]}]({os.path.relpath(PLAYGROUND, here)})"
        if aim.endswith(TAKEN) or not (ROOT / aim).is_file():
            return found[0]
        url = config.repo_url and f"{config.repo_url.rstrip('/')}/blob/HEAD/{aim}"
        text = f"`{found[1]}`" if aim.endswith(found[1]) else found[1]
        return f"[{text}]({url})" if url else text

    if page.file.src_uri == TO_FILL_IN:  # shown as it is, with its comments
        return f"# {TO_FILL_IN}\n\n````markdown\n{markdown}\n````\n"
    parts = FENCE.split(markdown)  # every second one is code
    for i, part in enumerate(parts[::2]):
        part = TO_FILE.sub(without_code, PASSAGE_MARK.sub("", part))
        parts[2 * i] = LIST_AFTER_TEXT.sub(r"\1\n", part)
    return "".join(parts)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Check what the page shows and links to; links in HTML that lead to a text get its page."""
    here = os.path.dirname(page.file.dest_uri)
    pages = {file.dest_uri for file in files}

    def checked(found: re.Match) -> str:
        aim = os.path.normpath(os.path.join(here, found[2]))
        if content.startswith('"><picture>', found.end()):  # a click on its picture opens the page
            aim = PLAYGROUND
        elif aim not in pages and (file := files.get_file_from_path(aim)):
            aim = file.dest_uri
        if aim not in pages:
            log.warning("%s shows or links to %s, which is not there", page.file.src_uri, found[2])
        return found[1] + os.path.relpath(aim, here)

    return TABLE.sub(labelled, LOADED.sub(checked, content))


def labelled(table: re.Match) -> str:
    """A table whose cells know their column's name, which site.css shows on a phone."""
    heads = re.findall("<th[^>]*>(.*?)</th>", table[0], re.DOTALL)
    names = itertools.cycle(re.sub("<[^>]*>", "", head).replace('"', "&quot;") for head in heads)
    return re.sub("<td", lambda _: f'<td data-label="{next(names)}"', table[0])
