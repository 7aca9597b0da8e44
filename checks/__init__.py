"""Checks of what students write: part 1, part 2, and what both need."""
