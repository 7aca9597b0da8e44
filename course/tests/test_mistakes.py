"""Mistakes and correct solutions as files: their form, what the checks say of them, mutants."""

import ast
import itertools
import textwrap
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, one_line_error, versions

from checks import jobs
from checks.findings import Finding, Outcome, faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.hunt.equivalence import compare
from checks.hunt.mutants import Edit, FunctionText
from checks.part1 import adamw_checks, adamw_mistakes, references, runners
from course import answers, fingerprints, mutations
from course.answers import (
    MISTAKES,
    VARIANTS,
    installed,
    installed_source,
    put,
    read,
    read_all,
    solution_with,
)
from course.fingerprints import OPTIMIZER, base_of, known_of, merge, with_fingerprints
from course.mutations import COMPARED, Mutant, table, trouble
from course.patches import patched
from training.files.errors import InputError

ADD_NORM, FORWARD = graded_task("bert.add_norm"), graded_task("classifier.forward")
WRONG = {entry.id: read_all(MISTAKES, entry.id) for entry in with_fingerprints()}
OF_BERT = [given for task_id, given in WRONG.items() if task_id.startswith("bert.")]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Without the thousand steps of the optimizer's published protocol."""
    monkeypatch.delitem(adamw_checks.CHECKS, "published protocol")


def names(findings):
    return {finding.name for finding in findings} - {""}


def findings_where(entry, source):
    with installed_source(entry.file, source):
        return jobs.examine(entry)


# ---------------------------------------------------------------------------------------------
# All mistakes and correct solutions


@pytest.mark.parametrize(("answer", "version"), versions(itertools.chain(*WRONG.values())))
def test_a_mistake_is_caught_and_named_however_it_is_written(answer, version):
    with installed(answer, version):
        findings = jobs.examine(answer.task)
    assert faulty(findings)
    assert names(findings) == {answer.named}
    if answer.task.id != OPTIMIZER or version == answer.first:  # rewrites may need more
        assert not [finding for finding in findings if finding.kind == "fact"]


SOLUTIONS = [a for a in read_all(VARIANTS) if a.task.part != 2]  # of part 2: test_sanity_part2.py


@pytest.mark.parametrize(("answer", "version"), versions(SOLUTIONS))
def test_a_correct_solution_is_no_false_positive(answer, version):
    tasks = [entry for entry in GRADED_TASKS if entry.file == answer.task.file]
    with installed(answer, version):
        assert {entry.id: jobs.examine(entry) for entry in tasks} == {e.id: [] for e in tasks}


# Each task's first mistakes together, then the second ones, …; a task with fewer begins again.
TOGETHER = [
    [given[number % len(given)] for given in OF_BERT] for number in range(max(map(len, OF_BERT)))
]


@pytest.mark.parametrize("mistakes", TOGETHER, ids=lambda group: ", ".join(a.name for a in group))
def test_a_mistake_changes_nothing_in_the_check_of_another_task(mistakes):
    source = (ROOT / "bert.py").read_text(encoding="utf-8")
    for answer in mistakes:
        source = put(answer, source=source)
    with installed_source("bert.py", source):
        named = {answer.task.id: names(jobs.examine(answer.task)) for answer in mistakes}
    assert named == {answer.task.id: {answer.name} for answer in mistakes}


@pytest.mark.parametrize(
    ("task_id", "step"), [*((a[0].folder, 11) for a in OF_BERT), (OPTIMIZER, 61)]
)
def test_of_two_mistakes_at_least_one_is_named(task_id, step):
    entry = graded_task(task_id)
    base, missed, count = base_of(entry), [], 0
    for pair in list(itertools.combinations(WRONG[task_id], 2))[::step]:
        if not (methods := merge(base, *(answer.versions[answer.first] for answer in pair))):
            continue
        imports = pair[0].imports + pair[1].imports
        findings = findings_where(entry, solution_with(entry, methods, imports))
        count += bool(faulty(findings))
        if faulty(findings) and not names(findings) & {answer.name for answer in pair}:
            missed.append([answer.name for answer in pair])
    assert count > 8
    assert len(missed) <= 0.06 * count, missed  # 1.5 % of all pairs are


