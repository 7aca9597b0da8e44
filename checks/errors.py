"""A student's exceptions in words: what Python says, where, the shapes there, what it means here.

``find(error)`` goes through the table exceptions.toml, and says what the failing expression was
given: "here `x` is a tensor (5, 6, 10, 7) = (B, H, L, W)". Names and attributes are looked up in
the frame that failed; of calls, only those of torch that change nothing are made again, so that
nothing of the student's runs twice. Where a name, an attribute or an argument is missing, those
that exist are listed; nothing is guessed by spelling.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
import linecache
import operator
import re
import sys
import tomllib
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from checks.findings import Finding, is_students
from checks.graded_tasks import GRADED_TASKS, module_of
from training.files.errors import InputError
from training.files.imports import with_imported
from training.files.texts import read_text

# All entries by name: a pattern for "type: message", and what is said. The first that fits counts.
TABLE = tomllib.loads(Path(__file__).with_name("exceptions.toml").read_text(encoding="utf-8"))
FIRST = "the first argument of a method is its object, self"
LONGEST_MESSAGE = 300  # characters of what Python or torch says
LONGEST = 600  # characters of what an exception means
FACTS = ("elsewhere", "names", "parts", "arguments")  # say all, without what was given
CALL_REFUSED = re.compile(r"TypeError: ([\w.<>]+)\(\) (?:takes|missing|got) ")
OTHERS = ("torch", "builtins", "typing")  # whose classes have too much to be listed
MOST_NAMES = 24  # that are listed
UNKNOWN = object()  # the value of what cannot be looked up
READ_ONLY = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List),
    *(ast.UnaryOp, ast.USub, ast.BinOp, ast.operator, ast.keyword, ast.expr_context),
)
# Methods of a tensor and functions of torch, which may be called again
PURE = """size dim transpose permute unsqueeze squeeze flatten reshape view clone float softmax sqrt
    square abs mean sum matmul""".split()
LONGEST_EXPRESSION = 60  # characters of an expression that are shown
SIZES = {  # where self may keep a size → its letter
    "num_attention_heads": "H",
    "attention_head_size": "W",
    "all_head_size": "D",
    "self_attention.all_head_size": "D",
    "bert.config.hidden_size": "D",
}
AXES = {  # of what functions are given
    "attention_mask": ("B", "", "", "L"),
    "hidden_states": ("B", "L", "D"),
    "input": ("B", "L", "D"),
    "input_ids": ("B", "L"),
    "input_ids_1": ("B", "L"),
}


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function returns, or the exception that a student's code in it raises."""
    try:
        return function(*arguments, **options)
    except InputError:  # a file of the course's own is damaged
        raise
    except (Exception, SystemExit) as error:  # a generator makes another one of StopIteration
        return error.__cause__ if isinstance(error.__cause__, StopIteration) else error


def describe(error: BaseException) -> Finding:
    """An exception in a student's function: type, message, innermost line, and what it means."""
    if isinstance(error, NotImplementedError) and only_a_stub(error):
        return Finding("not started", str(error))
    means, message = find(error)[1][:LONGEST], message_of(error)
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
    """Type, message and innermost line of the student's; no line of the course's."""
    words, code = str(error), ""
    if isinstance(error, SyntaxError):  # str adds file and line
        words, code = error.msg, f": `{error.text.strip()}`" if error.text else ""
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    backward = "in the backward pass" if any("autograd" in file.parts for file in files) else ""
    place = line_of(error) or backward
    words = " ".join(words.split()).partition(". Hint: ")[0]  # torch's, which is on anomalies
    if len(words) > LONGEST_MESSAGE:  # as many sentences as fit
        words = words[:LONGEST_MESSAGE].rpartition(". ")[0] or f"{words[:LONGEST_MESSAGE]}…"
    return f"{type(error).__name__}{words and f': {words}'}{place and f' ({place})'}{code}"


