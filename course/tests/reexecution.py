"""Runs the options of viva questions again, in another way than they were made.

It reads the question as a student does. Edits and probes are changes to the file's text, and the
whole file is executed again; inputs, weights and tolerances are this file's own.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import traceback
import types
import warnings
from types import SimpleNamespace
from unittest import mock

import torch

from checks.fixed_dropout import default_dtype
from config import BertConfig

MODULES = ("bert", "optimizer", "classifier", "multitask_classifier")
SEEDS = (101, 102, 103, 104)
TASKS = {
    "attention": "bert.py", "add_norm": "bert.py", "embed": "bert.py",
    "BertLayer.forward": "bert.py", "BertSentimentClassifier.forward": "classifier.py",
    "AdamW.step": "optimizer.py",
}  # fmt: skip


def verdicts(files: dict[str, str], question: dict) -> list[bool]:
    """Whether each option is true."""
    with warnings.catch_warnings(action="ignore"):
        return KINDS[question["kind"]](files, question)


# ---------------------------------------------------------------------------------------------
# Files


@contextlib.contextmanager
def loaded(files):
    """The submission's modules, executed from their text."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    try:
        for name in MODULES:
            if f"{name}.py" in files:
                module = types.ModuleType(name)
                module.__file__ = f"/submission/{name}.py"
                sys.modules[name] = module
                exec(compile(files[f"{name}.py"], module.__file__, "exec"), vars(module))
        yield SimpleNamespace(**{name: sys.modules.get(name) for name in MODULES})
    finally:
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.modules.update({name: module for name, module in before.items() if module})


def indent_of(line):
    return line[: len(line) - len(line.lstrip())]


def edited(files, file, words):
    """The files after an edit in words."""
    lines = files[file].split("\n")
    if match := re.fullmatch(r"line (\d+) becomes `(.+)`", words, re.DOTALL):
        at = int(match[1]) - 1
        lines[at] = indent_of(lines[at]) + match[2]
    elif match := re.fullmatch(r"line (\d+) is deleted", words):
        at = int(match[1]) - 1
        lines[at] = f"{indent_of(lines[at])}pass"
    else:
        first, last = map(int, re.fullmatch(r"lines (\d+) to (\d+) are deleted", words).groups())
        lines[first - 1 : last] = [f"{indent_of(lines[first - 1])}pass"] + [""] * (last - first)
    return files | {file: "\n".join(lines)}


def probed(files, file, label):
    """The files with a call of PROBE around an expression, or after a variable's line."""
    lines = files[file].split("\n")
    if match := re.fullmatch(r"`(\w+)` after line (\d+)", label):
        at = int(match[2])
        ends = [n for n in ast.walk(ast.parse(files[file])) if isinstance(n, ast.stmt)]
        start = next(n.lineno for n in ends if n.end_lineno == at and not hasattr(n, "body"))
        lines[at:at] = [f"{indent_of(lines[start - 1])}PROBE({match[1]})"]
    else:
        expression, at = re.fullmatch(r"`(.+)` in line (\d+)", label, re.DOTALL).groups()
        line = lines[int(at) - 1]
        assert line.count(expression) == 1
        lines[int(at) - 1] = line.replace(expression, f"PROBE({expression})")
    return files | {file: "\n".join(lines)}


# ---------------------------------------------------------------------------------------------
# Calls


def tuples(text):
    return [
        tuple(map(int, re.findall(r"\d+", shape))) for shape in re.findall(r"\(\d+,[^)]*\)", text)
    ]


def setup(text):
    """Task, shapes and sizes that a question names."""
    name = re.search(r"`([\w.]+)` (?:gets|is called)", text)[1]
    shapes = tuples(text.split("betas")[0])
    s = SimpleNamespace(name=name, B=2, H=2, L=3, W=4, I=7, C=5, D=None, V=50, P=12)
    if name.endswith("attention"):
        s.B, s.H, s.L, s.W = shapes[0]
        assert shapes[1] == (s.B, 1, 1, s.L)
    elif name.endswith("add_norm"):
        s.B, s.L, s.D = shapes[0]
        s.I = shapes[1][-1]
    elif name == "BertLayer.forward":
        s.B, s.L, s.D = shapes[0]
        s.H, s.I = map(
            int, re.search(r"with (\d+) heads and an intermediate size of (\d+)", text).groups()
        )
    elif name != "AdamW.step":
        s.B, s.L = shapes[0]
        s.D = int(re.search(r"hidden size of (\d+)", text)[1])
        if match := re.search(r"(\d+) word pieces and at most (\d+) positions", text):
            s.V, s.P = map(int, match.groups())
        if match := re.search(r"and (\d+) classes", text):
            s.C = int(match[1])
    s.D = s.D or s.H * s.W
    s.H = next(h for h in (s.H, 3, 2, 1) if s.D % h == 0)
    return s


