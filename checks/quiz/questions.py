"""A question with four options of which exactly one is true, chosen from claims that were run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from checks.quiz.functions import Function

TEXT_WIDTH = 48  # characters in a row of a printed page's column


@dataclass(frozen=True)
class Claim:
    """What may be an option."""

    text: str
    holds: bool | None  # None: not in all runs, so that it is not asked
    executed: str  # what came out, in words


@dataclass(frozen=True)
class Question:
    """One question about one function."""

    kind: str
    level: str
    task: str  # its number
    file: str
    lines: tuple[int, int, int, int]  # of the function and of its docstring: first, last
    text: str
    options: tuple[str, ...]
    executed: tuple[str, ...]  # what came out, by option
    key: int
    why: str

    @property
    def rows(self) -> int:
        """About how many rows it takes in a column of a printed page."""
        return 1 + sum(1 + len(text) // TEXT_WIDTH for text in (self.text, *self.options))


@dataclass(frozen=True)
class Pool:
    """A question before its options are chosen."""

    text: str
    claims: Sequence[Claim]
    why: str

    def question(
        self, function: Function, rng: random.Random, kind: str, level: str
    ) -> Question | None:
        """One true claim and three others; None where there are too few."""
        by_text = {claim.text: claim for claim in self.claims}
        true, false = ([c for c in by_text.values() if c.holds is value] for value in (True, False))
        if not true or len(false) < 3:
            return None
        right = rng.choice(true)
        chosen = rng.sample([right, *rng.sample(false, 3)], 4)
        return Question(
            kind,
            level,
            function.task.number,
            function.task.file,
            (function.first, function.last, *function.docstring),
            self.text,
            tuple(claim.text for claim in chosen),
            tuple(claim.executed for claim in chosen),
            chosen.index(right),
            self.why,
        )
