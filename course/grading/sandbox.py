"""Run one program that runs foreign code, in as many layers as this machine offers.

Always: a fresh interpreter that reads no user's settings, no inherited descriptors, no environment,
limits on processor time, memory, file size, processes and output, of each process and of all
together, a wall clock, a process group that is killed as a whole. Where root: a user of its own for
each slot. Where bubblewrap is installed: namespaces of its own for files, processes, network, users
and names, in which it sees Python, its own folder read-only and a small temporary folder in memory.
On Linux besides: filters of system calls, which the program puts in place itself (seccomp.py). What
was active is told, layer by layer.

Only root without bubblewrap, or another user with it, keeps the program from files that everybody
may read; ``reaches`` tells whether it can, and the grader refuses to start then. It does not know
what the program computes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FIRST_USER = 61_000  # slots' users: FIRST_USER, FIRST_USER + 1, …; no real account has these
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")  # what bubblewrap shows of ours
SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")  # where everybody may write, as in TMPDIR
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}
MIB = 2**20
MOST_FILES = 10_000
SWEEP_S = 20.0  # until all processes of a slot are gone; process 1 may take seconds to notice
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass(frozen=True)
class Limits:
    """What a sandboxed program may use."""

    wall_s: float = 180.0
    quiet_s: float = 60.0  # without a byte of an answer
    cpu_s: int = 100  # of each process
    memory_mib: int = 3072  # address space of each process
    total_mib: int = 4096  # memory that all of them hold
    file_mib: int = 64  # of each file, and of the temporary folder
    processes: int = 24  # and threads
    open_files: int = 256
    answer_mib: int = 64  # what it may send back
    output_kib: int = 64  # what is kept of what it prints


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: str  # "ended", "timeout", "too much output", "too much memory", "too much on disk"
    returncode: int
    answer: bytes  # what it wrote to its standard output
    printed: str  # the end of its standard error
    layers: tuple[str, ...]
    seconds: float


@cache
def has_bubblewrap() -> bool:
    """Whether bubblewrap is installed and this kernel lets an ordinary user use it."""
    if not shutil.which("bwrap"):
        return False
    command = ["bwrap", *_namespaces(), "--ro-bind", "/", "/", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _namespaces() -> list[str]:
    """What bubblewrap replaces; of users nothing for root, who becomes the slot's user."""
    if os.geteuid() != 0:
        return ["--unshare-all", "--uid", "65534", "--gid", "65534"]
    kinds = ("ipc", "pid", "net", "uts", "cgroup-try")
    return [
        *(f"--unshare-{kind}" for kind in kinds),
        "--cap-add",
        "CAP_SETUID",
        "--cap-add",
        "CAP_SETGID",
    ]


def _user(slot: int) -> dict:
    """Arguments of Popen for a slot's user."""
    return {"user": FIRST_USER + slot, "group": FIRST_USER + slot, "extra_groups": []}


def layers() -> tuple[str, ...]:
    """The names of the layers that are active here; the program adds its own."""
    names = ["fresh interpreter", "no inherited descriptors or environment", "limits", "own group"]
    if os.geteuid() == 0:
        names.append("own user")
    if has_bubblewrap():
        names += ["bubblewrap: own files, processes, network"]
    return tuple(names)


def reaches(path: Path, slot: int = 0) -> bool:
    """Whether a sandboxed program could read a file, or list or only pass a folder, of ours."""
    path = path.resolve()
    if has_bubblewrap():
        seen = [Path(name).resolve() for name in (*SYSTEM, *map(str, _python_folders()))]
        return any(path.is_relative_to(folder) for folder in seen)
    if os.geteuid() != 0:
        return True  # it is the same user
    # who may pass a folder can open what is in it if its name is known
    test = ["test", "-r", str(path), "-o", "-x", str(path)]
    return subprocess.run(test, check=False, env=ENVIRONMENT, **_user(slot)).returncode == 0


def alone() -> bool:
    """Whether a sandboxed program can see no processes but its own: then all can be killed."""
    return has_bubblewrap() or os.geteuid() == 0


def unfit() -> str:
    """Why foreign code cannot be graded on this machine, and the remedy; "": it can."""
    if not alone():
        blocked = "this kernel lets bubblewrap make no namespaces"
        why = blocked if shutil.which("bwrap") else "bubblewrap is not installed"
        return f"{why}, and this is not root: apt install bubblewrap, or grade as root"
    return _python_closed() or _temporary_closed()


