"""What the checks say of wrong functions is true of them; what slipped through once is caught.

Each case is one function in the place of the solution: what must be said of it, and what must not.
"""

import pytest
import torch
from support import ROOT

from checks import jobs
from checks.findings import faulty
from checks.graded_tasks import GRADED_TASKS, graded_task
from checks.part1 import references
from checks.part2 import batches, calls, models
from course import transcripts
from course.answers import installed_source, put_methods

ATTENTION, EMBED = "bert.attention", "bert.embed"
STEP, INIT = "optimizer.step", "classifier.init"


def examine(task_id: str, **methods: str):
    """The findings on a task whose methods are these."""
    entry = graded_task(task_id)
    source = (ROOT / entry.file).read_text(encoding="utf-8")
    source = put_methods(source, entry.function.split(".")[0], methods, ("import math",))
    with installed_source(entry.file, source):
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
        "def __init__(self, config):\n    super().__init__()\n"
        "    self.bert = BertModel.from_pretrained(None)\n"
        '    self.bert.requires_grad_(config.option == "finetune")\n'
        "    self.dropout = nn.Dropout(self.bert.config.hidden_dropout_prob)\n"
        "    self.classifier = nn.Linear(config.hidden_size, config.num_labels)\n",
        "BERT's own configuration", "a number in the code", id="BERT's own dropout",
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


def test_a_step_count_in_a_tensor_is_right():
    found = examine(STEP, step=STEPPING)
    assert [f.text for f in faulty(found)] == [
        "closure: step(closure) called the closure 0 times, wanted once",
        "sparse gradients: step() with a sparse gradient raised no RuntimeError",
    ]


def test_a_step_count_with_an_axis_fails_for_a_parameter_without_one():
    assert "torch.zeros(())" in STEPPING
    source = STEPPING.replace("torch.zeros(())", "torch.zeros(1)")
    (text,) = (f.text for f in examine(STEP, step=source) if "axes" in f.text)
    assert text.startswith("parameter without axes: RuntimeError: output with shape []")
    assert "torch.zeros(1) has one" in text


UNDROPPED = "return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)"
BOTH = [  # two mistakes at once, the names of both
    (
        ATTENTION,
        attention("scores = query @ key.transpose(-1, -2)", REST[0], UNDROPPED),
        {"no_scale", "no_dropout"},
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


def test_what_a_name_leaves_open_is_told():
    scores = "scores = self.dropout(query @ key.transpose(-1, -2)) + attention_mask"
    source = attention(scores, UNDROPPED)
    found = examine(ATTENTION, attention=source)
    assert {finding.name for finding in found} - {""} == {"no_scale"}
    facts = [finding.text for finding in found if finding.kind == "fact"]
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
    others = [
        *widths,
        models.TINY["hidden_size"],
        models.SENTIMENTS,
        models.TINY["num_attention_heads"],
    ]
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
    (
        "predict_similarity",
        similarity(f"{SCORE}.relu().squeeze(-1)"),
        None,
    ),  # dead for some weights
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
    [(entry, name) for entry in GRADED_TASKS for name in transcripts.LIKELY[entry.id].split()],
    ids=lambda part: getattr(part, "id", part),
)
def test_the_page_says_what_the_checks_say(entry, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(transcripts.WIDTH))
    output = transcripts.output_of(entry, name)
    assert f"```text\n{output}\n```" in transcripts.PAGE.read_text(encoding="utf-8")
