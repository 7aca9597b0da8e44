"""In the sandbox: a task's process looks as sanity_check.py's does, and finds only what is needed.

A student's code that asks where it runs is to hear the same in both: the program, its arguments,
the current folder and what lies there, the modules that are loaded. It can still find out: the
files of the grader's program are in tracebacks, and Python's own objects can be looked through.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType

OURS = "course"  # the package of this program
PROGRAM = "checks.worker"  # what sanity_check.py starts


def look_like_checks(code: Path, beside: Sequence[str]) -> None:
    """Change this process, whose own functions are loaded by now.

    Args:
        code: the folder of the student's files, which becomes the current one.
        beside: folders of the course's files, to be seen in that folder as well.
    """
    for folder in map(Path, beside):
        for path in folder.iterdir():
            if not os.path.lexists(code / path.name):
                (code / path.name).symlink_to(path)
    os.chdir(code)
    sys.path[:] = [str(code), *(p for p in sys.path if not (Path(p) / OURS / "grading").is_dir())]
    for name in [name for name in sys.modules if name.partition(".")[0] == OURS]:
        del sys.modules[name]
    program = sys.modules.pop(PROGRAM)
    program.__name__ = "__main__"
    sys.modules["__main__"] = program
    sys.argv[:] = [str(code / "checks" / "worker.py"), str(code.parent / "dump"), "60.0"]
    sys.dont_write_bytecode = False
    tempfile.tempdir = os.environ.pop("TMPDIR", None) or tempfile.gettempdir()
    os.environ.pop("OMP_NUM_THREADS", None)  # torch has read it


class OnlyNeeded(importlib.machinery.PathFinder):
    """In place of Python's finder of files: does not find some modules that are installed.

    To look for one of them is no error: torch.compile asks which packages there are.

    Args:
        hidden: their names.
        folder: where a student's own modules may have such names.
    """

    def __init__(self, hidden: Collection[str], folder: Path):
        self.hidden, self.folder = frozenset(hidden), str(folder)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """What PathFinder finds; of a hidden name the student's own module, or nothing."""
        if path is None and name in self.hidden:
            path = [self.folder]
        return super().find_spec(name, path, target)


def hide(hidden: Collection[str], folder: Path) -> None:
    """Have modules not found that are not loaded yet."""
    here = sys.meta_path.index(importlib.machinery.PathFinder)
    sys.meta_path[here] = OnlyNeeded(hidden, folder)
    importlib.invalidate_caches()
