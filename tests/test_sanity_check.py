"""sanity_check.py and sanity_part1.py against our solution, wrong versions, other right ones."""

import ast
import math
import os
import shutil
import subprocess
import sys

import pytest
import torch
from conftest import ROOT
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

import bert
import classifier
import sanity_check
import sanity_part1
from sanity_check import check
from sanity_part1 import student_outputs
from tasks import TASKS, task
from utils import InputError

PART_1 = [entry for entry in TASKS if entry.number.startswith("1.")]
CHECKED = [entry for entry in PART_1 if entry.file != "optimizer.py"]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def replace(monkeypatch, task_id: str, function) -> None:
    """Put another function in the place of a task's solution."""
    owner, name = task(task_id).function.split(".")
    module = {"bert.py": bert, "classifier.py": classifier}[task(task_id).file]
    monkeypatch.setattr(getattr(module, owner), name, function)


def wrong_tasks() -> dict[str, list]:
    found = {entry.id: check(entry) for entry in CHECKED}
    return {task_id: findings for task_id, findings in found.items() if findings}


# ---------------------------------------------------------------------------------------------
# Functions in pieces: each wrong one leaves the right way at one place


def heads_together(context):
    return context.transpose(1, 2).flatten(2)


def attention(
    scale="width", masked="before", axis=-1, drop="probabilities", swap=False, merge=None
):
    def function(self, key, query, value, attention_mask):
        if swap:
            key, query = query, key
        scores = query @ key.transpose(-1, -2)
        scores = scores / {"width": key.size(-1) ** 0.5, "none": 1, "model": 32**0.5}[scale]
        if drop == "scores":
            scores = self.dropout(scores)
        if masked == "before":
            scores = scores + attention_mask
        elif masked == "multiplied":
            scores = scores * attention_mask
        probabilities = F.softmax(scores, dim=axis)
        if masked == "after":
            probabilities = probabilities * (attention_mask == 0)
        if drop == "probabilities":
            probabilities = self.dropout(probabilities)
        elif drop == "always":
            probabilities = F.dropout(probabilities, self.dropout.p, training=True)
        context = probabilities @ value
        if drop == "context":
            context = self.dropout(context)
        return (merge or heads_together)(context)

    return function


def detached(self, key, query, value, attention_mask):
    return attention()(self, key, query.detach(), value, attention_mask)


def sdpa_always(self, key, query, value, attention_mask):
    p = self.dropout.p
    return heads_together(
        F.scaled_dot_product_attention(query, key, value, attention_mask, dropout_p=p)
    )


def shared_keys(self, key, query, value, attention_mask):
    return attention()(self, key, query, value, attention_mask.new_zeros(()) + attention_mask[:1])


def add_norm(formula):
    def function(self, input, output, dense_layer, dropout, ln_layer):
        return formula(self, input, output, dense_layer, dropout, ln_layer)

    return function


def layer(attend=None, activate=None, second=None, inner=None, last=None):
    def function(self, hidden, mask):
        attended = self.self_attention(hidden, mask if attend is None else attend(mask))
        normed = self.add_norm(
            hidden,
            attended,
            self.attention_dense,
            self.attention_dropout,
            self.attention_layer_norm if inner is None else inner(self),
        )
        expanded = self.interm_dense(normed)
        expanded = (activate or (lambda self, x: self.interm_af(x)))(self, expanded)
        residual = normed if second is None else hidden
        result = self.add_norm(
            residual, expanded, self.out_dense, self.out_dropout, self.out_layer_norm
        )
        return result if last is None else last(self, result)

    return function


def gelu_late(self, hidden, mask):
    attended = self.self_attention(hidden, mask)
    normed = self.add_norm(
        hidden, attended, self.attention_dense, self.attention_dropout, self.attention_layer_norm
    )
    expanded = self.interm_af(self.out_dense(self.interm_dense(normed)))
    return self.out_layer_norm(normed + self.out_dropout(expanded))


def without_feed_forward(self, hidden, mask):
    attended = self.self_attention(hidden, mask)
    return self.add_norm(
        hidden, attended, self.attention_dense, self.attention_dropout, self.attention_layer_norm
    )


