"""An exception whose text moves the cursor, sets the title, and has halves of characters.

Defended by: output.py cleans; protocol.py takes halves of characters out, which no file can hold.
"""

FUNCTIONS = """
def evil(self, *_):
    raise ValueError(
        "\\x1b[2J\\x1b]0;pwned\\x07\\x9b31m \\u202e100 points\\u202c half \\ud800 \\udcff \\x00")
"""
STEP = """
def evil(self, closure=None):
    raise Exception("\\ud800\\x1b[2J")
"""
