"""Known mistakes: each is caught and named, alone and together; correct solutions are not."""

import random

import pytest
from answers import installed, installed_source, read_all, solution_with
from factories import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from running import as_process, versions

from checks import jobs, known
from checks.compare import same
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.task import ERROR, outputs_of
from course import make_tables
from course.grading.judging.judge import costs
from course.handout import build
from course.handout_repository import write_files
from course.make_tables import entry_of, functions, sentences, switched
from training.files.errors import InputError

FUNCTIONS = functions()
SWITCHES = [
    (function, name)
    for function in FUNCTIONS.values()
    for name in function.names()
    if name not in function.neutral and not function.is_second_run
]


def found(function, *switches):
    """The names that the tables give to some switches, and what they leave unexplained."""
    with switched(function, frozenset(switches)):
        mistakes, left = known.find(function.task_id, outputs_of(function.task_id))
    return {mistake.name for mistake in mistakes}, left


def entries(function, *switches):
    """The names of the sentences of some switches."""
    words = sentences()[function.task_id.partition(",")[0]]
    return {entry_of(switch, words) for switch in switches}


@pytest.mark.parametrize(
    ("function", "switch"), SWITCHES, ids=[f"{f.task_id}-{name}" for f, name in SWITCHES]
)
def test_every_switch_is_caught_and_named(function, switch):
    for way in ([], *([name] for name in function.neutral)):
        assert found(function, switch, *way) == (entries(function, switch), [])
    if function.task_id == "optimizer.step":  # whose thousand steps take long
        return
    with switched(function, frozenset([switch])):
        findings = jobs.examine(graded_task(function.task_id))
    assert faulty(findings)
    assert {finding.name for finding in findings} - {""} <= {
        *entries(function, switch), "nothing_returned", "no_tensor_returned"
    }  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [f for f in FUNCTIONS.values() if f.task_id != "optimizer.step"],
    ids=lambda function: function.task_id,
)
def test_of_two_switches_no_other_is_named(function):
    pairs = [wrong for wrong in make_tables.combinations(function) if len(wrong) == 2]
    named = 0
    for pair in random.Random(0).sample(pairs, min(20, len(pairs))):
        with switched(function, pair):
            outputs = outputs_of(function.task_id)
        mistakes, left = known.find(function.task_id, outputs)
        names = {mistake.name for mistake in mistakes}
        if names == entries(function, *pair) or left or not names:
            named += not left and bool(names)
            continue
        with switched(function, frozenset(names)):  # others, which compute the same
            assert same(outputs_of(function.task_id), outputs) or ERROR in outputs, pair
    assert named >= 4 or function.is_second_run


@pytest.mark.parametrize(
    ("task_id", "switches"),
    [
        ("bert.attention", ["no_scale", "softmax_over_queries", "no_dropout"]),
        ("bert.attention", ["mask_zeroed_after_softmax", "scale_by_length", "no_dropout"]),
        ("bert.embed", ["no_positions", "segments_of_one", "no_dropout"]),
        ("bert.add_norm", ["relu_added", "residual_subtracted", "no_dropout"]),
    ],
)
def test_forgotten_dropout_joins_any_two(task_id, switches):
    assert found(FUNCTIONS[task_id], *switches) == (set(switches), [])


def test_what_explains_by_chance_is_not_named():
    switches = ["gradient_changed_zeroed", "lr_is_decay", "no_momentum"]
    assert found(FUNCTIONS["optimizer.step"], *switches) == (set(), [])


def test_a_mistake_next_to_an_unknown_one_is_named_and_the_rest_is_said():
    entry = graded_task("bert.add_norm")
    source = """def add_norm(self, input, output, dense_layer, dropout, ln_layer):
    return F.dropout(input + ln_layer(dense_layer(output)), 0.7, self.training)
"""
    with installed_source("bert.py", solution_with(entry, {"add_norm": source})):
        findings = jobs.examine(entry)
    assert {finding.name for finding in findings} == {"", "norm_before_residual"}
    (fact,) = (finding.text for finding in findings if finding.kind == "fact")
    assert fact.startswith("that is not all: it does not explain dropout of result")


