"""Names that some system takes for others: capitals, Cyrillic, full width, dots, NUL, invisible.

Defended by: intake.py: names that only resemble what is asked for are left out.
"""

NAMES = (
    "OPTIMIZER.PY", "Optimizer.py", "optimizer.py.", "optimizer.py ", "\uff4fptimizer.py",
    "\u043eptimizer.py", "opti\u200bmizer.py", "optimizer.p\u0443", "optimizer.py\u202e",
    "utils.py\0.txt", "optimizer.py::$DATA", "optimizer.py/x", "optimiz\u0065\u0301r.py",
)  # fmt: skip
FILES = dict.fromkeys(NAMES, "raise SystemExit('GOT THROUGH')")
FILES["bert.py"] = "raise NotImplementedError"
