"""course/attacks, graded as one batch a part: what each one gets, and what it leaves behind.

Every fourth one, or all with --all-attacks (as CI does): they take minutes. A batch runs once, as
staff run it; the tests look at what came out.
"""

import functools
import hashlib
import json
import re
import time
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import ROOT, as_process, needs_sandbox, succeeded
from test_grading_sandbox import running

from course import attacks, handout
from course.answers import VARIANTS, put, read
from course.handout_repository import zipped
from research.benchmarks.grader import GOLD

PART_1 = ("bert.py", "optimizer.py", "classifier.py")
FILES = {1: PART_1, 2: (attacks.MODEL,)}
HONEST = {  # names of honest submissions, by part
    1: ("m-honest", "zz-honest", "=HYPERLINK('x')<script>alert(1)<"),
    2: ("m-honest",),
}
SECONDS = {1: 4, 2: 20}  # of a task, by part
ENDED = ("crashed", "timeout", "disk", "invalid answer")  # without a result; all are worth nothing
SAMPLE = slice(None, None, 4)  # of the attacks that are graded without --all-attacks
LEFT = ("GOT-THROUGH", "message-to-friends", "left-by-attack")


def digests(submissions: Path) -> dict[str, str]:
    """Of the submissions, and of what the grader and the course consist of."""
    files = [path for folder in ("course", "data") for path in (ROOT / folder).rglob("*")]
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (*files, *ROOT.glob("*.*"), *submissions.iterdir())
        if path.is_file() and "__pycache__" not in path.parts
    }


def left_over() -> set[str]:
    """Marks of attacks, where everybody may write."""
    folders = [folder for folder in map(Path, ("/tmp", "/var/tmp", "/dev/shm")) if folder.is_dir()]
    paths = [path for folder in (*folders, ROOT) for path in folder.iterdir()]
    return {str(path) for path in paths if path.name.startswith(LEFT)}


def sandboxed() -> set[int]:
    """Processes whose arguments name the program in the sandbox."""
    return {*running("grading/sandbox/worker.py")}


def stay_sandboxed(before: set[int]) -> set[int]:
    """Those that were not there before and stay; other gradings have their own for a moment."""
    stay, end = sandboxed() - before, time.monotonic() + 60
    while stay and time.monotonic() < end:
        time.sleep(1)
        stay &= sandboxed()
    return stay


@pytest.fixture(scope="module")
def sources():
    """The files of both parts as handed out, and solved; part 2 in one file."""
    stubs, solved = (handout.build(ROOT, "2", with_solution=given).files for given in (False, True))
    plain = put(read(VARIANTS, "multitask/plain"), source=stubs[attacks.MODEL].decode())
    return {
        "stubs": {name: stubs[name] for name in (*PART_1, attacks.MODEL)},
        "solution": {name: solved[name] for name in PART_1} | {attacks.MODEL: plain.encode()},
    }


def lay_out(folder: Path, names: Iterable[str], sources: attacks.Sources, part: int) -> None:
    """Submissions of attacks and of honest students, and a folder for results, closed to others."""
    submissions, out = folder / "submissions", folder / "out"
    submissions.mkdir(mode=0o700)
    out.mkdir(mode=0o700)
    for name in names:
        attacks.write(attacks.read(name), submissions / f"{name}.zip", sources)
    honest = {name: sources["solution"][name] for name in FILES[part]}
    for name in HONEST[part]:
        (submissions / f"{name}.zip").write_bytes(zipped(honest))
    # a fixed secret: hidden inputs are then the same in each run of this test
    (out / "assignment.json").write_text(json.dumps({"part": part, "secret": "0" * 32}))
    (out / "notes-of-staff.txt").write_text("not the grader's")


def graded(folder: Path, part: int) -> SimpleNamespace:
    """A batch, graded; and what was there before and after."""
    submissions, out = folder / "submissions", folder / "out"
    before = digests(submissions), left_over(), sandboxed()
    options = ["-j", 3, "--part", part, "--seconds", SECONDS[part], "--gold", *GOLD]
    command = (ROOT / "course" / "grade.py", submissions, "--out", out, *options)
    ended = succeeded(as_process(*command, folder=ROOT, GRADER_SECRET="x"))
    after = digests(submissions), left_over(), stay_sandboxed(before[2])
    results = {path.stem: json.loads(path.read_text()) for path in (out / "results").iterdir()}
    assert {result["status"] for result in results.values()} <= {"graded", "refused"}
    honest = [result for name, result in results.items() if name not in attacks.names()]
    assert [(each["points"], each["flags"]) for each in honest] == [(100, [])] * len(HONEST[part])
    return SimpleNamespace(ended=ended, out=out, results=results, before=before, after=after)


