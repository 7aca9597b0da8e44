"""Another source in the place of one of the student's files, for as long as it is run."""

from __future__ import annotations

import ast
import contextlib
import linecache
import sys
import types
from collections.abc import Iterator

from checks.findings import ROOT
from checks.graded_tasks import module_of


@contextlib.contextmanager
def installed_source(
    file: str, source: str, tree: ast.Module | None = None
) -> Iterator[types.ModuleType]:
    """While active, the module of that file is made from another source, or its syntax tree."""
    name = module_of(file)
    module = types.ModuleType(name)
    module.__file__ = str(ROOT / file)
    code = compile(tree or source, module.__file__, "exec")
    before = sys.modules.get(name)
    # Whoever looks up the line of an exception finds this source, not the file's.
    lines = source.splitlines(keepends=True)
    linecache.cache[module.__file__] = (len(source), None, lines, module.__file__)
    sys.modules[name] = module  # not by mock.patch.dict: it would forget what is imported meanwhile
    try:
        exec(code, module.__dict__)
        yield module
    finally:
        linecache.cache.pop(module.__file__, None)
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
