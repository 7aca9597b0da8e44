"""Source files of control bytes: zipped a few hundred bytes, in a request six times their size.

Defended by: intake.py: a limit for all Python files together, before anything is sent.
"""

NAMES = ("bert.py", "optimizer.py", "classifier.py")
FILES = dict.fromkeys(NAMES, "x = '" + "\x01" * 480000 + "'\n")
STATUS = "refused"
