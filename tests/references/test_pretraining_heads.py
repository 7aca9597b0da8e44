"""The heads of pre-training: values, losses, gradients and files as transformers has them."""

import pytest
import torch
import transformers
from factories import NO_DROPOUT, padded_batch, save_word_model, stir, tiny_config
from running import assert_same_tensors
from safetensors.torch import load_file, save_file
from transformers import BertForMaskedLM, BertForPreTraining

from lessons import fill_mask, playground
from pretraining.masking import masked_positions, pretraining_losses
from pretraining.model import PretrainingModel

TOLERANCE = {torch.float32: (1e-6, 1e-4, 1e-7), torch.float64: (1e-13, 1e-10, 1e-12)}


def rows(objective: str = "nsp") -> tuple[torch.Tensor, ...]:
    """Five padded rows of two segments: ids, segments, mask, labels, relation."""
    ids, mask, segments = padded_batch(12, 7, 9, 12, 4)
    chosen = (ids % 3 == 0) & mask.bool()
    relation = torch.tensor([0, 1, 1, 0, 1])
    if objective == "none":
        segments, relation = torch.zeros_like(ids), torch.full((5,), -100)
    return ids, segments, mask, ids.masked_fill(~chosen, -100), relation


@pytest.fixture(params=[torch.float32, torch.float64], ids=["fp32", "fp64"])
def pair(request, tmp_path):
    """Their model and ours with the same random weights, read from a folder they wrote."""
    torch.manual_seed(1)
    config = transformers.BertConfig(**(vars(tiny_config(initializer_range=0.3)) | NO_DROPOUT))
    theirs = stir(BertForPreTraining(config))
    theirs.save_pretrained(tmp_path / "theirs")
    ours = PretrainingModel.from_pretrained(tmp_path / "theirs", objective="nsp")
    return theirs.to(request.param).eval(), ours.to(request.param), request.param


def test_values_losses_and_gradients_are_those_of_transformers(pair):
    theirs, ours, dtype = pair
    value, rtol, atol = TOLERANCE[dtype]
    ids, segments, mask, labels, relation = rows()
    their = theirs(ids, mask, segments, labels=labels, next_sentence_label=relation)
    words, relations = ours(ids, mask, segments)  # at every position
    # weights ten times as large as a trained model's make more rounding, too
    limit = 3 * value * their.prediction_logits.abs().max().item()
    torch.testing.assert_close(words, their.prediction_logits.flatten(0, 1), atol=limit, rtol=0)
    torch.testing.assert_close(relations, their.seq_relationship_logits, atol=value * 10, rtol=0)
    chosen = (labels != -100).flatten()
    some, _ = ours(ids, mask, segments, masked_positions(labels)[0])  # at those that were chosen
    torch.testing.assert_close(some, words[chosen], atol=1000 * atol, rtol=0)

    heads = pretraining_losses(ours, ids, segments, mask, labels, relation)
    of_words, of_pairs = heads["mlm"], heads["nsp"]
    assert (of_words.count, of_pairs.count) == (chosen.sum(), 5)
    assert of_words.right == (words.argmax(-1) == labels.flatten()).sum()
    assert of_pairs.right == (relations.argmax(-1) == relation).sum()
    loss = of_words.loss / of_words.count + of_pairs.loss / of_pairs.count
    assert loss.item() == pytest.approx(their.loss.item(), rel=10 * value)
    their.loss.backward()
    loss.backward()
    own = {parameter.data_ptr(): parameter for parameter in ours.parameters()}
    by_name = dict(theirs.named_parameters())
    compared = [name for name in ours.to_hf_weights() if name in by_name]
    assert len(compared) == len(by_name) > 30
    for name in compared:
        mine, wanted = own[ours.to_hf_weights()[name].data_ptr()].grad, by_name[name].grad
        near = max(10 * atol, rtol * wanted.abs().max().item())
        torch.testing.assert_close(mine, wanted, rtol=rtol, atol=near, msg=name)


@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_what_is_saved_loads_here_and_in_transformers(tmp_path, capsys, objective):
    torch.manual_seed(2)
    model = stir(PretrainingModel(tiny_config(), objective))
    model.save_pretrained(tmp_path)
    again = PretrainingModel.from_pretrained(tmp_path, objective=objective)
    assert "weights:" not in capsys.readouterr().out
    assert_same_tensors(again.state_dict(), model.state_dict())
    ids, segments, mask, _, _ = rows(objective=objective)
    kind = BertForMaskedLM if objective == "none" else BertForPreTraining
    theirs, report = kind.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert all("pooler" in key for key in report["unexpected_keys"])
    with torch.no_grad():
        words, relations = model(ids, mask, segments)
        their_words, *their_relations = theirs(ids, mask, segments).to_tuple()
    torch.testing.assert_close(words, their_words.flatten(0, 1), atol=1e-5, rtol=0)
    for wanted in their_relations:
        torch.testing.assert_close(relations, wanted, atol=1e-5, rtol=0)


def test_a_head_that_a_checkpoint_lacks_is_new_and_it_says_so(tmp_path, capsys):
    model = PretrainingModel(tiny_config(), "none")
    model.save_pretrained(tmp_path)
    other = PretrainingModel.from_pretrained(tmp_path, objective="nsp")
    fact = "has no head for next sentences; it starts from random values"
    assert fact in capsys.readouterr().out
    assert torch.equal(other.transform_dense.weight, model.transform_dense.weight)


def test_words_for_masks_are_those_of_transformers(tmp_path):
    """Also where the head's bias has the other name that Hugging Face's files give it."""
    text = "the [MASK] warm [MASK] ."
    ours = fill_mask.fill_mask(*fill_mask.load(str(save_word_model(tmp_path))), text, 5)
    tokenizer = transformers.BertTokenizer.from_pretrained(tmp_path)
    theirs = BertForMaskedLM.from_pretrained(tmp_path)
    pipeline = transformers.pipeline("fill-mask", model=theirs, tokenizer=tokenizer, top_k=5)
    for mine, wanted in zip(ours, pipeline(text), strict=True):
        assert [piece for piece, _ in mine] == [row["token_str"] for row in wanted]
        assert [p for _, p in mine] == pytest.approx([row["score"] for row in wanted], abs=1e-6)

    tensors = load_file(tmp_path / "model.safetensors")
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    save_file(tensors, tmp_path / "model.safetensors")
    assert fill_mask.fill_mask(*fill_mask.load(str(tmp_path)), text, 5) == ours
    assert playground.load(str(tmp_path)).masked
