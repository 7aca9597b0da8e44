"""Write checks/part3/references.data: inputs of part 3's tasks and results, by transformers.

    python -m tests.make_modern_bert          seconds

The results are those of transformers' ModernBERT: its rotary embedding, its mask of a local layer,
its MLP, in float64. The same seed on the same machine gives the same bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch
import transformers
from torch import Tensor
from transformers.masking_utils import create_bidirectional_sliding_window_mask
from transformers.models.modernbert import modeling_modernbert as theirs

from checks.fixed_dropout import FixedDropout
from checks.part3 import runs
from tests import make_sanity_check
from training.cli import scripts

OUT = Path(runs.__file__).with_name("references.data")


@contextlib.contextmanager
def exact(dtype: torch.dtype) -> Iterator[None]:
    """Let transformers turn and normalise in a type, which else does so in float32."""
    with (
        mock.patch.multiple(torch, float=dtype, float32=dtype),
        mock.patch.object(torch.Tensor, "float", lambda tensor: tensor.to(dtype)),
    ):
        yield


def config(**values) -> transformers.ModernBertConfig:
    """A configuration of theirs, of one local layer."""
    return transformers.ModernBertConfig(
        vocab_size=20, num_hidden_layers=1, layer_types=["sliding_attention"],
        pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2,
        attn_implementation="eager", **values,
    )  # fmt: skip


def rotary(noise) -> dict[str, Tensor]:
    """Task 3.1."""
    batch, heads, length, width = runs.BATCH, runs.HEADS, runs.LENGTH, runs.WIDTH
    x, cotangent = noise(batch, heads, length, width), noise(batch, heads, length, width)
    source = x.clone().requires_grad_()
    with exact(torch.float64):
        made = config(
            hidden_size=heads * width, num_attention_heads=heads, local_rope_theta=runs.THETA
        )
        angles = theirs.ModernBertRotaryEmbedding(made)
        cos, sin = angles(x, torch.arange(length)[None], "sliding_attention")
        turned, _ = theirs.apply_rotary_pos_emb(source, source, cos, sin)
    (grad,) = torch.autograd.grad(turned, source, cotangent)
    return {
        "inputs/x": x,
        "inputs/theta": torch.tensor(runs.THETA, dtype=torch.float64),
        "inputs/cotangent": cotangent,
        "values/turned": turned.detach(),
        "values/a bfloat16 result stays bfloat16": torch.tensor([True]),
        "values/a bfloat16 result is close to the float32 result": torch.tensor([True]),
        "gradients/x": grad,
    }


def local_mask() -> dict[str, Tensor]:
    """Task 3.2: where the additive mask of a local layer is 0."""
    tensors = {"inputs/sizes": torch.tensor(runs.SIZES)}
    for length, window in runs.SIZES:
        mask = create_bidirectional_sliding_window_mask(
            config=config(hidden_size=8, num_attention_heads=1, local_attention=window),
            inputs_embeds=torch.zeros(1, length, 8),
            attention_mask=torch.ones(1, length, dtype=torch.long),
        )
        seen = torch.ones(length, length) > 0 if mask is None else mask[0, 0] == 0
        tensors[f"values/mask of {length} tokens, window {window}"] = seen
    return tensors | {"values/masks are of type torch.bool": torch.tensor([True])}


def geglu(noise) -> dict[str, Tensor]:
    """Task 3.3."""
    made = config(
        hidden_size=runs.HIDDEN, num_attention_heads=1,
        intermediate_size=runs.INTERMEDIATE, mlp_dropout=runs.DROPOUT,
    )  # fmt: skip
    module = theirs.ModernBertMLP(made).double().eval()
    for parameter in module.parameters():
        parameter.data = 0.3 * noise(*parameter.shape)
    hidden, cotangent = noise(4, 7, runs.HIDDEN), noise(4, 7, runs.HIDDEN)
    source = hidden.clone().requires_grad_()
    result = module(source)
    names = {"hidden_states": source, "interm_dense.weight": module.Wi.weight}
    names |= {"out_dense.weight": module.Wo.weight}
    grads = torch.autograd.grad(result, [*names.values()], cotangent)
    with FixedDropout():
        trained = module.train()(hidden)
    return {
        "inputs/hidden": hidden,
        "inputs/cotangent": cotangent,
        "inputs/interm_dense": module.Wi.weight.detach(),
        "inputs/out_dense": module.Wo.weight.detach(),
        "values/result": result.detach(),
        "dropout/result": trained.detach(),
        **{f"gradients/{name}": grad for name, grad in zip(names, grads, strict=True)},
    }


def tensors(seed: int) -> dict[str, Tensor]:
    """All that the file holds."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    tasks = {
        "modern.rotary": rotary(noise),
        "modern.local_mask": local_mask(),
        "modern.geglu": geglu(noise),
    }
    return {f"{task}/{name}": x for task, made in tasks.items() for name, x in made.items()}


def main() -> None:
    """Write the file."""
    args = make_sanity_check.arguments(OUT)
    make_sanity_check.write(tensors(args.seed), args.out, args.seed)


if __name__ == "__main__":
    scripts.run_script(main)
