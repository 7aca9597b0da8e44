"""Write docs/flags.md: every flag of the scripts that train, from the dataclasses that define them.

python docs/flags.py
"""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import MISSING, fields
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from training.files.writing import write_whole

PAGE = ROOT / "docs" / "flags.md"
SHARED = "Every script that trains"
BOTH = "Both classifiers"
HEADS = "Tagging and question answering"
DATACLASSES = {  # of the flags that all scripts share, and of each script's flags
    SHARED: ("training.cli.flags", "TrainingFlags"),
    BOTH: ("training.cli.flags", "FineTuningFlags"),
    "classifier.py": ("training.cli.sentiment_flags", "ClassifierFlags"),
    "multitask_classifier.py": ("multitask_classifier", "MultitaskFlags"),
    "extensions/multitask.py": ("extensions.flags", "TechniqueFlags"),
    "pretraining/pretrain.py": ("pretraining.flags", "PretrainingFlags"),
    HEADS: ("lessons.heads", "HeadFlags"),
    "lessons/token_classifier.py": ("lessons.token_classifier", "TokenFlags"),
    "lessons/question_answering.py": ("lessons.question_answering", "AnswerFlags"),
    "lessons/distil.py": ("lessons.distil", "DistilFlags"),
}
HEAD = """What follows a flag is its default; parentheses hold values, or a default in words.
A script's list has what it adds or changes. (Written by `python docs/flags.py`.)
"""
BUILT_ON = {  # whose flags a script has as well
    "classifier.py": BOTH,
    "multitask_classifier.py": BOTH,
    "extensions/multitask.py": "multitask_classifier.py",
    "lessons/token_classifier.py": HEADS,
    "lessons/question_answering.py": HEADS,
}


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
        what = options.get("help", "").replace(" (%(default)s)", "").replace("%%", "%").strip()
        choices = [str(choice) for choice in options.get("choices", ())]
        if not all(re.search(rf"\b{choice}\b", what) for choice in choices):
            what += f" ({', '.join(choices)})"
        in_words = {"None": "", "True": "", "False": ""}
        rows[f"--{setting.name}"] = (in_words.get(shown, shown), escape(what, False))
        if shown == "True":
            rows[f"--no-{setting.name}"] = ("", "do not " + escape(what, False))
    return rows


def listed(rows: dict[str, tuple[str, str]]) -> list[str]:
    """Items of a list; flags with the same help share one, a task's file for instance."""
    same: dict[str, list[str]] = {}
    for flag, (default, what) in rows.items():
        shown = "" if default.startswith("data/") else f" {default}"
        same.setdefault(what, []).append(f"`{flag}{shown.rstrip()}`")
    return [f"- {', '.join(flags)}: {what}" for what, flags in same.items()]


def page() -> str:
    """The page's text: what all scripts share, then what each adds or changes."""
    flags = {
        name: flags_of(getattr(importlib.import_module(module), kind))
        for name, (module, kind) in DATACLASSES.items()
    }
    text = ["# All flags", "", HEAD]
    for name, rows in flags.items():
        known = {} if name == SHARED else flags[SHARED] | flags.get(BUILT_ON.get(name), {})
        own = {flag: row for flag, row in rows.items() if known.get(flag) != row}
        only_default = {flag for flag in own if own[flag][1] == known.get(flag, ("", ""))[1]}
        title = f"`{name}`" if name.endswith(".py") else name
        if str(BUILT_ON.get(name)).endswith(".py"):
            title += f", with all flags of `{BUILT_ON[name]}`"
        text += [f"## {title}", ""]
        if only_default:
            changed = (f"`{flag} {own.pop(flag)[0]}`" for flag in list(own) if flag in only_default)
            text += [f"Other defaults: {', '.join(changed)}.", ""]
        text += [*listed(own), ""]
    return "\n".join(text)


def main() -> None:
    """Write the page."""
    write_whole(PAGE, page())


if __name__ == "__main__":
    main()
