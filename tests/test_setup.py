"""setup.sh with stand-ins for Python, pip and conda: it must never hurt the shell that reads it.

The stand-in Python makes real virtual environments, whose pip only notes what it is asked for.
Nothing is fetched.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from factories import ROOT

from training.files import download

TOOLS = ("bash", "zsh", "cat", "chmod", "dirname", "grep", "mkdir", "rm", "sed", "uname")
NO_ZSH = pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here: only bash is tried")
SHELLS = ["bash", pytest.param("zsh", marks=NO_ZSH)]

# Stands in for pip, inside the virtual environments. Fails where $PIP_FAILS is on its command line.
FAKE_PIP = """
import os, pathlib, sys
here = pathlib.Path(__file__).parent.parent
line = " ".join(a for a in sys.argv[1:] if not a.startswith("--disable"))
if line == "--version":
    sys.exit()
with open(os.environ["LOG"], "a") as log:
    log.write(f"pip {line}\\n")
if os.environ.get("PIP_FAILS", "nothing") in line:
    sys.exit("pip: no network")
for name in ("numpy", "torch"):
    (here / f"{name}.py").write_text("__version__ = '2'\\n")
"""

# Stands in for a Python on PATH: makes an environment without pip in 0.1 s, adds the fake one.
FAKE_PYTHON = f"""#!/bin/sh
if [ "$1 $2" != "-m venv" ]; then exec "{sys._base_executable}" "$@"; fi
echo "venv" >> "$LOG"
[ -z "$VENV_FAILS" ] || exit 1
"{sys._base_executable}" "$@" --without-pip || exit 1
for last in "$@"; do :; done
for site in "$last"/lib/python3*/site-packages; do
    mkdir "$site/pip"
    cat > "$site/pip/__main__.py" <<'PIP'
{FAKE_PIP}
PIP
done
"""

# Stands in for conda: its one environment is a virtual environment made by the fake Python.
FAKE_CONDA = """#!/bin/sh
echo "conda $*" >> "$LOG"
env="$CONDA_ROOT/envs/dnlp"
case "$1" in
    create) [ -z "$CONDA_FAILS" ] || exit 1
            python3.12 -m venv "$env" ;;
    run) [ -x "$env/bin/python" ] || exit 1
         shift 3
         export CONDA_PREFIX="$env" PATH="$env/bin:$PATH"
         exec "$@" ;;
    *hook) ;;
    shell.*) echo 'conda() { [ "$1" != activate ] || { CONDA_DEFAULT_ENV=$2'
             echo "PATH=$env/bin:\\$PATH; }; }" ;;
esac
"""


class Sandbox:
    """A copy of what setup.sh touches, with a PATH on which there are only stand-ins."""

    def __init__(self, folder: Path):
        self.root = folder / "a repository"  # folders of students have blanks
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.elsewhere = folder / "elsewhere"
        for path in (self.root, self.bin, self.elsewhere):
            path.mkdir()
        for name in ("setup.sh", "requirements.txt"):
            shutil.copy(ROOT / name, self.root / name)
        for path, stand_in in (
            ("data/download.py", "raise SystemExit('error: offline')\n"),
            ("training/cli/scripts.py", "run_script = lambda main: main()\n"),
            ("training/files/hub.py", "find_model = lambda name: print('model: found')\n"),
        ):
            assert (ROOT / path).is_file()
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(stand_in)
        self.log.touch()
        for tool in TOOLS:
            if shutil.which(tool):
                (self.bin / tool).symlink_to(shutil.which(tool))
        self.environment = {
            "PATH": str(self.bin),
            "HOME": str(folder),
            "LOG": str(self.log),
            "CONDA_ROOT": str(folder / "conda"),
        }

    def put(self, name: str, content: str) -> None:
        """Put a command on PATH."""
        (self.bin / name).write_text(content)
        (self.bin / name).chmod(0o755)

    def run(self, script: str, shell: str = "bash", **environment) -> subprocess.CompletedProcess:
        """Run lines of shell in another folder than the repository; $SETUP names setup.sh."""
        return subprocess.run(
            [self.bin / shell, *(["-f"] if shell == "zsh" else ["--norc"]), "-c", script],
            env=self.environment | {"SETUP": str(self.root / "setup.sh")} | environment,
            cwd=self.elsewhere,
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[str]:
        """What the stand-ins were asked since the last time."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return [line.replace(str(self.root), "ROOT") for line in lines]


