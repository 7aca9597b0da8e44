"""A student's exceptions in words: what Python says, where, and what it means here.

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
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from checks.findings import Finding
from checks.traces import Place, only_a_stub, path_in, place_of
from training.files.errors import InputError
from training.files.imports import with_imported
from training.files.texts import read_text

TABLE = Path(__file__).with_name("exceptions.toml")
LONGEST = 600  # characters of what an exception means
FACTS = ("elsewhere", "names", "parts")  # sentences that say all, without what was given
OTHERS = ("torch", "builtins", "typing")  # whose classes have too much to be listed
MOST_NAMES = 24  # that are listed


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function returns, or the exception that a student's code in it raises."""
    try:
        return function(*arguments, **options)
    except InputError:  # a file of the course's own is damaged
        raise
    except (Exception, SystemExit) as error:
        return error


def describe(error: BaseException) -> Finding:
    """An exception in a student's function: type, message, innermost line, and what it means."""
    if isinstance(error, NotImplementedError) and only_a_stub(error):
        return Finding("not started", str(error))
    means, message = meaning(error)[:LONGEST], message_of(error)
    slight = isinstance(error, RuntimeError) and any(w in message for w in ("dtype", "Double"))
    return Finding("error", f"{message}: {means}" if means else message, slight)


def import_fault(error: BaseException, file: str) -> Finding:
    """Why a file cannot be imported: the file with the fault, the exception, what it means."""
    if isinstance(error, SyntaxError) and not error.lineno:  # Python does not name the file
        for path in with_imported([file]):
            read_text(path)  # InputError, which does
    name = line_of(error).partition(":")[0] or file
    return Finding("error", f"{name} cannot be imported: {describe(error).text}")


def message_of(error: BaseException) -> str:
    """Type, message and innermost line of the student's."""
    words, code = str(error), ""
    if isinstance(error, SyntaxError):  # str adds file and line
        words, code = error.msg, f": `{error.text.strip()}`" if error.text else ""
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    elsewhere = f"{frames[-1][0].name}:{frames[-1][1]}" if frames else ""
    if any("autograd" in file.parts for file, _ in frames):
        elsewhere = "in the backward pass"
    place = line_of(error) or elsewhere
    return f"{type(error).__name__}: {' '.join(words.split())[:300]} ({place}){code}"


def line_of(error: BaseException) -> str:
    """Where in the student's files an error arose, as bert.py:12; "" if it did not."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_file():
        return f"{Path(error.filename).name}:{error.lineno or 1}"
    place = place_of(error)
    return f"{place.path.name}:{place.line}" if place else ""


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
        then = table().get(name, {}).get("then", "").format(getattr(error, "name", ""))
        return name, " ".join(f"{sentence}{stop} {known}{'. ' if then else ''}{then}".split())
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
            return "names", f"of this function's own names, these have a value: {names}"
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
    shown = [name for name in names if name != "training" and name[0] != "_"]
    return ", ".join(dict.fromkeys(shown[:MOST_NAMES]))
