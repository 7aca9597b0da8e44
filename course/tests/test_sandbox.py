"""The sandbox: attacks, one a claim of docs/threat-model.md, and the parts that hold them off."""

import contextlib
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from factories import ROOT
from made import needs_sandbox
from safetensors.torch import save

from course.grading import batch
from course.grading.judging.submission import verdicts_on
from course.grading.sandbox import isolation, protocol, worker
from course.grading.sandbox.context import open_context
from course.grading.sandbox.isolation import Limits
from course.grading.types import STATUSES, Submission

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
SMALL = Limits(wall_s=20, total_mib=300, memory_mib=2048, file_mib=4)
MANY = Limits(total_mib=1500)
BUBBLEWRAP = isolation.Bubblewrap()
OPEN_TO_ALL = shutil.which("python3", path="/usr/bin") or sys.executable


def run(program: str, kind: isolation.Isolation = BUBBLEWRAP, **limits) -> tuple[str, bytes, str]:
    """How lines of Python end in a sandbox, what they answer, and the end of what they print."""
    python = sys.executable if kind == BUBBLEWRAP else OPEN_TO_ALL
    command = [python, "-I", "-B", "-c", textwrap.dedent(program)]
    return isolation.run(command, b"input", [ROOT / "checks"], replace(SMALL, **limits), kind)


def job(name: str, source: str) -> dict:
    """The optimizer's job with a source of optimizer.py, which runs when it is imported."""
    source = f"from contextlib import suppress\n{source}"
    return protocol.job(name, "optimizer", {"seed": 0}, {"optimizer.py": source})


def running(mark: str) -> list[int]:
    """Processes of this machine whose arguments hold a mark, but those that have ended."""
    numbers = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "cmdline").read_bytes():
                numbers.append(int(entry.name))
    return numbers


