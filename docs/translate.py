"""The assignment's text in German, by gettext: docs/de/handout.po has each paragraph twice.

    python docs/translate.py             bring the .po file up to date with docs/handout.md
    python docs/translate.py --check     name the paragraphs that have no translation, or an old one
    python docs/translate.py --print     print the translated text

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
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import polib

from training.cli.scripts import run_script
from training.files.errors import InputError

FOLDER = Path(__file__).resolve().parent
TEXT, CATALOGUE = FOLDER / "handout.md", FOLDER / "de" / "handout.po"
CODE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
START = re.compile(r"^(?:- |\d+\. |\|)")  # of an item, or of a row
ALIKE = 0.5  # from here on an older paragraph's translation is worth keeping


def translated(text: str, catalogue: polib.POFile) -> str:
    """A text with each message replaced by its translation, where there is one."""
    known = {entry.msgid: entry.msgstr for entry in catalogue if entry.translated()}
    return with_messages(text, lambda message: known.get(message, message))


def with_messages(text: str, change: Callable[[str], str]) -> str:
    """A text with each message replaced by what ``change`` makes of it."""
    parts, at = [], 0
    for code in CODE.finditer(text):
        drawn = code[0].lstrip().startswith("```\n")
        parts.append(prose_with_messages(text[at : code.start()], change))
        parts.append(change(code[0]) if drawn else code[0])
        at = code.end()
    return "".join([*parts, prose_with_messages(text[at:], change)])


def prose_with_messages(text: str, change: Callable[[str], str]) -> str:
    """The same for a text without code."""
    groups: list[list[str]] = []  # the lines of each message, and empty ones
    for line in text.split("\n"):
        if groups and line.strip() and groups[-1][0].strip() and not START.match(line):
            groups[-1].append(line)
        else:
            groups.append([line])
    return "\n".join(changed(" ".join(map(str.strip, lines)), lines[0], change) for lines in groups)


def changed(message: str, first_line: str, change: Callable[[str], str]) -> str:
    """One message, with its indentation. An empty line and the rule of a table are none."""
    if not re.search(r"\w", message):
        return first_line
    indentation = first_line[: len(first_line) - len(first_line.lstrip())]
    return indentation + change(message)


def messages_of(text: str) -> list[str]:
    """The messages of a text in their order, each once."""
    found: dict[str, None] = {}

    def note(message: str) -> str:
        found[message] = None
        return message

    with_messages(text, note)
    return list(found)


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
    either.add_argument("--print", action="store_true", help="print the translated text")
    args = parser.parse_args(arguments)
    text = TEXT.read_text(encoding="utf-8")
    catalogue = polib.pofile(str(CATALOGUE), wrapwidth=99)
    if args.print:
        sys.stdout.write(translated(text, catalogue))
        return
    if not args.check:
        catalogue = update(catalogue, text)
        catalogue.save(str(CATALOGUE))
    if found := out_of_date(catalogue, text):
        raise InputError("\n".join([f"{len(found)} messages of {CATALOGUE.name}:", *found]))
    print(f"{CATALOGUE.name}: all is translated")


if __name__ == "__main__":
    run_script(main)
