"""A hundred thousand files.

Defended by: entries.py: a largest number of files, and size of the table of contents.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

STATUS = "refused"


def build(path: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(100_000):
            archive.writestr(zipfile.ZipInfo(f"{number}.py"), b"")
