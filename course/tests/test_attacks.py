"""course/attacks, graded as one batch a part: what each one gets, and what it leaves behind.

Every fourth one, or all with --all-attacks (as CI does): they take minutes. A
batch runs once, as staff run it; the tests look at what came out. Where neither bubblewrap nor
root is there, the grader refuses to start, which is then all that can be tested.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import copy_tree, needs_sandbox

from course import attacks, handout
from course.answers import VARIANTS, put, read
from course.grading.sandbox import isolation
from course.grading.sandbox.confine import FIRST_USER

ROOT = Path(__file__).resolve().parent.parent.parent
GOLD = [ROOT / "course" / "gold", ROOT / "data" / "practice"]
PART_1 = ("bert.py", "optimizer.py", "classifier.py")
FILES = {1: PART_1, 2: (attacks.MODEL,)}
HONEST = ("m-honest", "zz-honest")
SECONDS = {1: 4, 2: 20}  # of a task, by part
ENDED = ("crashed", "timeout", "invalid answer")  # without a result; all are worth nothing
SAMPLE = slice(None, None, 4)  # of the attacks that are graded without --all-attacks
LEFT = ("GOT-THROUGH", "message-to-friends", "left-by-attack")


def digests(*folders: Path) -> dict[str, str]:
    """Of every file below some folders but what Python and git keep."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", ".git", ".pytest_cache"} & set(path.parts)
    }


def staff_files(root: Path) -> dict[str, str]:
    """Of what the grader and the course consist of; other tests may write elsewhere."""
    return digests(root / "course", root / "data") | {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.glob("*.*")
        if path.is_file()
    }


def left_over() -> set[str]:
    """Marks of attacks, and folders of the grader's, where everybody may write."""
    found = set()
    for folder in map(Path, ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir(), ROOT)):
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name.startswith(LEFT):
                found.add(str(path))
    return found


