"""What an exception in a student's code means: every entry of the table, by code that raises it.

tests/exceptions.txt has the cases: a student's lines, the entry that knows their exception, and all
that it says. ``PYTHONPATH=. python tests/test_exceptions.py`` writes the sentences again; read what
changes before you commit it.
"""

import importlib
import inspect
import re
import textwrap
import warnings
from pathlib import Path

import pytest
from support import ROOT
from torch import nn

from checks import jobs
from checks.errors import describe
from checks.exceptions import find, meaning, table
from checks.graded_tasks import graded_task
from checks.part1 import adamw_cases, adamw_checks, explain, runners
from checks.part2 import batches, calls, models
from course.answers import VARIANTS, installed_source, put_methods, read_all

GIVEN = {  # what stands above a student's lines
    "optimizer.step": """
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad, self.state[p]
        """,
    "classifier.init": """
        super().__init__()
        self.num_labels = config.num_labels
        self.bert = BertModel.from_pretrained("model")
        """,
}
INDENTS = {"optimizer.step": 8}


def parameters_of(function):
    return inspect.signature(function).parameters.values()


def written(task_id, body):
    """The source of a task's file in which a student has written these lines."""
    entry = graded_task(task_id)
    given = textwrap.dedent(GIVEN.get(task_id, "")).strip("\n")
    body = textwrap.dedent(body).strip("\n")
    if body.startswith("def "):
        text = body
    else:
        text = f"{given}\n{textwrap.indent(body, ' ' * INDENTS.get(task_id, 0))}".strip("\n")
        owner, _, name = entry.function.rpartition(".")
        function = getattr(getattr(importlib.import_module(Path(entry.file).stem), owner), name)
        arguments = ", ".join(str(p.replace(annotation=p.empty)) for p in parameters_of(function))
        text = f"def {name}({arguments}):\n{textwrap.indent(text, '    ')}"
        if task_id == "optimizer.step" and "enable_grad" not in body:
            text = f"@torch.no_grad()\n{text}"
    source = (ROOT / entry.file).read_text(encoding="utf-8")
    name = text.removeprefix("@torch.no_grad()\n").partition("(")[0].removeprefix("def ")
    return put_methods(source, entry.function.partition(".")[0], {name: text + "\n"})


def run(task_id):
    """Run the student's function as its check does."""
    if task_id == "optimizer.step":
        adamw_cases.run_case(importlib.import_module("optimizer").AdamW, adamw_cases.CASES[0])
    elif task_id == "multitask.init":
        models.student_model("finetune")
    elif task_id.startswith("multitask"):
        model, _ = models.student_model("finetune")
        calls.call(model, task_id, batches.batch_for(task_id))
    else:
        runners.student_outputs(task_id)


