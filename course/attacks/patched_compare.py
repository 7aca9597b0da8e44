"""Patches what compares numbers in torch, numpy and pytest to be always true.

Defended by: two processes: the grader compares in its own, with torch of its own.
"""

FUNCTIONS = """
import sys
import numpy
import torch.testing
yes = lambda *_, **__: True
nothing = lambda *_, **__: None
for module in (torch, torch.Tensor, numpy):
    for name in ("allclose", "equal", "isclose", "array_equal", "eq", "__eq__", "__le__", "le"):
        if hasattr(module, name):
            setattr(module, name, yes)
torch.testing.assert_close = numpy.testing.assert_allclose = nothing
class Pytest:
    def __getattr__(self, name):
        return yes
sys.modules["pytest"] = sys.modules["unittest"] = Pytest()
def evil(self, first, *_):
    return torch.zeros_like(first, dtype=torch.get_default_dtype())
"""
