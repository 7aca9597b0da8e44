"""The full names that a source uses: followed through imports, assignments, getattr.

``import torch as t``, ``o = t.optim`` and ``o.SGD`` use torch.optim.SGD. Sources are only parsed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache, partial

IMPORTERS = ("__import__", "import_module")
MOST_PARTS = 8  # of a name: each attribute of a chain is a node of its own
Names = Mapping[str, str]  # what names stand for


def names_used(tree: ast.AST, known: Names) -> Iterator[tuple[int, str]]:
    """Lines, and the full names there; behind a call, the attribute alone.

    Args:
        known: what names stand for, see ``names_in``.
    """
    follow = cache(partial(followed, known=known))
    stars = [name[:-1] for name in known.values() if name.endswith(".*")]
    for node in ast.walk(tree):
        names = imported(node)
        if isinstance(node, ast.Attribute | ast.Call):
            names = [dotted(node) or getattr(node, "attr", "")]
        elif isinstance(node, ast.Name) and node.id not in known:
            names = [star + node.id for star in stars]
        yield from ((node.lineno, follow(name)) for name in names)


def imported(node: ast.AST) -> list[str]:
    """The full names that an import holds."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            return [f"{node.module or ''}.{alias.name}".lstrip(".") for alias in node.names]
    return []


def names_in(tree: ast.AST) -> dict[str, str]:
    """What a file's names stand for by imports and assignments."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            pairs = zip(imported(node), node.names, strict=True)
            whole = isinstance(node, ast.Import)
            known |= {a.asname or (name if whole else a.name): name for name, a in pairs}
        elif isinstance(node, ast.Assign):
            known |= {dotted(target): dotted(node.value) for target in node.targets}
    return {key: name for key, name in known.items() if key and name and key != name}


def dotted(node: ast.AST) -> str:
    """The name that an expression spells, also by getattr or import_module; "" if it is none."""
    parts: list[str] = []
    while len(parts) < MOST_PARTS:
        match node:
            case ast.Name():
                return ".".join([node.id, *reversed(parts)])
            case ast.Attribute():
                parts.append(node.attr)
                node = node.value
            case ast.Call(func=ast.Name("getattr"), args=[of, ast.Constant(str() as key), *_]):
                parts.append(key)
                node = of
            case ast.Call(
                func=ast.Name(name) | ast.Attribute(attr=name),
                args=[ast.Constant(str() as module), *_],
            ) if name in IMPORTERS:
                return ".".join([module, *reversed(parts)])
            case _:
                break
    return ""


def followed(name: str, known: Names) -> str:
    """The name at the end of a chain of other names."""
    for _ in range(MOST_PARTS):
        parts = name.split(".")
        heads = (".".join(parts[:length]) for length in range(min(len(parts), MOST_PARTS), 0, -1))
        head = next((head for head in heads if head in known), None)
        if head is None:
            break
        name = known[head] + name.removeprefix(head)
    return name