def model_of(modules, s, p, option="finetune"):
    config = BertConfig(
        vocab_size=s.V, hidden_size=s.D, num_hidden_layers=1, num_attention_heads=s.H,
        intermediate_size=s.I, max_position_embeddings=s.P, hidden_dropout_prob=p,
        attention_probs_dropout_prob=p,
    )  # fmt: skip
    bert = modules.bert.BertModel(config)
    if s.name.startswith("BertSentimentClassifier"):
        head = SimpleNamespace(
            num_labels=s.C, hidden_size=s.D, hidden_dropout_prob=p, option=option, data_dir="."
        )
        with mock.patch.object(modules.bert.BertModel, "from_pretrained", return_value=bert):
            whole = modules.classifier.BertSentimentClassifier(head)
    else:
        whole = bert
    with torch.no_grad():
        for parameter in whole.parameters():
            if parameter.dim() > 1:  # biases stay 0, norms stay 1
                parameter.copy_(torch.randn(parameter.shape) * 0.6)
    return whole


def call(
    modules, s, seed, *, train=False, p=0.5, pads=0, zeros=None, alter=None, chance=0, **sizes
):
    """One call of the function with numbers from a seed."""
    s = SimpleNamespace(**{**vars(s), **sizes})
    if "W" in sizes:
        s.D = s.H * s.W
    torch.manual_seed(seed)
    model = model_of(modules, s, p).train(train)
    keep = torch.ones(s.B, s.L)
    if pads:
        keep[:, -pads:] = 0
    additive = ((1 - keep) * -1e7)[:, None, None, :]
    if s.name.endswith("attention"):
        x = [torch.randn(s.B, s.H, s.L, s.W) for _ in range(3)]
    elif s.name.endswith("add_norm"):
        x = [torch.randn(s.B, s.L, s.D), torch.randn(s.B, s.L, s.I)]
    elif s.name == "BertLayer.forward":
        x = [torch.randn(s.B, s.L, s.D)]
    else:
        x = [torch.randint(1, 49, (s.B, s.L))]
    if zeros is not None:
        x[zeros] = 0 * x[zeros]
    if alter:
        x = [alter(t, 2 if s.name.endswith("attention") else 1) for t in x]
    torch.manual_seed(1000 + seed + chance)
    if s.name.endswith("attention"):
        return model.bert_layers[0].self_attention.attention(*x, additive)
    if s.name.endswith("add_norm"):
        layer = model.bert_layers[0]
        return layer.add_norm(*x, layer.out_dense, layer.out_dropout, layer.out_layer_norm)
    if s.name == "BertLayer.forward":
        return model.bert_layers[0](*x, additive)
    if s.name.endswith("embed"):
        return model.embed(*x)
    return model(*x, keep.long())


def adamw(modules, gradients, **settings):
    """The parameter and its state after steps from 1."""
    with default_dtype(torch.float64):
        p = torch.nn.Parameter(torch.ones(1))
        optimizer = modules.optimizer.AdamW([p], **settings)
        for gradient in gradients:
            p.grad = torch.full((1,), float(gradient))
            optimizer.step()
        return p.detach().clone(), optimizer.state[p]


def probes(files, file, label, run):
    """What PROBE saw in a run; exactly one value."""
    seen = []

    def probe(value):
        seen.append(value.detach().clone() if isinstance(value, torch.Tensor) else value)
        return value

    with loaded(probed(files, file, label)) as modules:
        for module in vars(modules).values():
            if module:
                module.PROBE = probe
        run(modules)
    assert len(seen) == 1, f"{label}: {len(seen)} values"
    return seen[0]


def apart(a, b):
    """Whether two results differ."""
    if a.shape != b.shape:
        return True
    return not torch.allclose(a.double(), b.double(), atol=3e-4, rtol=1e-4, equal_nan=True)


# ---------------------------------------------------------------------------------------------
# Kinds


def shape(files, q):
    s, label = setup(q["text"]), re.search(r"What is the shape of (.+)\?$", q["text"])[1]
    size = probes(files, q["file"], label, lambda m: call(m, s, 1)).shape
    return [option == str(tuple(size)) for option in q["options"]]


def sums(files, q):
    s = setup(q["text"])
    label = re.search(r"what is true of (.+), whatever numbers", q["text"])[1]
    pads = 0
    if match := re.search(r"The last (\d*) ?tokens? of each sentence", q["text"]):
        pads = int(match[1] or 1)
    tensors = [
        probes(files, q["file"], label, lambda m, n=seed: call(m, s, n, pads=pads))
        for seed in SEEDS
    ]
    tests = {
        "along its last axis, the numbers sum to 1": lambda t: t.sum(-1) - 1,
        "along its last axis but one, the numbers sum to 1": lambda t: t.sum(-2) - 1,
        "along its last axis, the numbers sum to 0": lambda t: t.sum(-1),
        "along its last axis but one, the numbers sum to 0": lambda t: t.sum(-2),
        "all its numbers for the first sentence together sum to 1": lambda t: t[0].sum() - 1,
        "the last number along its last axis is always 0": lambda t: t[..., -1],
        "the last number along its last axis but one is always 0": lambda t: t[..., -1, :],
    }
    return [all(not tests[o](t).abs().gt(5e-4).any() for t in tensors) for o in q["options"]]


