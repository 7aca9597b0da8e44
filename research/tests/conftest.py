"""The fixtures of tests/support.py, and a place for made-up experiments."""

from pathlib import Path

import pytest
from made_up import STAND_IN
from support import run_script_here, tiny_data, tiny_model_folder  # noqa: F401

from research.experiments import report, results


@pytest.fixture
def place(tmp_path, monkeypatch, tiny_data) -> Path:  # noqa: F811
    """Results and runs in a folder of the test's own, and the stand-in."""
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(results, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(report, "EXAMPLE_SD", tmp_path / "example_sd.jsonl")
    results.gold.cache_clear()
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.setitem(results.SCRIPTS, "train", str(tmp_path / "stand_in.py"))
    return tmp_path
