"""What is put around a sandboxed program: bubblewrap or, where staff choose it, podman.

Each class says how a command is wrapped, what the program can then read, how it is stopped, and why
it cannot be used on this machine. ``ChangeOfUser`` is for Gradescope alone, whose container is
thrown away after each submission. What the program gives up from inside is in confine.py.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from course.grading.sandbox import confine
from course.grading.sandbox.confine import MIB, Limits

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")  # what is shown of this machine
PODMAN_ROOT = Path("/var/lib/minbert-grading/root")  # an empty folder
PROBE = "import safetensors"  # in Python's own packages folder, and quick to import
PROBE_SECONDS = 120
# Users that no account has, below the 65,536 that a container may have. Programs that run at the
# same time have different ones, since the kernel counts processes by user.
_FIRST = 62_000 + secrets.randbelow(3_000)  # another grading on this machine begins elsewhere
_USERS = itertools.cycle([*range(_FIRST, 65_000), *range(62_000, _FIRST)])


def as_another_user(user: int) -> list[str]:
    """What runs a command as a user without any rights, where this one is root."""
    ids = [f"--reuid={user}", f"--regid={user}"]
    return ["setpriv", *ids, "--clear-groups", "--no-new-privs"]


class Bubblewrap:
    """Namespaces of its own: it sees Python, its folders read-only, a small folder in memory."""

    name = "bubblewrap"
    program = "bwrap"
    install = "apt install bubblewrap"

    def problems(self) -> list[str]:
        """Why it cannot be used on this machine, each reason with the remedy."""
        if not shutil.which(self.program):
            return [f"{self.name} is not installed: {self.install}"]
        start = [sys.executable, "-I", "-B", "-c", PROBE]
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        with self.around(start, [], Limits()) as command:
            try:
                probe = subprocess.run(command, timeout=PROBE_SECONDS, check=False, **options)
            except subprocess.TimeoutExpired:
                return [f"{self.name} does not start Python within {PROBE_SECONDS} s"]
        if probe.returncode == 0:
            return []
        reason = " ".join(probe.stderr.split())[-300:]
        return [f"{self.name} cannot run Python here ({reason}): see docs/threat-model.md"]

    @contextlib.contextmanager
    def around(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits
    ) -> Iterator[list[str]]:
        """The command that runs a command inside; afterwards nothing of it is left.

        Args:
            readable: folders of ours that it has to see.
        """
        # the program is the first process inside, whom nobody there can kill
        wrap = ["bwrap", "--as-pid-1", "--die-with-parent", "--clearenv"]
        for name, value in {**ENVIRONMENT, "TMPDIR": "/tmp"}.items():
            wrap += ["--setenv", name, value]
        for name in SYSTEM:
            wrap += ["--ro-bind-try", name, name]
        # who maps /dev/zero has memory that no process need hold
        wrap += ["--proc", "/proc", "--dev", "/dev", "--dev-bind", "/dev/null", "/dev/zero"]
        wrap += ["--perms", "1777", "--size", str(limits.file_mib * MIB), "--tmpfs", "/tmp"]
        for path in (*python_folders(), *readable):
            for parent in reversed(path.parents[:-1]):  # else only root could pass through them
                wrap += ["--perms", "0755", "--dir", str(parent)]
            wrap += ["--ro-bind", str(path), str(path)]
        wrap += ["--remount-ro", "/dev", "--remount-ro", "/"]  # else a second place to fill
        wrap += ["--chdir", "/tmp"]
        if os.geteuid() != 0:
            yield [*wrap, "--unshare-all", "--uid", "65534", "--gid", "65534", *command]
            return
        for kind in ("ipc", "pid", "net", "uts", "cgroup-try"):
            wrap += [f"--unshare-{kind}"]
        for right in ("CAP_SETUID", "CAP_SETGID"):
            wrap += ["--cap-add", right]
        yield [*wrap, *as_another_user(next(_USERS)), *command]

    def reaches(self, path: Path) -> bool:
        """Whether the program could read a file or a folder of ours."""
        seen = [Path(name).resolve() for name in (*SYSTEM, *python_folders())]
        return any(path.resolve().is_relative_to(folder) for folder in seen)


class Podman(Bubblewrap):
    """A container for each run: the same view, and limits of memory and processes by the kernel.

    It has no image: its root is an empty folder, into which the same folders are mounted.
    """

    name = program = "podman"
    install = "apt install podman runc"

    def problems(self) -> list[str]:
        """As above."""
        if os.geteuid() != 0:
            return ["--isolation podman is for root: use bubblewrap, or grade as root"]
        return super().problems()

    @contextlib.contextmanager
    def around(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits
    ) -> Iterator[list[str]]:
        """As above."""
        (PODMAN_ROOT / "tmp").mkdir(parents=True, exist_ok=True)
        (PODMAN_ROOT / "tmp").chmod(0o1777)  # runc gives it to what is mounted there
        container, user = f"grading-{secrets.token_hex(8)}", next(_USERS)
        wrap = ["--rm", "-i", "--name", container, "--user", f"{user}:{user}"]
        wrap += ["--network", "none", "--ipc", "none", "--no-hosts", "--unsetenv-all"]
        wrap += ["--read-only", "--read-only-tmpfs=false", "--workdir", "/tmp"]
        wrap += ["--cap-drop", "all", "--security-opt", "no-new-privileges"]
        wrap += ["--memory", f"{limits.total_mib}m", "--memory-swap", f"{limits.total_mib}m"]
        wrap += ["--pids-limit", str(limits.processes + 8), "--log-driver", "none"]
        for name, most in (("nofile", limits.open_files), ("nproc", 1024), ("core", 1)):
            wrap += ["--ulimit", f"{name}={most}:{most}"]
        for name, value in {**ENVIRONMENT, "TMPDIR": "/tmp"}.items():
            wrap += ["--env", f"{name}={value}"]
        wrap += ["--tmpfs", f"/tmp:size={limits.file_mib}m,mode=1777"]
        for path in (*filter(os.path.exists, SYSTEM), *python_folders(), *readable):
            wrap += ["--volume", f"{path}:{path}:ro"]
        try:
            yield [*podman(), "run", *wrap, "--rootfs", str(PODMAN_ROOT), *command]
        finally:  # the container is not a child of the command that started it
            remove = [*podman(), "rm", "--force", "--time", "0", "--ignore", container]
            subprocess.run(remove, capture_output=True, check=False)


class ChangeOfUser:
    """Nothing around the program but another user, who may read whatever is open to all.

    Only for a container that holds a single submission and is thrown away after it: Gradescope's.
    """

    name = "another user"
    user = 62_000

    def problems(self) -> list[str]:
        """As above."""
        return [] if os.geteuid() == 0 else ["Gradescope's harness has to be run as root"]

    @contextlib.contextmanager
    def around(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits
    ) -> Iterator[list[str]]:
        """As above."""
        yield [*as_another_user(self.user), *command]

    def reaches(self, path: Path) -> bool:
        """As above; who may pass a folder can open what is in it if its name is known."""
        test = ["test", "-r", str(path.resolve()), "-o", "-x", str(path.resolve())]
        tried = subprocess.run([*as_another_user(self.user), *test], check=False)
        return tried.returncode != 1


Isolation = Bubblewrap | ChangeOfUser
KINDS = {kind.name: kind for kind in (Bubblewrap, Podman)}


def problems(isolation: Isolation) -> list[str]:
    """Why foreign code cannot be graded on this machine, each reason with the remedy."""
    return [*isolation.problems(), *confine.problems()]


def stop(process: subprocess.Popen) -> None:
    """End a wrapped command that leads a session of its own, and with it all that it has started.

    Its first process inside belongs to the same group; when that one ends the kernel ends the rest.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def podman() -> list[str]:
    """Podman without systemd; runc also knows control groups of version 1."""
    runtime = ["--runtime", "runc"] if shutil.which("runc") else []
    return ["podman", "--cgroup-manager", "cgroupfs", *runtime]


def python_folders() -> list[Path]:
    """Where the interpreter and its packages are."""
    folders = map(Path, (sys.prefix, sys.base_prefix, Path(sys.executable).resolve().parent))
    return [path for path in dict.fromkeys(folders) if not path.is_relative_to("/usr")]


def layers(isolation: Isolation) -> list[str]:
    """What is around a program and what it gives up, by name: without one of them nothing runs."""
    names = ["fresh interpreter", "no inherited descriptors or environment", "limits"]
    if os.geteuid() == 0:
        names.append("own user")
    if isinstance(isolation, Bubblewrap):
        names.append(f"{isolation.name}: own files, processes, network")
    return [*names, "filters of system calls"]
