"""The sandbox (sandbox.py, worker.py, seccomp.py) and what reads its answers (one.py)."""

import errno
import io
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from support import needs_sandbox

from checks.graded_tasks import GRADED_TASKS
from checks.part1 import references
from course import attacks, grade
from course.grading.judging import canaries, hidden, judge, part1
from course.grading.judging.types import Submission
from course.grading.sandbox import (
    cgroups,
    confine,
    isolation,
    leftovers,
    processes,
    removal,
    runs,
    sandbox,
    seccomp,
    worker,
)
from course.grading.sandbox import requests as asking
from course.grading.sandbox.confine import FIRST_USER, Limits
from course.grading.sandbox.context import GradingContext, open_context
from course.grading.sandbox.slots import Slots
from training.files.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = Limits(
    wall_s=20, quiet_s=10, total_mib=300, memory_mib=2048, file_mib=4, answer_mib=1, output_kib=1
)
needs_linux = pytest.mark.skipif(
    not seccomp.supported(), reason="no filter of system calls on this kind of machine"
)


@pytest.fixture
def run(slot):
    """A function that runs lines of Python in the sandbox, which has to be empty afterwards."""

    def run_lines(program: str, limits: Limits = SMALL, given: bytes = b""):
        confine = f"""
            import os, sys
            sys.path.insert(0, {str(ROOT)!r})
            from course.grading.sandbox.confine import Limits, Who, confine, confine_task
            print(*confine(Limits(**{vars(limits)!r}), Who({slot})), flush=True)
        """
        source = textwrap.dedent(confine) + textwrap.dedent(program)
        command = [sys.executable, "-I", "-B", "-c", source]
        ended = sandbox.run(command, given, [ROOT / "course"], limits, slot)
        assert not of_slot(slot)
        return ended

    return run_lines


def of_slot(slot: int) -> list[int]:
    """Processes of the slot's user, dead ones that nobody has noticed as well."""
    everything = processes.all_processes().items()
    return [n for n, one in everything if one.user == FIRST_USER + slot]


# ---------------------------------------------------------------------------------------------
# Limits and layers


@needs_sandbox
def test_answer_and_what_is_printed(run):
    ended = run(
        "sys.stdout.write(sys.stdin.read()); sys.stderr.write('x' * 5000 + 'end')", given=b"hi"
    )
    assert ended.status == "ended"
    assert ended.returncode == 0
    assert ended.answer.endswith(b"\nhi")
    assert len(ended.printed) == 1024
    assert ended.printed.endswith("xend")


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "limits", "status"),
    [
        ("import time; time.sleep(60)", {"wall_s": 2}, "timeout"),
        ("import time; time.sleep(60)", {"quiet_s": 2}, "timeout"),
        ("os.write(1, b'x' * 2**22)", {}, "too much output"),
        ("kept = b'x' * (500 * 2**20); import time; time.sleep(30)", {}, "too much memory"),
        (
            "os.fork(); os.fork(); kept = b'x' * 2**27; import time; time.sleep(30)",
            {},
            "too much memory",
        ),
    ],
)  # fmt: skip
def test_limits_of_all_together(run, program, limits, status):
    start = time.monotonic()
    ended = run(program, Limits(**{**vars(SMALL), **limits}))
    assert ended.status == status
    assert time.monotonic() - start < 15


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("bytearray(2**32)", "MemoryError"),
        ("open(os.environ['TMPDIR'] + '/big', 'wb').write(b'x' * 2**23)", "OSError"),
        ("[open('/dev/null') for _ in range(1000)]", "OSError"),
        ("for _ in range(100): os.fork() or signal.pause()", "BlockingIOError"),
        ("resource.setrlimit(resource.RLIMIT_NPROC, (-1, -1))", "ValueError"),
        ("open('/dev/shm/x', 'w')", "OSError" if isolation.best().namespaces else ""),
        ("os.setresuid(0, 0, 0)", "Error"),
        ("open('/etc/passwd', 'a')", "Error"),
    ],
)
def test_limits_of_one_process(run, program, error):
    ended = run(f"import resource, signal\n{program}")
    assert error in ended.printed
    assert (ended.returncode != 0) == bool(error)


@needs_sandbox
def test_sees_nothing_of_ours(run, slot, tmp_path):
    (tmp_path / "secret").write_text("gold")
    tmp_path.chmod(0o700)
    ended = run(
        f"""
        import json
        def readable(path):
            try:
                return open(path).read()
            except OSError:
                return ""
        found = sorted(os.environ), sorted(os.listdir("/proc/self/fd")), os.getuid()
        print(json.dumps([*found, readable({str(tmp_path / "secret")!r})]))
        """
    )
    names, descriptors, user, secret = json.loads(ended.answer.splitlines()[-1])
    assert set(names) <= {"PATH", "LANG", "LC_CTYPE", "OMP_NUM_THREADS", "HOME", "TMPDIR", "PWD"}
    assert len(descriptors) <= 4  # three, and the one that lists them
    assert secret == ""
    assert user == (FIRST_USER + slot if os.geteuid() == 0 else 65534)


