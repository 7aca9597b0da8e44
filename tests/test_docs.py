"""The course's texts keep what they promise: tasks, links, files and commands that exist."""

import argparse
import re
import runpy
import sys

import pytest
from factories import ROOT

from checks.graded_tasks import GRADED_TASKS, PAGES

TEMPLATE = ROOT / "README.template.md"
DOCS = (*sorted((ROOT / "docs").rglob("*.md")), TEMPLATE, ROOT / "README.md")
FENCE = re.compile(r"^ *```\w*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
FOLDERS = "course|data|docs|extensions|lessons|pretraining|research"
COMMAND = re.compile(
    r"\b(?:python|torchrun)(?: -[-\w]+(?: \d+)?)*? "
    rf"([\w./-]+\.py|(?:{FOLDERS})\.[\w.]*\w)(?![\w/])(.*)"
)
END = re.compile(r"\s#|;|&&|\||\) ")  # of a command in its line
FLAG = re.compile(r"-{1,2}[A-Za-z][\w-]*")


def read(path):
    return path.read_text(encoding="utf-8")


def headings(text):
    """Headings outside code blocks, as [(level, text)]."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [(len(a), b.replace("\\", "")) for a, b in re.findall(r"^(#+) (.+)$", text, re.M)]


def anchor(heading):
    """The name that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("part", PAGES)
def test_tasks_are_in_working_order_each_with_what_the_registry_says(part):
    found = re.findall(
        r"^### (Task \d.*)\n\n(.*)", read(ROOT / PAGES[part]).replace("\\", ""), re.M
    )
    assert found == [
        (
            task.title,
            f"`{task.file}` · {task.points} points · about {task.minutes} minutes · {task.paper} · "
            f"check: `{task.check}`",
        )
        for task in GRADED_TASKS
        if task.part == part
    ]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_local_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)]+)\)", read(path)):
        file, _, place = target.partition("#")
        if file.startswith("https://"):
            continue
        aim = (path.parent / file).resolve() if file else path
        assert aim.is_file(), f"{path.name}: {target}"
        if place:
            assert place in [anchor(text) for _, text in headings(read(aim))], target


@pytest.mark.parametrize("path", [*DOCS, ROOT / "STRUCTURE.md"], ids=lambda path: path.name)
def test_modules_that_a_text_names_exist(path):
    for name in re.findall(rf"`((?:{FOLDERS}|checks|training|tests)/[\w./-]+\.\w+)`", read(path)):
        assert (ROOT / name).is_file(), name


TEXTS = sorted({*DOCS, *ROOT.glob("[AS]*.md"), *ROOT.glob("[dmr]*/**/*.md")})


class Parsed(BaseException):  # so that no script catches it
    """Carries the parser of a script that begins to parse."""


def commands(text):
    """Commands in blocks and in inline code: (script, its words)."""
    text = re.sub(r"\"[^\"\n]*\"|'[^'\n]*'", "TEXT", text.replace("\\\n", " "))
    lines = re.findall(r"^ {4}.*$", FENCE.sub("", text), re.MULTILINE)
    lines += (line for block in FENCE.findall(text) for line in block.splitlines())
    lines += re.findall(r"`([^`]+)`", FENCE.sub("", text))
    for found in filter(None, (COMMAND.search(" ".join(line.split())) for line in lines)):
        yield found[1], END.split(found[2])[0].split()


def fault(parser, words):
    """The first word of a command that its script does not know."""
    for action in parser._actions:
        if not action.option_strings and action.choices and words[0] not in action.choices:
            return words[0]
    for flag, value in zip(words, [*words[1:], ""], strict=False):
        if FLAG.fullmatch(flag):
            action = parser._option_string_actions.get(flag)
            literal = re.fullmatch("[a-z_]+", value)  # and not VALUE
            if not action or (action.choices and literal and value not in action.choices):
                return f"{flag} {value}"
    return None


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_in_texts_can_be_typed(path, monkeypatch):
    def stop(parser, *_):
        raise Parsed(parser)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", stop)
    for script, words in commands(read(path)):
        module = script.removesuffix(".py").replace("/", ".")
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), script
        if any(map(FLAG.fullmatch, words)):
            monkeypatch.setattr(sys, "argv", [script])
            monkeypatch.delitem(sys.modules, module, raising=False)
            with pytest.raises(Parsed) as stopped:
                runpy.run_module(module, run_name="__main__")
            assert not fault(stopped.value.args[0], words), f"{script} {' '.join(words)}"