@pytest.fixture
def sandbox(tmp_path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    sandbox.put("python3.12", FAKE_PYTHON)
    return sandbox


INSTALLS = [
    "pip install -r ROOT/requirements.txt",
    f"pip install --no-deps {download.OFFLINE_PACKAGE}=={download.OFFLINE_VERSION}",
]


ASK_STATUS = 'source "$SETUP"; echo "status $?"'


def last(result, count: int = 1):
    """The last lines that were printed."""
    lines = result.stdout.splitlines()[-count:]
    return lines if count > 1 else lines[0]


@pytest.mark.parametrize("shell", SHELLS)
def test_sourcing_makes_the_environment_and_leaves_it_active(sandbox, shell):
    result = sandbox.run(f"{ASK_STATUS}; command -v python; pwd", shell)
    assert sandbox.asked() == ["venv", *INSTALLS]
    python = f"{sandbox.root}/.venv/bin/python"
    assert last(result, 3) == ["status 0", python, str(sandbox.elsewhere)], result.stderr
    for said in ("falling back to the practice set", "model: found", "python classifier.py "):
        assert said in result.stdout
    (sandbox.root / "bert.py").write_text("    raise NotImplementedError('Task 1.1')\n")
    result = sandbox.run(ASK_STATUS, shell, PIP_FAILS="minilm")  # which may fail
    assert last(result, 2) == ["    python sanity_check.py", "status 0"], result.stderr
    assert sandbox.asked() == INSTALLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_failing_pip_ends_no_shell_and_a_strict_one_keeps_its_options(sandbox, shell):
    """Nor does it leave anything of its own behind, also where it works the next time."""
    options = last(sandbox.run('set -eu; echo "$-"', shell))
    names = "BASH_EXECUTION_STRING= ZSH_EXECUTION_STRING=; set; typeset -f"
    script = f'{ASK_STATUS}; {names}; command -v python || echo "-"'
    result = sandbox.run(script, shell, PIP_FAILS="-r")
    assert last(result) == "-"  # not active
    assert "status 1\n" in result.stdout
    assert "_minbert" not in result.stdout
    assert sandbox.run(f'{shell} "$SETUP"', shell, PIP_FAILS="-r").returncode == 1
    sandbox.asked()
    for fails, otherwise, done in (
        ("requirements", "|| :", INSTALLS[:1]),
        ("nothing", "", INSTALLS),
    ):
        script = f'set -eu; source "$SETUP" {otherwise}; echo "$-"; {names}'
        result = sandbox.run(script, shell, PIP_FAILS=fails)
        assert options in result.stdout.splitlines(), result.stderr
        assert "_minbert" not in result.stdout
        assert sandbox.asked() == done
    result = sandbox.run('bash "$SETUP"; echo "status $?"')
    assert last(result) == "status 0", result.stderr  # a shell of its own cannot activate it
    assert "    source setup.sh\n" in result.stdout


def test_pythons_that_do_not_run_are_passed_over_and_what_failed_or_moved_is_replaced(sandbox):
    real = (sandbox.bin / "python3.12").rename(sandbox.bin / "real")
    sandbox.put("python3.13", "#!/bin/sh\nexit 127\n")  # such as pyenv's, of no chosen version
    sandbox.put("python3", "#!/bin/sh\nexit 1\n")  # says that its version is another one
    result = sandbox.run(ASK_STATUS)
    assert result.stdout.splitlines() == ["status 1"]
    assert "no Python 3.11, 3.12 or 3.13" in result.stderr
    real.rename(sandbox.bin / "python3")
    assert last(sandbox.run(ASK_STATUS, VENV_FAILS="yes")) == "status 1"
    (sandbox.root / ".venv" / "bin").mkdir(parents=True)  # what an interrupted one leaves
    result = sandbox.run(ASK_STATUS)
    assert last(result) == "status 0", result.stderr
    sandbox.asked()
    sandbox.root = sandbox.root.rename(sandbox.root.with_name("moved"))
    result = sandbox.run(f"{ASK_STATUS}; command -v python")
    assert last(result, 2) == ["status 0", f"{sandbox.root}/.venv/bin/python"]
    assert sandbox.asked() == ["venv", *INSTALLS]


@pytest.mark.parametrize("shell", SHELLS)
def test_conda_is_taken_where_it_is(sandbox, shell):
    sandbox.put("conda", FAKE_CONDA)
    result = sandbox.run(ASK_STATUS, shell, CONDA_FAILS="yes")
    assert last(result) == "status 1"
    sandbox.asked()
    result = sandbox.run(f'{ASK_STATUS}; echo "$CONDA_DEFAULT_ENV"; command -v python', shell)
    conda_python = f"{sandbox.environment['CONDA_ROOT']}/envs/dnlp/bin/python"
    assert last(result, 3) == ["status 0", "dnlp", conda_python], result.stderr
    assert not (sandbox.root / ".venv").exists()
    asked = sandbox.asked()
    assert "conda create -y -n dnlp python=3.12 pip" in asked
    assert [entry for entry in asked if entry.startswith("pip")] == INSTALLS
