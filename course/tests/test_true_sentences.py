"""What the checks say of functions that make no known mistake is true of them.

Each case is one function in the place of the solution: what must be said of it, and what must not.
"""

import pytest
from support import ROOT

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import graded_task
from checks.part1 import adamw_checks, adamw_mistakes, devices
from course import transcripts
from course.answers import VARIANTS, installed, installed_source, put_methods, read_all

SENTIMENT = "multitask.predict_sentiment"
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
CLASSIFY_STARS = """def predict_sentiment(self, input_ids, attention_mask):
    u = self(input_ids, attention_mask)
    return self.sentiment(self.dropout(u))
"""
TASKS = {
    ATTEND: "bert.attention", ADD: "bert.add_norm", LAYER: "bert.layer", EMBED: "bert.embed",
    STEP: "optimizer.step", INIT: "classifier.init", CLASSIFY: "classifier.forward",
    CLASSIFY_STARS: SENTIMENT,
}  # fmt: skip
DIVISOR = '(state["v"].sqrt() + group["eps"])'
WEIGHTS = "weights = self.dropout((scores + attention_mask).softmax(-1))"
NORMED = "self.embed_layer_norm(total + self.tk_type_embedding(types))"
LINEAR = "nn.Linear(config.hidden_size, config.num_labels)"
RETURN = "return made.transpose(1, 2).flatten(2)"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Without the thousand steps of the optimizer's published protocol."""
    monkeypatch.delitem(adamw_checks.CHECKS, "published protocol")


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


def examine(source, *changes):
    """What is found in such a function."""
    with with_change(source, *changes):
        return jobs.examine(graded_task(TASKS[source]))


TOLD = [  # function, what is replaced by what; words that must be said, words that must not
    (ATTEND, RETURN, "made.transpose(1, 2).flatten(2)", "forget `return`?", "dropout"),
    (ATTEND, "scores + attention_mask", "scores.masked_fill(attention_mask == 0, -math.inf)",
     "Where the mask is 0 the scores become −inf", "dropout acts"),
    (ATTEND, "weights =", "scores = scores.sqrt()\n    weights =", "the first NaN comes from `sq",
     "sum to"),
    (ATTEND, "made =", "attention_mask.eq_(0)\n    made =", "`mask`, which was given, is changed",
     "√"),
    (EMBED, "    total = self.word", "    with torch.no_grad(): total = self.word",
     "no gradient arrives", "takes no row"),
    (INIT, "config.hidden_dropout_prob", "self.bert.config.hidden_dropout_prob",
     "BERT's own configuration", "a number in the code"),
    (ATTEND, "weights @", "scores @", "there is no softmax, or its result is not used",
     "before the mask is added"),
    (ATTEND, WEIGHTS, "weights = (scores + attention_mask).softmax(-1)\n    weights = weights * "
     "(torch.rand_like(weights) > 0.2) if self.training else weights",
     "other results in every run in training mode", "no dropout acts"),
    (ATTEND, "scores + attention_mask", "scores + (1 - attention_mask) * -10000",
     "all of this is right in float64", "dropout"),
    (ATTEND, RETURN, f"{RETURN} * math.nan", "nan at [0, 0, 0]", "sum to"),
    (ATTEND, "query @ key.mT", "(query @ key.mT).detach()",
     "gradients of query: no gradient arrives", "dropout"),
    (ATTEND, "(1, 2).flatten", "(1, 3).flatten", "in the order of the axes (B, W, L, H)",
     "dropout"),
    (ATTEND, "math.sqrt(key.shape[-1])", "len(key)", "times 0.2 = 1/B", "dropout"),
    (ADD, "ln_layer(input + dropout(dense_layer(output)))",
     "self.out_layer_norm(input + self.out_dropout(self.out_dense(output)))",
     "always the one after the feed-forward", "applied twice"),
    (ADD, "+ dropout(", "+ self.out_dropout(", "The dropout is one of the layer's own",
     "There is no dropout"),
    (INIT, f"self.classifier = {LINEAR}", f"self.layers = [{LINEAR}]",
     "a Linear is made, but it is not part of the model", "o dropout is made"),
    (INIT, "nn.Dropout(config.hidden_dropout_prob)", "nn.Dropout",
     "self.dropout is the class Dropout", "o dropout is made"),
    (STEP, DIVISOR, DIVISOR.strip("()"), "m / √v + ε", "ε is left out"),
    (ATTEND, RETURN, f"{RETURN}, scores", "return the one tensor", "forget"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "old", "new", "words", "never"), TOLD, ids=[row[3] for row in TOLD]
)
def test_what_is_said_is_true(source, old, new, words, never):
    findings = examine(source, (old, new))
    said = "\n".join(finding.text for finding in findings)
    assert faulty(findings)
    assert words in said
    assert never not in said


