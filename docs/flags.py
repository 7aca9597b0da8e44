"""Write docs/flags.md: every flag of the scripts that train, from the dataclasses that define them.

python docs/flags.py
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import MISSING, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from training.files.writing import atomic_write

PAGE = ROOT / "docs" / "flags.md"
SHARED = ("training.cli.flags", "TrainingFlags")
SCRIPTS = {  # the dataclass of each script's flags
    "classifier.py": ("training.cli.sentiment_flags", "ClassifierFlags"),
    "multitask_classifier.py": ("multitask_classifier", "MultitaskFlags"),
}


def flags_of(kind: type) -> dict[str, tuple[str, str]]:
    """Default and help by flag, as a reader of the page sees them."""
    rows = {}
    for setting in fields(kind):
        if "options" not in setting.metadata:
            continue
        options = setting.metadata["options"]
        default = setting.default_factory() if setting.default is MISSING else setting.default
        shown = ",".join(default) if isinstance(default, list) else default
        choices = f" ({', '.join(map(str, options['choices']))})" if "choices" in options else ""
        cell = "" if default is None else "off" if default is False else f"`{shown}`"
        rows[f"--{setting.name}"] = (cell, options.get("help", "") + choices)
    return rows


def page() -> str:
    """The page's text: what all scripts share, then what each adds or changes."""
    load = {
        name: getattr(importlib.import_module(module), kind)
        for name, (module, kind) in {"": SHARED, **SCRIPTS}.items()
    }
    shared = flags_of(load.pop(""))
    text = ["# All flags", "", "Written by `python docs/flags.py` from the scripts themselves.", ""]
    tables = {"Every script that trains": shared}
    for name, kind in load.items():
        own = {flag: row for flag, row in flags_of(kind).items() if shared.get(flag) != row}
        tables[f"`{name}` besides"] = own
    for title, rows in tables.items():
        text += [f"## {title}", "", "| flag | default | what |", "|---|---|---|"]
        text += [f"| `{flag}` | {default} | {what} |" for flag, (default, what) in rows.items()]
        text.append("")
    return "\n".join(text)


def main() -> None:
    """Write the page."""
    with atomic_write(PAGE) as file:
        file.write(page())


if __name__ == "__main__":
    main()