@needs_sandbox
def test_a_folder_of_any_depth_is_no_trouble(run):
    ended = run(
        """
        os.chdir(os.environ["TMPDIR"])
        for _ in range(3000):
            os.mkdir("d" * 20)
            os.chdir("d" * 20)
        """
    )
    assert ended.status in ("ended", "too much on disk")


@needs_sandbox
def test_does_not_wait_for_who_holds_the_pipe(run):
    start = time.monotonic()
    ended = run(
        """
        import signal
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.pause()
            os._exit(0)
        os._exit(0)
        """
    )
    assert ended.status == "ended"
    assert time.monotonic() - start < 8


DAEMONS = """
    import signal
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            os.fork()
            signal.pause()
    os._exit(0)
"""
LAZY = """
    import ctypes, os, sys, time
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans come to this process
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        time.sleep(2)  # as process 1 of a container, it takes its time
        sys.exit()
    sys.path.insert(0, {root!r})
    from course.grading.sandbox import processes
    from course.grading.sandbox import sandbox
    from course.grading.sandbox.confine import FIRST_USER, Limits
    lines = [*{setup!r}, {program!r}]
    command = [sys.executable, "-I", "-B", "-c", chr(10).join(lines)]
    sandbox.run(command, b"", [], Limits(**{limits!r}), {slot})
    left = [one for one in processes.all_processes().values() if one.user == FIRST_USER + {slot}]
    print(len(left), flush=True)
    os._exit(0)
"""