ADDED, ADDEND = ".add_(p.grad * p.grad, alpha=1 - beta2)", ".add_(p.grad, alpha=1 - beta1)"
LARGEST = '(state.update(w=torch.maximum(state.get("w", p * 0), state["v"])) or state["w"])'
CAUSES = [  # function, what is replaced by what, words of the measured cause
    (ATTEND, "query @ key.mT", "query @ key[:, :1].mT", "each head's query · head 1's key"),
    (ATTEND, "weights @ value", "weights @ value[:, :1]",
     "which are head 2's, are made of the values of head 1 "),
    (ATTEND, "weights @ value", "weights @ value + query", "`query` itself is added"),
    (ATTEND, "scores + attention_mask", "scores.masked_fill(attention_mask < 0, -1.0)",
     "the weights that a real token gives to padding sum to up to 0."),
    (ATTEND, "(scores + attention_mask).softmax(-1)", "torch.sigmoid(scores + attention_mask)",
     "the attention weights are sigmoids of the scores: no softmax over the keys acts"),
    (ADD, "input +", "dropout(dense_layer(output)) - 2 * input -",
     "what is returned is ln_layer(-2 · input), which is not the docstring's formula"),
    (ADD, "input +", "input *", "ln_layer(input · dropout(dense_layer(output))), which is"),
    (LAYER, "return ", "return hidden_states + ",
     "what is returned is hidden_states + the result of add_norm (call 2), which is not what"),
    (LAYER, "    inner =", "    x = self.add_norm(x, x, *first)\n    inner =",
     "add_norm is called 3 times instead of 2"),
    (EMBED, "self.pos_embedding(places)", "self.pos_embedding(input_ids % 16)",
     "of pos_embedding, where row 0 belongs"),
    (EMBED, NORMED, f"self.embed_dropout({NORMED})",
     "embed_dropout(embed_dropout(embed_layer_norm(words + positions + segments))), which is"),
    (CLASSIFY, "dropout(pooled)", "dropout(F.normalize(pooled, dim=-1))",
     "linear(dropout(the division by its norm of pooler_output)), which is not what the task's"),
    (STEP, ADDED, ADDED.replace("1 - beta2", "1 - beta1"),
     "uses (1 − β₁) · g² where v = (1 − β₂) · g² belongs"),
    (STEP, ADDEND, ADDEND.replace("p.grad", "p.grad * (1 + beta1)"),
     "uses 0.51 · g where m = (1 − β₁) · g belongs"),
    (STEP, DIVISOR, 'state["v"].sqrt().clamp(min=group["eps"])', "the larger of √v and ε instead"),
    (STEP, DIVISOR, '(state["v"] ** 0.25 + group["eps"])', "like |g| to the power of 0.5, not 1"),
    (STEP, DIVISOR, DIVISOR.replace('state["v"]', LARGEST), "v never falls: its largest value"),
    (STEP, '* group["weight_decay"] * p', '* group["weight_decay"] * p / 2',
     "weight decay takes off 0.5 times α · λ · θ"),
    (STEP, 'group["weight_decay"] * p', 'group["weight_decay"] * p.sign()', "is not proportional"),
    (STEP, "p.sub_(rate *", 'p.sub_(group["lr"] * rate *', "learning rate to the power of 2, not"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "old", "new", "words"), CAUSES, ids=[row[3] for row in CAUSES])