def of_sandbox() -> list[str]:
    """Processes that still run a worker, or as a slot's user; the dead wait for process 1 alone."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            slot = entry.stat().st_uid in range(FIRST_USER, FIRST_USER + 16)
            alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
            if (alive and slot) or b"grading/worker.py" in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def still_of_sandbox(before: Collection[str], seconds: int = 60) -> set[str]:
    """Those that were not there before and stay; other gradings have their own for a moment."""
    found, end = set(of_sandbox()) - set(before), time.monotonic() + seconds
    while found and time.monotonic() < end:
        time.sleep(1)
        found &= set(of_sandbox())
    return found


def zipped(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def grade(
    submissions: Path, out: Path, *more: str, root: Path, path: str = ""
) -> subprocess.CompletedProcess:
    """The command that staff type, with a secret in its environment.

    Args:
        root: the tree whose grader is run.
        path: where programs are looked for.
    """
    gold = [root / folder.relative_to(ROOT) for folder in GOLD]
    command = [sys.executable, "course/grade.py", submissions, "--out", out, "--gold", *gold]
    command += ["--without-bubblewrap"] if path else isolation.flags()
    environment = {"GRADER_SECRET": "x", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*map(str, command), *more],
        cwd=root,
        env=os.environ | environment | ({"PATH": path} if path else {}),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=1500,
    )


@pytest.fixture(scope="module")
def sources():
    """The files of both parts as handed out, and solved; part 2 in one file."""
    stubs, solved = (handout.build(ROOT, "2", with_solution=given).files for given in (False, True))
    plain = put(read(VARIANTS, "multitask/plain"), source=stubs[attacks.MODEL].decode())
    return {
        "stubs": {name: stubs[name] for name in (*PART_1, attacks.MODEL)},
        "solution": {name: solved[name] for name in PART_1} | {attacks.MODEL: plain.encode()},
    }


def lay_out(
    folder: Path, names: Iterable[str], sources: attacks.Sources, part: int = 1
) -> tuple[Path, Path]:
    """Submissions of attacks and of honest students, and a folder for results, closed to others."""
    submissions, out = folder / "submissions", folder / "out"
    submissions.mkdir(mode=0o700)
    out.mkdir(mode=0o700)
    for name in names:
        attacks.write(attacks.read(name), submissions / f"{name}.zip", sources)
    honest = {name: sources["solution"][name] for name in FILES[part]}
    for name in HONEST if part == 1 else HONEST[:1]:
        zipped(submissions / f"{name}.zip", honest)
    # a fixed secret: hidden inputs are then the same in each run of this test
    (out / "assignment.json").write_text(json.dumps({"part": part, "secret": "0" * 32}))
    (out / "notes-of-staff.txt").write_text("not the grader's")
    return submissions, out


def graded(
    submissions: Path, out: Path, root: Path, path: str = "", part: int = 1
) -> SimpleNamespace:
    """A batch, graded; and what was there before and after."""
    before = staff_files(root) | digests(submissions), left_over(), of_sandbox()
    options = ["-j", "3", "--part", str(part), "--seconds", str(SECONDS[part])]
    ended = grade(submissions, out, *options, root=root, path=path)
    after = staff_files(root) | digests(submissions), left_over(), still_of_sandbox(before[2])
    assert (out / "results").is_dir(), ended.stdout + ended.stderr
    results = {
        path.stem: json.loads(path.read_text()) for path in sorted((out / "results").iterdir())
    }
    private = (submissions, out, root)
    return SimpleNamespace(
        ended=ended, out=out, results=results, before=before, after=after, private=private
    )


def chosen(config: pytest.Config, part: int) -> list[str]:
    """The attacks on a part that are graded."""
    names = attacks.names(part)
    return names if config.getoption("--all-attacks") else names[SAMPLE]


def skip_unless_chosen(name: str, config: pytest.Config, part: int) -> None:
    """Say how the other attacks are graded, too."""
    if name not in chosen(config, part):
        pytest.skip(
            "not in the sample: python -m pytest course/tests/test_attacks.py --all-attacks"
        )


@pytest.fixture(scope="module")
def batch(tmp_path_factory, sources, private_tree, pytestconfig):
    """Attacks and some honest submissions, one with a hostile name."""
    folder = tmp_path_factory.mktemp("attacks")
    submissions, out = lay_out(folder, chosen(pytestconfig, 1), sources)
    honest = {name: sources["solution"][name] for name in PART_1}
    zipped(submissions / "=HYPERLINK('x')<script>alert(1)<.zip", honest)
    return graded(submissions, out, private_tree)


@pytest.fixture(scope="module")
def batch_2(tmp_path_factory, sources, private_tree, pytestconfig):
    """Attacks on part 2 and an honest submission."""
    folder = tmp_path_factory.mktemp("attacks-2")
    submissions, out = lay_out(folder, chosen(pytestconfig, 2), sources, part=2)
    return graded(submissions, out, private_tree, part=2)


def check(batch, name: str, private: Iterable[Path] = ()) -> None:
    """An attack has the points that are honest in it, and nothing of it has got through.

    Args:
        private: where files may lie open in other places, what even then nobody may read.
    """
    attack, result = attacks.read(name), batch.results[name]
    said = json.dumps(result) + (batch.out / "feedback" / f"{name}.md").read_text()
    for path in private:
        assert str(path) not in said
    assert private or not re.findall("GOT THROUGH.{0,200}", said)
    assert result["status"] == getattr(attack, "STATUS", "graded"), result["why"]
    honest = getattr(attack, "TASKS", {})
    points = {task["number"]: task["points"] for task in result["tasks"] if task["points"]}
    assert points == honest
    assert result["points"] == sum(honest.values())
    statuses = {task["number"]: task["status"] for task in result["tasks"]}
    told = " ".join(result.get("flags", ()))
    assert all(word in told for word in getattr(attack, "FLAGS", ())), told
    for number, wanted in getattr(attack, "STATUSES", {}).items():
        # on a busy machine time may be up before the end, or another limit be met before it is
        assert statuses[number] in (ENDED if wanted in ENDED else (wanted,)), number


def check_harm(batch) -> None:
    """The staff's files are as before, nothing runs or lies around, the honest have all points."""
    assert batch.ended.returncode == 0, batch.ended.stdout + batch.ended.stderr
    assert batch.after[0] == batch.before[0]
    assert (batch.out / "notes-of-staff.txt").read_text() == "not the grader's"
    assert batch.out.stat().st_mode & 0o077 == 0
    assert batch.after[1] <= batch.before[1]
    assert not batch.after[2]
    honest = {name: one["points"] for name, one in batch.results.items() if name in HONEST}
    assert honest == dict.fromkeys(HONEST, 100.0)


# ---------------------------------------------------------------------------------------------
# Each attack


@needs_sandbox
@pytest.mark.parametrize("name", attacks.names(1))
def test_attack(batch, name, pytestconfig):
    skip_unless_chosen(name, pytestconfig, 1)
    lie_open = name == "read_gold" and not isolation.best().namespaces  # an open clone, for one
    check(batch, name, batch.private if lie_open else ())


@needs_sandbox
@pytest.mark.parametrize("name", attacks.names(2))
def test_attack_on_part_2(batch_2, name, pytestconfig):
    skip_unless_chosen(name, pytestconfig, 2)
    check(batch_2, name)


