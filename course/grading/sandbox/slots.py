"""Slots of the sandbox: each is a user of its own that nobody else here uses, and is clean.

A submission never meets another's leftovers: what a killed grader has left is removed before the
first one, and a slot that cannot be cleaned is not used again.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import sys
from collections.abc import Iterator

from course.grading.sandbox import leftovers, processes
from course.grading.sandbox.confine import FIRST_USER
from training.files.errors import InputError


class Slots:
    """So many slots, for one program at a time each."""

    def __init__(self, count: int):
        self.count = count
        self.held: dict[int, socket.socket] = {}
        self.free: queue.Queue[int] = queue.Queue()

    def __enter__(self) -> Slots:
        leftovers.remove_stale()
        try:
            for slot in sorted(leftovers.slots_with_leftovers()):  # also where fewer are needed now
                if self._take(slot):
                    self.held.pop(slot).close()
            for _ in range(self.count):
                self.free.put(self._another())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        while self.held:
            self.held.popitem()[1].close()

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.free.queue))

    def __len__(self) -> int:
        return self.count

    @contextlib.contextmanager
    def one(self) -> Iterator[int]:
        """A slot that nobody uses; afterwards it is cleaned, or another one takes its place."""
        slot = self.free.get()
        try:
            yield slot
        finally:
            self.free.put(slot if _is_cleaned(slot) else self._another())

    def _another(self) -> int:
        for slot in range(leftovers.MOST_SLOTS):
            if slot not in self.held and self._take(slot):
                return slot
        raise InputError(f"-j {self.count}: other gradings here use too many sandboxes")

    def _take(self, slot: int) -> bool:
        """Whether nobody else has the slot, and it is clean now."""
        # Not a file, since gradings with different $TMPDIR would not see each other's
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0grading-{FIRST_USER + slot}")
        except OSError:  # somebody else holds it
            name.close()
            return False
        self.held[slot] = name  # also if it is not clean: nobody else needs to try
        return _is_cleaned(slot)


def _is_cleaned(slot: int) -> bool:
    """Remove what a slot's user runs and has; whether nothing is left."""
    try:
        processes.sweep(slot, seconds=5)
        leftovers.clean(slot)
    except (OSError, RuntimeError) as error:
        print(f"warning: {error}; another sandbox is used", file=sys.stderr)
        return False
    return True
