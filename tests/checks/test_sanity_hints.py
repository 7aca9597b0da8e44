"""What lets a check name mistakes: fingerprints and tables; what is stored is left alone."""

import math

import pytest
import torch

import bert
from checks import jobs, references
from checks.findings import Finding
from checks.graded_tasks import graded_task
from checks.known import alike, fingerprint, load_table, unpacked
from checks.task import ERROR, outputs_of
from course.make_tables import packed

ATTENTION = "bert.attention"
torch.manual_seed(0)
OUTPUT = torch.randn(3, 7, 32, dtype=torch.float64)
ERROR_TEXT = "RuntimeError: size of tensor a (7) must match tensor b (16) at {} (bert.py:{})"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (OUTPUT, OUTPUT.transpose(0, 1).contiguous().transpose(0, 1), True),
        (OUTPUT, OUTPUT.float().requires_grad_(), True),
        (1e-12 * OUTPUT, -1e-12 * OUTPUT, True),  # both are rounding of 0
        (1e-3 * OUTPUT, -1e-3 * OUTPUT, False),
        (OUTPUT, OUTPUT.transpose(0, 1), False),
        (OUTPUT, OUTPUT.roll(1, dims=0), False),
        (OUTPUT, OUTPUT * 1.001, False),
        (math.nan * OUTPUT, math.nan * OUTPUT, False),
        (OUTPUT, None, False),
        (None, "text", True),
        (ERROR_TEXT.format("0x7f01", 180), ERROR_TEXT.format("0x7f02", 99) + ": why", True),
        (ERROR_TEXT, ERROR_TEXT.replace("Runtime", "Value"), False),
    ],
)
def test_the_same_numbers_or_errors_have_the_same_fingerprint(first, second, same):
    both = (Finding("error", x) if isinstance(x, str) and ":" in x else x for x in (first, second))
    rows = [*map(fingerprint, both)]
    assert bool(alike(*rows)) is same
    assert bool(alike(rows[0].float().double(), rows[1])) is same


def test_a_table_is_after_storing_what_it_was():
    table = load_table("bert.add_norm")
    again = unpacked(*packed(table))
    assert torch.equal(again.rows.nan_to_num(-9), table.rows.nan_to_num(-9))
    assert torch.equal(again.base, table.base)
    assert (again.outputs, again.names) == (table.outputs, table.names)
    assert again.mistakes == table.mistakes


def test_the_stored_inputs_are_left_alone(monkeypatch):
    before = {k: v.clone() for k, v in references.load_references().items()}

    def spoils(self, key, query, value, attention_mask):
        with torch.no_grad():
            for tensor in (key, query, value, attention_mask):
                tensor.zero_()
        return (key @ query.mT @ value).transpose(1, 2).flatten(2)

    monkeypatch.setattr(bert.BertSelfAttention, "attention", spoils)
    assert any(finding.kind == "inputs" for finding in jobs.examine(graded_task(ATTENTION)))
    assert ERROR not in outputs_of(ATTENTION)
    after = references.load_references()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
