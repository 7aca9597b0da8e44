"""Which fingerprints of known mistakes are stored: all that are needed, and no others."""

import itertools
from collections import Counter

import pytest

from checks.fingerprints import KnownMistakes
from checks.graded_tasks import graded_task
from checks.part1 import adamw_mistakes, references, runners
from course import fingerprints
from course.answers import MISTAKES, VARIANTS, merge, read_all
from course.fingerprints import base_of, known_of, names_in, outputs_of, part_1
from training.files.errors import InputError

ADD_NORM = graded_task("bert.add_norm")
SOME = ("dense_skipped", "no_dropout", "no_norm", "residual_subtracted")


def only(monkeypatch, names):
    """Let there be just these mistakes of one function, and its plain correct solution."""
    mistakes = {answer.name: answer for answer in read_all(MISTAKES, ADD_NORM.id)}
    plain = [answer for answer in read_all(VARIANTS, ADD_NORM.id) if answer.name == "plain"]
    found = {MISTAKES: [mistakes[name] for name in names], VARIANTS: plain}
    monkeypatch.setattr(fingerprints, "read_all", lambda folder, _: found[folder])
    return found[MISTAKES]


def test_two_mistakes_are_stored_where_neither_is_named_without(monkeypatch):
    mistakes, base = only(monkeypatch, SOME), base_of(ADD_NORM)
    known = known_of(ADD_NORM)
    stored = Counter(names for found in known.values() for names, _ in found.answers)
    singles = {
        group: KnownMistakes(
            [answer for answer in found.answers if len(answer[0]) == 1], found.mistakes
        )
        for group, found in known.items()
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


def test_a_mistake_that_is_none_is_refused(monkeypatch):
    (one,) = only(monkeypatch, SOME[:1])
    monkeypatch.setitem(one.versions, one.first, base_of(ADD_NORM))
    with pytest.raises(InputError, match="the mistake dense_skipped computes what is correct"):
        known_of(ADD_NORM)


def test_the_same_mistake_twice_is_refused(monkeypatch):
    one, two = only(monkeypatch, SOME[:2])
    monkeypatch.setitem(two.versions, two.first, one.versions[one.first])
    with pytest.raises(InputError, match=r"no_dropout computes the same as .*dense_skipped"):
        known_of(ADD_NORM)


@pytest.mark.parametrize("entry", part_1(), ids=lambda entry: entry.id)
def test_what_is_stored_names_every_mistake_and_each_pair_once(entry):
    if entry.id == fingerprints.OPTIMIZER:
        stored = [adamw_mistakes.known_mistakes()]
    else:
        stored = [*map(references.known_mistakes, runners.groups_of(entry.id))]
    names = [names for known in stored for names, _ in known.answers]
    pairs = Counter(one for one in names if len(one) == 2)
    assert {one for (one, *rest) in names if not rest} == {
        a.name for a in read_all(MISTAKES, entry.id)
    }
    assert pairs
    assert set(pairs.values()) == {1}