@pytest.mark.parametrize(
    ("task_id", "old", "new", "words"),
    [
        ("bert.layer", "self.interm_dense(attended)", "self.interm_dense(attended.detach())",
         "gradients of result of add_norm's call 1"),
        (FORWARD.id, "self.dropout(pooled))", "self.dropout(pooled)).squeeze()",
         "(9,) instead of (1, 9)"),
        (FORWARD.id, "attention_mask)[", "attention_mask.bool())[", ""),
        (FORWARD.id, "attention_mask)[", "attention_mask.double())[", ""),
    ],
)  # fmt: skip
def test_what_no_stored_mistake_makes_is_caught_unless_it_is_correct(task_id, old, new, words):
    entry = graded_task(task_id)
    source = (ROOT / entry.file).read_text(encoding="utf-8")
    assert source.count(old) == 1
    findings = findings_where(entry, source.replace(old, new))
    assert any(words in finding.text for finding in faulty(findings)) if words else not findings


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dropout_in_code", "nn.Dropout(0.1)", "nn.Dropout(0.25)"),
        ("labels_in_code", "nn.Linear(config.hidden_size, 5)", "nn.Linear(config.hidden_size, 7)"),
        ("width_in_code", "nn.Linear(768,", "nn.Linear(384,"),
    ],
)
def test_a_number_in_the_code_is_named_whichever_it_is(name, old, new):
    answer = read(MISTAKES, f"classifier.init/{name}")
    assert put(answer).count(old) == 1
    assert names(findings_where(answer.task, put(answer).replace(old, new))) == {name}


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


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.tuples(*map(st.sampled_from, LINES)))
def test_a_correct_attention_of_lines_that_students_write_is_no_false_positive(lines):
    head = "def attention(self, key, query, value, attention_mask):"
    source = "\n".join([head, *(f"    {line}" for line in lines), ""])
    entry = graded_task("bert.attention")
    assert (
        findings_where(entry, solution_with(entry, {"attention": source}, ("import math",))) == []
    )


# ---------------------------------------------------------------------------------------------
# How they are written down

RIGHT = '''\
    """Everything is added."""

    import math
    from torch.nn import functional as F


    class Plain:
        def add_norm(self, input, output, dense_layer, dropout, ln_layer):
            output = dense_layer(output)
            return ln_layer(input + output)


    class Again:
        @staticmethod
        def helper(x):
            return F.relu(x) * math.pi

        def add_norm(self, input, output, *modules):
            return None
'''
FILE = """\
    Mistakes.
    import math

    a_mistake: The input
    is not added.
    Hint: It has to be,
    every time. Read: a paper, §3
        input + output → output
      Again:
        return None → return output
        in helper:
        F.relu(x) * math.pi → F.gelu(x)
      Shorter(Plain): ln_layer(input + output) → output
      Whole:
        @staticmethod
        def helper(x):
            return math.e

    another: The norm is missing.
    Hint: Where? Read: a book Named: no_norm
      Bare(Plain):
        - return ln_layer(input + output)
        + return input + output
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Correct solutions in one folder, mistakes in another."""
    for name in ("MISTAKES", "VARIANTS"):
        monkeypatch.setattr(answers, name, tmp_path / name)
    (tmp_path / "VARIANTS" / ADD_NORM.id).mkdir(parents=True)
    (tmp_path / "MISTAKES").mkdir()
    write(tmp_path / "VARIANTS" / ADD_NORM.id / "plain.py", RIGHT)
    write(tmp_path / "MISTAKES" / f"{ADD_NORM.id}.txt", FILE)
    return tmp_path


def write(path, text):
    path.write_text(textwrap.dedent(text), encoding="utf-8")


