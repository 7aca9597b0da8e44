"""How text from outside is read: UTF-8 or marked UTF-16, also packed, lines of any ending."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from training.files.errors import DAMAGED, InputError, first_line

SURROGATES = re.compile("[\ud800-\udfff]")  # halves of a character, which no encoding writes
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"  # how such a file begins, whatever its name is
KINDS = {dict: "an object {…}", str: "a text", int: "a whole number"}  # of JSON
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: str | Path, plain: bool = False) -> str:
    """What a text file holds, its lines ending in LF; InputError where it is not text.

    Args:
        plain: only UTF-8 will do, as for what others read, too.
    """
    try:
        data = Path(path).read_bytes()
        data = data if plain else _unpacked(data)
    except (OSError, *DAMAGED) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({reason}); check the path and the file") from None
    if data.startswith(ZIP):
        remedy = "unpack it, or export the sheet as text"
        raise InputError(f"{path} is a zip file of several, or an Excel sheet, not text; {remedy}")
    encoding = "utf-16" if data.startswith(UTF_16) and not plain else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # of UTF-8 the place counts from behind the byte-order mark, which ends no line
        line = data.count(b"\n", 0, error.start) + 1
        wrong = f"line {line} is not {encoding.upper().removesuffix('-SIG')}"
        raise InputError(f"{path}, {wrong} ({error.reason}); save it as UTF-8") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}, line {line} has a NUL byte, so it is not text; save it as UTF-8")
    return text


def _unpacked(data: bytes) -> bytes:
    """What a gzip file, or a zip file of a single one, holds; other data as they are."""
    if data.startswith(GZIP):
        return gzip.decompress(data)
    if data.startswith(ZIP):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if len(names := archive.namelist()) == 1:
                return unzip(archive, names[0])
    return data


def unzip(archive: zipfile.ZipFile, name: str) -> bytes:
    """What a file in a zip file holds; BadZipFile, whatever the reason, where it cannot be read."""
    try:
        return archive.read(name)
    except Exception as error:  # a password, a compression that this Python lacks, damaged data
        raise zipfile.BadZipFile(first_line(error)) from error


def parse_json(text: str, name: str) -> Any:
    r"""The value of a JSON text; half a character, which is only written as \ud83c, is U+FFFD.

    Raises InputError, in which ``name`` says what is no JSON.
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
