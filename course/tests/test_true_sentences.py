"""What the checks say of wrong functions is true of them; what slipped through once is caught.

Each case is one function in the place of the solution: what must be said of it, and what must not.
"""

import pytest
import torch
from support import ROOT

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import graded_task
from checks.part1 import devices, references
from checks.part2 import batches, calls, models
from course import transcripts
from course.answers import VARIANTS, installed, installed_source, put_methods, read_all

ATTENTION, ADD_NORM, EMBED = "bert.attention", "bert.add_norm", "bert.embed"
STEP, INIT, FORWARD = "optimizer.step", "classifier.init", "classifier.forward"
SENTIMENT = "multitask.predict_sentiment"


def written(task_id: str, **methods: str) -> str:
    """The source of a task's file in which methods are these."""
    entry = graded_task(task_id)
    source = (ROOT / entry.file).read_text(encoding="utf-8")
    return put_methods(source, entry.function.split(".")[0], methods, ("import math",))


def examine(task_id: str, **methods: str):
    """The findings on a task whose methods are these."""
    entry = graded_task(task_id)
    with installed_source(entry.file, written(task_id, **methods)):
        return jobs.examine(entry)


def attention(*body: str) -> str:
    lines = (
        "def attention(self, key, query, value, attention_mask):",
        "    scores = query @ key.transpose(-1, -2) / math.sqrt(self.attention_head_size)",
        *(f"    {line}" for line in body),
    )
    return "\n".join(lines) + "\n"


