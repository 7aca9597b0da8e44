"""Facts about a wrong function of bert.py that makes no known mistake: what it does, as measured.

Each probe hands the student's function inputs for which one property of the answer can be seen in
the result, and puts what it sees into words. It says nothing where that property is as it should
be, or cannot be seen because something else is wrong. It does not know how any task is solved.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from checks.findings import Finding
from checks.fixed_dropout import FixedDropout, NoDropout

# A probe gets the student's tiny model, stored inputs of the task and its right results by name.
Probe = Callable[[nn.Module, SimpleNamespace, Mapping[str, Tensor]], Iterable[str]]
COUNTED = "(counted from 0)"


def facts_of(
    task_id: str,
    make_model: Callable[[], nn.Module],
    given: SimpleNamespace,
    right: Mapping[str, Tensor],
    only_dropout: bool = False,
) -> list[Finding]:
    """What the probes of a task measure. A probe in which the student's code fails says nothing."""
    texts: dict[str, None] = {}  # in order, each once
    probes = () if only_dropout else PROBES.get(task_id, ())
    of_dropout = PROBES_OF_DROPOUT.get(task_id, ())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for probe in (*probes, *of_dropout):
            model = make_model()
            # Wrong dropout must disturb no other probe.
            mode = contextlib.nullcontext() if probe in of_dropout else NoDropout()
            try:
                with mode:
                    for text in probe(model, given, right):
                        texts[text] = None
            except (Exception, SystemExit):
                continue
    return [Finding("fact", text) for text in texts]


# ---------------------------------------------------------------------------------------------
# Measuring


def same(first: Any, second: Any) -> bool:
    """Whether both are tensors and the same up to rounding."""
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return False
    if first.shape != second.shape:
        return False
    return torch.allclose(first.double(), second.double(), rtol=1e-6, atol=1e-8)


def multiple(whole: Tensor, part: Tensor) -> str:
    """How many times ``whole`` is ``part``, in words."""
    factor = ((whole * part).sum() / part.square().sum()).item()
    known = math.isfinite(factor) and same(whole, factor * part)
    return f"{factor:.4g} times that" if known else "something else"


def matters(module: nn.Module, call: Callable[[], Tensor]) -> bool:
    """Whether a module's parameters have an effect on a result."""
    before, kept = call(), copy.deepcopy(module.state_dict())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))
    after = call()
    module.load_state_dict(kept)
    return not same(before, after)


def norm_facts(result: Tensor) -> Iterator[str]:
    """Whether each token's numbers are normalised, by a norm that neither scales nor shifts."""
    mean, variance = result.mean(-1).flatten(), result.var(-1, unbiased=False).flatten()
    off = mean.abs() + (variance - 1).abs()
    if off.max() > 0.01:
        yield (
            "with a norm whose weight is 1 and bias 0 each token of the result should have mean 0 "
            f"and variance 1, but one has mean {mean[off.argmax()]:.3g} and variance "
            f"{variance[off.argmax()]:.3g}"
        )


def dropout_facts(
    model: nn.Module, call: Callable[[], Tensor], last: nn.Dropout | None = None
) -> Iterator[str]:
    """In which mode dropout acts; whether it does so at the very end, as only ``last`` should."""
    model.eval()
    plain = call()
    with FixedDropout():
        evaluated = call()
        model.train()
        trained = call()
    dropped = (trained == 0) & (evaluated != 0)
    columns = dropped.flatten(0, -2).any(0)  # (D,)
    if not same(plain, evaluated):
        if same(call(), call()):  # the model is in training mode
            yield "in evaluation mode dropout acts, and in training mode it does not"
        else:
            yield "in evaluation mode dropout acts, too"
    elif same(trained, evaluated):
        yield "in training mode the result is the same as in evaluation mode: no dropout acts"
    elif last is None and columns.any() and not trained[..., columns].any():
        yield "in training mode numbers of the result are 0: dropout acts at the very end"
    elif last is not None and not dropped.any():
        yield "in training mode no number of the result is 0: dropout does not act at the very end"
    elif last is not None:
        yield from scale_facts(trained, evaluated * ~dropped, last.p)


