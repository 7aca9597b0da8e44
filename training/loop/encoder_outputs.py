"""A frozen encoder gives the same vectors in every epoch: run it once, then look them up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.loop.batches import evaluation_loader
from training.loop.progress import progress_bar


def unique_texts(datasets: Iterable[Any]) -> list[tuple[str, str]]:
    """Each text of the data sets' rows once, as a row without an id."""
    texts = (text for rows in datasets for row in rows for text in row[: rows.texts_per_row])
    return [(text, "") for text in dict.fromkeys(texts)]


def cache_encoder_outputs(
    encoder: nn.Module, datasets: Sequence[Any], batch_size: int, device: torch.device
) -> None:
    """Run a frozen encoder once over all texts; from then on it looks its output up.

    The encoder runs in evaluation mode, without dropout, since its output could not be kept
    otherwise. For a batch of known texts it returns pooler_output (B, D), and last_hidden_state cut
    to [CLS], (B, 1, D); a batch with another text in it is encoded as before.
    """
    encode = encoder.forward
    known: dict[bytes, tuple[Tensor, Tensor]] = {}

    def key(row: Tensor, mask: Tensor) -> bytes:
        return row[: int(mask.sum())].numpy().tobytes()

    encoder.eval()
    for dataset in datasets:
        for batch in progress_bar(evaluation_loader(dataset, batch_size), "encode"):
            ids, mask = batch["token_ids"], batch["attention_mask"]
            with torch.no_grad():
                output = encode(ids.to(device), mask.to(device))
            for row, row_mask, cls, pooled in zip(
                ids, mask, output["last_hidden_state"][:, :1], output["pooler_output"], strict=True
            ):
                known[key(row, row_mask)] = (cls, pooled)

    def look_up(input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        rows = zip(input_ids.cpu(), attention_mask.cpu(), strict=True)
        found = [known.get(key(row, mask)) for row, mask in rows]
        if None in found:
            return encode(input_ids, attention_mask)
        cls, pooled = (torch.stack(kind) for kind in zip(*found, strict=True))
        return {"last_hidden_state": cls, "pooler_output": pooled}  # (B, 1, D), (B, D)

    encoder.forward = look_up
