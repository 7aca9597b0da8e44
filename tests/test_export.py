"""Out into Hugging Face's folders and back: the same logits, tokenizers and configurations."""

import pytest
import torch
import transformers
from factories import save_sentiment_checkpoint, tiny_config, tiny_vocabulary
from running import assert_refused, assert_same_tensors, succeeded
from safetensors.torch import load_file, save_file

import classifier
from bert import BertModel
from lessons import export, numpy_bert, quantize
from tokenizer import BertTokenizer
from training.loop.checkpoints import load_checkpoint

TEXTS = [
    "a warm film",
    "dull , dull , and not very long",
    "",
    "ünïcödé — 漢字 [MASK] 12",
    "a " * 600,
]


@pytest.fixture(scope="module")
def checkpoint(tiny_model_folder, tmp_path_factory):
    """A checkpoint of classifier.py with weights that are not the pretrained ones."""
    path = tmp_path_factory.mktemp("trained") / "sst-classifier.pt"
    return save_sentiment_checkpoint(path, tiny_model_folder, labels=3, dropout=0.25)


def our_logits(path):
    model, config = classifier.load_model(path, torch.device("cpu"))
    batch = encoded(BertTokenizer.from_pretrained(config.model))
    with torch.no_grad():
        return model(batch["input_ids"], batch["attention_mask"])


def encoded(tokenizer):
    return tokenizer(TEXTS, padding=True, truncation=True, max_length=512, return_tensors="pt")


