"""How text from outside is read: UTF-8, or marked UTF-16, lines of any ending; JSON."""

from __future__ import annotations

import codecs
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from training.files.errors import InputError, first_line

SURROGATES = re.compile("[\ud800-\udfff]")  # halves of a character, which no encoding writes
PACKED = (b"\x1f\x8b", b"PK\x03\x04")  # how gzip and zip files begin, Excel sheets too
KINDS = {dict: "an object {…}", str: "a text", int: "a whole number"}  # of JSON
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: str | Path, plain: bool = False) -> str:
    """What a text file holds, its lines ending in LF; InputError where it is not text.

    Args:
        plain: only UTF-8 will do, as for what others read, too.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path") from None
    if data.startswith(PACKED):
        raise InputError(f"{path} is packed, or an Excel sheet: unpack it, or export it as text")
    encoding = "utf-16" if data.startswith(UTF_16) and not plain else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # of UTF-8 the place counts from behind the byte-order mark, which ends no line
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line} is not UTF-8; save it as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}, line {line} has a NUL byte, so it is not text; save it as UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def unzip(archive: zipfile.ZipFile, name: str) -> bytes:
    """What a file in a zip file holds; BadZipFile, whatever the reason, where it cannot be read."""
    try:
        return archive.read(name)
    except Exception as error:  # a password, a compression that this Python lacks, damaged data
        raise zipfile.BadZipFile(first_line(error)) from error


def parse_json(text: str, name: str) -> Any:
    r"""The value of a JSON text; half a character, which is only written as \ud83c, is U+FFFD.

    Raises InputError, in which ``name`` says what is not JSON.
    """
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats)
        if re.search(r"\\u[dD][89a-fA-F]", text):
            value = json.loads(SURROGATES.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not valid JSON ({error}); fix it, or fetch it again") from None
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's entries; of two with one name it would be unclear which one counts."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} occurs twice")
    return entries


def read_json(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file; InputError where there is none."""
    value = parse_json(read_text(path), str(path))
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object {{…}}; fetch it again")
    return value


def entry(values: Any, name: str, kind: type, default: Any = None) -> Any:
    """What an object has under a name; KeyError and ValueError, for ``values_of``, say what not."""
    value = values.get(name) if isinstance(values, dict) else None
    value = default if value is None else value
    if value is None:
        raise KeyError(name)
    if not isinstance(value, kind):
        raise ValueError(f"its {name} is {value!r:.40}, not {KINDS[kind]}")
    return value
