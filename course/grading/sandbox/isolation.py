"""What is put around a sandboxed program: bubblewrap, or on Gradescope only another user.

Each class says how a command is wrapped, what the program can then read, and why it cannot be used
on this machine. What the program may use is in confine.py.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from course.grading.sandbox.confine import MIB, Limits

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")  # what is shown of this machine
PROBE = "import safetensors"  # in Python's own packages folder, and quick to import
# Users that no account has, below the 65,536 that a container may have. Each run has another one,
# since the kernel counts, and ends, processes by user.
_FIRST = 62_000 + secrets.randbelow(3_000)  # another grading on this machine begins elsewhere
_USERS = itertools.cycle([*range(_FIRST, 65_000), *range(62_000, _FIRST)])


def new_user() -> int | None:
    """A user for one run; None where this program cannot change its user."""
    return next(_USERS) if os.geteuid() == 0 else None


def as_user(user: int) -> list[str]:
    """What runs a command as a user without any rights."""
    ids = [f"--reuid={user}", f"--regid={user}"]
    return ["setpriv", *ids, "--clear-groups", "--no-new-privs"]


class Bubblewrap:
    """Namespaces of its own: it sees Python, its folders read-only, a small folder in memory."""

    def problems(self) -> list[str]:
        """Why it cannot be used on this machine, each reason with the remedy."""
        if not shutil.which("bwrap"):
            return ["bubblewrap is not installed: apt install bubblewrap"]
        start = [sys.executable, "-I", "-B", "-c", PROBE]
        with self.around(start, [], Limits(), new_user()) as command:
            probe = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = " ".join(probe.stderr.split())[-300:]
        failed = f"bubblewrap cannot run Python here ({reason}): see docs/threat-model.md"
        return [failed] if probe.returncode else []

    @contextlib.contextmanager
    def around(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits, user: int | None
    ) -> Iterator[list[str]]:
        """The command that runs a command inside, as a user; when it ends, the kernel ends all."""
        # the program is the first process inside, whom nobody there can kill; there is no /proc
        wrap = ["bwrap", "--as-pid-1", "--die-with-parent", "--clearenv"]
        for name, value in {**ENVIRONMENT, "TMPDIR": "/tmp"}.items():
            wrap += ["--setenv", name, value]
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

    def problems(self) -> list[str]:
        """As above."""
        return [] if os.geteuid() == 0 else ["Gradescope's harness has to be run as root"]

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


def problems(isolation: Isolation) -> list[str]:
    """Why foreign code cannot be graded on this machine, each reason with the remedy."""
    return isolation.problems()


def python_folders() -> list[Path]:
    """Where the interpreter and its packages are."""
    folders = map(Path, (sys.prefix, sys.base_prefix, Path(sys.executable).resolve().parent))
    return [path for path in dict.fromkeys(folders) if not path.is_relative_to("/usr")]


def layers(isolation: Isolation) -> list[str]:
    """What is around a program, by name."""
    own_user = ["own user"] * (os.geteuid() == 0)
    namespaces = ["bubblewrap: own files, processes, network"] * isinstance(isolation, Bubblewrap)
    return ["fresh interpreter", "own environment", "limits", *own_user, *namespaces]
