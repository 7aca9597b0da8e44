"""What the lessons, the hunt and the quiz refuse: flags, models without their head, texts."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from factories import save_with_head
from row import Row, written
from safetensors.torch import load_file, save_file
from torch import nn

from bert import BertModel
from lessons.modern_config import GLOBAL, LOCAL


def with_head(classes: int, folder: Path, width: int = 32, table: str = "", **values) -> None:
    """Give the model a classifier and entries of its configuration; write a table."""
    model = BertModel.from_pretrained(folder / "model")
    save_with_head(model, nn.Linear(32, classes), folder / "model", **values)
    weights = load_file(folder / "model/model.safetensors")
    weights["classifier.weight"] = torch.zeros(classes, width)
    save_file(weights, folder / "model/model.safetensors")
    written("f", table)(folder)


def without_a_layer(folder: Path) -> None:
    """Take one tensor out of the model."""
    weights = load_file(folder / "model/model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model/model.safetensors")


def asked(**values: object) -> str:
    """SQuAD's JSON with one question on "ab cd ef"."""
    question = {"id": "1", "question": "q?", "answers": [{"answer_start": 3, "text": "cd"}]}
    paragraph = {"context": "ab cd ef", "qas": [question | values]}
    return json.dumps({"data": [{"paragraphs": [paragraph]}]})


def modern(**values: object) -> Callable[[Path], None]:
    """What writes the configuration of a ModernBERT."""
    return written("model/config.json", json.dumps({"model_type": "modernbert"} | values))


TAG = "lessons.token_classifier --train f --dev f --model model"
ANSWER = "lessons.question_answering --train f --dev f --model model"
ASK = "lessons.question_answering --predict q --checkpoint model"
GRAMMAR = "lessons.grammar --pairs f"
NUMPY = "lessons.numpy_bert --model model"
MODERN = "lessons.modern_bert --model model"
QUANTIZE = "lessons.quantize --model model --file f"
PIECES = "lessons.wordpiece_training --text f"
WRONG_LABEL = "id,text,label\n1,a,1\n2,b,good\n"
ELSEWHERE = [{"answer_start": 2, "text": "cd"}]

ROWS = [
    Row("lessons.attention_maps --model model --text ' '", "holds no word"),
    Row(f"{NUMPY} --text a", "is for regression", partial(with_head, 1)),
    Row(
        "lessons.playground --model model",
        "its classifier.weight is torch.Size([3, 7]), not (3, 32)",
        partial(with_head, 3, width=7),
    ),
    Row("lessons.fill_mask --text nothing", "has no [MASK]"),
    Row(f"lessons.fill_mask --text '{'. ' * 200}[MASK]'", "among its first 128 tokens"),
    Row("lessons.fill_mask --text [MASK] --model model", "no head for masked words"),
    Row(GRAMMAR, '"a ☃ film" contains [UNK]', written("f", "a\na ☃ film\n")),
    Row(GRAMMAR, "f: its last line is alone", written("f", "a\na film\ndull\n")),
    Row(GRAMMAR, "has 202 tokens, and the model reads 3 to 128", written("f", "a\n" + "a " * 200)),
    Row(GRAMMAR, "has no pairs", lambda folder: (folder / "f").mkdir()),
    Row("lessons.token_classifier --train f", "give --train and --dev"),
    Row(TAG, "f, line 2: expected a word, a tab and O", written("f", "a\tO\nb\n")),
    Row(TAG, "f holds no sentences", written("f", "\n \n")),
    Row(ANSWER, "f holds no questions", written("f", '{"data": []}')),
    Row(ANSWER, 'f has no "paragraphs"', written("f", '{"context": "a", "question": "b"}\n')),
    Row(ANSWER, "f is not SQuAD's JSON", written("f", '{"data": [{"paragraphs": [{}]}]}')),
    Row(ANSWER, "'cd' is not at character 2", written("f", asked(answers=ELSEWHERE))),
    Row(ANSWER, "questions without an answer", written("f", asked(answers=[]))),
    Row(f"{ANSWER} --length 50 --stride 60", "no more than --stride 60", written("f", asked())),
    Row(f"{ASK} --context c", "holds no BertForQuestionAnswering"),
    Row(ASK, "--predict needs --context"),
    Row(MODERN, "its model_type is 'bert', not 'modernbert'"),
    Row(MODERN, "a head has 5 numbers", modern(hidden_size=45, num_attention_heads=9)),
    Row(MODERN, "rope_type is 'yarn'", modern(rope_parameters={LOCAL: {"rope_type": "yarn"}})),
    Row(MODERN, "not inf", modern(rope_parameters={GLOBAL: {"rope_theta": math.inf}})),
    Row(MODERN, "for each of 2", modern(layer_types=[LOCAL], num_hidden_layers=2)),
    Row(MODERN, "its norm_bias is True, not False", modern(norm_bias=True)),
    Row(NUMPY, "one of the arguments --text --file is required"),
    Row(f"{NUMPY} --text a", "cannot be read", written("model/model.safetensors", b"short")),
    Row(f"{NUMPY} --text a", "no BERT of the shape in config.json", without_a_layer),
    Row(f"{NUMPY} --text a", "its problem_type is 'x'", partial(with_head, 3, problem_type="x")),
    Row(f"{NUMPY} --text a", "its architectures is", partial(with_head, 3, architectures=["x"])),
    Row(f"{NUMPY} --file f", "has no classifier", written("f", "id,text\n1,a\n")),
    Row(QUANTIZE, "lacks the column sentence", partial(with_head, 2, table="id,words\n1,a\n")),
    Row(QUANTIZE, "(id 2) has the label 'good'", partial(with_head, 2, table=WRONG_LABEL)),
    Row("lessons.playground --model none.pt", "no checkpoint at none.pt"),
    Row(PIECES, "there are no words", written("f", "\n \n")),
    Row(f"{PIECES} --size 6", "too small for 2 characters", written("f", "ab\n")),
    Row(f"{PIECES} --out f", "cannot write f", written("f", "ab\n")),
    Row("sanity_check.py --seed 3", "--seed is for --hunt and --quiz"),
    Row("sanity_check.py --hints some", "invalid choice: 'some'"),
    Row("sanity_check.py --trace --task 1.1", "--trace runs the whole model"),
    Row("sanity_check.py --trace --html bert.py", "--html is for --trace, and its file's name"),
    Row("sanity_check.py --quiz --task 2.1", "--quiz is for tasks 1.1, 1.2, 1.3, 1.4, 1.5, 1.7"),
    Row("sanity_check.py --hunt --task 1.6", "--hunt is for tasks 1.1, 1.2, 1.3, 1.4, 1.5"),
]
