"""How long the grader takes for a class: honest submissions of part 1, graded by course/grade.py.

python -m research.benchmarks.grader --count 300 -j 2         # ten minutes on two cores
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from prepare_submit import CODE, PART_1_FILES, ZIP_NAME
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent

GOLD = (ROOT / "course" / "gold", ROOT / "data" / "practice")


def contents() -> dict[str, str]:
    """The solution and files of predictions, as a group hands them in."""
    files = {name: (ROOT / name).read_text(encoding="utf-8") for name in CODE}
    for name, (task, split, _) in PART_1_FILES.items():
        source = next(path for g in GOLD if (path := g / f"ids-{task}-{split}.csv").is_file())
        rows = source.read_text(encoding="utf-8").splitlines()[1:]
        lines = ["id,Predicted_Sentiment", *(f"{row.split()[1]},0" for row in rows)]
        files[name] = "\n".join(lines) + "\n"
    return files


def main() -> None:
    """Write the submissions, grade them, print the seconds."""
    parser = OneLineParser(description="Time the grader.")
    parser.add_argument("--count", type=positive_int, default=300, help="submissions")
    parser.add_argument("-j", type=positive_int, default=2, help="how many at a time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="grader-") as name:
        folder, files = Path(name), contents()
        (folder / "all").mkdir()
        for number in range(args.count):  # a comment makes each a file of its own
            with zipfile.ZipFile(folder / "all" / f"{number:04}_{ZIP_NAME}", "w") as archive:
                for inside, text in files.items():
                    archive.writestr(inside, text + f"# {number}\n" * inside.endswith(".py"))
        command = [sys.executable, "-m", "course.grade", folder / "all", "-j", args.j]
        command += ["--out", folder / "out", "--gold", *GOLD]
        begun = time.monotonic()
        if subprocess.run(map(str, command), cwd=ROOT, check=False).returncode:
            raise InputError("course/grade.py failed")
    took = time.monotonic() - begun
    print(f"{args.count} with -j {args.j}: {took:.0f} s, {took / args.count:.2f} s each")


if __name__ == "__main__":
    run_script(main)
