"""Raises an exception and looks for right answers in the tracebacks of all that was raised.

Defended by: two processes: right answers are never in the one that runs this.
"""

FUNCTIONS = """
import sys, traceback
def evil(self, *_):
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    while frame:
        for name, value in list(frame.f_locals.items()):
            keys = list(value) if isinstance(value, dict) else []
            if "expected" in name or any(str(key).endswith("(keys first)") for key in keys):
                raise Exception("GOT THROUGH: " + name)
        frame = frame.f_back
    raise Exception("nothing there")
"""
