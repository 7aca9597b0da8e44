"""A hundred thousand files.

Defended by: entries.py: a largest number of files, and size of the table of contents.
"""

FILES = {f"{number}.py": "" for number in range(100_000)}
STATUS = "refused"
