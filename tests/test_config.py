"""The configuration: defaults, what older code does with it, and what it refuses."""

import json

import pytest
import transformers
from factories import tiny_config
from running import one_line_error

from config import BertConfig

BERT_BASE = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}


def test_the_defaults_are_those_of_bert_base_and_of_transformers():
    config = BertConfig()
    assert {name: getattr(config, name) for name in BERT_BASE} == BERT_BASE
    assert config.name_or_path == ""
    theirs = transformers.BertConfig().to_dict()
    assert {name: theirs[name] for name in BERT_BASE} == BERT_BASE


def test_older_code_adds_attributes_and_to_dict_builds_an_equal_config():
    config = tiny_config(option="pretrain", num_labels={0: 0, 1: 1})
    config.hidden_dropout_prob = 0.3
    config.data_dir = "."
    values = config.to_dict()
    again = BertConfig(**values)
    assert again == config
    assert (again.option, again.data_dir, again.num_labels) == ("pretrain", ".", {0: 0, 1: 1})
    values["hidden_size"] = 8
    assert config.hidden_size == 32


def test_a_config_file_of_transformers_is_read(tmp_path):
    theirs = transformers.BertConfig(vocab_size=77, hidden_size=24, num_attention_heads=3)
    theirs.save_pretrained(tmp_path)
    config = BertConfig.from_pretrained(str(tmp_path))
    assert {name: getattr(config, name) for name in BERT_BASE} == {
        name: getattr(theirs, name) for name in BERT_BASE
    }
    assert config.name_or_path == str(tmp_path)


def test_keywords_of_from_pretrained_override_the_file(tmp_path):
    values = {"hidden_size": 32, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    config = BertConfig.from_pretrained(tmp_path, hidden_dropout_prob=0.5, option="finetune")
    assert (config.hidden_size, config.num_attention_heads) == (32, 4)
    assert (config.hidden_dropout_prob, config.option) == (0.5, "finetune")
    with pytest.raises(ValueError, match="num_attention_heads 5"):
        BertConfig.from_pretrained(tmp_path, num_attention_heads=5)


@pytest.mark.parametrize(
    "values",
    [
        {"hidden_size": 30, "num_attention_heads": 4},
        {"hidden_size": "32"},
        {"num_attention_heads": 0},
        {"pad_token_id": 100, "vocab_size": 100},
        {"hidden_dropout_prob": 1.5},
        {"initializer_range": -1},
        {"hidden_act": "relu"},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused(values, message):
    with pytest.raises(ValueError, match=next(iter(values))) as caught:
        tiny_config(**values)
    message(str(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", '{"model_type": "gpt2"}', '{"hidden_size": 100}'),
        *('{"position_embedding_type": "relative_key"}', '{"vocab_size": null}', None),
        *('{"hidden_act": "gelu_new"}', '{"model_type": "roberta"}'),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, message, text):
    if text is not None:
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with one_line_error(str(tmp_path / "config.json")) as caught:
        BertConfig.from_pretrained(tmp_path)
    message(str(caught.value))


@pytest.mark.parametrize(
    ("classes", "problem"), [(1, None), (3, "multi_label_classification"), (3, "regression")]
)
def test_heads_that_are_no_softmax(classes, problem):
    with one_line_error(problem or "regression"):
        tiny_config(problem_type=problem).check_classes(classes)
    tiny_config(problem_type=None).check_classes(2)
    tiny_config(problem_type="single_label_classification").check_classes(3)
