"""Jinja templates: texts that lie beside the code that fills them in."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def templates_of(file: str, html: bool = False) -> Environment:
    """The templates in a Python file's folder; what is filled in is escaped where they are HTML."""
    return Environment(
        loader=FileSystemLoader(Path(file).resolve().parent),
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not html,
        undefined=StrictUndefined,
    )