def _python_closed() -> str:
    """As ``unfit``, of Python and its packages.

    pyenv, uv and conda put Python into a home, which may have mode 0700. It starts all the same,
    since it becomes the slot's user only later, and then finds nothing that it has not loaded yet.
    """
    paths = sysconfig.get_paths()
    needed = [Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    if not (folder := closed_folder(needed)):
        return ""
    remedy = "take a Python that all users may read (/usr/bin/python3 -m venv /opt/grader)"
    if not has_bubblewrap():
        remedy = f"apt install bubblewrap, or {remedy}"
    return f"submitted code may not enter {folder}, where Python ({sys.prefix}) lies: {remedy}"


def _temporary_closed() -> str:
    """As ``unfit``, of temporary files."""
    place = Path(tempfile.gettempdir())
    if has_bubblewrap() or not (folder := closed_folder([place])):
        return ""
    return f"submitted code may not enter {folder}: set TMPDIR, now {place}, to a folder as /tmp is"


def closed_folder(needed: Sequence[Path]) -> Path | None:
    """The first folder that keeps the slots' users from what they need; None: none does."""
    if os.geteuid() != 0:
        return None  # the user who grades is the one who runs the sandbox
    parts = [part for path in needed for part in (*reversed(path.parents), path) if part.is_dir()]
    if has_bubblewrap():  # it makes the parents of the folders that it shows, open to all
        shown = [*_python_folders()]
        parts = [part for part in parts if any(part.is_relative_to(folder) for folder in shown)]
    return next((part for part in parts if not part.stat().st_mode & stat.S_IXOTH), None)


def _python_folders() -> Iterator[Path]:
    """Where the interpreter and its packages lie."""
    for name in dict.fromkeys(
        (sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent))
    ):
        if not Path(name).is_relative_to("/usr"):
            yield Path(name)


def wrapped(command: Sequence[str], readable: Sequence[Path], limits: Limits) -> list[str]:
    """The command inside bubblewrap, if there is one."""
    if not has_bubblewrap():
        return list(command)
    # the program is the first process inside: else one of bubblewrap's is, which holds the answers'
    # pipe and, without root, belongs to the same user
    wrap = ["bwrap", *_namespaces(), "--as-pid-1", "--die-with-parent", "--new-session"]
    wrap += ["--clearenv"]
    for name, value in {**ENVIRONMENT, "TMPDIR": "/tmp"}.items():
        wrap += ["--setenv", name, value]
    for name in SYSTEM:
        wrap += ["--ro-bind-try", name, name]
    wrap += ["--proc", "/proc", "--dev", "/dev"]
    wrap += ["--perms", "1777", "--size", str(limits.file_mib * MIB), "--tmpfs", "/tmp"]
    for path in (*_python_folders(), *readable):
        for parent in reversed(path.parents[:-1]):  # else only root could pass through them
            wrap += ["--perms", "0755", "--dir", str(parent)]
        wrap += ["--ro-bind", str(path), str(path)]
    wrap += ["--remount-ro", "/dev", "--remount-ro", "/"]  # else a second place to fill
    return [*wrap, "--chdir", "/tmp", *command]


def let_all_read(folder: Path) -> None:
    """Let the slots' users read a folder of ours and all in it, whatever the umask was."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@contextlib.contextmanager
def private_folder(slot: int) -> Iterator[Path]:
    """A folder that nobody but the slot's user can enter; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="grading-"))
    try:
        if os.geteuid() == 0:
            os.chown(folder, FIRST_USER + slot, FIRST_USER + slot)
        yield folder
    finally:
        for path in (*_left_outside(slot), folder):
            if path.is_dir() and not path.is_symlink():
                # no Python here: folders may lie deeper than it can go. As the slot's user, who
                # can do no harm to others
                user = _user(slot) if os.geteuid() == 0 else {}
                remove = ["rm", "-rf", "--", path]
                subprocess.run(remove, stderr=subprocess.DEVNULL, env=ENVIRONMENT, **user)
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _left_outside(slot: int) -> Iterator[Path]:
    """What the slot's user has put where everybody may write; there is none inside bubblewrap."""
    if has_bubblewrap() or os.geteuid() != 0:
        return
    for folder in map(Path, dict.fromkeys((*SHARED, tempfile.gettempdir()))):
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                with contextlib.suppress(OSError):
                    if path.lstat().st_uid == FIRST_USER + slot:
                        yield path


