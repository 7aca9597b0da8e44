"""lessons/attention_maps.py: equal to transformers, and its page in a real browser."""

import base64
import json
import re

import numpy as np
import pytest
import torch
import transformers
from factories import padded_batch, random_bert
from running import assert_refused, succeeded

from bert import BertModel
from lessons import attention_maps
from lessons.attention_maps import page, policy_of
from training.fast import replace_by_kernels


@pytest.mark.parametrize(
    ("dtype", "atol", "pair", "by_kernel"),
    [(torch.float32, 1e-6, True, True), (torch.float64, 1e-14, False, False)],
)
def test_maps_are_those_of_transformers(dtype, atol, pair, by_kernel):
    ours = random_bert()
    if by_kernel:
        replace_by_kernels(ours)
    config = transformers.BertConfig(**vars(ours.config), attn_implementation="eager")
    theirs = transformers.BertModel(config).eval()
    theirs.load_state_dict(ours.to_hf_weights(), strict=True)
    ours, theirs = ours.to(dtype), theirs.to(dtype)
    ids, mask, segments = padded_batch(9, 6, 2)
    segments = segments if pair else None
    maps = attention_maps.attention_maps(ours, ids, mask, segments)
    with torch.no_grad():
        wanted = theirs(ids, mask, segments, output_attentions=True).attentions
    assert maps.dtype == dtype
    torch.testing.assert_close(maps, torch.stack(wanted), atol=atol, rtol=0)
    assert maps.max() > 0.3  # uneven enough for the comparison to mean something


ATTACK = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(1)> & \" ' $x$"


def some_maps() -> np.ndarray:
    scores = np.random.default_rng(0).normal(size=(2, 3, 5, 5)) * 2  # (layers, H, L, L)
    powers = np.exp(scores)
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float32)


def test_the_page_holds_everything_fetches_nothing_and_runs_no_text():
    maps = some_maps()
    text = page(maps, ["[CLS]", *ATTACK.split()[:3], "[SEP]"], ATTACK)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    kept = np.frombuffer(base64.b64decode(data["maps"]), np.uint8).reshape(maps.shape) / 255
    assert np.abs(kept - maps).max() <= 0.5 / 255 + 1e-6
    assert not re.search(r"https?://|src=\"|@import|url\(", text)
    assert "default-src 'none'" in policy_of("x")
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "<title>Attention: &lt;/script&gt;" in text


SHADES = """  // the opacity of each cell of the table, and of each token
  document.querySelectorAll(".token")[3].dispatchEvent(new Event("mouseenter"));
  document.querySelectorAll("#layers input")[1].click();
  document.querySelectorAll("#heads input")[2].click();  // 0 is "all"
  return ["#each td", ".token"].map(cells => Array.from(document.querySelectorAll(cells), cell => {
    const colour = getComputedStyle(cell).backgroundColor.match(/rgba?\\(([^)]*)\\)/)[1].split(",");
    return colour.length > 3 ? Number(colour[3]) : 1;
  }));
"""


def test_hovering_shows_what_each_head_attends_to(in_browser):
    maps = some_maps()
    shown = in_browser(page(maps, "[CLS] a warm film [SEP]".split(), "a warm film"), SHADES)
    for shades, weights in zip(shown, (maps[1, :, 3], maps[1, 1, 3]), strict=True):
        # a byte's and CSS's rounding
        assert np.abs(np.array(shades).reshape(weights.shape) - weights).max() < 0.006


def test_a_pair_takes_an_embed_with_segments(
    run_script_here, tiny_model_folder, tmp_path, monkeypatch
):
    line = ("--text", "warm film", "--pair", "dull", "--model", tiny_model_folder)
    assert "2 × 4 × " in succeeded(run_script_here(attention_maps, *line)).out
    assert '"[CLS]", "w", "##a"' in (tmp_path / "predictions/attention.html").read_text("utf-8")
    embed = BertModel.embed
    monkeypatch.setattr(BertModel, "embed", lambda self, input_ids: embed(self, input_ids))
    assert_refused(run_script_here(attention_maps, *line), "embed in bert.py takes none")
    succeeded(run_script_here(attention_maps, *line[:2], *line[4:]))
