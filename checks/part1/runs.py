"""How the functions of bert.py and classifier.py are run on given inputs, each alone.

What a function is given, and what the functions it calls return, comes from the inputs, which are
named as in sanity_check.data.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Iterator
from functools import partial
from types import MethodType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from checks.findings import Finding
from checks.part1 import adamw_checks
from checks.references import CLASSIFIER_DROPOUT, TINY, inputs_of, student_model
from checks.task import WHOLE, Inputs, Outputs, Task

OPTIONS = ("pretrain", "finetune")
INIT_DROPOUT = 0.45  # not the default of classifier.py, so that it is noticed in the code
RATES = {"it": INIT_DROPOUT, "1 - it": 1 - INIT_DROPOUT, "BERT's": TINY["hidden_dropout_prob"]}
ADD_NORMS = {  # by place: a stored input, what the names of the layer's modules begin with
    "attention": ("attended", "attention"),
    "feed-forward": ("expanded", "out"),
}
STAND_INS = ("attended", "normed", "result")  # stored results of what bert.layer calls


def leaves(*tensors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors that take gradients, and copies to hand out: those may be changed in place."""
    sources = [tensor.clone().requires_grad_() for tensor in tensors]
    return sources, [source.clone() for source in sources]


def gradients(result: Any, cotangent: Tensor, sources: dict[str, Tensor]) -> Outputs:
    """d(result · cotangent) for every source, None where no gradient arrives."""
    if not isinstance(result, Tensor) or result.shape != cotangent.shape:
        return {}
    grads = [None] * len(sources)
    if result.requires_grad:
        given = list(sources.values())
        like = cotangent.to(result)
        grads = torch.autograd.grad(result, given, like, retain_graph=True, allow_unused=True)
    return {f"gradients/{name}": grad for name, grad in zip(sources, grads, strict=True)}


def afterwards(**inputs: Tensor) -> Outputs:
    """What was given to the student's function, as it is after the call."""
    return {f"inputs/{name}": tensor.detach().clone() for name, tensor in inputs.items()}


def change(before: Any, after: Any, real: Tensor) -> Any:
    """How much the results of real tokens, real (B, L), changed: the padding must not matter."""
    if not isinstance(before, Tensor) or before.shape[:2] != real.shape or before.is_meta:
        return torch.zeros(())  # the values' own check says what is wrong
    return (after - before)[real]


def attention(inputs: Inputs) -> Iterator[Outputs]:
    """Task 1.1 on keys, queries, values (B, H, L, W) and a mask (B, 1, 1, L)."""
    stored = inputs_of("bert.attention", inputs)
    module = student_model(inputs).bert_layers[0].self_attention
    sources, (key, query, value) = leaves(stored.key, stored.query, stored.value)
    mask = stored.mask.clone()
    result = module.attention(key, query, value, mask)
    yield {"values/context": result}
    yield afterwards(key=key, query=query, value=value, mask=mask)
    names = dict(zip(("key", "query", "value"), sources, strict=True))
    yield gradients(result, stored.cotangent, names)
    padded = (stored.mask < 0).transpose(-1, -2)  # (B, 1, L, 1)
    changed = [torch.where(padded, 3 - tensor, tensor) for tensor in sources]
    after = module.attention(*changed, stored.mask.clone())
    yield {"padding/context": change(result, after, stored.mask[:, 0, 0] == 0)}
    module.train()
    yield {"dropout/context": module.attention(*leaves(*sources)[1], stored.mask.clone())}


def add_norm(inputs: Inputs) -> Iterator[Outputs]:
    """Task 1.2 on random tensors, with the modules of the two places where a layer uses it."""
    stored = inputs_of("bert.add_norm", inputs)
    layer = student_model(inputs).bert_layers[0]
    for place, (name, prefix) in ADD_NORMS.items():
        layer.eval()
        modules = {
            "dense_layer": getattr(layer, f"{prefix}_dense"),
            # not one of the layer's own, whose results would be others
            "dropout": nn.Dropout(TINY["hidden_dropout_prob"]).eval(),
            "ln_layer": getattr(layer, f"{prefix}_layer_norm"),
        }
        layer.attention_dropout.p = layer.out_dropout.p = 0.75
        sources, handed = leaves(stored.input, getattr(stored, name))
        result = layer.add_norm(*handed, *modules.values())
        yield {f"values/result (after {place})": result}
        yield afterwards(**{"input": handed[0], name: handed[1]})
        names = {"input": sources[0], "output": sources[1]}
        for label in ("dense_layer", "ln_layer"):
            for kind, parameter in modules[label].named_parameters():
                names[f"{label}.{kind}"] = parameter
        names = {f"{label} (after {place})": source for label, source in names.items()}
        yield gradients(result, stored.cotangent, names)
        layer.train()
        modules["dropout"].train()
        again = layer.add_norm(*leaves(*sources)[1], *modules.values())
        yield {f"dropout/result (after {place})": again}


