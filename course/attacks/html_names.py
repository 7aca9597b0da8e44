"""Files whose names are HTML, formulas and escape codes; the notes show names.

Defended by: intake.py cuts, output.py cleans and escapes at the point of output.
"""

CODE = {"optimizer.py": ""}
EVIL = "x"
NAMES = (
    "<script>alert(1)</script>.py",
    "=HYPERLINK('http://x','y').py",
    "@SUM(A1).csv",
    "<img src=x onerror=alert(1)>.txt",
    "](javascript:alert(1)).md",
)
FILES = dict.fromkeys(NAMES, EVIL)
