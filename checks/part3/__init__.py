"""The checks of part 3: three functions of lessons/modern_bert.py."""
