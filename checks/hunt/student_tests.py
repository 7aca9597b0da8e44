"""The student's my_tests.py: its functions, and what they may not use, read from the syntax.

A test is worth something only if it tells wrong functions by what they compute. Who looks at the
source, at names, at files or at the clock could tell them without testing anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

TESTS = "my_tests.py"
TEST_OF = {  # the function that tests each task's
    "bert.attention": "test_attention",
    "bert.add_norm": "test_add_norm",
    "bert.layer": "test_layer",
    "bert.embed": "test_embed",
    "optimizer.step": "test_adamw",
}
MODULES = set("bert optimizer classifier config utils base_bert tokenizer torch numpy".split())
MODULES |= set("collections contextlib copy dataclasses functools itertools math random".split())
MODULES |= set("__future__ statistics typing".split())
WORDS = {  # names and attributes, by what they look at
    "source code": (
        "inspect linecache dis ast tokenize traceback gc ctypes jit fx overrides "
        "profiler export _dynamo grad_fn"
    ),
    "names and objects of Python": (
        "getattr setattr delattr vars dir globals locals format format_map builtins importlib sys "
        "types operator"
    ),
    "files and processes": (
        "open io os pathlib subprocess pickle shutil glob load save fromfile from_file tofile "
        "genfromtxt loadtxt memmap hub multiprocessing threading cpp_extension"
    ),
    "the clock": "time timeit datetime perf_counter process_time monotonic benchmark",
}
KINDS = {word: kind for kind, words in WORDS.items() for word in words.split()}
BUILTINS = set("eval exec compile help breakpoint input".split())  # but module.eval() is fine


def faults_of(source: str) -> list[str]:
    """Why tests count nothing, a line each; also where they are not Python."""
    try:
        tree = ast.parse(source, TESTS)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [f"{TESTS} is not Python: {error}"]
    texts = {part.value for part in ast.walk(tree) if isinstance(part, ast.Expr)}
    return [
        f"{TESTS}:{node.lineno}: {fault}: tests may only call what they are given"
        for node in ast.walk(tree)
        if node not in texts
        for fault in faults_in(node)
    ]


def faults_in(node: ast.AST) -> Iterator[str]:
    """What is wrong with a node."""
    names = []
    if isinstance(node, ast.Import | ast.ImportFrom):
        first = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        for name in first:
            if (name or "").split(".")[0] not in MODULES or getattr(node, "level", 0):
                yield f"`{name}` may not be imported here"
        names = [part for a in node.names for part in a.name.split(".")]
        names += (getattr(node, "module", None) or "").split(".")
        names = [name for name in names if name != "__future__"]
    elif isinstance(node, ast.Attribute):
        names = [node.attr]
    elif isinstance(node, ast.Name):
        names = [node.id]
        if node.id in BUILTINS:
            yield f"`{node.id}` runs or reads other code"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "__" in node.value:
        yield "a text with `__` looks at names and objects of Python"
    for name in dict.fromkeys(names):
        if name.startswith("__") and name != "__init__":
            yield f"`{name}` looks at names and objects of Python"
        elif name in KINDS:
            yield f"`{name}` looks at {KINDS[name]}"
