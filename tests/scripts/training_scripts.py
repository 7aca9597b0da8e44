"""The table of the scripts that train, and the small files that their command lines read.

A new script joins the contract of test_contract.py by one row here.
"""

import importlib
import json
import random
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from factories import (
    NO_DROPOUT,
    WORDS,
    make_id,
    save_tiny_model,
    tiny_config,
    tiny_vocabulary,
    write_table,
)

from tokenizer import BertTokenizer

DROPOUT = "--hidden_dropout_prob 0.3 --model dropout"


class Script(NamedTuple):
    """A script that trains, and its command lines in a folder that ``make_files`` filled.

    Later flags take the place of earlier ones: each run is ``command``, and more.
    """

    name: str
    command: str  # a small run without dropout
    learn: str  # a run that learns a few rows by heart
    score: tuple[str, str, float]  # metrics.json, the score of its best epoch, the least that is
    dropout: str = DROPOUT  # what switches dropout on
    model: str = "out/model.safetensors"  # the file of the model that it keeps
    four_epochs: str = "--epochs 4"  # a run that asks four times whether the model is the best
    predict: str = ""  # a prediction with the model that this run kept
    answer: str = ""  # a regular expression: what was learned, as the last of these prints it


def module_of(command: str) -> ModuleType:
    """The module that a command line runs."""
    return importlib.import_module(command.split()[0].removesuffix(".py"))


WRITTEN = ("*-classifier.pt", "m.pt", "predictions/*", "out/*", "out/last/*")  # by a whole run
COURSE = "--model model --data_dir data --batch_size 8 --precision fp32 --hidden_dropout_prob 0"
SCHEDULE = "--epochs 3 --lr 3e-3 --clip 1 --warmup 0.2 --decay"
LEARN = "--data_dir few --warmup 0 --no-decay --lr 5e-3"
HEAD = "--model model --batch_size 8 --precision fp32 --length 32 --out out"
PRETRAIN = (
    "pretraining.pretrain --text text --out out --vocab words --config shape.json --length 48 "
    "--batch_size 8 --held_out 0.2 --eval_rows 16 --log_every 2 --eval_every 4 --steps 12 "
    "--precision fp32 --lr 3e-3"
)
REPEATED = (
    "--text repeated --objective none --mask 0.4 --length 32 --lr 1e-2 --held_out 0.4 --steps 60 "
    "--eval_every 20"
)
SCRIPTS = (
    Script(
        name="classifier, pretrain",
        command=f"classifier.py --option pretrain --only sst {COURSE} {SCHEDULE}",
        model="sst-classifier.pt",
        learn=f"{LEARN} --lr 1e-1 --epochs 60 --batch_size 3",
        score=("predictions/pretrain-sst-metrics.json", "dev_acc", 1.0),
        predict="classifier.py --checkpoint sst-classifier.pt --predict 'the end is warm'",
        answer="class 3",
    ),
    Script(
        name="classifier, finetune",
        command=f"classifier.py --option finetune {COURSE} {SCHEDULE} --accumulate 2",
        four_epochs="--epochs 4 --only sst",
        model="sst-classifier.pt",
        learn=f"{LEARN} --only sst --epochs 40",
        score=("predictions/finetune-sst-metrics.json", "dev_acc", 1.0),
        predict="classifier.py --checkpoint sst-classifier.pt --predict 'the end is warm'",
        answer="class 3",
    ),
    Script(
        name="multitask_classifier",
        command=f"multitask_classifier.py --option finetune --filepath m.pt {COURSE} {SCHEDULE} "
        "--steps_per_epoch 7",
        model="m.pt",
        learn=f"{LEARN} --epochs 20",
        score=("predictions/multitask-metrics.json", "overall", 0.95),
        predict="multitask_classifier.py --checkpoint m.pt --predict 'a warm film' 'it sings'",
        answer=r"paraphrase 0\.[0-4]\d+  similarity [01]\.",
    ),
    Script(
        name="extensions, many techniques",
        command=f"extensions.multitask --option finetune --filepath m.pt {COURSE} {SCHEDULE} "
        "--steps_per_epoch 6 --gradients pcgrad --pals 12 --pal_heads 2",
        dropout=f"{DROPOUT} --regulariser smart --sst_extra simcse",
        model="m.pt",
        learn=f"{LEARN} --epochs 12",
        score=("predictions/multitask-metrics.json", "overall", 0.95),
        predict="extensions.multitask --checkpoint m.pt --predict 'a warm film' 'it sings'",
        answer=r"paraphrase 0\.[0-4]\d+  similarity [01]\.",
    ),
    Script(
        name="pretrain, bert",
        command=PRETRAIN,
        dropout="--config dropout.json",
        four_epochs="--steps 8 --eval_every 2",
        learn=REPEATED,
        score=("out/metrics.json", "mlm_acc", 0.8),
        predict="lessons.fill_mask --model out --top 1 --text 'act act [MASK] act'",
        answer="% .* act",
    ),
    Script(
        name="pretrain, modern",
        command=f"{PRETRAIN} --architecture modern",
        dropout="--config dropout.json",
        four_epochs="--steps 8 --eval_every 2",
        learn=REPEATED,
        score=("out/metrics.json", "mlm_acc", 0.8),
    ),
    Script(
        name="token_classifier",
        command="lessons.token_classifier --train ner/train --dev ner/dev --test ner/dev "
        f"--hidden_dropout_prob 0 {HEAD} {SCHEDULE}",
        learn="--epochs 6",
        score=("out/metrics.json", "dev_f1", 0.9),
        predict="lessons.token_classifier --checkpoint out --predict 'x Ada saw Rome'",
        answer=r"PER +0\.\d+  Ada\n +LOC +0\.\d+  Rome",
    ),
    Script(
        name="question_answering",
        command=f"lessons.question_answering --train squad/train.json --dev squad/dev.json {HEAD} "
        f"{SCHEDULE} --stride 8",
        dropout="--model dropout",
        learn="--epochs 6 --warmup 0 --no-decay",
        score=("out/metrics.json", "dev_exact", 0.8),
        predict="lessons.question_answering --checkpoint out --length 32 --stride 8 --predict a "
        "--context 'b a 9 c'",
        answer=r"    9\n",
    ),
)


