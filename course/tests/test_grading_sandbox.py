"""The sandbox: what is around a program (isolation.py, sandbox.py), what it gives up (confine.py,
confine.py), and what reads its answers (protocol.py, worker.py).
"""

import errno
import json
import os
import random
import shutil
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
from course import grade
from course.grading.judging import hidden, judge, part1
from course.grading.judging.types import Submission
from course.grading.sandbox import confine, isolation, protocol, runs, sandbox, worker
from course.grading.sandbox.confine import Limits
from course.grading.sandbox.context import GradingContext, open_context
from training.files.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = Limits(
    wall_s=20, quiet_s=10, total_mib=300, memory_mib=2048, file_mib=4, answer_mib=1, output_kib=1
)
PODMAN = isolation.Podman()
KINDS = [
    isolation.Bubblewrap(),
    pytest.param(
        PODMAN, marks=pytest.mark.skipif(not shutil.which("podman"), reason=PODMAN.install)
    ),
]
CONFINED = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from course.grading.sandbox.confine import Limits, confine
confine(Limits(**{vars(SMALL)!r}))
"""


def run(program: str, kind: isolation.Isolation | None = None, request: bytes = b"", **limits):
    """Run lines of Python, confined, in a sandbox."""
    command = [sys.executable, "-I", "-B", "-c", CONFINED + textwrap.dedent(program)]
    return sandbox.run(command, request, [ROOT / "course"], replace(SMALL, **limits), kind)


def running(mark: str) -> list[int]:
    """Processes of this machine whose arguments hold a mark, but those that have ended."""
    numbers = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "cmdline").read_bytes():
                numbers.append(int(entry.name))
        except OSError:
            continue
    return numbers


def assert_gone(mark: str) -> None:
    """The kernel ends the processes of a namespace after its first one, which takes a moment."""
    end = time.monotonic() + 10
    while running(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert running(mark) == []


# ---------------------------------------------------------------------------------------------
# What is around a program


@needs_sandbox
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_a_program_sees(kind, tmp_path):
    """Its input and Python; no file, process, descriptor, variable or network of ours."""
    (tmp_path / "secret").write_text("gold")
    ended = run(
        f"""
        import json
        from pathlib import Path
        places = ("/", "/tmp", "/proc/self/fd")
        secret = Path({str(tmp_path / "secret")!r}).exists()
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
        network = Path("/proc/net/dev").read_text()
        lists = [sorted(os.listdir(place)) for place in places]
        print(json.dumps([sys.stdin.read(), secret, os.getuid(), processes, network, *lists]))
        print(json.dumps(sorted(os.environ)))
        sys.stderr.write("x" * 5000 + "end")
        """,
        kind,
        b"hi",
    )
    assert (ended.status, ended.returncode) == ("ended", 0), ended.printed
    first, second = ended.answer.splitlines()
    given, secret, user, processes, network, top, temporary, descriptors = json.loads(first)
    assert (given, secret, processes) == ("hi", False, ["1"])
    assert user not in (0, os.getuid())
    assert "eth" not in network
    shown = [ROOT, *isolation.python_folders()]
    assert not {"home", "work", "var", "srv", "root"} & {*top} - {path.parts[1] for path in shown}
    assert {*temporary} <= {path.parts[2] for path in shown if path.is_relative_to("/tmp")}
    assert len(descriptors) <= 4  # three, and the one that lists them
    known = {"PATH", "LANG", "LC_CTYPE", "OMP_NUM_THREADS", "HOME", "TMPDIR", "PWD"}
    assert {*json.loads(second)} - {"HOSTNAME", "container", "TERM"} <= known
    assert len(ended.printed) == 1024
    assert ended.printed.endswith("xend")


@needs_sandbox
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("program", "limits", "status"),
    [
        ("time.sleep(60)", {"wall_s": 2}, "timeout"),
        ("time.sleep(60)", {"quiet_s": 2}, "timeout"),
        ("os.write(1, b'x' * 2**22)", {}, "too much output"),
        ("os.fork() or os.setsid() and os.fork() or signal.pause()", {}, "ended"),
    ],
)
def test_limits_from_outside(kind, program, limits, status):
    """Whatever a program has started is dead afterwards; nobody waits for who holds a pipe."""
    mark, start = f"mark {random.random()}", time.monotonic()
    assert run(f"import signal, time  # {mark}\n{program}", kind, **limits).status == status
    assert time.monotonic() - start < 15
    assert_gone(mark)


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("bytearray(2**32)", "MemoryError"),
        ("open('/tmp/big', 'wb').write(b'x' * 2**23)", "OSError"),
        (
            "[open(f'/tmp/{n}', 'wb', 0).write(b'x' * 2**20) for n in range(9)] == [2**20] * 9 "
            "and sys.exit(0)\nraise OSError",
            "OSError",
        ),
        ("for _ in range(100): os.fork() or signal.pause()", "BlockingIOError"),
        ("resource.setrlimit(resource.RLIMIT_NPROC, (-1, -1))", "ValueError"),
        ("open('/dev/shm/x', 'w')", "OSError"),
        ("os.setresuid(0, 0, 0)", "Error"),
        ("print('nothing of it')", ""),
    ],
)
def test_limits_of_a_process(program, error):
    ended = run(f"import resource, signal\n{program}")
    assert error in ended.printed
    assert (ended.returncode != 0) == bool(error)


def test_the_stage_is_closed_to_other_users_and_open_inside():
    before = os.umask(0o077)
    try:
        with open_context(1, "0") as context:
            assert context.stage.parent.stat().st_mode & 0o077 == 0
            modes = {path.is_dir(): path.stat().st_mode for path in context.stage.rglob("*")}
    finally:
        os.umask(before)
    assert [modes[kind] & 0o777 for kind in (True, False)] == [0o755, 0o644]
    assert not context.stage.parent.exists()


# ---------------------------------------------------------------------------------------------
# When it refuses


def test_all_refusals_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(isolation.shutil, "which", lambda name: None)
    monkeypatch.setattr(confine, "LIBRARY", "not-there.so")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(InputError, match="nothing is graded: ") as caught:
        grade.refuse(isolation.Bubblewrap(), [tmp_path / "gold", None], ["not-there"])
    for reason in (
        "bubblewrap is not installed: apt install bubblewrap",
        "apt install libseccomp2",
        f"{tmp_path}/gold could be read",
        "pip install not-there",
    ):
        assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_sandbox
def test_other_machines_are_refused(monkeypatch):
    """As where a home of mode 0700 keeps the sandbox's user from Python."""
    monkeypatch.setattr(isolation, "PROBE", "import not_there")
    with pytest.raises(InputError, match=r"cannot run Python here .*No module named 'not_there'"):
        grade.refuse(isolation.Bubblewrap(), [], [])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match="--isolation podman is for root"):
        grade.refuse(PODMAN, [], [])


