"""Reads the published fingerprints and hints for right numbers, and returns their sizes and norms.

Defended by: hidden.py: fresh inputs; fingerprints are of wrong answers to other inputs.
"""

FUNCTIONS = """
from checks.part1 import references
def evil(self, first, *_):
    prints = references.read_data("fingerprints/")
    numbers = torch.cat([table.flatten() for table in prints.values()]).nan_to_num()
    batch, length = first.shape[0], first.shape[-2] if first.dim() > 2 else first.shape[1]
    size = batch * length * 32
    numbers = numbers.repeat(size // numbers.numel() + 1)[:size]
    return numbers.reshape(batch, length, 32).to(torch.get_default_dtype())
"""
