"""Mutants of right functions: how they are made, which are wrong, and that each is caught."""

import ast
from types import SimpleNamespace

import pytest

from checks.findings import Finding
from checks.graded_tasks import graded_task
from checks.hunt.mutants import Edit, FunctionText
from course import mutations
from course.answers import VARIANTS, put, read
from course.equivalence import equivalent
from course.mutations import Judgement, Mutant, draw, mutants_of, read_outcomes, run_all, table

FUNCTION = """
class Owner:
    def f(self, x, y):
        '''One -> two.'''
        w = y["lr"]
        for i in x:
            if i is None:
                continue
            z = -x[:i] / 2  # halves
            z.add_(self.drop(
                y, train=self.training  # or not
            ))
        return torch.sqrt(z, dim=0, keepdim=self.dense)
"""


def edited(source):
    """The sources after each edit of f, as Python writes them, by operator."""
    task = SimpleNamespace(file="f.py", function="Owner.f")
    text = FunctionText(task, source)
    return {
        name: [ast.unparse(ast.parse(text.source(edit))) for edit in text.distinct(edits)]
        for name, edits in text.edits().items()
    }


@pytest.mark.parametrize(
    ("operator", "old", "new"),
    [
        ("drop_statement", "continue", "pass"),
        ("drop_return", "return torch", "torch"),
        ("drop_block", "if i is None:\n                continue", "pass"),
        ("swap_statements", 'w = y["lr"]\n        for', None),
        ("change_condition", "if i is None", "if not i is None"),
        ("change_condition", "if i is None", "if True"),
        ("replace_operator", "i is None", "i is not None"),
        ("replace_operator", "/ 2", "* 2"),
        ("change_operands", "-x[:i] / 2", "2 / -x[:i]"),
        ("change_operands", "-x[:i] / 2", "-x[:i]"),
        ("change_operands", "-x", "x"),
        ("change_number", "/ 2", "/ 3"),
        ("change_flag", "train=self.training", "train=not self.training"),
        (
            "drop_call",
            "self.drop(\n                y, train=self.training  # or not\n            )",
            "y",
        ),
        ("change_arguments", ", keepdim=self.dense", ""),
        ("change_arguments", "dim=0, keepdim=self.dense", "dim=self.dense, keepdim=0"),
        ("replace_name", "y, train", "z, train"),
        ("replace_attribute", "self.drop", "self.dense"),
        ("replace_by_neighbour", "torch.sqrt", "torch.rsqrt"),
        ("change_in_place", "z.add_(", "z.add("),
        ("replace_key", '"lr"', '"eps"'),
        ("change_index", "x[:i]", "x[i:]"),
    ],
)
def test_operators(operator, old, new):
    assert FUNCTION.count(old) == 1
    if new is None:  # the lines with the two statements in the other order
        lines = FUNCTION.splitlines()
        wanted = "\n".join([*lines[:4], *lines[5:12], lines[4], *lines[12:]])
    else:
        wanted = FUNCTION.replace(old, new)
    assert ast.unparse(ast.parse(wanted)) in edited(FUNCTION)[operator]


def test_edits_are_of_lines_and_leave_the_docstring_alone():
    assert all("One -> two" in text for texts in edited(FUNCTION).values() for text in texts)


def test_modules_are_no_variables():
    made = edited("class Owner:\n    def f(self, x):\n        return F.relu(x)\n").values()
    made = [text for texts in made for text in texts]
    assert not any(text.endswith("return F") for text in made)
    assert any(text.endswith("return x") for text in made)


def test_of_a_correct_solution():
    made = mutants_of(graded_task("1.2"))
    drawn = draw(made, 30, 1)
    assert drawn == draw(made, 30, 1) != draw(made, 30, 2)
    assert len(set(drawn)) == 30
    assert len({mutant.operator for mutant in drawn}) > 10  # they take turns
    for mutant in drawn:
        right = mutations.solution_of(mutant)
        assert "\n".join(mutant.edit.of(right.split("\n"))) != right