def test_what_submitted_code_reaches(monkeypatch, tmp_path):
    reaches = isolation.Bubblewrap().reaches
    assert not reaches(tmp_path)
    (tmp_path / "gold").symlink_to("/usr/share")
    assert reaches(tmp_path / "gold")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert reaches(tmp_path / "gold-labels")
    if os.geteuid() == 0:  # who may become another user
        for mode, reached in ((0o750, False), (0o711, True)):
            with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
                Path(folder).chmod(mode)
                assert isolation.ChangeOfUser().reaches(Path(folder)) == reached


# ---------------------------------------------------------------------------------------------
# Filters of system calls

ATTEMPTS = {
    "socket": "socket.socket()",
    "socketpair": "socket.socketpair()",
    "memfd_create": "os.memfd_create('x')",
    "unshare": "called(libc.unshare(0x10000000))",
    "clone": "called(libc.clone(begin, stack, 0x10000000 | 17, None))",
    "ptrace": "called(libc.ptrace(0, 0, 0, 0))",
    "shmget": "called(libc.shmget(0, 4096, 0o1600))",
    "shared pages": "mmap.mmap(-1, 4096)",
    "huge pages": "mmap.mmap(-1, 2**21, flags=0x40022)",
}
ALLOWED = {
    "fork": "os.fork() or os._exit(0)",
    "thread": "threading.Thread(target=print).start()",
    "pages": "mmap.mmap(-1, 4096, flags=0x22)",
    "run": "subprocess.run(['true'], check=True)",
}
TRIAL = """
import ctypes, json, mmap, os, socket, subprocess, sys, threading
sys.path.insert(0, {root!r})
from course.grading.sandbox import confine
libc = ctypes.CDLL(None, use_errno=True)
begin = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
stack = ctypes.c_void_p(ctypes.addressof(ctypes.create_string_buffer(2**16)) + 2**15)
def called(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "call")
{forbid}
errors = {{}}
for name, attempt in {attempts!r}.items():
    try:
        exec(attempt)
        errors[name] = 0
    except OSError as error:
        errors[name] = error.errno
print(json.dumps(errors))
"""


def tried(attempts: dict, forbid: str = "confine.forbid()") -> dict[str, int]:
    """With what error each attempt ends in a new process; 0: it succeeds."""
    program = TRIAL.format(root=str(ROOT), forbid=forbid, attempts=attempts)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.skipif(bool(confine.problems()), reason="; ".join(confine.problems()))