def scale_facts(trained: Tensor, kept: Tensor, p: float) -> Iterator[str]:
    """Whether dropout has scaled what it has kept as it should, and has changed nothing else."""
    if not kept.any():
        return
    factor = ((trained * kept).sum() / kept.square().sum()).item()
    if not same(trained, factor * kept):
        yield "in training mode the numbers that are not 0 are others, not only scaled up"
    elif abs(factor * (1 - p) - 1) > 1e-6:
        yield (
            f"in training mode the numbers that dropout keeps are multiplied by {factor:.4g}; with "
            f"a probability of {p:g} that is {1 / (1 - p):.4g} (once is enough)"
        )


# ---------------------------------------------------------------------------------------------
# Task 1.1


def attend(model: nn.Module, given: SimpleNamespace, **changed: Tensor) -> Tensor:
    """The student's attention on the stored inputs, some of them replaced: (B, L, D)."""
    names = ("key", "query", "value", "mask")
    inputs = [changed.get(name, getattr(given, name)).clone() for name in names]
    result = model.bert_layers[0].self_attention.attention(*inputs)
    if result.shape != (given.key.size(0), given.key.size(2), given.key[0, :, 0].numel()):
        raise ValueError("the check itself tells about shapes")
    return result


def arguments(model, given, right) -> Iterator[str]:
    """Whether each argument has an effect, and whether another order makes the result right."""
    names = ("key", "query", "value")
    before = attend(model, given)
    for name in names:
        changed = {name: torch.randn_like(getattr(given, name))}
        if same(attend(model, given, **changed), before):
            yield f"`{name}` has no effect on the result"
    for order in list(itertools.permutations(names))[1:]:
        handed = {name: getattr(given, other) for name, other in zip(names, order, strict=True)}
        if same(attend(model, given, **handed), right["context"]):
            yield f"called with {', '.join(order)} for key, query, value it would be right"


def is_weighted_sum(model: nn.Module, given: SimpleNamespace) -> bool:
    """Whether the result is made of values: 0 if they are."""
    return not attend(model, given, value=torch.zeros_like(given.value)).any()


def weight_sums(model, given, right) -> Iterator[str]:
    """Whether the weights of each query sum to 1."""
    if not is_weighted_sum(model, given):
        return
    sums = attend(model, given, value=torch.ones_like(given.value))
    if not same(sums, torch.ones_like(sums)):
        yield (
            f"if all values are 1, the results are not 1 but from {sums.min():.4g} to "
            f"{sums.max():.4g}: the attention weights of a token do not sum to 1"
        )


def weight_places(model, given, right) -> Iterator[str]:
    """Whether padding is looked at, and whether tokens are not."""
    if not is_weighted_sum(model, given):
        return
    real = given.mask[:, 0, 0] == 0  # (B, L)
    values = (~real)[:, None, :, None].expand_as(given.value).to(given.value)
    on_padding = attend(model, given, value=values)[real].abs().max().item()
    if on_padding > 1e-9:
        yield f"the weights that a real token gives to padding sum to up to {on_padding:.4g}"
    for place in range(given.value.size(2)):
        values = torch.zeros_like(given.value)
        values[:, :, place] = 1
        unseen = (attend(model, given, value=values) == 0).all(-1).all(-1) & real[:, place]  # (B,)
        if unseen.any():
            sentence = unseen.nonzero()[0].item()
            yield f"no token looks at piece {place} of sentence {sentence} {COUNTED}, a real one"
            break


def score_scale(model, given, right) -> Iterator[str]:
    """What a score is multiplied by, seen in the ratio of two weights."""
    if not is_weighted_sum(model, given) or list(weight_sums(model, given, right)):
        return
    once, twice = (log_ratio(model, given, score) for score in (1.0, 2.0))
    expected = given.key.size(-1) ** -0.5
    if not abs(twice - 2 * once) < 1e-6:
        return  # it is no softmax of scores that are scaled, or one weight is 0
    if once > 1e-6 and abs(once - expected) > 1e-6:
        yield f"the softmax gets scores times {once:.4g}, where 1/√W is {expected:.4g}"


def log_ratio(model, given, score: float) -> float:
    """The logarithm of how many times the weight of a piece with that score is one's with 0."""
    key, query = torch.zeros_like(given.key), torch.zeros_like(given.query)
    key[:, :, 1, 0], query[..., 0] = score, 1
    weights = []
    for place in (1, 2):
        value = torch.zeros_like(given.value)
        value[:, :, place] = 1
        changed = {"key": key, "query": query, "value": value, "mask": given.mask * 0}
        weights.append(attend(model, given, **changed)[0, 0, 0])
    return (weights[0] / weights[1]).log().item()


