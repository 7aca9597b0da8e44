"""What the checks say of incorrect functions is true of them.

Each case is our solution of a task with a text replaced: what must be said of it, and what must
not.
"""

import importlib

import pytest
from answers import solution_with
from factories import ROOT

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import graded_task
from checks.hunt.edits import installed_source

ATTEND, ADD, LAYER, EMBED = "bert.attention", "bert.add_norm", "bert.layer", "bert.embed"
STEP, INIT, CLASSIFY = "optimizer.step", "classifier.init", "classifier.forward"


def with_change(task_id, old, new):
    """A context in which a task's file has a text replaced."""
    file = graded_task(task_id).file
    source = (ROOT / file).read_text(encoding="utf-8")
    assert source.count(old) == 1, old
    return installed_source(file, source.replace(old, new))


SOFTMAX = "F.softmax(scores, dim=-1)"
DROP, SUM = f"self.dropout({SOFTMAX})", "scores = scores + attention_mask"
MERGED = "context.transpose(1, 2).flatten(2)"
FIRST_ADD_NORM = """self.add_norm(
            hidden_states,
            attended,
            self.attention_dense,
            self.attention_dropout,
            self.attention_layer_norm,
        )"""
EXPANDED = "self.interm_af(self.interm_dense(attended))"
FIRST_HALF = f"""attended = {FIRST_ADD_NORM}  # (B, L, D)
        expanded = {EXPANDED}"""
