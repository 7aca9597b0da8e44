"""Write the example of README.md: what sanity_check.py says of a mistake and of its correction.

    python -m docs.first_screen

All runs are real: in a fresh handout, lines of a student take the place of a stub. Of the run with
--hint, what it adds is shown.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from course import handout
from training.files.writing import write_whole

PLACE = re.compile(r"(?<=<!-- docs/first_screen.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
CHECK = ("sanity_check.py", "--task", "1.2")
STUB = 'raise NotImplementedError("Task 1.2 · BertLayer.add_norm")'
WRITTEN = """change = dense_layer(output)
change = dropout(change)
change = ln_layer(change)
return input + change"""
CORRECTED = WRITTEN.replace("ln_layer(change)\nreturn input +", "ln_layer(input + change)\nreturn")
RUNS = (  # the student's lines, flags, what the README says next to the command
    (WRITTEN, (), ""),
    (WRITTEN, ("--hint",), "   # adds"),
    (CORRECTED, (), "   # with the norm in its place"),
)


def example() -> str:
    """The passage of README.md, in which the correction itself is not shown."""
    environment, screen = os.environ | {"COLUMNS": "88", "NO_COLOR": "1"}, []
    with tempfile.TemporaryDirectory() as folder:
        handout.write_files(Path(folder), handout.build(handout.ROOT, "1").files)
        bert = Path(folder, "bert.py")
        stub = bert.read_text(encoding="utf-8")
        for code, flags, note in RUNS:
            bert.write_text(
                stub.replace(STUB, code.replace("\n", "\n" + 8 * " ")), encoding="utf-8"
            )
            command = [sys.executable, *CHECK, *flags]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, encoding="utf-8"
            )
            said = re.split(r"\n\d of", done.stdout)[0].split("\n")  # without the count of tasks
            screen.append(" ".join(("$ python", *CHECK, *flags)) + note)
            screen += [line for line in said if line not in screen]
    return "\n".join((f"```python\n{WRITTEN}\n```\n\n```console", *screen, "```\n"))


if __name__ == "__main__":
    readme = handout.ROOT / "README.md"
    passage = example()
    write_whole(readme, PLACE.sub(lambda _: passage, readme.read_text(encoding="utf-8")))
