"""Names that lead out of the folder: .., absolute, drives, backslashes, dots and blanks.

Defended by: intake.py: such names are left out; nothing is unpacked to disk.
"""

NAMES = (
    "../optimizer.py", "../../../../../tmp/GOT-THROUGH", "/tmp/GOT-THROUGH", "C:\\GOT",
    "..\\..\\GOT", "a/../../GOT-THROUGH", ".. /GOT-THROUGH", "predictions/../../x.csv",
)  # fmt: skip
FILES = dict.fromkeys(NAMES, "print('GOT THROUGH')")
FILES["optimizer.py"] = "raise NotImplementedError"
