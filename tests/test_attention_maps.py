"""lessons/attention_maps.py: equal to transformers, and its page in a real browser."""

import base64
import json
import re
import time

import numpy as np
import pytest
import torch
import transformers
from factories import padded_batch, stir, tiny_config
from running import assert_refused, succeeded

from bert import BertModel
from lessons import attention_maps
from lessons.attention_maps import page, policy
from training.fast import replace_by_kernels

ATTACK = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(1)> & \" ' $x$"


@pytest.fixture(params=["formula", "kernel"])
def models(request):
    """Ours and transformers' eager one on the same weights, large enough to attend unevenly."""
    torch.manual_seed(3)
    ours = stir(BertModel(tiny_config()), 0.2)
    if request.param == "kernel":
        replace_by_kernels(ours)
    config = transformers.BertConfig(**ours.config.to_dict(), attn_implementation="eager")
    theirs = transformers.BertModel(config).eval()
    theirs.load_state_dict(ours.to_hf_weights(), strict=True)
    return ours, theirs


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
@pytest.mark.parametrize("pair", [False, True])
def test_maps_are_those_of_transformers(models, dtype, atol, pair):
    ours, theirs = (model.to(dtype) for model in models)
    ids, mask, segments = padded_batch(9, 6, 2)
    segments = segments if pair else None
    maps = attention_maps.attention_maps(ours, ids, mask, segments)
    with torch.no_grad():
        wanted = theirs(ids, mask, segments, output_attentions=True).attentions
    assert maps.shape == (2, 3, 4, 9, 9)
    assert maps.dtype == dtype
    torch.testing.assert_close(maps, torch.stack(wanted), atol=atol, rtol=0)
    assert (maps[:, 1, :, :, 6:] == 0).all()
    assert maps.max() > 0.3  # uneven enough for the comparison to mean something


def some_maps() -> np.ndarray:
    scores = np.random.default_rng(0).normal(size=(2, 3, 5, 5)) * 2  # (layers, H, L, L)
    powers = np.exp(scores)
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float32)


def test_page_holds_everything_and_fetches_nothing():
    maps = some_maps()
    text = page(maps, ["[CLS]", "a", "b", "c", "[SEP]"], "a b c")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["tokens"] == ["[CLS]", "a", "b", "c", "[SEP]"]
    kept = np.frombuffer(base64.b64decode(data["maps"]), np.uint8).reshape(maps.shape) / 255
    assert np.abs(kept - maps).max() <= 0.5 / 255 + 1e-6
    assert not re.search(r"https?://|src=|@import|url\(", text)
    assert "default-src 'none'" in policy("x")
    # and a text cannot leave its place
    text = page(maps, ["[CLS]", *ATTACK.split()[:3], "[SEP]"], ATTACK)
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "<title>Attention: &lt;/script&gt;" in text


TOKENS = ["[CLS]", "a", "warm", "film", "[SEP]"]
BUTTON = "document.querySelectorAll('.token')[{}]"
# the opacity of the background of every cell of the table, or of the sentence
SHADES = "Array.from(document.querySelectorAll('{}'), e => {{ const m = " + (
    "getComputedStyle(e).backgroundColor.match(/rgba?\\(([^)]*)\\)/)[1].split(',');"
    " return m.length > 3 ? Number(m[3]) : 1; }})"
)


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens the page of some maps."""

    def show(tokens: list[str], text: str) -> np.ndarray:
        maps = some_maps()
        (tmp_path / "page.html").write_text(page(maps, tokens, text), encoding="utf-8")
        browser.open(tmp_path / "page.html")
        return maps

    yield show
    assert browser.complaints() == []


def assert_shown(browser, table: np.ndarray, sentence: np.ndarray) -> None:
    """The table shows (heads, L) weights, the sentence (L,): within a byte's and CSS's rounding."""
    cells = np.array(browser.eval(SHADES.format("#each td"))).reshape(table.shape)
    assert np.abs(cells - table).max() < 0.006
    assert np.abs(np.array(browser.eval(SHADES.format(".token"))) - sentence).max() < 0.006


def test_hovering_shows_what_each_head_attends_to(browser, opened):
    maps = opened(TOKENS, "a warm film")
    for token in (2, 4, 3):
        browser.hover(BUTTON.format(token))
        assert_shown(browser, maps[0, :, token], maps[0, :, token].mean(axis=0))
    browser.click("document.querySelectorAll('#layers input')[1]")
    assert_shown(browser, maps[1, :, 3], maps[1, :, 3].mean(axis=0))
    browser.click("document.querySelectorAll('#heads input')[2]")  # 0 is "all"
    assert_shown(browser, maps[1, :, 3], maps[1, 1, 3])


def test_html_in_the_text_is_only_text(browser, opened):
    opened(["[CLS]", ATTACK, "<b>", "&amp;", "[SEP]"], ATTACK)
    browser.hover(BUTTON.format(1))
    time.sleep(0.2)  # whatever it might have started
    assert browser.eval("document.querySelectorAll('.token')[1].textContent") == ATTACK
    assert browser.eval("document.title") == f"Attention: {ATTACK[:80]}"
    assert browser.eval("document.querySelectorAll('img, b').length") == 0


def test_command_writes_both_files(run_script_here, tiny_model_folder, tmp_path):
    model = str(tiny_model_folder)
    done = run_script_here(
        attention_maps, "--text", "warm film", "--pair", "dull", "--model", model
    )
    assert done.code == 0, done.err
    assert "2 × 4 × " in done.out
    assert (tmp_path / "predictions/attention.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "predictions/attention.html").read_text(encoding="utf-8")
    assert '"[CLS]", "w", "##a"' in text


def test_an_embed_without_segments_says_so(run_script_here, tiny_model_folder, monkeypatch):
    embed = BertModel.embed
    monkeypatch.setattr(BertModel, "embed", lambda self, input_ids: embed(self, input_ids))
    line = ("--text", "a", "--model", tiny_model_folder)
    done = run_script_here(attention_maps, *line, "--pair", "b")
    assert_refused(done, "embed in bert.py takes none", code=1)
    succeeded(run_script_here(attention_maps, *line))


def test_bad_input_is_one_line(run_script_here, tiny_model_folder, tmp_path):
    line = ("--text", "  ", "--model", tiny_model_folder)
    assert_refused(run_script_here(attention_maps, *line), "holds no word")
    assert not (tmp_path / "predictions").exists()
