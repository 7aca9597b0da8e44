"""A zip whose table of contents lies about sizes, places and checksums.

Defended by: entries.py: whatever zipfile raises, the submission is refused.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

STATUS = "refused"


def build(path: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("optimizer.py", "raise SystemExit('GOT THROUGH')" * 100)
    content = bytearray(path.read_bytes())
    start = content.rfind(b"PK\x01\x02")
    content[start + 16 : start + 28] = b"\xff" * 12
    path.write_bytes(content)