class Replay(torch.autograd.Function):
    """A stored result forwards and stored gradients backwards, whatever the inputs are."""

    @staticmethod
    def forward(ctx, result, grads, *inputs):
        """``result``, with ``grads`` for the inputs whose shapes they have."""
        ctx.grads = [
            g if isinstance(x, Tensor) and g.shape == x.shape else None
            for g, x in zip(grads, inputs, strict=True)
        ]
        return result.clone()

    @staticmethod
    def backward(ctx, _):
        """The stored gradients, whatever arrives."""
        return None, None, *ctx.grads


def stand_in(layer: nn.Module, references: Inputs, kind: str) -> tuple[Outputs, Outputs]:
    """Put stand-ins for attention and add_norm into a layer, which replay the reference.

    Returns:
        What they are given, by name, as soon as the layer is called; and what the first add_norm
        returned, behind which the stored gradients go on.
    """
    seen, normed, calls = {}, {}, itertools.count(1)

    def replay(place: str, name: str, given: Outputs, others: Outputs) -> Tensor:
        seen.update({f"{kind}/{key} of {place}": x for key, x in (given | others).items()})
        stored = references[f"bert.layer/{kind}/{name}"]
        grads = [references[f"bert.layer/replay/{name} {key}"] for key in given]
        return Replay.apply(stored, grads, *given.values())

    def attention(_, key, query, value, attention_mask):
        given = {"key": key, "query": query, "value": value}
        return replay("attention", STAND_INS[0], given, {"attention_mask": attention_mask})

    def add_norm(_, input, output, dense_layer, dropout, ln_layer):
        number = min(next(calls), 2)
        # A module of another kind is noted as it is: the comparison says what it is.
        modules = {"dense_layer": (dense_layer, nn.Linear), "ln_layer": (ln_layer, nn.LayerNorm)}
        noted = {k: m.weight if isinstance(m, cls) else m for k, (m, cls) in modules.items()}
        noted["dropout"] = torch.tensor(dropout.p) if isinstance(dropout, nn.Dropout) else dropout
        given = {"input": input, "output": output}
        result = replay(f"add_norm's call {number}", STAND_INS[number], given, noted)
        if number == 1 and result.requires_grad:
            normed["result of add_norm's call 1"] = result
        return result

    # Python's own complaint about wrong arguments is to name the student's function.
    attention.__qualname__ = "BertSelfAttention.attention"
    add_norm.__qualname__ = "BertLayer.add_norm"
    layer.self_attention.attention = MethodType(attention, layer.self_attention)
    layer.add_norm = MethodType(add_norm, layer)
    return seen, normed


def layer(inputs: Inputs, alone: bool) -> Iterator[Outputs]:
    """Task 1.3 on hidden states (B, L, D).

    Args:
        alone: with stand-ins for attention and add_norm; else with the student's own, which it
            need not call.
    """
    stored = inputs_of("bert.layer", inputs)
    layer = student_model(inputs).bert_layers[0]
    seen, normed = stand_in(layer, inputs, "values") if alone else ({}, {})
    (source,), (hidden,) = leaves(stored.hidden)
    mask = stored.mask.clone()
    result = layer(hidden, mask)
    yield seen | {"values/result": result} | afterwards(hidden=hidden, mask=mask)
    linears = {name: getattr(layer.self_attention, name) for name in ("query", "key", "value")}
    linears["interm_dense"] = layer.interm_dense
    weights = {f"{name}.weight": linear.weight for name, linear in linears.items()}
    sources = {"hidden_states": source} | weights | normed
    yield gradients(result, stored.cotangent, sources)
    if not alone:
        padded = (stored.mask < 0)[:, 0, 0, :, None]  # (B, L, 1)
        after = layer(torch.where(padded, 3 - source, source), stored.mask.clone())
        yield {"padding/result": change(result, after, stored.mask[:, 0, 0] == 0)}
    layer.train()
    seen, _ = stand_in(layer, inputs, "dropout") if alone else ({}, {})
    result = layer(source.clone(), stored.mask.clone())
    yield seen | {"dropout/result": result}