@needs_sandbox
def test_an_honest_part_2_among_them(batch_2):
    assert batch_2.ended.returncode == 0, batch_2.ended.stdout + batch_2.ended.stderr
    assert batch_2.results[HONEST[0]]["points"] == 100.0
    assert batch_2.results[HONEST[0]]["flags"] == []


def test_attacks_are_many_and_explained():
    assert len(attacks.names()) >= 95
    for name in attacks.names():
        first, _, rest = attacks.read(name).__doc__.partition("\n")
        assert len(first) > 20, name
        assert "Defended by: " in rest, name


def test_threat_model_has_every_attack():
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    table = text.split("## Covered")[1].split("\n## ")[0]
    claimed = set(re.findall(r"`([a-z_]+)`", table)) - {"tests"}
    assert claimed == set(attacks.names())


# ---------------------------------------------------------------------------------------------
# The batch


@needs_sandbox
def test_no_staff_error(batch):
    assert batch.ended.returncode == 0, batch.ended.stdout + batch.ended.stderr
    assert {result["status"] for result in batch.results.values()} <= {"graded", "refused"}


@needs_sandbox
def test_no_harm(batch):
    check_harm(batch)


@needs_sandbox
def test_hostile_name_of_an_honest_submission(batch):
    names = [name for name in batch.results if "HYPERLINK" in name]
    assert [batch.results[name]["points"] for name in names] == [100.0]


@needs_sandbox
def test_layers_are_told(batch):
    layers = batch.results[HONEST[0]]["layers"]
    assert "fresh interpreter" in layers
    assert ("own user" in layers) == (os.geteuid() == 0)
    assert any("bubblewrap" in layer for layer in layers) == isolation.best().namespaces
    if sys.platform == "linux":
        assert "filters of system calls" in layers


@needs_sandbox
def test_nothing_written_is_active(batch):
    """No control or direction characters, no HTML of students', no formulas."""
    texts = [batch.ended.stdout, batch.ended.stderr]
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


# ---------------------------------------------------------------------------------------------
# Root without bubblewrap, as on Gradescope

TOOLS = ("test", "sh", "true")
BY_ANOTHER_USER = (
    "closed_folders", "daemon", "disk_many", "forged_frames", "keyring_letters", "kill_all",
    "kill_indirectly", "left_files", "links_left", "memory_many",
    "more_rights", "odd_names_left", "oom_score", "proc_secrets", "queue_letters", "read_gold",
    "renamed_folder", "semaphore_letters", "setuid_programs", "shared_pages", "sockets",
    "trace_parent", "unlinked_files", "what_was_left", "write_results", "zero_pages",
)  # fmt: skip


def reason_not_as_another_user() -> str:
    """Why a batch of its own by root alone tells nothing more here; "": it does."""
    if os.geteuid() != 0:
        return "ROOT ALONE IS NOT TESTED: this is not root"
    if not isolation.best().namespaces:
        return "root alone grades the batch of all attacks here"
    why = isolation.problems(isolation.AnotherUser())
    return f"ROOT ALONE IS NOT TESTED: {'; '.join(why)}" if why else ""


@pytest.fixture
def place():
    """A folder that others may enter, which pytest's own are not: with a copy of this repository,
    and a folder of the programs that are needed but bubblewrap.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        copy_tree(folder / "tree")
        (folder / "bin").mkdir()
        (folder / "bin").chmod(0o755)
        for program in TOOLS:
            (folder / "bin" / program).symlink_to(shutil.which(program))
        yield folder


@pytest.mark.skipif(bool(reason_not_as_another_user()), reason=reason_not_as_another_user())
def test_root_without_bubblewrap(place, sources, pytestconfig):
    tree, programs = place / "tree", str(place / "bin")
    names = sorted({*BY_ANOTHER_USER} & {*chosen(pytestconfig, 1)})
    submissions, out = lay_out(place, names, sources)
    tree.chmod(0o700)
    batch = graded(submissions, out, root=tree, path=programs)
    assert "bubblewrap" not in str(batch.results[HONEST[0]]["layers"])
    for name in names:
        check(batch, name, [place] if name == "read_gold" else ())
    check_harm(batch)


def test_refuses_an_open_clone_without_bubblewrap(place, sources):
    """As root, whose sandbox has users of its own, and as any other user."""
    submissions, out = lay_out(place, (), sources)
    (place / "tree").chmod(0o755)
    refused = grade(submissions, out, root=place / "tree", path=str(place / "bin"))
    assert refused.returncode == 1
    assert "could be read by the code that is graded" in refused.stderr
    assert not (out / "results").exists()