@needs_sandbox
def test_nobody_is_left_where_process_1_is_lazy(slot):
    """The grader itself takes note of the end of orphans, whoever else would have to."""
    setup = ["import os, sys", f"sys.path.insert(0, {str(ROOT)!r})"]
    setup += ["from course.grading.sandbox.confine import Limits, Who, confine"]
    setup += [f"confine(Limits(**{vars(SMALL)!r}), Who({slot}))"]
    given = {"root": str(ROOT), "setup": setup, "program": textwrap.dedent(DAEMONS)}
    program = textwrap.dedent(LAZY).format(**given, limits=vars(SMALL), slot=slot)
    command = [sys.executable, "-I", "-B", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def test_a_sweep_that_does_not_end_is_said(monkeypatch):
    with subprocess.Popen(["sleep", "60"]) as process:
        known = {process.pid: processes.all_processes()[process.pid]}
        with monkeypatch.context() as patched:
            patched.setattr(processes, "_end", lambda number: None)
            with pytest.raises(RuntimeError, match=rf"\[{process.pid}\].*do not end within 0.2 s"):
                processes.sweep(999, known, seconds=0.2)
        processes.sweep(999, known)
        assert process.pid not in processes.all_processes()


@pytest.fixture
def python_in_a_home(monkeypatch):
    """Python's folder in a home, both of mode 0755, as root would find them."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        library = Path(name) / "home" / "python" / "lib"
        library.mkdir(parents=True)
        for folder in (library, *library.parents[:3]):
            folder.chmod(0o755)
        paths = dict.fromkeys(("stdlib", "platstdlib", "purelib", "platlib"), str(library))
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(isolation.sysconfig, "get_paths", lambda: paths)
        monkeypatch.setattr(isolation, "python_folders", lambda: iter([library.parent]))
        monkeypatch.setattr(isolation.tempfile, "gettempdir", lambda: "/tmp")
        yield library.parent


@pytest.mark.parametrize("bubblewrap", [False, True])
def test_a_python_that_others_cannot_enter_is_told(monkeypatch, python_in_a_home, bubblewrap):
    monkeypatch.setattr(isolation.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(isolation, "_can_bubblewrap", lambda: True)
    around = isolation.Bubblewrap() if bubblewrap else isolation.AnotherUser()
    assert around.problems() == []
    home = python_in_a_home.parent
    home.chmod(0o700)  # bubblewrap makes it anew, open to all
    assert (f"may not enter {home}, where Python" in str(around.problems())) != bubblewrap
    home.chmod(0o755)
    python_in_a_home.chmod(0o700)
    assert f"may not enter {python_in_a_home}, where Python" in str(around.problems())


def test_a_closed_folder_for_temporary_files_is_told(monkeypatch, python_in_a_home):
    monkeypatch.setattr(isolation.tempfile, "gettempdir", lambda: str(python_in_a_home))
    assert isolation.AnotherUser().problems() == []
    monkeypatch.setattr(isolation, "_closed_python", lambda *_: "")
    python_in_a_home.chmod(0o700)
    said = str(isolation.AnotherUser().problems())
    assert f"may not enter {python_in_a_home}: set TMPDIR" in said


def test_layers_are_those_of_this_machine(monkeypatch):
    assert any("bubblewrap" in layer for layer in isolation.layers(isolation.Bubblewrap()))
    assert any("podman" in layer for layer in isolation.layers(isolation.Podman()))
    alone = isolation.AnotherUser()
    assert not any("namespaces" in layer for layer in isolation.layers(alone))
    assert any("apt install bubblewrap" in line for line in isolation.table(alone))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "own user" not in isolation.layers(alone)
    assert any("no   own user" in line for line in isolation.table(alone))
    assert alone.wrapped(["python"], [], SMALL, 0) == ["python"]


def refused(*problems: str) -> object:
    return pytest.raises(InputError, match=".*".join(["nothing is graded: ", *problems]))


def test_all_refusals_at_once(monkeypatch, tmp_path):
    """An ordinary user without bubblewrap; a root that cannot become another user; no seccomp."""
    monkeypatch.setattr(isolation, "_can_filter", lambda: False)
    monkeypatch.setattr(seccomp, "supported", lambda: True)
    monkeypatch.setattr(isolation.shutil, "which", lambda name: None)
    around = isolation.Bubblewrap()
    with refused("bubblewrap is not installed: apt install", "no filter", "pip install not-there"):
        grade.refuse(around, [0], [tmp_path, None], ["not-there"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with refused(
        "apt install bubblewrap, or grade as root", "no filter", "could be read"
    ) as caught:
        grade.refuse(isolation.AnotherUser(), [0], [tmp_path], [])
    assert "\n" not in str(caught.value)


def test_a_root_that_cannot_become_another_user_is_told(monkeypatch, tmp_path):
    """Without CAP_SETUID, or in a user namespace of one user."""

    def refuse(command, **given):
        if "user" in given:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(isolation.subprocess, "run", refuse)
    uncached = isolation._can_be_another_user.__wrapped__
    monkeypatch.setattr(isolation, "_can_be_another_user", uncached)
    with refused("this root cannot become another user"):
        grade.refuse(isolation.AnotherUser(), [0], [tmp_path], [])


def test_a_user_whose_processes_another_grading_kills_is_one_all_the_same(monkeypatch):
    """Slot 0 may be another grading's, which cleans it while this one asks whether it could."""

    def killed(command, **given):
        return subprocess.CompletedProcess(command, -signal.SIGKILL)

    monkeypatch.setattr(isolation.subprocess, "run", killed)
    assert isolation._can_be_another_user.__wrapped__()  # what is cached here stays


def test_reaches_without_anything(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert isolation.AnotherUser().reaches(tmp_path)


def test_reaches_inside_bubblewrap(monkeypatch, tmp_path):
    reaches = isolation.Bubblewrap().reaches
    assert not reaches(tmp_path)
    assert reaches(Path("/usr/share/course/gold"))
    link = tmp_path / "gold"
    link.symlink_to("/usr/share")
    assert reaches(link)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert reaches(tmp_path / "gold-labels")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("mode", "reached"),
    [(0o700, False), (0o750, False), (0o755, True), (0o711, True), (0o704, True)],
)
def test_reaches_as_another_user(slot, mode, reached):
    folder = Path("/var/tmp") / f"reaches-{os.getpid()}"
    folder.mkdir()
    try:
        folder.chmod(mode)
        assert isolation.AnotherUser().reaches(folder, slot) == reached
    finally:
        folder.rmdir()


# ---------------------------------------------------------------------------------------------
# What is left, of submissions and of graders that were killed

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
needs_system_v = pytest.mark.skipif(
    not Path("/proc/sysvipc/msg").exists(), reason="this kernel has no System V queues"
)


def as_slot(slot: int, program: str, *arguments: str, **more) -> subprocess.Popen:
    """A program of the slot's user, outside of any sandbox: what a killed grader has left."""
    command = ["/usr/bin/python3", "-I", "-c", textwrap.dedent(program), *arguments]
    return subprocess.Popen(command, **processes.as_user(slot), **more)


def test_any_folder_is_removed(tmp_path):
    top = tmp_path / "top"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    top.mkdir()
    (top / "link").symlink_to(outside)
    (top / "hard").hardlink_to(outside / "kept")
    os.mkfifo(top / "pipe")
    for number in range(3):
        (top / f"wide-{number}" / "x" / "y").mkdir(parents=True)
        (top / f"wide-{number}" / "x" / "y" / "\udcff\n-rf").write_text("")
    here = os.getcwd()
    os.chdir(top)
    try:
        for _ in range(2500):  # deeper than Python goes, and longer than a path can be
            os.mkdir("d" * 20)
            os.chdir("d" * 20)
    finally:
        os.chdir(here)
    (top / ("d" * 20)).chmod(0)
    top.chmod(0)
    removal.remove(top)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    assert (outside / "kept").read_text() == "kept"
    removal.remove(top)  # nothing is there


@only_root
@needs_system_v
def test_a_slot_is_clean_before_it_is_used():
    """Of a grader that was killed: processes, files, queues, also where fewer slots are needed."""
    program = """
        import ctypes, os, sys, time
        os.mkdir("/var/tmp/left-by-test")
        os.mkdir("/var/tmp/left-by-test/closed", 0)
        os.chmod("/var/tmp/left-by-test", 0)
        libc = ctypes.CDLL(None)
        assert libc.msgget(0, 0o1666) >= 0 and libc.semget(0, 1, 0o1666) >= 0
        assert libc.shmget(0, 4096, 0o1666) >= 0
        print("ready", flush=True)
        time.sleep(60)
    """
    # Other tests grade beside this one: nobody has so many slots, nor cleans one that is held
    with Slots(20) as slots:
        *_, last = slots
        survivor = as_slot(last, program, stdout=subprocess.PIPE)
        assert survivor.stdout.readline() == b"ready\n"
        assert len([*leftovers.ipc_of(last)]) == 3
    with survivor, Slots(1) as slots:
        assert last not in slots
        deadline = time.monotonic() + 10
        while last in leftovers.slots_with_leftovers() and time.monotonic() < deadline:
            time.sleep(0.1)  # another's grader was first, and is cleaning it
        assert not of_slot(last)
        assert not [*leftovers.ipc_of(last)]
        assert not Path("/var/tmp/left-by-test").exists()


@only_root
def test_who_starts_another_and_ends_does_not_get_away(slot):
    program = """
        import os, time
        print("ready", flush=True)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
    """
    relay = as_slot(slot, program, stdout=subprocess.PIPE)
    assert relay.stdout.readline() == b"ready\n"
    relay.wait()
    processes.sweep(slot, seconds=10)
    time.sleep(0.2)
    assert not of_slot(slot)
    relay.stdout.close()


@only_root
def test_a_slot_that_cannot_be_cleaned_is_not_used_again(monkeypatch, capsys):
    kept = leftovers.clean

    def clean(slot):
        if slot == spoiled:
            raise OSError("/tmp/x cannot be removed")
        kept(slot)

    with Slots(1) as slots:
        with slots.one() as spoiled:
            monkeypatch.setattr(leftovers, "clean", clean)
        with slots.one() as other:
            assert other != spoiled
    assert "/tmp/x cannot be removed; another sandbox is used" in capsys.readouterr().err


def test_the_staff_s_files_are_for_one_batch(monkeypatch, tmp_path):
    """Nobody else may enter them, and those of a grader that was killed are removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(leftovers, "JUST_MADE_S", -1.0)
    stale = tmp_path / f"{leftovers.PREFIX}stale"
    (stale / "solution").mkdir(parents=True)
    with Slots(1):
        assert not stale.exists()
    with open_context(1, "0") as first, open_context(1, "0") as second:
        leftovers.remove_stale()
        assert first.stage.is_dir()  # it is in use
        for path in (first.stage, *second.stage.rglob("*")):
            assert not path.stat().st_mode & 0o007, path
        if os.geteuid() == 0:
            groups = {path.stat().st_gid for path in first.stage.rglob("*")}
            assert groups == {first.group}
            assert first.group not in (0, second.group)
            test = ["test", "-r", str(first.stage), "-o", "-x", str(first.stage)]
            assert subprocess.run(test, check=False, **processes.as_user(0)).returncode
    assert not [*tmp_path.iterdir()]


def test_a_program_whose_grader_is_gone_does_not_begin():
    """Killed while it starts, it would run its submission next to the first one of the next."""
    program = """
        import os, sys
        sys.path.insert(0, sys.argv[1])
        from course.grading.sandbox.confine import die_with
        die_with(int(sys.argv[2]))
        print("begins")
    """
    command = [sys.executable, "-I", "-c", textwrap.dedent(program), str(ROOT)]
    for parent, said in ((os.getpid(), "begins\n"), (1, "begins\n" if os.getpid() == 1 else "")):
        done = subprocess.run([*command, str(parent)], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (said, "")


@needs_sandbox
def test_asked_to_end_it_ends_its_sandboxes(slot, monkeypatch):
    monkeypatch.setattr(sandbox.STOP, "is_set", lambda: True)
    command = [sys.executable, "-I", "-c", "import time; time.sleep(60)"]
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sandbox.run(command, b"", [], SMALL, slot)
    assert time.monotonic() - start < 10
    assert not of_slot(slot)


@needs_sandbox
@pytest.mark.skipif(
    cgroups.parent() is None or not isolation.best().namespaces,
    reason="no control groups can be made here, or no folder in memory",
)
def test_the_kernel_counts_what_no_process_holds(run, slot):
    """Files in memory, as one example."""
    ended = run(
        """
        for number in range(40):
            with open(f"/tmp/{number}", "wb") as file:
                file.write(b"x" * 2**22)
        os.write(1, b"through")
        """,
        Limits(**{**vars(SMALL), "file_mib": 400, "total_mib": 100}),
    )
    assert b"through" not in ended.answer
    assert ended.status == "too much memory"
    assert not (cgroups.parent() / f"slot-{slot}").exists()


PODMAN = isolation.Podman()


@pytest.mark.skipif(bool(PODMAN.problems()), reason="; ".join(PODMAN.problems()))
def test_in_a_container_of_podman(slot):
    """The canaries come out as they must, and nothing of ours is in sight."""
    with open_context(1, "0", around=PODMAN) as given:
        canaries.check(given, [slot])
    program = """
        import json, os, sys
        said = sys.stdin.read()
        lists = [sorted(os.listdir(path)) for path in ("/", "/tmp", "/proc/self/fd")]
        print(json.dumps([said, *lists, sorted(os.environ), open("/proc/net/dev").read()]))
        try:
            open("/x", "w")
        except OSError as error:
            print(error.errno)
    """
    command = [sys.executable, "-I", "-B", "-c", textwrap.dedent(program)]
    ended = sandbox.run(command, b"hi", [], SMALL, slot, PODMAN)
    assert (ended.status, ended.printed) == ("ended", "")
    first, second = ended.answer.splitlines()
    said, top, temporary, descriptors, names, network = json.loads(first)
    above = Path(sys.prefix).relative_to("/")  # Python may lie in /tmp, as in CI's clone
    mounted = [above.parts[1]] if above.parts[0] == "tmp" else []
    assert (said, temporary, second) == ("hi", mounted, b"30")
    assert not {"home", "work", "var", "srv"} & set(top)
    assert len(descriptors) <= 4
    assert "TMPDIR" in names
    assert "eth" not in network
    start = time.monotonic()
    sleep = [sys.executable, "-I", "-c", "import time; time.sleep(60)"]
    quick = Limits(**{**vars(SMALL), "wall_s": 3})
    assert sandbox.run(sleep, b"", [], quick, slot, PODMAN).status == "timeout"
    assert time.monotonic() - start < 20
    there = subprocess.run(["podman", "ps", "-a", "--format", "{{.Names}}"], capture_output=True)
    assert f"grading-{slot}".encode() not in there.stdout


@only_root
def test_the_command_of_podman():
    line = " ".join(PODMAN.wrapped(["python", "x"], [Path("/stage")], SMALL, 7))
    for part in (
        "--network none",
        "--cap-drop all",
        "no-new-privileges",
        "--read-only",
        "--memory 300m",
        "--volume /stage:/stage:ro",
        "--tmpfs /tmp:size=4m",
        "--name grading-7",
    ):
        assert part in line
    assert line.endswith("python x")


# ---------------------------------------------------------------------------------------------
# Filters of system calls

ATTEMPTS = {
    "socket": "socket.socket()",
    "socketpair": "socket.socketpair()",
    "memfd_create": "os.memfd_create('x')",
    "unshare": "call(272, 0x10000000)",
    "clone": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "ptrace": "call(101, 0, 0, 0, 0)",
    "shmget": "call(29, 0, 4096, 0o1600)",
    "mq_open": "call(240, b'test', os.O_CREAT, 0o600, None), call(241, b'test')",
    "semop": "call(65, 0, None, 0)",
    "shared pages": "mmap.mmap(-1, 4096)",
    "huge pages": "mmap.mmap(-1, 2**21, flags=0x40022)",
    "old table": "call(0x40000000 | 41, 2, 1, 0)",
}
BY_A_TASK = {
    "kill": "os.kill(os.getppid(), 0)",
    "kill itself": "os.kill(os.getpid(), 0)",
    "tgkill": "call(234, os.getppid(), os.getppid(), 0)",
    "pidfd": "os.pidfd_open(os.getppid())",
    "prlimit": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "F_SETOWN": "fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "F_SETSIG": "fcntl.fcntl(0, 10, 9)",
    "FIOSETOWN": "fcntl.ioctl(0, 0x8901, struct.pack('i', os.getppid()))",
    "priority": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
}
ALLOWED = {
    "raise": "signal.raise_signal(0) if False else call(234, os.getpid(), os.getpid(), 0)",
    "getrlimit": "resource.getrlimit(resource.RLIMIT_CPU)",
    "fork": "os.fork() or os._exit(0)",
    "thread": "threading.Thread(target=print).start()",
    "nonblocking": "fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)",
    "pages": "mmap.mmap(-1, 4096, flags=0x22)",
    "run": "subprocess.run(['true'], check=True)",
}
TRIAL = """
import ctypes, fcntl, json, mmap, os, resource, signal, socket, struct, subprocess, sys, threading
sys.path.insert(0, {root!r})
from course.grading.sandbox import seccomp
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "call")
os.open("/dev/null", os.O_RDONLY)
assert {install}
said = {{}}
for name, attempt in {attempts!r}.items():
    try:
        exec(attempt)
        said[name] = 0
    except OSError as error:
        said[name] = error.errno
