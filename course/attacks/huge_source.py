"""A source of the largest size, of what is slow to cut into tokens: quotes, backslashes, digits.

Defended by: entries.py limits sizes; similarity.py reads a source with one pass.
"""

FILES = {
    "optimizer.py": "'" * 120_001 + "\\" * 120_000,
    "classifier.py": "rb" + "'" * 3 + "\\'" * 150_000 + "1" * 100_000,
    "bert.py": "raise NotImplementedError\n" + "a=b\n" * 100_000,
}
