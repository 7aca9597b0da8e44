"""What is put around a sandboxed program: bubblewrap, a container, or only another user.

Each says how a command is wrapped, what the program can then see, and why it cannot be used here.
``table`` shows staff all layers of this machine. It does not know what is run, nor the limits that
are watched (sandbox.py) or given up from inside (confine.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from course.grading.sandbox import cgroups, seccomp
from course.grading.sandbox.confine import MIB, Limits
from course.grading.sandbox.processes import ENVIRONMENT, as_user

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")  # what is shown of ours
PODMAN_FILES = Path("/var/lib/minbert-grading")
FILTER = """
import sys
sys.path.insert(0, sys.argv[1])
from course.grading.sandbox import seccomp
sys.exit(not seccomp.install())
"""


class AnotherUser:
    """Nothing around the program; as root it runs as a user of its own, who may read open files."""

    name = "another user"
    install = ""
    namespaces = False  # whether files, processes and network are its own
    temporary = ""  # where it finds its own folder; "": at the folder's own path

    def problems(self) -> list[str]:
        """Why it cannot be used on this machine, each with the remedy."""
        if os.geteuid() != 0:
            return ["submitted code would run as you do: apt install bubblewrap, or grade as root"]
        found = [_closed_python("apt install bubblewrap, or "), _closed_temporary()]
        return [problem for problem in found if problem]

    def wrapped(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits, slot: int
    ) -> list[str]:
        """The command that runs a command inside.

        Args:
            readable: folders of ours that it has to see.
        """
        return list(command)

    def reaches(self, path: Path, slot: int = 0) -> bool:
        """Whether the program could read a file, or list or only pass a folder, of ours."""
        if os.geteuid() != 0:
            return True  # it is the same user
        # who may pass a folder can open what is in it if its name is known
        test = ["test", "-r", str(path.resolve()), "-o", "-x", str(path.resolve())]
        try:
            done = subprocess.run(test, check=False, env=ENVIRONMENT, **as_user(slot))
        except (OSError, subprocess.SubprocessError):  # this root cannot become another user
            return True
        return done.returncode == 0

    def end(self, slot: int) -> None:
        """End what killing processes does not."""


class Bubblewrap(AnotherUser):
    """Namespaces of its own: it sees Python, its folders read-only, a small folder in memory."""

    name = "bubblewrap"
    install = "apt install bubblewrap"
    namespaces = True
    temporary = "/tmp"

    def problems(self) -> list[str]:
        """As above."""
        if not shutil.which("bwrap"):
            return [f"bubblewrap is not installed: {self.install}"]
        if not _can_bubblewrap():
            return ["this kernel lets bubblewrap make no namespaces: see docs/threat-model.md"]
        return [problem] if (problem := _closed_python("", inside=True)) else []

    def wrapped(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits, slot: int
    ) -> list[str]:
        """As above."""
        # the program is the first process inside: else one of bubblewrap's is, which holds the
        # answers' pipe and, without root, belongs to the same user
        wrap = ["bwrap", *_namespaces(), "--as-pid-1", "--die-with-parent", "--new-session"]
        wrap += ["--clearenv"]
        for name, value in {**ENVIRONMENT, "TMPDIR": self.temporary}.items():
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
        return [*wrap, "--chdir", "/tmp", *command]

    def reaches(self, path: Path, slot: int = 0) -> bool:
        """As above."""
        seen = [Path(name).resolve() for name in (*SYSTEM, *map(str, python_folders()))]
        return any(path.resolve().is_relative_to(folder) for folder in seen)


class Podman(Bubblewrap):
    """A container for each run: the same view, and limits of memory and processes by the kernel.

    It has no image: its root is an empty folder, into which the same folders are mounted.
    """

    name = "podman"
    install = "apt install podman runc"

    def problems(self) -> list[str]:
        """As above."""
        if os.geteuid() != 0:
            return ["--isolation podman is for root: use bubblewrap, or grade as root"]
        if not shutil.which("podman"):
            return [f"podman is not installed: {self.install}"]
        nobodys = -os.getpid()  # a container of the same name as another grading's would end that
        command = self.wrapped(["/bin/true"], [], Limits(), nobodys)
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        self.end(nobodys)
        if tried.returncode:
            said = " ".join(tried.stderr.split())[-200:]
            return [f"podman cannot start a container here ({said}): {self.install}"]
        return [problem] if (problem := _closed_python("", inside=True)) else []

    def wrapped(
        self, command: Sequence[str], readable: Sequence[Path], limits: Limits, slot: int
    ) -> list[str]:
        """As above."""
        wrap = ["podman", *_podman_runtime(), "run", "--rm", "-i", "--name", f"grading-{slot}"]
        wrap += [
            "--conmon-pidfile",
            str(_monitor(slot)),
            "--replace",
            "--network",
            "none",
            "--read-only",
            "--read-only-tmpfs=false",
        ]
        wrap += ["--cap-drop", "all", "--cap-add", "setuid", "--cap-add", "setgid"]
        wrap += ["--security-opt", "no-new-privileges", "--ipc", "none", "--workdir", "/tmp"]
        wrap += ["--memory", f"{limits.total_mib}m", "--memory-swap", f"{limits.total_mib}m"]
        wrap += ["--pids-limit", str(limits.processes + 8), "--log-driver", "none"]
        for name, most in (("nofile", limits.open_files), ("nproc", 1024), ("core", 1)):
            wrap += ["--ulimit", f"{name}={most}:{most}"]
        wrap += ["--unsetenv-all", "--no-hosts"]
        for name, value in {**ENVIRONMENT, "TMPDIR": self.temporary}.items():
            wrap += ["--env", f"{name}={value}"]
        wrap += ["--tmpfs", f"/tmp:size={limits.file_mib}m,mode=1777"]
        shown = [*filter(os.path.exists, SYSTEM), *map(str, (*python_folders(), *readable))]
        for path in shown:
            wrap += ["--volume", f"{path}:{path}:ro"]
        return [*wrap, "--rootfs", str(_empty_root()), *command]

    def end(self, slot: int) -> None:
        """Remove the container, which is no child of the command that started it."""
        remove = ["podman", *_podman_runtime(), "rm", "--force", "--time", "0", "--ignore"]
        subprocess.run([*remove, f"grading-{slot}"], capture_output=True, check=False)
        with contextlib.suppress(OSError, ValueError):  # it has not started, or is not our child
            os.waitpid(int(_monitor(slot).read_text()), 0)
        _monitor(slot).unlink(missing_ok=True)


KINDS = {kind.name: kind for kind in (Bubblewrap, Podman)}


def best() -> AnotherUser:
    """Bubblewrap where it can be used, else what is left."""
    return Bubblewrap() if _can_bubblewrap() else AnotherUser()


def flags() -> list[str]:
    """Of grade.py, for what is best here."""
    return [] if best().namespaces else ["--without-bubblewrap"]


@cache
def _can_bubblewrap() -> bool:
    """Whether bubblewrap is installed and this kernel lets this user use it."""
    if not shutil.which("bwrap"):
        return False
    command = ["bwrap", *_namespaces(), "--ro-bind", "/", "/", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _namespaces() -> list[str]:
    """What bubblewrap replaces; of users nothing for root, who becomes the slot's user."""
    if os.geteuid() != 0:
        return ["--unshare-all", "--uid", "65534", "--gid", "65534"]
    kinds = ("ipc", "pid", "net", "uts", "cgroup-try")
    rights = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
    return [*(f"--unshare-{kind}" for kind in kinds), *rights]


