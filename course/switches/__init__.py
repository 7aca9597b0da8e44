"""Each known mistake as a switch in a reference that is written once; for staff only."""
