"""How text from outside is read: UTF-8 with or without a byte-order mark, lines of any ending."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SURROGATES = re.compile("[\ud800-\udfff]")  # halves of a character, which no encoding writes


def read_text(path: str | Path) -> str:
    """What a text file holds; OSError or ValueError where it cannot be read as UTF-8."""
    return Path(path).read_text(encoding="utf-8-sig")


def parse_json(text: str) -> Any:
    r"""The value of a JSON text; half a character, which is only written as \ud83c, is U+FFFD."""
    value = json.loads(text)
    if re.search(r"\\u[dD][89a-fA-F]", text):
        value = json.loads(SURROGATES.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    return value


def read_json(path: str | Path) -> Any:
    """The value in a JSON file; OSError or ValueError where there is none."""
    return parse_json(read_text(path))