def run(
    command: Sequence[str],
    given: bytes,
    readable: Sequence[Path],
    limits: Limits | None = None,
    slot: int = 0,
) -> Ended:
    """Run a program of ours that runs foreign code, and calls ``confine`` before it does.

    Args:
        command: what to run.
        given: its standard input.
        readable: folders that it may read; with a user of its own they have to be readable for all.
        limits: what it may use.
        slot: programs that run at the same time have different ones, from 0.

    Raises:
        RuntimeError: what was started cannot be ended.
    """
    limits = limits or Limits()
    start = time.monotonic()
    with ADOPTION, private_folder(slot) as folder, tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            wrapped(command, readable, limits),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            cwd=folder,
            env=ENVIRONMENT
            | {"HOME": str(folder), "TMPDIR": "/tmp" if has_bubblewrap() else str(folder)},
            start_new_session=True,
        )
        answer, status = _talk(
            process, given, limits, lambda: _too_much(process, limits, folder, slot)
        )
        _kill(process, slot)
        size = os.fstat(printed.fileno()).st_size
        printed.seek(max(0, size - limits.output_kib * 1024))
        text = printed.read().decode("utf-8", "replace")
    seconds = time.monotonic() - start
    return Ended(status, process.returncode, answer, text, layers(), seconds)


def _talk(
    process: subprocess.Popen, given: bytes, limits: Limits, too_much: Callable[[], str]
) -> tuple[bytes, str]:
    """Send the input, collect the answer; stop at the limits. → (answer, status)

    Args:
        too_much: what it uses too much of; "": nothing.
    """
    parts: list[bytes] = []
    heard = time.monotonic()

    def send() -> None:
        with contextlib.suppress(OSError):
            process.stdin.write(given)
            process.stdin.close()

    def collect() -> None:
        nonlocal heard
        size = 0
        with contextlib.suppress(OSError, ValueError):
            while (part := process.stdout.read1(65536)) and size <= limits.answer_mib * MIB:
                parts.append(part)
                size += len(part)
                heard = time.monotonic()

    threads = [threading.Thread(target=work, daemon=True) for work in (send, collect)]
    for thread in threads:
        thread.start()
    deadline = looked = time.monotonic()
    deadline += limits.wall_s
    status = "timeout"
    while (now := time.monotonic()) < min(deadline, heard + limits.quiet_s):
        threads[1].join(0.05)  # it ends when the program has closed its output, or sent too much
        if not threads[1].is_alive():
            status = "ended"
            break
        if process.poll() is not None:
            threads[1].join(1.0)  # a grandchild may hold the pipe open: do not wait for that
            status = "ended"
            break
        if now - looked > 0.2:  # looking at all processes is no work for every turn
            looked = now
            if what := too_much():
                status = f"too much {what}"
                break
    if sum(map(len, parts)) > limits.answer_mib * MIB:
        status = "too much output"
    return b"".join(parts), status


def _too_much(process: subprocess.Popen, limits: Limits, folder: Path, slot: int) -> str:
    """What all processes together use too much of: "memory", "on disk"; "": nothing."""
    if _memory(process.pid, slot) > limits.total_mib * MIB:
        return "memory"
    if has_bubblewrap():
        return ""  # its only folder is in memory, and has a size
    size = count = 0
    waiting = [str(folder), *map(str, _left_outside(slot))]
    for path in waiting:  # the list grows while it is read
        count += 1
        try:
            found = os.lstat(path)
            size += found.st_blocks * 512
            if stat.S_ISDIR(found.st_mode):
                waiting += [f"{path}/{name}" for name in os.listdir(path)]
        except OSError as error:  # gone by now; or so deep that what is there cannot be counted
            count += MOST_FILES * (error.errno == errno.ENAMETOOLONG)
        if size > limits.file_mib * MIB or count > MOST_FILES:
            return "on disk"
    return ""


def _memory(root: int, slot: int) -> int:
    """Bytes that a process, all below it and all of the slot's user hold."""
    everything = _processes()
    theirs = _below(root, everything)
    if os.geteuid() == 0:
        theirs |= {n for n, one in everything.items() if one.user == FIRST_USER + slot}
    pages = sum(everything[number].pages for number in theirs if number in everything)
    return pages * resource.getpagesize()


@dataclass(frozen=True)
class _Process:
    """What /proc tells about a process."""

    parent: int
    user: int
    pages: int  # of memory
    start: int  # in ticks since the machine started: numbers are used again


