"""What every head of every layer attends to: an interactive page.

    python -m lessons.attention_maps --text "A film to see twice."
    python -m lessons.attention_maps --text "It never drags." --model DIR --out drags.html

Writes one HTML file that needs no network: point at a token, or go there with the arrow keys, to
see what each head attends to. attention() returns the context only, so it is called again with
values that tell which token they belong to: that works with any bert.py of the assignment, and
shows what its attention really computes. Shapes: B batch, H heads, L tokens, D hidden size,
W = D / H.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from torch import Tensor, nn

from bert import BertModel
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import default_model
from training.files.writing import write_whole
from training.loop.models import check_segments, outputs_of
from training.reports.page import STYLE
from utils import get_extended_attention_mask

MAX_TOKENS = 64  # pages of longer texts show little
STEPS = 255  # the page keeps a probability as a byte


def attention_maps(
    model: BertModel,
    input_ids: Tensor,
    attention_mask: Tensor,
    token_type_ids: Tensor | None = None,
) -> Tensor:
    """The attention probabilities of all heads (Vaswani et al. 2017, equation 1), without dropout.

    Returns:
        (layers, B, H, L, L); row i of the last two axes is what token i attends to, and sums to 1.
    """
    layers = [layer.self_attention for layer in model.eval().bert_layers]
    segments = () if token_type_ids is None else (token_type_ids,)
    with (
        torch.no_grad(),
        outputs_of(*(layer.query for layer in layers)) as queries,
        outputs_of(*(layer.key for layer in layers)) as keys,
    ):
        model(input_ids, attention_mask, *segments)
    added = get_extended_attention_mask(attention_mask, model.dtype)  # (B, 1, 1, L)
    parts = zip(layers, queries, keys, strict=True)
    return torch.stack([probabilities(*part, added) for part in parts])


@torch.no_grad()
def probabilities(layer: nn.Module, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
    """The weights that ``layer.attention`` gives to the values.

    Value j is row j of the identity matrix, so output i is row i of the probabilities. The rows
    have L numbers and a value has W, so the rows are passed W numbers at a time.

    Args:
        query, key: (B, L, D), before they are split into heads.
        mask: (B, 1, 1, L), to be added.

    Returns:
        (B, H, L, L)
    """
    heads, length = layer.num_attention_heads, query.size(1)
    query, key = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, key))
    width = query.size(-1)
    rows = torch.eye(length, math.ceil(length / width) * width, dtype=query.dtype)  # (L, ≥ L)
    columns = []
    for part in rows.to(query.device).split(width, dim=-1):  # (L, W)
        context = layer.attention(key, query, part.expand_as(query), mask)  # (B, L, D)
        columns.append(context.unflatten(-1, (heads, width)))  # (B, L, H, W)
    return torch.cat(columns, dim=-1)[..., :length].transpose(1, 2)  # (B, H, L, L)


HERE = Path(__file__).resolve().with_suffix("")  # the page and its script


def fill_in(folder: Path, template: str, **values: Any) -> str:
    """A template of a lesson's folder, or of this one's; what is filled in is escaped."""
    loader = FileSystemLoader([folder, HERE])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template(template).render(values)


def page_of(folder: Path, script: str = "", more: str = "", style: str = "", **values: Any) -> str:
    """The page.html of a lesson's folder, in one file; whatever the values are, they stay text.

    Args:
        more: what else scripts may be, and further directives of the page's policy.
        style: what follows the style of all pages.
    """
    policy = Markup(policy_of(script, more))
    shared = {"policy": policy, "style": Markup(STYLE + style), "script": Markup(script)}
    return fill_in(folder, "page.html", **shared, **values)


def policy_of(script: str, more: str = "") -> str:
    """A content security policy: this script, inline styles, no requests."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}' {more}; "
        "base-uri 'none'; form-action 'none'"
    )


def page(maps: np.ndarray, tokens: Sequence[str], text: str) -> str:
    """The HTML page of a sentence.

    Args:
        maps: (layers, H, L, L) probabilities; the page keeps them in steps of 1/255.
    """
    layers, heads = maps.shape[:2]
    coarse = base64.b64encode(np.rint(maps * STEPS).astype(np.uint8).tobytes()).decode()
    data = {"layers": layers, "heads": heads, "tokens": list(tokens), "maps": coarse}
    script = (HERE / "page.js").read_text(encoding="utf-8")
    return page_of(HERE, script, title=f"Attention: {text[:80]}", data=data)


def main() -> None:
    """Encode one sentence, or a pair, and write the page."""
    parser = OneLineParser(description="Attention of every head, to look at.")
    add = parser.add_argument
    add("--text", required=True, help="the sentence")
    add("--pair", help="a second sentence, read together with it")
    add("--model", help="name or folder of the BERT ($MINBERT_MODEL does the same)")
    add("--out", default="predictions/attention.html", help="the page")
    args = parser.parse_args()
    name = args.model or default_model()
    tokenizer, model = BertTokenizer.from_pretrained(name), BertModel.from_pretrained(name)
    if args.pair:
        check_segments(model, "--pair")
    if not tokenizer.text_to_ids(args.text):
        raise InputError("--text holds no word; give it a sentence")
    most = min(MAX_TOKENS, model.config.max_position_embeddings)
    batch = tokenizer(args.text, args.pair, truncation=True, max_length=most, return_tensors="pt")
    if batch.input_ids.size(1) == most:
        print(f"cut to {most} tokens, if it was longer")
    segments = batch.token_type_ids if args.pair else None
    maps = attention_maps(model, batch.input_ids, batch.attention_mask, segments)[:, 0].numpy()
    shape = "layers × heads × tokens × tokens = " + " × ".join(map(str, maps.shape))
    print(f"{shape}; every row of probabilities sums to 1")
    tokens = tokenizer.convert_ids_to_tokens(batch.input_ids[0])
    write_whole(args.out, page(maps, tokens, args.text))
    print(f"wrote {args.out}: open it in a browser")


if __name__ == "__main__":
    run_script(main)
