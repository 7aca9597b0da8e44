"""Write sanity_check.data: a tiny random BERT's inputs, outputs and gradients, by transformers.

    python -m tests.make_sanity_check          seconds

Every result comes from Hugging Face's BertForSequenceClassification and its parts, with eager
attention, in float64; ours is only the table that translates the weights' names, and
FixedDropout, under which both sides run. The tables of known mistakes are kept;
course/make_tables.py makes them. The same seed on the same machine gives the same bytes.
"""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from base_bert import weight_names
from checks.fixed_dropout import FixedDropout
from checks.references import (
    CLASSIFIER_DROPOUT,
    DATA,
    NUM_LABELS,
    TABLES,
    TINY,
    inputs_of,
    metadata,
)
from training.cli import flags, scripts
from training.files.writing import atomic_write

LENGTHS = (6, 10, 2, 9, 5)  # pieces of each sequence in a batch, the rest is padding
HIDDEN = -1e20  # hides padding as the type's minimum does, but mistakes with it stay finite


def tiny_reference(seed: int) -> transformers.BertForSequenceClassification:
    """A random model; unlike freshly initialised ones, no weight of it is 0, no norm is neutral."""
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        **TINY,
        num_labels=NUM_LABELS,
        classifier_dropout=CLASSIFIER_DROPOUT,
        attn_implementation="eager",
    )
    model = transformers.BertForSequenceClassification(config).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.3 * noise + (name.endswith("LayerNorm.weight")))
    return model


def capture(**modules: nn.Module) -> dict[str, Tensor]:
    """The last output of some modules, by name; filled in whenever they run."""
    outputs = {}
    for name, module in modules.items():

        def keep(_module, _inputs, output, name=name) -> None:
            outputs[name] = output[0] if isinstance(output, tuple) else output

        module.register_forward_hook(keep)
    return outputs


def heads(projected: Tensor) -> Tensor:
    """(B, L, D) → (B, H, L, W)"""
    return projected.unflatten(-1, (TINY["num_attention_heads"], -1)).transpose(1, 2)


def grads(result: Tensor, cotangent: Tensor, **sources: Tensor) -> dict[str, Tensor]:
    """d(result · cotangent) for every source, by name."""
    found = torch.autograd.grad(result, list(sources.values()), cotangent, retain_graph=True)
    return dict(zip(sources, found, strict=True))


def leaf(tensor: Tensor) -> Tensor:
    """A copy that takes gradients and has no history."""
    return tensor.detach().clone().requires_grad_()


def tiny_tensors(seed: int) -> dict[str, Tensor]:
    """All that sanity_check.data holds about the tiny model."""
    model = tiny_reference(seed)
    generator = torch.Generator().manual_seed(seed + 1)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    batch, length, width = len(LENGTHS), max(LENGTHS), TINY["hidden_size"]
    real = torch.arange(length) < torch.tensor(LENGTHS)[:, None]  # (B, L)
    mask = torch.zeros(batch, 1, 1, length, dtype=torch.float64)
    mask[~real[:, None, None, :]] = HIDDEN
    ids = torch.randint(5, TINY["vocab_size"], (batch, length), generator=generator) * real
    tensors = {f"weights/head.{k}": v for k, v in model.classifier.named_parameters()}
    names = dict(weight_names(TINY["num_hidden_layers"]))
    for theirs, ours in names.items():
        tensors[f"weights/{ours}"] = model.bert.get_parameter(theirs)

    def put(task_id: str, kind: str, values: dict[str, Tensor]) -> None:
        tensors.update({f"{task_id}/{kind}/{k}": v.detach().clone() for k, v in values.items()})

    with FixedDropout():
        attention_tensors(model.eval(), noise(batch, length, width), mask, noise, put)
        add_norm_tensors(model.eval(), noise, put, batch, length)
        layer_tensors(model.eval(), noise(batch, length, width), mask, noise, put)
        model_tensors(model.eval(), ids, real, noise, put, {v: k for k, v in names.items()})
        classifier_tensors(model.eval(), ids, real, noise, put)
        trace_tensors(model.eval(), tensors, put, {v: k for k, v in names.items()})
    return {name: tensor.detach().contiguous() for name, tensor in sorted(tensors.items())}


def attention_tensors(model, hidden: Tensor, mask: Tensor, noise, put) -> None:
    """Task 1.1: BertSelfAttention from its projections on."""
    module = model.bert.encoder.layer[0].attention.self
    linears = capture(key=module.key, query=module.query, value=module.value)
    context, _ = module(hidden, mask)
    cotangent = noise(*context.shape)
    inputs = {name: linears[name] for name in ("key", "query", "value")}
    given = {name: heads(tensor) for name, tensor in inputs.items()}
    put("bert.attention", "inputs", given | {"mask": mask, "cotangent": cotangent})
    put("bert.attention", "values", {"context": context})
    found = grads(context, cotangent, **inputs)
    put("bert.attention", "gradients", {name: heads(tensor) for name, tensor in found.items()})
    module.train()
    put("bert.attention", "dropout", {"context": module(hidden, mask)[0]})
    with FixedDropout(axis=-2):  # what dropping the last axis means to (B, H, keys, queries)
        put("bert.attention", "dropout", {"context (keys first)": module(hidden, mask)[0]})