def test_a_cause_is_measured_where_no_known_mistake_is_made(source, old, new, words):
    findings = examine(source, (old, new))
    assert not [finding.name for finding in findings if finding.name]
    causes = [finding.text for finding in findings if finding.kind == "cause"]
    assert any(words in text for text in causes), causes


NO_DECAY = ('                p.sub_(group["lr"] * group["weight_decay"] * p)\n', "")
NEVER_CORRECTED = ('if group["correct_bias"]:', "if False:")
EPS_INSIDE = ('.sqrt() + group["eps"]', '.add(group["eps"]).sqrt()')
BETAS_SWAPPED = ("beta1, beta2 = ", "beta2, beta1 = ")
TOGETHER = [
    (STEP, [NO_DECAY, NEVER_CORRECTED], {"no_decay", "no_bias_correction"}),
    (STEP, [NO_DECAY, EPS_INSIDE], {"no_decay", "eps_inside_root"}),
    (STEP, [NO_DECAY, EPS_INSIDE, BETAS_SWAPPED], {"no_decay", "eps_inside_root", "betas_swapped"}),
    (ATTEND, [("math.sqrt(key.shape[-1])", "key.size(2) ** 0.5"), ("self.dropout", "")],
     {"scale_by_length", "no_dropout"}),
]  # fmt: skip


@pytest.mark.parametrize(("source", "changes", "names"), TOGETHER)
def test_mistakes_made_together_are_named_together(source, changes, names):
    assert {finding.name for finding in examine(source, *changes)} - {""} == names


def test_what_a_known_mistake_does_not_explain_is_said():
    odd_decay = ("weight_decay", 'weight_decay"] * 3 * group["weight_decay')
    with with_change(STEP, NEVER_CORRECTED, odd_decay) as module:
        findings = adamw_mistakes.explain(module.AdamW)
    assert {finding.name for finding in findings} - {""} == {"no_bias_correction"}
    assert any(finding.text.startswith("that is not all") for finding in findings)


WARNED = [  # function, what is replaced by what, words of the warning; "" where there is none
    (EMBED, "", "", ""),
    (EMBED, "zeros_like(input_ids)", "zeros(*input_ids.shape, dtype=torch.long)",
     "on a GPU `self.tk_type_embedding(types)` (bert.py:"),
    (EMBED, "self.position_ids[:, : input_ids.size(1)]", "torch.arange(input_ids.size(1))",
     "`places` would still be on the CPU"),
    (ATTEND, "math.sqrt(key.shape[-1])", "torch.tensor(key.size(-1)).sqrt()", ""),
    (STEP, "torch.zeros(())", "torch.zeros(1)", "`rate` would still be on the CPU"),
    (ATTEND, WEIGHTS, "made = F.scaled_dot_product_attention(query, key, value, attention_mask)\n"
     "    return made.transpose(1, 2).flatten(2)",
     "torch.nn.functional.scaled_dot_product_attention (bert.py:"),
    (STEP, "    for group in self.param_groups:", "    import torch.optim as o\n"
     "    return o.AdamW(self.param_groups).step(closure)\n    for group in self.param_groups:",
     "torch.optim.AdamW (optimizer.py:"),
    (ATTEND, "key.mT", "key.T", "UserWarning: The use of `x.T` on tensors of dimension other than"),
    (CLASSIFY_STARS, "dropout(u))", "dropout(u)) + torch.zeros(5)",
     "self.dropout(u)) + torch.zeros(5)` (multitask_classifier.py:"),
    (CLASSIFY_STARS, "dropout(u))", "dropout(u)) + torch.zeros_like(u[:, :5])", ""),
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


@pytest.mark.parametrize(
    ("entry", "name"),
    [(graded_task(key), n) for key, names in transcripts.LIKELY.items() for n in names.split()],
    ids=lambda part: getattr(part, "id", part),
)
def test_docs_checks_md_says_what_the_checks_say(entry, name, monkeypatch):
    monkeypatch.undo()  # with the published protocol
    monkeypatch.setenv("COLUMNS", str(transcripts.WIDTH))
    output = transcripts.output_of(entry, name)
    assert f"```text\n{output}\n```" in transcripts.PAGE.read_text(encoding="utf-8")
