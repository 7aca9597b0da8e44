"""The checks of part 1: bert.py, optimizer.py and classifier.py, one function at a time.

Each of the student's functions is run alone: what it is given and what the functions it calls
return comes from sanity_check.data, so a mistake in one task does not fail another. The right
answers were computed by Hugging Face's transformers (tests/make_sanity_check.py). This file does
not know how any task is solved.

``check(task)`` gives the findings; ``student_outputs`` computes, and ``compare`` judges, the
tensors they are made from. The order of axes is B, L, D as in bert.py.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from checks.differences import difference
from checks.errors import describe
from checks.findings import ROOT, Finding, Mistake, named
from checks.fingerprints import KnownMistakes, load_known, projections, same_projections
from checks.first_nan import FirstNaN
from checks.fixed_dropout import FixedDropout, default_dtype
from checks.graded_tasks import GradedTask, graded_task
from checks.part1 import adamw, bert_probes
from config import BertConfig
from training.files.errors import InputError

DATA = ROOT / "sanity_check.data"
# No two sizes in the stored inputs are the same, none is a number of axes or a usual constant: a
# wrong size tells where it was read. The batch has 5 rows of 10 pieces, a head is 7 wide.
TINY = {
    "vocab_size": 100,
    "hidden_size": 42,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 36,
    "max_position_embeddings": 16,
    "attention_probs_dropout_prob": 0.2,
    "hidden_dropout_prob": 0.4,
}
NUM_LABELS = 9  # not the five of SST, so that a 5 in the code is noticed
CLASSIFIER_DROPOUT = 0.3
INIT_DROPOUT = 0.45  # not the default of classifier.py, so that it is noticed in the code
RATES = {"it": INIT_DROPOUT, "1 - it": 1 - INIT_DROPOUT, "BERT's": TINY["hidden_dropout_prob"]}
WHOLE = "whole model"
STAND_INS = ("attended", "normed", "result")  # what takes the place of what bert.layer calls
# Where a function can be run in several ways, each way has fingerprints of its own.
GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "bert.add_norm": {
        "bert.add_norm, after attention": {"after": ("attention",)},  # there all shapes fit
        "bert.add_norm": {},
    },
    "bert.layer": {"bert.layer": {}, "bert.layer, whole": {"alone": False}},
}
TOLERANCES = {  # of values and of gradients, relative where the right value is above 1
    torch.float64: (1e-10, 1e-8),
    torch.float32: (1e-5, 1e-4),
}
FINGERPRINTS = "fingerprints/"
OF_ONE = "values/logits of one sentence"  # told where those of the batch are right
OPTIONAL = "values/embeddings with token_type_ids"  # an argument that embed may do without
KINDS = ("values", "gradients", "padding", "dropout", "inputs")
CHANGED = (
    "`{}`, which was given, is changed in place: the caller goes on with another tensor than "
    "before; make a new one (x = x + y, not x += y, and no method whose name ends in _)"
)
CHECKED = {
    "bert.attention": "values, gradients, padding, dropout",
    "bert.add_norm": "values, gradients, dropout",
    "bert.layer": "values, gradients, mask, dropout",
    "bert.embed": "values, gradients, padding, dropout",
    "optimizer.step": f"all of its {len(adamw.CHECKS) + 1} checks",  # and the order of decay
    "classifier.init": "the Linear, dropout's probability, a frozen or trainable encoder",
    "classifier.forward": "values, gradients, dropout",
}


# ---------------------------------------------------------------------------------------------
# References, and the student's modules with the reference's weights


def read_data(prefix: str) -> dict[str, Tensor]:
    """The tensors of sanity_check.data with that prefix, fingerprints only where it asks for them.

    Raises InputError where the file is missing or damaged.
    """
    try:
        with safe_open(DATA, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]
            return {
                name: file.get_tensor(name)
                for name in names
                if prefix or not name.startswith(FINGERPRINTS)
            }
    except (OSError, SafetensorError) as error:
        raise InputError(f"{DATA.name} cannot be read ({error}); restore it from git") from error


@cache
def load_references(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """All tensors of sanity_check.data by name, e.g. ``bert.embed/values/embeddings``.

    Raises InputError where the file is missing or damaged.
    """
    return in_dtype(read_data(""), dtype)


def in_dtype(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """References with their float64 numbers in another floating-point type."""
    # The mask's most negative number is float64's; as float32 it has to stay finite.
    limit = torch.finfo(dtype).min
    return {
        name: tensor.clamp(min=limit).to(dtype) if tensor.dtype == torch.float64 else tensor
        for name, tensor in tensors.items()
    }


def facts() -> dict[str, Any]:
    """What sanity_check.data says about itself: versions, seed, pretrained models' sha256."""
    with safe_open(DATA, framework="pt") as file:
        return json.loads(file.metadata()["about"])


