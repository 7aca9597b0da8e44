"""How the grader does with a class: seconds of each submission, memory, points of each kind.

    python research/benchmarks/grader.py --count 300 -j 2         ten minutes on two cores

Makes submissions of part 1 (the solution, other correct solutions, mistakes of all tasks, empty and
hostile ones), grades them with course/grade.py and prints seconds of wall time for each and the
memory of the grading process while it runs.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

from checks.graded_tasks import GRADED_TASKS
from course import attacks, handout
from course.answers import MARKER, MISTAKES, VARIANTS, put, read_all
from datasets import load_data
from prepare_submit import CODE, PART_1_FILES, ZIP_NAME
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script

GOLD = (ROOT / "course" / "gold", ROOT / "data" / "practice")
PART_1 = [entry for entry in GRADED_TASKS if entry.part == 1]


# ---------------------------------------------------------------------------------------------
# Submissions


def solution() -> dict[str, str]:
    """The code of part 1 as a student would hand it in, without markers."""
    return {name: MARKER.sub("", (ROOT / name).read_text(encoding="utf-8")) for name in CODE}


def predictions(seed: int, right: float = 0.5) -> dict[str, str]:
    """SST's files of predictions: so many of them right, the others by chance."""
    chance = random.Random(seed)
    files = {}
    for path, (name, split, classes) in PART_1_FILES.items():
        if name != "sst":
            continue
        source = next(g for g in GOLD if (g / f"ids-{name}-{split}.csv").is_file())
        rows = load_data(source / f"ids-{name}-{split}.csv", "dev", classes)
        lines = ["id \t Predicted_Sentiment"]
        for *_, label, key in rows:
            value = label if chance.random() < right else chance.randrange(classes)
            lines.append(f"{key} , {value}")
        files[path] = "\n".join(lines) + "\n"
    return files


def hostile() -> Iterator[Callable[[Path], None]]:
    """What writes the zip of each attack of course/attacks, in turn."""
    given = {
        solved: handout.build(ROOT, "2", with_solution=solved).files for solved in (True, False)
    }
    sources = {"solution": given[True], "stubs": given[False]}
    for name in itertools.cycle(attacks.names(1)):
        yield functools.partial(attacks.write, attacks.read(name), sources=sources)


def make(folder: Path, count: int) -> None:
    """So many zips: in turn the solution, right and wrong answers, an empty one, a hostile one.

    Those of the same number are the same each time.
    """
    right, ids = solution(), {entry.id for entry in PART_1}
    variants, mistakes = (
        [answer for answer in read_all(kind) if answer.folder in ids]
        for kind in (VARIANTS, MISTAKES)
    )
    random.Random(0).shuffle(mistakes)
    kinds = {
        "solution": itertools.cycle([right]),
        "variant": (right | {a.task.file: put(a)} for a in itertools.cycle(variants)),
        "mistake": (right | {a.task.file: put(a)} for a in itertools.cycle(mistakes)),
        "empty": itertools.cycle([{"notes.md": "nothing yet"}]),
    }
    bad = hostile()
    turns = ["solution", "variant", "mistake", "empty", "hostile", *["mistake"] * 5]
    for number, kind in zip(range(count), itertools.cycle(turns), strict=False):
        name = f"{number:04}_{kind}"
        if kind == "hostile":
            next(bad)(path=folder / f"{name}.zip")
        else:
            files = next(kinds[kind])
            write_zip(folder, name, files if kind == "empty" else files | predictions(number))


def write_zip(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    """A submission as prepare_submit.py names it."""
    path = folder / f"{name}_{ZIP_NAME}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    return path


# ---------------------------------------------------------------------------------------------
# A batch


def grade(submissions: Path, out: Path, j: int) -> tuple[float, list[float]]:
    """Run course/grade.py; seconds, and its memory in MB, looked at each second."""
    script = [sys.executable, ROOT / "course" / "grade.py", submissions, "--out", out, "-j", j]
    command = [*map(str, script), "--gold", *map(str, GOLD)]
    start, memory = time.monotonic(), []
    with open(out.parent / f"{out.name}.log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        while process.poll() is None:
            with contextlib.suppress(OSError, StopIteration):
                status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
                line = next(line for line in status if line.startswith("VmRSS"))
                memory.append(int(line.split()[1]) / 1024)
            time.sleep(1)
    if process.returncode:
        print((out.parent / f"{out.name}.log").read_text()[-2000:])
    return time.monotonic() - start, memory


def batch(folder: Path, count: int, j: int) -> None:
    """Grade all, print seconds, memory and what became of each kind."""
    (folder / "all").mkdir()
    make(folder / "all", count)
    out = folder / "out"
    out.mkdir(mode=0o700)
    seconds, memory = grade(folder / "all", out, j)
    results = [json.loads(path.read_text("utf-8")) for path in (out / "results").glob("*.json")]
    print(f"{len(results)} of {count} with -j {j}: {seconds:.0f} s, {seconds / count:.2f} s each")
    half = len(memory) // 2
    print(f"memory of the grading process: at most {max(memory):.0f} MB, in the second half of the")
    print(f"  time {statistics.median(memory[half:]):.0f} MB (median)")
    for kind in ("solution", "variant", "mistake", "empty", "hostile"):
        of_kind = [result for result in results if result["student"].endswith(f"_{kind}")]
        points = [result["points"] for result in of_kind]
        if points:
            statuses = sorted({result["status"] for result in of_kind})
            line = f"{min(points):g} to {max(points):g} points, {', '.join(statuses)}"
            print(f"  {kind:9}{len(points):4}   {line}")


def main() -> None:
    """Grade a made-up class."""
    parser = OneLineParser(description="Measure the grader.")
    parser.add_argument("--count", type=positive_int, default=300, help="submissions")
    parser.add_argument("-j", type=positive_int, default=2, help="how many at a time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="grader-") as folder:
        batch(Path(folder), args.count, args.j)


if __name__ == "__main__":
    run_script(main)