REPEATED_WORDS = ("film", "act", "feet")


def make_files(folder: Path) -> None:
    """Models, and data of every kind, in small files."""
    spread = {"initializer_range": 0.15}  # BERT's own is meant for 768 numbers, not for 32
    save_tiny_model(folder / "model", **spread, **NO_DROPOUT)
    save_tiny_model(folder / "dropout", **spread)
    for name, dropout in (("shape.json", NO_DROPOUT), ("dropout.json", {})):
        config = vars(tiny_config(max_position_embeddings=48, **spread, **dropout))
        (folder / name).write_text(json.dumps(config | {"name_or_path": ""}))
    BertTokenizer([*tiny_vocabulary(), *REPEATED_WORDS]).save_pretrained(folder / "words")
    for name in ("few", "text", "repeated", "ner", "squad"):
        (folder / name).mkdir()
    few_rows(folder / "few")
    chance = random.Random(3)
    for number in range(12):
        sentences = (" ".join(chance.choices(WORDS, k=chance.randint(2, 4))) for _ in range(14))
        (folder / f"text/{number:02d}.txt").write_text("\n".join(sentences) + "\n")
        word = REPEATED_WORDS[number % 3]
        (folder / f"repeated/{number:02d}.txt").write_text(60 * f"{word} {word} {word}\n")
    for name, count in (("train", 40), ("dev", 10)):
        tagged_words(folder / "ner" / name, count)
        questions(folder / f"squad/{name}.json", count)


def few_rows(folder: Path) -> None:
    """Course files in which dev and train are the same few rows, to be learned by heart."""
    texts = ("a warm film", "a dull act", "it sings", "the end is warm", "its feet", "act two ends")
    singles = [(make_id(i), text, i % 5) for i, text in enumerate(texts)]
    pairs = [(make_id(i), texts[i], texts[i + 2] if i < 3 else texts[i]) for i in range(6)]
    tables = {
        "ids-sst": ("id sentence", "sentiment", singles),
        "quora": ("id sentence1 sentence2", "is_duplicate", with_labels(pairs, "0.0", "1.0")),
        "sts": ("id sentence1 sentence2", "similarity", with_labels(pairs, "0.0", "5.0")),
    }
    for name, (columns, label, rows) in tables.items():
        for split in ("train", "dev"):
            write_table(folder / f"{name}-{split}.csv", f"{columns} {label}", rows)
        unlabelled = [row[:-1] for row in rows]
        write_table(folder / f"{name}-test-student.csv", columns, unlabelled)


def with_labels(pairs: list[tuple], other: str, equal: str) -> list[tuple]:
    """The pairs, with a label for those of two texts and one for those of the same text twice."""
    return [(*pair, equal if pair[1] == pair[2] else other) for pair in pairs]


def tagged_words(path: Path, count: int) -> None:
    """Sentences in which a name's type can be learned."""
    names, chance = {"PER": ("ada", "bob"), "LOC": ("rome", "oslo")}, random.Random(count)
    lines = []
    for _ in range(count):
        for _ in range(chance.randint(1, 3)):
            kind = chance.choice(sorted(names))
            lines += [
                f"{chance.choice(('saw', 'x'))}\tO",
                f"{chance.choice(names[kind])}\tB-{kind}",
            ]
        lines.append("")
    path.write_text("\n".join(lines))


def questions(path: Path, count: int) -> None:
    """Questions whose answer is the word after the one that is asked for, which is a 9."""
    chance, paragraphs = random.Random(count), []
    for i in range(count):
        words, at = chance.sample("abcdefgh", 4), chance.randrange(3)
        words[at + 1] = "9"
        answers = [{"text": "9", "answer_start": 2 * (at + 1)}]
        asked = [{"id": str(i), "question": words[at], "answers": answers}]
        paragraphs.append({"context": " ".join(words), "qas": asked})
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