@cache
def known_mistakes(group: str) -> KnownMistakes:
    """The fingerprints of a task's known mistakes; ``group``: its id, or more (see GROUPS)."""
    prefix = f"{FINGERPRINTS}{group}/"
    prints = {name.removeprefix(prefix): table for name, table in read_data(prefix).items()}
    return load_known(facts().get("mistakes", {}).get(group, {}), prints, OPTIONAL)


def inputs_of(task_id: str, references: dict[str, Tensor]) -> SimpleNamespace:
    """The stored inputs of a task, as attributes."""
    prefix = f"{task_id}/inputs/"
    return SimpleNamespace(
        **{k.removeprefix(prefix): v for k, v in references.items() if k.startswith(prefix)}
    )


def student_model(references: dict[str, Tensor]) -> nn.Module:
    """The student's BertModel, tiny, with the reference's weights, in evaluation mode."""
    model = importlib.import_module("bert").BertModel(BertConfig(**TINY))
    prefix = "weights/"
    weights = {k.removeprefix(prefix): v for k, v in references.items() if k.startswith(prefix)}
    model.load_state_dict(weights, strict=False)  # strict would ask for position_ids
    return model.to(weights["pooler_dense.weight"].dtype).eval()


def leaves(*tensors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors that take gradients, and copies to hand out: those may be changed in place."""
    sources = [tensor.clone().requires_grad_() for tensor in tensors]
    return sources, [source.clone() for source in sources]


def gradients(result: Any, cotangent: Tensor, sources: dict[str, Tensor]) -> dict[str, Any]:
    """d(result · cotangent) for every source, None where no gradient arrives."""
    if not isinstance(result, Tensor) or result.shape != cotangent.shape:
        return {}
    found = [None] * len(sources)
    if result.requires_grad:
        sources_list = list(sources.values())
        found = torch.autograd.grad(
            result, sources_list, cotangent.to(result), retain_graph=True, allow_unused=True
        )
    return {f"gradients/{name}": grad for name, grad in zip(sources, found, strict=True)}


def afterwards(**inputs: Tensor) -> dict[str, Any]:
    """What was given to the student's function, as it is after the call."""
    return {f"inputs/{name}": tensor.detach().clone() for name, tensor in inputs.items()}


def change(before: Any, after: Any, real: Tensor) -> Any:
    """How much the results of real tokens, real (B, L), changed: the padding must not matter."""
    if not isinstance(before, Tensor) or before.shape[:2] != real.shape:
        return torch.zeros(())  # the values' own check says what is wrong
    return (after - before)[real]


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


# ---------------------------------------------------------------------------------------------
# What the student's functions compute. The names of outputs are those of the references:
# "values/…", "gradients/…", "padding/…" (a change, to be 0), "dropout/…" (in training mode),
# "inputs/…" (what was given, after the call).


def run_attention(references: dict[str, Tensor]) -> dict[str, Any]:
    """Task 1.1 on stored keys, queries, values (B, H, L, W) and mask (B, 1, 1, L)."""
    given = inputs_of("bert.attention", references)
    module = student_model(references).bert_layers[0].self_attention
    sources, (key, query, value) = leaves(given.key, given.query, given.value)
    mask = given.mask.clone()
    result = module.attention(key, query, value, mask)
    outputs = {"values/context": result}
    outputs |= afterwards(key=key, query=query, value=value, mask=mask)
    names = dict(zip(("key", "query", "value"), sources, strict=True))
    outputs |= gradients(result, given.cotangent, names)
    padded = (given.mask < 0).transpose(-1, -2)  # (B, 1, L, 1)
    changed = [torch.where(padded, 3 - tensor, tensor) for tensor in sources]
    after = module.attention(*changed, given.mask.clone())
    outputs["padding/context"] = change(result, after, given.mask[:, 0, 0] == 0)
    module.train()
    _, (key, query, value) = leaves(*sources)
    outputs["dropout/context"] = module.attention(key, query, value, given.mask.clone())
    return outputs


def run_add_norm(
    references: dict[str, Tensor], after: tuple[str, ...] = ("attention", "feed-forward")
) -> dict[str, Any]:
    """Task 1.2 on stored tensors, with the modules of the places where a layer uses it."""
    given = inputs_of("bert.add_norm", references)
    layer = student_model(references).bert_layers[0]
    places = {
        "attention": (
            given.attended,
            (layer.attention_dense, layer.attention_dropout, layer.attention_layer_norm),
        ),
        "feed-forward": (
            given.expanded,
            (layer.out_dense, layer.out_dropout, layer.out_layer_norm),
        ),
    }
    outputs = {}
    for name in after:
        output, modules = places[name]
        place = f"(after {name})"
        layer.eval()
        sources, handed = leaves(given.input, output)
        result = layer.add_norm(*handed, *modules)
        outputs[f"values/result {place}"] = result
        which = {"attention": "attended", "feed-forward": "expanded"}[name]
        outputs |= afterwards(**{"input": handed[0], which: handed[1]})
        names = {f"input {place}": sources[0], f"output {place}": sources[1]}
        for label, module in (("dense_layer", modules[0]), ("ln_layer", modules[2])):
            for kind, parameter in module.named_parameters():
                names[f"{label}.{kind} {place}"] = parameter
        outputs |= gradients(result, given.cotangent, names)
        layer.train()
        outputs[f"dropout/result {place}"] = layer.add_norm(*leaves(*sources)[1], *modules)
    return outputs


class LayerStandIns:
    """Stand-ins for attention and add_norm: they note what they get and replay the reference."""

    def __init__(self, layer: nn.Module, references: dict[str, Tensor], kind: str):
        self.references, self.kind = references, kind
        self.seen: dict[str, Any] = {}
        self.add_norms = 0
        self.normed: dict[str, Tensor] = {}  # what call 1 gave, behind which stored gradients go on
        layer.self_attention.attention = self.attention
        layer.add_norm = self.add_norm

    def replay(self, name: str, **inputs: Tensor) -> Tensor:
        """The reference's result of that name."""
        stored = self.references[f"bert.layer/{self.kind}/{name}"]
        grads = [self.references[f"bert.layer/replay/{name} {key}"] for key in inputs]
        return Replay.apply(stored, grads, *inputs.values())

    def note(self, place: str, **inputs: Any) -> None:
        """Remember what a stand-in was given."""
        self.seen |= {f"{self.kind}/{key} of {place}": value for key, value in inputs.items()}

    def attention(self, key, query, value, attention_mask):
        """In place of BertSelfAttention.attention."""
        self.note("attention", key=key, query=query, value=value, attention_mask=attention_mask)
        return self.replay("attended", key=key, query=query, value=value)

    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        """In place of BertLayer.add_norm."""
        self.add_norms += 1
        number = min(self.add_norms, 2)
        place = f"add_norm's call {number}"
        # What has no weight, or no probability, is noted as it is: the comparison says what it is.
        self.note(place, input=input, output=output)
        self.note(place, dense_layer=getattr(dense_layer, "weight", dense_layer))
        self.note(place, ln_layer=getattr(ln_layer, "weight", ln_layer))
        probability = getattr(dropout, "p", dropout)
        is_number = isinstance(probability, float)
        self.note(place, dropout=torch.tensor(probability) if is_number else probability)
        name = ("normed", "result")[number - 1]
        result = self.replay(name, input=input, output=output)
        if self.add_norms == 1 and result.requires_grad:
            self.normed = {"result of add_norm's call 1": result}
        return result


# Python's own complaint about wrong arguments is to name the student's function.
LayerStandIns.attention.__qualname__ = "BertSelfAttention.attention"
LayerStandIns.add_norm.__qualname__ = "BertLayer.add_norm"


def run_layer(references: dict[str, Tensor], alone: bool = True) -> dict[str, Any]:
    """Task 1.3 on stored hidden states (B, L, D); ``alone``: with stand-ins for what it calls."""
    given = inputs_of("bert.layer", references)
    layer = student_model(references).bert_layers[0]
    parts = SimpleNamespace(seen={}, normed={})
    if alone:
        parts = LayerStandIns(layer, references, "values")
    (source,), (hidden,) = leaves(given.hidden)
    mask = given.mask.clone()
    result = layer(hidden, mask)
    outputs = parts.seen | {"values/result": result} | afterwards(hidden=hidden, mask=mask)
    attention = layer.self_attention
    used = {
        "query": attention.query,
        "key": attention.key,
        "value": attention.value,
        "interm_dense": layer.interm_dense,
    }
    names = {f"{name}.weight": module.weight for name, module in used.items()}
    sources = {"hidden_states": source} | names | parts.normed
    outputs |= gradients(result, given.cotangent, sources)
    if not alone:
        padded = (given.mask < 0)[:, 0, 0, :, None]  # (B, L, 1)
        after = layer(torch.where(padded, 3 - source, source), given.mask.clone())
        outputs["padding/result"] = change(result, after, given.mask[:, 0, 0] == 0)
    layer.train()
    parts = LayerStandIns(layer, references, "dropout") if alone else parts
    result = layer(source.clone(), given.mask.clone())
    return outputs | (parts.seen if alone else {}) | {"dropout/result": result}


def run_embed(references: dict[str, Tensor]) -> dict[str, Any]:
    """Task 1.4 on stored ids (B, L)."""
    given = inputs_of("bert.embed", references)
    model = student_model(references)
    ids = given.ids.clone()
    result = model.embed(ids)
    outputs = {
        "values/embeddings": result,
        **afterwards(ids=ids),
        "values/embeddings of 3 pieces": model.embed(given.ids[:, :3].clone()),
    }
    if "token_type_ids" in inspect.signature(model.embed).parameters:
        result_of_pairs = model.embed(given.ids.clone(), given.segments.clone())
        outputs["values/embeddings with token_type_ids"] = result_of_pairs
    embedding = {k: v for k, v in model.named_parameters() if "embed" in k}
    outputs |= gradients(result, given.cotangent, embedding)
    after = model.embed(torch.where(given.real, given.ids, 99 - given.ids))
    outputs["padding/embeddings"] = change(result, after, given.real)
    model.train()
    return outputs | {"dropout/embeddings": model.embed(given.ids.clone())}


def run_whole(references: dict[str, Tensor]) -> dict[str, Any]:
    """BertModel.forward on the ids of task 1.4: everything together."""
    given = inputs_of("bert.embed", references)
    real = given.real.long()  # (B, L)
    model = student_model(references)
    results = model(given.ids.clone(), real)
    outputs = {
        "values/last_hidden_state": results["last_hidden_state"] * real[..., None],
        "values/pooler_output": results["pooler_output"],
    }
    parameters = dict(model.named_parameters())
    outputs |= gradients(results["pooler_output"], given.pooler_cotangent, parameters)
    after = model(torch.where(given.real, given.ids, 99 - given.ids), real)["last_hidden_state"]
    outputs["padding/last_hidden_state"] = change(results["last_hidden_state"], after, given.real)
    model.train()
    return outputs | {"dropout/pooler_output": model(given.ids, real)["pooler_output"]}


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


def run_classifier_init(references: dict[str, Tensor]) -> dict[str, Any]:
    """Task 1.6: the sizes and settings of what __init__ makes, and whether they are the asked ones.

    The latter tell a mistake whatever number is in the code.
    """
    outputs: dict[str, Any] = {}
    for option in ("pretrain", "finetune"):
        model, encoder, own = student_classifier(references, option, INIT_DROPOUT)
        linears = [part for part in own if isinstance(part, nn.Linear)]
        trains = {parameter.requires_grad for parameter in encoder.parameters()}
        outputs[f"values/option {option}: the encoder trains"] = torch.tensor(sorted(trains))
        head = [parameter.requires_grad for part in linears for parameter in part.parameters()]
        outputs[f"values/option {option}: the Linear trains"] = torch.tensor(sorted(set(head)))
    sizes = torch.tensor([[part.in_features, part.out_features] for part in linears])
    sizes = sizes.reshape(-1, 2)  # (N, 2), also where there are none
    biases = torch.tensor([part.bias is not None for part in linears])  # (N,)
    rates = torch.tensor([part.p for part in own if isinstance(part, nn.Dropout)])  # (M,)
    num_labels = len(references["weights/head.bias"])
    for what, size in (("hidden_size", TINY["hidden_size"]), ("num_labels", num_labels)):
        outputs[f"values/Linear layers: sizes that are {what}"] = sizes == size
    for what, rate in RATES.items():
        outputs[f"values/dropout probabilities that are {what}"] = (rates - rate).abs() < 1e-6
    kept = [getattr(value, "hidden_dropout_prob", value) for value in vars(model).values()]
    # who keeps the probability, or the configuration, may use F.dropout in forward
    found = bool(len(rates)) or any(v == INIT_DROPOUT for v in kept if isinstance(v, float))
    outputs["values/dropout: made, or its probability kept"] = torch.tensor([found])
    outputs["values/Linear layers: with a bias"] = biases
    return outputs | {"sizes": sizes, "rates": rates}


def whole_mask(mask: Any) -> Any:
    """A mask of 0. and 1. as whole numbers: to BERT it is the same."""
    if isinstance(mask, Tensor) and mask.is_floating_point() and mask.eq(mask.bool()).all():
        return mask.long()
    return mask


def run_classifier_forward(references: dict[str, Tensor]) -> dict[str, Any]:
    """Task 1.7 with the reference's encoder outputs and weights."""
    given = inputs_of("classifier.forward", references)
    model, encoder, own = student_classifier(references, "finetune")
    head = next(part for part in own if isinstance(part, nn.Linear))
    head.load_state_dict({name: references[f"weights/head.{name}"] for name in ("weight", "bias")})
    seen: dict[str, Any] = {}
    sources, handed = leaves(given.last_hidden_state, given.pooler_output)

    def stored_encoder(input_ids, attention_mask, *_, **__):
        seen["values/input_ids given to self.bert"] = input_ids
        seen["values/attention_mask given to self.bert"] = whole_mask(attention_mask)
        rows = len(input_ids) if isinstance(input_ids, Tensor) else None
        made = [tensor[:rows].clone() for tensor in handed]  # here, where no_grad would be seen
        return dict(zip(("last_hidden_state", "pooler_output"), made, strict=True))

    stored_encoder.__qualname__ = "BertModel.forward"  # in Python's complaint about arguments
    encoder.forward = stored_encoder
    ids, mask = given.input_ids.clone(), given.attention_mask.clone()
    result = model(ids, mask)
    outputs = seen | {"values/logits": result} | afterwards(input_ids=ids, attention_mask=mask)
    names = {
        "pooler_output": sources[1],
        "Linear's weight": head.weight,
        "Linear's bias": head.bias,
    }
    outputs |= gradients(result, given.cotangent, names)
    outputs[OF_ONE] = model(given.input_ids[:1].clone(), given.attention_mask[:1].clone())
    model.train()
    sources, handed = leaves(*sources)
    result = model(given.input_ids.clone(), given.attention_mask.clone())
    return outputs | {"dropout/logits": result}


RUNS: dict[str, Callable[[dict[str, Tensor]], dict[str, Any]]] = {
    "bert.attention": run_attention,
    "bert.add_norm": run_add_norm,
    "bert.layer": run_layer,
    "bert.embed": run_embed,
    "classifier.init": run_classifier_init,
    "classifier.forward": run_classifier_forward,
    WHOLE: run_whole,
}


def student_outputs(
    task_id: str, dtype: torch.dtype = torch.float64, **options: Any
) -> dict[str, Any]:
    """All that the student's function returns for the stored inputs, by the references' names.

    What should be a tensor need not be one. Exceptions of the student's code pass through.
    """
    with default_dtype(dtype), FixedDropout():
        outputs = RUNS[task_id](load_references(dtype), **options)
    return {k: v.detach() if isinstance(v, Tensor) else v for k, v in outputs.items()}


# ---------------------------------------------------------------------------------------------
# Judging


def compare(
    task_id: str,
    outputs: dict[str, Any],
    dtype: torch.dtype = torch.float64,
    references: Mapping[str, Tensor] | None = None,
    reveal: bool = True,
    slack: float = 1.0,
) -> list[Finding]:
    """Findings about a student's outputs, in the order of KINDS; none if they are right.

    Args:
        references: the right outputs, if they are not those of sanity_check.data.
        reveal: whether findings may say what is right.
        slack: by how much tolerances are multiplied.
    """
    if references is None:
        references = load_references(dtype)
    if task_id == "classifier.init":
        return compare_classifier_init(outputs, len(references["weights/head.bias"]))
    references = {
        name.removeprefix(f"{task_id}/"): tensor
        for name, tensor in in_dtype(references, dtype).items()
        if name.startswith(f"{task_id}/")
    }
    findings = []
    for name, got in sorted(outputs.items(), key=lambda item: KINDS.index(item[0].split("/")[0])):
        kind, _, what = name.partition("/")
        follows = kind in ("gradients", "dropout") or name == OF_ONE
        if follows and any(f.kind == "values" for f in findings):
            continue  # they cannot be right either
        if kind == "inputs":
            if difference(kind, what, got, references[name], 0.0):
                findings.append(Finding(kind, CHANGED.format(what), name="input_changed"))
            continue
        tolerance = slack * TOLERANCES[dtype][kind == "gradients"]
        expected = references[name] if kind != "padding" else torch.zeros(()).to(dtype)
        finding = difference(kind, what, got, expected, tolerance, reveal)
        keys_first = references.get(f"{name} (keys first)", expected)
        if finding is None or not difference(kind, what, got, keys_first, tolerance):
            continue
        other = {"values": "dropout", "dropout": "values"}.get(kind)
        mistaken = references.get(f"{other}/{what}")
        if mistaken is not None and difference(kind, what, got, mistaken, tolerance) is None:
            said = "no dropout was applied in training mode"
            if kind == "values":
                said = "dropout was applied in evaluation mode"
            finding = Finding(kind, f"{kind} of {what}: {said}")
        findings.append(finding)
    return findings


def compare_classifier_init(outputs: dict[str, Any], num_labels: int) -> list[Finding]:
    """One Linear of the right size, dropout as configured, the encoder frozen as asked."""
    texts = []
    sizes, biases = outputs["sizes"].tolist(), outputs["values/Linear layers: with a bias"].tolist()
    wanted = [TINY["hidden_size"], num_labels]
    if (sizes, biases) != ([wanted], [True]):
        pairs = zip(sizes, biases, strict=True)
        found = [f"{a} → {b}" + ("" if bias else " without bias") for (a, b), bias in pairs]
        texts.append(
            f"expected one Linear {wanted[0]} → {wanted[1]} (config.hidden_size → "
            f"config.num_labels) besides self.bert, found {', '.join(found) or 'none'}"
        )
    fitting = outputs["values/dropout probabilities that are it"].tolist()
    for p, fits in zip(outputs["rates"].tolist(), fitting, strict=True):
        if not fits:
            texts.append(
                f"dropout probability {p:.6g} instead of config.hidden_dropout_prob, "
                f"here {INIT_DROPOUT}"
            )
    if not outputs["values/dropout: made, or its probability kept"].all():
        texts.append("no dropout is made, and config.hidden_dropout_prob is not kept for forward")
    for option, trains in (("pretrain", False), ("finetune", True)):
        if outputs[f"values/option {option}: the encoder trains"].tolist() != [trains]:
            state = "trainable" if trains else "frozen"
            texts.append(f"option {option}: self.bert's parameters are not all {state}")
        if sizes and outputs[f"values/option {option}: the Linear trains"].tolist() != [True]:
            texts.append(f"option {option}: the Linear's parameters are frozen")
    return [Finding("values", text) for text in texts]


def groups_of(task_id: str) -> dict[str, dict[str, Any]]:
    """The ways in which a task's function is run: name of the fingerprints → options."""
    return GROUPS.get(task_id, {task_id: {}})


def outputs_or_error(
    task_id: str, dtype: torch.dtype = torch.float64, **options: Any
) -> dict[str, Any] | Finding:
    """What ``student_outputs`` gives; of an exception of the student's code, the finding."""
    try:
        return student_outputs(task_id, dtype, **options)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        return describe(error)


def run_and_compare(task_id: str, dtype: torch.dtype, **options: Any) -> list[Finding]:
    """Findings of one task in one floating-point type, an exception being one of them."""
    outputs = outputs_or_error(task_id, dtype, **options)
    if isinstance(outputs, Finding):
        return [outputs]
    return compare(task_id, outputs, dtype)


def explain(task_id: str, findings: Sequence[Finding]) -> list[Finding]:
    """The known mistakes that a wrong function makes, and facts on what they leave unexplained.

    Args:
        findings: what is wrong with it. Some need no further word, and results that are no numbers
            tell nothing more: there, only where they arise.
    """
    if all(finding.name for finding in findings):
        return []
    results = {}
    with FirstNaN() as nan:
        for group, options in groups_of(task_id).items():
            results[group] = outputs_or_error(task_id, **options)
    known = {group: known_mistakes(group) for group in results}
    mistakes, outputs, left = first_known(task_id, results, known)
    if mistakes:
        return named(mistakes) + unexplained(task_id, outputs, left)
    return [Finding("fact", nan.text)] if nan.text else measured(task_id)


def first_known(
    task_id: str,
    results: Mapping[str, dict[str, Any] | Finding],
    known: Mapping[str, KnownMistakes],
) -> tuple[list[Mistake], dict[str, Any] | Finding, list[str]]:
    """The mistakes of the first way of running a function that tells of any; see mistakes_in.

    Args:
        results: outputs, or the error, in each way.
        known: mistakes by the same names.

    Returns:
        The mistakes, that way's outputs, and which of these they leave open.
    """
    wrong = False  # in a way before, where it ran
    for group, outputs in results.items():
        if isinstance(outputs, Finding) and wrong:
            break  # that it fails here, too, is true of many mistakes
        mistakes, left = mistakes_in(task_id, outputs, known[group])
        if mistakes:
            return mistakes, outputs, left
        wrong |= isinstance(outputs, dict) and bool(compare(task_id, outputs))
    return [], {}, []


def mistakes_in(
    task_id: str, outputs: dict[str, Any] | Finding, known: KnownMistakes
) -> tuple[list[Mistake], list[str]]:
    """The known mistakes that outputs, or an exception, tell of, and which outputs they leave open.

    None if the outputs are right. Dropout that never acts is told beside any other mistake.
    """
    if isinstance(outputs, Finding):
        return known.find(outputs.text)
    findings = compare(task_id, outputs)
    if not findings:
        return [], []
    # Right values are those of many mistakes: only wrong ones tell which it is.
    wrong = {finding.kind for finding in findings if not finding.slight}
    mistakes, left = known.find(outputs, "values" if "values" in wrong else "")
    left = [name for name in left if tells(task_id, name, outputs[name])]
    dropped = [name for name in left if name.startswith("dropout/")]
    absent = known.mistakes.get("no_dropout")
    if dropped and absent and all(never_drops(outputs, name) for name in dropped):
        mistakes, left = [*mistakes, absent], [name for name in left if name not in dropped]
    return mistakes, left


def tells(task_id: str, name: str, output: Any) -> bool:
    """Whether an output that a named mistake does not explain shows that there is another one.

    Gradients may differ by rounding alone; where one is missing, something is wrong.
    """
    if task_id == "classifier.init" or name.startswith("gradients/"):
        return output is None
    return bool(compare(task_id, {name: output}))


def never_drops(outputs: Mapping[str, Any], name: str) -> bool:
    """Whether a result in training mode is that of evaluation mode."""
    values = outputs.get(name.replace("dropout/", "values/", 1))
    return isinstance(values, Tensor) and same_projections(
        projections(outputs[name]), projections(values)
    )


def unexplained(
    task_id: str, outputs: dict[str, Any] | Finding, left: Sequence[str]
) -> list[Finding]:
    """What a named mistake leaves open, and facts on that."""
    if not left:
        return []
    parts = [name.partition("/") for name in left]
    places = ", ".join(f"{kind} of {what}" for kind, _, what in parts[:3])
    found = [Finding("fact", f"that is not all: it does not explain {places}")]
    cut = [
        what for kind, _, what in parts if kind == "gradients" and outputs[f"{kind}/{what}"] is None
    ]
    if cut:
        text = f"no gradient arrives at {', '.join(cut)} (detached, or under no_grad?)"
        found.append(Finding("fact", text))
    if any(kind == "dropout" for kind, _, _ in parts):
        found += measured(task_id, only_dropout=True)
    return found


def measured(task_id: str, only_dropout: bool = False) -> list[Finding]:
    """Facts about a wrong function that makes no known mistake, or none in its dropout."""
    references, prefix = load_references(), f"{task_id}/values/"
    given = inputs_of(task_id, references)
    right = {k.removeprefix(prefix): v for k, v in references.items() if k.startswith(prefix)}
    with default_dtype(torch.float64):
        return bert_probes.facts_of(
            task_id, lambda: student_model(references), given, right, only_dropout
        )


def check_model(task_id: str, **options: Any) -> list[Finding]:
    """Sharply in float64, then as it will be used, in float32."""
    sharp = run_and_compare(task_id, torch.float64, **options)
    if any(not finding.slight for finding in sharp):
        return sharp
    return run_and_compare(task_id, torch.float32, **options)


def check_optimizer() -> list[Finding]:
    """Task 1.5: all of adamw.py."""
    try:
        opt_class = importlib.import_module("optimizer").AdamW
        if not adamw.is_started(opt_class):
            return [Finding("not started", "")]
        wrong = [result for result in adamw.check_all(opt_class) if not result.passed]
        explaining = adamw.explain(opt_class) if wrong else []
    except (Exception, SystemExit) as error:
        return [describe(error)]
    failed: dict[str, list[str]] = {}  # what is wrong → the checks that say so: all the same error
    for result in wrong:
        failed.setdefault(" ".join(result.detail.split()), []).append(result.name)
    texts = [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {text}"
        for text, names in failed.items()
    ]
    return [*(Finding("values", text) for text in texts), *explaining]


def forward_begun() -> bool:
    """Whether the classifier's forward is more than its stub, told without a working __init__."""
    ids = torch.ones(1, 2, dtype=torch.int64)
    try:
        classifier = importlib.import_module("classifier").BertSentimentClassifier
        bare = classifier.__new__(classifier)
        nn.Module.__init__(bare)
        classifier.forward(bare, ids, ids)
    except (Exception, SystemExit) as error:
        return describe(error).kind != "not started"
    return True


def check(entry: GradedTask) -> list[Finding]:
    """What is wrong with the student's function for a task; nothing if it is right."""
    if entry.id == "optimizer.step":
        return check_optimizer()
    if entry.id == "classifier.forward" and check(graded_task("classifier.init")):
        if not forward_begun():
            return [Finding("not started", "")]
        return [Finding("waits", f"for Task {graded_task('classifier.init').number}")]
    if entry.id == "classifier.init":
        findings = run_and_compare(entry.id, torch.float32)
    else:
        findings = check_model(entry.id)
    if entry.id == "bert.layer" and findings and not check_model(entry.id, alone=False):
        return []  # it goes another way to the right result
    begun = findings and findings[0].kind != "not started"
    return findings + (explain(entry.id, findings) if begun else [])