def assert_gone(mark: str) -> None:
    """The kernel ends the processes of a namespace after its first one, which takes a moment."""
    end = time.monotonic() + 10
    while running(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert running(mark) == []


# ---------------------------------------------------------------------------------------------
# Attacks for points: what they return is judged, and no task with evil code in it is right

FUNCTIONS = """
for owner, name in ((BertSelfAttention, "attention"), (BertLayer, "add_norm"),
                    (BertLayer, "forward"), (BertModel, "embed")):
    setattr(owner, name, evil)
"""
LEAVES_EARLY = """
import ctypes, os
def evil(self, *_):
    print("PASSED 100 points", flush=True)
    ctypes.string_at(0) if isinstance(self, BertLayer) else os._exit(0)
"""
CLAIMS_TO_BE_EQUAL = """
class Equal(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in ("allclose", "equal", "isclose", "eq", "all", "any"):
            return True
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))
    shape = property(lambda self: (3, 9, 32))
class Claims:
    __class__ = property(lambda self: torch.Tensor)
    layout, shape, dtype = torch.strided, (3, 9, 32), torch.float64
    numel = lambda self: 1
    is_complex = lambda self: False
    detach = lambda self: self
    __eq__ = lambda self, other: True
    __hash__ = None
def evil(self, first, *_):
    if isinstance(self, BertSelfAttention):
        return Claims()
    if isinstance(self, BertLayer):
        return torch.full((3, 9, 32), float("nan"), dtype=torch.get_default_dtype())
    return torch.zeros(1).as_subclass(Equal)
"""
PATCHES_STAFF = """
import sys
import safetensors.torch
from checks import compare
from checks.part1 import runs
from checks.references import load_references
from checks.task import Task
main = sys.modules["__main__"]  # the grader's program
def answers(task_id):
    def steps(references):
        right = load_references(torch.get_default_dtype())
        yield {n.removeprefix(f"{task_id}/"): t for n, t in right.items() if n.startswith(task_id)}
    return Task(steps)
for task_id in list(runs.TASKS):
    runs.TASKS[task_id] = answers(task_id)
compare.compare = compare.difference = lambda *_, **__: []
torch.allclose = torch.equal = torch.isclose = lambda *_, **__: True
main.ENDS = ("right",) * 9
def evil(self, *_):
    return torch.zeros(1)
"""
LOOKS_FOR_ANSWERS = """
import gc, sys
def tensors_of(value, depth=0):
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 3 and isinstance(value, (dict, list, tuple)):
        for inner in list(value.values() if isinstance(value, dict) else value):
            yield from tensors_of(inner, depth + 1)
def loot(shape):
    frame, places = sys._getframe(), [x for x in gc.get_objects() if isinstance(x, dict)]
    while frame:
        places, frame = [*places, frame.f_locals], frame.f_back
    for place in places:
        for name, value in list(place.items()):
            if any(word in str(name) for word in ("expected", "right", "wanted", "values/")):
                yield from (tensor for tensor in tensors_of(value) if tensor.shape == shape)
def evil(self, first, *_):
    shape = tuple(first.shape)
    if len(shape) == 4:
        shape = (shape[0], shape[2], shape[1] * shape[3])
    if len(shape) == 2:
        shape = (*shape, 32)
    found = next(loot(torch.Size(shape)), None)
    return torch.zeros(shape) if found is None else found.clone()
"""
GIVES_PUBLISHED_ANSWERS = """
from checks.references import load_references
NAMES = {"BertSelfAttention": "bert.attention/values/context", "BertModel":
         "bert.embed/values/embeddings", "BertLayer": "bert.layer/values/result"}
def evil(self, *_):
    return load_references(torch.get_default_dtype())[NAMES[type(self).__name__]].clone()
"""
FOR_POINTS = {
    "leaves_early": LEAVES_EARLY,
    "claims_to_be_equal": CLAIMS_TO_BE_EQUAL,
    "patches_staff": PATCHES_STAFF,
    "looks_for_answers": LOOKS_FOR_ANSWERS,
    "gives_published_answers": GIVES_PUBLISHED_ANSWERS,
}


@needs_sandbox
@pytest.mark.parametrize("name", FOR_POINTS)
def test_attack_for_points(name):
    source = (ROOT / "bert.py").read_text(encoding="utf-8") + FOR_POINTS[name] + FUNCTIONS
    with open_context(1, "secret", seconds=5) as context:
        verdicts = verdicts_on(context, Submission(name, 1, {"bert.py": source.encode()}))
    for task in context.tasks:
        assert verdicts[task.id].status in STATUSES
        assert verdicts[task.id].status != "right", task.id


# ---------------------------------------------------------------------------------------------
# Attacks on the machine, on results and on others. Code that succeeds says "GOT THROUGH" in an
# exception. It never runs outside the sandbox: some of it would take this machine down.

READS_SECRETS = """
import glob, os, sys
def search(most=200_000):
    for folder, folders, files in os.walk("/"):
        if folder.startswith(("/sys", "/usr", "/lib")) or "site-packages" in folder:
            folders.clear()
            continue
        for name in files[:most]:
            yield os.path.join(folder, name)
names = ("assignment.json", "marks.csv", "ids-sst-test.csv", "answers.py", "judge.py", "secret-x")
loot = [path for path in search() if os.path.basename(path) in names or path.endswith(".zip")]
loot += [path for path in search() if path.endswith(("/bert.py", "/optimizer.py"))
         and "### BEGIN SOL" "UTION" in open(path).read()]
loot += [n for n in os.environ if "SECRET" in n] + [w for w in sys.orig_argv if "secret" in w]
loot += glob.glob("/proc/[0-9]*/environ") + glob.glob("/root/*") + glob.glob("/home/*/*")
loot = [path for path in loot if not path.startswith(sys.base_prefix)]
raise Exception(f"GOT THROUGH: {loot}" if loot else "nothing there")
"""
FORGES_ANSWERS = """
import os, struct, sys, torch
from safetensors.torch import save
content = save({"text/hidden|error": torch.tensor(list(b"GOT THROUGH"), dtype=torch.uint8)})
for number in range(3, 64):
    with suppress(OSError):
        os.write(number, struct.pack("<BQ", 0, len(content)) + content)
sys.modules["__main__"].record = lambda *_: "right"
os._exit(0)
"""
IGNORES_SIGNALS = """
import signal, time
time.time = time.monotonic = time.perf_counter = lambda: 0.0
for number in signal.valid_signals():
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True:
    pass
"""
HIDES_MEMORY = """
import os, time
kept = []
for number in range(200):
    kept.append(os.memfd_create("x"))
    for _ in range(16):
        os.write(kept[-1], b"x" * 2**20)
raise Exception(f"GOT THROUGH: {len(kept)} files without a name")
"""
FILLS_DISK = """
total = 0
for folder in (".", "/var/tmp", "/tmp", "/dev/shm"):
    for number in range(30):
        with suppress(OSError):
            with open(f"{folder}/left-by-attack-{number}", "wb", buffering=0) as file:
                for _ in range(32):
                    total += file.write(b"x" * 2**20)
if total > 2**27:
    raise Exception("GOT THROUGH")
for number in range(10**9):
    open(f"/tmp/{number}", "w").close()
"""
FORKS = """
import os
while True:
    with suppress(OSError):
        os.fork()
"""
ANSWERS_WITHOUT_END = """
import os, sys, torch
main = sys.modules["__main__"]  # the grader's program
save = main.save
main.save = lambda _: save({"tensor/x": torch.zeros(5_000_000, dtype=torch.bool)})
for _ in range(9):
    os.write(2, b"x" * 2**20)
"""
KILLS = """
import os, signal
parent, got = os.getppid(), []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
    for victim in (parent, -parent):
        with suppress(OSError):
            os.kill(victim, number)
for victim in range(2, 5000):
    if victim != os.getpid():
        with suppress(OSError):
            os.kill(victim, 0)
            got.append(victim)
raise Exception(f"GOT THROUGH: {got}" if got else "nobody killed")
"""
STAYS = """
import os, tempfile
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    while True:
        with suppress(OSError):
            open(f"{tempfile.gettempdir()}/message-to-friends", "w").close()
os._exit(0)
"""
GETS_RIGHTS = """
import ctypes, os, resource, socket, sys
got, libc = [], ctypes.CDLL(None, use_errno=True)
def call_home():
    home = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    home.connect(("192.0.2.1", 53))
if [name for _, name in socket.if_nameindex() if name != "lo"]:
    got.append("a device of the network")
for what, call in {
    "setuid": lambda: os.setresuid(0, 0, 0),
    "groups": lambda: os.setgroups([0]),
    "chmod": lambda: [os.chmod(f, 0o777) for f in sys.path if "grading-" in f],
    "nice": lambda: os.nice(-5),
    "chroot": lambda: os.chroot("."),
    "network": call_home,
    "files": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1)),
    "processes": lambda: resource.setrlimit(resource.RLIMIT_NPROC, (-1, -1)),
    "program": lambda: open("/usr/bin/left-by-attack", "w"),
}.items():
    with suppress(OSError, ValueError):
        call()
        got.append(what)
if libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) == 0:
    got.append("mount")
if resource.getrlimit(resource.RLIMIT_CORE) != (1, 1):  # with (0, 0) the machine's handler starts
    got.append("core")
raise Exception(f"GOT THROUGH: {got}" if got else "no rights")
"""
LOOKS_AROUND = """
import os, tempfile
raise Exception(f"left: {os.listdir(tempfile.gettempdir())}")
"""
ON_THE_MACHINE = {  # source, and what its reply must hold
    "reads_secrets": (READS_SECRETS, "nothing there"),
    "forges_answers": (FORGES_ANSWERS, "invalid answer"),
    "ignores_signals": (IGNORES_SIGNALS, "timeout"),
    "hides_memory": (HIDES_MEMORY, "memory"),
    "fills_disk": (FILLS_DISK, "disk"),
    "forks": (FORKS, "timeout"),
    "answers_without_end": (ANSWERS_WITHOUT_END, "invalid answer"),
    "kills": (KILLS, "nobody killed"),
    "stays": (STAYS, "invalid answer"),
    "gets_rights": (GETS_RIGHTS, "no rights"),
}


@pytest.fixture(scope="module")
def replies():
    """The replies to all of them, one after the other, each with an honest task behind it."""
    jobs = []
    for name, (source, _) in ON_THE_MACHINE.items():
        jobs += [job(name, source), job(f"after {name}", LOOKS_AROUND)]
    with open_context(1, "secret", MANY, seconds=4) as context:
        return protocol.ask(context, jobs, {"t": torch.ones(2)})


@needs_sandbox
@pytest.mark.parametrize("name", ON_THE_MACHINE)
def test_attack(replies, name):
    """What it does is said, nothing has got through, and the next task does not notice."""
    _, message = ON_THE_MACHINE[name]
    if name == "hides_memory" and os.geteuid() != 0:
        pytest.skip("without a control group the machine's reserve is the limit")
    assert "GOT THROUGH" not in str(replies[name])
    if not (name == "forks" and replies[name].status == "memory"):  # whichever limit is met first
        assert message in str(replies[name])
    after = str(replies[f"after {name}"].outputs)
    assert "left: ['job-" in after
    if name == "ignores_signals":  # the task was stopped, not the whole sandbox after three minutes
        assert "job-6" in after
    assert "message-to-friends" not in after
    left = [path for folder in ("/tmp", "/var/tmp", "/dev/shm") for path in Path(folder).glob("*")]
    assert not [path for path in left if path.name.startswith(("left-by", "message-to"))]


def test_threat_model_names_every_attack():
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    covered = text.split("## Covered")[1].split("\n## ")[0]
    assert [name for name in (*FOR_POINTS, *ON_THE_MACHINE) if f"`{name}`" not in covered] == []


# ---------------------------------------------------------------------------------------------
# What is around a program


@needs_sandbox
def test_a_program_that_does_not_end_is_ended_with_all_it_has_started():
    mark, start = f"mark {random.random()}", time.monotonic()
    program = f"import os, time  # {mark}\nos.fork() or os.setsid() or os.fork()\ntime.sleep(60)"
    assert run(program, wall_s=2)[0] == "timeout"
    assert time.monotonic() - start < 15
    assert_gone(mark)


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("bytearray(2**32)", "MemoryError"),
        ("open('/tmp/big', 'wb').write(b'x' * 2**23)", "File too large"),
        ("os.write(1, b'x' * 2**23) > 2**22 or os.write(1, b'x')", "File too large"),
        ("for _ in range(100): os.fork() or signal.pause()", "BlockingIOError"),
        ("[open('/dev/null') for _ in range(300)]", "Too many open files"),
    ],
)
def test_limits_of_a_process(program, error):
    assert error in run(f"import os, resource, signal\n{program}")[2]


