"""The fixtures of tests/fixtures.py, for the tests of this folder, and one for the sandbox."""

import shutil

import pytest
from fixtures import (  # noqa: F401
    check_here,
    run_script_here,
    tiny_data,
    tiny_model_folder,
)

from course.grading.sandbox import isolation


@pytest.fixture(scope="session")
def fit_sandbox() -> None:
    """Skips, with the remedy, where this machine cannot grade foreign code."""
    why = "apt install bubblewrap"
    if shutil.which("bwrap"):
        command = [isolation.python(), "-I", "-c", "import safetensors; print(1)"]
        bubblewrap = isolation.Bubblewrap()
        _, answer, why = isolation.run(command, b"", [], isolation.Limits(), bubblewrap)
        if answer == b"1\n":
            return
    pytest.skip(f"NOTHING IS GRADED HERE: {why}")
