"""What the checks say of incorrect functions is true of them; warnings have their line.

Each case is one function in the place of the solution: what must be said of it, and what must not.
"""

import pytest
from factories import ROOT

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import graded_task
from checks.part1 import devices
from course.answers import VARIANTS, installed, installed_source, put_methods, read_all

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
EMBED = """def embed(self, input_ids, token_type_ids=None):
    types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
    places = self.position_ids[:, : input_ids.size(1)]
    total = self.word_embedding(input_ids) + self.pos_embedding(places)
    total = self.embed_layer_norm(total + self.tk_type_embedding(types))
    return self.embed_dropout(total)
"""
STEP = """def step(self, closure=None):
    for group in self.param_groups:
        beta1, beta2 = group["betas"]
        for p in (p for p in group["params"] if p.grad is not None):
            state = self.state[p]
            if not state:
                state.update(step=torch.zeros(()), m=torch.zeros_like(p), v=torch.zeros_like(p))
            state["step"] += 1
            with torch.no_grad():
                state["m"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["v"].mul_(beta2).add_(p.grad * p.grad, alpha=1 - beta2)
                rate = group["lr"]
                if group["correct_bias"]:
                    rate = rate * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.sub_(rate * state["m"] / (state["v"].sqrt() + group["eps"]))
                p.sub_(group["lr"] * group["weight_decay"] * p)
"""
INIT = """def __init__(self, config):
    super().__init__()
    self.bert = BertModel.from_pretrained(None)
    self.bert.requires_grad_(config.option == "finetune")
    self.dropout = nn.Dropout(config.hidden_dropout_prob)
    self.classifier = nn.Linear(config.hidden_size, config.num_labels)
"""
CLASSIFY = """def forward(self, input_ids, attention_mask):
    pooled = self.bert(input_ids, attention_mask)["pooler_output"]
    return self.classifier(self.dropout(pooled))
"""
TASKS = {
    ATTEND: "bert.attention", ADD: "bert.add_norm", LAYER: "bert.layer", EMBED: "bert.embed",
    STEP: "optimizer.step", INIT: "classifier.init", CLASSIFY: "classifier.forward",
}  # fmt: skip
WEIGHTS = "weights = self.dropout((scores + attention_mask).softmax(-1))"
LINEAR = "nn.Linear(config.hidden_size, config.num_labels)"
RETURN = "return made.transpose(1, 2).flatten(2)"
POSITIONS = "self.position_ids[:, : input_ids.size(1)]"


def with_change(source, *changes):
    """A context in which a task's file has this function, with some texts replaced."""
    entry = graded_task(TASKS[source])
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    owner, name = entry.function.split(".")
    head = ("import math", "from torch.nn import functional as F")
    file = (ROOT / entry.file).read_text(encoding="utf-8")
    return installed_source(entry.file, put_methods(file, owner, {name: source}, head))