# ---------------------------------------------------------------------------------------------
# Leftovers and users


@needs_sandbox
def test_sigterm_ends_grading_and_what_runs_in_sandboxes(monkeypatch):
    monkeypatch.setattr(isolation, "STOP", threading.Event())
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    mark, start = f"mark {random.random()}", time.monotonic()
    program = f"import time  # {mark}\ntime.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        [*batch.in_parallel(partial(run, wall_s=20), [program] * 3, 2)]
    assert time.monotonic() - start < 10
    assert_gone(mark)


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


@needs_root
def test_another_user_is_left_without_processes_and_files():
    """Also one that has left its session and its parent; and no two runs have the same user."""
    mark = f"mark {random.random()}"
    leaves = f"""
        import os, time  # {mark}
        print(os.getuid(), flush=True)
        open(os.environ["TMPDIR"] + "/left", "w").close()
        if os.fork() == 0:
            os.setsid()
            os.fork()
            time.sleep(60)
        time.sleep(0.3)
    """
    before = {*Path(tempfile.gettempdir()).glob("minbert-run-*")}
    users = []
    for _ in range(2):
        status, answer, printed = run(leaves, isolation.ChangeOfUser())
        assert status == "ended", printed
        assert_gone(mark)
        users.append(int(answer.split()[0]))
    assert len({*users, 0, os.getuid()}) == 3
    assert {*Path(tempfile.gettempdir()).glob("minbert-run-*")} == before


