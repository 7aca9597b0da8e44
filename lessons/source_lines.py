"""The lines of bert.py that the playground shows next to the numbers they compute."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from bert import BertLayer, BertModel, BertSelfAttention
from checks.child import Child
from checks.graded_tasks import GRADED_TASKS

# Screen of the page → the task, whose function it shows, and what to look for in its lines
CODE: dict[str, tuple[str, Callable, str]] = {
    "embeddings": ("bert.embed", BertModel.embed, r"embed"),
    "projections": ("", BertSelfAttention.transform, r"linear_layer\(|view|transpose"),
    "scores": ("bert.attention", BertSelfAttention.attention, r"sqrt|mask|softmax|transpose\(-"),
    "sum": ("bert.attention", BertSelfAttention.attention, r"value"),
    "heads": ("bert.attention", BertSelfAttention.attention, r"return|flatten|view|reshape"),
    "add_norm": ("bert.add_norm", BertLayer.add_norm, r"ln_layer|dense_layer"),
    "feed_forward": ("bert.layer", BertLayer.forward, r"interm"),
    "pooler": ("", BertModel.forward, r"pooler"),
}


def source_lines(function: Callable, words: str) -> list[dict[str, Any]]:
    """The lines of a function, without docstring and markers: number in the file, text, here.

    ``here`` says whether the screen is about the line: where the pattern ``words`` occurs.
    """
    source, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(source))).body[0]
    has_doc = ast.get_docstring(tree) is not None
    doc = range(tree.body[0].lineno, tree.body[0].end_lineno + 1) if has_doc else range(0)
    indent = len(source[0]) - len(source[0].lstrip())
    return [
        {
            "number": first + number - 1,
            "text": line[indent:].rstrip(),
            "here": number >= tree.body[0].lineno and bool(re.search(words, line)),
        }
        for number, line in enumerate(source, start=1)
        if number not in doc and line.strip() and not line.lstrip().startswith("###")
    ]


def wrong_tasks(files: Sequence[str]) -> list[str]:
    """The titles of the tasks in these files whose functions do not pass their checks."""
    with Child(60.0) as child:
        tasks = [task for task in GRADED_TASKS if task.file in files]
        return [task.title for task in tasks if child.run(task.id, task.title).status != "ok"]


def code_by_screen(wrong: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For every screen of the page a title and lines of bert.py, unmarked where they are wrong."""
    titles = {task.id: task.title for task in GRADED_TASKS}
    return {
        screen: {
            "title": (title := titles.get(task, f"Given · {function.__qualname__}")),
            "lines": source_lines(function, "(?!)" if title in wrong else words),
            "isRight": title not in wrong,
        }
        for screen, (task, function, words) in CODE.items()
    }
