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
from pathlib import Path

import pytest
import torch
from conftest import needs_sandbox
from safetensors.torch import save

from checks.graded_tasks import GRADED_TASKS
from checks.part1 import functions
from course import attacks
from course.grading import asking, hidden, judge, part1, runs, sandbox, seccomp, worker
from course.grading.context import GradingContext, open_context
from course.grading.types import Submission

ROOT = Path(__file__).resolve().parent.parent
SMALL = sandbox.Limits(
    wall_s=20, quiet_s=10, total_mib=300, memory_mib=2048, file_mib=4, answer_mib=1, output_kib=1
)
needs_linux = pytest.mark.skipif(
    not seccomp.supported(), reason="no filter of system calls on this kind of machine"
)


@pytest.fixture
def run(slot):
    """A function that runs lines of Python in the sandbox, which has to be empty afterwards."""

    def run_lines(program: str, limits: sandbox.Limits = SMALL, given: bytes = b""):
        confine = f"""
            import os, sys
            sys.path.insert(0, {str(ROOT)!r})
            from course.grading.sandbox import Limits, confine, confine_task
            print(*confine(Limits(**{vars(limits)!r}), {slot}), flush=True)
        """
        source = textwrap.dedent(confine) + textwrap.dedent(program)
        command = [sys.executable, "-I", "-B", "-c", source]
        ended = sandbox.run(command, given, [ROOT / "course"], limits, slot)
        assert not of_slot(slot)
        return ended

    return run_lines


def of_slot(slot: int) -> list[int]:
    """Processes of the slot's user, dead ones that nobody has noticed as well."""
    everything = sandbox._processes().items()
    return [n for n, one in everything if one.user == sandbox.FIRST_USER + slot]


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
    ended = run(program, sandbox.Limits(**{**vars(SMALL), **limits}))
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
        ("open('/dev/shm/x', 'w')", "OSError" if sandbox.has_bubblewrap() else ""),
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
    assert user == (sandbox.FIRST_USER + slot if os.geteuid() == 0 else 65534)


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
    from course.grading import sandbox
    lines = [*{setup!r}, {program!r}]
    command = [sys.executable, "-I", "-B", "-c", chr(10).join(lines)]
    sandbox.run(command, b"", [], sandbox.Limits(**{limits!r}), {slot})
    left = [one for one in sandbox._processes().values() if one.user == sandbox.FIRST_USER + {slot}]
    print(len(left), flush=True)
    os._exit(0)
