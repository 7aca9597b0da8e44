"""The fixtures of tests/fixtures.py, and a place for made-up experiments."""

from pathlib import Path

import pytest
from fixtures import run_script_here, tiny_data, tiny_model_folder  # noqa: F401
from made_up import STAND_IN

from research.experiments import report, results


@pytest.fixture
def place(tmp_path, monkeypatch, tiny_data) -> Path:  # noqa: F811
    """Results and runs in a folder of the test's own, and the stand-in."""
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(results, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(report, "EXAMPLE_SD", tmp_path / "example_sd.jsonl")
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.setitem(results.SCRIPTS, "train", "stand_in")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path
