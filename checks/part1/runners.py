"""Runs of the student's functions of bert.py and classifier.py on stored inputs, one at a time.

What a function is given and what the functions it calls return comes from the references. The names
of outputs are those of the references: "values/…", "gradients/…", "padding/…" (a change, which
should be 0), "dropout/…" (in training mode), "inputs/…" (what was given, after the call). Nothing
is judged here.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from checks.errors import attempt, describe
from checks.findings import Finding
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import graded_task
from checks.part1.references import (
    CLASSIFIER_DROPOUT,
    TINY,
    add_norm_modules,
    inputs_of,
    load_references,
    student_model,
)
from checks.part1.stand_ins import LayerStandIns

INIT_DROPOUT = 0.45  # not the default of classifier.py, so that it is noticed in the code
RATES = {"it": INIT_DROPOUT, "1 - it": 1 - INIT_DROPOUT, "BERT's": TINY["hidden_dropout_prob"]}
WHOLE = "whole model"
OF_ONE = "values/logits of one sentence"  # reported where those of the batch are right
ADD_NORM_INPUTS = {"attention": "attended", "feed-forward": "expanded"}  # stored, by place
# Where a function can be run in several ways, each way has fingerprints of its own.
GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "bert.add_norm": {
        "bert.add_norm, after attention": {"places": ("attention",)},  # there all shapes fit
        "bert.add_norm": {},
    },
    "bert.layer": {"bert.layer": {}, "bert.layer, whole": {"alone": False}},
}
Outputs = dict[str, Any]


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
        grads = torch.autograd.grad(
            result,
            list(sources.values()),
            cotangent.to(result),
            retain_graph=True,
            allow_unused=True,
        )
    return {f"gradients/{name}": grad for name, grad in zip(sources, grads, strict=True)}


def afterwards(**inputs: Tensor) -> Outputs:
    """What was given to the student's function, as it is after the call."""
    return {f"inputs/{name}": tensor.detach().clone() for name, tensor in inputs.items()}


def change(before: Any, after: Any, real: Tensor) -> Any:
    """How much the results of real tokens, real (B, L), changed: the padding must not matter."""
    if not isinstance(before, Tensor) or before.shape[:2] != real.shape:
        return torch.zeros(())  # the values' own check says what is wrong
    return (after - before)[real]


# ---------------------------------------------------------------------------------------------
# bert.py


def run_attention(references: dict[str, Tensor]) -> Outputs:
    """Task 1.1 on stored keys, queries, values (B, H, L, W) and mask (B, 1, 1, L)."""
    stored = inputs_of("bert.attention", references)
    module = student_model(references).bert_layers[0].self_attention
    sources, (key, query, value) = leaves(stored.key, stored.query, stored.value)
    mask = stored.mask.clone()
    result = module.attention(key, query, value, mask)
    outputs = {"values/context": result}
    outputs |= afterwards(key=key, query=query, value=value, mask=mask)
    names = dict(zip(("key", "query", "value"), sources, strict=True))
    outputs |= gradients(result, stored.cotangent, names)
    padded = (stored.mask < 0).transpose(-1, -2)  # (B, 1, L, 1)
    changed = [torch.where(padded, 3 - tensor, tensor) for tensor in sources]
    after = module.attention(*changed, stored.mask.clone())
    outputs["padding/context"] = change(result, after, stored.mask[:, 0, 0] == 0)
    module.train()
    outputs["dropout/context"] = module.attention(*leaves(*sources)[1], stored.mask.clone())
    return outputs


def run_add_norm(
    references: dict[str, Tensor], places: tuple[str, ...] = tuple(ADD_NORM_INPUTS)
) -> Outputs:
    """Task 1.2 on stored tensors, with the modules of the places where a layer uses it."""
    stored = inputs_of("bert.add_norm", references)
    layer = student_model(references).bert_layers[0]
    outputs: Outputs = {}
    for place in places:
        layer.eval()
        modules = add_norm_modules(layer, place)
        # not one of the layer's own, whose results would be others
        modules["dropout"] = nn.Dropout(TINY["hidden_dropout_prob"]).eval()
        layer.attention_dropout.p = layer.out_dropout.p = 0.75
        name = ADD_NORM_INPUTS[place]
        sources, handed = leaves(stored.input, getattr(stored, name))
        result = layer.add_norm(*handed, *modules.values())
        outputs[f"values/result (after {place})"] = result
        outputs |= afterwards(**{"input": handed[0], name: handed[1]})
        names = {"input": sources[0], "output": sources[1]}
        for label in ("dense_layer", "ln_layer"):
            for kind, parameter in modules[label].named_parameters():
                names[f"{label}.{kind}"] = parameter
        names = {f"{label} (after {place})": source for label, source in names.items()}
        outputs |= gradients(result, stored.cotangent, names)
        layer.train()
        modules["dropout"].train()
        again = layer.add_norm(*leaves(*sources)[1], *modules.values())
        outputs[f"dropout/result (after {place})"] = again
    return outputs


