"""Common mistakes by their fingerprints: what a wrong function computes tells which mistake it is.

A fingerprint is a few numbers made from the outputs that a mistake gives for the references'
inputs. They are stored with the references (sanity_check.data, optimizer_test.npy); the mistakes
themselves are not. Two functions that compute the same have the same fingerprint however they are
written. It does not know how any task is solved.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from checks.findings import Mistake

WIDTH = 5  # numbers of one output: its shape, the norm of its values, three projections
TOLERANCE = 1e-5  # of an output's norm; computing in float32 inside costs about 1e-7
HUGE = 1e30  # for all that float32 could not hold, and for outputs without a finite number
NOTHING = [-1.0] * WIDTH  # of an output that is None or no tensor at all
ERROR = -2.0  # in place of a shape, where there is an error instead


def projections(output: Any) -> Tensor:
    """The fingerprint of one output, which may be an error's text: (WIDTH,) in float64."""
    if isinstance(output, str):
        halves = divmod(zlib.crc32(digest(output).encode()), 2**16)  # float32 holds them exactly
        return torch.tensor([ERROR, *halves, *[0.0] * (WIDTH - 3)], dtype=torch.float64)
    if not isinstance(output, Tensor):
        return torch.tensor(NOTHING, dtype=torch.float64)
    flat, shape = output.detach().double().flatten(), shape_code(output)
    if flat.numel() and not flat.isfinite().any():  # as of many mistakes: it tells of none
        return torch.tensor([shape, *[HUGE] * (WIDTH - 1)], dtype=torch.float64)
    flat = flat.nan_to_num(nan=7e3, posinf=8e3, neginf=9e3)  # its places tell which mistake it is
    place = torch.arange(1, flat.numel() + 1, dtype=torch.float64)
    weights = torch.stack([torch.cos(place * step) for step in (0.7, 1.9, 3.1)])  # (3, numbers)
    numbers = torch.cat([flat.norm()[None], weights @ flat])
    numbers = numbers.clamp(-HUGE, HUGE)
    return torch.cat([torch.tensor([shape]).double(), numbers])


def shape_code(tensor: Tensor) -> float:
    """A whole number for a shape, which float32 holds exactly; other shapes have others."""
    code = tensor.dim()
    for size in tensor.shape:
        code = (1009 * code + size) % 16_777_213
    return float(code)


def same_projections(first: Tensor, second: Tensor) -> bool:
    """Whether two fingerprints of one output are the same up to rounding."""
    left, right = first.tolist(), second.tolist()  # much faster than tensors of five numbers
    if max(abs(left[1]), abs(right[1])) >= HUGE:
        return False
    limit = TOLERANCE * max(abs(left[1]), abs(right[1]), 1e-2)
    return left[0] == right[0] and all(
        abs(a - b) <= limit for a, b in zip(left, right, strict=True)
    )


@dataclass(frozen=True)
class Fingerprint:
    """What an incorrect solution computes: fingerprints of its outputs, or the error it raises."""

    outputs: Mapping[str, Tensor]
    error: str = ""  # its digest

    def matches(
        self, other: Fingerprint, prefix: str | tuple[str, ...] = "", optional: str = ""
    ) -> bool:
        """Whether both compute the same, in the outputs whose names begin with (a) ``prefix``.

        Errors are the same if they are of one type and say the same.

        Args:
            optional: the name of an output that this one need not have.
        """
        if self.error or other.error:
            return self.error == other.error
        names = {name for name in self.outputs if name.startswith(prefix)}
        return (
            bool(names)
            and all(  # first, as most have another row at once
                name in other.outputs and same_projections(self.outputs[name], other.outputs[name])
                for name in names
            )
            and {name for name in other.outputs if name.startswith(prefix)} - {optional} <= names
        )

    def unlike(self, other: Fingerprint) -> list[str]:
        """The names of the outputs that are not the same in both."""
        return [
            name
            for name, row in self.outputs.items()
            if name not in other.outputs or not same_projections(row, other.outputs[name])
        ]


def digest(error: str) -> str:
    """An error's type and message: without file and line, addresses, and what is said about it.

    Nor with the name of a local variable, which is the student's own.
    """
    bare = re.split(r" \(\S+:\d+\)", error)[0]
    return re.sub(r"\b0x[0-9a-f]+|(?<=local variable )'\w+'", "…", bare)


def fingerprint_of(outputs: Mapping[str, Any] | str) -> Fingerprint:
    """Of the outputs of an answer by name, or of its error's text."""
    if isinstance(outputs, str):
        return Fingerprint({}, digest(outputs))
    return Fingerprint({name: projections(output) for name, output in outputs.items()})


@dataclass(frozen=True)
class KnownMistakes:
    """The incorrect solutions known for a task: names of their mistakes, what they compute."""

    answers: list[tuple[tuple[str, ...], Fingerprint]]
    mistakes: Mapping[str, Mistake]
    optional: str = ""  # the name of an output that an answer need not have

    def find(
        self,
        outputs: Mapping[str, Any] | str,
        decisive: str | tuple[str, ...] = "",
        right: Fingerprint | None = None,
    ) -> tuple[list[Mistake], list[str]]:
        """The mistakes of the answer that computes the same, and what they do not explain.

        Of several the one that leaves least.

        Args:
            outputs: of a wrong function, by name; or its error's text.
            decisive: what the names of outputs begin with that are enough if not all agree.
            right: of correct outputs. A mistake that would change one of them, which the function
                has as it should be, is not made.

        Returns:
            No mistake if there is no such answer; and the names of those outputs that are others.
        """
        mine = fingerprint_of(outputs)
        wrong = {*right.unlike(mine)} if right else set()
        for prefix in dict.fromkeys(("", decisive)):
            matches = [
                (mine.unlike(other), names)
                for names, other in self.answers
                if mine.matches(other, prefix, self.optional)
                and (right is None or {*right.unlike(other)} <= wrong)
            ]
            if matches:
                unexplained, names = min(matches, key=lambda match: len(match[0]))
                return [self.mistakes[name] for name in names], unexplained
        return [], []


def load_known(
    words: Mapping[str, Any], tables: Mapping[str, Tensor], optional: str = ""
) -> KnownMistakes:
    """What is stored with the references; nothing is known if words are empty.

    Args:
        words: mistakes, and the answers' names and errors, as JSON can hold them.
        tables: of each output the fingerprints (answers, WIDTH), NaN where an answer has none.
        optional: the name of an output that an answer need not have.
    """
    mistakes = {entry["name"]: Mistake(**entry) for entry in words.get("mistakes", ())}
    answers = []
    for index, (names, error) in enumerate(words.get("answers", ())):
        rows = {name: table[index] for name, table in tables.items()}
        outputs = {name: row for name, row in rows.items() if not row.isnan().any()}
        answers.append((tuple(names), Fingerprint(outputs, error)))
    return KnownMistakes(answers, mistakes, optional)