def test_answers_are_read_and_put_into_the_source(folders):
    (plain,) = read_all(folders / "VARIANTS")
    assert (plain.task, plain.name, plain.says) == (ADD_NORM, "plain", "Everything is added.")
    assert list(plain.versions) == ["Plain", "Again"]
    mistake, another = read_all(folders / "MISTAKES")
    assert (mistake.says, mistake.hint) == ("The input is not added.", "It has to be, every time.")
    assert list(mistake.versions) == ["AMistake", "Again", "Shorter", "Whole"]
    first, again, shorter, whole = mistake.versions.values()
    assert first["add_norm"].endswith("    return ln_layer(output)\n")
    assert again["helper"] == "@staticmethod\ndef helper(x):\n    return F.gelu(x)\n"
    assert shorter["add_norm"].endswith("    return output\n")
    assert whole == {"helper": "@staticmethod\ndef helper(x):\n    return math.e\n"}
    assert (mistake.named, another.named, another.read) == ("a_mistake", "no_norm", "a book")
    source = put(plain, "Again")
    assert "### " not in source
    assert source.count("    @staticmethod\n    def helper(x):") == 1  # added to the class
    with installed(plain, "Again") as module:
        assert module.BertLayer.helper(torch.tensor(-1.0)) == 0
        assert module.BertLayer.add_norm(None, 1, 2, 3) is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Hint: It", "Idea: It", "'a_mistake: The input': a mistake begins with 'name: what is wr"),
        ("another: The", "a_mistake: The", "a_mistake is there twice"),
        ("Shorter(Plain)", "Again(Plain)", "a_mistake, Again, a change of Plain: this name is tak"),
        ("in helper", "in help", "a_mistake, Again, a change of Again: there is no help"),
        ("input + output → o", "x → o", "AMistake, a change of Plain: 'x' is there 0 times"),
        ("return math.e", "return (", "a_mistake, Whole, a change of Whole: .*never closed"),
    ],
)
def test_mistakes_of_another_form_are_refused(folders, old, new, words):
    assert FILE.count(old) == 1
    write(folders / "MISTAKES" / f"{ADD_NORM.id}.txt", FILE.replace(old, new))
    with one_line_error(ADD_NORM.id) as refused:
        read_all(folders / "MISTAKES")
    refused.match(words)


FIVE = "def f(x):\n    if x:\n        y = g(x)\n        z = y\n    z = y\n    return y + 1\n"


@pytest.mark.parametrize(
    ("patch", "old", "new"),
    [
        (["y + 1 → 2"], "y + 1", "2"),
        (["- y = g(x)", "- z = y"], "        y = g(x)\n        z = y\n", ""),
        (["  y = g(x)", "  z = y", "- z = y"], "    z = y\n    return", "    return"),
        (["  if x:", "+     w = 1"], "if x:\n", "if x:\n        w = 1\n"),
        (["q → r"], "", "'q' is there 0 times, not once"),
        (["- z = y"], "", "'z = y' is there 2 times, not once"),
        (["+ w = 1"], "", "'+ w = 1': no line above it says after which one it comes"),
        (["w = 1"], "", "'w = 1': a change begins with '- ', '+ ' or two spaces, or has '→'"),
        (["g(x) → h(x)", "y = g → z = g"], "", "two changes at the same place"),
    ],
)
def test_a_change_is_made_or_refused(patch, old, new):
    if old:
        assert patched(FIVE, patch) == FIVE.replace(old, new, 1)
    else:
        with one_line_error(new):
            patched(FIVE, patch)


# ---------------------------------------------------------------------------------------------
# Fingerprints


@pytest.mark.parametrize("entry", with_fingerprints(), ids=lambda entry: entry.id)
def test_every_mistake_has_a_stored_fingerprint_and_no_other_has(entry):
    if entry.id == OPTIMIZER:
        stored = [adamw_mistakes.known_mistakes()]
    else:
        stored = [*map(references.known_mistakes, runners.groups_of(entry.id))]
    answers = [names for known in stored for names, _ in known.answers]
    singles = {names[0] for names in answers if len(names) == 1}
    assert singles == {answer.name for answer in WRONG[entry.id]}
    pairs = Counter(names for names in answers if len(names) == 2)
    assert {*pairs.values()} == ({1, 2} if entry.id == OPTIMIZER else {1})  # orders of decay