def embed(words=1, positions=1, segments=1, norm=True, drop="after", shift=0):
    def function(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        total = words * self.word_embedding(input_ids)
        total = total + segments * self.tk_type_embedding(token_type_ids)
        places = self.position_ids[:, shift : length + shift]
        total = total + positions * self.pos_embedding(places)
        if drop == "before":
            total = self.embed_dropout(total)
        if norm:
            total = self.embed_layer_norm(total)
        return self.embed_dropout(total) if drop == "after" else total

    return function


def make_head(size=lambda c: (c.hidden_size, c.num_labels), p=None, freeze=None, count=1):
    original = classifier.BertSentimentClassifier.__init__

    def function(self, config):
        original(self, config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob if p is None else p)
        self.classifier = nn.Linear(*size(config))
        if count == 2:
            self.hidden = nn.Linear(config.hidden_size, config.hidden_size)
        if freeze is not None:
            self.bert.requires_grad_(not freeze)

    return function


def forward(take=lambda outputs: outputs["pooler_output"], drop=True, after=None, mask=True):
    def function(self, input_ids, attention_mask):
        if not mask:
            attention_mask = torch.ones_like(attention_mask)
        taken = take(self.bert(input_ids, attention_mask))
        logits = self.classifier(self.dropout(taken) if drop else taken)
        return logits if after is None else after(self, logits)

    return function


ATTENTION, ADD_NORM, LAYER, EMBED = "bert.attention", "bert.add_norm", "bert.layer", "bert.embed"
INIT, FORWARD = "classifier.init", "classifier.forward"
NO_DROPOUT = "no dropout was applied in training mode"
WRONG = {  # name: task, version, words that a finding must hold
    "no 1/sqrt(W)": (ATTENTION, attention(scale="none"), "first difference"),
    "1/sqrt(D)": (ATTENTION, attention(scale="model"), "first difference"),
    "mask multiplied": (ATTENTION, attention(masked="multiplied"), "values"),
    "mask after softmax": (ATTENTION, attention(masked="after"), "padding"),
    "mask forgotten": (ATTENTION, attention(masked="never"), "padding"),
    "mask of the first": (ATTENTION, shared_keys, "padding"),
    "softmax over queries": (ATTENTION, attention(axis=-2), "first difference"),
    "softmax over heads": (ATTENTION, attention(axis=1), "values"),
    "key and query swapped": (ATTENTION, attention(swap=True), "first difference"),
    "heads not transposed": (
        ATTENTION,
        attention(merge=lambda context: context.reshape(3, 7, 32)),
        "first difference",
    ),
    "heads not merged": (
        ATTENTION,
        attention(merge=lambda context: context),
        "shape (3, 4, 7, 8) instead of (3, 7, 32)",
    ),
    "nothing returned": (ATTENTION, attention(merge=lambda _: None), "a NoneType instead of"),
    "NaN": (ATTENTION, attention(merge=lambda c: heads_together(c) * math.nan), "nan at [0, 0, 0]"),
    "dropout on scores": (ATTENTION, attention(drop="scores"), "dropout"),
    "dropout on the context": (ATTENTION, attention(drop="context"), "dropout"),
    "no attention dropout": (ATTENTION, attention(drop="none"), NO_DROPOUT),
    "dropout always": (ATTENTION, attention(drop="always"), "applied in evaluation mode"),
    "sdpa's dropout always": (ATTENTION, sdpa_always, "applied in evaluation mode"),
    "detached": (ATTENTION, detached, "gradients of query: no gradient arrives"),
    "no residual": (ADD_NORM, add_norm(lambda s, i, o, de, dr, ln: ln(dr(de(o)))), "values"),
    "norm first": (
        ADD_NORM,
        add_norm(lambda s, i, o, de, dr, ln: i + dr(de(ln(i)))),
        "mat1 and mat2",
    ),
    "norm of the output": (
        ADD_NORM,
        add_norm(lambda s, i, o, de, dr, ln: i + ln(dr(de(o)))),
        "values",
    ),
    "no norm": (ADD_NORM, add_norm(lambda s, i, o, de, dr, ln: i + dr(de(o))), "values"),
    "another norm": (
        ADD_NORM,
        add_norm(lambda s, i, o, de, dr, ln: s.attention_layer_norm(i + dr(de(o)))),
        "(after feed-forward)",
    ),
    "no affine norm": (
        ADD_NORM,
        add_norm(lambda s, i, o, de, dr, ln: F.layer_norm(i + dr(de(o)), (32,), eps=ln.eps)),
        "values",
    ),
    "no dense": (
        ADD_NORM,
        add_norm(lambda s, i, o, de, dr, ln: ln(i + dr(o))),
        "must match the size",
    ),
    "no hidden dropout": (
        ADD_NORM,
        add_norm(lambda s, i, o, de, dr, ln: ln(i + de(o))),
        NO_DROPOUT,
    ),
    "dropout of the sum": (
        ADD_NORM,
        add_norm(lambda s, i, o, de, dr, ln: ln(dr(i + de(o)))),
        "dropout",
    ),
    "dropout last": (ADD_NORM, add_norm(lambda s, i, o, de, dr, ln: dr(ln(i + de(o)))), "dropout"),
    "no GELU": (LAYER, layer(activate=lambda s, x: x), "output of add_norm's call 2"),
    "tanh GELU": (
        LAYER,
        layer(activate=lambda s, x: F.gelu(x, approximate="tanh")),
        "output of add_norm's call 2",
    ),
    "ReLU": (LAYER, layer(activate=lambda s, x: F.relu(x)), "output of add_norm's call 2"),
    "GELU after the second projection": (LAYER, gelu_late, "values of result"),
    "residual from the input": (LAYER, layer(second=True), "input of add_norm's call 2"),
    "norms mixed up": (
        LAYER,
        layer(inner=lambda s: s.out_layer_norm),
        "ln_layer of add_norm's call 1",
    ),
    "layer without mask": (LAYER, layer(attend=lambda m: m * 0), "attention_mask of attention"),
    "no feed-forward": (LAYER, without_feed_forward, "values of result"),
    "one more dropout": (LAYER, layer(last=lambda s, x: s.out_dropout(x)), "dropout of result"),
    "no positions": (EMBED, embed(positions=0), "values of embeddings"),
    "positions from 1": (EMBED, embed(shift=1), "values of embeddings"),
    "no segments": (EMBED, embed(segments=0), "values of embeddings"),
    "embed without norm": (EMBED, embed(norm=False), "values of embeddings"),
    "embed without dropout": (EMBED, embed(drop="none"), NO_DROPOUT),
    "dropout before the norm": (EMBED, embed(drop="before"), "dropout of embeddings"),
    "two labels": (INIT, make_head(size=lambda c: (c.hidden_size, 2)), "found 32 → 2"),
    "width in the code": (INIT, make_head(size=lambda c: (768, c.num_labels)), "found 768 → 5"),
    "two layers": (INIT, make_head(count=2), "32 → 5, 32 → 32"),
    "dropout in the code": (INIT, make_head(p=0.1), "probability 0.1 instead of config.hid"),
    "never trained": (INIT, make_head(freeze=True), "option finetune"),
    "[CLS] of last_hidden_state": (
        FORWARD,
        forward(take=lambda outputs: outputs["last_hidden_state"][:, 0]),
        "values of logits",
    ),
    "softmax returned": (FORWARD, forward(after=lambda s, x: x.softmax(-1)), "values of logits"),
    "classifier without dropout": (FORWARD, forward(drop=False), NO_DROPOUT),
    "dropout of the logits": (
        FORWARD,
        lambda s, i, m: s.dropout(s.classifier(s.bert(i, m)["pooler_output"])),
        "dropout of logits",
    ),
    "predictions returned": (
        FORWARD,
        forward(after=lambda s, x: x.argmax(-1)),
        "shape (3,) instead",
    ),
    "classifier without mask": (FORWARD, forward(mask=False), "attention_mask given to self.bert"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_fails_its_own_task_and_no_other(name, monkeypatch):
    task_id, function, words = WRONG[name]
    replace(monkeypatch, task_id, function)
    found = wrong_tasks()
    if task_id == INIT:  # the next task cannot be checked without a head
        assert [finding.kind for finding in found.pop(FORWARD)] == ["waits"]
    assert list(found) == [task_id]
    assert any(words in finding.text for finding in found[task_id]), found


# ---------------------------------------------------------------------------------------------
# Other ways to do it right


def with_einsum(self, key, query, value, attention_mask):
    scores = torch.einsum("bhqw,bhkw->bhqk", query, key) * self.attention_head_size**-0.5
    probabilities = self.dropout(torch.softmax(scores + attention_mask, -1))
    context = torch.einsum("bhqk,bhkw->bqhw", probabilities, value)
    return context.reshape(*context.shape[:2], self.all_head_size)


def with_sdpa(self, key, query, value, attention_mask):
    p = self.dropout.p if self.training else 0.0
    context = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout_p=p)
    return heads_together(context)


def with_masked_fill(self, key, query, value, attention_mask):
    scores = torch.matmul(query, key.permute(0, 1, 3, 2))
    scores /= torch.sqrt(torch.tensor(self.attention_head_size))
    scores = scores.masked_fill(attention_mask < 0, float("-inf"))
    context = torch.matmul(self.dropout(nn.Softmax(dim=-1)(scores)), value)
    context = context.permute(0, 2, 1, 3).contiguous()
    return context.view(context.size(0), context.size(1), -1)


def with_loops(self, key, query, value, attention_mask):
    sentences = []
    for b in range(key.size(0)):
        heads = []
        for h in range(key.size(1)):
            scores = query[b, h] @ key[b, h].T / math.sqrt(key.size(-1)) + attention_mask[b, 0]
            heads.append(self.dropout(scores.softmax(-1)) @ value[b, h])
        sentences.append(torch.cat(heads, dim=-1))
    return torch.stack(sentences)


def with_keys_first(self, key, query, value, attention_mask):
    scores = key @ query.transpose(-1, -2) / math.sqrt(key.size(-1))  # (B, H, keys, queries)
    scores = scores + attention_mask.transpose(-1, -2)
    probabilities = self.dropout(F.softmax(scores, dim=-2))
    return heads_together(probabilities.transpose(-1, -2) @ value)


def in_place(self, key, query, value, attention_mask):
    query *= self.attention_head_size**-0.5
    scores = query @ key.transpose(2, 3)
    scores += attention_mask
    weights = F.dropout(F.softmax(scores, dim=-1), self.dropout.p, self.training, inplace=True)
    return heads_together(weights @ value)


def softmax_in_float32(self, key, query, value, attention_mask):
    scores = query @ key.transpose(-1, -2) / math.sqrt(key.size(-1))
    floats = (scores + attention_mask).float().softmax(-1)
    return heads_together(self.dropout(floats.to(value.dtype)) @ value)


def all_in_float32(self, key, query, value, attention_mask):
    key, query, value, attention_mask = (
        x.float() for x in (key, query, value, attention_mask.clamp(min=-1e30))
    )
    return attention()(self, key, query, value, attention_mask)


def with_function_dropout(self, input, output, dense_layer, dropout, ln_layer):
    dropped = torch.dropout(dense_layer(output), dropout.p, self.training)
    return F.layer_norm(dropped + input, (32,), ln_layer.weight, ln_layer.bias, ln_layer.eps)


def layer_without_add_norm(self, hidden, mask):
    attended = self.attention_dropout(self.attention_dense(self.self_attention(hidden, mask)))
    normed = self.attention_layer_norm(attended + hidden)
    expanded = F.gelu(self.interm_dense(normed))
    return self.out_layer_norm(self.out_dropout(self.out_dense(expanded)) + normed)


def layer_with_keywords(self, hidden_states, attention_mask):
    attended = self.self_attention(hidden_states=hidden_states, attention_mask=attention_mask)
    normed = self.add_norm(
        output=attended,
        input=hidden_states,
        ln_layer=self.attention_layer_norm,
        dropout=self.attention_dropout,
        dense_layer=self.attention_dense,
    )
    feed_forward = nn.Sequential(self.interm_dense, self.interm_af)
    return self.add_norm(
        normed, feed_forward(normed), self.out_dense, self.out_dropout, self.out_layer_norm
    )


def layer_with_own_dense(self, hidden, mask):
    attended = self.attention_dense(self.self_attention(hidden, mask))
    same = nn.Linear(32, 32).to(attended)
    with torch.no_grad():
        same.weight.copy_(torch.eye(32))
        same.bias.zero_()
    normed = self.add_norm(
        hidden, attended, same, self.attention_dropout, self.attention_layer_norm
    )
    expanded = self.interm_af(self.interm_dense(normed))
    return self.add_norm(normed, expanded, self.out_dense, self.out_dropout, self.out_layer_norm)


def embed_without_segments(self, input_ids):
    batch, length = input_ids.shape
    zeros = torch.zeros(batch, length, dtype=torch.long)
    positions = torch.arange(length).expand(batch, -1)
    total = F.embedding(input_ids, self.word_embedding.weight) + self.pos_embedding(positions)
    total += self.tk_type_embedding(zeros)
    return self.embed_dropout(self.embed_layer_norm(total))


def head_in_sequence(self, config):
    nn.Module.__init__(self)
    self.bert = bert.BertModel.from_pretrained("bert-base-uncased")
    for parameter in self.bert.parameters():
        parameter.requires_grad = config.option == "finetune"
    self.classifier = nn.Linear(config.hidden_size, config.num_labels)
    self.p = config.hidden_dropout_prob


def forward_with_function_dropout(self, input_ids, attention_mask):
    outputs = self.bert(input_ids=input_ids, attention_mask=attention_mask)
    return self.classifier(F.dropout(outputs["pooler_output"], 0.3, self.training))


RIGHT = {
    "einsum": (ATTENTION, with_einsum),
    "scaled_dot_product_attention": (ATTENTION, with_sdpa),
    "masked_fill": (ATTENTION, with_masked_fill),
    "loops over heads": (ATTENTION, with_loops),
    "keys first": (ATTENTION, with_keys_first),
    "in place": (ATTENTION, in_place),
    "softmax in float32": (ATTENTION, softmax_in_float32),
    "all in float32": (ATTENTION, all_in_float32),
    "functions": (ADD_NORM, with_function_dropout),
    "layer without add_norm": (LAYER, layer_without_add_norm),
    "layer with keywords": (LAYER, layer_with_keywords),
    "layer with a dense of its own": (LAYER, layer_with_own_dense),
    "embed of ids only": (EMBED, embed_without_segments),
    "the pieces of this file": (EMBED, embed()),
    "forward with keywords": (FORWARD, forward_with_function_dropout),
}


@pytest.mark.parametrize("name", RIGHT)
def test_another_right_way_passes(name, monkeypatch):
    replace(monkeypatch, *RIGHT[name])
    assert wrong_tasks() == {}


def test_a_classifier_of_another_shape_passes(monkeypatch):
    replace(monkeypatch, INIT, head_in_sequence)
    replace(monkeypatch, FORWARD, forward_with_function_dropout)
    assert wrong_tasks() == {}


def test_the_solution_passes_and_default_type_is_left_alone():
    assert {entry.number: check(entry) for entry in PART_1} == {e.number: [] for e in PART_1}
    assert sanity_part1.check_model(sanity_part1.WHOLE) == []
    assert torch.get_default_dtype() == torch.float32
    assert not F.dropout(torch.ones(1000)).equal(F.dropout(torch.ones(1000)))


def test_the_solution_is_right_to_float64s_precision():
    names = [entry.id for entry in CHECKED] + [sanity_part1.WHOLE]
    found = {name: sanity_part1.run_and_compare(name, torch.float64) for name in names}
    assert found == {name: [] for name in names}


def test_the_whole_model_sees_a_changed_pooler(monkeypatch):
    monkeypatch.setattr(bert.BertModel, "encode", lambda self, hidden, mask: hidden)
    findings = sanity_part1.check_model(sanity_part1.WHOLE)
    assert "values of last_hidden_state" in findings[0].text


def test_every_stored_result_is_asked_for():
    stored = {
        name
        for name in sanity_part1.load_references()
        if not name.startswith(("weights/", "pretrained/"))
        and name.split("/")[1] not in ("inputs", "replay")
    }
    asked = {
        f"{task_id}/{name}"
        for task_id in (*(e.id for e in CHECKED if e.id != INIT), sanity_part1.WHOLE)
        for name in student_outputs(task_id)
        if not name.startswith("padding/")
    }
    unasked = {"attended", "normed"}  # what stand-ins return
    stored = {name for name in stored if "keys first" not in name}
    assert {name for name in stored - asked if name.split("/")[2] not in unasked} == set()
    assert asked <= stored


def test_exceptions_are_told_with_their_line(monkeypatch):
    def broken(self, input_ids, token_type_ids=None):
        return self.word_embeddings(input_ids)

    replace(monkeypatch, EMBED, broken)
    found = wrong_tasks()
    assert list(found) == [EMBED]
    assert "AttributeError: 'BertModel' object has no attribute 'word_embeddings'" in str(found)


def test_an_unknown_operation_is_no_unstarted_task(monkeypatch):
    def broken(self, input_ids, token_type_ids=None):
        raise NotImplementedError("Could not run 'aten::empty' with arguments from …")

    replace(monkeypatch, EMBED, broken)
    assert [finding.kind for finding in check(task(EMBED))] == ["error"]


# ---------------------------------------------------------------------------------------------
# The references


def test_references_are_what_transformers_computes():
    pytest.importorskip("transformers", reason="it makes the references")
    import make_sanity_check as make

    stored = sanity_part1.load_references()
    made = make.tiny_tensors(sanity_part1.facts()["seed"])
    assert {name for name in stored if not name.startswith("pretrained/")} == set(made)
    for name, tensor in made.items():
        torch.testing.assert_close(stored[name], tensor, rtol=1e-12, atol=1e-12)


def test_the_file_is_small_and_plain():
    assert sanity_part1.DATA.stat().st_size < 1_000_000
    tensors = load_file(sanity_part1.DATA)
    assert all(tensor.isfinite().all() for tensor in tensors.values())


def test_pretrained_values(offline_model, capsys):
    assert sanity_check.check_pretrained() == []
    assert "ok    two sentences through all-MiniLM-L6-v2" in capsys.readouterr().out


def test_pretrained_differences_are_told(offline_model, monkeypatch, capsys):
    replace(monkeypatch, LAYER, layer(activate=lambda s, x: F.relu(x)))
    assert sanity_check.check_pretrained()
    assert "WRONG two sentences through all-MiniLM-L6-v2" in capsys.readouterr().out


def test_a_model_without_reference_is_no_failure(tiny_model_folder, monkeypatch, capsys):
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder))
    assert sanity_check.check_pretrained() == []
    assert "no reference yet for" in capsys.readouterr().out
    monkeypatch.setenv("MINBERT_MODEL", str(tiny_model_folder / "none"))
    assert sanity_check.check_pretrained() == []
    assert "no model folder at" in capsys.readouterr().out


