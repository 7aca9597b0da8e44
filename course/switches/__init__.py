"""Each known mistake as a switch in a reference that is written once; for staff only.

A table of ways, ``{"no_scale": …}``, has what belongs to the mistakes of one slot, of which a wrong
function makes one at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

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


def dropped(wrong: Switches, layer: nn.Dropout, x: Tensor) -> Tensor:
    """Dropout with the probability and in the mode of a layer, or of the mistake that is made."""
    rates = {"dropout_rate_in_code": 0.1, "dropout_rate_in_code_half": 0.5}
    modes = {"dropout_in_evaluation": True, "dropout_only_in_evaluation": not layer.training}
    return F.dropout(x, chosen(rates, wrong, layer.p), chosen(modes, wrong, layer.training))