"""


@needs_sandbox
def test_nobody_is_left_where_process_1_is_lazy(slot):
    """The grader itself takes note of the end of orphans, whoever else would have to."""
    setup = ["import os, sys", f"sys.path.insert(0, {str(ROOT)!r})"]
    setup += ["from course.grading.sandbox import Limits, confine"]
    setup += [f"confine(Limits(**{vars(SMALL)!r}), {slot})"]
    given = {"root": str(ROOT), "setup": setup, "program": textwrap.dedent(DAEMONS)}
    program = textwrap.dedent(LAZY).format(**given, limits=vars(SMALL), slot=slot)
    command = [sys.executable, "-I", "-B", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def test_a_sweep_that_does_not_end_is_said(monkeypatch):
    with subprocess.Popen(["sleep", "60"]) as process:
        known = {process.pid: sandbox._processes()[process.pid]}
        with monkeypatch.context() as patched:
            patched.setattr(sandbox, "_end", lambda number: None)
            with pytest.raises(RuntimeError, match=rf"\[{process.pid}\].*do not end within 0.2 s"):
                sandbox.sweep(999, known, seconds=0.2)
        sandbox.sweep(999, known)
        assert process.pid not in sandbox._processes()


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
        monkeypatch.setattr(sandbox.sysconfig, "get_paths", lambda: paths)
        monkeypatch.setattr(sandbox, "_python_folders", lambda: iter([library.parent]))
        monkeypatch.setattr(sandbox.tempfile, "gettempdir", lambda: "/tmp")
        yield library.parent


@pytest.mark.parametrize("bubblewrap", [False, True])
def test_a_python_that_others_cannot_enter_is_told(monkeypatch, python_in_a_home, bubblewrap):
    monkeypatch.setattr(sandbox, "has_bubblewrap", lambda: bubblewrap)
    assert sandbox.unfit() == ""
    home = python_in_a_home.parent
    home.chmod(0o700)  # bubblewrap makes it anew, open to all
    assert (f"may not enter {home}, where Python" in sandbox.unfit()) != bubblewrap
    home.chmod(0o755)
    python_in_a_home.chmod(0o700)
    assert f"may not enter {python_in_a_home}, where Python" in sandbox.unfit()


def test_a_closed_folder_for_temporary_files_is_told(monkeypatch, python_in_a_home):
    monkeypatch.setattr(sandbox, "has_bubblewrap", lambda: False)
    monkeypatch.setattr(sandbox.tempfile, "gettempdir", lambda: str(python_in_a_home))
    assert sandbox.unfit() == ""
    monkeypatch.setattr(sandbox, "_python_closed", lambda: "")
    python_in_a_home.chmod(0o700)
    assert f"may not enter {python_in_a_home}: set TMPDIR" in sandbox.unfit()


def test_layers_are_those_of_this_machine(monkeypatch):
    monkeypatch.setattr(sandbox, "has_bubblewrap", lambda: True)
    assert any("bubblewrap" in layer for layer in sandbox.layers())
    assert sandbox.alone()
    monkeypatch.setattr(sandbox, "has_bubblewrap", lambda: False)
    assert not any("bubblewrap" in layer for layer in sandbox.layers())
    assert sandbox.alone() == (os.geteuid() == 0)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not sandbox.alone()
    assert "own user" not in sandbox.layers()
    assert sandbox.wrapped(["python"], [], SMALL) == ["python"]


def test_reaches_without_anything(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "has_bubblewrap", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert sandbox.reaches(tmp_path)


def test_reaches_inside_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "has_bubblewrap", lambda: True)
    assert not sandbox.reaches(tmp_path)
    assert sandbox.reaches(Path("/usr/share/course/gold"))
    link = tmp_path / "gold"
    link.symlink_to("/usr/share")
    assert sandbox.reaches(link)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert sandbox.reaches(tmp_path / "gold-labels")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("mode", "reached"),
    [(0o700, False), (0o750, False), (0o755, True), (0o711, True), (0o704, True)],
)
def test_reaches_as_another_user(monkeypatch, slot, mode, reached):
    monkeypatch.setattr(sandbox, "has_bubblewrap", lambda: False)
    folder = Path("/var/tmp") / f"reaches-{os.getpid()}"
    folder.mkdir()
    try:
        folder.chmod(mode)
        assert sandbox.reaches(folder, slot) == reached
    finally:
        folder.rmdir()


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
    "run": "subprocess.run(['true'], check=True)",
}
TRIAL = """
import ctypes, fcntl, json, os, resource, signal, socket, struct, subprocess, sys, threading
sys.path.insert(0, {root!r})
from course.grading import seccomp
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
    expected = {"socket", "socketpair", "memfd_create", "shmget", "kill", "tgkill", "F_SETOWN"}
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
        sandbox.confine_task()


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
    context = GradingContext(1, {}, (entry,), "secret", Path())
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
        for name, tensor in functions.in_dtype(one_set.expected, kind).items()
        if name.startswith("bert.attention/")
    }
    assert judge.judge_part_1(entry, right, sets, {}).status == "right"
    name = f"{hidden.TOGETHER} float64|padding/context"
    verdict = judge.judge_part_1(entry, right | {name: right[name] * torch.nan}, sets, {})
    assert [row for row, good in verdict.rows.items() if not good] == ["padding"]


# ---------------------------------------------------------------------------------------------
# The worker


LEAVES = """
import os
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            open(os.environ["TMPDIR"] + "/alive", "w").close()
        except OSError:
            pass
"""
GOOD = """
import os, time
time.sleep(0.3)
found = os.listdir(os.environ["TMPDIR"])
def answer(tensors):
    return {"a": tensors["t"] + 1, "found": " ".join(found)}
"""


@needs_sandbox
def test_one_task_does_not_harm_the_next(slot):
    """Worker and judge together: tasks that kill, stop and fill, then an honest one."""
    files = {
        "kill": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
        "stop": "import signal\nsignal.raise_signal(signal.SIGSTOP)",
        "fill": "import os\nopen(os.environ['TMPDIR'] + '/x', 'wb').write(b'x' * 2**26)",
        "leave": LEAVES,
        "good": GOOD,
    }
    jobs = [
        {"name": name, "run": "student:answer", "arguments": {}, "files": {"student.py": text},
         "folders": [], "seconds": 3}
        for name, text in files.items()
    ]  # fmt: skip
    with open_context(1, "secret") as context:
        answers, layers = asking.ask(context, jobs, {"t": torch.ones(2)}, slot)
    assert {name: answers[name].status for name in files} == {
        "kill": "crashed", "stop": "timeout", "fill": "crashed", "leave": "crashed", "good": "ran",
    }  # fmt: skip
    assert answers["good"].outputs["a"].tolist() == [2, 2]
    assert "alive" not in answers["good"].outputs["found"].split()
    assert set(sandbox.layers()) <= set(layers)


def test_attacks_are_text():
    """Importing an attack runs nothing of it, wherever the tests are collected."""
    before = os.times(), signal.getsignal(signal.SIGTERM), dict(os.environ)
    for name in attacks.names():
        attacks.read(name)
    assert (signal.getsignal(signal.SIGTERM), dict(os.environ)) == before[1:]