def run_layer(references: dict[str, Tensor], alone: bool = True) -> Outputs:
    """Task 1.3 on stored hidden states (B, L, D); ``alone``: with stand-ins for what it calls."""
    stored = inputs_of("bert.layer", references)
    layer = student_model(references).bert_layers[0]
    stand_ins = LayerStandIns(layer, references, "values") if alone else None
    (source,), (hidden,) = leaves(stored.hidden)
    mask = stored.mask.clone()
    result = layer(hidden, mask)
    outputs = {"values/result": result} | afterwards(hidden=hidden, mask=mask)
    linears = {name: getattr(layer.self_attention, name) for name in ("query", "key", "value")}
    linears["interm_dense"] = layer.interm_dense
    sources = {"hidden_states": source}
    sources |= {f"{name}.weight": linear.weight for name, linear in linears.items()}
    if stand_ins:
        outputs = stand_ins.seen | outputs
        sources |= stand_ins.normed
    outputs |= gradients(result, stored.cotangent, sources)
    if not alone:
        padded = (stored.mask < 0)[:, 0, 0, :, None]  # (B, L, 1)
        after = layer(torch.where(padded, 3 - source, source), stored.mask.clone())
        outputs["padding/result"] = change(result, after, stored.mask[:, 0, 0] == 0)
    layer.train()
    if stand_ins:
        stand_ins = LayerStandIns(layer, references, "dropout")
    result = layer(source.clone(), stored.mask.clone())
    return outputs | (stand_ins.seen if stand_ins else {}) | {"dropout/result": result}


def run_embed(references: dict[str, Tensor]) -> Outputs:
    """Task 1.4 on stored ids (B, L)."""
    stored = inputs_of("bert.embed", references)
    model = student_model(references)
    ids = stored.ids.clone()
    result = model.embed(ids)
    outputs = {
        "values/embeddings": result,
        **afterwards(ids=ids),
        "values/embeddings of 3 pieces": model.embed(stored.ids[:, :3].clone()),
    }
    if "token_type_ids" in inspect.signature(model.embed).parameters:
        result_of_pairs = model.embed(stored.ids.clone(), stored.segments.clone())
        outputs["values/embeddings with token_type_ids"] = result_of_pairs
    tables = {name: table for name, table in model.named_parameters() if "embed" in name}
    outputs |= gradients(result, stored.cotangent, tables)
    after = model.embed(torch.where(stored.real, stored.ids, 99 - stored.ids))
    outputs["padding/embeddings"] = change(result, after, stored.real)
    model.train()
    return outputs | {"dropout/embeddings": model.embed(stored.ids.clone())}


def run_whole(references: dict[str, Tensor]) -> Outputs:
    """BertModel.forward on the ids of task 1.4: everything together."""
    stored = inputs_of("bert.embed", references)
    real = stored.real.long()  # (B, L)
    model = student_model(references)
    results = model(stored.ids.clone(), real)
    outputs = {
        "values/last_hidden_state": results["last_hidden_state"] * real[..., None],
        "values/pooler_output": results["pooler_output"],
    }
    parameters = dict(model.named_parameters())
    outputs |= gradients(results["pooler_output"], stored.pooler_cotangent, parameters)
    other_padding = torch.where(stored.real, stored.ids, 99 - stored.ids)
    after = model(other_padding, real)["last_hidden_state"]
    outputs["padding/last_hidden_state"] = change(results["last_hidden_state"], after, stored.real)
    model.train()
    return outputs | {"dropout/pooler_output": model(stored.ids, real)["pooler_output"]}


# ---------------------------------------------------------------------------------------------
# classifier.py