def add_norm_tensors(model, noise, put, batch: int, length: int) -> None:
    """Task 1.2: BertSelfOutput and BertOutput."""
    layer = model.bert.encoder.layer[0]
    width, wide = TINY["hidden_size"], TINY["intermediate_size"]
    inputs = {
        "input": noise(batch, length, width),
        "attended": noise(batch, length, width),
        "expanded": noise(batch, length, wide),
        "cotangent": noise(batch, length, width),
    }
    put("bert.add_norm", "inputs", inputs)
    places = (
        ("attended", "attention", layer.attention.output),
        ("expanded", "feed-forward", layer.output),
    )
    for name, place, module in places:
        input, output = leaf(inputs["input"]), leaf(inputs[name])
        result = module(output, input)
        put("bert.add_norm", "values", {f"result (after {place})": result})
        sources = {"input": input, "output": output}
        for label, part in (("dense_layer", module.dense), ("ln_layer", module.LayerNorm)):
            sources |= {f"{label}.{kind}": x for kind, x in part.named_parameters()}
        found = grads(result, inputs["cotangent"], **sources)
        put("bert.add_norm", "gradients", {f"{k} (after {place})": v for k, v in found.items()})
        module.train()
        put("bert.add_norm", "dropout", {f"result (after {place})": module(output, input)})


def layer_tensors(model, hidden: Tensor, mask: Tensor, noise, put) -> None:
    """Task 1.3: BertLayer, and what its parts are given, return and send backwards."""
    layer = model.bert.encoder.layer[0]
    attention = layer.attention.self
    captured = capture(
        key=attention.key,
        query=attention.query,
        value=attention.value,
        attended=attention,
        normed=layer.attention.output,
        expanded=layer.intermediate,
    )
    cotangent, hidden = noise(*hidden.shape), leaf(hidden)
    put("bert.layer", "inputs", {"hidden": hidden, "mask": mask, "cotangent": cotangent})

    def run(kind: str) -> Tensor:
        result = layer(hidden, mask)
        results = {"attended": captured["attended"], "normed": captured["normed"], "result": result}
        given = {f"{k} of attention": heads(captured[k]) for k in ("key", "query", "value")}
        given["attention_mask of attention"] = mask
        calls = (
            (hidden, captured["attended"], layer.attention.output),
            (captured["normed"], captured["expanded"], layer.output),
        )
        for number, (input, output, module) in enumerate(calls, start=1):
            seen = {
                "input": input,
                "output": output,
                "dense_layer": module.dense.weight,
                "dropout": torch.tensor(module.dropout.p, dtype=torch.float64),
                "ln_layer": module.LayerNorm.weight,
            }
            given |= {f"{k} of add_norm's call {number}": v for k, v in seen.items()}
        put("bert.layer", kind, results | given)
        return result

    result = run("values")
    linears = {f"{n}.weight": getattr(attention, n).weight for n in ("query", "key", "value")}
    linears["interm_dense.weight"] = layer.intermediate.dense.weight
    sources = {"hidden_states": hidden, "result of add_norm's call 1": captured["normed"]}
    put("bert.layer", "gradients", grads(result, cotangent, **sources, **linears))
    inner = {name: captured[name] for name in ("key", "query", "value", "attended", "normed")}
    found = grads(result, cotangent, **inner)
    replay = {f"attended {name}": heads(found[name]) for name in ("key", "query", "value")}
    # What each add & norm alone sends back to its two inputs
    calls = (
        ("normed", layer.attention.output, captured["attended"], hidden, found["normed"]),
        ("result", layer.output, captured["expanded"], captured["normed"], cotangent),
    )
    for name, module, output, input, arriving in calls:
        output, input = leaf(output), leaf(input)
        alone = grads(module(output, input), arriving, input=input, output=output)
        replay |= {f"{name} {key}": value for key, value in alone.items()}
    put("bert.layer", "replay", replay)
    layer.train()
    run("dropout")


