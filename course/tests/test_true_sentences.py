"""What the checks say of incorrect functions is true of them.

Each case is a task's plain solution with some texts replaced: what must be said of it, and what
must not.
"""

import importlib

import pytest
from answers import read, solution_with

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import graded_task
from checks.hunt.edits import installed_source

ATTEND, ADD, LAYER, EMBED = "bert.attention", "bert.add_norm", "bert.layer", "bert.embed"
STEP, INIT, CLASSIFY = "optimizer.step", "classifier.init", "classifier.forward"


def plain(task_id):
    """The name of a task's function, and a solution's source."""
    (function,) = read(f"{task_id}/plain").versions["Plain"].items()
    return function


def with_changes(task_id, *changes):
    """A context in which a task's file has the plain solution with some texts replaced."""
    name, source = plain(task_id)
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    entry = graded_task(task_id)
    imports = ("import math", "from torch.nn import functional as F")
    return installed_source(entry.file, solution_with(entry, {name: source}, imports))


DROP, LINEAR = (
    "probabilities = self.dropout(probabilities)",
    "nn.Linear(config.hidden_size, config.num_labels)",
)
SUM = "scores = scores + attention_mask"
FIRST_ADD_NORM = """self.add_norm(
        hidden_states,
        attended,
        self.attention_dense,
        self.attention_dropout,
        self.attention_layer_norm,
    )"""
FIRST_HALF = f"""normed = {FIRST_ADD_NORM}
    expanded = self.interm_dense(normed)
    expanded = self.interm_af(expanded)"""
