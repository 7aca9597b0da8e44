"""Names that some system takes for others: capitals, Cyrillic, full width, dots, NUL, invisible.

Defended by: intake.py: names that only resemble what is asked for are left out.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

STATUS = "graded"


def build(path: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bert.py", "raise NotImplementedError")
        for name in (
            "OPTIMIZER.PY", "Optimizer.py", "optimizer.py.", "optimizer.py ", "\uff4fptimizer.py",
            "\u043eptimizer.py", "opti\u200bmizer.py", "optimizer.p\u0443", "optimizer.py\u202e",
            "utils.py\0.txt", "optimizer.py::$DATA", "optimizer.py/x", "optimiz\u0065\u0301r.py",
        ):  # fmt: skip
            archive.writestr(name, "raise SystemExit('GOT THROUGH')")
