"""Names of submissions: whose they are, in any script, however a platform has changed them."""

from __future__ import annotations

import re
import unicodedata

from prepare_submit import ZIP_NAME

NAME_BYTES = 200  # of a student's id
ARCHIVE = re.compile(r"\.(zip|rar|7z|tar|tgz|tar\.gz)$", re.IGNORECASE)
# Names that Canvas and Moodle make: whose it is, a number, perhaps LATE, and the file's name
CANVAS = re.compile(r"(?=[^_]*[^\W\d_])([^_]+)_(?:LATE_)?(\d+)_\d{3,}_(.+)")
MOODLE = re.compile(r"(.+)_(\d+)_assignsubmission_file_(.*)")
ONLINE_TEXT = re.compile(r".+_\d+_assignsubmission_onlinetext_?")  # Moodle's, next to the files
AGAIN = r"(?:-\d+|[ _]?\(\d+\)| \d+|(?: -)? (?:[Cc]opy|Kopie)(?: \(?\d+\)?)?)?"  # of a file


def parts_of(stem: str, zip_name: str) -> tuple[str, str]:
    """Whose a name says that a zip is, on Canvas or Moodle, and which group's by its usual ending.

    Browsers, Canvas and systems put a number, or "copy", behind a name that was there before.
    """
    platform = CANVAS.fullmatch(stem) or MOODLE.fullmatch(stem)
    owner, file = (f"{platform[1]}_{platform[2]}", platform[3]) if platform else ("", stem)
    ending = re.escape(ARCHIVE.sub("", zip_name))
    group = re.fullmatch(rf"(?:(.*)_)?{ending}{AGAIN}", file)
    return owner, (group and group[1]) or ""


def student_id(name: str, zip_name: str = ZIP_NAME) -> str:
    """A submission's name without the usual ending, as letters and digits of any script, _ and -.

    At most 80 characters, and as many bytes as a file's name has room for.
    """
    stem = ARCHIVE.sub("", name)
    owner, group = parts_of(stem, zip_name)
    stem = group or owner or stem
    stem = re.sub("_part[123]$", "", stem)  # prepare_submit.py keeps the parts' zips apart by it
    kept = re.sub(" +", "_", plain_name(stem)).lstrip("-")[:80]
    return cut_to(kept, NAME_BYTES) or "_"


def plain_name(text: str) -> str:
    """Letters of any script with their marks, digits, _ and -; blanks in the place of others.

    Signs that only say how letters are joined, as in Hindi and Persian, go without a trace.
    """
    joined = "".join(c for c in text if unicodedata.category(c) != "Cf")
    shown = unicodedata.normalize("NFC", joined)  # after that: such a sign may keep marks apart
    return "".join(c if c in "_-" or unicodedata.category(c)[0] in "LMN" else " " for c in shown)


def cut_to(text: str, most: int) -> str:
    """A text's beginning, of at most so many bytes."""
    return text.encode()[:most].decode(errors="ignore")