WRITTEN_OUT = "attended = self.attention_dropout(self.attention_dense(attended))"
STEP_SOURCE = plain(STEP)[1]
LINES = STEP_SOURCE[STEP_SOURCE.index("            state = ") : STEP_SOURCE.index("    return")]
MODULES = "self.attention_dropout,\n        self.attention_layer_norm"
PASSED = "self.attention_layer_norm,\n            self.attention_dropout"
MERGE = "context = context.transpose(1, 2)\n    context = context.flatten(2)"
TOLD = [  # task, what is replaced by what; a name or words that must be said, words that must not
    (ATTEND, "return context", "context", "forget `return`?", "dropout"),
    (ATTEND, "return context", "return context, scores", "return the one tensor", "forget"),
    (ATTEND, SUM, "scores = scores.masked_fill(attention_mask == 0, -math.inf)",
     "Where the mask is 0 the scores become −inf", "dropout acts"),
    (ATTEND, SUM, f"{SUM}.sqrt()", "nan at [0, 0, 0]", "other results"),
    (ATTEND, SUM, f"{SUM}\n    attention_mask.eq_(0)", "`attention_mask`, which was given", "√"),
    (ATTEND, DROP, "if self.training:\n        probabilities = probabilities * "
     "(torch.rand_like(probabilities) > 0.2)",
     "other results in every run in training mode", "get no dropout"),
    (ATTEND, SUM, "scores = scores + (1 - attention_mask) * -10000",
     "right in float64, but not in float32, in which models are trained. The mask, 0", "dropout"),
    (ATTEND, DROP, "probabilities = F.dropout(probabilities, 0.1)", "dropout acts in evaluation",
     "probably"),
    (ATTEND, "@ value", "@ (value / 7**0.5)", "scale_of_the_result_too", "sum to 0"),
    (ATTEND, MERGE, "context = context.sum(1)", "heads_summed", "dropout"),
    (ATTEND, MERGE, "context = context[:, -1]", "last_head_only", "dropout"),
    (ADD, "= dropout(", "= self.out_dropout(", "The dropout is one of the layer's own",
     "There is no dropout"),
    (ADD, "= dropout(", "= F.dropout(p=1.5, input=", "has to be between 0 and 1", "reshape"),
    (LAYER, FIRST_ADD_NORM, "self.attention_layer_norm(hidden_states + attended)",
     "first_sublayer_past_add_norm", "that is not all"),
    (LAYER, FIRST_HALF, f"{WRITTEN_OUT}\n    normed = self.attention_layer_norm(hidden_states + "
     "attended)\n    expanded = F.relu(self.interm_dense(normed))", "relu", "There is no dropout"),
    (LAYER, FIRST_HALF, f"{WRITTEN_OUT}\n    hidden_states += attended\n    normed = "
     "self.attention_layer_norm(hidden_states)\n    expanded = F.gelu(self.interm_dense(normed))",
     "`hidden_states`, which was given, is changed", "no dropout"),
    (LAYER, "self.interm_af(expanded)", "expanded.exp().mul_(2)", "(in the backward pass)", "Hint"),
    (LAYER, MODULES, PASSED, "a Dropout instead of a LayerNorm", "tensor"),
    (LAYER, "self.attention_dropout,", "self.attention_dropout.p,", "a float instead of a Dropout",
     "that is not all"),
    (LAYER, "attended,", "None,", "output of add_norm's call 1: None instead", "`return`"),
    (EMBED, "total = words + positions", "total = words * positions", "multiplied_positions", "√"),
    (EMBED, "total = words", "with torch.no_grad(): total = words", "no gradient arrives",
     "dropout"),
    (INIT, f"self.classifier = {LINEAR}", f"self.layers = [{LINEAR}]",
     "none is made, or it is in a plain list", "two layers"),
    (CLASSIFY, "return logits", "return torch.relu(logits).log_softmax(-1)", "relu_of_logits",
     "tanh"),
    (CLASSIFY, "return logits", "return F.logsigmoid(logits.softmax(-1))", "softmax_and_another",
     "that is not all"),
    (CLASSIFY, 'outputs["pooler_output"]', "outputs", 'pooler_output', "expected"),
    (CLASSIFY, "(input_ids, attention_mask)\n", "(attention_mask, input_ids)\n",
     "ids_and_mask_swapped", "that is not all"),
    (CLASSIFY, "self.bert(input_ids, attention_mask)",
     '{"pooler_output": self.bert.encode(self.bert.embed(input_ids), attention_mask)[:, 0]}',
     "cls_of_last_hidden_state", "detached"),
    (CLASSIFY, "return logits", "return logits.sum(0)", "of logits: shape", "squeezed"),
    (EMBED, "self.pos_embedding(places)", "self.pos_embedding(places + 1).detach()",
     "positions_from_one", "result_detached"),
    (INIT, LINEAR, "nn.Linear(768, 5)", "found 768 → 5", "that is not all"),
    (STEP, "update = alpha", "update = 3 * alpha", "every update is 3 times what it should be",
     "probably"),
    (STEP, "p.sub_(update)", "for _ in group['params']: p.sub_(update)",
     "(eps 0.01): first differs at step 1, parameter 0 of shape (2, 3)", "no weight decay)"),
    (STEP, "p.sub_(decay * p)", "p.sub_(decay * p * (p.dim() > 1))",
     "parameter 1 of shape (4,), index (0,)", "every update"),
    (STEP, "p.sub_(decay * p)", "p.sub_(decay * p); p.grad = None",
     "step() sets p.grad to None", "in place"),
    (STEP, "update = alpha", "if p is not group['params'][-1]: continue\n            "
     "update = alpha", "no step changes this number", "share"),
    (STEP, "p.sub_(update)", "p = group['params'][-1]; p.sub_(update)",
     "last_parameter_of_the_group", "share"),
    (STEP, "p.sub_(update)", "p = group['params'][0]; p.sub_(update)",
     "first_parameter_of_the_group", "share"),
    (STEP, 'state["m"] = torch.zeros_like(p)', "pass", "KeyError: 'm'", "gradient"),
    (STEP, LINES, LINES.replace("\n    ", "\n")[4:], "update_behind_the_loop", "share"),
    (STEP, 'state["m"] = torch.zeros_like(p)', 'state["m"] = p', "begins_with_parameter", "share"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("task_id", "old", "new", "words", "never"), TOLD, ids=[row[3] for row in TOLD]
)
def test_what_is_said_is_true(task_id, old, new, words, never):
    with with_changes(task_id, (old, new)):
        findings = jobs.examine(graded_task(task_id))
    said = "\n".join(f"{finding.name}: {finding.text}" for finding in findings)
    assert faulty(findings)
    assert words in said
    assert never not in said


def test_the_whole_model_is_run_on_a_single_sentence():
    with with_changes(EMBED, ("self.embed_dropout(total)", "self.embed_dropout(total).squeeze()")):
        assert [jobs.run(job).status for job in (EMBED, "whole")] == ["ok", "wrong"]


def test_a_function_that_calls_a_stub_waits_for_it():
    stub = """def embed(self, input_ids, token_type_ids=None):
    raise NotImplementedError("Task 1.1 · BertSelfAttention.attention")
"""
    with installed_source("bert.py", solution_with(graded_task(EMBED), {"embed": stub})):
        outcome = jobs.run(EMBED)
    assert (outcome.status, outcome.about) == ("waits", "for Task 1.1, a stub that it calls")


def test_a_layer_with_one_add_norm_written_out_waits_for_what_it_is_run_with(monkeypatch):
    written = f"{WRITTEN_OUT}\n    normed = self.attention_layer_norm(hidden_states + attended)"
    with with_changes(LAYER, (f"normed = {FIRST_ADD_NORM}", written)):
        assert jobs.run(LAYER).status == "ok"
        attention = importlib.import_module("bert").BertSelfAttention
        monkeypatch.setattr(
            attention, "attention", lambda *given: given[1].transpose(1, 2).flatten(2)
        )
        assert jobs.run(LAYER).about == "for Task 1.1, with which it is run"