@cache
def _podman_runtime() -> tuple[str, ...]:
    """Options that let podman do without systemd; runc also knows control groups of version 1."""
    runtime = ("--runtime", "runc") if shutil.which("runc") else ()
    return ("--cgroup-manager", "cgroupfs", *runtime)


def _empty_root() -> Path:
    """An empty folder that is a container's root; podman makes the places of mounts in it."""
    folder = PODMAN_FILES / "root"
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    (folder / "tmp").chmod(0o1777)  # runc gives it to what is mounted there
    return folder


def _monitor(slot: int) -> Path:
    """Where podman writes the number of the process that watches the container."""
    return PODMAN_FILES / f"monitor-{slot}"


# ---------------------------------------------------------------------------------------------
# What is refused, and what there is


def problems(kind: AnotherUser) -> list[str]:
    """Why foreign code cannot be graded on this machine, each reason with the remedy."""
    found = kind.problems()
    if os.geteuid() == 0 and not _can_be_another_user():
        found.append(
            "this root cannot become another user (no CAP_SETUID, or a user namespace without "
            f"numbers from {as_user(0)['user']}): grade as an ordinary user with bubblewrap"
        )
    if seccomp.supported() and not _can_filter():
        found.append("this kernel takes no filter of system calls (seccomp): use another machine")
    return found