def test_switches_that_compute_nothing_new_are_refused():
    function = FUNCTIONS["bert.add_norm"]
    words = sentences()["bert.add_norm"]
    for names, said in (("nothing", "what is correct"), ("no_norm no_norm", "no_norm")):
        again = make_tables.Function(function.task_id, function.run, {"slot": names.split()})
        with pytest.raises(InputError, match=f"computes the same as {said}"):
            make_tables.table_of(again, words)
    with pytest.raises(InputError, match="have no entry for odd"):
        entry_of("odd", words)


def test_costs_are_those_of_known_mistakes():
    for task_id, prices in costs().items():
        tables = [known.load_table(run) for run in (task_id, f"{task_id}, whole")]
        assert prices.keys() <= {name for table in tables for name in table.mistakes}, task_id


# ---------------------------------------------------------------------------------------------
# Correct solutions

SOLUTIONS = [  # those of part 2: test_sanity_part2.py
    answer for entry in GRADED_TASKS if entry.part != 2 for answer in read_all(entry.id)
]


@pytest.mark.parametrize(("answer", "version"), versions(SOLUTIONS))
def test_a_correct_solution_is_no_false_positive(answer, version):
    tasks = [entry for entry in GRADED_TASKS if entry.file == answer.task.file]
    with installed(answer, version):
        assert {entry.id: jobs.run(entry.id).findings for entry in tasks} == {
            entry.id: () for entry in tasks
        }


LINES = [  # of an attention, as students write them: one of each group
    ["scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.attention_head_size)",
     'scores = torch.einsum("bhqw,bhkw->bhqk", query, key) * key.size(-1) ** -0.5',
     "scores = (query / key.shape[-1] ** 0.5) @ key.permute(0, 1, 3, 2)",
     "scores = torch.matmul(query, key.mT).div_(math.sqrt(query.size(3)))"],
    ["scores = scores + attention_mask",
     "scores = scores.masked_fill(attention_mask < 0, torch.finfo(scores.dtype).min)",
     'scores = torch.where(attention_mask == 0, scores, float("-inf"))'],
    ["share = F.softmax(scores, dim=-1)",
     "share = nn.Softmax(dim=3)(scores)",
     "scores = (scores - scores.amax(-1, keepdim=True)).exp()\n"
     "    share = scores / scores.sum(-1, keepdim=True)"],
    ["share = self.dropout(share)",
     "share = F.dropout(share, self.dropout.p, self.training)",
     "share = self.dropout(share) if self.training else share"],
    ["return (share @ value).transpose(1, 2).flatten(2)",
     "x = torch.matmul(share, value).permute(0, 2, 1, 3).contiguous()\n"
     "    return x.view(x.size(0), x.size(1), -1)",
     "return torch.cat([(share @ value)[:, i] for i in range(share.size(1))], dim=-1)"],
]  # fmt: skip


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.tuples(*map(st.sampled_from, LINES)))
def test_a_correct_attention_of_lines_that_students_write_is_no_false_positive(lines):
    head = "def attention(self, key, query, value, attention_mask):"
    source = "\n".join([head, *(f"    {line}" for line in lines), ""])
    entry = graded_task("bert.attention")
    with installed_source(
        entry.file, solution_with(entry, {"attention": source}, ("import math",))
    ):
        assert jobs.examine(entry) == []


# ---------------------------------------------------------------------------------------------
# What students get


def test_script_on_the_handout(tmp_path):
    write_files(tmp_path, build(ROOT, "1").files)
    done = as_process("sanity_check.py", folder=tmp_path, PYTHONPATH="")
    tasks = [entry for entry in GRADED_TASKS if entry.part == 1]
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    states = [text.split(" Task")[0].strip() for text in lines[: len(tasks)]]
    assert states == ["not started"] * (len(tasks) - 1) + ["waits"]  # 1.7 for 1.6
    assert lines[-2] == f"0 of {len(tasks)} tasks right"
    assert lines[-1].startswith(f"next: {tasks[0].title} ({tasks[0].check}); ")
