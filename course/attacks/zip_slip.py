"""Names that lead out of the folder: .., absolute, drives, backslashes, dots and blanks.

Defended by: intake.py: such names are left out; nothing is unpacked to disk.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

STATUS = "graded"


def build(path: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("optimizer.py", "raise NotImplementedError")
        for name in (
            "../optimizer.py", "../../../../../tmp/GOT-THROUGH", "/tmp/GOT-THROUGH", "C:\\GOT",
            "..\\..\\GOT", "a/../../GOT-THROUGH", ".. /GOT-THROUGH", "predictions/../../x.csv",
        ):  # fmt: skip
            archive.writestr(name, "print('GOT THROUGH')")
