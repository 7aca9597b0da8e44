"""What classifier.py, multitask_classifier.py and the comparison of runs refuse."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from factories import save_sentiment_checkpoint
from row import Row, cell, written
from torch import nn

DATA = "classifier.py --option finetune --data_dir data --model model"
RUN = f"{DATA} --only sst"
OWN = "classifier.py --model model --train t.csv --dev d.csv"
PREDICT = "classifier.py --predict film --checkpoint x.pt"
TASKS = "multitask_classifier.py --option finetune --data_dir data --model model"
DEV, TRAIN = "ids-sst-dev.csv", "ids-sst-train.csv"


def change(file: str, old: str, new: str):
    """What replaces a text in a file, at its first place."""

    def spoil(folder: Path) -> None:
        path = folder / file
        path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")

    return spoil


def dev_lines(change: Callable[[list[str]], list[str]]):
    """What changes the lines of the dev file."""

    def spoil(folder: Path) -> None:
        path = folder / f"data/{DEV}"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(change(lines)), encoding="utf-8")

    return spoil


def own_files(folder: Path) -> None:
    """A dev file with a label that the training file does not have."""
    rows = "id\tsentence\tlabel\n" + "".join(f"{i}\ta film\t{i % 3}\n" for i in range(6))
    (folder / "t.csv").write_text(rows)
    (folder / "d.csv").write_text(rows.replace("\t2", "\t3"))


def longer_vocabulary(folder: Path) -> None:
    with (folder / "model/vocab.txt").open("a") as file:
        file.write("more\n")


def saved(content: object, **options: object):
    return lambda folder: torch.save(content, folder / "x.pt", **options)


def trained(folder: Path, classes: int = 5) -> None:
    """A checkpoint of classifier.py of five classes, with a head of perhaps another number."""
    path = save_sentiment_checkpoint(folder / "x.pt", folder / "model")
    content = torch.load(path, weights_only=True)
    content["model"]["classifier.weight"] = torch.zeros(classes, 32)
    torch.save(content, path)


def runs(folder: Path) -> None:
    """Folders of one run, of two, and of files that are no run's."""
    run = json.dumps({"best": {}, "epochs": [], "args": {}, "seconds": 1})
    old = run.replace('"best": {}', '"best": [1]')
    places = {"one/a": run, "both/a": run, "both/b": run, "not/x": "{}", "old/x": old}
    for place, text in places.items():
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / f"{place}-metrics.json").write_text(text)


