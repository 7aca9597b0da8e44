"""sanity_check.py --trace: the first state that differs, and the function to open."""

import json

import pytest
from factories import ROOT, copy_part1
from running import as_process

from checks.hunt.edits import installed_source
from checks.trace import states
from course.regions import parse, render

SOURCE = (ROOT / "bert.py").read_text(encoding="utf-8")
RESULT = "ln_layer(input + dropout(dense_layer(output)))"
GELU = "self.interm_af(self.interm_dense(attended))"
WRONG = """\
words + segments + positions|words + segments|embeddings|embed
F.softmax(scores, dim=-1)|F.softmax(scores, dim=-2)|layer 1, attention|attention
(hidden_states, attention_mask)  #|(hidden_states, 0 * attention_mask)  #|layer 1, attention|forward
R|input + R|layer 1, first add & norm|add_norm
return R|R|layer 1, first add & norm|add_norm
self.attention_layer_norm,|self.out_layer_norm,|layer 1, first add & norm|forward
return R|return R if output.size(-1) == 42 else input|layer 1, second add & norm|add_norm
self.interm_af(|2 * self.interm_af(|layer 1, second add & norm|forward
F.softmax(scores,|F.softmax(scores.detach(),|gradient of the weights, layer 2|attention
return R|with torch.no_grad(): return R|gradient of layer 2, second add & norm|add_norm
(hidden_states, additive_mask)|(hidden_states, 0 * additive_mask)|layer 1, attention|encode
embedded, attention_mask)|embedded, 0 * attention_mask + 1)|layer 1, attention|forward
in self.bert_layers:|in self.bert_layers[:1]:|last hidden state|encode
encoded[:, 0]|encoded[:, -1]|pooler|forward
return heads.transpose(1, 2)|return heads.transpose(1, 2).flip(1)|layer 1, attention|transform
linear_layer(x)|linear_layer(x).data|gradient of layer 2, attention|transform
word_embedding(input_ids)|word_embedding(input_ids).data|gradient of the weights, embeddings|embed
"""  # what is replaced, and by what; the first line that differs, and the function (R is RESULT)


def traced(source: str):
    """The outcome of the job for this bert.py, its lines by name, and what else it says."""
    with installed_source("bert.py", source):
        outcome = states.run("page")
    statuses = ("ok", "differs", "skipped")
    lines = {f.text[:39].strip(): (f.kind, f.text[40:]) for f in outcome.findings[:-1]}
    others = [f.text for f in outcome.findings if f.kind not in statuses]
    return outcome, {name: line for name, line in lines.items() if line[0] in statuses}, others


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
def test_the_first_difference_and_the_function_to_open(row):
    old, new, first, function = row.split("|")
    source = edited(*(part.replace("R", RESULT) for part in (old, new)))
    outcome, lines, (opened, *_) = traced(source)
    differing = next(name for name, line in lines.items() if line[0] == "differs")
    place = opened.removeprefix("the first that differs: open ").partition(")")[0]
    name, line = place.split(" (bert.py:")
    assert (outcome.status, differing, name.split(".")[1]) == ("wrong", first, function)
    assert outcome.about == f"the first difference: {first}"
    assert f"def {function}(" in source.splitlines()[int(line) - 1]


def test_a_layer_that_is_written_in_another_way_is_not_wrong():
    each = "torch.stack([self.interm_af(self.interm_dense(row)) for row in attended])"
    ways = {
        each: "calls interm_af 5 times",
        GELU.replace("self.interm_af", "F.gelu"): "does not call interm_af",
    }
    for way, does in ways.items():
        outcome, lines, _ = traced(edited(GELU, way))
        skipped = [line[1] for line in lines.values() if line[0] == "skipped"]
        assert (outcome.status, skipped) == ("ok", [f"not seen: your code {does}"] * 2)
        assert len(lines) == 22  # a gradient of what is not seen has no line


def test_a_task_that_is_not_written_and_an_exception_end_the_trace():
    outcome, lines, _ = traced(with_stubs("bert.add_norm", "bert.layer"))
    assert (outcome.status, lines["embeddings"][0], len(lines)) == ("skipped", "ok", 1)
    assert outcome.title.startswith("Task 1.3 · BertLayer.forward (bert.py:")
    outcome, lines, _ = traced(with_stubs("bert.embed"))
    assert outcome.title.startswith("Task 1.4 · BertModel.embed (bert.py:")
    assert [line[0] for line in lines.values()] == ["skipped"] + ["ok"] * 22  # they are given
    outcome, lines, (text, page) = traced(edited("interm_dense(attended)", "out_dense(attended)"))
    assert [line[0] for line in lines.values()] == ["ok"] * 3
    assert text.startswith(error := "RuntimeError: mat1 and mat2 shapes cannot")
    assert error in page
    outcome, _, _ = traced(edited(f"return {RESULT}", "raise NotImplementedError"))
    assert outcome.title.startswith("BertLayer.add_norm (bert.py:")
    outcome, _, (text, _) = traced(edited(f"return {RESULT}", f"input += 1; return {RESULT}"))
    assert outcome.status == "wrong"
    assert all(words in text for words in ("BertLayer.add_norm: ", "`input`"))


def test_the_command_and_its_page(tmp_path):
    folder = copy_part1(tmp_path / "copy")
    done = as_process("sanity_check.py", "--trace", folder=folder)
    assert (done.code, done.err, done.out.count("    ok    ")) == (0, "", 24)
    wrong = edited("scores / math.sqrt(query.size(-1))", "scores")
    (folder / "bert.py").write_text(wrong, encoding="utf-8")
    done = as_process("sanity_check.py", "--trace", "--html", "t.html", folder=folder)
    said = ("the first that differs: open ", "what follows builds on this", "(1344 of 1344 numbers")
    assert (done.code, [done.out.count(words) for words in said]) == (1, [1, 1, 1])
    assert done.out.endswith("next: python sanity_check.py --task 1.1 --hint\n")
    page = (folder / "t.html").read_text(encoding="utf-8")
    (same, also), (mine, theirs), *_ = json.loads(page.split("const maps = ")[1].split(";")[0])
    assert (len(mine), len(mine[0]), same == also, mine == theirs) == (6, 42, True, False)
    assert "Open BertSelfAttention.attention (bert.py:" in page
    assert "http" not in page