WRITTEN_OUT = "attended = self.attention_dropout(self.attention_dense(attended))"
MODULES = "self.attention_dropout,\n            self.attention_layer_norm"
PASSED = "self.attention_layer_norm,\n            self.attention_dropout"
LINEAR = "nn.Linear(config.hidden_size, config.num_labels)"
LOGITS, POOLED = "self.classifier(self.dropout(pooled))", "self.bert(input_ids, attention_mask)"
FIRST_MOMENT = 'state["exp_avg"] = torch.zeros_like(parameter)'
UPDATE, DECAY = "parameter.addcdiv_(m", 'group["lr"] * group["weight_decay"]'
OPTIMIZER = (ROOT / "optimizer.py").read_text(encoding="utf-8")
LINES = OPTIMIZER[
    OPTIMIZER.index("                state = ") : OPTIMIZER.index("        return loss")
]
TOLD = [  # task, what is replaced by what; a name or words that must be said, words that must not
    (ATTEND, f"return {MERGED}", MERGED, "forget `return`?", "softmax("),
    (ATTEND, MERGED, f"{MERGED}, scores", "return the one tensor", "forget"),
    (ATTEND, SUM, "scores = scores.masked_fill(attention_mask == 0, -math.inf)",
     "Where the mask is 0 the scores become −inf", "dropout acts"),
    (ATTEND, SUM, "scores = (scores + attention_mask).sqrt()", "nan at [0, 0, 0]", "other results"),
    (ATTEND, SUM, f"{SUM}\n        attention_mask.eq_(0)", "`attention_mask`, which was given",
     "√"),
    (ATTEND, DROP, f"{SOFTMAX}\n        if self.training:\n            probabilities = "
     "probabilities * (torch.rand_like(probabilities) > 0.2)",
     "other results in every run in training mode", "get no dropout"),
    (ATTEND, SUM, "scores = scores + (1 - attention_mask) * -10000",
     "right in float64, but not in float32, in which models are trained. The mask,", ": values of"),
    (ATTEND, DROP, f"F.dropout({SOFTMAX}, 0.1)", "dropout acts in evaluation", "probably"),
    (ATTEND, "@ value", "@ (value / 7**0.5)", "scale_of_the_result_too", "sum to 0"),
    (ATTEND, MERGED, "context.sum(1)", "heads_summed", "dropout"),
    (ATTEND, MERGED, "context[:, -1]", "last_head_only", "dropout"),
    (ADD, "+ dropout(", "+ self.out_dropout(", "The dropout is one of the layer's own",
     "There is no dropout"),
    (ADD, "+ dropout(", "+ F.dropout(p=1.5, input=", "has to be between 0 and 1", "reshape"),
    (LAYER, FIRST_ADD_NORM, "self.attention_layer_norm(hidden_states + attended)",
     "first_sublayer_past_add_norm", "that is not all"),
    (LAYER, FIRST_HALF, f"{WRITTEN_OUT}\n        attended = self.attention_layer_norm("
     "hidden_states + attended)\n        expanded = F.relu(self.interm_dense(attended))",
     "relu", "There is no dropout"),
    (LAYER, FIRST_HALF, f"{WRITTEN_OUT}\n        hidden_states += attended\n        attended = self"
     ".attention_layer_norm(hidden_states)\n        expanded = F.gelu(self.interm_dense(attended))",
     "`hidden_states`, which was given, is changed", "no dropout"),
    (LAYER, EXPANDED, "self.interm_dense(attended).exp().mul_(2)", "(in the backward pass)",
     "Hint"),
    (LAYER, MODULES, PASSED, "a Dropout instead of a LayerNorm", "tensor"),
    (LAYER, "self.attention_dropout,", "self.attention_dropout.p,", "a float instead of a Dropout",
     "that is not all"),
    (LAYER, "            attended,\n", "            None,\n",
     "output of add_norm's call 1: None instead", "`return`"),
    (EMBED, "words + segments + positions", "words * positions + segments",
     "multiplied_positions", "√"),
    (EMBED, "words = self", "with torch.no_grad():\n            words = self",
     "no gradient arrives", "dropout"),
    (INIT, f"self.classifier = {LINEAR}", f"self.layers = [{LINEAR}]",
     "none is made, or it is in a plain list", "two layers"),
    (CLASSIFY, LOGITS, f"torch.relu({LOGITS}).log_softmax(-1)", "relu_of_logits", "tanh"),
    (CLASSIFY, LOGITS, f"F.logsigmoid({LOGITS}.softmax(-1))", "softmax_and_another",
     "that is not all"),
    (CLASSIFY, f'{POOLED}["pooler_output"]', POOLED, "pooler_output", "expected"),
    (CLASSIFY, POOLED, "self.bert(attention_mask, input_ids)", "ids_and_mask_swapped",
     "that is not all"),
    (CLASSIFY, POOLED,
     '{"pooler_output": self.bert.encode(self.bert.embed(input_ids), attention_mask)[:, 0]}',
     "cls_of_last_hidden_state", "detached"),
    (CLASSIFY, LOGITS, f"{LOGITS}.sum(0)", "of logits: shape", "squeezed"),
    (EMBED, "self.position_ids[:, :length])", "self.position_ids[:, :length] + 1).detach()",
     "positions_from_one", "result_detached"),
    (INIT, LINEAR, "nn.Linear(768, 5)", "found 768 → 5", "that is not all"),
    (STEP, "value=-step_size", "value=-3 * step_size", "every update is 3 times what it should be",
     "probably"),
    (STEP, UPDATE, f"for _ in group['params']: {UPDATE}",
     "(eps 0.01): first differs at step 1, parameter 0 of shape (2, 3)", "no weight decay)"),
    (STEP, DECAY, f"{DECAY} * (parameter.dim() > 1)", "parameter 1 of shape (4,), index (0,)",
     "every update"),
    (STEP, f"{DECAY})", f"{DECAY}); parameter.grad = None", "step() sets p.grad to None",
     "in place"),
    (STEP, UPDATE, f"if parameter is not group['params'][-1]: continue\n                {UPDATE}",
     "no step changes this number", "share"),
    (STEP, UPDATE, f"parameter = group['params'][-1]; {UPDATE}", "last_parameter_of_the_group",
     "share"),
    (STEP, UPDATE, f"parameter = group['params'][0]; {UPDATE}", "first_parameter_of_the_group",
     "share"),
    (STEP, FIRST_MOMENT, "pass", "KeyError: 'exp_avg'", "gradient"),
    (STEP, LINES, LINES.replace("\n    ", "\n")[4:], "update_behind_the_loop", "share"),
    (STEP, FIRST_MOMENT, 'state["exp_avg"] = parameter.clone()', "begins_with_parameter", "share"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("task_id", "old", "new", "words", "never"), TOLD, ids=[row[3] for row in TOLD]
)
def test_what_is_said_is_true(task_id, old, new, words, never):
    with with_change(task_id, old, new):
        findings = jobs.examine(graded_task(task_id))
    said = "\n".join(f"{finding.name}: {finding.text}" for finding in findings)
    assert faulty(findings)
    assert words in said
    assert never not in said


def test_the_whole_model_is_run_on_a_single_sentence():
    total = "self.embed_dropout(self.embed_layer_norm(words + segments + positions))"
    with with_change(EMBED, total, f"{total}.squeeze()"):
        assert [jobs.run(job).status for job in (EMBED, "whole")] == ["ok", "wrong"]


def test_a_function_that_calls_a_stub_waits_for_it():
    stub = """def embed(self, input_ids, token_type_ids=None):
    raise NotImplementedError("Task 1.1 · BertSelfAttention.attention")
"""
    with installed_source("bert.py", solution_with(graded_task(EMBED), {"embed": stub})):
        outcome = jobs.run(EMBED)
    assert (outcome.status, outcome.about) == ("waits", "for Task 1.1, a stub that it calls")


def test_a_layer_with_one_add_norm_written_out_waits_for_what_it_is_run_with(monkeypatch):
    written = (
        f"{WRITTEN_OUT}\n        attended = self.attention_layer_norm(hidden_states + attended)"
    )
    with with_change(LAYER, f"attended = {FIRST_ADD_NORM}", written):
        assert jobs.run(LAYER).status == "ok"
        attention = importlib.import_module("bert").BertSelfAttention
        monkeypatch.setattr(
            attention, "attention", lambda *given: given[1].transpose(1, 2).flatten(2)
        )
        assert jobs.run(LAYER).about == "for Task 1.1, with which it is run"
