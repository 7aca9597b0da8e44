"""Run one program that runs foreign code: what is around it, what it may use, and when it ends.

Around it is bubblewrap, or on Gradescope only another user. All limits are set and watched from
outside. Memory is what the kernel counts for a control group, where this user can make one: also
memory that belongs to no process. Elsewhere only each process has its limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

STOP = threading.Event()  # set where this grader is asked to end: all sandboxes end, too
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
ENVIRONMENT |= {"HOME": "/tmp", "TMPDIR": "/tmp"}
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")  # what is shown of this machine
MIB = 2**20
PRINTED = 64 * 1024  # bytes that are kept of what a program prints
# Control groups in versions 1 and 2: where they are, their limits, and whether they have killed
GROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
GROUP_LIMITS = ("memory.max", "memory.swap.max")
GROUP_LIMITS += ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
GROUP_EVENTS = ("memory.events", "memory.oom_control")
JOIN = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"']  # a group, then a command
# Users that no account has, below the 65,536 that a container may have. Each run has another one,
# since the kernel counts, and ends, processes by user; another grading begins elsewhere.
_FIRST = 60_000 + secrets.randbelow(4_000)
_USERS = itertools.cycle(range(_FIRST, _FIRST + 1_000))


@dataclass(frozen=True)
class Limits:
    """What a sandboxed program may use."""

    wall_s: float = 180.0
    cpu_s: int = 100  # of each process
    memory_mib: int = 3072  # address space of each process
    total_mib: int = 4096  # memory of all of them, where there are control groups
    file_mib: int = 16  # of each file, also the answer, and of the temporary folder
    processes: int = 24  # and threads
    open_files: int = 256

    def command(self) -> list[str]:
        """What starts a program, and all that it starts, under the limits of each process."""
        return [
            "prlimit",
            f"--cpu={self.cpu_s}:{self.cpu_s + 1}",  # first a signal that says why
            f"--as={self.memory_mib * MIB}",
            f"--fsize={self.file_mib * MIB}",
            f"--nproc={self.processes}",
            f"--nofile={self.open_files}",
            "--core=1",  # with 0, core(5) still starts a program of the machine's
        ]


class Bubblewrap:
    """Namespaces of its own: it sees Python, its folders read-only, a small folder in memory."""

    @contextlib.contextmanager
    def around(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits, user: int | None
    ) -> Iterator[list[str]]:
        """The command that runs a command inside, as a user; when it ends, the kernel ends all."""
        # the program is the first process inside, whom nobody there can kill; there is no /proc
        wrap = ["bwrap", "--as-pid-1", "--die-with-parent"]
        for name in SYSTEM:
            wrap += ["--ro-bind-try", name, name]
        wrap += ["--dev", "/dev"]
        wrap += ["--perms", "1777", "--size", str(limits.file_mib * MIB), "--tmpfs", "/tmp"]
        for path in (*python_folders(), *readable):
            for parent in reversed(path.parents[:-1]):  # else only root could pass through them
                wrap += ["--perms", "0755", "--dir", str(parent)]
            wrap += ["--ro-bind", str(path), str(path)]
        wrap += ["--remount-ro", "/dev", "--remount-ro", "/"]  # else a second place to fill
        wrap += ["--chdir", "/tmp"]
        if user is None:
            wrap += ["--unshare-all", "--uid", "65534", "--gid", "65534"]
        else:
            wrap += [f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup-try")]
            wrap += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", *as_user(user)]
        yield [*wrap, *limits.command(), *command]

    def reaches(self, path: Path) -> bool:
        """Whether the program could read a file or a folder of ours."""
        seen = [Path(name).resolve() for name in (*SYSTEM, *python_folders())]
        return any(path.resolve().is_relative_to(folder) for folder in seen)


class ChangeOfUser:
    """Another user and no more, for Gradescope's containers, which hold a single submission."""

    @contextlib.contextmanager
    def around(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits, user: int
    ) -> Iterator[list[str]]:
        """As above; all processes of the user are ended, whatever parent or session they have."""
        folder = tempfile.mkdtemp(prefix="minbert-run-")
        os.chown(folder, user, user)
        try:
            yield ["env", f"TMPDIR={folder}", *as_user(user), *limits.command(), *command]
        finally:
            # one call of the kernel, in which none of them can fork
            for end in ([*as_user(user), "sh", "-c", "kill -9 -1"], ["rm", "-rf", folder]):
                subprocess.run(end, capture_output=True, check=False)

    def reaches(self, path: Path) -> bool:
        """As above; who may pass a folder can open what is in it if its name is known."""
        test = ["test", "-r", str(path.resolve()), "-o", "-x", str(path.resolve())]
        return subprocess.run([*as_user(next(_USERS)), *test], check=False).returncode != 1


