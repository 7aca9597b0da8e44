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
from unittest import mock

import pytest
import torch
from safetensors.torch import save
from support import ROOT, needs_sandbox, one_line_error

from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.part1 import references
from course import grade
from course.grading.judging import adamw, hidden, judge, part1
from course.grading.judging.types import Submission
from course.grading.sandbox import confine, isolation, protocol, runs, sandbox, worker
from course.grading.sandbox.confine import Limits
from course.grading.sandbox.context import open_context

SMALL = Limits(
    wall_s=20, quiet_s=10, total_mib=300, memory_mib=2048, file_mib=4, answer_mib=1, output_kib=1
)
PODMAN = isolation.Podman()
WITHOUT_PODMAN = os.geteuid() != 0 or not shutil.which("podman")
KINDS = [
    isolation.Bubblewrap(),
    pytest.param(
        PODMAN, marks=pytest.mark.skipif(WITHOUT_PODMAN, reason=f"as root: {PODMAN.install}")
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
        print(json.dumps({{
            "input": sys.stdin.read(),
            "secret": Path({str(tmp_path / "secret")!r}).exists(),
            "user": os.getuid(),
            "processes": [name for name in os.listdir("/proc") if name.isdigit()],
            "network": Path("/proc/net/dev").read_text(),
            "top": os.listdir("/"),
            "temporary": os.listdir("/tmp"),
            "descriptors": os.listdir("/proc/self/fd"),
            "environment": list(os.environ),
        }}))
        sys.stderr.write("x" * 5000 + "end")
        """,
        kind,
        b"hi",
    )
    assert (ended.status, ended.returncode) == ("ended", 0), ended.printed
    seen = json.loads(ended.answer)
    assert (seen["input"], seen["secret"], seen["processes"]) == ("hi", False, ["1"])
    assert seen["user"] not in (0, os.getuid())
    assert "eth" not in seen["network"]
    shown = [ROOT, *isolation.python_folders()]
    folders = {*seen["top"]} - {path.parts[1] for path in shown}
    assert not {"home", "work", "var", "srv", "root"} & folders
    assert {*seen["temporary"]} <= {p.parts[2] for p in shown if p.is_relative_to("/tmp")}
    assert len(seen["descriptors"]) <= 4  # three, and the one that lists them
    known = {"PATH", "LANG", "LC_CTYPE", "OMP_NUM_THREADS", "HOME", "TMPDIR", "PWD"}
    assert {*seen["environment"]} - {"HOSTNAME", "container", "TERM"} <= known
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
    with one_line_error(
        "nothing is graded: ",
        "bubblewrap is not installed: apt install bubblewrap",
        "apt install libseccomp2",
        f"{tmp_path}/gold could be read",
        "pip install not-there",
    ):
        grade.refuse(isolation.Bubblewrap(), [tmp_path / "gold", None], ["not-there"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with one_line_error("--isolation podman is for root"):
        grade.refuse(PODMAN, [], [])


@needs_sandbox
def test_a_python_that_the_sandbox_cannot_run_is_refused(monkeypatch):
    """As where a home of mode 0700 keeps the sandbox's user from it."""
    monkeypatch.setattr(isolation, "PROBE", "import not_there")
    with one_line_error("cannot run Python here ", "No module named 'not_there'"):
        grade.refuse(isolation.Bubblewrap(), [], [])


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


def test_nothing_runs_without_a_filter(monkeypatch):
    library = mock.MagicMock()
    library.seccomp_init.return_value = 1
    library.seccomp_syscall_resolve_name.return_value = 0
    library.seccomp_rule_add_array.return_value = -errno.EINVAL
    monkeypatch.setattr(confine.ctypes, "CDLL", lambda name: library)
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


@pytest.fixture(scope="module")
def sets():
    """Hidden inputs and right answers."""
    return hidden.make(5)


@pytest.mark.parametrize(("called", "status"), [("1.2", "waits"), ("1.4", "not started")])
def test_a_function_that_calls_another_tasks_stub_waits_for_it(sets, called, status):
    entry, stub = graded_task("1.4"), graded_task(called)
    stopped = {"error": stub.title, "error kind": "not started"}
    outputs = {f"{hidden.TOGETHER} {t}|{k}": v for t in runs.DTYPES for k, v in stopped.items()}
    verdict = judge.judge_part_1(entry, outputs, sets, {})
    assert verdict.status == status
    assert verdict.messages == [stub.title if status == "not started" else "waits for Task 1.2"]
    assert not any(verdict.rows.values())


@pytest.mark.parametrize("entry", [t for t in GRADED_TASKS if t.part == 1], ids=lambda t: t.id)
def test_no_answer_is_an_error_of_ours(entry, sets):
    chance, trajectories = random.Random(entry.id), hidden.trajectories(5)
    tensors = {f"{n}/{k}": t for n, s in sets.items() for k, t in s.inputs.items()}
    tensors |= {f"{judge.PUBLIC}/{k}": t for k, t in part1.public_inputs().items()}
    job = part1.job_for(entry, Submission("x", 1, {entry.file: b""}), 5)
    honest = getattr(runs, job["run"])(tensors, **job["arguments"])

    def judged(outputs):
        if job["run"] == "optimizer":
            return adamw.judge_optimizer(entry, outputs, trajectories, 5)
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


def test_a_padding_that_is_nan_is_wrong(sets):
    entry = graded_task("bert.attention")
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
    "stop": ("import signal\nsignal.raise_signal(signal.SIGSTOP)", "timeout"),
    "fill": ("[open(f'/tmp/{n}', 'wb', 0).write(b'x' * 2**25) for n in range(4)]", "disk"),
    "many": ("for n in range(10**9): open(f'/tmp/{n}', 'w').close()", "disk"),
    "hold": (HOLDS, "memory"),
    "leave": (LEAVES, "ran"),
    "good": (GOOD, "ran"),
}


def job(name: str, source: str) -> dict:
    """The optimizer's, whatever its name."""
    return protocol.job(name, "optimizer", {"seed": 0}, {"optimizer.py": source})


@needs_sandbox
def test_one_task_does_not_harm_the_next():
    """Worker and judge together: tasks that kill, stop, fill and stay, then an honest one."""
    jobs = [job(name, source) for name, (source, _) in TASKS.items()]
    with open_context(1, "secret", Limits(total_mib=1500), seconds=4) as context:
        replies = protocol.ask(context, jobs, {"t": torch.ones(2)})
    statuses = {name: reply.status for name, reply in replies.items()}
    assert statuses == {name: status for name, (_, status) in TASKS.items()}
    assert "left: ['job-" in str(replies["good"].outputs)
    assert "alive" not in str(replies["good"].outputs)


@needs_sandbox
def test_a_grader_that_is_killed_leaves_no_process(tmp_path):
    waiting = job("waits", "import os, time\nos.fork()\ntime.sleep(60)")
    program = f"""
        import sys, tempfile
        sys.path.insert(0, {str(ROOT)!r})
        from course.grading.sandbox import protocol
        from course.grading.sandbox.context import open_context
        tempfile.tempdir = {str(tmp_path)!r}
        with open_context(1, "secret", seconds=60) as context:
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
