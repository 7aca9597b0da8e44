"""The configuration: defaults, what older code does with it, and what it refuses."""

import pytest
import transformers
from factories import tiny_config
from running import one_line_error

from config import BertConfig


def test_the_defaults_are_those_of_bert_base():
    theirs = transformers.BertConfig()
    ours = vars(BertConfig())
    assert ours.pop("name_or_path") == ""
    assert ours == {name: getattr(theirs, name) for name in ours}
    assert len(ours) == 13


def test_older_code_adds_attributes_and_all_of_them_build_an_equal_config():
    config = tiny_config(option="pretrain", num_labels={0: 0, 1: 1})
    config.data_dir = "."
    again = BertConfig(**vars(config))
    assert again == config
    assert (again.option, again.data_dir, again.num_labels) == ("pretrain", ".", {0: 0, 1: 1})


def test_a_config_file_of_transformers_is_read_and_keywords_override_it(tmp_path):
    transformers.BertConfig(hidden_size=24, num_attention_heads=3).save_pretrained(tmp_path)
    config = BertConfig.from_pretrained(tmp_path, hidden_dropout_prob=0.5, option="finetune")
    assert (config.hidden_size, config.hidden_dropout_prob, config.option) == (24, 0.5, "finetune")
    assert config.name_or_path == str(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        *('"hidden_size": 30, "num_attention_heads": 4', '"hidden_size": "32"'),
        *('"num_attention_heads": 0', '"pad_token_id": 100, "vocab_size": 100'),
        *('"hidden_dropout_prob": 1.5', '"initializer_range": -1', '"hidden_act": "relu"'),
        *('"model_type": "roberta"', '"position_embedding_type": "relative_key"'),
        *('"is_decoder": true', '"vocab_size": null', '"vocab_size"'),
    ],
)
def test_a_wrong_value_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(f"{{{text}}}", encoding="utf-8")
    fact = text.split('"')[1] if ":" in text else "not valid JSON"
    with one_line_error(str(tmp_path / "config.json"), fact):
        BertConfig.from_pretrained(tmp_path)
