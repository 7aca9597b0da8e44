"""Out into Hugging Face's folders: the same logits, tokenizers and configurations."""

import pytest
import torch
import transformers
from factories import save_sentiment_checkpoint, save_tiny_model, tiny_vocabulary
from running import assert_same_tensors, succeeded

from bert import BertModel
from classifier import load_model
from lessons import export
from tokenizer import BertTokenizer

LABELS = ["bad", "so-so", "good"]
TEXTS = ["a warm film", "dull , dull , not long", "", "ünïcödé — 漢字 [MASK] 12", "a " * 600]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint of classifier.py with weights that are not the pretrained ones."""
    folder = tmp_path_factory.mktemp("trained")
    save_tiny_model(folder)
    BertTokenizer(tiny_vocabulary(), lower_case=False).save_pretrained(folder)
    path = folder / "sst-classifier.pt"
    return save_sentiment_checkpoint(path, folder, LABELS, dropout=0.25)


def encoded(tokenizer):
    return tokenizer(TEXTS, padding=True, truncation=True, max_length=512, return_tensors="pt")


def test_a_classifier_in_a_folder_of_transformers(checkpoint, run_script_here, tmp_path):
    result = succeeded(run_script_here(export, checkpoint, "--to", "out"))
    assert "largest difference 0.0e+00" in result.out
    theirs, notes = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not any(notes[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model, config = load_model(checkpoint, torch.device("cpu"))
    batches = (encoded(one) for one in (tokenizer, BertTokenizer.from_pretrained(config.model)))
    pairs = [(batch["input_ids"], batch["attention_mask"]) for batch in batches]
    with torch.no_grad():
        logits, wanted = theirs.eval()(*pairs[0]).logits, model(*pairs[1])
    torch.testing.assert_close(logits, wanted, atol=1e-6, rtol=0)
    assert theirs.config.id2label == dict(enumerate(LABELS))
    assert theirs.config.label2id == {label: i for i, label in enumerate(LABELS)}
    assert theirs.config.classifier_dropout == theirs.dropout.p == 0.25
    assert theirs.config.hidden_dropout_prob == 0.1
    assert tokenizer.model_max_length == 512
    assert not BertTokenizer.from_pretrained(tmp_path / "out").lower_case
    assert_same_tensors(  # the head left aside
        BertModel.from_pretrained(tmp_path / "out").to_hf_weights(), theirs.bert.state_dict()
    )
