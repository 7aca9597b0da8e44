"""Half a megabyte of quotes and backslashes, on which a tokenizer may take quadratic time.

Defended by: similarity.py: Python's own tokenizer, lines of limited length, a process of its own
with limits, after all feedback is written.
"""

FILES = {"bert.py": "# " + "x" * 100 + "\n" + "'\\" * 200_000 + "\n" + "'\\" * 40_000}