def chosen(config: pytest.Config, part: int) -> list[str]:
    """The attacks on a part that are graded."""
    names = attacks.names(part)
    return names if config.getoption("--all-attacks") else names[SAMPLE]


@pytest.fixture(scope="module")
def batches(tmp_path_factory, sources, pytestconfig):
    """A function of the part that gives a batch of attacks and honest submissions, graded once."""

    @functools.cache
    def batch_of(part: int) -> SimpleNamespace:
        folder = tmp_path_factory.mktemp(f"attacks-{part}")
        lay_out(folder, chosen(pytestconfig, part), sources, part)
        return graded(folder, part)

    return batch_of


@pytest.fixture
def batch(batches):
    """That of part 1."""
    return batches(1)


def check(batch: SimpleNamespace, name: str) -> None:
    """An attack has the points that are honest in it, and nothing of it has got through."""
    attack, result = attacks.read(name), batch.results[name]
    shown = json.dumps(result) + (batch.out / "feedback" / f"{name}.md").read_text()
    assert not re.findall("GOT THROUGH.{0,200}", shown)
    assert result["status"] == getattr(attack, "STATUS", "graded"), result["why"]
    points = {task["number"]: task["points"] for task in result["tasks"] if task["points"]}
    assert points == getattr(attack, "TASKS", {})
    assert result["points"] == sum(points.values())
    flags = " ".join(result.get("flags", ()))
    assert all(word in flags for word in getattr(attack, "FLAGS", ())), flags
    statuses = {task["number"]: task["status"] for task in result["tasks"]}
    for number, wanted in getattr(attack, "STATUSES", {}).items():
        # on a busy machine time may be up before the end, or another limit be met before it is
        assert statuses[number] in (ENDED if wanted in ENDED else (wanted,)), number


# ---------------------------------------------------------------------------------------------
# Each attack


@needs_sandbox
@pytest.mark.parametrize("name", attacks.names())
def test_attack(batches, name, pytestconfig):
    part = getattr(attacks.read(name), "PART", 1)
    if name not in chosen(pytestconfig, part):
        pytest.skip(
            "not in the sample: python -m pytest course/tests/test_attacks.py --all-attacks"
        )
    check(batches(part), name)


def test_threat_model_has_every_attack():
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    table = text.split("## Covered")[1].split("\n## ")[0]
    claimed = set(re.findall(r"`([a-z_]+)`", table)) - {"tests"}
    assert claimed == set(attacks.names())
    for name in attacks.names():
        assert "Defended by: " in attacks.read(name).__doc__, name


# ---------------------------------------------------------------------------------------------
# The batch


@needs_sandbox
def test_no_harm(batch):
    """Nothing of staff's is changed, nothing runs or is left, and all layers were there."""
    assert batch.after[0] == batch.before[0]
    assert (batch.out / "notes-of-staff.txt").read_text() == "not the grader's"
    assert batch.out.stat().st_mode & 0o077 == 0
    assert batch.after[1] <= batch.before[1]
    assert not batch.after[2]
    layers = batch.results["m-honest"]["layers"]
    assert "bubblewrap: own files, processes, network" in layers
    assert "filters of system calls" in layers


@needs_sandbox
def test_nothing_written_is_active(batch):
    """No control or direction characters, no HTML of students', no formulas."""
    texts = [batch.ended.out, batch.ended.err]
    for path in batch.out.rglob("*"):
        if path.suffix in (".md", ".html", ".csv"):
            texts.append(path.read_text(encoding="utf-8"))
            shown = texts[-1]
            if path.suffix == ".md":  # what stands in a block of code is shown as it is
                shown = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", shown)
            active = r"(?<!\\)(<script>alert|<img" + (
                r"|\]\(javascript)" if path.suffix == ".md" else ")"
            )
            assert not re.search(active, shown), path
        if path.suffix == ".csv":
            assert not re.search(r'(?m)(^|,)"?[=@]', texts[-1]), path
    kinds = {unicodedata.category(c) for text in texts for c in set(text) - set("\n\r\t")}
    assert not kinds & {"Cc", "Cf", "Cs"}