def test_what_the_filter_forbids():
    assert tried(ATTEMPTS) == dict.fromkeys(ATTEMPTS, errno.EPERM)
    assert tried(ALLOWED) == dict.fromkeys(ALLOWED, 0)
    without = tried(ATTEMPTS, "")
    expected = {"socket", "socketpair", "memfd_create", "shmget", "shared pages"}
    assert expected <= {name for name, error in without.items() if not error}


def test_nothing_runs_without_a_filter(monkeypatch):
    class NoLibrary:
        seccomp_init = seccomp_resolve = lambda *_: 0

        def __getattr__(self, name):
            return lambda *_: -errno.EINVAL

    NoLibrary.seccomp_init = type("Init", (), {"__call__": lambda *_: 1})()
    monkeypatch.setattr(confine.ctypes, "CDLL", lambda name: NoLibrary())
    with pytest.raises(OSError, match="no rule for socket"):
        confine.forbid()


# ---------------------------------------------------------------------------------------------
# Frames: whatever bytes come, an answer or none


@pytest.mark.parametrize(
    "bytes_",
    [
        b"",
        b"\x01\0\0",
        struct.pack("<II", 2, 9) + b"{}",
        struct.pack("<II", 2, 0) + b"[]",
        struct.pack("<II", 2, 0) + b"\xff\xff",
        struct.pack("<II", 200_000, 0) + b"[" * 200_000,
        struct.pack("<II", 2**32 - 1, 2**32 - 1) + b"{}",
        worker.frame({"a": "x" * worker.MOST_TEXT}),
    ],
)
def test_frames_and_bytes_that_are_not_one(bytes_):
    frames = worker.frame({"a": 1}, b"xyz") + worker.frame({"b": "ü"})
    assert protocol.frames_in(frames + bytes_) == [({"a": 1}, b"xyz"), ({"b": "ü"}, b"")]


RAN = {"status": "ran", "others": {}, "texts": {}}
FEW = save({"a": torch.ones(2)})


@pytest.mark.parametrize(
    ("header", "content"),
    [
        ({"status": ["ran"]}, FEW),
        ({"status": "right"}, FEW),
        ({"status": "ran"}, FEW),
        ({**RAN, "others": []}, FEW),
        (RAN, b""),
        (RAN, b"\x08\0\0\0\0\0\0\0{}      "[:9]),
        (RAN, struct.pack("<Q", 2**63) + FEW[8:]),
        (RAN, FEW[:-1]),
        (RAN, FEW.replace(b"[2]", b"[3]")),
        (RAN, save({str(i): torch.ones(1) for i in range(20_000)})),
        (RAN, save({"a": torch.zeros(worker.MOST_NUMBERS + 1, dtype=torch.bool)})),
    ],
)
def test_frames_that_are_not_an_answer(header, content):
    assert protocol.decode(header, content).status == "invalid answer"


def test_encoded_and_decoded_outputs():
    tensors = {
        "ones": torch.ones(2, requires_grad=True),
        "stretched": torch.zeros(1).expand(worker.MOST_NUMBERS + 1),
        "sparse": torch.ones(2).to_sparse(),
        "complex": torch.zeros(1, dtype=torch.cfloat),
    }
    header, content = worker.encode({**tensors, "none": None, "text": "x" * 9999}, save)
    outputs = protocol.decode(header, content).outputs
    assert outputs["ones"].tolist() == [1, 1]
    assert outputs["none"] is None
    assert outputs["text"] == "x" * 2000
    kinds = {type(outputs[name]).__name__ for name in ("stretched", "sparse", "complex")}
    assert kinds == {"UnusualTensor"}
    forged = {"status": "ran", "others": {"c": "a\0b", "e": ["x"]}, "texts": {"t": "half \ud800"}}
    outputs = protocol.decode(forged, save({"z": torch.zeros(1, dtype=torch.cfloat)})).outputs
    assert not isinstance(outputs["z"], torch.Tensor)
    assert {type(outputs[name]).__name__ for name in "ce"} == {"object"}
    assert outputs["t"] == "half ?"
    assert protocol.decode({"status": "memory"}, b"").status == "memory"


# ---------------------------------------------------------------------------------------------
# The judge takes whatever an answer holds


