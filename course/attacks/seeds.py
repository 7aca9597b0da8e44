"""Fixes every generator's seed and patches torch.randn, so that hidden inputs would be known.

Defended by: hidden.py makes inputs in the grader's process.
"""

FUNCTIONS = """
import random, numpy
torch.manual_seed(0); random.seed(0); numpy.random.seed(0)
torch.randn = torch.rand = torch.randint = lambda *size, **_: torch.zeros(1)
def evil(self, first, *_):
    torch.manual_seed(0)
    return torch.zeros(first.shape[0], first.shape[-2] if first.dim() == 4 else first.shape[1], 32)
"""