STS = "id\tsentence1\tsentence2\tsimilarity"
SWALLOWED = 'id\tsentence\tlabel\n \t \na\t"good\t1"\n'  # the row of blanks is none
STRAY = 'id\tsentence\tlabel\na\t"good\t1\nb\tbad"\t0\n'
ROWS = [
    # data files
    Row(RUN, "sentence", cell(DEV, 0, "sentence", "words")),
    Row(RUN, f"{DEV}, row 6", cell(DEV, 6, "sentence", "  ")),
    Row(RUN, "it has: id;sentence;label", written(f"data/{DEV}", "id;sentence;label\n1;a;1")),
    Row(RUN, "repeats an earlier id", dev_lines(lambda lines: [*lines, lines[1]])),
    Row(RUN, f"{DEV} is empty", written(f"data/{DEV}", "")),
    Row(RUN, "has a header but no rows", written(f"data/{DEV}", "id\tsentence\tsentiment\n")),
    Row(RUN, f"{DEV}, row 12 has", dev_lines(lambda lines: [*lines, "11\tx\ta\t1\t2"])),
    *(Row(RUN, f"{TRAIN}, row 2", cell(TRAIN, 2, "sentiment", x)) for x in ("", "1.5", "5")),
    Row(RUN, "cannot read data", lambda folder: (folder / f"data/{DEV}").unlink()),
    Row(RUN.replace("data_dir data", "data_dir nowhere"), "nowhere lacks ids-sst-train.csv"),
    Row(OWN, "cannot read t.csv"),
    Row(OWN, "d.csv, row 3", own_files),
    Row(RUN, "line 1 is not UTF-8", written(f"data/{DEV}", "a\n".encode("utf-16"))),
    Row(RUN, "line 2 has a NUL character", written(f"data/{DEV}", b"a\nb\0\n")),
    Row(RUN, "row 1 has 2 cells, the first line 3", written(f"data/{DEV}", SWALLOWED)),
    Row(RUN, "two columns 'label'", written(f"data/{DEV}", "id\tsentence\tlabel\tLabel\n")),
    Row(RUN, "'١', not an integer", cell(DEV, 1, "sentiment", "١")),
    Row(RUN, "row 1 (id a, 1) has a comma", cell(DEV, 1, "id", '"a,\n1"')),
    Row(RUN, '1 (a\t"good\t1 …) is one row if', written(f"data/{DEV}", STRAY)),
    Row(TASKS, "row 1 (id", cell("quora-test-student.csv", 1, "sentence2", "")),  # not left out
    Row(TASKS, "no row has two sentences", written("data/sts-dev.csv", f"{STS}\na\tx\t\t1\n")),
    *(
        Row(TASKS, f"{file}-dev.csv, row 2", cell(f"{file}-dev.csv", 2, column, value))
        for file, column, values in (
            ("sts", "similarity", "-0.1 nan much"),
            ("quora", "is_duplicate", "2.0 0.5"),
        )
        for value in values.split()
    ),
    # a fault in the last file shows before the first data set is trained
    Row(DATA, "ids-cfimdb-test-student", cell("ids-cfimdb-test-student.csv", 2, "sentence", "")),
    Row(TASKS, "sts-dev.csv, row 2", cell("sts-dev.csv", 2, "similarity", "6")),
    # weights, and places to write to
    Row(RUN, "model", lambda folder: shutil.rmtree(folder / "model")),
    Row(f"{DATA}-of-nobody", "no such folder, not in this machine's cache"),
    Row(RUN, "model.safetensors", written("model/model.safetensors", b"truncated")),
    Row(RUN, "does not have the shape", change("model/config.json", 'size": 64', 'size": 48')),
    Row(RUN, "holds no weights", lambda folder: (folder / "model/model.safetensors").unlink()),
    Row(RUN, "vocab.txt", lambda folder: (folder / "model/vocab.txt").unlink()),
    Row(RUN, "cannot write predictions", written("predictions", "in the way")),
    Row(RUN, "is not valid JSON (maximum", written("model/config.json", "[" * 99_999)),
    Row(RUN, "is not a JSON object {…}", written("model/config.json", "[1]")),
    Row(RUN, "has 90 tokens, the model 89", longer_vocabulary),
    # flags
    *(Row(f"{RUN} --lr {value}", "argument --lr") for value in ("0", "nan", "fast")),
    Row(f"{RUN} --epochs 1.5", "argument --epochs"),
    Row(f"{RUN} --batch_size 0", "argument --batch_size"),
    Row(f"{RUN} --hidden_dropout_prob 1", "argument --hidden_dropout_prob"),
    Row(f"{RUN} --seed 4294967296", "argument --seed"),
    Row(f"{RUN} --precision fp8", "argument --precision"),
    Row("multitask_classifier.py --tasks sst,sentiment", "no task 'sentiment'"),
    Row("classifier.py --train t.csv", "--train and --dev together"),
    Row("classifier.py --dev_out d.csv", "--dev_out and --test_out name the files of ONE"),
    Row(f"{OWN} --only sst", "--only chooses"),
    Row(f"{OWN} --dev_out ./t.csv", "t.csv is data, or another output", own_files),
    Row(f"{RUN} --test_out data", "data is a folder; name a file in it"),
    Row(f"{RUN} --dev_out sst-classifier.pt", "sst-classifier.pt is data, or another output"),
    Row(f"{TASKS} --sst_dev_out a --sts_test_out ./a", "a is data, or another output"),
    Row("classifier.py --predict a b --checkpoint x.pt", "takes 1 text at most"),
    Row("classifier.py --predict ' ' --checkpoint x.pt", "--predict has an empty text"),
    Row("classifier.py --predict film", "--predict and --checkpoint go together"),
    Row("multitask_classifier.py --predict a b c --checkpoint x.pt", "takes 2 texts at most"),
    Row(f"{TASKS} --steps_per_epoch 2", "--steps_per_epoch 2 is too few"),
    # checkpoints
    Row("classifier.py --predict film --checkpoint none.pt", "none.pt"),
    Row(PREDICT, "x.pt is not a checkpoint", written("x.pt", b"")),
    Row(PREDICT, "more than tensors", saved({"model": nn.Linear(1, 1)})),
    Row(PREDICT, "x.pt is not a checkpoint of a Bert", saved({"state_dict": {}})),
    Row(PREDICT, "x.pt does not hold the tensors of a BertSentiment", partial(trained, classes=7)),
    Row("multitask_classifier.py --predict a --checkpoint x.pt", "of a MultitaskBERT", trained),
    # what is not on the web
    Row("data.download --out new --url file:///etc/", "not an http:// or https:// address"),
    Row("data.download --out new --url http://127.0.0.1:9/", "data/practice"),
    # runs to compare
    *(
        Row(f"training.reports.compare one {place}", place, runs)
        for place in ("nowhere", "both", "not", "old")
    ),
]