def student_classifier(
    references: dict[str, Tensor], option: str, dropout: float = CLASSIFIER_DROPOUT
) -> tuple[nn.Module, nn.Module, list[nn.Module]]:
    """The student's classifier, the tiny encoder inside it, and the modules that are not in it."""
    encoder = student_model(references)
    config = SimpleNamespace(
        num_labels=len(references["weights/head.bias"]),
        hidden_size=TINY["hidden_size"],
        hidden_dropout_prob=dropout,
        option=option,
        data_dir=".",
    )
    module = importlib.import_module("classifier")
    bert = importlib.import_module("bert")
    with mock.patch.object(bert.BertModel, "from_pretrained", return_value=encoder):
        model = module.BertSentimentClassifier(config).to(references["weights/head.weight"].dtype)
    inside = {id(part) for part in encoder.modules()}
    own = [part for part in model.modules() if id(part) not in inside]
    return model.eval(), encoder, own


def trains(modules: list[nn.Module]) -> Tensor:
    """Whether parameters of some modules train: [False], [True], both, or nothing without any."""
    flags = {p.requires_grad for module in modules for p in module.parameters()}
    return torch.tensor(sorted(flags))


def run_classifier_init(references: dict[str, Tensor]) -> Outputs:
    """Task 1.6: the sizes and settings of what __init__ makes, and whether they are as asked.

    The latter reveal a mistake whatever number is in the code.
    """
    outputs: Outputs = {}
    for option in ("pretrain", "finetune"):
        model, encoder, own = student_classifier(references, option, INIT_DROPOUT)
        linears = [part for part in own if isinstance(part, nn.Linear)]
        outputs[f"values/option {option}: the encoder trains"] = trains([encoder])
        outputs[f"values/option {option}: the Linear trains"] = trains(linears)
    sizes = torch.tensor([[part.in_features, part.out_features] for part in linears])
    sizes = sizes.reshape(-1, 2)  # (N, 2), also where there are none
    rates = torch.tensor([part.p for part in own if isinstance(part, nn.Dropout)])  # (M,)
    num_labels = len(references["weights/head.bias"])
    for name, size in (("hidden_size", TINY["hidden_size"]), ("num_labels", num_labels)):
        outputs[f"values/Linear layers: sizes that are {name}"] = sizes == size
    for name, rate in RATES.items():
        outputs[f"values/dropout probabilities that are {name}"] = (rates - rate).abs() < 1e-6
    # who keeps the probability, or the configuration, may use F.dropout in forward
    kept = [getattr(value, "hidden_dropout_prob", value) for value in vars(model).values()]
    made = bool(len(rates)) or any(v == INIT_DROPOUT for v in kept if isinstance(v, float))
    outputs["values/dropout: made, or its probability kept"] = torch.tensor([made])
    biases = torch.tensor([part.bias is not None for part in linears])  # (N,)
    outputs["values/Linear layers: with a bias"] = biases
    return outputs | {"sizes": sizes, "rates": rates}


def layers_lost(references: dict[str, Tensor]) -> Iterator[str]:
    """What __init__ makes that is not part of the model, or keeps without making it, in words."""
    made: list[nn.Module] = []
    begin = nn.Module.__init__

    def noting(module: nn.Module, *args: Any, **named: Any) -> None:
        made.append(module)
        begin(module, *args, **named)

    with mock.patch.object(nn.Module, "__init__", noting):
        model, _, own = student_classifier(references, "finetune")
    kinds = {type(part).__name__ for part in made if part not in {*model.modules()}}
    for kind in ("Linear", "Dropout"):
        if kind in kinds and not any(type(part).__name__ == kind for part in own):
            yield (
                f"a {kind} is made, but it is not part of the model: it is in a plain list or "
                "dict, or in a variable that is gone after __init__; self.name = … keeps it"
            )
    for name, value in vars(model).items():
        if isinstance(value, type) and issubclass(value, nn.Module):
            yield f"self.{name} is the class {value.__name__}, not a layer: parentheses make one"


def whole_mask(mask: Any) -> Any:
    """A mask of 0. and 1. as whole numbers: to BERT it is the same."""
    if isinstance(mask, Tensor) and mask.is_floating_point() and mask.eq(mask.bool()).all():
        return mask.long()
    return mask


