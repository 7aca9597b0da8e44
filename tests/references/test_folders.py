"""Folders of other people: the ids and logits of transformers, or a refusal that says why."""

import json
import shutil

import pytest
import torch
import transformers
from factories import NO_DROPOUT, ODD_TEXTS, stir, tiny_config, tiny_vocabulary
from running import one_line_error
from safetensors.torch import load_file, save_file

from lessons import fill_mask, numpy_bert
from tokenizer import BertTokenizer

TEXTS = [*ODD_TEXTS, "Élan café 漢字", "a [MASK] film"]
WORDS = "embeddings.word_embeddings.weight"
QUERY = "encoder.layer.0.attention.self.query"
PIECES = [*tiny_vocabulary(), "é", "##é", "É", "##É", "A", "漢字", "字"]


def entries(file: str, part: str = "", **values):
    """A change: entries of a JSON file, or of one of its parts."""

    def change(folder):
        path = folder / file
        whole = json.loads(path.read_text()) if path.is_file() else {}
        (whole[part] if part else whole).update(values)
        path.write_text(json.dumps(whole))

    return change


def tensors(change):
    """A change: tensors that are added, or others in place of those that are there."""

    def changed(folder):
        file = folder / "model.safetensors"
        old = {name.removeprefix("bert."): tensor for name, tensor in load_file(file).items()}
        new = {name: tensor.clone().contiguous() for name, tensor in (old | change(old)).items()}
        save_file(new, file, metadata={"format": "pt"})

    return changed


def tokenizer(**settings):
    """A change: the files of transformers' tokenizer with these settings."""
    vocabulary = {piece: i for i, piece in enumerate(PIECES)}
    return transformers.BertTokenizer(vocab=vocabulary, **settings).save_pretrained