def embed(inputs: Inputs) -> Iterator[Outputs]:
    """Task 1.4 on ids (B, L)."""
    stored = inputs_of("bert.embed", inputs)
    model = student_model(inputs)
    ids = stored.ids.clone()
    result = model.embed(ids)
    yield {"values/embeddings": result} | afterwards(ids=ids)
    yield {"values/embeddings of 3 tokens": model.embed(stored.ids[:, :3].clone())}
    if "token_type_ids" in inspect.signature(model.embed).parameters:
        result_of_pairs = model.embed(stored.ids.clone(), stored.segments.clone())
        yield {"values/embeddings with token_type_ids": result_of_pairs}
    tables = {name: table for name, table in model.named_parameters() if "embed" in name}
    yield gradients(result, stored.cotangent, tables)
    after = model.embed(torch.where(stored.real, stored.ids, 99 - stored.ids))
    yield {"padding/embeddings": change(result, after, stored.real)}
    model.train()
    yield {"dropout/embeddings": model.embed(stored.ids.clone())}


def whole(inputs: Inputs) -> Iterator[Outputs]:
    """BertModel.forward on the ids of task 1.4: everything together."""
    stored = inputs_of("bert.embed", inputs)
    real = stored.real.long()  # (B, L)
    model = student_model(inputs)
    results = model(stored.ids.clone(), real)
    yield {
        "values/last_hidden_state": results["last_hidden_state"] * real[..., None],
        "values/pooler_output": results["pooler_output"],
    }
    of_one = model(stored.ids[:1].clone(), real[:1])["pooler_output"]
    yield {"values/pooler_output of one sentence": of_one}
    parameters = dict(model.named_parameters())
    yield gradients(results["pooler_output"], stored.pooler_cotangent, parameters)
    other_padding = torch.where(stored.real, stored.ids, 99 - stored.ids)
    after = model(other_padding, real)["last_hidden_state"]
    before = results["last_hidden_state"]
    yield {"padding/last_hidden_state": change(before, after, stored.real)}
    model.train()
    yield {"dropout/pooler_output": model(stored.ids, real)["pooler_output"]}


# ---------------------------------------------------------------------------------------------
# classifier.py


def student_classifier(
    inputs: Inputs, option: str, dropout: float = CLASSIFIER_DROPOUT
) -> tuple[nn.Module, nn.Module, list[nn.Module]]:
    """The student's classifier, the tiny encoder inside it, and the modules that are not in it."""
    encoder = student_model(inputs)
    config = SimpleNamespace(
        num_labels=len(inputs["weights/head.bias"]),
        hidden_size=TINY["hidden_size"],
        hidden_dropout_prob=dropout,
        option=option,
        data_dir=".",
    )
    module = importlib.import_module("classifier")
    bert = importlib.import_module("bert")
    with mock.patch.object(bert.BertModel, "from_pretrained", return_value=encoder):
        model = module.BertSentimentClassifier(config).to(inputs["weights/head.weight"].dtype)
    inside = {id(part) for part in encoder.modules()}
    own = [part for part in model.modules() if id(part) not in inside]
    return model.eval(), encoder, own


def trains(modules: list[nn.Module]) -> Tensor:
    """Whether parameters of some modules train: [False], [True], both, or nothing without any."""
    flags = {p.requires_grad for module in modules for p in module.parameters()}
    return torch.tensor(sorted(flags))


def classifier_init(inputs: Inputs) -> Iterator[Outputs]:
    """Task 1.6: the sizes and settings of what __init__ makes, and whether they are as asked.

    The latter reveal a mistake whatever number is in the code.
    """
    for option in OPTIONS:
        model, encoder, own = student_classifier(inputs, option, INIT_DROPOUT)
        linears = [part for part in own if isinstance(part, nn.Linear)]
        yield {f"values/option {option}: the encoder trains": trains([encoder])}
        yield {f"values/option {option}: the Linear trains": trains(linears)}
    sizes = torch.tensor([[part.in_features, part.out_features] for part in linears])
    sizes = sizes.reshape(-1, 2)  # (N, 2), also where there are none
    rates = torch.tensor([part.p for part in own if isinstance(part, nn.Dropout)])  # (M,)
    num_labels = len(inputs["weights/head.bias"])
    for name, size in (("hidden_size", TINY["hidden_size"]), ("num_labels", num_labels)):
        yield {f"values/Linear layers: sizes that are {name}": sizes == size}
    for name, rate in RATES.items():
        yield {f"values/dropout probabilities that are {name}": (rates - rate).abs() < 1e-6}
    # who keeps the probability, or the configuration, may use F.dropout in forward
    kept = [getattr(value, "hidden_dropout_prob", value) for value in vars(model).values()]
    made = bool(len(rates)) or any(v == INIT_DROPOUT for v in kept if isinstance(v, float))
    yield {"values/dropout: made, or its probability kept": torch.tensor([made])}
    biases = torch.tensor([part.bias is not None for part in linears])  # (N,)
    yield {"values/Linear layers: with a bias": biases, "sizes": sizes, "rates": rates}


