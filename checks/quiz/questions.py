"""A question with four options of which exactly one is true, chosen from claims that were run."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
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

    def sides(self) -> tuple[list[Claim], list[Claim]]:
        """The true claims and the false ones, each text once."""
        claims = {claim.text: claim for claim in self.claims}.values()
        return [c for c in claims if c.holds], [c for c in claims if c.holds is False]

    @property
    def is_enough(self) -> bool:
        """Whether there are claims for a question."""
        true, false = self.sides()
        return len(true) >= 1 and len(false) >= 3

    def question(self, function: Function, rng: random.Random, kind: str, level: str) -> Question:
        """One true claim and three others, of those that are enough."""
        true, false = self.sides()
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


def pool_of_values(
    text: str, right: str, others: Mapping[str, str], why: str, came: str = "this is what came out"
) -> Pool:
    """A question about one value.

    Args:
        others: values, which the right one may be among, and where they come from.
        came: what came out.
    """
    claims = [Claim(value, False, source) for value, source in others.items() if value != right]
    return Pool(text, [Claim(right, True, came), *claims], why)


def either(rng: random.Random, make: Callable[[bool], Pool]) -> Pool | None:
    """The question what is so, or what is not so."""
    pools = map(make, rng.sample([True, False], 2))
    return next((pool for pool in pools if pool.is_enough), None)