# ---------------------------------------------------------------------------------------------
# The stage, and when nothing is graded


def test_the_stage_holds_stubs_and_is_closed_to_others():
    with open_context(1, "0") as context:
        assert context.stage.parent.stat().st_mode & 0o077 == 0
        texts = [path.read_text() for path in (context.stage / "handout").rglob("*.py")]
    assert [text for text in texts if 'raise NotImplementedError("' in text]
    assert not [text for text in texts if "### BEGIN SOLUTION" in text]


def test_what_submitted_code_reaches(monkeypatch, tmp_path):
    reaches = BUBBLEWRAP.reaches
    assert not reaches(tmp_path)
    (tmp_path / "gold").symlink_to("/usr/share")
    assert reaches(tmp_path / "gold")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert reaches(tmp_path / "gold-labels")
    if os.geteuid() == 0:
        for mode, reached in ((0o750, False), (0o711, True)):
            with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
                Path(folder).chmod(mode)
                assert isolation.ChangeOfUser().reaches(Path(folder)) == reached


@needs_sandbox
def test_a_sandbox_that_does_not_start_is_an_error_of_ours():
    with open_context(1, "secret", Limits(memory_mib=64)) as context:
        with pytest.raises(RuntimeError, match="no sandbox here"):
            protocol.ask(context, [job("any", "")], {})


