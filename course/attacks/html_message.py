"""An exception whose text is HTML, Markdown and a formula.

Defended by: output.py escapes at the point of output; the page's policy forbids scripts.
"""

FUNCTIONS = """
def evil(self, *_):
    raise ValueError(
        "=1+1 <script>alert(1)</script><img src=x onerror=alert(1)> [a](javascript:alert(1)) "
        "</td></table> ``` # 100 points")
"""
