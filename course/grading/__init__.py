"""The parts of course/grade.py; each can be read and tested alone."""
