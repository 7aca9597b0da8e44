"""The checks of multitask_classifier.py."""