def head_order(model, given, right) -> Iterator[str]:
    """Whether the heads' results lie side by side."""
    if not is_weighted_sum(model, given) or list(weight_sums(model, given, right)):
        return
    heads, width = given.value.size(1), given.value.size(3)
    numbers = torch.arange(1.0, heads + 1).to(given.value)
    value = numbers[None, :, None, None].expand_as(given.value)
    result = attend(model, given, value=value).flatten(0, 1)  # (B · L, D)
    wrong = (~torch.isclose(result, numbers.repeat_interleave(width))).any(-1)
    if wrong.any():
        row = [f"{number:.3g}" for number in result[wrong][0, : width + 2].tolist()]
        yield (
            f"if all values of head 1 are 1, of head 2 are 2 and so on, a token's result should be "
            f"{width} ones, {width} twos and so on; one begins with {', '.join(row)}"
        )


def attention_dropout(model, given, right) -> Iterator[str]:
    """When dropout acts, and whether on the weights."""
    yield from dropout_facts(model, lambda: attend(model, given))
    ones = torch.ones_like(given.value)
    with FixedDropout():
        trained, sums = attend(model, given), attend(model, given, value=ones)
        model.eval()
        if not same(trained, attend(model, given)) and same(sums, torch.ones_like(sums)):
            yield "in training mode the weights still sum to 1: dropout does not act on them"


# ---------------------------------------------------------------------------------------------
# Task 1.2


def frame(model: nn.Module, given: SimpleNamespace) -> tuple[Callable[..., Tensor], dict]:
    """The student's add_norm as a function, whose arguments by name have stored defaults.

    They are those after the feed-forward network, or, if it fails with them, after attention.
    """
    layer = model.bert_layers[0]

    def call(**changed: Any) -> Tensor:
        values = [changed.get(name, default) for name, default in inputs.items()]
        result = layer.add_norm(*(v.clone() if isinstance(v, Tensor) else v for v in values))
        if result.shape != given.input.shape:
            raise ValueError("the check itself tells about shapes and types")
        return result

    for output, place in ((given.expanded, "out"), (given.attended, "attention")):
        parts = {"dense_layer": "dense", "dropout": "dropout", "ln_layer": "layer_norm"}
        modules = {name: getattr(layer, f"{place}_{part}") for name, part in parts.items()}
        inputs = {"input": given.input, "output": output} | modules
        try:
            call()
            break
        except Exception:
            if place == "attention":
                raise
    return call, inputs


def silent(dense: nn.Linear) -> nn.Linear:
    """A linear layer of the same shape that gives 0."""
    quiet = copy.deepcopy(dense)
    nn.init.zeros_(quiet.weight)
    nn.init.zeros_(quiet.bias)
    return quiet


def frame_modules(model, given, right) -> Iterator[str]:
    """Which modules have an effect, of those that were passed in and of the others."""
    call, inputs = frame(model, given)
    handed = {id(part) for part in inputs.values()}
    for name in ("dense_layer", "ln_layer"):
        if not matters(inputs[name], call):
            yield f"the {name} that is passed in has no effect on the result"
    for name, module in model.bert_layers[0].named_children():
        if id(module) not in handed and matters(module, call):
            yield f"self.{name} has an effect on the result, though it was not passed in"


def frame_sum(model, given, right) -> Iterator[str]:
    """Whether both tensors arrive in the sum, once, and the sum is normalised."""
    call, inputs = frame(model, given)
    if not matters(inputs["ln_layer"], call):
        return
    dense, nothing = inputs["dense_layer"], nn.Identity()
    found = multiple(call(dense_layer=silent(dense), ln_layer=nothing), given.input)
    if found != "1 times that":
        yield (
            "with a dense_layer that gives 0 and an ln_layer that changes nothing the result "
            f"should be `input`, but it is {found}"
        )
    zero, made = torch.zeros_like(given.input), dense(inputs["output"])
    found = multiple(call(input=zero, ln_layer=nothing), made)
    if found != "1 times that":
        yield (
            "with an `input` of 0 and an ln_layer that changes nothing the result should be what "
            f"dense_layer makes of `output`, but it is {found}"
        )