def chance(files, q):
    s, other = setup(q["text"]), "not the same" in q["text"]
    results = []
    for option in q["options"]:
        different = False
        for seed in SEEDS:
            pair = []
            for noise in (1, 2):
                if option.startswith("the result"):
                    p = 0.0 if "probability of 0" in option else 0.5
                    with loaded(files) as m:
                        pair.append(call(m, s, seed, train="training" in option, p=p, chance=noise))
                else:
                    label = option.removesuffix(", in training mode")
                    pair.append(
                        probes(
                            files, q["file"], label,
                            lambda m, n=seed, c=noise: call(m, s, n, train=True, chance=c),
                        )
                    )  # fmt: skip
            different |= apart(*pair)
        results.append(different is other)
    return results


SITUATIONS = {
    "in evaluation mode": {},
    "in training mode, with a dropout probability of 0.5": {"train": True},
    "in training mode, with a dropout probability of 0": {"train": True, "p": 0.0},
    "where the last token of each sentence is padding": {"pads": 1},
    "for sentences of one token": {"L": 1},
    "where all keys are 0": {"zeros": 0},
    "where all queries are 0": {"zeros": 1},
    "for heads of width 1": {"W": 1},
    "where `input` is 0": {"zeros": 0},
    "where `output` is 0": {"zeros": 1},
}
BASE = {"lr": 0.1, "betas": (0.5, 0.75), "eps": 0.1, "weight_decay": 0}


def adamw_situation(m, words, seed):
    settings, gradients = dict(BASE), (2.0, -1.5)
    for name, value in re.findall(r"(\w+)=(\([^)]*\)|[\w.]+)", words):
        settings[name] = ast.literal_eval(value)
    if words.startswith("after one step"):
        gradients = gradients[:1]
    if "gradient is 0 in both" in words:
        gradients = (0, 0)
    return adamw(m, gradients, **settings)[0]


def change(files, q):
    s, edit = setup(q["text"]), re.search(r"If (line.+), where does", q["text"], re.DOTALL)[1]
    after = edited(files, q["file"], edit)

    def results(source, option):
        with loaded(source) as m:
            if s.name == "AdamW.step":
                return [adamw_situation(m, option, seed) for seed in SEEDS]
            return [call(m, s, seed, **SITUATIONS[option]) for seed in SEEDS]

    pairs = [(results(files, o), results(after, o)) for o in q["options"]]
    return [any(map(apart, *pair)) for pair in pairs]


def replaced(x, axis, at):
    new = x.clone()
    index = [slice(None)] * x.dim()
    index[axis] = at
    if x.dtype == torch.int64:
        new[tuple(index)] = x[tuple(index)] % 48 + 1
    else:
        new[tuple(index)] = -2 * x[tuple(index)] + 0.7
    return new


def holds(m, s, text, seed):
    """Whether the property that a text names holds in a run."""

    def run(**k):
        return call(m, s, seed, **k)

    last = lambda x, axis: replaced(x, axis, -1)  # noqa: E731
    if "padding does not change" in text:
        return not apart(run(pads=1)[:, :-1], run(pads=1, alter=last)[:, :-1])
    if "other sentences" in text:
        return not apart(run()[:-1], run(alter=lambda x, axis: replaced(x, 0, -1))[:-1])
    if "depends on the other tokens" in text:
        return apart(run()[:, :-1], run(alter=last)[:, :-1])
    if "depends on its position" in text:
        return apart(run(), run(alter=lambda x, axis: torch.flip(x, [axis])).flip(1))
    if "has mean 0" in text:
        return run().mean(-1).abs().max().item() < 1e-4
    if "two calls in training" in text:
        return apart(run(train=True, chance=1), run(train=True, chance=2))
    one = torch.ones(1)
    if "gradient of 0 and weight_decay=0.5" in text:
        return apart(adamw(m, [0], **BASE | {"weight_decay": 0.5})[0], one)
    if "takes lr=0.1 off" in text:
        return not apart(adamw(m, [2], **BASE | {"eps": 0})[0], one - 0.1)
    assert "gradients of 2 and then 0" in text
    return apart(adamw(m, [2], **BASE)[0], adamw(m, [2, 0], **BASE)[0])


