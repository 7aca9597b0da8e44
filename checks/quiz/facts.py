"""What numbers of two versions of a function show, in words: where they differ, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

SAME, OTHER = 1e-4, 1e-3  # how far numbers are apart: below the first, above the second
FACTS: dict[str, Callable[[Tensor], Tensor]] = {  # what may be 0 or 1 everywhere
    "a sum of {} over its last axis": lambda t: t.sum(-1),
    "{} at the padding": lambda t: t[..., -1],  # only where there is some
    "a mean of {} over its last axis": lambda t: t.mean(-1),
}
Place = tuple[int, int, str]  # how often the line has run, the line, the variable


def differ(before: Tensor, after: Tensor) -> bool | None:
    """Whether two tensors differ by more than rounding; None where that is not clear."""
    if before.shape != after.shape:
        return True
    off = (before.double() - after.double()).abs()
    if not off.isfinite().all():
        return None
    scale = max(1.0, before.abs().max().item())
    return False if off.max() < SAME * scale else True if off.max() > OTHER * scale else None


def traced(
    subject: Mapping[str, Any], numbers: Mapping[str, Tensor], version: int, situation: int
) -> dict[Place, Tensor]:
    """The variables of a run, in the order in which they were computed."""
    prefix, made = f"{version}/{situation}/value/", {}
    for key, value in numbers.items():
        if key.startswith(prefix):
            time, line, name = key.removeprefix(prefix).split(":", 2)
            if name in subject["names"] and time.isdigit() and line.isdigit():
                made[int(time), int(line), name] = value
    return dict(sorted(made.items()))


def reason(
    subject: Mapping[str, Any], numbers: Mapping[str, Tensor], version: int, situation: int
) -> str:
    """Why an edit changes the result in a situation, or why it does not: from line to line."""
    before, after = (traced(subject, numbers, v, situation) for v in (0, version))
    results = [numbers[f"{v}/{situation}/result"] for v in (0, version)]
    changed = {
        f"after line {line}{' in step 2' * (time > 1)}, `{name}": (value, after[time, line, name])
        for (time, line, name), value in before.items()
        if (time, line, name) in after and differ(value, after[time, line, name])
    }
    if not differ(*results):
        edited = subject["edits"][version - 1]["first"]
        later = [place for place in before if place[1] >= edited and place[0]]
        if changed or not later:
            return f"the result is the same{f', but not {[*changed][0]}`' if changed else ''}"
        _, line, name = later[0]
        value = "is 0" if not before[later[0]].any() else "is the same"
        return f"after line {line}, `{name}` {value} with and without the edit"
    changed["the result `"] = results[0], results[1]
    padded = [*subject["situations"].values()][situation].get("padding", 0) > 0
    told = (f"{where}{text}" for where, pair in changed.items() if (text := fact(*pair, padded)))
    where, pair = next(iter(changed.items()))
    return next(told, f"{where}{element(*pair)}")


def fact(before: Tensor, after: Tensor, padded: bool) -> str:
    """What was 0 or 1 everywhere in a value and is no longer, or its other shape; "" if neither."""
    if before.shape != after.shape:
        return f"` is {tuple(after.shape)} instead of {tuple(before.shape)}"
    for words, measure in FACTS.items():
        if before.dim() < 2 or ("padding" in words and not padded):
            continue
        old, new = measure(before.double()).flatten(), measure(after.double()).flatten()
        value, off = round(old[0].item()) + 0, (new - old).abs()
        if value in (0, 1) and (old - value).abs().max() < SAME and off.max() > 0.01:
            return f"` has {words.format(f'{new[off.argmax()]:.2g} instead of {value}')}"
    return ""


def element(before: Tensor, after: Tensor) -> str:
    """The number of a value that differs most."""
    place = np.unravel_index(int((after - before).abs().argmax()), before.shape)
    at = [*map(int, place)] if before.numel() > 1 else ""
    return f"{at}` is {after[place].item():.3g} instead of {before[place].item():.3g}"
