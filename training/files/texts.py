"""How text from outside is read: UTF-8, lines of any ending; JSON."""

import codecs
import json
from pathlib import Path
from typing import Any

from training.files.errors import InputError


def read_text(path: str | Path) -> str:
    """What a text file holds, its lines ending in LF; InputError where it is not UTF-8."""
    try:
        data = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); check the path") from None
    try:
        text = data.decode()
        fault, what = data.find(b"\0"), "has a NUL character; remove it, or save the file as UTF-8"
    except UnicodeDecodeError as error:
        fault, what = error.start, "is not UTF-8 text; save or export it as such"
    if fault >= 0:
        line = data.count(b"\n", 0, fault) + 1
        raise InputError(f"{path}, line {line} {what}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_json(text: str, name: str) -> Any:
    """The value of a JSON text; InputError in which ``name`` says what is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not valid JSON ({error}); fix it, or fetch it again") from None


def read_json(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file; InputError where there is none."""
    value = parse_json(read_text(path), str(path))
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object {{…}}; fetch it again")
    return value