REST = (
    "scores = scores + attention_mask",
    "context = self.dropout(scores.softmax(-1)) @ value",
    "return context.transpose(1, 2).flatten(2)",
)
EMBEDDED = """def embed(self, input_ids, token_type_ids=None):
    types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
    places = self.position_ids[:, : input_ids.size(1)]
    total = self.word_embedding(input_ids) + self.pos_embedding(places)
    total = self.embed_layer_norm(total + self.tk_type_embedding(types))
    return self.embed_dropout(total)
"""
STEPPING = """def step(self, closure=None):
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
DIVISOR = '(state["v"].sqrt() + group["eps"])'
WEIGHTS = "weights = self.dropout((scores + attention_mask).softmax(-1))"


def add_norm(line: str) -> str:
    return f"def add_norm(self, input, output, dense_layer, dropout, ln_layer):\n    {line}\n"


def init(*lines: str) -> str:
    start = (
        "super().__init__()",
        "self.bert = BertModel.from_pretrained(None)",
        'self.bert.requires_grad_(config.option == "finetune")',
    )
    body = "\n".join(f"    {line}" for line in (*start, *lines))
    return f"def __init__(self, config):\n{body}\n"


TOLD = [  # task, function, words that must be said, words that must not
    pytest.param(
        ATTENTION, attention("scores + attention_mask"), "forget `return`?", "dropout", id="None"
    ),
    pytest.param(
        ATTENTION,
        attention("scores = scores.masked_fill(attention_mask == 0, -math.inf)", *REST[1:]),
        "Where the mask is 0 the scores become −inf", "dropout acts",
        id="infinite mask, inverted",
    ),
    pytest.param(
        ATTENTION, attention("scores = scores.sqrt()", *REST), "the first NaN comes from `sqrt`",
        "sum to", id="root of a negative number",
    ),
    pytest.param(
        ATTENTION, attention(REST[0], "attention_mask.eq_(0)", *REST[1:]),
        "`mask`, which was given, is changed in place", "√", id="mask changed in place",
    ),
    pytest.param(
        EMBED, EMBEDDED.replace("total = self.word", "with torch.no_grad(): total = self.word"),
        "no gradient arrives", "takes no row", id="detached embeddings",
    ),
    pytest.param(
        EMBED,
        EMBEDDED.replace("return self", "return total if self.training else self"),
        "There is no dropout", "nothing uses it", id="dropout if not training",
    ),
    pytest.param(
        STEP, STEPPING.replace("torch.zeros_like(p), v=", "torch.zeros_lik(p), v="),
        "zeros_lik", "step fails (", id="an optimizer that always fails",
    ),
    pytest.param(
        INIT,
        init(
            "self.dropout = nn.Dropout(self.bert.config.hidden_dropout_prob)",
            "self.classifier = nn.Linear(config.hidden_size, config.num_labels)",
        ),
        "BERT's own configuration", "a number in the code", id="BERT's own dropout",
    ),
    pytest.param(
        ATTENTION, attention(REST[0], "weights = self.dropout(scores.softmax(-1))",
                             "return (scores @ value).transpose(1, 2).flatten(2)"),
        "there is no softmax, or its result is not used", "before the mask is added",
        id="softmax not used",
    ),
    pytest.param(
        ATTENTION,
        attention(
            "made = nn.MultiheadAttention(42, 6, dropout=0.2, batch_first=True).to(key)",
            "key, query, value = (x.transpose(1, 2).flatten(2) for x in (key, query, value))",
            "return made(query, key, value)[0]",
        ),
        "the same inputs give other results in every run: random", "dropout acts",
        id="random weights",
    ),
    pytest.param(
        ATTENTION,
        attention(
            "weights = (scores + attention_mask).softmax(-1)",
            "weights = weights * (torch.rand_like(weights) > 0.2) if self.training else weights",
            "return (weights @ value).transpose(1, 2).flatten(2)",
        ),
        "other results in every run in training mode", "no dropout acts",
        id="random numbers of one's own",
    ),
    pytest.param(
        ATTENTION, attention("scores = scores + (1 - attention_mask) * -10000", *REST[1:]),
        "all of this is right in float64", "dropout", id="mask turned again",
    ),
    pytest.param(
        ATTENTION, attention(REST[0], REST[1], f"{REST[2]} * math.nan"), "nan at [0, 0, 0]",
        "sum to", id="NaN",
    ),
    pytest.param(
        ATTENTION, attention(REST[0], REST[1], f"{REST[2]}[:, 1:]"),
        "shape (5, 9, 42) instead of (5, 10, 42)", "sum to", id="a token too few",
    ),
    pytest.param(
        ATTENTION, attention("scores = scores.detach()", *REST),
        "gradients of query: no gradient arrives", "dropout", id="detached scores",
    ),
    pytest.param(
        ATTENTION, attention(WEIGHTS, "return (weights @ value).transpose(1, 3).flatten(2)"),
        "in the order of the axes (B, W, L, H)", "dropout", id="axes in another order",
    ),
    pytest.param(
        ATTENTION, attention(WEIGHTS, "return (weights @ value).transpose(1, 2).reshape(-1, 42)"),
        "right and in the right order, not its shape", "dropout", id="another shape",
    ),
    pytest.param(
        ATTENTION, attention("scores = query @ key.mT / len(key)", *REST), "times 0.2 = 1/B",
        "dropout", id="divided by the batch",
    ),
    pytest.param(
        ADD_NORM,
        add_norm("return self.out_layer_norm(input + self.out_dropout(self.out_dense(output)))"),
        "always the one after the feed-forward", "applied twice", id="own layers",
    ),
    pytest.param(
        ADD_NORM, add_norm("return self.out_layer_norm(input + 2 * dropout(dense_layer(output)))"),
        "ln_layer has no effect on the result", "should be `input`", id="own norm, twice",
    ),
    pytest.param(
        INIT,
        init("self.layers = [nn.Dropout(config.hidden_dropout_prob), nn.Linear(42, 9)]"),
        "a Dropout is made, but it is not part of the model", "o dropout is made",
        id="layers in a list",
    ),
    pytest.param(
        INIT,
        init("dropout, head = nn.Dropout(config.hidden_dropout_prob), nn.Linear(42, 9)"),
        "a Linear is made, but it is not part of the model", "o dropout is made",
        id="layers in variables",
    ),
    pytest.param(
        ADD_NORM, add_norm("return ln_layer(input + self.out_dropout(dense_layer(output)))"),
        "The dropout is one of the layer's own", "There is no dropout", id="own dropout",
    ),
    pytest.param(
        STEP, STEPPING.replace(DIVISOR, 'state["v"].sqrt() + group["eps"]'),
        "m / √v + ε", "ε is left out", id="ε outside the fraction",
    ),
    pytest.param(
        STEP,
        STEPPING.replace(f"/ {DIVISOR}", '/ state["v"].sqrt() * (1 + group["eps"])'),
        "trajectory", "ε is left out", id="ε beside a fraction of 0 and 0",
    ),
    pytest.param(
        ATTENTION, attention(REST[0], REST[1], "return context.transpose(1, 2).flatten(2), scores"),
        "return the one tensor", "forget", id="two values returned",
    ),
    pytest.param(
        INIT, init("self.dropout = nn.Dropout", "self.head = nn.Linear(42, config.num_labels)"),
        "self.dropout is the class Dropout", "o dropout is made", id="a class for a layer",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("task_id", "source", "words", "never"), TOLD)
def test_what_is_said_is_true(task_id, source, words, never):
    name = graded_task(task_id).function.split(".")[1]
    findings = examine(task_id, **{name: source})
    said = "\n".join(finding.text for finding in findings)
    assert faulty(findings)
    assert words in said
    assert never not in said


def test_a_step_count_in_a_tensor_is_right_unless_it_has_an_axis():
    assert [f.text for f in faulty(examine(STEP, step=STEPPING))] == [
        "closure: step(closure) called the closure 0 times, wanted once",
        "sparse gradients: step() with a sparse gradient raised no RuntimeError",
    ]
    source = STEPPING.replace("torch.zeros(())", "torch.zeros(1)")
    (text,) = (f.text for f in examine(STEP, step=source) if "axes" in f.text)
    assert text.startswith("parameter without axes: RuntimeError: output with shape []")
    assert "torch.zeros(1) has one" in text


UNDROPPED = "return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)"
BOTH = [  # two mistakes at once, the names of both
    (
        ATTENTION,
        attention("scores = query @ key.mT / key.size(2) ** 0.5", REST[0], UNDROPPED),
        {"scale_by_length", "no_dropout"},
    ),
    (
        STEP,
        STEPPING.replace('group["correct_bias"]', "True").replace(
            '.sqrt() + group["eps"]', '.add(group["eps"]).sqrt()'
        ),
        {"correct_bias_ignored", "eps_inside_root"},
    ),
]


@pytest.mark.parametrize(("task_id", "source", "names"), BOTH)
def test_both_of_two_mistakes_are_named(task_id, source, names):
    name = graded_task(task_id).function.split(".")[1]
    assert {finding.name for finding in examine(task_id, **{name: source})} - {""} == names


@pytest.mark.parametrize(
    ("stub", "owner", "lines"),
    [
        ("Task 1.4 · BertModel.embed", "embed", "self.bert.embed(input_ids)"),
        (
            "Task 1.1 · BertSelfAttention.attention",
            "attention",
            "self.bert.encode(torch.zeros(5, 10, 42).double(), attention_mask)",
        ),
    ],
)
def test_a_function_that_calls_a_stub_waits_for_it(stub, owner, lines):
    bert_class = graded_task(stub.split()[1]).function.split(".")[0]
    source = put_methods(
        (ROOT / "bert.py").read_text(encoding="utf-8"),
        bert_class,
        {owner: f"def {owner}(self, *_):\n    raise NotImplementedError('{stub}')\n"},
    )
    forward = f"def forward(self, input_ids, attention_mask):\n    return {lines}\n"
    written = (ROOT / "classifier.py").read_text(encoding="utf-8")
    written = put_methods(written, "BertSentimentClassifier", {"forward": forward})
    with installed_source("bert.py", source), installed_source("classifier.py", written):
        outcome = jobs.check_task(graded_task(FORWARD))
    assert outcome.status == "waits"
    assert outcome.about.startswith(f"for {stub[:8]}, ")


def sentiment(summand: str) -> str:
    """Task 2.3 with something added to the logits."""
    return (
        "def predict_sentiment(self, input_ids, attention_mask):\n"
        "    u = self(input_ids, attention_mask)\n"
        f"    return self.sentiment(self.dropout(u)) + {summand}\n"
    )


WARNED = [  # task, function, words of the warning; "" where there is none
    (EMBED, EMBEDDED, ""),
    (
        EMBED,
        EMBEDDED.replace("zeros_like(input_ids)", "zeros(*input_ids.shape, dtype=torch.long)"),
        "on a GPU `self.tk_type_embedding(types)` (bert.py:",
    ),
    (
        EMBED,
        EMBEDDED.replace(
            "self.position_ids[:, : input_ids.size(1)]", "torch.arange(input_ids.size(1))"
        ),
        "`places` would still be on the CPU",
    ),
    (
        EMBED,
        EMBEDDED.replace("torch.zeros_like(input_ids)", "torch.zeros(5, 10).to(input_ids)").replace(
            "(types)", "(types[: len(input_ids), : input_ids.size(1)])"
        ),
        "",
    ),
    (
        ATTENTION,
        attention("scores = query @ key.mT / torch.tensor(key.size(-1)).sqrt()", *REST),
        "",  # a single number may be on the CPU
    ),
    (
        ATTENTION,
        attention("scores = query @ key.mT / torch.tensor([key.size(-1)]).sqrt()", *REST),
        "on a GPU `query @ key.mT / torch.tensor([key.size(-1)]).sqrt()` (bert.py:",
    ),
    (
        ATTENTION,
        attention(
            "dropped = self.dropout(torch.ones(5, 6, 10, 10, dtype=key.dtype))",
            "return (((scores + attention_mask).softmax(-1) * dropped) @ value)"
            ".transpose(1, 2).flatten(2)",
        ),
        "`dropped` would still be on the CPU",
    ),
    (
        STEP,
        STEPPING.replace("torch.zeros(())", "torch.zeros(1)"),
        "`rate` would still be on the CPU",
    ),
    (
        ATTENTION,
        attention(
            "p = self.dropout.p if self.training else 0.0",
            "context = F.scaled_dot_product_attention(query, key, value, attention_mask, p)",
            "return context.transpose(1, 2).flatten(2)",
        ),
        "torch.nn.functional.scaled_dot_product_attention (bert.py:",
    ),
    (
        ATTENTION,
        attention(
            "from torch.nn import MultiheadAttention as Own",
            "return Own(42, 6, batch_first=True).to(key)(*(x.transpose(1, 2).flatten(2) for x in "
            "(query, key, value)))[0]",
        ),
        "torch.nn.MultiheadAttention (bert.py:",
    ),
    (
        STEP,
        "def step(self, closure=None):\n    import torch.optim as o\n"
        "    return o.AdamW(self.param_groups).step(closure)\n",
        "torch.optim.AdamW (optimizer.py:",
    ),
    (
        ATTENTION,
        attention("scores = query @ key.T", *REST),
        "UserWarning: The use of `x.T` on tensors of dimension other than 2",
    ),
    (
        ATTENTION,
        attention("weights = F.softmax(scores + attention_mask)", "return weights"),
        "UserWarning: Implicit dimension choice for softmax has been deprecated.",
    ),
    (
        SENTIMENT,
        sentiment("torch.zeros(5)"),
        "self.dropout(u)) + torch.zeros(5)` (multitask_classifier.py:",
    ),
    (SENTIMENT, sentiment("torch.zeros(5, device=u.device)"), ""),
    (SENTIMENT, sentiment("torch.zeros_like(u[:, :5])"), ""),
]


@pytest.mark.parametrize(("task_id", "source", "words"), WARNED)
def test_a_warning_costs_nothing_and_has_its_line(task_id, source, words):
    entry = graded_task(task_id)
    owner, name = entry.function.split(".")
    file = (ROOT / entry.file).read_text(encoding="utf-8")
    head = ("import math", "from torch.nn import functional as F")
    with installed_source(entry.file, put_methods(file, owner, {name: source}, head)):
        findings = jobs.run(task_id).findings
        warnings = [finding for finding in findings if finding.kind == "warning"]
        assert warnings[0].text.count(f"{entry.file}:") == 1 if words else not warnings
        assert not words or any(words in finding.text for finding in warnings), warnings
        assert not {*warnings} & {*faulty(findings)}


def test_correct_solutions_would_run_on_a_gpu():
    for answer in read_all(VARIANTS):
        if answer.task.part == 1:
            with installed(answer):
                assert devices.two_devices(answer.task.id) == "", answer.name


def test_what_a_name_leaves_open_is_told():
    scores = "scores = self.dropout(query @ key.transpose(-1, -2)) + attention_mask"
    source = attention(scores, UNDROPPED)
    found = examine(ATTENTION, attention=source)
    assert {finding.name for finding in found} - {""} == {"no_scale"}
    facts = [finding.text for finding in found if finding.kind in ("fact", "cause")]
    assert facts[0] == "that is not all: it does not explain dropout of context"
    assert "dropout does not act on them" in facts[1]


def test_no_two_sizes_are_the_same():
    """So that a size tells where it was read, and none is a number of axes or a usual constant."""
    given = references.inputs_of(ATTENTION, references.load_references())
    batch, heads, length, width = given.key.shape
    sizes = [batch, heads, length, width, references.TINY["hidden_size"]]
    sizes += [references.TINY["intermediate_size"], references.NUM_LABELS]
    assert len({*sizes, 2, 3, 4, 8}) == len(sizes) + 4
    rows = len(batches.LENGTHS[0])
    assert len(batches.LENGTHS[1]) == rows
    widths = [max(lengths) for lengths in batches.LENGTHS]
    others = [*widths, models.TINY["hidden_size"], models.TINY["num_attention_heads"]]
    others.append(models.SENTIMENTS)
    assert len({rows, *others, 2, 3, 8}) == len(others) + 4


# ---------------------------------------------------------------------------------------------
# Part 2

PAIR = "def {}(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):\n"
VECTORS = "    u, v = self(input_ids_1, attention_mask_1), self(input_ids_2, attention_mask_2)\n"
SCORE = "self.similarity(self.dropout(torch.cat([u, v, (u - v).abs()], -1)))"


def similarity(last: str) -> str:
    return PAIR.format("predict_similarity") + VECTORS + f"    return {last}\n"


TOLD_OF_PART_2 = [
    ("predict_similarity", similarity(SCORE), "axis_left"),
    (
        "predict_similarity",
        similarity(f"nn.functional.dropout({SCORE}.squeeze(-1), 0.3, self.training, inplace=True)"),
        "dropout_on_score",
    ),
    ("predict_similarity", similarity("None"), "not_a_tensor"),
    ("predict_similarity", similarity(f"{SCORE}.relu().squeeze(-1)"), None),  # often dead
    (
        "forward",
        "def forward(self, input_ids, attention_mask):\n"
        '    hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]\n'
        "    return (hidden * attention_mask[..., None]).mean(dim=1)\n",
        "padding_pooled",
    ),
]


@pytest.mark.parametrize(("name", "source", "mistake"), TOLD_OF_PART_2)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_part_2(name, source, mistake, seed, monkeypatch):
    measure = calls.measure
    monkeypatch.setattr("checks.part2.tasks.measure", lambda task_id: measure(task_id, seed))
    judge = jobs.checks_of(graded_task("2.1")).judge
    monkeypatch.setattr(
        "checks.part2.tasks.judge", lambda task_id, measured: judge(task_id, measured, seed)
    )
    with torch.random.fork_rng(devices=[]):
        found = examine(f"multitask.{name}", **{name: source})
    assert {finding.name for finding in faulty(found)} - {""} == ({mistake} if mistake else set())


# ---------------------------------------------------------------------------------------------
# docs/checks.md


@pytest.mark.parametrize(
    ("entry", "name"),
    [(graded_task(key), n) for key, names in transcripts.LIKELY.items() for n in names.split()],
    ids=lambda part: getattr(part, "id", part),
)
def test_the_page_says_what_the_checks_say(entry, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(transcripts.WIDTH))
    output = transcripts.output_of(entry, name)
    assert f"```text\n{output}\n```" in transcripts.PAGE.read_text(encoding="utf-8")
