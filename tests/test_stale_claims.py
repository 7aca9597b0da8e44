"""What texts tell a reader to type can be typed, and a number that is on two pages is the same."""

import argparse
import re
import runpy
import sys

import pytest
from factories import ROOT
from test_docs import DOCS, read

TEXTS = {*DOCS, *ROOT.glob("[AS]*.md"), *ROOT.glob("[dmr]*/**/*.md")}
FENCE = re.compile(r"^ *```\w*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"\b(?:python|torchrun)(?: -[-\w]+(?: \d+)?)*? ([\w./-]+\.py)\b(.*)")
END = re.compile(r"\s#|;|&&|\||\) ")  # of a command in its line
FLAG = re.compile(r"-{1,2}[A-Za-z][\w-]*")
SAME = (  # a quantity: the pages of docs/ that have it, and the pattern around its number
    {"fill-mask": r"BERT\s+([\d.]+) nats", "../models/books/README": r"loss ([\d.]+) nats"},
    {"fill-mask": r"BERT\s+([\d.]+) nats", "pretraining": r"loss, nats .*\| ([\d.]+) \|"},
    {"measured": r"\| fine-tuned \| ([\d.]+)", "features": r"Fine-tuned, it has ([\d.]+)"},
    {"measured": r"\| fine-tuned \| ([\d.]+)", "../README": r"([\d.]+) and [\d.]+ on SST"},
    {"measured": r"int8\].*?dev \| ([\d.]+)", "quantize": r"int8: accuracy ([\d.]+)"},
    {"measured": r"on-bert-tiny\): accuracy \| ([\d.]+)", "pretraining": r"accuracy of\s+([\d.]+)"},
    {"measured": r"entity F1 \| ([\d.]+)", "token-classification": r"bfloat16 .*\| ([\d.]+) \| 5"},
    {"measured": r"\): F1 \| ([\d.]+)", "question-answering": r"ours \| [\d.]+ \| ([\d.]+)"},
)


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


@pytest.mark.parametrize("path", sorted(TEXTS), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_in_texts_can_be_typed(path, monkeypatch):
    def stop(parser, *_):
        raise Parsed(parser)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", stop)
    for script, words in commands(read(path)):
        assert (ROOT / script).is_file(), script
        if any(map(FLAG.fullmatch, words)):
            monkeypatch.setattr(sys, "argv", [script])
            monkeypatch.syspath_prepend((ROOT / script).parent)
            with pytest.raises(Parsed) as stopped:
                runpy.run_path(str(ROOT / script), run_name="__main__")
            assert not fault(stopped.value.args[0], words), f"{script} {' '.join(words)}"


@pytest.mark.parametrize("patterns", SAME)
def test_a_number_on_two_pages_is_the_same(patterns):
    found = [re.search(p, read(ROOT / f"docs/{page}.md")) for page, p in patterns.items()]
    assert all(found), f"{patterns} no longer finds its number"
    numbers = [match[1] for match in found]
    places = min(len(number.partition(".")[2]) for number in numbers)
    assert len({round(float(number), places) for number in numbers}) == 1, numbers
