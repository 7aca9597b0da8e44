"""Which fingerprints of known mistakes are stored: all that are needed, and no others."""

import itertools
from collections import Counter

import pytest
import torch

from checks.findings import Mistake
from checks.fingerprints import KnownMistakes, fingerprint_of
from checks.graded_tasks import graded_task
from checks.part1 import adamw_mistakes, references, runners
from course import fingerprints
from course.answers import MISTAKES, merge, read_all
from course.fingerprints import base_of, known_of, names_in, outputs_of, with_fingerprints
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


def test_a_mistake_that_would_change_a_right_output_is_not_made():
    def computes(**outputs):
        return {name: torch.tensor([value]) for name, value in outputs.items()}

    right = fingerprint_of(computes(a=1.0))
    words = {name: Mistake(name, "", "", "") for name in ("changes_a", "other")}
    known = KnownMistakes([(("changes_a",), fingerprint_of(computes(a=2.0, b=3.0)))], words)
    here = computes(a=1.0, b=3.0, c=5.0)
    named = [known.find(outputs, "b", right)[0] for outputs in (here, computes(a=4.0, b=3.0))]
    assert named == [[], [words["changes_a"]]]
    known.answers.append((("other",), fingerprint_of(computes(a=1.0, b=3.0))))
    assert known.find(here, "b", right) == ([words["other"]], ["c"])


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


@pytest.mark.parametrize("entry", with_fingerprints(), ids=lambda entry: entry.id)
def test_what_is_stored_names_every_mistake_and_each_pair_once_an_order(entry):
    if entry.id == fingerprints.OPTIMIZER:
        stored = [adamw_mistakes.known_mistakes()]
    else:
        stored = [*map(references.known_mistakes, runners.groups_of(entry.id))]
    answers = [names for known in stored for names, _ in known.answers]
    pairs = Counter(names for names in answers if len(names) == 2)
    singles = {names[0] for names in answers if len(names) == 1}
    assert singles == {answer.name for answer in read_all(MISTAKES, entry.id)}
    orders_of_decay = {1, 2} if entry.id == fingerprints.OPTIMIZER else {1}
    assert set(pairs.values()) == orders_of_decay