def judge_init(outputs: Outputs, inputs: Inputs) -> list[Finding]:
    """One Linear of the right size, dropout as configured, the encoder frozen as asked."""
    wanted = f"{TINY['hidden_size']} → {len(inputs['weights/head.bias'])}"
    pairs = zip(outputs["sizes"], outputs["values/Linear layers: with a bias"], strict=True)
    layers = [f"{a} → {b}{'' if bias else ' without bias'}" for (a, b), bias in pairs]
    texts = [
        f"expected one Linear {wanted} (config.hidden_size → config.num_labels) besides "
        f"self.bert, found {', '.join(layers) or 'none'}"
    ] * (layers != [wanted])
    texts += [
        f"dropout probability {p:.6g} instead of config.hidden_dropout_prob, here {INIT_DROPOUT}"
        for p in outputs["rates"].tolist()
        if abs(p - INIT_DROPOUT) > 1e-6
    ]
    texts += [
        "no nn.Dropout is made outside self.bert, and no attribute holds config.hidden_dropout_prob"
    ] * (not outputs["values/dropout: made, or its probability kept"])
    expected = {f"option {o}: the encoder trains": o == "finetune" for o in OPTIONS}
    if layers:
        expected |= {f"option {o}: the Linear trains": True for o in OPTIONS}
    for what, wanted in expected.items():
        if (found := outputs[f"values/{what}"].tolist()) != [wanted]:
            texts.append(f"{what}: {' and '.join(map(str, found))}, expected {wanted}")
    return [Finding("values", text) for text in texts]


def classifier_forward(inputs: Inputs, alone: bool) -> Iterator[Outputs]:
    """Task 1.7 with a given head.

    Args:
        alone: with given last hidden states (B, L, D), behind which the model's pooler stands;
            else with the student's own bert.py, which may be called in any way.
    """
    stored = inputs_of("classifier.forward", inputs)
    model, encoder, own = student_classifier(inputs, "finetune")
    head = next(part for part in own if isinstance(part, nn.Linear))
    head.load_state_dict({name: inputs[f"weights/head.{name}"] for name in ("weight", "bias")})
    seen: Outputs = {}
    (states,), (handed,) = leaves(stored.last_hidden_state)
    words = encoder.word_embedding.weight

    def stored_encoder(input_ids, attention_mask, *_, **__):
        seen["values/input_ids given to self.bert"] = input_ids
        is_float = isinstance(attention_mask, Tensor) and attention_mask.is_floating_point()
        if is_float and attention_mask.eq(attention_mask.bool()).all():
            attention_mask = attention_mask.long()  # to BERT 1. is the same as 1
        seen["values/attention_mask given to self.bert"] = attention_mask
        rows = len(input_ids) if isinstance(input_ids, Tensor) else None
        hidden = handed[:rows].clone()  # here, where no_grad would be seen
        pooled = encoder.pooler_af(encoder.pooler_dense(hidden[:, 0]))
        return {"last_hidden_state": hidden, "pooler_output": pooled}

    stored_encoder.__qualname__ = "BertModel.forward"  # in Python's complaint about arguments
    if alone:
        encoder.forward = stored_encoder
    ids, mask = stored.input_ids.clone(), stored.attention_mask.clone()
    result = model(ids, mask)
    if alone and not seen:  # it goes to BERT another way
        yield from classifier_forward(inputs, alone=False)
        return
    yield seen | {"values/logits": result} | afterwards(input_ids=ids, attention_mask=mask)
    behind = {"last_hidden_state": states} if alone else {"word embeddings": words}
    names = behind | {"Linear's weight": head.weight, "Linear's bias": head.bias}
    yield gradients(result, stored.cotangent, names)
    of_one = model(stored.input_ids[:1].clone(), stored.attention_mask[:1].clone())
    yield {"values/logits of one sentence": of_one}
    model.train()
    if not alone:
        encoder.eval()
    yield {"dropout/logits": model(stored.input_ids.clone(), stored.attention_mask.clone())}


TASKS = {
    "bert.attention": Task(attention),
    "bert.add_norm": Task(add_norm),
    "bert.layer": Task(partial(layer, alone=True)),
    "bert.layer, whole": Task(partial(layer, alone=False)),
    "bert.embed": Task(embed),
    "classifier.init": Task(classifier_init, judge=judge_init),
    "classifier.forward": Task(partial(classifier_forward, alone=True)),
    "classifier.forward, whole": Task(partial(classifier_forward, alone=False)),
    WHOLE: Task(whole),
    "optimizer.step": adamw_checks.TASK,
}
