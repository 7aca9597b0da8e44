"""What the tests of lessons that put a head on BERT share: transformers' models, gradients."""

import json
from pathlib import Path

import pytest
import torch

from base_bert import weight_names

PRECISIONS = pytest.mark.parametrize(
    ("dtype", "values", "gradients"), [(torch.float32, 1e-6, 1e-5), (torch.float64, 1e-14, 1e-12)]
)


def read_json(path: Path):
    return json.loads(path.read_text())


def make_twins(ours, theirs_class, folder: Path) -> tuple:
    """Our model and transformers', loaded from the folder that ours wrote."""
    ours.save_pretrained(folder)
    theirs, info = theirs_class.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"]
    assert all("pooler" in name for name in info["unexpected_keys"])
    return ours, theirs.eval()


def compare_gradients(ours, theirs, head: str, atol: float) -> None:
    """Those of all parameters, by transformers' names; the pooler is not used."""
    wanted = {name: p.grad for name, p in theirs.named_parameters()}
    pairs = [(f"bert.{a}", f"bert.{b}") for a, b in weight_names(2) if not a.startswith("pooler")]
    pairs += [(f"{head}.{key}",) * 2 for key in ("weight", "bias")]
    assert {name for name, _ in pairs} == wanted.keys()
    for hf, own in pairs:
        grad = ours.get_parameter(own).grad
        torch.testing.assert_close(grad, wanted[hf], atol=atol, rtol=1e-4)
    assert wanted[f"{head}.weight"].abs().max() > 1e-3