print(json.dumps(said))
"""


def tried(attempts: dict, install: str) -> dict[str, int]:
    """With what error each attempt ends in a new process, after some filters; 0: it succeeds."""
    program = TRIAL.format(root=str(ROOT), install=install, attempts=attempts)
    between = ["sh", "-c", '"$@"; exit $?', "sh"]  # the parent that they reach for, in our place
    command = [*between, sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, check=True)
    return json.loads(ended.stdout.splitlines()[-1])


@needs_linux
@pytest.mark.skipif("platform.machine() != 'x86_64'", reason="numbers of x86-64")
def test_what_the_filters_forbid():
    both = "seccomp.install() and seccomp.install(task_only=True)"
    assert tried(ATTEMPTS, "seccomp.install()") == dict.fromkeys(ATTEMPTS, errno.EPERM)
    assert tried(BY_A_TASK, both) == dict.fromkeys(BY_A_TASK, errno.EPERM)
    assert tried(ALLOWED, both) == dict.fromkeys(ALLOWED, 0)


@needs_linux
@pytest.mark.skipif("platform.machine() != 'x86_64'", reason="numbers of x86-64")
def test_it_is_the_filters_that_forbid():
    nice = os.nice(0)
    without = tried(ATTEMPTS | BY_A_TASK, "True")
    expected = {"socket", "socketpair", "memfd_create", "shmget", "mq_open", "shared pages"}
    expected |= {"kill", "tgkill", "F_SETOWN"}
    assert expected <= {name for name, error in without.items() if not error}
    only_first = tried(BY_A_TASK, "seccomp.install()")
    assert only_first["kill"] == 0  # the worker has to end its tasks
    assert os.nice(0) == nice  # these tests go on at their own priority


def test_filters_fit_into_the_kernel():
    for column, _ in seccomp.ARCHITECTURES.values():
        for code in (seccomp.for_all(column), seccomp.for_task(column, 1)):
            assert len(seccomp.assembled(code, 0)) // 8 < 4096
            assert all(max(yes, no) < 256 for _, yes, no, _ in code)


def test_fails_closed_without_a_filter(monkeypatch):
    monkeypatch.setattr(seccomp, "supported", lambda: True)
    monkeypatch.setattr(seccomp, "install", lambda **_: False)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    with pytest.raises(OSError, match="cannot be put in place"):
        confine.confine_task()


# ---------------------------------------------------------------------------------------------
# Frames: whatever bytes come, an answer or none


def test_frames_there_and_back():
    stream = io.BytesIO(worker.frame({"a": 1}, b"xyz") + worker.frame({"b": "ü"}))
    assert worker.read_frame(stream) == ({"a": 1}, b"xyz")
    assert worker.read_frame(stream) == ({"b": "ü"}, b"")
    assert worker.read_frame(stream) is None


@pytest.mark.parametrize(
    "bytes_",
    [
        b"",
        b"\x01\0\0",
        struct.pack("<II", 2, 0) + b"{",
        struct.pack("<II", 2, 9) + b"{}",
        struct.pack("<II", 2, 0) + b"[]",
        struct.pack("<II", 4, 0) + b"null",
        struct.pack("<II", 2, 0) + b"\xff\xff",
        struct.pack("<II", 200_000, 0) + b"[" * 200_000,
        struct.pack("<II", 2**32 - 1, 2**32 - 1) + b"{}",
        struct.pack("<II", 6000, 0) + b"1" * 6000,
    ],
)
def test_bytes_that_are_no_frame(bytes_):
    assert worker.read_frame(io.BytesIO(bytes_)) is None
    assert asking.frames_in(worker.frame({}) + bytes_) == [({}, b"")]


def test_a_text_too_long_is_not_read():
    long = worker.frame({"a": "x" * worker.MOST_TEXT})
    assert worker.read_frame(io.BytesIO(long))
    assert worker.read_frame(io.BytesIO(long), worker.MOST_TEXT) is None
    assert asking.frames_in(long) == []


RAN = {"status": "ran", "others": {}, "texts": {}}
FEW = save({"a": torch.ones(2)})


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ({}, FEW),
        ({"status": ["ran"]}, FEW),
        ({"status": {"ran": 1}}, FEW),
        ({"status": "right"}, FEW),
        ({"status": "ran"}, FEW),
        ({**RAN, "others": []}, FEW),
        ({**RAN, "texts": "x"}, FEW),
        (RAN, b""),
        (RAN, b"\x08\0\0\0\0\0\0\0{}      "[:9]),
        (RAN, struct.pack("<Q", 2**63) + FEW[8:]),
        (RAN, FEW[:-1]),
        (RAN, FEW.replace(b"F32", b"F99")),
        (RAN, FEW.replace(b"[2]", b"[3]")),
        (RAN, save({str(i): torch.ones(1) for i in range(20_000)})),
        (RAN, save({"a": torch.zeros(worker.BIGGEST + 1, dtype=torch.bool)})),
    ],
)
def test_answers_that_are_none(said, content):
    assert asking.decode(said, content).status == "invalid answer"


def test_decoded_answer():
    said = {"status": "ran", "others": {"b": "NoneType", "c": "a\0b", "d": "\ud800", "e": ["x"]}}
    said["texts"] = {"t": "half \ud800", "n": 7}
    found = asking.decode(said, save({"a": torch.ones(2), "z": torch.zeros(1, dtype=torch.cfloat)}))
    assert found.status == "ran"
    assert found.outputs["a"].tolist() == [1, 1]
    assert found.outputs["b"] is None
    assert not isinstance(found.outputs["z"], torch.Tensor)
    assert {type(found.outputs[name]).__name__ for name in "cde"} == {"object"}
    assert found.outputs["t"] == "half ?"
    assert found.outputs["n"] == "7"
    assert asking.decode({"status": "memory"}, b"").status == "memory"


def test_result_files_that_are_none(tmp_path):
    assert worker.left_behind(tmp_path / "missing") is None
    (tmp_path / "file").write_bytes(worker.frame({"a": 1}))
    assert worker.left_behind(tmp_path / "file") == ({"a": 1}, b"")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert worker.left_behind(tmp_path / "link") is None
    os.mkfifo(tmp_path / "pipe")
    assert worker.left_behind(tmp_path / "pipe") is None
    (tmp_path / "folder").mkdir()
    assert worker.left_behind(tmp_path / "folder") is None


def test_encoded_outputs():
    class Own(torch.Tensor):
        pass

    outputs = {
        "right": torch.ones(2, requires_grad=True),
        "own": torch.zeros(3).as_subclass(Own),
        "stretched": torch.zeros(1).expand(worker.BIGGEST + 1),
        "sparse": torch.ones(2).to_sparse(),
        "complex": torch.zeros(1, dtype=torch.cfloat),
        "none": None,
        "text": "x" * 9999,
    }
    said, content = worker.encode(outputs, save)
    assert said["others"] == {
        "stretched": "UnusualTensor",
        "sparse": "UnusualTensor",
        "complex": "UnusualTensor",
        "none": "NoneType",
    }
    assert len(said["texts"]["text"]) == 2000
    decoded = asking.decode(said, content).outputs
    assert {type(decoded[name]) for name in ("right", "own")} == {torch.Tensor}


# ---------------------------------------------------------------------------------------------
# The judge takes whatever an answer holds


def strange(tensor, chance):
    """Something that is not what it should be."""
    some = [
        None, "text", asking.stand_in("weird"), torch.tensor(1.0), torch.tensor(True),
        torch.zeros(0), torch.ones(3, 0), torch.tensor([1, 2, 3]), torch.full((2, 2), torch.nan),
        torch.full((1,), torch.inf, dtype=torch.float16), torch.zeros([1] * 30),
        torch.tensor(-128, dtype=torch.int8),
    ]  # fmt: skip
    if isinstance(tensor, torch.Tensor):
        some += [tensor.bool(), tensor.long(), tensor.half() * torch.nan, tensor[None]]
        some += [tensor.flatten(), tensor.flatten()[:1], tensor.expand(2, *tensor.shape)]
    return chance.choice(some)


@pytest.mark.parametrize("entry", [t for t in GRADED_TASKS if t.part == 1], ids=lambda t: t.id)
def test_no_answer_is_an_error_of_ours(entry):
    chance, seed = random.Random(entry.id), 5
    sets = hidden.make(seed)
    expected = hidden.trajectories(hidden.make_cases(seed), seed % part1.PERIOD)
    tensors = {f"{n}/{k}": t for n, s in sets.items() for k, t in s.inputs.items()}
    public = part1.public_inputs()
    tensors |= {f"{judge.PUBLIC}/{k}": t for k, t in public.items()}
    context = GradingContext(
        1, {}, (entry,), "secret", Path(), Limits(), 20.0, isolation.AnotherUser(), 0
    )
    (job,) = part1.jobs_for(context, Submission("x", 1, {entry.file: b""}), seed)
    is_optimizer = entry.id == part1.OPTIMIZER
    honest = (runs.optimizer if is_optimizer else runs.part_1)(tensors, **job["arguments"])

    def judged(outputs):
        if is_optimizer:
            return judge.judge_optimizer(entry, outputs, expected)
        return judge.judge_part_1(entry, outputs, sets, {})

    assert judged(honest).status == "right"
    assert not any(judged({}).rows.values())
    for round_ in range(60):
        outputs = dict(honest)
        for name in chance.sample(sorted(outputs), 1 if round_ % 2 else len(outputs) // 2 + 1):
            outputs[name] = strange(outputs[name], chance)
        name = chance.choice(sorted(honest)).split("|")[0]
        for key in chance.sample(["error", "error kind", "error slight", "padding/x", ""], 2):
            outputs[f"{name}|{key}"] = strange(None, chance)
        verdict = judged(outputs)
        assert verdict.rows.keys() == set(judge.rows_of(entry))
        json.dumps(verdict.messages)


def test_numbers_where_tables_are_due():
    entry = next(t for t in GRADED_TASKS if t.id == "classifier.init")
    sets = hidden.make(5)
    prefix = f"{entry.id}/"
    right = {n: t for n, t in sets[hidden.TOGETHER].expected.items() if n.startswith(prefix)}
    flat = {
        f"{hidden.TOGETHER} {dtype}|{name.removeprefix(prefix)}": tensor.flatten()[0]
        for name, tensor in right.items()
        for dtype in judge.DTYPES
    }
    verdict = judge.judge_part_1(entry, flat, sets, {})
    assert verdict.rows == {"values": False}
    assert verdict.messages == [judge.LACKING["invalid answer"]]


def test_an_optimizer_that_does_nothing_has_no_row():
    entry = next(t for t in GRADED_TASKS if t.id == part1.OPTIMIZER)
    expected = hidden.trajectories(hidden.make_cases(5), 5)
    idle = {f"hidden|{n}": torch.zeros_like(t) for n, t in expected["after"].items()}
    idle["hidden|gradient"] = expected["after"]["gradient"]
    assert not any(judge.judge_optimizer(entry, idle, expected).rows.values())


def test_a_padding_that_is_nan_is_wrong():
    entry = next(t for t in GRADED_TASKS if t.id == "bert.attention")
    sets = hidden.make(5)
    one_set = sets[hidden.TOGETHER]
    right = {
        f"{hidden.TOGETHER} {dtype}|{name.removeprefix('bert.attention/')}": tensor
        for dtype, kind in judge.DTYPES.items()
        for name, tensor in references.in_dtype(one_set.expected, kind).items()
        if name.startswith("bert.attention/")
    }
    assert judge.judge_part_1(entry, right, sets, {}).status == "right"
    name = f"{hidden.TOGETHER} float64|padding/context"
    verdict = judge.judge_part_1(entry, right | {name: right[name] * torch.nan}, sets, {})
    assert [row for row, good in verdict.rows.items() if not good] == ["padding"]


# ---------------------------------------------------------------------------------------------
# The worker


FILLS = """
import tempfile, time
open(tempfile.gettempdir() + "/x", "wb").write(b"x" * 2**26)
time.sleep(1)  # where the folder is on a disk, its size is looked at now and then
"""
LEAVES = """
import os, tempfile
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            open(tempfile.gettempdir() + "/alive", "w").close()
        except OSError:
            pass
