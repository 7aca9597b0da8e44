"""What every training script uses. Imported before torch, it sets how long OpenMP's threads spin.

Between two parallel regions a thread of GNU OpenMP, which PyTorch's CPU builds use on Linux, spins
for some milliseconds before it sleeps. On a quiet machine that saves the time of waking it up; next
to other busy programs it takes their processor and, since these take it back, its own. 100,000
turns keep the first and lose little of the second. OpenMP reads the variable once, when it is
loaded, and what the user has chosen stays.
"""

import os

SPINS = "100000"

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
