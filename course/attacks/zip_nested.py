"""A zip in a zip in a zip, and archives of other kinds.

Defended by: intake.py: an archive inside is not opened.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

STATUS = "refused"


def build(path: Path) -> None:
    """Write the zip."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("optimizer.py", "print('GOT THROUGH')")
    for _ in range(3):
        outer = io.BytesIO()
        with zipfile.ZipFile(outer, "w") as archive:
            archive.writestr("submission.zip", inner.getvalue())
        inner = outer
    path.write_bytes(inner.getvalue())