def vocabulary(*pieces: str):
    """A change: a vocab.txt next to tokenizer.json."""
    return lambda folder: (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")


def padded_and_cut(folder):
    """Saved after a call with padding and truncation, which go into tokenizer.json."""
    hf = transformers.AutoTokenizer.from_pretrained(folder)
    hf(TEXTS, padding="max_length", truncation=True, max_length=4)
    hf.save_pretrained(folder)
    assert json.loads((folder / WHOLE).read_text())["truncation"]


def saved_here(folder):
    """Only what BertTokenizer writes."""
    (folder / WHOLE).unlink()
    BertTokenizer(PIECES, lower_case=False).save_pretrained(folder)


SETTINGS, WHOLE, CONFIG = "tokenizer_config.json", "tokenizer.json", "config.json"
CASES = [
    (tokenizer(do_lower_case=False), ""),
    (tokenizer(strip_accents=False), "strip_accents is False, not None"),
    (entries(WHOLE, "normalizer", strip_accents=False), "strip_accents is False, not None"),
    (tokenizer(tokenize_chinese_chars=False), "chinese_chars is False, not True"),
    (vocabulary(*PIECES), ""),
    (vocabulary(*PIECES[::-1]), "vocab.txt and tokenizer.json differ"),
    (vocabulary(*PIECES[:-1]), "vocab.txt and tokenizer.json differ"),
    (lambda folder: (folder / SETTINGS).unlink(), ""),
    (entries(SETTINGS, do_lower_case=False), "lowercase is True, not False"),
    (entries(SETTINGS, do_lower_case="no"), "do_lower_case is 'no', neither true nor false"),
    (entries(SETTINGS, cls_token="[SEP]"), "cls_token is '[SEP]', not '[CLS]'"),
    (entries(SETTINGS, tokenizer_class="BertJapaneseTokenizer"), "BertJapaneseTokenizer"),
    (entries(SETTINGS, padding_side="left"), "padding_side is 'left', not 'right'"),
    (entries(WHOLE, added_tokens=[{"content": "[MASK]", "normalized": True}]), "normalized is"),
    (entries(SETTINGS, mask_token={"content": "[MASK]", "single_word": True}), "single_word is"),
    (entries(SETTINGS, model_max_length="12"), "model_max_length is '12', not a number from 1"),
    (entries("added_tokens.json", **{"<e>": 99}), "added tokens, such as '<e>'"),
    (entries(WHOLE, "model", max_input_chars_per_word=9), "max_input_chars_per_word is 9"),
    (entries(WHOLE, "model", vocab={"[PAD]": 0, "[UNK]": 9}), "do not count from 0 on"),
    (entries(WHOLE, pre_tokenizer=None), "pre_tokenizer's type is None"),
    (entries(WHOLE, post_processor=None), "post_processor's type is None"),
    (entries(WHOLE, "post_processor", pair=[]), "post_processor's pair is []"),
    (padded_and_cut, ""),
    (saved_here, ""),
    (entries(CONFIG, quantization_config={"bits": 4}), "its quantization_config is"),
    (entries(CONFIG, layer_norm_eps=1e-5, my_note="x", architectures=None), ""),
    (entries(CONFIG, vocab_size=300), "300"),
    (entries("adapter_config.json", r=4), "adapter_config.json"),
    (tensors(lambda _: {f"{QUERY}.lora_A.weight": torch.ones(4, 32)}), f"{QUERY}.lora_A.weight"),
    (entries(CONFIG, num_hidden_layers=1), "encoder.layer.1."),
    (entries(CONFIG, num_hidden_layers=3), "encoder.layer.2."),
    (tensors(lambda _: {f"{QUERY}.bias": torch.full((32,), torch.nan)}), f"{QUERY}.bias"),
    (tensors(lambda _: {f"{QUERY}.bias": torch.ones(32).to(torch.float8_e4m3fn)}), QUERY),
    (tensors(lambda _: {f"{QUERY}.bias": torch.ones(32, dtype=torch.uint8)}), QUERY),
    (tensors(lambda _: {"embeddings.position_ids": torch.arange(64)[None]}), ""),
    (tensors(lambda old: {f"bert.{WORDS}": old[WORDS] + 1}), f"two different {WORDS}"),
    (tensors(lambda old: {"cls.predictions.decoder.weight": old[WORDS]}), ""),
    (tensors(lambda old: {"cls.predictions.decoder.weight": old[WORDS] + 1}), "decoder of its own"),
    (entries(CONFIG, tie_word_embeddings=False), "decoder of its own"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What transformers writes of a model with more rows than tokens, and of its tokenizer."""
    folder = tmp_path_factory.mktemp("made")
    rows = len(PIECES) + 5
    config = transformers.BertConfig(**(vars(tiny_config(vocab_size=rows)) | NO_DROPOUT))
    torch.manual_seed(1)
    stir(transformers.BertForMaskedLM(config), 0.2).save_pretrained(folder)
    tokenizer()(folder)
    return folder


@pytest.mark.parametrize(("change", "fact"), CASES)
def test_a_folder_is_read_as_transformers_reads_it_or_refused(made, tmp_path, change, fact):
    folder = shutil.copytree(made, tmp_path / "model")
    change(folder)
    if fact:
        for load in (fill_mask.load, numpy_bert.load)[: 1 + ("decoder" not in fact)]:
            with one_line_error(str(folder), fact):
                load(str(folder))
        return
    ours, mine = fill_mask.load(str(folder))
    theirs = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    hf = transformers.AutoTokenizer.from_pretrained(folder)
    assert fill_mask.fill_mask(ours, mine, "[MASK]", top=1000)  # also of rows without a token
    for text in TEXTS:
        assert dict(mine(text)) == dict(hf(text))
        batch = mine([text], truncation=True, max_length=64, return_tensors="pt")
        with torch.no_grad():
            logits = ours(batch.input_ids, batch.attention_mask)[0]
            torch.testing.assert_close(logits, theirs(**batch).logits[0], atol=1e-4, rtol=0)
