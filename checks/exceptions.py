"""What an exception in a student's code means here, in a sentence or two.

``meaning(error)`` goes through the table exceptions.toml, and says what the failing expression was
given: "here `x` is a tensor (5, 6, 10, 7) = (B, H, L, W)". Where a name or an attribute is missing,
it lists those that exist; nothing is guessed by spelling.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from checks.traces import Place, path_in, place_of

TABLE = Path(__file__).with_suffix(".toml")
FACTS = ("elsewhere", "names", "parts")  # sentences that say all, without what was given
OTHERS = ("torch", "builtins", "typing")  # whose classes have too much to be listed
MOST_NAMES = 24  # that are listed


@functools.cache
def table() -> dict[str, dict[str, str]]:
    """All entries by name: a pattern for "type: message", and what is said. The first that fits."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def meaning(error: BaseException) -> str:
    """What an exception in a student's code means; "" where that is not known."""
    return find(error)[1]


def find(error: BaseException) -> tuple[str, str]:
    """The name of the entry that knows an exception, and what is said; "" for what is not known."""
    with contextlib.suppress(Exception, SystemExit):  # whatever it answers when it is looked at
        place = place_of(error)
        name, sentence = said_of(error, place)
        shows = place and name not in FACTS and table().get(name, {}).get("here", True)
        known = place.here() if shows else ""
        known = f"{'Here' if sentence else 'here'} {known}" if known else ""
        stop = "" if not known or not sentence or sentence.endswith(("?", ".)")) else "."
        return name, f"{sentence}{stop} {known}".strip()
    return "", ""


def said_of(error: BaseException, place: Place | None) -> tuple[str, str]:
    """The name of an entry and its sentence, which may follow from the line that failed."""
    if place and (places := [*elsewhere(error, place)]):
        return "elsewhere", f"there is no {error.name} here; there is {', '.join(places)}"
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    for name, entry in table().items():
        if match := re.search(entry["pattern"], message):
            return name, " ".join(entry["says"].split()).format(*match.groups())
    match error:
        case NameError() if place and (names := listed(place.frame.f_locals)):
            return "names", f"the names that have a value here are {names}"
        case AttributeError(
            obj=nn.Module() | type() | object(param_groups=_) | object(hidden_size=_) as owner
        ):
            return "parts", parts(owner)
    return "", ""


def elsewhere(error: BaseException, place: Place) -> Iterator[str]:
    """Where the name that is missing has a value: in a dictionary, self, or BERT's config."""
    name, names = getattr(error, "name", None), place.frame.f_locals
    paths = [f"bert.config.{name}"] * hasattr(getattr(error, "obj", None), "hidden_size")
    if type(error) is NameError:
        yield from (f"{key}['{name}']" for key, x in names.items() if type(x) is dict and name in x)
        paths.append(name)
    yield from (f"self.{p}" for p in paths if path_in(names.get("self"), p) is not None)


def parts(owner: Any) -> str:
    """What an object, or a class, has of its own."""
    kind = owner if isinstance(owner, type) else type(owner)
    modules = (getattr(owner, name, ()) for name in ("_modules", "_parameters"))
    classes = (vars(part) for part in kind.__mro__ if not part.__module__.startswith(OTHERS))
    return f"{kind.__name__} has {listed(itertools.chain(vars(owner), *modules, *classes))}"


def listed(names: Iterable[str]) -> str:
    """Names in a row, without those of Python itself."""
    shown = [name for name in names if name not in ("self", "training") and name[0] != "_"]
    return ", ".join(dict.fromkeys(shown[:MOST_NAMES]))
