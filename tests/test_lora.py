"""lessons/lora.py: what learns, and memory, at bert-base's size."""

import pytest
from running import succeeded

from lessons import lora


def test_the_table_counts_what_learns(run_script_here):
    done = succeeded(run_script_here(lora, "--rank", 4))
    rows = {line[:31].strip(): line[31:].split() for line in done.out.splitlines()[3:]}
    assert rows["all of it"][:2] == ["109,482,240", "100.000%"]
    assert rows["LoRA, r = 4, query and value"][0] == f"{12 * 2 * 4 * 2 * 768:,}"
    assert rows["nothing: a head alone"][:2] == ["0", "0.000%"]
    megabytes = [float(number.replace(",", "")) for number in rows["all of it"][2:]]
    assert megabytes[0] == round(4 * 109_482_240 / 2**20)
    assert megabytes[1] == pytest.approx(12 * 109_482_240 / 2**20, abs=0.05)
    assert megabytes[3] == pytest.approx(sum(megabytes[:3]), abs=1.5)
