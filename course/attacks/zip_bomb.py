"""A file of 300 KB that unpacks to 300 MB.

Defended by: entries.py: what comes out is counted, no header is believed.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

STATUS = "refused"


def build(path: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("optimizer.py", "w", force_zip64=True) as file:
            for _ in range(300):
                file.write(bytes(2**20))
