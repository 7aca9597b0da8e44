"""sanity_check.py on our solution: all is right, and every reference is used and correct."""

import make_sanity_check
import torch
from factories import ROOT
from running import as_process
from torch.nn import functional as F

import bert
import sanity_check
from checks import compare, references
from checks.graded_tasks import GRADED_TASKS
from checks.task import WHOLE, outputs_of

JUDGED = ("optimizer.step", "classifier.init")
COMPARED = [e.id for e in GRADED_TASKS if e.part == 1 and e.id not in JUDGED]
COMPARED += [WHOLE, "classifier.forward, whole"]


def test_the_whole_model_sees_a_changed_encoder(check_here, monkeypatch):
    monkeypatch.setattr(bert.BertModel, "encode", lambda self, hidden, mask: hidden)
    assert "values of last_hidden_state" in compare.check(WHOLE)[0].text
    assert "python sanity_check.py --trace" in check_here()[1][-1]


def test_every_stored_result_is_asked_for_and_default_type_and_dropout_are_left_alone():
    stored = {
        name
        for name in references.load_references()
        if not name.startswith(("weights/", "modern."))
        and name.split("/")[1] not in ("inputs", "replay")
        and name.split("/")[2] not in ("attended", "normed")  # what stand-ins return
        and not name.endswith(compare.KEYS_FIRST)
    }
    asked = {
        f"{task_id.partition(',')[0]}/{name}"
        for task_id in COMPARED
        for name in outputs_of(task_id)
        if not name.startswith(("padding/", "inputs/"))
    }
    assert stored == asked
    assert torch.get_default_dtype() == torch.float32
    assert not F.dropout(torch.ones(1000)).equal(F.dropout(torch.ones(1000)))


def test_references_are_what_transformers_computes():
    stored = references.load_references() | references.read_data(references.TRACE)
    made = make_sanity_check.tiny_tensors(references.metadata()["seed"])
    states = {name: stored[name] for name in stored if not name.startswith("modern.")}
    torch.testing.assert_close(states, made, rtol=1e-12, atol=1e-12)


def test_script_on_the_solution():
    done = as_process("sanity_check.py", folder=ROOT)
    assert (done.code, done.err) == (0, ""), done.out
    tasks = [entry for entry in GRADED_TASKS if entry.part == 1]  # others are if asked for
    assert all(f"  ok    {entry.title}: " in done.out for entry in tasks)
    assert all(f"  --    part {n} is checked with --part {n}\n" in done.out for n in (2, 3))
    count = f"{len(tasks)} of {len(tasks)} tasks right"
    command, made = sanity_check.TRAINING[1]
    last = "" if any(ROOT.glob(made)) else f"next: train it: {command} (docs/handout.md)\n"
    assert done.out.endswith(f"{count}\n{last}")


def test_a_wrong_task_is_named_and_is_the_next(check_here, monkeypatch):
    attention = bert.BertSelfAttention.attention
    monkeypatch.setattr(
        bert.BertSelfAttention,
        "attention",
        lambda self, key, query, value, mask: attention(self, key, query, value, mask * 0),
    )
    code, lines = check_here("--task", "1.1", "--hints", "all")
    assert (code, lines[0]) == (1, "  WRONG Task 1.1 · BertSelfAttention.attention")
    assert lines[3].startswith("        probably: The attention mask is not used")
    assert lines[-1].startswith("next: Task 1.1 · BertSelfAttention.attention, about 60 minutes (")
