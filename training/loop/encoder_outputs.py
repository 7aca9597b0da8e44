"""What an encoder returns: collected as it runs, or looked up instead of run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from training.loop.batches import cpu_copy, evaluation_loader
from training.loop.progress import progress_bar


@contextmanager
def outputs_of(*modules: nn.Module) -> Iterator[list[Any]]:
    """In a with block, collect what the modules return in forward passes, in their order."""
    outputs: list[Any] = []
    hooks = [m.register_forward_hook(lambda *call: outputs.append(call[-1])) for m in modules]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def unique_texts(datasets: Iterable[Any]) -> list[tuple[str, str]]:
    """Each text of the data sets' rows once, as a row without an id."""
    texts = (text for rows in datasets for row in rows for text in row[: rows.texts_per_row])
    return [(text, "") for text in dict.fromkeys(texts)]


@torch.no_grad()
def cache_encoder_outputs(
    model: nn.Module,
    heads: Sequence[Callable[..., Tensor]],
    datasets: Sequence[Any],
    batch_size: int,
    device: torch.device,
) -> None:
    """Run the frozen ``model.bert`` once over all texts; from then on it looks its output up.

    It runs without dropout. For a batch of known texts it then returns pooler_output (B, D) and the
    last_hidden_state of [CLS] (B, 1, D). If a head looks at more than that, nothing is cached.

    Args:
        heads: what the model computes from its encoder's output, of (ids, mask) or two such pairs.
    """
    encoder, encode = model.bert, model.bert.forward
    model.eval()

    def encode_cls(ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        output = encode(ids, mask)
        return output | {"last_hidden_state": output["last_hidden_state"][:, :1]}

    def results(forward: Callable) -> Tensor:
        encoder.forward = forward
        calls = [(head, len(signature(head).parameters) // 2) for head in heads]
        return torch.cat([head(*(ids, mask) * count).float().flatten() for head, count in calls])

    batch = datasets[0].collate_fn([datasets[0][i] for i in range(min(8, len(datasets[0])))])
    ids, mask = batch["token_ids"].to(device), batch["attention_mask"].to(device)
    if not torch.allclose(results(encode_cls), results(encode)):
        print("the frozen BERT runs again in every step: the model looks at more than [CLS]")
        return
    known: dict[bytes, tuple[Tensor, Tensor]] = {}

    def key(row: Tensor, mask: Tensor) -> bytes:
        return row.numpy()[: mask.numpy().sum()].tobytes()

    for dataset in datasets:
        for batch in progress_bar(evaluation_loader(dataset, batch_size), "encode"):
            ids, mask = batch["token_ids"], batch["attention_mask"]
            output = encode_cls(ids.to(device), mask.to(device))
            vectors = zip(output["last_hidden_state"], output["pooler_output"], strict=True)
            known.update(zip(map(key, ids, mask), vectors, strict=True))

    def look_up(input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        pairs = [known.get(k) for k in map(key, cpu_copy(input_ids), cpu_copy(attention_mask))]
        if None in pairs:
            return encode(input_ids, attention_mask)
        cls, pooled = (torch.stack(kind) for kind in zip(*pairs, strict=True))
        return {"last_hidden_state": cls, "pooler_output": pooled}  # (B, 1, D), (B, D)

    encoder.forward = look_up
