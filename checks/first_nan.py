"""Where a NaN comes from: the first operation that makes one of numbers that are none."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from checks.findings import is_students

REASON = " (a whole row is -inf, or one number inf: is the mask inverted?)"


class FirstNaN(TorchFunctionMode):
    """While active, notes the first operation whose result holds a NaN, of arguments without one.

    ``text`` says which it was, and where in the student's code; "" if there was none.
    """

    def __init__(self):
        super().__init__()
        self.text = ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        known = self.text or not given or any(map(has_nan, given))  # without any: fresh memory
        result = func(*args, **kwargs)
        if not known and has_nan(result) and (place := students_line()):
            name = getattr(func, "__name__", "").strip("_")
            self.text = f"the first NaN comes from `{name}` at {place}"
            self.text += REASON * (name == "softmax")
        return result


def has_nan(value: Any) -> bool:
    """Whether a value is a tensor with a NaN."""
    return isinstance(value, Tensor) and value.is_floating_point() and bool(value.isnan().any())


def students_line() -> str:
    """The innermost line of the student's code that is running: file:line; "" if there is none."""
    for frame, line in traceback.walk_stack(None):
        path = Path(frame.f_code.co_filename)
        if is_students(path):
            return f"{path.name}:{line}"
    return ""
