"""Write the example of README.md: what sanity_check.py says of a mistake and of its correction.

    python -m docs.first_screen

Both runs are real: in a fresh handout, lines of a student take the place of a stub.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from course import handout
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.writing import write_whole

README = handout.ROOT / "README.md"
PLACE = re.compile(r"(?<=<!-- docs/first_screen.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
CHECK = ("sanity_check.py", "--task", "1.2")
STUB = 'raise NotImplementedError("Task 1.2 · BertLayer.add_norm")'
WRITTEN = """change = dense_layer(output)
change = dropout(change)
change = ln_layer(change)
return input + change"""
CORRECTION = ("ln_layer(change)\nreturn input + change", "ln_layer(input + change)\nreturn change")


def says(files: dict[str, bytes], code: str) -> str:
    """What the check of task 1.2 says about these lines, in a handout with these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        place = Path(folder, "bert.py")
        stub = place.read_text(encoding="utf-8")
        place.write_text(stub.replace(STUB, code.replace("\n", "\n" + 8 * " ")), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, *CHECK],
            cwd=folder,
            env=os.environ | {"COLUMNS": "88", "NO_COLOR": "1"},
            capture_output=True,
            encoding="utf-8",
        )
    return done.stdout.partition("\n0 of")[0].partition("\n1 of")[0]


def example() -> str:
    """The passage of README.md."""
    files = handout.build(handout.ROOT, "1").files
    command = " ".join(("$ python", *CHECK))
    wrong, right = says(files, WRITTEN), says(files, WRITTEN.replace(*CORRECTION))
    return (
        f"```python\n{WRITTEN}\n```\n\n```text\n{command}\n{wrong}\n"
        f"$ # ln_layer gets the sum, and once more\n{command}\n{right}\n```\n"
    )


def main() -> None:
    """Put the passage in its place."""
    OneLineParser(description="Write the example of README.md.").parse_args()
    passage = example()
    write_whole(README, PLACE.sub(lambda _: passage, README.read_text(encoding="utf-8")))
    print("wrote README.md")


if __name__ == "__main__":
    run_script(main)