def through_the_pooler(
    result: Tensor, references: dict[str, Tensor], encoder: nn.Module, states: Tensor
) -> Outputs:
    """The gradient of pooler_output of who computes that from last_hidden_state, if it is right."""
    name = "gradients/pooler_output"
    expected = references.get(f"classifier.forward/{name}")
    cotangent = references["classifier.forward/inputs/cotangent"]
    (got,) = gradients(result, cotangent, {"last_hidden_state": states}).values()
    if got is None or expected is None:
        return {}
    pooled = encoder.pooler_af(encoder.pooler_dense(states[:, 0]))
    (wanted,) = torch.autograd.grad(pooled, states, expected.to(pooled))
    return {name: expected} if torch.allclose(got, wanted, rtol=1e-4, atol=1e-6) else {}


def run_classifier_forward(references: dict[str, Tensor]) -> Outputs:
    """Task 1.7 with the reference's encoder outputs and weights."""
    stored = inputs_of("classifier.forward", references)
    model, encoder, own = student_classifier(references, "finetune")
    head = next(part for part in own if isinstance(part, nn.Linear))
    head.load_state_dict({name: references[f"weights/head.{name}"] for name in ("weight", "bias")})
    seen: Outputs = {}
    sources, handed = leaves(stored.last_hidden_state, stored.pooler_output)

    def stored_encoder(input_ids, attention_mask, *_, **__):
        seen["values/input_ids given to self.bert"] = input_ids
        seen["values/attention_mask given to self.bert"] = whole_mask(attention_mask)
        rows = len(input_ids) if isinstance(input_ids, Tensor) else None
        made = [tensor[:rows].clone() for tensor in handed]  # here, where no_grad would be seen
        return dict(zip(("last_hidden_state", "pooler_output"), made, strict=True))

    stored_encoder.__qualname__ = "BertModel.forward"  # in Python's complaint about arguments
    encoder.forward = stored_encoder
    ids, mask = stored.input_ids.clone(), stored.attention_mask.clone()
    result = model(ids, mask)
    outputs = seen | {"values/logits": result} | afterwards(input_ids=ids, attention_mask=mask)
    names = {
        "pooler_output": sources[1],
        "Linear's weight": head.weight,
        "Linear's bias": head.bias,
    }
    outputs |= gradients(result, stored.cotangent, names)
    if outputs.get("gradients/pooler_output", 0) is None:
        outputs |= through_the_pooler(result, references, encoder, sources[0])
    outputs[OF_ONE] = model(stored.input_ids[:1].clone(), stored.attention_mask[:1].clone())
    model.train()
    sources, handed = leaves(*sources)
    result = model(stored.input_ids.clone(), stored.attention_mask.clone())
    return outputs | {"dropout/logits": result}


# ---------------------------------------------------------------------------------------------
# All of them

RUNS: dict[str, Callable[[dict[str, Tensor]], Outputs]] = {
    "bert.attention": run_attention,
    "bert.add_norm": run_add_norm,
    "bert.layer": run_layer,
    "bert.embed": run_embed,
    "classifier.init": run_classifier_init,
    "classifier.forward": run_classifier_forward,
    WHOLE: run_whole,
}


def groups_of(task_id: str) -> dict[str, dict[str, Any]]:
    """The ways in which a task's function is run: name of the fingerprints → options."""
    return GROUPS.get(task_id, {task_id: {}})


def run_of(task_id: str) -> Callable[[dict[str, Tensor]], Outputs]:
    """What runs a task's function; that of a later part comes with its handout."""
    if task_id in RUNS:
        return RUNS[task_id]
    part = graded_task(task_id).part
    return importlib.import_module(f"checks.part{part}.runners").RUNS[task_id]


def student_outputs(task_id: str, dtype: torch.dtype = torch.float64, **options: Any) -> Outputs:
    """All that the student's function returns for the stored inputs, by the references' names.

    What should be a tensor need not be one. Exceptions of the student's code pass through.
    """
    with default_dtype(dtype), FixedDropout():
        outputs = run_of(task_id)(load_references(dtype), **options)
    return {k: v.detach() if isinstance(v, Tensor) else v for k, v in outputs.items()}


def outputs_or_error(
    task_id: str, dtype: torch.dtype = torch.float64, **options: Any
) -> Outputs | Finding:
    """What ``student_outputs`` gives; of an exception of the student's code, the finding."""
    outputs = attempt(student_outputs, task_id, dtype, **options)
    return describe(outputs) if isinstance(outputs, BaseException) else outputs
