"""The bug hunt: mutants of the student's own functions, which the student's tests have to catch."""
