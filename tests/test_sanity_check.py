"""sanity_check.py and checks/part1/: our solution, what is said, references, the script."""

import pytest
import torch
from factories import ROOT
from test_sanity_process import run
from torch.nn import functional as F

import bert
import sanity_check
from checks import compare, jobs, references
from checks.graded_tasks import GRADED_TASKS
from checks.jobs import check
from checks.task import WHOLE, outputs_of
from course.handout import build
from course.handout_repository import write_files

PART_3 = "modern."  # how names of part 3's references begin, which make_modern_bert.py makes
PART_1 = [entry for entry in GRADED_TASKS if entry.part == 1]
ATTENTION = bert.BertSelfAttention.attention
CHECKED = [entry for entry in PART_1 if entry.file != "optimizer.py"]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---------------------------------------------------------------------------------------------
# The solution


def test_the_solution_passes_and_default_type_is_left_alone():
    assert {entry.number: check(entry) for entry in PART_1} == {e.number: [] for e in PART_1}
    for name in (*(entry.id for entry in CHECKED), WHOLE):
        assert compare.check(name) == [], name
    assert torch.get_default_dtype() == torch.float32
    assert not F.dropout(torch.ones(1000)).equal(F.dropout(torch.ones(1000)))


def test_the_whole_model_sees_a_changed_pooler(monkeypatch):
    monkeypatch.setattr(bert.BertModel, "encode", lambda self, hidden, mask: hidden)
    findings = compare.check(WHOLE)
    assert "values of last_hidden_state" in findings[0].text


def test_every_stored_result_is_asked_for():
    stored = {
        name
        for name in references.load_references()
        if not name.startswith(("weights/", "pretrained/", "mistakes/", PART_3))
        and name.split("/")[1] not in ("inputs", "replay")
    }
    asked = {
        f"{task_id}/{name}"
        for task_id in (*(e.id for e in CHECKED if e.id != "classifier.init"), WHOLE)
        for name in outputs_of(task_id)
        if not name.startswith(("padding/", "inputs/"))
    }
    unasked = {"attended", "normed"}  # what stand-ins return
    stored = {name for name in stored if "keys first" not in name}
    assert {name for name in stored - asked if name.split("/")[2] not in unasked} == set()
    assert asked <= stored


# ---------------------------------------------------------------------------------------------
# The references


def test_references_are_what_transformers_computes():
    pytest.importorskip("transformers", reason="it makes the references")
    import make_sanity_check as make

    stored = references.load_references()
    made = make.tiny_tensors(references.metadata()["seed"])
    others = ("pretrained/", PART_3)
    assert {name for name in stored if not name.startswith(others)} == set(made)
    for name, tensor in made.items():
        torch.testing.assert_close(stored[name], tensor, rtol=1e-12, atol=1e-12)


def test_a_pretrained_model(offline_model, monkeypatch):
    outcome = jobs.check_pretrained()
    assert (outcome.status, outcome.title) == ("ok", "two sentences through all-MiniLM-L6-v2")
    monkeypatch.setattr(bert.BertLayer, "add_norm", lambda self, input, output, *_: input)
    outcome = jobs.check_pretrained()
    assert outcome.status == "wrong"
    assert outcome.findings[0].text.startswith("values of last_hidden_state: first difference")


def test_a_model_without_reference_is_no_failure(tiny_model_folder, monkeypatch):
    for folder, words in ((tiny_model_folder, "no reference yet for"), ("none", "no model folder")):
        monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder / folder))
        outcome = jobs.check_pretrained()
        assert outcome.status == "skipped"
        assert outcome.about.startswith(words)


# ---------------------------------------------------------------------------------------------
# The script


def write_handout(folder, part: str) -> None:
    """What students get."""
    write_files(folder, build(ROOT, part).files)


@pytest.fixture
def handout(tmp_path):
    """Part 1 as students get it."""
    write_handout(tmp_path, "1")
    return tmp_path


def test_script_on_the_solution():
    done = run(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    tasks = [entry for entry in GRADED_TASKS if entry.part < 3]  # 3 is checked if asked for
    for entry in tasks:
        assert f"  ok    {entry.title}: " in done.stdout
    assert "  --    part 3 is checked with --part 3\n" in done.stdout
    count = len(tasks)
    assert done.stdout.endswith(f"{count} of {count} tasks right\n{sanity_check.MEET}\n")
    assert done.stderr == ""


def test_script_on_the_handout(handout):
    done = run(handout)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    for entry in GRADED_TASKS[:7]:
        assert f"  not started  {entry.title}" in lines
    assert lines[-2] == "0 of 7 tasks right"
    assert lines[-1] == (
        "next: Task 1.1 · BertSelfAttention.attention (python sanity_check.py --task 1.1); "
        "docs/handout.md explains it"
    )


def test_script_on_the_handout_of_part_2(handout):
    write_handout(handout, "2")
    done = run(handout, "--part", "2")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    part_2 = [entry for entry in GRADED_TASKS if entry.part == 2]
    assert lines[:5] == [f"  not started  {entry.title}" for entry in part_2]
    assert lines[5].startswith("  --    the training loop is checked once")
    assert lines[6] == "0 of 5 tasks right"
    assert lines[7].startswith(f"next: {part_2[0].title} ({part_2[0].check}); docs/part2.md ")


def test_one_task(check_here, monkeypatch):
    def without_mask(self, key, query, value, attention_mask):
        return ATTENTION(self, key, query, value, attention_mask * 0)

    with monkeypatch.context() as patched:
        patched.setattr(bert.BertSelfAttention, "attention", without_mask)
        for key in ("1.2", "bert.add_norm"):
            code, lines = check_here("--task", key)
            assert (code, len(lines)) == (0, 2)
            assert lines[0].startswith("  ok    Task 1.2 · BertLayer.add_norm: ")
        code, lines = check_here("--task", "1.1", "--all")
    assert (code, lines[0]) == (1, "  WRONG Task 1.1 · BertSelfAttention.attention")
    assert lines[1].startswith("        probably: ")
    assert lines[-1].startswith("next: Task 1.1 · BertSelfAttention.attention (python sanity_check")
    code, (line,) = check_here("--task", "9")
    assert code == 2
    assert line.startswith("error: no task 9; there are 1.1, 1.2")