def test_a_classifier_goes_out(checkpoint, run_script_here, tmp_path):
    result = succeeded(
        run_script_here(export, checkpoint, "--to", "out", "--labels", "bad, so-so,good")
    )
    assert "largest difference 0.0e+00" in result.out
    theirs, notes = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert type(theirs) is transformers.BertForSequenceClassification
    assert not any(notes[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    names = dict(theirs.named_parameters()).keys()
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == names
    batch = encoded(transformers.AutoTokenizer.from_pretrained(tmp_path / "out"))
    with torch.no_grad():
        logits = theirs.eval()(batch["input_ids"], batch["attention_mask"]).logits
    torch.testing.assert_close(logits, our_logits(checkpoint), atol=1e-6, rtol=0)
    assert logits.std(dim=0).min() > 1e-3  # the texts differ, so that equal logits say something
    assert theirs.config.id2label == {0: "bad", 1: "so-so", 2: "good"}
    assert theirs.config.label2id == {"bad": 0, "so-so": 1, "good": 2}
    assert theirs.config.classifier_dropout == theirs.dropout.p == 0.25
    assert theirs.config.hidden_dropout_prob == 0.1
    assert_same_tensors(  # the head left aside
        BertModel.from_pretrained(tmp_path / "out").to_hf_weights(), theirs.bert.state_dict()
    )


def test_a_classifier_comes_back_bit_for_bit(checkpoint, run_script_here, tmp_path):
    line = (checkpoint, "--to", "out", "--labels", "bad,so-so,good")
    succeeded(run_script_here(export, *line))
    result = succeeded(run_script_here(export, "out", "--to", "again.pt"))
    assert "largest difference 0.0e+00" in result.out
    first, again = load_checkpoint(checkpoint), load_checkpoint(tmp_path / "again.pt")
    assert_same_tensors(again["model"], first["model"])
    assert torch.equal(our_logits(tmp_path / "again.pt"), our_logits(checkpoint))
    given = {"labels": ["bad", "so-so", "good"], "model": str(tmp_path / "out")}
    assert again["config"] == first["config"] | given


def test_a_classifier_that_transformers_saved_comes_in(
    tiny_model_folder, run_script_here, tmp_path
):
    config = transformers.BertConfig.from_pretrained(tiny_model_folder, num_labels=4)
    torch.manual_seed(2)
    theirs = transformers.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    BertTokenizer(tiny_vocabulary()).save_pretrained(tmp_path / "theirs")
    succeeded(run_script_here(export, "theirs", "--to", "ours.pt"))
    batch = encoded(BertTokenizer(tiny_vocabulary()))
    with torch.no_grad():
        logits = theirs(batch["input_ids"], batch["attention_mask"]).logits
    torch.testing.assert_close(our_logits(tmp_path / "ours.pt"), logits, atol=1e-6, rtol=0)
    # no classifier_dropout there: BERT's own, as transformers takes it
    assert load_checkpoint(tmp_path / "ours.pt")["config"]["hidden_dropout_prob"] == 0.1


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
def test_an_encoder_goes_through_a_folder(run_script_here, tmp_path, lower_case):
    torch.manual_seed(3)
    values = tiny_config(vocab_size=len(tiny_vocabulary()), layer_norm_eps=1e-6).to_dict()
    config = transformers.BertConfig(**values)
    theirs = transformers.BertModel(config).eval()
    theirs.save_pretrained(tmp_path / "first")
    BertTokenizer(tiny_vocabulary(), lower_case).save_pretrained(tmp_path / "first")
    result = succeeded(run_script_here(export, "first", "--to", "second"))
    assert "largest difference 0.0e+00" in result.out
    again = transformers.BertModel.from_pretrained(tmp_path / "second").eval()
    assert_same_tensors(again.state_dict(), theirs.state_dict())
    found = again.config.to_dict()
    for key, value in theirs.config.to_dict().items():
        if key not in ("_name_or_path", "architectures", "dtype"):
            assert found[key] == value, key
    tokenizers = [
        transformers.AutoTokenizer.from_pretrained(tmp_path / "second"),
        BertTokenizer.from_pretrained(tmp_path / "first"),
        BertTokenizer.from_pretrained(tmp_path / "second"),
    ]
    for text in (*TEXTS, "Cased WORDS"):
        cut = {"truncation": True, "max_length": 512}
        first, *others = (list(t(text, **cut)["input_ids"]) for t in tokenizers)
        assert others == [first, first], text
    assert tokenizers[2].lower_case is lower_case
    assert tokenizers[0].model_max_length == config.max_position_embeddings == 64


@pytest.mark.parametrize(("classes", "problem"), [(1, None), (3, "multi_label_classification")])
@pytest.mark.parametrize("reader", [export, numpy_bert, quantize])
def test_a_head_that_is_no_softmax(run_script_here, tmp_path, reader, classes, problem):
    values = tiny_config(vocab_size=len(tiny_vocabulary())).to_dict()
    config = transformers.BertConfig(**values, num_labels=classes, problem_type=problem)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "head")
    BertTokenizer(tiny_vocabulary()).save_pretrained(tmp_path / "head")
    line = ("head", "--to", "x.pt") if reader is export else ("--model", "head")
    more = ("--text", "a film") if reader is numpy_bert else ()
    result = run_script_here(reader, *line, *more)
    assert_refused(result, f"is for {problem or 'regression'}, not for one class of a text")
    assert not (tmp_path / "x.pt").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("CHECKPOINT --to x.pt", "--to has to be another place"),
        ("CHECKPOINT --to out --labels a,b", "2 --labels for 3 classes"),
        ("MODEL --to out --labels a,b", "--labels goes with a checkpoint"),
        ("MODEL --to MODEL", "--to has to be another place"),
        ("WIDE --to x.pt", "(3, 7) does not fit hidden size 32"),
        ("MODEL --to x.pt", "a BERT without a classifier, which classifier.py --model"),
        ("missing.pt --to out", "no checkpoint at missing.pt"),
        ("taken --to out", "no model folder at"),
    ],
)
def test_bad_input(checkpoint, tiny_model_folder, run_script_here, tmp_path, line, said):
    (tmp_path / "taken").write_text("x")
    if "WIDE" in line:
        run_script_here(export, checkpoint, "--to", "WIDE")
        file = tmp_path / "WIDE" / "model.safetensors"
        save_file(load_file(file) | {"classifier.weight": torch.zeros(3, 7)}, file)
    before = sorted(p.name for p in tmp_path.iterdir())
    words = line.replace("CHECKPOINT", str(checkpoint)).replace("MODEL", str(tiny_model_folder))
    assert_refused(run_script_here(export, *words.split()), said)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
