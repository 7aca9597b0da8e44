"""sanity_check.py --trace: the first state that differs, and the function to open."""

import json

import pytest
from factories import ROOT, copy_part1
from running import as_process

from checks.hunt.edits import installed_source
from checks.report import LABELS
from checks.trace import states
from course.regions import parse, render

SOURCE = (ROOT / "bert.py").read_text(encoding="utf-8")
RESULT = "ln_layer(input + dropout(dense_layer(output)))"
GELU = "self.interm_af(self.interm_dense(attended))"
WRONG = """\
words + segments + positions|words + segments|embeddings|Model.embed
F.softmax(scores, dim=-1)|F.softmax(scores, dim=-2)|layer 1, attention|Attention.attention
(key, query, value, a|(query, key, value, a|layer 1, attention|Attention.forward
(key, query, value, a|(key, query, a|layer 1, attention|Attention.forward
self_attention(hidden_states, a|self_attention(hidden_states, 0 * a|layer 1, attention|Layer.forward
R|input + R|layer 1, first add & norm|Layer.add_norm
return R|R|layer 1, first add & norm|Layer.add_norm
self.attention_layer_norm,|self.out_layer_norm,|layer 1, first add & norm|Layer.forward
return R|return R if output.size(2) == 42 else input|layer 1, second add & norm|Layer.add_norm
self.interm_af(|2 * self.interm_af(|layer 1, second add & norm|Layer.forward
F.softmax(scores,|F.softmax(scores.detach(),|gradient of the weights, layer 2|Attention.attention
return R|with torch.no_grad(): return R|gradient of layer 2, second add & norm|Layer.add_norm
(hidden_states, additive_mask)|(hidden_states, 0 * additive_mask)|layer 1, attention|Model.encode
embedded, attention_mask)|embedded, 0 * attention_mask + 1)|layer 1, attention|Model.forward
in self.bert_layers:|in self.bert_layers[:1]:|last hidden state|Model.encode
encoded[:, 0]|encoded[:, -1]|pooler|Model.forward
heads.transpose(1, 2)|heads.transpose(1, 2).flip(1)|layer 1, attention|Attention.transform
self.key)  #|self.key).detach()  #|gradient of the weights, layer 2|Attention.forward
word_embedding(input_ids)|word_embedding(input_ids).data|gradient of the weights, embeddings|embed
return R|input += 1; input -= 1; return R|gradients|Layer.add_norm
return heads.t|x += 0; return heads.t|gradients|Attention.transform
return {"last|pooled += 0; return {"last|gradients|Model.forward
"""  # what is replaced, and by what; the first wrong row; the function (R is RESULT)


def traced(source: str):
    """The outcome of the job for this bert.py, its rows by name, and what else it says."""
    with installed_source("bert.py", source):
        outcome = states.run("page")
    rows = {x.text[:39].strip(): (x.kind, x.text[40:]) for x in outcome.findings}
    texts = [x.text for x in outcome.findings if x.kind not in LABELS]
    return outcome, {name: row for name, row in rows.items() if row[0] in LABELS}, texts


def with_stubs(*ids: str) -> str:
    """bert.py as a student has it who has not written these regions yet."""
    return render(
        piece if isinstance(piece, str) or piece.id in ids else "\n".join([*piece.solution, ""])
        for piece in parse(SOURCE)
    )


def edited(old: str, new: str) -> str:
    """bert.py with one change."""
    assert SOURCE.count(old) == 1
    return SOURCE.replace(old, new)


@pytest.mark.parametrize("row", WRONG.splitlines())
def test_the_first_that_is_wrong_and_the_function_to_open(row):
    old, new, first, function = row.split("|")
    source = edited(*(part.replace("R", RESULT) for part in (old, new)))
    outcome, rows, (opened, *_) = traced(source)
    assert next(name for name, row in rows.items() if row[0] in states.WRONG) == first
    assert (outcome.status, outcome.about) == ("wrong", f"the first that is wrong: {first}")
    name, line = opened.partition(": open ")[2].removesuffix(")").split(" (bert.py:")
    assert name.endswith(function)
    assert f"def {function.split('.')[-1]}(" in source.splitlines()[int(line) - 1]


def test_a_layer_that_is_written_in_another_way_is_not_wrong():
    each = "torch.stack([self.interm_af(self.interm_dense(row)) for row in attended])"
    for way, times in {each: 5, GELU.replace("self.interm_af", "F.gelu"): 0}.items():
        outcome, rows, _ = traced(edited(GELU, way))
        skipped = [row[1] for row in rows.values() if row[0] == "skipped"]
        assert (outcome.status, skipped) == ("ok", [f"not seen: {times} calls of interm_af"] * 2)
        assert len(rows) == 22  # a gradient of what is not seen has no row


@pytest.mark.parametrize(
    ("tasks", "replaced", "right"),
    [
        (["attention"], ["layer 1, attention", "layer 2, attention"], 14),
        (["layer"], ["layer 1, second add & norm", "layer 2, second add & norm"], 1),
        (["attention", "embed"], ["embeddings", "layer 1, attention", "layer 2, attention"], 13),
    ],
)
def test_what_follows_a_stub_gets_the_correct_state(tasks, replaced, right):
    outcome, rows, texts = traced(with_stubs(*(f"bert.{task}" for task in tasks)))
    assert [name for name, row in rows.items() if "not filled in: Task 1." in row[1]] == replaced
    assert [row[0] for row in rows.values()].count("ok") == right
    assert (outcome.status, texts[:-1]) == ("skipped", [states.REPLACED])


def test_what_follows_an_exception_gets_the_correct_state():
    outcome, rows, texts = traced(edited("interm_dense(attended)", "out_dense(attended)"))
    wrong = [f"layer {number}, second add & norm" for number in (1, 2)]
    assert [name for name, row in rows.items() if row[0] != "ok"] == [
        *("layer 1, feed-forward", wrong[0], "layer 2, feed-forward", wrong[1]),
        *("last hidden state", "pooler", "gradients"),  # nothing of the student's is in them
    ]
    assert texts[0].startswith("the first exception: open BertLayer.forward (bert.py:")
    assert texts[1].startswith(error := "RuntimeError: mat1 and mat2 shapes cannot")
    assert error in texts[-1]
    assert outcome.about == f"the first that is wrong: {wrong[0]}"


def test_the_command_and_its_page(tmp_path):
    folder = copy_part1(tmp_path / "copy")
    done = as_process("sanity_check.py", "--trace", folder=folder)
    assert (done.code, done.err, done.out.count("    ok    ")) == (0, "", 24)
    wrong = edited("scores / math.sqrt(query.size(-1))", "scores")
    (folder / "bert.py").write_text(wrong, encoding="utf-8")
    done = as_process("sanity_check.py", "--trace", "--html", "t.html", folder=folder, COLUMNS="99")
    said = ("the first that differs: open ", "what follows builds", "in 1344 of 2100 numbers")
    assert (done.code, [done.out.count(words) for words in said]) == (1, [1, 1, 1])
    assert done.out.endswith("next: python sanity_check.py --task 1.1 --hint\n")
    page = (folder / "t.html").read_text(encoding="utf-8")
    (same, also), (mine, theirs), *_ = json.loads(page.split("const maps = ")[1].split(";")[0])
    assert (len(mine), len(mine[0]), same == also, mine == theirs) == (6, 42, True, False)
    assert "open BertSelfAttention.attention (bert.py:" in page
    assert "http" not in page
