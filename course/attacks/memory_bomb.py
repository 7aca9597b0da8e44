"""Takes memory until there is none.

Defended by: confine.py: a limit of address space for each process.
"""

STEP = """
def evil(self, closure=None):
    kept = []
    while True:
        kept.append(bytearray(2**26))
"""