@pytest.mark.parametrize("names", [["dense_skipped"], ["dense_skipped", "no_dropout"]])
def test_a_mistake_that_computes_nothing_new_is_refused(names, monkeypatch):
    *others, last = [read(MISTAKES, f"{ADD_NORM.id}/{name}") for name in names]
    monkeypatch.setattr(fingerprints, "read_all", lambda folder, _: [*others, last])
    assert {made for known in known_of(ADD_NORM).values() for (made, *_), _ in known.answers} == {
        *names
    }
    same = others[0].versions[others[0].first] if others else base_of(ADD_NORM)
    monkeypatch.setitem(last.versions, last.first, same)
    message = "computes the same as dense_skipped" if others else "computes what is correct"
    with pytest.raises(InputError, match=f"the mistake {last.name} {message}"):
        known_of(ADD_NORM)


# ---------------------------------------------------------------------------------------------
# Mutants

FUNCTION = """
class Owner:
    def f(self, x, y):
        w = y["lr"]
        for i in x:
            if i is None:
                continue
            z = -x[:i] / 2  # halves
            z.add_(self.drop(y, train=self.training))
        return torch.sqrt(z, dim=0, keepdim=self.dense)
"""


@pytest.mark.parametrize(
    ("operator", "old", "new"),
    [
        ("drop_statement", "continue", "pass"),
        ("replace_operator", "/ 2", "* 2"),
        ("change_operands", "-x[:i] / 2", "2 / -x[:i]"),
        ("change_flag", "train=self.training", "train=not self.training"),
        ("drop_call", "self.drop(y, train=self.training)", "y"),
        ("change_arguments", ", keepdim=self.dense", ""),
        ("replace_by_neighbour", "torch.sqrt", "torch.rsqrt"),
        ("change_in_place", "z.add_(", "z.add("),
    ],
)
def test_operators(operator, old, new):
    text = FunctionText(SimpleNamespace(file="f.py", function="Owner.f"), FUNCTION)
    made = [ast.unparse(ast.parse(text.source(edit))) for edit in text.edits()[operator]]
    assert FUNCTION.count(old) == 1
    assert ast.unparse(ast.parse(FUNCTION.replace(old, new))) in made


@pytest.mark.parametrize(
    ("name", "old", "new", "same"),
    [
        ("bert.attention/plain", "scores = scores + a", "scores = scores.detach() + a", False),
        ("bert.layer/plain", "self.out_dropout,", "self.attention_dropout,", True),
        ("bert.layer/plain", "self.out_layer_norm,", "self.attention_layer_norm,", False),
        ("classifier.init/plain", 'option == "finetune"', 'option != "pretrain"', True),
        ("optimizer.step/plain", "denominator = root + eps", "denominator = eps + root", True),
        ("optimizer.step/plain", "grad = p.grad", "grad = p.grad.mul_(1.5)", False),
        ("optimizer.step/decay_before", "1 - lr * wd", "1 - lr * wd / 2", False),
    ],
)  # fmt: skip
def test_equivalence(name, old, new, same):
    answer = read(VARIANTS, name)
    source = put(answer)
    assert old in source
    status = compare(answer.task, source.replace(old, new, 1), source).status
    assert (status == "same") == same


def test_of_some_mutants_none_is_missed_or_a_false_positive(run_script_here):
    result = run_script_here(mutations, "--task", "1.2", "--most", "20", "--seed", "5")
    assert result.code == 0, result.out
    assert "| 1.2 | 20 |" in result.out


def test_the_table_counts_trouble():
    named, values = Finding("named", "…", name="x"), Finding("values", "…")
    said = [
        ("equivalent", ()),
        ("equivalent", (values,)),
        ("wrong", ()),
        ("wrong", (values, named)),
    ]
    outcomes = [Outcome("", status, COMPARED, found) for status, found in said]
    outcomes.append(Outcome("", "wrong", "not done after 90 seconds"))
    assert [*map(trouble, outcomes)] == ["", "FALSE POSITIVE", "MISSED", "", "LOST"]
    made = (
        Mutant("bert.attention", "plain/Plain", "attention", "by hand", Edit(n, n))
        for n in range(5)
    )
    row = table(dict(zip(made, outcomes, strict=True))).splitlines()[-1]
    assert row == "| all | 5 | 2 | 1 | 2 | 1 | 1 | 1 |"