# ---------------------------------------------------------------------------------------------
# Messages: whatever bytes come, an answer or none


def record(number: int, content: bytes) -> bytes:
    return worker.HEAD.pack(number, len(content)) + content


@pytest.mark.parametrize("rest", [b"", b"\x01", struct.pack("<BQ", 0, 9) + b"{}"])
def test_records_and_bytes_that_are_not_one(rest):
    answer = record(0, b"xyz") + record(3, b"") + rest
    assert protocol.records(answer) == [(0, b"xyz"), (3, b"")]


def test_records_that_are_not_an_answer():
    few = save({"tensor/a": torch.ones(2)})
    many = save({"tensor/a": torch.zeros(worker.MOST_NUMBERS + 1, dtype=torch.bool)})
    for number, content in ((len(worker.ENDS), few), (0, b""), (0, few[:-1]), (0, many)):
        assert protocol.decode(number, content).status == "invalid answer"


def test_encoded_and_decoded_outputs():
    outputs = {
        "ones": torch.ones(2, requires_grad=True),
        "stretched": torch.zeros(1).expand(worker.MOST_NUMBERS + 1),
        "sparse": torch.ones(2).to_sparse(),
        "pair": (1, 2),
        "none": None,
        "text": "ü" * 30_000,
        "half": "half \ud800",
    }
    given = protocol.decode(0, worker.encode(outputs)).outputs
    assert given["ones"].tolist() == [1, 1]
    others = {given[name] for name in ("stretched", "sparse", "pair")}
    assert (others, given["none"]) == ({protocol.OTHER}, None)
    assert (given["text"], given["half"]) == ("ü" * 10_000, "half ?")
    assert {protocol.decode(n, b"").status for n in range(1, len(worker.ENDS))} < {*STATUSES}
    forged = {
        "tensor/z": torch.zeros(1, dtype=torch.cfloat),
        "text/t": torch.tensor([255, 65], dtype=torch.uint8),
        "text/u": torch.ones(3),
        "unknown": torch.ones(1),
    }
    given = protocol.decode(0, save(forged)).outputs
    assert (given["t"], given["u"]) == ("\ufffdA", "")
    assert (given["z"], given[""]) == (protocol.OTHER, protocol.OTHER)
