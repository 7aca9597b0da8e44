"""Names for the public leaderboard that tell nobody who it is; a group keeps its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from training.files.writing import write_json

FILE = "pseudonyms.json"
COLOURS = (
    "Amber Apricot Azure Beige Black Blue Bronze Brown Cobalt Copper Coral Cream Crimson Cyan "
    "Emerald Golden Green Grey Indigo Ivory Jade Lemon Lilac Lime Maroon Mauve Mint Navy "
    "Olive Orange Peach Pearl Pink Plum Purple Red Rose Ruby Rust Sage Sand Scarlet Sepia "
    "Silver Teal Turquoise Violet White"
).split()
ANIMALS = (
    "Badger Beaver Bison Buzzard Crane Cricket Curlew Dolphin Dormouse Eagle Egret Falcon "
    "Ferret Finch Firefly Fox Gecko Hare Hedgehog Heron Ibex Jay Kestrel Kite Lark Lizard "
    "Lynx Magpie Marmot Marten Mole Newt Nuthatch Otter Owl Panda Plover Puffin Raven Robin "
    "Salmon Seal Sparrow Squirrel Stork Swift Tern Toad Trout Vole Wagtail Walrus Wolf Wren"
).split()


def names_of(out: Path, students: Iterable[str], secret: str) -> dict[str, str]:
    """The name of each student; new ones are added to OUT/pseudonyms.json.

    Args:
        secret: the assignment's, without which nobody can tell whose name it is.
    """
    path = out / FILE
    names = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    before, taken = len(names), set(names.values())
    for student in sorted(set(students) - names.keys()):
        number = 0
        while (name := candidate(f"{secret}:{student}:{number}")) in taken:
            number += 1
        names[student] = name
        taken.add(name)
    if len(names) > before:
        write_json(path, names)
    return names


def candidate(key: str) -> str:
    """A colour and an animal, after many tries with a number."""
    value = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
    colour, rest = value % len(COLOURS), value // len(COLOURS)
    tried = int(key.rpartition(":")[2])
    number = f" {tried}" if tried > 50 else ""
    return f"{COLOURS[colour]} {ANIMALS[rest % len(ANIMALS)]}{number}"
