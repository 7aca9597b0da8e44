"""pretraining/ship.py: half the bytes, the same words behind a [MASK], for transformers too."""

import torch
from support import assert_refused, succeeded
from test_playground import save_word_model
from transformers import BertForMaskedLM

from pretraining import ship
from pretraining.model import PretrainingModel
from training.files.writing import sha256_of


def test_a_shipped_model_is_half_as_large_and_says_the_same(tmp_path, run_script_here):
    run = save_word_model(tmp_path / "run")
    out = tmp_path / "books"
    done = succeeded(run_script_here(ship, run, "--out", out))
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (run, out)]
    assert 0.45 < sizes[1] / sizes[0] < 0.6
    assert sha256_of(out / "model.safetensors") in done.out
    ids = torch.tensor([[2, 9, 4, 8, 3]])
    before, after = (
        PretrainingModel.from_pretrained(str(folder), objective="none") for folder in (run, out)
    )
    assert after.dtype == torch.float32
    mask = torch.ones_like(ids)
    theirs = BertForMaskedLM.from_pretrained(out, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = [model(ids, mask)[0] for model in (before, after)]
        torch.testing.assert_close(logits[0], logits[1], rtol=0, atol=0.1)
        assert not torch.equal(*logits)  # they were rounded
        torch.testing.assert_close(theirs(ids).logits[0], logits[1], rtol=0, atol=1e-5)


def test_what_is_no_model_is_refused(tmp_path, run_script_here):
    (tmp_path / "empty").mkdir()
    done = run_script_here(ship, tmp_path / "empty", "--out", tmp_path / "out")
    assert_refused(done, "holds no vocabulary", code=1)
    assert not (tmp_path / "out").exists()
