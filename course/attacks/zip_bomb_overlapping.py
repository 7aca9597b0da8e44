"""Many files that share the same packed bytes (Fifield 2019).

Defended by: entries.py: all that comes out is counted together; zipfile refuses overlaps.
"""

from __future__ import annotations

import zipfile
from pathlib import Path


def build(path: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("optimizer.py", b"#" * 400_000)
        first = archive.infolist()[0]
        for number in range(1500):
            again = zipfile.ZipInfo(f"module_{number}.py")
            again.compress_type, again.CRC = first.compress_type, first.CRC
            again.compress_size, again.file_size = first.compress_size, first.file_size
            again.header_offset = first.header_offset
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again


STATUS = "refused"
