"""The script for a lent GPU, tried out with tiny sizes on whatever is here."""

import json
import math
import sys

from support import ROOT, as_process, succeeded

from research.benchmarks import gpu

FP16 = "ours --fast --precision fp16"  # CPUs without it refuse


def test_every_contender_has_its_rows(tmp_path):
    """In a folder that holds nothing; what is compiled stays as it is, for the time's sake."""
    line = ["--tiny", "--minutes", "20", "--limit", "300", "--out", "gpu.json"]
    script = ROOT / "research" / "benchmarks" / "gpu.py"
    done = as_process("-P", script, *line, folder=tmp_path, TORCHDYNAMO_DISABLE="1")
    rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    assert {row["contender"] for row in rows} == {gpu.TESTS, *gpu.CONTENDERS}, done.err
    faults = {row["contender"]: row["fault"] for row in rows if "fault" in row}
    assert faults.keys() <= {FP16}, faults
    numbers = [(row["contender"], n) for row in rows for n in row.values() if type(n) is float]
    assert {name for name, _ in numbers} >= gpu.CONTENDERS.keys() - {FP16}
    assert all(0 < number < math.inf for _, number in numbers), numbers
    assert all(name in succeeded(done).out for name in gpu.CONTENDERS)


def test_a_contender_that_hangs_costs_its_slot_and_keeps_its_rows(tmp_path):
    program = "import time; print('a row', flush=True); time.sleep(600)"
    printed, fault = gpu.run_slot([sys.executable, "-c", program], 5, tmp_path)
    assert (printed, fault) == ("a row\n", "not ready after 5 s")


def test_a_contender_that_fails_says_why(tmp_path):
    printed, fault = gpu.run_slot([sys.executable, "-c", "print(1); 1 / 0"], 60, tmp_path)
    assert (printed, fault) == ("1\n", "ZeroDivisionError: division by zero")


def test_a_share_is_what_the_tokens_need_of_what_the_device_can():
    rows = [
        {"contender": "products", "type": "bfloat16", "teraflops": 2.0},
        {"contender": "products", "type": "float16", "teraflops": 4.0},
        {"contender": "ours", "tokens": 1e6},
        {"contender": FP16, "tokens": 1e6},
    ]
    gpu.add_shares(rows, parameters=100_000)  # 6 · 10⁵ · 10⁶ operations a second
    assert [row.get("share_of_peak") for row in rows] == [None, None, 0.3, 0.15]