@cache
def _can_be_another_user() -> bool:
    try:
        # how it ends says nothing: another grading that cleans slot 0 kills all of that user's
        subprocess.run(["/bin/true"], check=False, **as_user(0))
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@cache
def _can_filter() -> bool:
    command = [sys.executable, "-I", "-B", "-c", FILTER, str(Path(__file__).parents[3])]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _closed_python(remedy: str, inside: bool = False) -> str:
    """What keeps the slots' users from Python and its packages; "": nothing.

    pyenv, uv and conda put Python into a home, which may have mode 0700. It starts all the same,
    since it becomes the slot's user only later, and then finds nothing that it has not loaded yet.

    Args:
        inside: whether the parents of the folders that are shown are made, open to all.
    """
    paths = sysconfig.get_paths()
    needed = [Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    shown = [*python_folders()] if inside else [Path("/")]
    if not (folder := closed_folder(needed, shown)):
        return ""
    remedy += "take a Python that all users may read (/usr/bin/python3 -m venv /opt/grader)"
    return f"submitted code may not enter {folder}, where Python ({sys.prefix}) lies: {remedy}"


def _closed_temporary() -> str:
    """The same of temporary files."""
    place = Path(tempfile.gettempdir())
    if not (folder := closed_folder([place], [Path("/")])):
        return ""
    return f"submitted code may not enter {folder}: set TMPDIR, now {place}, to a folder as /tmp is"


def closed_folder(needed: Sequence[Path], shown: Sequence[Path]) -> Path | None:
    """The first folder that keeps the slots' users from what they need; None: none does.

    Args:
        shown: only folders below these keep anybody from anything.
    """
    if os.geteuid() != 0:
        return None  # the user who grades is the one who runs the sandbox
    parts = [part for path in needed for part in (*reversed(path.parents), path) if part.is_dir()]
    parts = [part for part in parts if any(part.is_relative_to(folder) for folder in shown)]
    return next((part for part in parts if not part.stat().st_mode & stat.S_IXOTH), None)


def python_folders() -> Iterator[Path]:
    """Where the interpreter and its packages lie."""
    for name in dict.fromkeys(
        (sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent))
    ):
        if not Path(name).is_relative_to("/usr"):
            yield Path(name)


def layers(kind: AnotherUser) -> tuple[str, ...]:
    """The names of the layers that are active here; the program adds its own."""
    names = ["fresh interpreter", "no inherited descriptors or environment", "limits", "own group"]
    if os.geteuid() == 0:
        names.append("own user")
    if kind.namespaces:
        names.append(f"{kind.name}: own files, processes, network")
    if kind.name == "podman" or cgroups.parent():
        names.append("control group: memory")
    return tuple(names)


def table(kind: AnotherUser) -> list[str]:
    """Lines for staff: each layer, whether it is there, and what would bring it."""
    root = os.geteuid() == 0
    limited = kind.name == "podman" or cgroups.parent()
    rows = [
        ("own interpreter, descriptors, limits of each process", True, ""),
        ("own user for each submission", root, "grade as root"),
        ("own files, processes, network", kind.namespaces, Bubblewrap.install),
        ("temporary files in memory, with a quota", kind.namespaces, Bubblewrap.install),
        ("memory of all together, by the kernel", limited, "root, and a writable /sys/fs/cgroup"),
        ("filters of system calls", seccomp.supported(), "Linux on x86-64 or arm64"),
    ]
    lines = [f"layers ({kind.name}):"]
    return lines + [
        f"  {'yes' if there else 'no ':5}{what:55}{'' if there else remedy}".rstrip()
        for what, there, remedy in rows
    ]
