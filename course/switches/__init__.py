"""Each known mistake as a switch in a reference that is written once; for staff only.

A table of ways, ``{"no_scale": …}``, has what belongs to the mistakes of one slot, of which a wrong
function makes one at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Switches = frozenset[str]


def chosen(ways: Mapping[str, Any], wrong: Switches, usual: Any, side: str = "") -> Any:
    """What belongs to the mistake that is made, or what is usual.

    Args:
        side: what the name of a mistake may end in that is made there only.
    """
    for name in wrong:
        way = name if name in ways else name.removesuffix(f"_{side}")
        if way in ways:
            return ways[way]
    return usual