Isolation = Bubblewrap | ChangeOfUser


def as_user(user: int) -> list[str]:
    """What runs a command as a user without any rights."""
    ids = [f"--reuid={user}", f"--regid={user}"]
    return ["setpriv", *ids, "--clear-groups", "--no-new-privs"]


def python() -> str:
    """The path of this interpreter, without ``..``, through which bubblewrap finds no way."""
    return os.path.abspath(sys.executable)  # its links say which environment it belongs to


def python_folders() -> list[Path]:
    """Where the interpreter and its packages are."""
    folders = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    paths = dict.fromkeys(Path(os.path.abspath(folder)) for folder in folders)
    return [path for path in paths if not path.is_relative_to("/usr")]


@contextlib.contextmanager
def memory_group(limits: Limits) -> Iterator[Path | None]:
    """A control group with a limit of memory; None where this user cannot make one."""
    top = next((top for top in GROUPS if (top / "cgroup.procs").exists()), GROUPS[0])
    group = top / f"minbert-grading-{os.getpid()}-{secrets.token_hex(4)}"
    with contextlib.suppress(OSError):
        group.mkdir()
    try:
        paths = [path for name in GROUP_LIMITS if (path := group / name).exists()]
        for path in paths:
            path.write_text(str(limits.total_mib * MIB))
        yield group if paths else None
    finally:
        end = time.monotonic() + 10
        while group.exists() and time.monotonic() < end:  # until its last process is gone
            with contextlib.suppress(OSError):
                group.rmdir()
            time.sleep(0.01)


def has_too_much(group: Path | None) -> bool:
    """Whether a control group has met its limit."""
    paths = [group / name for name in GROUP_EVENTS] if group else []
    texts = [path.read_text() for path in paths if path.exists()]
    return bool(texts) and "oom_kill 0\n" not in "".join(texts)


def run(
    command: Sequence[str],
    request: bytes,
    readable: Sequence[Path],
    limits: Limits,
    isolation: Isolation,
) -> tuple[str, bytes, str]:
    """Run a command of ours that runs foreign code; nothing of it runs on afterwards.

    The request is its standard input; the readable folders have to be open to other users.

    Returns:
        "ended", "timeout" or "memory"; its answer; the end of what it printed.
    """
    user = next(_USERS) if os.geteuid() == 0 else None  # else this program cannot change it
    with contextlib.ExitStack() as opened:
        # files, not pipes: nobody has to read on, or waits for who holds an end
        asked, answer, printed = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        asked.write(request)
        asked.seek(0)
        fcntl.lockf(asked, fcntl.LOCK_EX)  # until this process ends, which worker.py looks for
        group = opened.enter_context(memory_group(limits))
        wrapped = opened.enter_context(isolation.around(command, readable, limits, user))
        process = subprocess.Popen(
            [*JOIN, group, *wrapped] if group else wrapped,
            stdin=asked,
            stdout=answer,
            stderr=printed,
            cwd="/tmp",
            env=ENVIRONMENT,
            start_new_session=True,
        )
        end, status = time.monotonic() + limits.wall_s, ""
        try:
            while not status:
                if STOP.is_set():
                    raise KeyboardInterrupt
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
                if has_too_much(group):
                    status = "memory"
                elif process.returncode is not None:
                    status = "ended"
                elif time.monotonic() > end:
                    status = "timeout"
        finally:
            with contextlib.suppress(ProcessLookupError):  # bubblewrap may not kill another user's
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        answer.seek(0)
        printed.seek(0)
        return status, answer.read(), printed.read()[-PRINTED:].decode("utf-8", "replace")