def frame_norm(model, given, right) -> Iterator[str]:
    """Whether what comes out is normalised."""
    call, inputs = frame(model, given)
    if matters(inputs["ln_layer"], call):
        yield from norm_facts(call(ln_layer=nn.LayerNorm(given.input.size(-1))))


def frame_dropout(model, given, right) -> Iterator[str]:
    """When dropout acts, and on which part of the sum."""
    call, inputs = frame(model, given)
    found = list(dropout_facts(model, call))
    yield from found
    zero, nothing = torch.zeros_like(given.input), nn.Identity()
    with FixedDropout():
        of_input = call(dense_layer=silent(inputs["dense_layer"]), ln_layer=nothing)
        of_output = call(input=zero, ln_layer=nothing)
    if ((of_input == 0) & (given.input != 0)).any() and of_input.any():
        yield "in training mode dropout sets numbers of `input` to 0"
    if found:
        return
    model.eval()
    evaluated, kept = call(input=zero, ln_layer=nothing), of_output != 0
    if not of_output.isfinite().all():
        return
    if kept.all():
        yield "in training mode no number of what dense_layer gives is set to 0"
    else:
        yield from scale_facts(of_output, evaluated * kept, inputs["dropout"].p)


# ---------------------------------------------------------------------------------------------
# Task 1.3

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "GELU of ": F.gelu,
    "GELU by tanh of ": lambda x: F.gelu(x, approximate="tanh"),
    "ReLU of ": F.relu,
    "tanh of ": torch.tanh,
    "−": torch.neg,
    "2 · ": lambda x: 2 * x,
}


