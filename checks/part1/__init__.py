"""The checks of bert.py, optimizer.py and classifier.py."""
