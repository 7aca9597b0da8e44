"""Each known mistake as a switch in a reference that is written once; for staff only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def chosen(ways: Mapping[str, Any], wrong: frozenset[str], usual: Any) -> Any:
    """What belongs to the mistake that is made, or what is usual."""
    return next((way for name, way in ways.items() if name in wrong), usual)