TOLD = [  # function, what is replaced by what; words that must be said, words that must not
    (ATTEND, RETURN, "made.transpose(1, 2).flatten(2)", "forget `return`?", "dropout"),
    (ATTEND, RETURN, f"{RETURN}, scores", "return the one tensor", "forget"),
    (ATTEND, "scores + attention_mask", "scores.masked_fill(attention_mask == 0, -math.inf)",
     "Where the mask is 0 the scores become −inf", "dropout acts"),
    (ATTEND, "weights =", "scores = scores.sqrt()\n    weights =", "the first NaN comes from `sq",
     "probably"),
    (ATTEND, "made =", "attention_mask.eq_(0)\n    made =", "`mask`, which was given, is changed",
     "√"),
    (ATTEND, WEIGHTS, "weights = (scores + attention_mask).softmax(-1)\n    weights = weights * "
     "(torch.rand_like(weights) > 0.2) if self.training else weights",
     "other results in every run in training mode", "get no dropout"),
    (ATTEND, "scores + attention_mask", "scores + (1 - attention_mask) * -10000",
     "all of this is right in float64", "dropout"),
    (ATTEND, "weights @ value", "weights @ (value / 7**0.5)", "result is divided by √W",
     "weights sum"),
    (ATTEND, RETURN, f"{RETURN} * 1.5", "all are 1.5 times what is expected", "dropout"),
    (ATTEND, RETURN, "return made.sum(1)", "The outputs of the heads are summed", "dropout"),
    (ADD, "+ dropout(", "+ self.out_dropout(", "The dropout is one of the layer's own",
     "There is no dropout"),
    (LAYER, "self.out_dropout, self.out_layer_norm", "self.out_layer_norm, self.out_dropout",
     "its dropout and its norm in the wrong order", "a GELU"),
    (LAYER, "self.add_norm(hidden_states, seen, *first)",
     "self.attention_layer_norm(hidden_states + seen)", "linear layer after attention is not used",
     "not what the second"),
    (LAYER, "self.add_norm(x, inner", "self.add_norm(attention_mask, inner",
     "input of add_norm's call 2 is what `mask` is", "probably"),
    (EMBED, "    total = self.word", "    with torch.no_grad(): total = self.word",
     "no gradient arrives", "dropout"),
    (INIT, "config.hidden_dropout_prob", "self.bert.config.hidden_dropout_prob",
     "BERT's own configuration", "a number in the code"),
    (INIT, f"self.classifier = {LINEAR}", f"self.layers = [{LINEAR}]",
     "none is made, or it is in a plain list", "two layers"),
    (CLASSIFY, "input_ids, attention_mask)[", "attention_mask, input_ids)[",
     "BERT gets the ids where the mask belongs", "dropout"),
    (CLASSIFY, "self.classifier(self.dropout(pooled))",
     "torch.relu(self.classifier(self.dropout(pooled))).log_softmax(-1)", "through a ReLU", "tanh"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "old", "new", "words", "never"), TOLD, ids=[row[3] for row in TOLD]
)
def test_what_is_said_is_true(source, old, new, words, never):
    with with_change(source, (old, new)):
        findings = jobs.examine(graded_task(TASKS[source]))
    said = "\n".join(finding.text for finding in findings)
    assert faulty(findings)
    assert words in said
    assert never not in said


WARNED = [  # function, what is replaced by what, words of the warning; "" where there is none
    (EMBED, "", "", ""),
    (EMBED, "zeros_like(input_ids)", "zeros(*input_ids.shape, dtype=torch.long)",
     "on a GPU `self.tk_type_embedding(types)` (bert.py:"),
    (EMBED, POSITIONS, "torch.arange(input_ids.size(1))", "`places` would still be on the CPU"),
    (EMBED, POSITIONS, "torch.arange(input_ids.size(1), "
     'device="cuda" if torch.cuda.is_available() else "cpu")', ""),
    (ATTEND, "math.sqrt(key.shape[-1])", "torch.tensor(key.size(-1)).sqrt()", ""),
    (STEP, "torch.zeros(())", "torch.zeros(1)", "`rate` would still be on the CPU"),
    (STEP, "m=torch.zeros_like(p)", "m=torch.zeros(p.shape).to("
     '"cuda" if torch.cuda.is_available() else "cpu")', ""),
    (ATTEND, "key.mT", "key.T", "UserWarning: The use of `x.T` on tensors of dimension other than"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "old", "new", "words"), WARNED, ids=range(len(WARNED)))
def test_a_warning_costs_nothing_and_has_its_line(source, old, new, words):
    task_id = TASKS[source]
    with with_change(source, (old, new)):
        findings = jobs.run(task_id).findings
    warnings = [finding for finding in findings if finding.kind == "warning"]
    assert warnings[0].text.count(f"{graded_task(task_id).file}:") == 1 if words else not warnings
    assert not words or any(words in finding.text for finding in warnings), warnings
    assert not {*warnings} & {*faulty(findings)}


def test_correct_solutions_would_run_on_a_gpu():
    for answer in read_all(VARIANTS):
        if answer.task.part == 1:
            with installed(answer):
                assert devices.two_devices(answer.task.id) == "", answer.name