class Trace:
    """What a function called, with what, by names: what the calls gave is a, b, c, …"""

    def __init__(self, **given: Any):
        self.known = dict(given)
        self.steps: list[str] = []

    def origin(self, value: Any) -> str:
        """Where a value comes from, the latest first; or what was made of a known one."""
        if isinstance(value, Tensor) and not value.any():
            return "0"
        known = list(self.known.items())[::-1]
        tensors = [(name, other) for name, other in known if isinstance(other, Tensor)]
        pairs = itertools.combinations(reversed(tensors), 2)
        sums = [(f"{n} + {m}", x + y) for (n, x), (m, y) in pairs if x.shape == y.shape]
        made = [(f"{s}{name}", f(x)) for s, f in FUNCTIONS.items() for name, x in tensors]
        for name, other in known + made + sums:
            if value is other or same(value, other):
                return name
        return "something else"

    def note(self, called: str, args: Iterable[Any], named: Mapping[str, Any], result: Any) -> Any:
        """One call; its result."""
        told = [self.origin(value) for value in args]
        told += [f"{name}={self.origin(value)}" for name, value in named.items()]
        letter = chr(ord("a") + len(self.steps))
        self.steps.append(f"{letter} = {called}({', '.join(told)})")
        self.known[letter] = result
        return result

    def noting(self, called: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are noted."""
        return lambda *args, **named: self.note(called, args, named, function(*args, **named))


def layer_trace(model, given, right) -> Iterator[str]:
    """All that was called, with stored results in place of attention's and add_norm's."""
    layer = model.train().bert_layers[0]
    modules = dict(layer.named_children())
    trace = Trace(hidden_states=given.hidden, attention_mask=given.mask, **modules)
    names = iter(("normed", "result"))
    layer.self_attention.attention = lambda *_, **__: right["attended"].clone()
    layer.add_norm = lambda *args, **named: trace.note(
        "add_norm", args, named, right[next(names, "result")].clone()
    )
    for name, module in modules.items():
        module.forward = trace.noting(name, module.forward)  # no hook: module.forward(x) is seen
    with FixedDropout(), torch.no_grad():
        result = layer(given.hidden.clone(), given.mask.clone())
    yield f"what was called: {'; '.join(trace.steps)}; returned: {trace.origin(result)}"


# ---------------------------------------------------------------------------------------------
# Task 1.4


def rows_used(table: nn.Embedding, vector: Tensor) -> dict[int, float]:
    """The rows of a table that a vector (D,) depends on, and how many times each is in it."""
    direction = torch.randn_like(vector)
    (grad,) = torch.autograd.grad(
        vector @ direction, table.weight, retain_graph=True, allow_unused=True
    )
    if grad is None:
        return {}
    factors = grad.norm(dim=-1) / direction.norm()
    return {row: factors[row].item() for row in factors.nonzero().flatten().tolist()}


def reaches(table: nn.Embedding, result: Tensor) -> bool:
    """Whether a gradient arrives at a table."""
    if not result.requires_grad:
        return False
    (grad,) = torch.autograd.grad(result.sum(), table.weight, retain_graph=True, allow_unused=True)
    return grad is not None


def wrong_row(model, name: str, result: Tensor, real: Tensor, expected: Tensor) -> Iterator[str]:
    """The first real piece that is made of another row of a table than ``expected`` (B, L)."""
    for sentence, place in real.nonzero().tolist():
        found = list(rows_used(getattr(model, name), result[sentence, place]))
        row = expected[sentence, place].item()
        if found != [row]:
            said = f"row {', '.join(map(str, found))}" if found else "no row"
            yield (
                f"piece {place} of sentence {sentence} {COUNTED} takes {said} of {name}, "
                f"where row {row} belongs"
            )
            break


def embed(model: nn.Module, *ids: Tensor) -> Tensor:
    """The student's vectors of ids (B, L), perhaps with segments: (B, L, D)."""
    result = model.embed(*(tensor.clone() for tensor in ids))
    if result.shape != (*ids[0].shape, model.word_embedding.embedding_dim):
        raise ValueError("the check itself tells about shapes")
    return result


def lookups(model, given, right) -> Iterator[str]:
    """Which rows of the tables the vectors are made of, that of padding included."""
    model.word_embedding.padding_idx = None  # or no gradient would show that row
    ids, real = given.ids, given.real
    places = torch.arange(ids.size(1)).expand_as(ids)
    result = embed(model, ids)
    for name in ("word_embedding", "pos_embedding", "tk_type_embedding"):
        used = matters(getattr(model, name), lambda: embed(model, ids).detach())
        if used and not reaches(getattr(model, name), result):
            return  # it is cut off from its gradient, which shows the rows
    yield from wrong_row(model, "word_embedding", result, real, ids)
    yield from wrong_row(model, "pos_embedding", result, real, places)
    found = list(wrong_row(model, "tk_type_embedding", result, real, ids * 0))
    yield from found
    if not found:
        result = embed(model, ids, given.segments)
        for text in wrong_row(model, "tk_type_embedding", result, real, given.segments):
            yield f"with token_type_ids given, {text}"


def embed_sum(model, given, right) -> Iterator[str]:
    """How many times each table's row is in the sum, seen with a norm that changes nothing."""
    model.embed_layer_norm = nn.Identity()
    before = embed(model, given.ids)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    after = embed(model, given.ids)
    if not same(after, 2 * before):
        return  # it is no sum, or there is another norm
    for name in ("word_embedding", "pos_embedding", "tk_type_embedding"):
        for factor in rows_used(getattr(model, name), after[0, 0]).values():
            if abs(factor - 1) > 1e-6:
                yield f"what comes from {name} is in the sum {factor:.4g} times"


def embed_norm(model, given, right) -> Iterator[str]:
    """Whether the result is normalised, and by the model's own norm."""
    norm = model.embed_layer_norm
    if not matters(norm, lambda: embed(model, given.ids)):
        yield "self.embed_layer_norm has no effect on the result"
    nn.init.ones_(norm.weight)
    nn.init.zeros_(norm.bias)
    yield from norm_facts(embed(model, given.ids))


def embed_length(model, given, right) -> Iterator[str]:
    """Whether the first pieces get the same vectors without the others."""
    whole, part = embed(model, given.ids), embed(model, given.ids[:, :3])
    if not same(whole[:, :3], part):
        yield "the first 3 pieces alone get other vectors than at the beginning of the whole"


def embed_dropout(model, given, right) -> Iterator[str]:
    """When dropout acts, and where."""
    return dropout_facts(model, lambda: embed(model, given.ids), model.embed_dropout)


PROBES: dict[str, tuple[Probe, ...]] = {
    "bert.attention": (arguments, weight_sums, weight_places, score_scale, head_order),
    "bert.add_norm": (frame_modules, frame_sum, frame_norm),
    "bert.embed": (lookups, embed_sum, embed_norm, embed_length),
}
PROBES_OF_DROPOUT: dict[str, tuple[Probe, ...]] = {
    "bert.attention": (attention_dropout,),
    "bert.add_norm": (frame_dropout,),
    "bert.layer": (layer_trace,),
    "bert.embed": (embed_dropout,),
}