def model_tensors(model, ids: Tensor, real: Tensor, noise, put, names: dict[str, str]) -> None:
    """Task 1.4: BertEmbeddings; and the whole BertModel. ``names``: ours → theirs."""
    bert, embeddings = model.bert, model.bert.embeddings
    segments = (torch.arange(ids.size(1)) > 2).long() * real
    result = embeddings(input_ids=ids)
    # Nothing flows back to padding, whose vector some leave out of training and some do not.
    cotangent = noise(*result.shape) * real[..., None]
    pooler_cotangent = noise(ids.size(0), TINY["hidden_size"])
    given = {"ids": ids, "segments": segments, "real": real, "cotangent": cotangent}
    put("bert.embed", "inputs", given | {"pooler_cotangent": pooler_cotangent})
    values = {
        "embeddings": result,
        "embeddings of 3 tokens": embeddings(input_ids=ids[:, :3]),
        "embeddings with token_type_ids": embeddings(input_ids=ids, token_type_ids=segments),
    }
    put("bert.embed", "values", values)
    own = {ours: bert.get_parameter(theirs) for ours, theirs in names.items()}
    found = grads(result, cotangent, **{k: v for k, v in own.items() if "embed" in k})
    put("bert.embed", "gradients", found)
    results = bert(input_ids=ids, attention_mask=real.long())
    hidden, pooled = results.last_hidden_state * real[..., None], results.pooler_output
    put("whole model", "values", {"last_hidden_state": hidden, "pooler_output": pooled})
    put("whole model", "values", {"pooler_output of one sentence": pooled[:1]})
    put("whole model", "gradients", grads(pooled, pooler_cotangent, **own))
    bert.train()
    put("bert.embed", "dropout", {"embeddings": embeddings(input_ids=ids)})
    pooled = bert(input_ids=ids, attention_mask=real.long()).pooler_output
    put("whole model", "dropout", {"pooler_output": pooled})


def classifier_tensors(model, ids: Tensor, real: Tensor, noise, put) -> None:
    """Task 1.7: BertForSequenceClassification behind an encoder in evaluation mode."""
    captured = capture(encoder=model.bert)
    logits = model(input_ids=ids, attention_mask=real.long()).logits
    cotangent = noise(*logits.shape)
    states, mask = captured["encoder"].last_hidden_state, real.long()
    given = {"input_ids": ids, "attention_mask": mask, "last_hidden_state": states}
    put("classifier.forward", "inputs", given | {"cotangent": cotangent})
    values = {
        "logits": logits,
        "logits of one sentence": logits[:1],
        "input_ids given to self.bert": ids,
        "attention_mask given to self.bert": mask,
    }
    put("classifier.forward", "values", values)
    sources = {
        "last_hidden_state": states,
        "word embeddings": model.bert.embeddings.word_embeddings.weight,
        "Linear's weight": model.classifier.weight,
        "Linear's bias": model.classifier.bias,
    }
    put("classifier.forward", "gradients", grads(logits, cotangent, **sources))
    model.dropout.train()
    dropped = model(input_ids=ids, attention_mask=real.long()).logits
    put("classifier.forward", "dropout", {"logits": dropped})


def trace_tensors(model, given: dict[str, Tensor], put, names: dict[str, str]) -> None:
    """The whole BertModel's states, and the gradients of a loss on both of its results.

    Args:
        given: the inputs of task 1.4, whose cotangents make the loss.
        names: ours → theirs.
    """
    bert, inputs = model.bert, inputs_of("bert.embed", given)
    modules = {"embeddings": bert.embeddings}
    for number, layer in enumerate(bert.encoder.layer, start=1):
        places = {
            "attention": layer.attention.self,
            "first add & norm": layer.attention.output,
            "feed-forward": layer.intermediate,
            "second add & norm": layer.output,
        }
        modules |= {f"layer {number}, {place}": module for place, module in places.items()}
    states = capture(**modules)
    results = bert(input_ids=inputs.ids, attention_mask=inputs.real.long())
    last, pooled = results.last_hidden_state, results.pooler_output
    put("trace", "values", states | {"last hidden state": last, "pooler": pooled})
    loss = (last * inputs.cotangent).sum() + (pooled * inputs.pooler_cotangent).sum()
    own = {ours: bert.get_parameter(theirs) for ours, theirs in names.items()}
    put("trace", "gradients", grads(loss, torch.ones_like(loss), **states, **own))


def write(tensors: dict[str, Tensor], path: Path, seed: int) -> None:
    """Write references and what made them; the tables of known mistakes in the file stay."""
    tensors, mistakes = dict(tensors), {}
    if path.exists():
        mistakes = metadata(path)["mistakes"]
        with safe_open(path, framework="pt") as file:
            tables = [name for name in file.keys() if name.startswith(TABLES)]
            tensors |= {name: file.get_tensor(name) for name in tables}
    facts = {"seed": seed, "torch": torch.__version__, "transformers": transformers.__version__}
    # One entry, since the order of several is not fixed in the file
    header = {"about": json.dumps(facts | {"mistakes": mistakes})}
    data = {key: tensors[key].contiguous() for key in sorted(tensors)}
    with atomic_write(path, "wb") as file:
        file.write(save(data, metadata=header))
    print(f"wrote {path}: {len(tensors)} tensors, {path.stat().st_size:,} bytes")


def arguments(out: Path) -> Namespace:
    """The command line: a seed, and the file."""
    parser = flags.OneLineParser(description=f"Write {out.name} with transformers.")
    parser.add_argument("--seed", type=int, default=11711)
    parser.add_argument("--out", type=Path, default=out)
    return parser.parse_args()


def main() -> None:
    """Write the tiny model's tensors."""
    args = arguments(DATA)
    write(tiny_tensors(args.seed), args.out, args.seed)


if __name__ == "__main__":
    scripts.run_script(main)
