"""Causes that are measured where no known mistake is made, and none of correct solutions."""

import pytest
from test_true_sentences import DIVISOR, EMBEDDED, STEPPING, examine

from checks.graded_tasks import graded_task

ATTEND = """def attention(self, key, query, value, attention_mask):
    scores = query @ key.mT / math.sqrt(key.shape[-1])
    weights = self.dropout((scores + attention_mask).softmax(-1))
    made = weights @ value
    return made.transpose(1, 2).flatten(2)
"""
ADD = """def add_norm(self, input, output, dense_layer, dropout, ln_layer):
    return ln_layer(input + dropout(dense_layer(output)))
"""
LAYER = """def forward(self, hidden_states, attention_mask):
    seen = self.self_attention(hidden_states, attention_mask)
    first = (self.attention_dense, self.attention_dropout, self.attention_layer_norm)
    x = self.add_norm(hidden_states, seen, *first)
    inner = self.interm_af(self.interm_dense(x))
    return self.add_norm(x, inner, self.out_dense, self.out_dropout, self.out_layer_norm)
"""
CLASSIFY = """def forward(self, input_ids, attention_mask):
    pooled = self.bert(input_ids, attention_mask)["pooler_output"]
    return self.classifier(self.dropout(pooled))
"""
NORMED = "self.embed_layer_norm(total + self.tk_type_embedding(types))"
ATTENTION, FORWARD = ("bert.attention", ATTEND), ("classifier.forward", CLASSIFY)
ADD_NORM, LAYERED = ("bert.add_norm", ADD), ("bert.layer", LAYER)
EMBEDDING, STEP = ("bert.embed", EMBEDDED), ("optimizer.step", STEPPING)
ADDED, ADDEND = ".add_(p.grad * p.grad, alpha=1 - beta2)", ".add_(p.grad, alpha=1 - beta1)"
LARGEST = '(state.update(w=torch.maximum(state.get("w", p * 0), state["v"])) or state["w"])'
CAUSES = [
    (ATTENTION, "query @ key.mT", "query @ key[:, :1].mT", "each head's query · head 1's key"),
    (ATTENTION, "weights @ value", "weights @ value[:, :1]",
     "which are head 2's, are made of the values of head 1 "),
    (ATTENTION, "weights @ value", "weights @ value + query", "`query` itself is added"),
    (ATTENTION, "scores + attention_mask", "scores.masked_fill(attention_mask < 0, -1.0)",
     "the weights that a real token gives to padding sum to up to 0."),
    (ATTENTION, "(scores + attention_mask).softmax(-1)", "torch.sigmoid(scores + attention_mask)",
     "the attention weights are sigmoids of the scores: no softmax over the keys acts"),
    (ATTENTION, "query @", "torch.ones_like(query) @", "`query` has no effect on the result"),
    (ATTENTION, "made.trans", "torch.cat((self.dropout(made[..., :3]), made[..., 3:]), -1).trans",
     "numbers of the result are 0: dropout acts at the very end"),
    (ADD_NORM, "input +", "dropout(dense_layer(output)) - 2 * input -",
     "what is returned is ln_layer(-2 · input), which is not the docstring's formula"),
    (ADD_NORM, "input +", "input *", "ln_layer(input · dropout(dense_layer(output))), which is"),
    (ADD_NORM, "input + dropout(dense_layer(output))", "(input + dense_layer(output)).softmax(-1)",
     "ln_layer(the softmax of (input + dense_layer(output))), which is not"),
    (LAYERED, "return ", "return hidden_states + ",
     "what is returned is hidden_states + the result of add_norm (call 2), which is not what"),
    (LAYERED, "x, inner,", "x, inner + self.interm_dense(x),",
     "add_norm (call 2) is given interm_dense(the result of add_norm) + interm_af(interm_dense(the "
     "result of add_norm)) as `output`, which does not belong there"),
    (LAYERED, "    inner =", "    x = self.add_norm(x, x, *first)\n    inner =",
     "add_norm is called 3 times instead of 2"),
    (LAYERED, "attention(hidden_states,", "attention(2 * hidden_states,",
     "self_attention is given 2 · hidden_states as `hidden_states`, which does not"),
    (EMBEDDING, "self.pos_embedding(places)", "self.pos_embedding(input_ids % 16)",
     "of pos_embedding, where row 0 belongs"),
    (EMBEDDING, "self.embed_layer_norm(total", "total + self.embed_layer_norm(total",
     "words + positions + embed_layer_norm(words + positions + segments)), which is not the doc"),
    (EMBEDDING, "self.word_embedding(input_ids) +", "", "takes no row of word_embedding, where"),
    (EMBEDDING, NORMED, f"self.embed_dropout({NORMED})",
     "embed_dropout(embed_dropout(embed_layer_norm(words + positions + segments))), which is"),
    (FORWARD, "dropout(pooled)", "dropout(F.normalize(pooled, dim=-1))",
     "linear(dropout(the division by its norm of pooler_output)), which is not what the task's"),
    (STEP, ADDED, ADDED.replace("1 - beta2", "1 - beta1"),
     "uses (1 − β₁) · g² where v = (1 − β₂) · g² belongs"),
    (STEP, ADDEND, ADDEND.replace("p.grad", "p.grad * (1 + beta1)"),
     "uses 0.51 · g where m = (1 − β₁) · g belongs"),
    (STEP, DIVISOR, 'state["v"].sqrt().clamp(min=group["eps"])', "the larger of √v and ε instead"),
    (STEP, DIVISOR, '(state["v"] ** 0.25 + group["eps"])', "like |g| to the power of 0.5, not 1"),
    (STEP, 'group["eps"]', '3 * group["eps"]', "√v has 3 · ε added instead of ε"),
    (STEP, DIVISOR, DIVISOR.replace('state["v"]', LARGEST), "v never falls: its largest value"),
    (STEP, "(1 - beta1 ** state[\"step\"])", "(1 - beta1 ** state[\"step\"]) ** 0.5",
     "correct_bias multiplies steps by √(1 − β₂ᵗ) / √(1 − β₁ᵗ) instead of"),
    (STEP, "p.grad", "p.grad / (p.grad.norm() + 1e-12)", "m and v do not depend on the grad"),
    (STEP, "(1 - beta1 **", "((1 - beta1) **", "√(1 − β₂ᵗ) / (1 − β₁)ᵗ instead of"),
    (STEP, '* group["weight_decay"] * p', '* group["weight_decay"] * p / 2',
     "weight decay takes off 0.5 times α · λ · θ"),
    (STEP, 'group["weight_decay"] * p', 'group["weight_decay"] * p.sign()', "is not proportional"),
    (STEP, "p.sub_(rate *", 'p.sub_(group["lr"] * rate *', "learning rate to the power of 2, not"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "right", "wrong", "words"), CAUSES)