def _processes() -> dict[int, _Process]:
    """All of this machine, by their numbers."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # the name in brackets may be anything
            words = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            user = entry.stat().st_uid
            found[int(entry.name)] = _Process(int(words[1]), user, int(words[21]), int(words[19]))
    return found


def _below(root: int, everything: Mapping[int, _Process]) -> set[int]:
    """A process, its children, theirs, and so on."""
    children = defaultdict(list)
    for number, one in everything.items():
        children[one.parent].append(number)
    waiting = [root]
    for number in waiting:  # the list grows while it is read
        waiting += children[number]
    return set(waiting)


def _kill(process: subprocess.Popen, slot: int) -> None:
    """End the program and all it has started; return when nobody of them is left.

    Raises:
        RuntimeError: somebody is.
    """
    everything = _processes()
    known = {
        number: everything[number] for number in _below(process.pid, everything) & {*everything}
    }
    if has_bubblewrap():
        # the program first, so that bubblewrap takes note of its end: else it stays as a zombie,
        # which counts against its user's number of processes
        for number in known.keys() - {process.pid}:
            _end(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    sweep(slot, known)


def sweep(slot: int, known: Mapping[int, _Process] | None = None, seconds: float = SWEEP_S) -> None:
    """Kill what the slot's user still runs, and wait until it is gone from the table of processes.

    A killed process stays there, and counts against limits, until its parent takes note. Of those
    whose parent has died this process is the parent (``Adoption``); those of a grader that
    was killed have process 1, which may take a second or two.

    Args:
        known: further processes, which an ordinary user cannot tell by their user.
        seconds: how long that may take.

    Raises:
        RuntimeError: somebody is left, and would be there in the next submission's sandbox.
    """
    deadline = time.monotonic() + seconds
    while left := _left(slot, known or {}):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"processes {sorted(left)} of an earlier run in sandbox {slot} (user "
                f"{FIRST_USER + slot}) do not end within {seconds:g} s: end them, or restart"
            )
        for number in left:
            _end(number)
            with contextlib.suppress(ChildProcessError):  # another's child
                os.waitpid(number, os.WNOHANG)
        time.sleep(0.01)


def _left(slot: int, known: Mapping[int, _Process]) -> set[int]:
    """Those of the known processes and of the slot's user that are there, dead or alive."""
    everything = _processes()
    left = {n for n, one in known.items() if n in everything and everything[n].start == one.start}
    if os.geteuid() == 0:
        left |= {n for n, one in everything.items() if one.user == FIRST_USER + slot}
    return left


def _end(number: int) -> None:
    """Kill a process that may be gone, or another user's by now."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(number, signal.SIGKILL)


def be_reaper(yes: bool) -> None:
    """Whether this process becomes the parent of descendants whose own parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


class Adoption:
    """While a sandbox is used, orphans come to this process, which takes note of their end.

    Not for ever: this process waits for what comes out of a sandbox, and for nobody else's.
    """

    def __init__(self) -> None:
        self.lock, self.sandboxes = threading.Lock(), 0

    def __enter__(self) -> None:
        self.change(1)

    def __exit__(self, *_: object) -> None:
        self.change(-1)

    def change(self, by: int) -> None:
        """One sandbox more, or less."""
        with self.lock:
            self.sandboxes += by
            be_reaper(self.sandboxes > 0)


ADOPTION = Adoption()


# ---------------------------------------------------------------------------------------------
# Inside


def confine(limits: Limits, slot: int) -> tuple[str, ...]:
    """Give up, in this process and for ever, what foreign code must not have; the layers' names.

    Raises:
        OSError: it cannot be given up; then nothing foreign may run.
    """
    from course.grading import seccomp  # the staff's folder is on sys.path by now

    be_reaper(True)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(*[FIRST_USER + slot] * 3)
        os.setresuid(*[FIRST_USER + slot] * 3)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a new user clears it
    for kind, value in (
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, limits.memory_mib * MIB),
        (resource.RLIMIT_FSIZE, limits.file_mib * MIB),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    if not seccomp.supported():
        return ()
    if not seccomp.install():
        raise OSError("the filter of system calls cannot be put in place")
    return ("filters of system calls",)


def confine_task() -> None:
    """Give up, in the process of one task, what would reach its neighbours.

    Raises:
        OSError: it cannot be given up.
    """
    from course.grading import seccomp

    os.nice(10)  # the grader and whatever else runs here go first
    if seccomp.supported() and not seccomp.install(task_only=True):
        raise OSError("the task's filter of system calls cannot be put in place")