def prop(files, q):
    s, text = setup(q["text"]), re.search(r"As the code stands, (.+?)\. With", q["text"])[1]
    seeds = SEEDS if s.name != "AdamW.step" else SEEDS[:1]
    with loaded(files) as m:
        assert all(holds(m, s, text, seed) for seed in seeds), "it does not hold as the code stands"
    results = []
    for option in q["options"]:
        with loaded(edited(files, q["file"], option)) as m:
            results.append(not any(holds(m, s, text, seed) for seed in seeds))
    return results


def number(files, q):
    settings = dict(
        re.findall(r"(lr|betas|eps|weight_decay|correct_bias)=(\([^)]*\)|[\w.]+)", q["text"])
    )
    settings = {name: ast.literal_eval(value) for name, value in settings.items()}
    gradients = re.search(
        r"gradient is (-?\d+) in the first step, (-?\d+) in the second", q["text"]
    )
    with loaded(files) as m:
        parameter, state = adamw(m, map(float, gradients.groups()), **settings)
    name = re.search(r"What is (?:the parameter|`state\[(.+)\]` of the parameter) then", q["text"])[
        1
    ]
    value = state[ast.literal_eval(name)] if name else parameter
    return [abs(float(option) - value.item()) < 1e-9 for option in q["options"]]


def rows(files, q):
    ids = ast.literal_eval(re.search(r"`input_ids` = (\[\[.+?\]\])", q["text"])[1])
    s = SimpleNamespace(name="embed", H=2, D=8, I=5, V=50, P=12)
    with loaded(files) as m:
        torch.manual_seed(9)
        model = model_of(m, s, 0.0).eval()
        result = model.embed(torch.tensor(ids))
        (result**3 * torch.rand(result.shape)).sum().backward()
        named = dict(model.named_parameters())
    results = []
    for option in q["options"]:
        name, row = re.fullmatch(r"`([\w.]+)\[(\d+)\]`", option).groups()
        grad = named[name].grad
        results.append(grad is not None and grad[int(row)].abs().max().item() > 1e-6)
    return results


def multitask_model(modules, option):
    """The group's model of part 2 around a small BERT."""
    config = BertConfig(
        vocab_size=200, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=9, max_position_embeddings=40,
    )  # fmt: skip
    settings = SimpleNamespace(
        option=option, hidden_size=16, hidden_dropout_prob=0.2, data_dir=".",
        num_labels={label: label for label in range(5)},
    )  # fmt: skip
    modules.bert.BertModel.from_pretrained = classmethod(
        lambda *_, **__: modules.bert.BertModel(config)
    )
    return modules.multitask_classifier.MultitaskBERT(settings)


def gradient(files, q):
    cls, option, method = re.search(
        r"A `(\w+)` is made with option='(\w+)', and a loss is computed of what its `(\w+)`",
        q["text"],
    ).groups()
    if match := re.match(r"Suppose (line.+?)\. A `", q["text"], re.DOTALL):
        files = edited(files, q["file"], match[1])
    other = "has no gradient" in q["text"]
    s = SimpleNamespace(name="BertSentimentClassifier.forward", H=2, D=8, I=5, C=4, V=50, P=12)
    ids, mask = torch.tensor([[4, 5, 6], [7, 3, 2]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    pairs = (ids, mask, ids.flip(1), mask) if method[8:] in ("paraphrase", "similarity") else ()
    with loaded(files) as m:
        torch.manual_seed(9)
        one = cls == "BertSentimentClassifier"
        model = (model_of(m, s, 0.0, option) if one else multitask_model(m, option)).eval()
        result = getattr(model, method)(*(pairs or (ids, mask)))
        (result * torch.rand(result.shape)).sum().backward()
        got = {f"`{name}`": p.grad is not None for name, p in model.named_parameters()}
    return [got[o] is not other for o in q["options"]]


def error(files, q):
    s, edit = setup(q["text"]), re.search(r"If (line.+), what happens", q["text"], re.DOTALL)[1]
    file = q["file"]
    came = "no error is raised"
    with loaded(edited(files, file, edit)) as m:
        try:
            if s.name == "AdamW.step":
                adamw(m, (2.0, -1.5), **BASE)
            else:
                call(m, s, 1)
        except Exception as problem:
            first, last = q["lines"][:2]
            frames = traceback.extract_tb(problem.__traceback__)
            own = [f.lineno for f in frames if f.filename == f"/submission/{file}"]
            lines = [line for line in own if first <= line <= last]
            came, kinds = lines[-1], [k.__name__ for k in type(problem).__mro__]
            return [o in [f"{k} in line {came}" for k in kinds] for o in q["options"]]
    return [option == came for option in q["options"]]


KINDS = {
    "shape": shape, "sums": sums, "chance": chance, "change": change, "property": prop,
    "number": number, "rows": rows, "gradient": gradient, "error": error,
}  # fmt: skip
