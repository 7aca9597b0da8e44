REPOSITORY = ""  # what `git clone` takes: https://github.com/GROUP/minbert.git

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


class Stop(Exception):
    """Ends a run of all cells with one line instead of a traceback."""

    def _render_traceback_(self):
        return [f"STOP: {self}"]


def run(*command):
    """Whether a command succeeds, and the last line it writes to stderr, without passwords."""
    os.environ["GIT_TERMINAL_PROMPT"] = "0"
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    last = (done.stderr.split("\n")[-2:] or [""])[0]
    return not done.returncode, re.sub("//[^/@ ]*@", "//", last)


# Here, around the folder of the notebook, or where an earlier run of this cell has cloned it to
places = (Path.cwd(), Path.cwd().parent, Path.cwd() / "minbert")
root = next((place for place in places if (place / "sanity_check.py").is_file()), places[-1])
if not (root / "sanity_check.py").is_file():
    if not REPOSITORY:
        raise Stop("fill in REPOSITORY above, and run this cell again")
    if not shutil.which("git"):
        raise Stop(f"git is not installed; unpack the handout into {root}, and run this cell again")
    is_cloned, reason = run("git", "clone", "--quiet", REPOSITORY, str(root))
    if not is_cloned:
        raise Stop(
            f"cannot clone ({reason}); turn the network on, or unpack the handout into {root}"
        )
os.chdir(root)
sys.path[:0] = [str(root)] * (str(root) not in sys.path)
installed = {found.name.replace("_", "-") for found in importlib.metadata.distributions()}
lines = Path("requirements.txt").read_text().split()  # any version will do
missing = [x for x in lines if x.partition("==")[0].replace("_", "-") not in installed]
if missing and not run(sys.executable, "-m", "pip", "install", "--quiet", *missing)[0]:
    raise Stop(f"cannot install {', '.join(missing)}; turn the network on, and run this cell again")

import torch

FLAGS = "--use_gpu" if torch.cuda.is_available() else ""
FLAGS += " " + os.environ.get("MINBERT_NOTEBOOK_FLAGS", "")
