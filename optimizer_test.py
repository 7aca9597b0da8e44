"""Check the AdamW in optimizer.py, Task 1.5: ``python optimizer_test.py``.

The same as ``python sanity_check.py --task 1.5``; the checks are in checks/part1/adamw_checks.py.

    checks                           minutes   expected
    python optimizer_test.py         < 1       "ok", exit status 0; --hint and --hints all say more
    python optimizer_test.py --all   < 1       the same; of a wrong one, what each check found
"""

from __future__ import annotations

import sys

from sanity_check import main

__test__ = False  # pytest: test_optimizer is a function to call, not a test to collect


def test_optimizer(opt_class: type):
    """The published protocol: the weight (2, 3) after 1000 steps of a small regression."""
    from checks.part1 import adamw_checks  # here: with it comes torch, which main() has no need of

    return adamw_checks.test_optimizer(opt_class)


if __name__ == "__main__":
    main(["--task", "optimizer.step", *sys.argv[1:]])