def line_of(error: BaseException) -> str:
    """Where in the student's files an error arose, as bert.py:12; "" if it did not."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_file():
        return f"{Path(error.filename).name}:{error.lineno or 1}"
    place = place_of(error)
    return f"{place.path.name}:{place.line}" if place else ""


def find(error: BaseException) -> tuple[str, str]:
    """The name of the entry that knows an exception, and what is said; "" for what is not known."""
    with contextlib.suppress(Exception, SystemExit):  # whatever it answers when it is looked at
        place = place_of(error)
        name, sentence = said_of(error, place)
        entry = TABLE.get(name, {})
        shows = place and name not in FACTS and entry.get("here", True)
        known = (place and place.without_self()) or (place.here() if shows else "")
        known = f"{'Here' if sentence else 'here'} {known}" if known else ""
        stop = "" if not known or not sentence or sentence.endswith(("?", ".)")) else "."
        then = entry.get("then", "").format(getattr(error, "name", ""))
        return name, " ".join(f"{sentence}{stop} {known}{'. ' if then else ''}{then}".split())
    return "", ""


def said_of(error: BaseException, place: Place | None) -> tuple[str, str]:
    """The name of an entry and its sentence, which may follow from the line that failed."""
    names = own_names(place.frame) if place and isinstance(error, NameError) else ""
    if place and (places := [*elsewhere(error, place)]):
        first = names or f"there is no {error.name} here"
        return "elsewhere", f"{first}; there is {', '.join(places)}"
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    for name, entry in TABLE.items():
        if match := re.search(entry["pattern"], message):
            return name, " ".join(entry["says"].split()).format(*match.groups())
    if match := CALL_REFUSED.match(message):
        return "arguments", signature_of(match[1])
    match error:
        case NameError() if names:
            return "names", names
        case AttributeError(
            obj=nn.Module() | type() | object(param_groups=_) | object(hidden_size=_) as owner
        ):
            return "parts", parts(owner)
        case _ if place and not str(error).strip():
            return "line", f"`{linecache.getline(str(place.path), place.line).strip()}`"
    return "", ""


def own_names(frame: types.FrameType) -> str:
    """The names of a function that have a value; "" outside of functions."""
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name.isidentifier()
    names = listed(frame.f_locals) if is_function else ""
    return f"of this function's own names, these have a value: {names}" if names else ""


def signature_of(method: str) -> str:
    """What a method of the student's takes, by its qualified name; "" of other functions."""
    owner, _, name = method.rpartition(".")
    for module in (sys.modules.get(module_of(entry.file)) for entry in GRADED_TASKS):
        function = inspect.getattr_static(path_in(module, owner), name, None)
        if isinstance(function, types.FunctionType):
            signature = inspect.signature(function)
            bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
            shown = signature.replace(parameters=bare, return_annotation=signature.empty)
            is_usual = [p.name for p in bare[:1]] == ["self"]
            rule = "" if is_usual else f"; {FIRST}"
            return f"{method} takes {shown}{rule}"
    return ""


def elsewhere(error: BaseException, place: Place) -> Iterator[str]:
    """Where the name that is missing has a value: in a dictionary, self, or BERT's config."""
    name, names = getattr(error, "name", None), place.frame.f_locals
    paths = [f"bert.config.{name}"] * hasattr(getattr(error, "obj", None), "hidden_size")
    if type(error) is NameError:
        yield from (f"{key}['{name}']" for key, x in names.items() if type(x) is dict and name in x)
        paths.append(name)
    for path in paths:
        if (value := path_in(names.get("self"), path)) is not None:
            yield f"self.{path} ({type(value).__name__})"


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


# ---------------------------------------------------------------------------------------------
# Where a student's code failed


def place_of(error: BaseException) -> Place | None:
    """The innermost line of the student's that an exception went through."""
    trace = error.__traceback__
    frames = zip(traceback.walk_tb(trace), traceback.extract_tb(trace), strict=False)
    ours = [(frame, at) for (frame, _), at in frames if is_students(Path(at.filename))]
    if not ours:
        return None
    frame, at = ours[-1]
    source = "".join(linecache.getlines(at.filename, frame.f_globals))
    smallest: dict[bool, ast.AST] = {}  # the expression, the statement
    with contextlib.suppress(SyntaxError, ValueError, TypeError):  # the file has changed; no column
        for node in ast.walk(ast.parse(source)):  # outer ones first
            if (
                isinstance(node, ast.expr | ast.stmt)
                and (node.lineno, node.col_offset) <= (at.lineno, at.colno)
                and (at.end_lineno, at.end_colno) <= (node.end_lineno, node.end_col_offset)
            ):
                smallest[isinstance(node, ast.expr)] = node
    return Place(frame, at.lineno, smallest.get(False), smallest.get(True))


def only_a_stub(error: NotImplementedError) -> bool:
    """Whether a function raises it that is not begun: no code of the student's is around the raise.

    torch raises the same type, with a text of its own, for operations it does not have.
    """
    if str(error) and not str(error).startswith("Task "):
        return False
    if (place := place_of(error)) is None:
        return True
    lines = linecache.getlines(str(place.path))
    above = [line.strip() for line in lines[place.frame.f_code.co_firstlineno : place.line - 1]]
    after_todo = above[above.index("### TODO") + 1 :] if "### TODO" in above else []
    indent = lines[place.line - 1].partition("raise")[0]
    in_block = itertools.takewhile(lambda x: x.startswith((indent, "\n")), lines[place.line :])
    return all(line.strip()[:1] in ("", "#") for line in (*after_todo, *in_block))


