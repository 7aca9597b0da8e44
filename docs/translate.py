"""The assignment's two pages in German, by gettext: docs/de/*.po have each paragraph twice.

    python docs/translate.py                  bring both files up to date with the English pages
    python docs/translate.py --check          name paragraphs without a translation, or an old one
    python docs/translate.py --print part2    print a translated page

A message is a paragraph, a heading, an item of a list or a row of a table, in one line: how the
English is wrapped does not matter. So is a drawing or formula, a block of code without a language.
Where the English has changed, its old translation is kept as "fuzzy": a person has to look at it,
in any gettext editor. Until then the text has the English paragraph there.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import polib

from training.cli.scripts import run_script
from training.files.errors import InputError

FOLDER = Path(__file__).resolve().parent
PAGES = ("handout", "part2")
CODE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
START = re.compile(r"^(?:- |\d+\. |\|)")  # of an item, or of a row
ALIKE = 0.5  # from here on an older paragraph's translation is worth keeping


def english(page: str) -> str:
    """A page's text."""
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def catalogue_of(page: str) -> polib.POFile:
    """A page's messages with their translations; none where the file is missing."""
    path = FOLDER / "de" / f"{page}.po"
    return polib.pofile(str(path), wrapwidth=99) if path.is_file() else polib.POFile()


def german(page: str) -> str:
    """A page's text, translated."""
    return translated(english(page), catalogue_of(page))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(text, message) of each piece of a text in its order; "" where there is nothing to translate.

    Together the texts are the whole; a message has no indentation and no line breaks.
    """
    for piece in re.split(CODE, text):
        if piece.lstrip().startswith("```"):
            yield piece, piece if piece.lstrip().startswith("```\n") else ""
            continue
        group = ""
        for line in piece.splitlines(keepends=True):
            if group.strip() and line.strip() and not START.match(line):
                group += line
            else:
                yield group, message_of(group)
                group = line
        yield group, message_of(group)


def message_of(lines: str) -> str:
    """The message in some lines. An empty line and the rule of a table are none."""
    return " ".join(map(str.strip, lines.splitlines())) if re.search(r"\w", lines) else ""


def translated(text: str, catalogue: polib.POFile) -> str:
    """A text with each message, in one line, replaced by its translation where there is one."""
    known = {entry.msgid: entry.msgstr for entry in catalogue if entry.translated()}
    made = []
    for block, message in blocks(text):
        start, end = re.match(r" *", block)[0], "\n" * block.endswith("\n")
        drawn = message == block
        before, after = ("", "") if drawn else (start, end)
        made.append(f"{before}{known.get(message, message)}{after}" if message else block)
    return "".join(made)


def messages_of(text: str) -> list[str]:
    """The messages of a text in their order, each once."""
    return list(dict.fromkeys(message for _, message in blocks(text) if message))


def update(catalogue: polib.POFile, text: str) -> polib.POFile:
    """A catalogue with exactly the messages of a text; similar old ones lend their translation."""
    old = {entry.msgid: entry for entry in catalogue if not entry.obsolete}
    messages = messages_of(text)
    gone = [message for message in old if message not in messages]
    new = polib.POFile(wrapwidth=99)
    new.metadata = {"Language": "de", "Content-Type": "text/plain; charset=UTF-8"}
    for message in messages:
        entry = old.get(message) or polib.POEntry(msgid=message)
        if message not in old:
            for before in difflib.get_close_matches(message, gone, 1, ALIKE):
                entry.msgstr, entry.flags = old[before].msgstr, ["fuzzy"]
                entry.previous_msgid = before
        new.append(entry)
    return new


def out_of_date(catalogue: polib.POFile, text: str) -> list[str]:
    """The messages of a text that have to be translated or looked at again, a line each."""
    return [
        f"{'out of date' if entry.fuzzy else 'not translated'}: {entry.msgid[:70]}"
        for entry in update(catalogue, text)
        if not entry.translated()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Update, check or print the translation."""
    parser = argparse.ArgumentParser(description="Keep the assignment's translation.")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--check", action="store_true", help="write nothing, say what is missing")
    either.add_argument("--print", choices=PAGES, help="print a translated page")
    args = parser.parse_args(arguments)
    if args.print:
        sys.stdout.write(german(args.print))
        return
    faults = []
    for page in PAGES:
        text, catalogue = english(page), catalogue_of(page)
        if not args.check:
            catalogue = update(catalogue, text)
            catalogue.save(str(FOLDER / "de" / f"{page}.po"))
        if messages := out_of_date(catalogue, text):
            faults += [f"{len(messages)} messages of {page}.po:", *messages]
    if faults:
        raise InputError("\n".join(faults))
    print("all is translated")


if __name__ == "__main__":
    run_script(main)
