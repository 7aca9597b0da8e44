"""What handing in late costs. It does not know where the times come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from course import table

DAY = 24 * 3600.0


def lateness(settings: Mapping[str, Any], part: int, handed_in: float) -> dict[str, Any] | None:
    """How late a submission is; None where the part has no deadline.

    Args:
        handed_in: when, in seconds since 1970.

    Returns:
        handed_in and deadline, both in the deadline's time zone; days begun after it; lost, the
        share of the points; why, in words for the student.
    """
    late = settings["late"]
    if not late[f"part{part}"]:
        return None
    due = table.moment(late[f"part{part}"])
    days = max(0, math.ceil((handed_in - due.timestamp()) / DAY))
    lost = min(1.0, days * late["cost"] / 100)
    why = ""
    if days > late["days"]:
        lost, why = 1.0, f"{days} days late; after {late['days']} nothing counts"
    elif days:
        shown = "1 day late" if days == 1 else f"{days} days late"
        why = f"{shown}, {lost:.0%} of the points"
    return {
        "handed_in": f"{datetime.fromtimestamp(handed_in, due.tzinfo):%Y-%m-%d %H:%M}",
        "deadline": f"{due:%Y-%m-%d %H:%M}",
        "days": days,
        "lost": lost,
        "why": why,
    }
