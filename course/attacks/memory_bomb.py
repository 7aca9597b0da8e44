"""Takes memory until there is none.

Defended by: sandbox.py: a limit of address space for each process.
"""

CODE = {
    "optimizer.py": """
def evil(self, closure=None):
    kept = []
    while True:
        kept.append(bytearray(2**26))

AdamW.step = evil
""",
}
