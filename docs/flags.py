"""Write docs/flags.md: every flag of the scripts that train, from the dataclasses that define them.

python docs/flags.py
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import MISSING, fields
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from training.files.writing import atomic_write

PAGE = ROOT / "docs" / "flags.md"
SHARED = "Every script that trains"
DATACLASSES = {  # of the flags that all scripts share, and of each script's flags
    SHARED: ("training.cli.flags", "TrainingFlags"),
    "classifier.py": ("training.cli.sentiment_flags", "ClassifierFlags"),
    "multitask_classifier.py": ("multitask_classifier", "MultitaskFlags"),
    "extensions/multitask.py": ("extensions.flags", "TechniqueFlags"),
    "pretraining/pretrain.py": ("pretraining.flags", "PretrainingFlags"),
    "lessons/token_classifier.py": ("lessons.token_classifier", "TokenFlags"),
    "lessons/question_answering.py": ("lessons.question_answering", "AnswerFlags"),
    "lessons/distil.py": ("lessons.distil", "DistilFlags"),
}
BUILT_ON = {"extensions/multitask.py": "multitask_classifier.py"}  # and has its flags as well


def flags_of(kind: type) -> dict[str, tuple[str, str]]:
    """Default and help by flag, as a reader of the page sees them."""
    rows = {}
    for setting in fields(kind):
        if "options" not in setting.metadata:
            continue
        options = setting.metadata["options"]
        default = setting.default_factory() if setting.default is MISSING else setting.default
        between = " " if "nargs" in options else ","
        shown = between.join(map(str, default)) if isinstance(default, list) else str(default)
        in_words = {"None": "", "": "", "False": "off", "True": "on"}
        what = options.get("help", "").replace("%(default)s", shown).replace("%%", "%")
        if "choices" in options:
            what += f" ({', '.join(map(str, options['choices']))})"
        rows[f"--{setting.name}"] = (in_words.get(shown, f"`{shown}`"), escape(what.strip(), False))
    return rows


def page() -> str:
    """The page's text: what all scripts share, then what each adds or changes."""
    flags = {
        name: flags_of(getattr(importlib.import_module(module), kind))
        for name, (module, kind) in DATACLASSES.items()
    }
    text = ["# All flags", "", "Written by `python docs/flags.py` from the scripts themselves."]
    text += ["A script's own table has the flags that it adds, or for which its default differs."]
    text += ["`--help` also says which flags exclude one another.", ""]
    for name, rows in flags.items():
        title = name if name == SHARED else f"`{name}`"
        known = {} if name == SHARED else dict(flags[SHARED])
        if base := BUILT_ON.get(name):
            title += f", with all flags of `{base}`"
            known |= flags[base]
        text += [f"## {title}", "", "| flag | default | what |", "|---|---|---|"]
        text += [
            f"| `{flag}` | {default} | {what} |"
            for flag, (default, what) in rows.items()
            if known.get(flag) != (default, what)
        ]
        text.append("")
    return "\n".join(text)


def main() -> None:
    """Write the page."""
    with atomic_write(PAGE) as file:
        file.write(page())


if __name__ == "__main__":
    main()
