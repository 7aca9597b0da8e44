"""Why an edit changes an output or does not, in words: at which line the values part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from checks.compare import TOLERANCES, is_close

TOLERANCE = TOLERANCES[torch.float64]
FACTS: dict[str, Callable[[Tensor], Tensor]] = {  # what may be 0 or 1 everywhere
    "a sum of {} over its last axis": lambda t: t.sum(-1),
    "a mean of {} over its last axis": lambda t: t.mean(-1),
    "{} at the padding of the last sentence": lambda t: t[-1, ..., -1],
}
Place = tuple[int, int, str]  # how often the line has run, the line, the variable


def variables(
    subject: Mapping[str, Any], numbers: Mapping[str, Tensor], output: str
) -> dict[Place, Tensor]:
    """The variables on the way to an output, in the order of the lines."""
    made = {}
    for key, value in numbers.items():
        if key.startswith(f"{output}|"):
            time, line, name = key.removeprefix(f"{output}|").split(":", 2)
            if name in subject["names"] and time.isdigit() and line.isdigit():
                made[int(time), int(line), name] = value
    return dict(sorted(made.items()))


def reason(
    subject: Mapping[str, Any],
    numbers: Mapping[str, Tensor],
    output: str,
    version: int,
    is_same: bool,
) -> str:
    """What an edit changes on the way to an output, and where that ends.

    Args:
        output: its key, of the function without the edit.
    """
    key = output.replace("0/", f"{version}/", 1)
    if "|padding/" in output:
        most, without = (numbers[name].abs().max().item() for name in (key, output))
        if is_same:
            return f"by {most:.2g} at most, with and without the edit"
        return f"by up to {most:.2g} instead of {without:.2g}"
    before, after = (variables(subject, numbers, name) for name in (output, key))
    changed = {
        f"{'in step 2, ' * (time > 1)}after line {line}, `{name}": (value, after[time, line, name])
        for (time, line, name), value in before.items()
        if (time, line, name) in after and not is_close(after[time, line, name], value, TOLERANCE)
    }
    edited = subject["edits"][version - 1]["first"]
    if is_same:
        later = [place for place in before if place[1] >= edited and place[0]]
        if changed:
            return f"{next(iter(changed))}` differs, but the result does not"
        if not later:
            return f"line {edited} gives the same there"
        place = later[0] if later[0][1] == edited else later[-1]
        (_, line, name), value = place, "the same" if before[place].any() else "0"
        return f"after line {line}, `{name}` is {value} with and without the edit"
    for gone, here, verb in ((before, after, "no longer changes"), (after, before, "now changes")):
        missing = [place for place in gone if place[1] >= edited and place not in here]
        if missing and not changed:
            return f"line {missing[0][1]} {verb} `{missing[0][2]}`"
    changed["the result `"] = numbers[output], numbers[key]
    told = (f"{where}{text}" for where, pair in changed.items() if (text := fact(*pair)))
    where, pair = next(iter(changed.items()))
    return next(told, "") or f"{where}{element(*pair)}"


def fact(before: Tensor, after: Tensor) -> str:
    """What was 0 or 1 everywhere in a value and is no longer, or its other shape; "" if neither."""
    if before.shape != after.shape:
        return f"` is {tuple(after.shape)} instead of {tuple(before.shape)}"
    for words, measure in FACTS.items() if before.dim() > 1 else ():
        old, new = measure(before.double()).flatten(), measure(after.double()).flatten()
        value, off = round(old[0].item()) + 0, (new - old).abs()
        if value in (0, 1) and (old - value).abs().max() < TOLERANCE and off.max() > 0.01:
            return f"` has {words.format(f'{new[off.argmax()]:.2g} instead of {value}')}"
    ratio = (after / before)[before.abs() > TOLERANCE]
    if ratio.numel() > 1 and (ratio - ratio[0]).abs().max() < TOLERANCE:
        return f"` is {ratio[0].item():.3g} times what it was"
    return ""


def element(before: Tensor, after: Tensor) -> str:
    """The number of a value that differs most."""
    place = np.unravel_index(int((after - before).abs().nan_to_num().argmax()), before.shape)
    at = [*map(int, place)] if before.numel() > 1 else ""
    return f"{at}` is {after[place].item():.3g} instead of {before[place].item():.3g}"
