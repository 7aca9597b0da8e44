"""A source that crashes parsers: a hundred thousand brackets, and one of unary minus.

Defended by: parse.py parses in a process of its own, worker.py imports in another.
"""

FILES = {
    "optimizer.py": "x = " + "(" * 100_000 + ")" * 100_000 + "\n",
    "classifier.py": "x = " + "-" * 100_000 + "1\n",
}
