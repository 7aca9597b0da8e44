"""What the hunt and the quiz refuse."""

from row import Row

ROWS = [
    Row("sanity_check.py --seed 3", "--seed is for --hunt and --quiz"),
    Row("sanity_check.py --quiz --hunt", "not allowed with"),
    Row("sanity_check.py --quiz --task 2.1", "--quiz is for tasks 1.1 to 1.5 and 1.7"),
    Row("sanity_check.py --hunt --task 1.6", "--hunt is for tasks 1.1 to 1.5"),
]
