"""How text from outside is read: UTF-8, lines of any ending; JSON."""

import codecs
import json
from pathlib import Path
from typing import Any

from training.files.errors import InputError, trouble_in_one_line, values_of


def read_text(path: str | Path) -> str:
    """What a text file holds, its lines ending in LF; InputError where it is not UTF-8."""
    with trouble_in_one_line("check the path", f"cannot read {path}: "):
        data = Path(path).read_bytes()
    return decode(data, path)


def decode(data: bytes, name: str | Path) -> str:
    """The text in a file's bytes, its lines ending in LF; InputError where it is not UTF-8."""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
        fault, what = data.find(b"\0"), "has a NUL character; remove it, or save the file as UTF-8"
    except UnicodeDecodeError as error:
        fault, what = error.start, "is not UTF-8 text; save or export it as such"
    if fault >= 0:
        line = data.count(b"\n", 0, fault) + 1
        raise InputError(f"{name}, line {line} {what}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_json(text: str, name: str) -> Any:
    """The value of a JSON text; InputError in which ``name`` says what is not JSON."""
    with values_of(f"{name} is not valid JSON", "fix it, or fetch it again"):
        return json.loads(text)


def read_json(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file; InputError where there is none."""
    value = parse_json(read_text(path), str(path))
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object {{…}}; fetch it again")
    return value
