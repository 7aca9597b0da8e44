"""Two files of one name, of which readers of zips take different ones.

Defended by: intake.py: neither counts.
"""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

STATUSES = {"1.5": "missing"}


def build(path: Path) -> None:
    """Write the zip."""
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bert.py", "raise NotImplementedError")
        archive.writestr("optimizer.py", "raise NotImplementedError")
        archive.writestr("optimizer.py", "raise SystemExit('GOT THROUGH')")
        archive.writestr("./optimizer.py", "raise SystemExit('GOT THROUGH')")
