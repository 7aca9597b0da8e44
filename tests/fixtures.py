"""The fixtures of all folders of tests; each conftest.py names those that it uses."""

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from factories import make_rows, save_tiny_model, write_table
from running import draw_nothing

import classifier
import sanity_check
from checks import jobs
from training.cli.scripts import run_script
from training.loop.checkpoints import ResumePoint


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory) -> Path:
    """All twelve course files, with a few rows of made-up text each. Read only."""
    folder = tmp_path_factory.mktemp("tiny-data")
    single, pair = "id sentence", "id sentence1 sentence2"
    for name, texts, label, labels in (
        ("ids-sst", 1, "sentiment", "01234"),
        ("ids-cfimdb", 1, "sentiment", "01"),
        ("quora", 2, "is_duplicate", ("0.0", "1.0")),
        ("sts", 2, "similarity", ("0.0", "2.6", "5.0", "3.25")),
    ):
        columns = single if texts == 1 else pair
        for split, count, first in (("train", 25, 0), ("dev", 11, 100)):
            rows = make_rows(count, texts, labels, first)
            write_table(folder / f"{name}-{split}.csv", f"{columns} {label}", rows)
        rows = make_rows(9, texts, first_id=200)
        write_table(folder / f"{name}-test-student.csv", columns, rows, odd_header=texts == 1)
    return folder


@pytest.fixture(scope="session")
def sst_line(tiny_model_folder, tiny_data) -> tuple[str, ...]:
    """A command line of classifier.py that finetunes on SST: 7 steps an epoch."""
    flags = "--only sst --option finetune --lr 1e-3 --batch_size 4".split()
    return (*flags, "--model", str(tiny_model_folder), "--data_dir", str(tiny_data))


@pytest.fixture
def resumable(monkeypatch) -> None:
    """Runs leave a resume point after every step; they draw nothing, nor wait for the disk."""
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (0.0,))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    draw_nothing(monkeypatch)


@pytest.fixture
def run_script_here(tmp_path, monkeypatch, capsys):
    """A function that runs a script's main() on a command line, in ``tmp_path``, in this process.

    It returns what a shell would see: code, out, err.
    """
    monkeypatch.chdir(tmp_path)

    def run(script, *arguments: str) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            run_script(script.main)
        except SystemExit as leaving:
            code = leaving.code
        said = capsys.readouterr()
        if isinstance(code, str):  # what Python itself does with sys.exit("…")
            return SimpleNamespace(code=1, out=said.out, err=f"{said.err}{code}\n")
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    deterministic = torch.are_deterministic_algorithms_enabled()
    yield run
    torch.use_deterministic_algorithms(deterministic, warn_only=True)


@pytest.fixture
def interruptible(run_script_here, resumable, sst_line) -> Callable[..., SimpleNamespace]:
    """A function that trains for two epochs of seven steps in this process."""
    return lambda *more: run_script_here(classifier, *sst_line, "--epochs", "2", *more)


@pytest.fixture
def check_here(monkeypatch, capsys) -> Iterator[Callable[..., tuple[int, list[str]]]]:
    """A function: run sanity_check.py in this process; its exit status and lines."""
    child = SimpleNamespace(run=lambda job, title: jobs.run(job), printed=list)
    monkeypatch.setattr(sanity_check, "Child", lambda limit: nullcontext(child))
    monkeypatch.setenv("COLUMNS", "1000")  # no line is broken
    for known in (jobs.fault_of_import, jobs.fault_of_model):  # of other files, perhaps
        known.cache_clear()

    def check(*arguments: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            sanity_check.main(arguments)
        return stopped.value.code, "".join(capsys.readouterr()).splitlines()

    yield check
    for known in (jobs.fault_of_import, jobs.fault_of_model):
        known.cache_clear()


IN_PAGE = """(async () => {
  const complaints = [], note = event => complaints.push(String(event.message ?? event.type));
  for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"])
    addEventListener(kind, note);
  console.error = console.warn = message => complaints.push(String(message));
  const until = async isTrue => {
    while (!isTrue()) await new Promise(done => setTimeout(done, 20));
  };
  await until(() => document.readyState === "complete");
  const made = await (async () => { LINES })();
  document.documentElement.textContent = JSON.stringify({ made, complaints });
})();"""


@pytest.fixture
def in_browser(tmp_path) -> Callable[[str, str], Any]:
    """A function: what lines of JavaScript return in a page, which complains of nothing.

    They may wait: ``await until(() => …)``.
    """
    found = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    browser = next(filter(None, found), None)
    if browser is None:
        pytest.skip("no chromium or google-chrome on PATH: no page is opened; install chromium")
    options = "--headless=new --no-sandbox --disable-gpu --dump-dom --virtual-time-budget=100000000"

    def run(page: str, lines: str) -> Any:
        script, file = IN_PAGE.replace("LINES", lines), tmp_path / "page.html"
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        page = page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
        page = page.replace("<title>", f"<script>{script}</script><title>", 1)
        file.write_text(page, encoding="utf-8")
        command = [browser, *options.split(), f"--user-data-dir={tmp_path / 'profile'}"]
        done = subprocess.run(
            [*command, file.as_uri()], capture_output=True, encoding="utf-8", timeout=120
        )
        result = json.loads(html.unescape(re.sub("<[^>]*>", "", done.stdout)))
        assert result["complaints"] == []
        return result["made"]

    return run