@pytest.mark.parametrize(
    ("name", "old", "new", "right"),
    [
        ("bert.attention/plain", "scores + attention_mask", "attention_mask + scores", True),
        ("bert.attention/plain", "dim=-1", "dim=-2", False),
        ("bert.attention/plain", "scores = scores + a", "scores = scores.detach() + a", False),
        ("bert.attention/in_place", "scores +=", "attention_mask += 0; scores +=", True),
        ("bert.attention/in_place", "scores +=", "value *= 2; scores +=", False),
        ("bert.attention/softmax_in_float32", ".to(value.dtype)", "", True),  # of float32 it is
        ("bert.add_norm/plain", "input + output", "output + input", True),
        ("bert.add_norm/plain", "dropout(output)", "dropout(dropout(output))", False),
        ("bert.layer/plain", "self.out_dropout,", "self.attention_dropout,", True),
        ("bert.layer/plain", "self.out_layer_norm,", "self.attention_layer_norm,", False),
        ("bert.embed/plain", "words + positions", "positions + words", True),
        ("bert.embed/plain", "if token_type_ids is None", "if True", False),
        ("classifier.init/plain", 'option == "finetune"', 'option != "pretrain"', True),
        ("classifier.forward/plain", "self.bert(input_ids, ", "self.bert(attention_mask, ", False),
        ("optimizer.step/plain", "denominator = root + eps", "denominator = eps + root", True),
        ("optimizer.step/plain", "return loss", "return None", False),
        ("optimizer.step/plain", "grad = p.grad", "grad = p.grad.mul_(1.5)", False),
        ("optimizer.step/plain", "raise RuntimeError(", "print(", False),
    ],
)
def test_equivalence(name, old, new, right):
    answer = read(VARIANTS, name)
    source = put(answer)
    assert old in source
    assert equivalent(answer.task, source.replace(old, new, 1), source) == right


def mutant_of(old, new):
    """The plain attention with a change."""
    lines = mutations.solution_of(numbered(0)).split("\n")
    (number,) = [n for n, line in enumerate(lines, start=1) if old in line]
    edit = Edit(number, number, lines[number - 1].replace(old, new))
    return Mutant("bert.attention", "plain/Plain", "attention", "by hand", edit)


def test_hangs_and_crashes_are_survived():
    line = "context = context.flatten(2)"
    chosen = [
        mutant_of(line, "while True: pass"),
        mutant_of(line, "import os; os._exit(3)"),
        mutant_of("dim=-1", "dim=-2"),
        mutant_of("dim=-1", "dim=3"),
    ]
    outcomes = dict(run_all(chosen, limit=10, processes=2))
    statuses = [outcomes[mutant].status for mutant in chosen]
    assert statuses == ["lost", "lost", "wrong", "equivalent"]
    assert "not done after 10 seconds" in outcomes[chosen[0]].findings[0].text
    assert "status 3" in outcomes[chosen[1]].findings[0].text
    assert [outcomes[mutant].told for mutant in chosen[2:]] == ["named", "numbers"]
    assert not any(outcome.trouble for outcome in outcomes.values())


def test_of_thirty_mutants_none_is_missed_or_a_false_positive(tmp_path, run_script_here):
    path = tmp_path / "out.jsonl"
    line = ["--task", "1.2", "--most", "30", "--seed", "5", "--out", str(path)]
    result = run_script_here(mutations, *line)
    assert result.code == 0, result.out
    assert "| 1.2 | 30 |" in result.out
    kept = path.read_text(encoding="utf-8")
    assert len(kept.splitlines()) == len(read_outcomes(path)) == 30
    path.write_text(kept[:-50], encoding="utf-8")  # as a killed run leaves it
    assert len(read_outcomes(path)) == 29
    assert run_script_here(mutations, *line).out == result.out
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(read_outcomes(path)) == 30


def test_the_table_counts():
    row = table({numbered(n): outcome for n, outcome in enumerate(OUTCOMES)}).splitlines()[-1]
    assert row == "| all | 7 | 2 | 1 | 4 | 1 | 3 | 1 | 0 | 1 | 0 | 1 | 1 |"


def numbered(number):
    return Mutant("bert.attention", "plain/Plain", "attention", "by hand", Edit(number, number))


VALUES, NAMED = Finding("values", "…"), Finding("named", "…", name="x")
RAISED = "TypeError: no (bert.py:5)"
OUTCOMES = [
    Judgement("equivalent", []),
    Judgement("equivalent", [VALUES]),
    Judgement("wrong", []),
    Judgement("wrong", [VALUES, NAMED]),
    Judgement("wrong", [Finding("error", RAISED)]),
    Judgement("wrong", [Finding("error", f"{RAISED}: it is called")]),
    Judgement("lost", []),
]
