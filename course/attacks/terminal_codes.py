"""Exceptions whose texts are escape codes, halves of characters, HTML, Markdown and a formula.

Defended by: output.py cleans and escapes at the point of output, and the page's policy forbids
scripts; protocol.py takes halves of characters out, which no file can hold.
"""

FUNCTIONS = """
def evil(self, *_):
    raise ValueError(
        "=1+1 <script>alert(1)</script><img src=x onerror=alert(1)> [a](javascript:alert(1)) "
        "</td></table> ``` # 100 points "
        "\\x1b[2J\\x1b]0;pwned\\x07\\x9b31m \\u202e100 points\\u202c half \\ud800 \\udcff \\x00")
"""
STEP = """
def evil(self, closure=None):
    raise Exception("\\ud800\\x1b[2J")
"""