"""
GOOD = """
import os, tempfile, time
time.sleep(0.3)
class AdamW:
    def __init__(self, *_, **__):
        raise ValueError(f"found {os.listdir(tempfile.gettempdir())}")
    def step(self, closure=None):
        pass
"""


@needs_sandbox
def test_one_task_does_not_harm_the_next(slot):
    """Worker and judge together: tasks that kill, stop and fill, then an honest one."""
    files = {
        "kill": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
        "stop": "import signal\nsignal.raise_signal(signal.SIGSTOP)",
        "fill": FILLS,
        "leave": LEAVES,
        "good": GOOD,
    }
    jobs = [
        {
            "name": name,
            "run": "course.grading.sandbox.runs:optimizer",
            "arguments": {"cases": [], "seed": 0},
            "files": {"optimizer.py": text},
            "folders": [],
            "seconds": 3,
        }
        for name, text in files.items()
    ]
    with open_context(1, "secret") as context:
        answers, layers = asking.ask(context, jobs, {"t": torch.ones(2)}, slot)
    assert {name: answers[name].status for name in files} == {
        "kill": "ran", "stop": "timeout", "fill": "crashed", "leave": "ran", "good": "ran",
    }  # fmt: skip
    said = str(answers["good"].outputs)
    assert "found [" in said
    assert "alive" not in said
    assert set(isolation.layers(isolation.best())) <= set(layers)


@needs_sandbox
def test_only_packages_that_the_course_allows_are_found(slot):
    job = {
        "name": "imports",
        "run": "course.grading.sandbox.runs:optimizer",
        "arguments": {"cases": [], "seed": 0},
        "files": {
            "optimizer.py": "import iniconfig\nraise Exception('found ' + iniconfig.__name__)"
        },
        "folders": [],
        "seconds": 10,
    }
    with open_context(1, "secret") as context:
        for allowed, word in (
            ([], "No module named 'iniconfig'"),
            (["iniconfig"], "found iniconfig"),
        ):
            settings = {**context.settings, "sandbox": {"packages": allowed}}
            answers, _ = asking.ask(replace(context, settings=settings), [job], {}, slot)
            assert word in str(answers["imports"].outputs)


def test_attacks_are_text():
    """Importing an attack runs nothing of it, wherever the tests are collected."""
    before = os.times(), signal.getsignal(signal.SIGTERM), dict(os.environ)
    for name in attacks.names():
        attacks.read(name)
    assert (signal.getsignal(signal.SIGTERM), dict(os.environ)) == before[1:]
