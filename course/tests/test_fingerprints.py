"""Which fingerprints of known mistakes are stored: all that are needed, and no others."""

import itertools
from collections import Counter

import pytest

from checks.fingerprints import KnownMistakes
from checks.graded_tasks import graded_task
from checks.part1 import adamw_mistakes, references, runners
from course import fingerprints
from course.answers import MISTAKES, merge, read_all
from course.fingerprints import base_of, known_of, names_in, outputs_of, part_1
from training.files.errors import InputError

ADD_NORM = graded_task("bert.add_norm")
SOME = ("dense_skipped", "no_dropout", "no_norm", "residual_subtracted")


def only(monkeypatch, names):
    """Let there be just these mistakes of one function, and no correct solutions but the plain."""
    mistakes = {answer.name: answer for answer in read_all(MISTAKES, ADD_NORM.id)}
    chosen = [mistakes[name] for name in names]
    read = {MISTAKES: chosen}
    monkeypatch.setattr(fingerprints, "read_all", lambda folder, _: read.get(folder, []))
    return chosen


def test_two_mistakes_are_stored_where_neither_is_named_without(monkeypatch):
    mistakes, base = only(monkeypatch, SOME), base_of(ADD_NORM)
    known = known_of(ADD_NORM)
    stored = Counter(names for made in known.values() for names, _ in made.answers)
    singles = {
        group: KnownMistakes([a for a in made.answers if len(a[0]) == 1], made.mistakes)
        for group, made in known.items()
    }
    seen = set()
    for pair in itertools.combinations(mistakes, 2):
        methods = merge(base, *(answer.versions[answer.first] for answer in pair))
        if methods is None:
            continue
        names = tuple(answer.name for answer in pair)
        outputs = outputs_of(ADD_NORM, methods, pair[0].imports + pair[1].imports)
        named = names_in(ADD_NORM, outputs, singles) <= set(names)
        assert stored[names] == (0 if named else 1), names
        assert names_in(ADD_NORM, outputs, known) <= set(names)
        seen.add(named)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (SOME[:1], "the mistake dense_skipped computes what is correct"),
        (SOME[:2], "the mistake no_dropout computes the same as dense_skipped"),
    ],
)
def test_what_computes_nothing_new_is_refused(names, message, monkeypatch):
    *others, last = only(monkeypatch, names)
    same = others[0].versions[others[0].first] if others else base_of(ADD_NORM)
    monkeypatch.setitem(last.versions, last.first, same)
    with pytest.raises(InputError, match=message):
        known_of(ADD_NORM)


@pytest.mark.parametrize("entry", part_1(), ids=lambda entry: entry.id)
def test_what_is_stored_names_every_mistake_and_each_pair_once(entry):
    if entry.id == fingerprints.OPTIMIZER:
        stored = [adamw_mistakes.known_mistakes()]
    else:
        stored = [*map(references.known_mistakes, runners.groups_of(entry.id))]
    answers = [names for known in stored for names, _ in known.answers]
    pairs = Counter(names for names in answers if len(names) == 2)
    singles = {names[0] for names in answers if len(names) == 1}
    assert singles == {answer.name for answer in read_all(MISTAKES, entry.id)}
    assert set(pairs.values()) == {1}