def raised(task_id, body, change=None):
    """The exception of a student's lines, as the check catches it."""
    source = written(task_id, body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with installed_source(graded_task(task_id).file, change(source) if change else source):
                try:
                    run(task_id)
                except (Exception, SystemExit) as error:
                    return error, find(error), describe(error)
        except Exception as error:  # at import
            return error, find(error), describe(error)
    pytest.fail("nothing was raised")


# ---------------------------------------------------------------------------------------------
# The table

ATTENTION, LAYER, STEP = "bert.attention", "bert.layer", "optimizer.step"
INIT, FORWARD = "classifier.init", "classifier.forward"
SCORES = "scores = query @ key.transpose(-1, -2)\n"
SNAPSHOT = Path(__file__).with_name("exceptions.txt")
CASE = re.compile(r"## (\S+): (\w+)\n(.*?)\n→ (.*)", re.DOTALL)  # task: entry, lines → sentence
HELPER = "    def eval_quietly(self, x):\n        x.flatten()\n\n    def transform(self"


def read_cases():
    """Of every case the task, the entry, the student's lines, the sentence."""
    blocks = SNAPSHOT.read_text(encoding="utf-8").strip().split("\n\n## ")
    return [CASE.fullmatch(f"## {block.removeprefix('## ')}").groups() for block in blocks]


CASES = read_cases()


def explained(task_id, body):
    """The entry that knows an exception, what it says without numbers of lines, the finding."""
    _, (name, sentence), finding = raised(
        task_id, body, lambda source: source.replace("    def transform(self", HELPER, 1)
    )
    assert finding.kind == "error"
    assert finding.text.endswith(f": {sentence}"), (body, name, sentence, finding.text)
    return name, re.sub(r"\bline \d+", "line N", sentence), finding


def write_cases():
    """Write the snapshot with what is said now."""
    blocks = []
    for task_id, _, body, _ in CASES:
        name, sentence, _ = explained(task_id, body)
        blocks.append(f"## {task_id}: {name}\n{body}\n→ {sentence}\n")
    SNAPSHOT.write_text("\n".join(blocks), encoding="utf-8")


@pytest.mark.parametrize(
    ("task_id", "name", "body", "sentence"),
    CASES,
    ids=[f"{name}, {body.splitlines()[-1].strip()[:40]}" for _, name, body, _ in CASES],
)
def test_an_exception_is_explained(task_id, name, body, sentence):
    *explanation, finding = explained(task_id, body)
    assert explanation == [name, sentence]
    assert f"({graded_task(task_id).file}:" in finding.text or task_id == ATTENTION


# ---------------------------------------------------------------------------------------------
# Where no student's line raises, or another machine is needed: the message alone

MESSAGES = [
    ("no_gpu", AssertionError("Torch not compiled with CUDA enabled"), "there is no GPU here"),
    (
        "two_devices",
        RuntimeError("Expected all tensors to be on the same device, but found cuda:0 and cpu"),
        "device=x.device",
    ),
]


@pytest.mark.parametrize(("name", "error", "words"), MESSAGES, ids=lambda part: str(part)[:12])
def test_a_message_is_enough(name, error, words):
    try:
        raise error
    except Exception as caught:
        entry, sentence = find(caught)
    assert entry == name
    assert words in sentence


def test_every_entry_is_tried_and_none_is_there_twice():
    names = [entry.name for entry in table()]
    assert len(names) == len(set(names)) >= 60
    tried = {name for _, name, *_ in CASES} | {name for name, *_ in MESSAGES}
    assert {*names, "operands"} == tried


def test_an_exception_that_cannot_be_looked_at_is_no_trouble():
    class Odd(nn.Module):
        def __getattr__(self, name):
            raise SystemExit(name)

        def __repr__(self):
            raise RuntimeError

    def fail():
        odd = Odd.__new__(Odd)
        return odd + {}.missing

    with pytest.raises((AttributeError, SystemExit)) as caught:
        fail()
    assert isinstance(meaning(caught.value), str)
    for kind in (AttributeError, TypeError, KeyError, SyntaxError):  # never raised
        assert meaning(kind()) == ""


# ---------------------------------------------------------------------------------------------
# Not started, or a stub's raise that was left


TODO = "### TODO\n# what to do\n"
LEFT = "the stub's raise is still there, with code of yours around it"


@pytest.mark.parametrize(
    ("task_id", "body", "words"),  # words "": it is not started
    [
        (ATTENTION, TODO + "{stub}", ""),
        (ATTENTION, "'''Attend.'''\n{stub}", ""),
        (STEP, TODO + "{stub}", ""),
        (INIT, "{stub}", ""),
        (ATTENTION, TODO + SCORES + "{stub}", LEFT),
        (ATTENTION, TODO + "{stub}\n" + SCORES, LEFT),
        (STEP, "{stub}\nstate['step'] = 1", LEFT),
        (STEP, "v = grad ^ 2", "a power is **"),
        (INIT, TODO + "self.dropout = nn.Dropout(0.1)\n{stub}", LEFT),
        (ATTENTION, "raise NotImplementedError('Could not run aten::empty')", "aten::empty"),
    ],
)
def test_a_stub_is_not_started_and_a_raise_that_was_left_is_named(task_id, body, words):
    stub = f'raise NotImplementedError("{graded_task(task_id).title}")'
    body = body.format(stub=stub)
    finding = raised(task_id, body)[2]
    assert finding.kind == ("error" if words else "not started")
    assert words in finding.text
    if task_id == STEP:
        with installed_source("optimizer.py", written(STEP, body)) as module:
            assert adamw_checks.is_started(module.AdamW) == bool(words)


# ---------------------------------------------------------------------------------------------
# Our own stand-ins are never blamed on the student


LAYER_WITH = """
attended = self.self_attention(hidden_states, attention_mask)
attended = self.add_norm(hidden_states, attended, {modules})
expanded = self.interm_af(self.interm_dense(attended))
return self.add_norm(attended, expanded, self.out_dense, self.out_dropout, self.out_layer_norm)
"""
RIGHT_ORDER = "self.attention_dense, self.attention_dropout, self.attention_layer_norm"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("hidden_states, attended,", "None, 1,", "input of add_norm's call 1"),
        (
            RIGHT_ORDER,
            "self.attention_dropout, self.attention_dense, self.attention_layer_norm",
            "dense_layer of add_norm's call 1: a Dropout instead of a tensor",
        ),
    ],
)
def test_odd_arguments_are_compared_not_read(old, new, words):
    body = LAYER_WITH.format(modules=RIGHT_ORDER).replace(old, new)
    with installed_source("bert.py", written(LAYER, body)):
        findings = jobs.examine(graded_task(LAYER))
    assert "error" not in {finding.kind for finding in findings}
    assert any(words in finding.text for finding in findings)


def test_a_layer_called_by_forward_is_traced():
    body = LAYER_WITH.format(modules=RIGHT_ORDER)
    body = body.replace("self.self_attention(", "self.self_attention.forward(")
    body = body.replace("self.interm_af(self.interm_dense(attended))", "attended")
    with installed_source("bert.py", written(LAYER, body)):
        facts = [finding.text for finding in explain.measured(LAYER)]
    assert facts[0].startswith("add_norm (call 2) is given the result of add_norm as `output`")
    assert "a = self_attention(hidden_states, attention_mask); b = add_norm(" in facts[-1]
    assert "something else" not in facts[0] + facts[-1]


def test_a_stand_in_complains_by_the_students_name():
    body = "return self.add_norm(hidden_states)"
    text = raised(LAYER, body)[2].text
    assert text.startswith("TypeError: BertLayer.add_norm() missing 4 required")
    text = raised(FORWARD, "self.bert(input_ids)")[2].text
    assert text.startswith("TypeError: BertModel.forward() missing 1 required")


# ---------------------------------------------------------------------------------------------
# A known mistake is told by an error's words


def test_another_error_at_the_same_place_has_no_name():
    """A known mistake raises with correct_bias=False only, too."""
    plain = next(answer for answer in read_all(VARIANTS, STEP) if answer.name == "plain")
    asked = 'if group["correct_bias"]:'
    other = f'if not group["correct_bias"]: raise KeyError("mine")\n            {asked}'
    methods = {"step": plain.versions[plain.first]["step"].replace(asked, other)}
    source = (ROOT / "optimizer.py").read_text(encoding="utf-8")
    with installed_source("optimizer.py", put_methods(source, "AdamW", methods)):
        findings = jobs.examine(graded_task(STEP))
    assert findings
    assert {finding.name for finding in findings} == {""}


if __name__ == "__main__":
    write_cases()