@dataclass(frozen=True)
class Place:
    """Where a student's code failed."""

    frame: types.FrameType
    line: int
    statement: ast.stmt | None  # the smallest one around what failed
    node: ast.expr | None  # the expression that failed

    @property
    def path(self) -> Path:
        """The student's file."""
        return Path(self.frame.f_code.co_filename)

    def operands(self) -> list[ast.expr]:
        """What the failing operation or call was given, or what is unpacked there."""
        match self.node, self.statement:
            case ast.BinOp(left, _, right), _:
                return [left, right]
            case ((ast.Attribute(value) | ast.Subscript(value)), _):
                return [value]
            case ast.Call(func, args), _:
                receiver = [func] if not callable(self.value(func)) else []
                if isinstance(func, ast.Attribute) and isinstance(self.value(func.value), Tensor):
                    receiver = [func.value]
                listed = [part.elts if isinstance(part, ast.List) else [part] for part in args]
                return receiver + [part for parts in listed for part in parts]
            case None, ast.AugAssign(target, _, value):
                return [target, value]
            case _, (ast.Assign(value=value) | ast.For(iter=value)):
                return [value]
        return []

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression; UNKNOWN where code of the student's would run again."""
        with contextlib.suppress(Exception, SystemExit), torch.no_grad():
            if node and all(map(self.is_pure, ast.walk(node))):
                return eval(ast.unparse(node), self.frame.f_globals, self.frame.f_locals)
        return UNKNOWN

    def is_pure(self, node: ast.AST) -> bool:
        """Whether to evaluate this node, of which the parts are known, changes nothing."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            return node.func.attr in PURE and (isinstance(owner, Tensor) or owner is torch)
        return isinstance(node, READ_ONLY)

    def without_self(self) -> str:
        """What a method's first argument is, if that is its object and is not called self."""
        code = self.frame.f_code
        for name in code.co_varnames[: code.co_argcount][:1]:
            owner = type(self.frame.f_locals.get(name))
            if path_in(owner, f"{code.co_name}.__code__") is code and name != "self":
                return f"`{name}` is the {owner.__name__} itself: {FIRST}"
        return ""

    def here(self) -> str:
        """What the failing expression was given, as far as it can be looked up; or ""."""
        parts = {quoted(part): self.brief(part) for part in self.operands()}
        return ", ".join(f"{name} is {brief}" for name, brief in parts.items() if brief)

    def brief(self, node: ast.expr) -> str:
        """What an expression is, in a few words; "" of a constant and of what is unknown."""
        value = self.value(node)
        if isinstance(node, ast.Call) and path_in(self.value(node.func), "pooler_dense"):
            return "a dictionary with the keys 'last_hidden_state', 'pooler_output'"
        if value is UNKNOWN or isinstance(node, ast.Constant | ast.UnaryOp):
            return ""
        if not isinstance(value, Tensor):
            return in_words(value)
        dtype = str(value.dtype).removeprefix("torch.")
        ends = f" from {value.min()} to {value.max()}" if dtype == "int64" and len(value) else ""
        return f"a tensor {self.shape(tuple(value.shape))}, {dtype}{ends}"

    def shape(self, shape: tuple[int, ...]) -> str:
        """A shape, and the course's letters for sizes: (3, 4, 7, 8) = (B, H, L, W)."""
        letters = self.letters()
        axes = [letters.get(size, str(size)) for size in shape]
        axes[1:] = [str(n) if a == "B" else a for n, a in zip(shape[1:], axes[1:], strict=True)]
        known = axes != list(map(str, shape))
        return f"{shape} = ({', '.join(axes)}{',' * (len(axes) == 1)})" if known else str(shape)

    def letters(self) -> dict[int, str]:
        """Which axis a size is likely to be of; nothing of sizes that two axes share."""
        names = self.frame.f_locals
        owner = names.get("self")
        sizes = {x: n for path, x in SIZES.items() if (n := path_in(owner, path))}
        # The student may have assigned to an argument; the first that has its axes tells.
        for name, axes in AXES.items():
            argument = names.get(name)
            if isinstance(argument, Tensor) and argument.dim() == len(axes):
                sizes |= dict(zip(axes, argument.shape, strict=True))
                break
        counts = list(sizes.values())
        return {n: name for name, n in sizes.items() if name and n and counts.count(n) == 1 < n}


def in_words(value: Any) -> str:
    """What a value other than a tensor is, and how one gets at what is in it."""
    kind = type(value).__name__
    match value:
        case None | bool() | int() | float() | str():
            return repr(value)
        case dict():
            return f"a dictionary with the keys {', '.join(map(repr, value))}" if value else "{}"
        case torch.Size():
            return f"the shape {tuple(value)}"
        case list() | tuple():
            return f"a {kind} of {len(value)}"
        case nn.Module():
            return f"a layer ({kind})"
        case object(hidden_size=_):
            return f"a configuration with {', '.join(vars(value))}"
    return f"of type {kind}"


def quoted(node: ast.AST) -> str:
    """An expression in backquotes, cut where it is long."""
    text = ast.unparse(node)
    return f"`{text if len(text) <= LONGEST_EXPRESSION else text[: LONGEST_EXPRESSION - 1] + '…'}`"


def path_in(owner: Any, path: str) -> Any:
    """What is at ``bert.config``, for example; None without."""
    with contextlib.suppress(Exception, SystemExit):
        return operator.attrgetter(path)(owner)
    return None
