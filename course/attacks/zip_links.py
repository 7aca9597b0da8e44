"""Files that are links: to the gold labels, to /etc/passwd, to a folder; devices.

Defended by: intake.py: only regular files count.
"""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path


def build(path: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bert.py", "raise NotImplementedError")
        for name, target, kind in (
            ("optimizer.py", "/etc/passwd", stat.S_IFLNK),
            ("predictions/finetune-sst-dev-out.csv", "../../gold/ids-sst-dev.csv", stat.S_IFLNK),
            ("predictions", "/etc", stat.S_IFLNK),
            ("classifier.py", "x", stat.S_IFCHR),
        ):
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, (kind | 0o777) << 16
            archive.writestr(info, target)