def test_a_damaged_file_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "sanity_check.data").write_bytes(b"\xff" * 100)
    monkeypatch.setattr(sanity_part1, "DATA", tmp_path / "sanity_check.data")
    with pytest.raises(InputError, match="restore it from git"):
        sanity_part1.load_references.__wrapped__()


# ---------------------------------------------------------------------------------------------
# The script


def run(*arguments: str, folder=ROOT):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    return subprocess.run(
        [sys.executable, "sanity_check.py", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def stub(path) -> None:
    """Replace every marked region by what students get: its message, or its STUB lines."""
    lines, inside = [], None
    for line in path.read_text(encoding="utf-8").splitlines():
        indent, text = line[: len(line) - len(line.lstrip())], line.strip()
        if text.startswith("### BEGIN SOLUTION"):
            inside = text.split()[-1]
        elif text.startswith("### END SOLUTION"):
            known = [entry for entry in TASKS if entry.id == inside]
            if known:
                lines.append(f'{indent}raise NotImplementedError("{known[0].title} …")')
            inside = None
        elif inside is None:
            lines.append(line)
        elif text.startswith("### STUB:"):
            lines.append(indent + text.removeprefix("### STUB:").removeprefix(" "))
    source = "\n".join(lines) + "\n"
    ast.parse(source)
    path.write_text(source, encoding="utf-8")


@pytest.fixture
def handout(tmp_path):
    """A copy of the scripts whose solutions are taken out, and no part 2."""
    for file in (*ROOT.glob("*.py"), sanity_part1.DATA, ROOT / "optimizer_test.npy"):
        shutil.copy(file, tmp_path)
    for file in ("bert.py", "optimizer.py", "classifier.py"):
        stub(tmp_path / file)
    (tmp_path / "multitask_classifier.py").unlink()
    return tmp_path


def test_script_on_the_solution():
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    for entry in TASKS:
        assert f"  ok    {entry.title}: " in done.stdout
    assert done.stdout.endswith(f"{len(TASKS)} of {len(TASKS)} tasks right\n")
    assert done.stderr == ""


def test_script_on_the_handout(handout):
    done = run(folder=handout)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    for entry in TASKS[:7]:
        assert f"  not started  {entry.title}" in lines
    assert lines[-2] == "0 of 7 tasks right"
    assert lines[-1] == (
        "next: Task 1.1 · BertSelfAttention.attention (python sanity_check.py --task 1.1), "
        "see Vaswani et al. 2017, §3.2, eq. 1"
    )


def test_script_on_the_handout_of_part_2(handout):
    for file in ("bert.py", "optimizer.py", "classifier.py", "multitask_classifier.py"):
        shutil.copy(ROOT / file, handout)
    stub(handout / "multitask_classifier.py")
    done = run("--part", "2", folder=handout)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    part_2 = [entry for entry in TASKS if entry not in PART_1]
    assert lines[:5] == [f"  not started  {entry.title}" for entry in part_2]
    assert lines[5] == "0 of 5 tasks right"
    assert lines[6].startswith(f"next: {part_2[0].title} ({part_2[0].check}), see ")


def test_part_2_is_not_in_a_handout_of_part_1(handout):
    done = run("--part", "2", folder=handout)
    assert done.returncode == 1
    assert done.stderr == (
        "error: multitask_classifier.py is not here: it comes with the handout of part 2\n"
    )


def test_script_on_half_a_solution(handout):
    solution = (ROOT / "bert.py").read_text(encoding="utf-8")
    broken = "output + dropout(dense_layer(output)))"
    source = solution.replace("input + dropout(dense_layer(output)))", broken)
    (handout / "bert.py").write_text(source, encoding="utf-8")
    (handout / "classifier.py").write_text("import torch\ndef broken(:\n", encoding="utf-8")
    done = run(folder=handout)
    assert done.returncode == 1
    line = source[: source.index(broken)].count("\n") + 1
    assert "  ok    Task 1.1 · BertSelfAttention.attention: values, gradients" in done.stdout
    assert "  WRONG Task 1.2 · BertLayer.add_norm: RuntimeError: The size of tensor" in done.stdout
    assert f"(bert.py:{line})" in done.stdout
    assert "  ok    Task 1.3 · BertLayer.forward" in done.stdout
    assert "  WRONG Task 1.6 · BertSentimentClassifier.__init__: SyntaxError" in done.stdout
    assert "(classifier.py:2)" in done.stdout
    assert "next: Task 1.2 · BertLayer.add_norm" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def run_here(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["sanity_check.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        sanity_check.main()
    return stopped.value.code, "".join(capsys.readouterr())


@pytest.mark.parametrize("key", ["1.2", "bert.add_norm"])
def test_one_task(key, monkeypatch, capsys):
    replace(monkeypatch, ATTENTION, WRONG["mask forgotten"][1])
    code, said = run_here(monkeypatch, capsys, "--task", key)
    assert (code, said.count("\n")) == (0, 2)
    assert said.startswith("  ok    Task 1.2 · BertLayer.add_norm: ")


def test_one_wrong_task(monkeypatch, capsys):
    replace(monkeypatch, ATTENTION, WRONG["mask forgotten"][1])
    code, said = run_here(monkeypatch, capsys, "--task", "1.1")
    assert code == 1
    first, second, *_ = said.splitlines()
    start = (
        "  WRONG Task 1.1 · BertSelfAttention.attention: values of context: first difference at "
    )
    assert first.startswith(start + "[1, 0, 0]: got ")
    assert second.startswith("        padding of context: a change of padded tokens changes real")
    assert "next: Task 1.1 · BertSelfAttention.attention (python sanity_check.py --task" in said


def test_an_unknown_task_is_one_line(monkeypatch, capsys):
    code, said = run_here(monkeypatch, capsys, "--task", "9")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("error: no task 9; there are 1.1, 1.2")
