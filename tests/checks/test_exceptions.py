"""What an exception in a student's code means: every entry of the table, by code that raises it.

exceptions.txt has a case for each entry: the function, the entry, and a student's lines.
"""

import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from factories import read_cases
from torch import nn

import bert
import classifier
import optimizer
from checks.errors import attempt, describe, find
from checks.part1.tasks import watched
from config import BertConfig

CASES = read_cases("exceptions.txt")
SIZES = {"hidden_size": 42, "num_attention_heads": 6, "intermediate_size": 36, "vocab_size": 100}
FUNCTIONS = {  # file, arguments
    "attention": (bert, "self, key, query, value, attention_mask"),
    "add_norm": (bert, "self, input, output, dense_layer, dropout, ln_layer"),
    "layer": (bert, "self, hidden_states, attention_mask"),
    "embed": (bert, "self, input_ids"),
    "init": (classifier, "self, config"),
    "forward": (classifier, "self, input_ids, attention_mask"),
    "step": (optimizer, "self, group, p, grad, state"),
}


def arguments_of(function):
    """What a function is called with: B = 5, H = 6, L = 10, W = 7, D = 42."""
    torch.manual_seed(0)
    model = bert.BertModel(BertConfig(**SIZES, num_hidden_layers=1, max_position_embeddings=16))
    layer, mask = model.bert_layers[0], torch.zeros(5, 1, 1, 10)
    heads, hidden = torch.randn(3, 5, 6, 10, 7), torch.randn(2, 5, 10, 42)
    whole, ids = nn.Module(), torch.randint(20, 99, (5, 10))
    whole.bert, whole.dropout, whole.classifier = model, nn.Dropout(), nn.Linear(42, 9)
    p = nn.Parameter(torch.ones(2, 3))
    p.grad = torch.ones(2, 3)
    adamw = optimizer.AdamW([p])
    return {
        "attention": (layer.self_attention, *heads, mask),
        "add_norm": (layer, *hidden, layer.attention_dense, nn.Dropout(), nn.LayerNorm(42)),
        "layer": (layer, hidden[0], mask),
        "embed": (model, ids),
        "init": (whole, SimpleNamespace(hidden_size=42, hidden_dropout_prob=0.3)),
        "forward": (whole, ids, torch.ones(5, 10)),
        "step": (adamw, adamw.param_groups[0], p, p.grad, adamw.state[p]),
    }[function]


@pytest.fixture
def raised(tmp_path):
    """A function: the exception that a student's lines in a function raise."""

    def run(function, body):
        module, parameters = FUNCTIONS[function]
        path = tmp_path / Path(module.__file__).name
        path.write_text(f"def {function}({parameters}):\n{textwrap.indent(body, '    ')}\n")
        space = dict(vars(module)) | {"BertModel": bert.BertModel}
        try:
            exec(compile(path.read_text(), str(path), "exec"), space)
            space[function](*arguments_of(function)).sum().backward()
        except (Exception, SystemExit) as error:
            return error
        return pytest.fail("nothing was raised")

    return run


@pytest.mark.parametrize(
    ("function", "name", "body"), CASES, ids=[f"{case[1]}, {case[0]}" for case in CASES]
)
@pytest.mark.filterwarnings("ignore")
def test_an_exception_is_explained(function, name, body, raised):
    error = raised(function, body)
    assert find(error)[0] == name, find(error)
    assert describe(error).text.endswith(find(error)[1])


@pytest.mark.parametrize(
    ("function", "body", "words"),
    [
        ("attention", "return query + key.mT", "is a tensor (5, 6, 10, 7) = (B, H, L, W)"),
        ("add_norm", "return input + output[:, 1:]", "is a tensor (5, 10, 42) = (B, L, D)"),
        ("attention", "b, h, l = value.shape[:2]", "): here `value.shape[:2]` is the shape (5,"),
        ("forward", "self.bert(input_ids, attention_mask)[1]", "keys 'last_hidden_state', 'pooler"),
        ("attention", "return quary", "names, these have a value: self, key, query, value"),
        ("attention", "return transform(key, self.key)", "names, these have a value: self, key, "),
        ("attention", "return transform(key, self.key)", "; there is self.transform (method)"),
        ("attention", "assert query is key", "AssertionError (bert.py:2): `assert query is key`"),
        ("embed", "x = None\nx + input_ids", "NoneType is the type of None. Here `x` is None"),
        ("layer", "self.add_norm(value=1)", "(bert.py:2): BertLayer.add_norm takes (self, input"),
        ("layer", "self.add_norm(self.interm_af)", "output, dense_layer, dropout, ln_layer)\n"),
        (
            "attention",
            "math.sqrt(self.query)",
            "(bert.py:2): here `self.query` is a layer (Linear)\n",
        ),
        ("attention", "return self.drop(key)", "query, key, value, dropout, transform, attention"),
        ("init", "BertModel.from_pretrain()", "embed, encode, forward, config_class"),
        ("embed", "return self.pos_embedding(input_ids)", "int64 from 20 to "),
    ],
)
def test_a_sentence_says_what_is_there(function, body, words, raised):
    assert words in describe(raised(function, body)).text + "\n"


@pytest.mark.parametrize(
    "body", ["query.tranpose(1, 2)", "lst", "len_(key)", "self.layer_norm(key)", "torch.mat_mul"]
)
def test_no_name_is_suggested_by_spelling(body, raised):
    text = find(raised("attention", body))[1]
    assert "mean" not in text
    assert "there is" not in text


@pytest.mark.parametrize(
    ("line", "call", "text"),
    [
        ("x = y", "", "NameError: name 'y' is not defined (bert.py:4)\n"),
        ("", "M().f(1)", " 2 were given: M.f takes (ids); the first argument of a method is its"),
        ("", "M().f()", "(bert.py:3): here `ids` is the M itself: the first argument of a method"),
        ("", "[*(next(iter([])) for _ in 'a')]", ": StopIteration\n"),
    ],
)
def test_what_fails_outside_of_functions(line, call, text, tmp_path, monkeypatch):
    path, space = tmp_path / "bert.py", {"__name__": "bert"}
    path.write_text(f"class M:\n    x = 1\n    def f(ids): return ids.size()\n{line}\n")
    error = attempt(exec, compile(path.read_text(), str(path), "exec"), space)
    monkeypatch.setattr(bert, "M", space["M"], raising=False)
    assert text in f": {describe(error or attempt(eval, call, space)).text}\n"


def test_exit_in_a_function_does_not_end_the_checks(monkeypatch):
    monkeypatch.setattr(bert.BertSelfAttention, "attention", lambda *_: exit())
    assert watched("bert.attention") == (False, False)


LEFT = "is still reached, with code of yours around it"


@pytest.mark.parametrize(
    ("body", "words"),  # words "": it is not started
    [
        ("### TODO\n# what to do\n{stub}", ""),
        ("'''Attend.'''\n{stub}", ""),
        ("### TODO\nscores = query @ key.mT\n{stub}", LEFT),
        ("### TODO\n{stub}\nscores = query @ key.mT", LEFT),
        ("if True:\n    ### TODO\n    # how\n    {stub}\nreturn key", ""),
        ("raise NotImplementedError('Could not run aten::empty')", "aten::empty"),
    ],
)
def test_a_stub_is_not_started_and_a_raise_that_was_left_is_named(body, words, raised):
    finding = describe(
        raised("attention", body.format(stub="raise NotImplementedError('Task 1.1')"))
    )
    assert finding.kind == ("error" if words else "not started")
    assert words in finding.text