def test_a_cause_is_measured(answer, right, wrong, words):
    task_id, source = answer
    assert right in source
    name = graded_task(task_id).function.split(".")[1]
    source = source.replace(right, wrong)
    findings = examine(task_id, **{name: source})
    assert not [finding.name for finding in findings if finding.name]
    causes = [finding.text for finding in findings if finding.kind == "cause"]
    assert any(words in text for text in causes), causes


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("weights ** 2", "the attention weights of a token do not sum to 1"),
        ("(weights + 0.1)", "the weights that a real token gives to padding sum to up to 0.8"),
        ("weights.index_fill(-1, torch.tensor(0), 0.0)", "no token looks at token 0 of sentence 0"),
    ],
)
def test_a_fact_is_measured(weights, words):
    findings = examine("bert.attention", attention=ATTEND.replace("weights @", f"{weights} @"))
    assert any(words in finding.text for finding in findings if finding.kind == "fact")


@pytest.mark.parametrize(
    "pooled",
    ["self.bert.pooler_af(self.bert.pooler_dense(x))", "torch.tanh(self.bert.pooler_dense(x))"],
)
def test_the_pooler_may_be_called_by_hand(pooled):
    states = 'x = self.bert(input_ids, attention_mask)["last_hidden_state"][:, 0]\n    pooled ='
    source = CLASSIFY.replace(CLASSIFY.split("\n")[1].strip(), f"{states} {pooled}")
    assert examine("classifier.forward", forward=source) == []
    detached = examine("classifier.forward", forward=source.replace("[:, 0]", "[:, 0].detach()"))
    assert [finding.name for finding in detached if finding.name] == ["detached_bert"]
    half = source.replace("[:, 0]", "[:, 0]\n    x = (x + x.detach()) / 2")
    assert any(finding.kind == "gradients" for finding in examine(FORWARD[0], forward=half))


def test_groups_are_not_blamed_where_nothing_moves():
    findings = examine(STEP[0], step=STEP[1].replace("p.sub_(", "p.sub("))
    assert not any("second group" in finding.text for finding in findings)