def strange(tensor, chance):
    """Something that is not what it should be."""
    some = [
        None, "text", protocol.stand_in("weird"), torch.tensor(1.0), torch.tensor(True),
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
    tensors |= {f"{judge.PUBLIC}/{k}": t for k, t in part1.public_inputs().items()}
    context = GradingContext(
        1, {}, (entry,), "secret", Path(), Limits(), 20.0, isolation.Bubblewrap()
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


def test_an_optimizer_that_does_nothing_has_no_row():
    entry = next(t for t in GRADED_TASKS if t.id == part1.OPTIMIZER)
    expected = hidden.trajectories(hidden.make_cases(5), 5)
    idle = {f"hidden|{n}": torch.zeros_like(t) for n, t in expected["after"].items()}
    idle["hidden|gradient"] = expected["after"]["gradient"]
    assert not any(judge.judge_optimizer(entry, idle, expected).rows.values())


def test_a_padding_that_is_nan_is_wrong():
    entry = next(t for t in GRADED_TASKS if t.id == "bert.attention")
    sets = hidden.make(5)
    right = {
        f"{hidden.TOGETHER} {dtype}|{name.removeprefix('bert.attention/')}": tensor
        for dtype, kind in judge.DTYPES.items()
        for name, tensor in references.in_dtype(sets[hidden.TOGETHER].expected, kind).items()
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
            open("/tmp/alive", "w").close()
        except OSError:
            pass
"""
HOLDS = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        break
kept = b"x" * 2**29
time.sleep(30)
"""
GOOD = """
import os, time
time.sleep(0.3)
class AdamW:
    def __init__(self, *_, **__):
        raise ValueError(f"left: {os.listdir('/tmp')}")
    def step(self, closure=None):
        pass
"""
TASKS = {  # code and status of tasks that follow one another
    "kill": ("import os\nfor n in (2, 9, 15, 19): os.kill(os.getppid(), n)", "ran"),
    "limit": (
        "import os, resource, time\n"
        "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))\ntime.sleep(2)",
        "crashed",
    ),
    "stop": ("import signal\nsignal.raise_signal(signal.SIGSTOP)", "timeout"),
    "fill": ("[open(f'/tmp/{n}', 'wb', 0).write(b'x' * 2**25) for n in range(4)]", "crashed"),
    "hold": (HOLDS, "memory"),
    "leave": (LEAVES, "ran"),
    "good": (GOOD, "ran"),
}


def job(name: str, source: str, seconds: float = 4) -> dict:
    return {
        "name": name,
        "run": "course.grading.sandbox.runs:optimizer",
        "arguments": {"cases": [], "seed": 0},
        "files": {"optimizer.py": source},
        "folders": [],
        "seconds": seconds,
    }


@needs_sandbox
def test_one_task_does_not_harm_the_next():
    """Worker and judge together: tasks that kill, stop, fill and stay, then an honest one."""
    jobs = [job(name, source) for name, (source, _) in TASKS.items()]
    limits = Limits(total_mib=1500)
    with open_context(1, "secret", limits) as context:
        replies = protocol.ask(context, jobs, {"t": torch.ones(2)})
    statuses = {name: reply.status for name, reply in replies.items()}
    assert statuses == {name: status for name, (_, status) in TASKS.items()}
    assert "left: ['job-" in str(replies["good"].outputs)
    assert "alive" not in str(replies["good"].outputs)


@needs_sandbox
def test_a_grader_that_is_killed_leaves_no_process(tmp_path):
    waiting = job("waits", "import os, time\nos.fork()\ntime.sleep(60)", 60)
    program = f"""
        import sys, tempfile
        sys.path.insert(0, {str(ROOT)!r})
        from course.grading.sandbox import protocol
        from course.grading.sandbox.context import open_context
        tempfile.tempdir = {str(tmp_path)!r}
        with open_context(1, "secret") as context:
            protocol.ask(context, [{waiting!r}], {{}})
    """
    grader = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    stage, end = f"{tmp_path}/minbert-grading-", time.monotonic() + 60
    while len(running(stage)) < 4 and time.monotonic() < end:  # bubblewrap, worker, two of a task
        time.sleep(0.05)
    assert len(running(stage)) >= 4
    grader.kill()
    grader.wait()
    assert_gone(stage)


@needs_sandbox
def test_only_packages_that_the_course_allows_are_found():
    source = "import iniconfig\nraise Exception('imported ' + iniconfig.__name__)"
    with open_context(1, "secret") as context:
        for allowed, words in (
            ([], "No module named 'iniconfig'"),
            (["iniconfig"], "imported iniconfig"),
        ):
            settings = {**context.settings, "sandbox": {"packages": allowed}}
            changed = replace(context, settings=settings)
            replies = protocol.ask(changed, [job("imports", source)], {})
            assert words in str(replies["imports"].outputs)
