"""The quiz: questions about the student's own functions, on the terminal and as data."""

import shutil
import subprocess
import sys

import pytest
from support import ROOT, quiz_of

from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.quiz import terminal
from checks.quiz.generate import KINDS, generate

PART_1 = [task for task in GRADED_TASKS if task.part == 1]
STUB = '        raise NotImplementedError("Task 1.1 · BertSelfAttention.attention")\n'


def quiz(*arguments, typed=""):
    command = [sys.executable, "sanity_check.py", "--quiz", *arguments]
    return subprocess.run(
        command, cwd=ROOT, input=typed, capture_output=True, text=True, timeout=240, check=False
    )


def test_the_terminal_asks_shows_the_answer_and_counts():
    ended = quiz("--task", "1.4", "--seed", "3", typed="a\nB\nwhat\nc\nd\na\n")
    assert ended.returncode == 0
    assert not ended.stderr
    assert ended.stdout.count("your answer: ") == 6
    assert "one letter: a, b, c or d" in ended.stdout
    assert ended.stdout.count("bert.py, Task 1.4") == 5
    keys = [line.split(".")[0][-1] for line in ended.stdout.split("your answer: ")[1:]]
    answers = ["a", "b", None, "c", "d", "a"]
    right = sum(k == a for k, a in zip(keys, answers, strict=True))
    assert ended.stdout.endswith(f"{right} of 5 right\n")


def test_the_end_of_the_input_ends_the_quiz(monkeypatch, capsys):
    ended = quiz("--task", "1.2", "--seed", "3", typed="a\n")
    assert ended.returncode == 0
    assert not ended.stderr
    assert ended.stdout.splitlines()[-1] in ("0 of 1 right", "1 of 1 right")
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it where the input is closed
    assert terminal.quiz([graded_task("1.2")], 3, 240) == 0
    assert capsys.readouterr().out.endswith("\n0 of 0 right\n")


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ("--seed 3", "--seed is for --hunt and --quiz"),
        ("--quiz --seed x", "--seed: 'x' is not an integer"),
        ("--quiz --hunt", "not allowed with"),
        ("--quiz --task 3.2", "--quiz is for parts 1 and 2"),
        ("--task ", "no task ;"),
    ],
)
def test_flags_that_do_not_go_together_are_one_line(arguments, fact):
    command = [sys.executable, "sanity_check.py", *arguments.split(" ")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert fact in ended.stderr


def test_seeds_decide_and_names_differ():
    """The same seed asks the same; two groups with the same code share no question."""
    first, again, other = (generate(seed, 8, PART_1)[0] for seed in ("7:a", "7:a", "7:b"))
    assert first == again
    assert len(first) == len(other) == 8

    def contents(questions):
        return {(q.text, *sorted(q.options)) for q in questions}

    assert contents(first).isdisjoint(contents(other))


def test_every_kind_is_asked_of_the_solution():
    """With four different options, and what came out for each of them."""
    questions, notes = generate("all", 30, PART_1)
    assert not notes
    assert {q.kind for q in questions} == {kind.name for kind in KINDS}
    for q in questions:
        assert len(set(q.options)) == len(list(filter(None, q.executed))) == 4, q


def test_part_2_is_asked_which_heads_get_a_gradient():
    questions, _ = generate("2", 4, [graded_task("2.3"), graded_task("2.4")])
    assert {q.task for q in questions} == {"2.3", "2.4"}
    for q in questions:
        assert q.kind == "gradient"
        assert "multitask_classifier.py" == q.file
        head = {"2.3": "sentiment", "2.4": "paraphrase"}[q.task]
        has = "has a gradient" in q.text
        # the loss of one head reaches its own weights, and no other head's
        assert (f"`{head}." in q.options[q.key]) or not has or "`bert." in q.options[q.key]
        assert all(f"`{head}." not in o for i, o in enumerate(q.options) if (i != q.key) is has)


@pytest.fixture
def folder(tmp_path):
    for name in ("bert.py", "optimizer.py", "classifier.py"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def changed(folder, name, old, new):
    source = (folder / name).read_text(encoding="utf-8")
    assert source.count(old) == 1
    (folder / name).write_text(source.replace(old, new), encoding="utf-8")


def test_an_incorrect_function_is_asked_what_it_computes(folder):
    """A softmax along another axis: the queries' sums are 1, and that is the key."""
    changed(folder, "bert.py", "F.softmax(scores, dim=-1)", "F.softmax(scores, dim=-2)")
    made = quiz_of(folder, "3", 20, ("1.1",))["questions"]
    keys = {q["options"][q["key"]] for q in made if q["kind"] == "sums" and "softmax" in q["text"]}
    assert keys == {"along its last axis but one, the numbers sum to 1"}


def test_a_stub_and_a_file_that_fails_are_left_out_with_a_line(folder):
    source = (folder / "bert.py").read_text(encoding="utf-8")
    begin, end = (f"        ### {word} SOLUTION bert.attention\n" for word in ("BEGIN", "END"))
    body = source[source.index(begin) : source.index(end)]
    (folder / "bert.py").write_text(source.replace(body, STUB), encoding="utf-8-sig")
    changed(folder, "optimizer.py", "class AdamW(Optimizer):", "class AdamW(Optimizer)")
    made = quiz_of(folder, "3", 4, ("1.1", "1.2", "1.3", "1.5"))
    assert {q["task"] for q in made["questions"]} == {"1.2"}
    stub, caller, broken = made["notes"][:3]
    attention = graded_task("1.1").title
    assert stub == f"{attention} is left out: it is not written yet"
    assert caller.startswith("Task 1.3")
    assert caller.endswith(f" is left out: {attention} is not written yet")
    assert broken.startswith("Task 1.5")
    assert "SyntaxError" in broken


def test_fewer_questions_than_asked_are_said(folder):
    made = quiz_of(folder, "3", 15, ("2.3",))
    assert len(made["questions"]) < 15
    assert f"{len(made['questions'])} of 15 questions" in made["notes"][-1]
