"""Bad input to classifier.py: one line on stderr, a non-zero exit, nothing half written.

The lines are pinned in messages.txt.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from factories import ROOT, make_rows, save_sentiment_checkpoint, write_table
from running import as_process, assert_refused, read_messages
from torch import nn

import bert
import classifier
from checks.graded_tasks import graded_task
from training.files import hub


@pytest.fixture
def data(tmp_path, tiny_data) -> Path:
    """A copy of the tiny data that a test may spoil."""
    return Path(shutil.copytree(tiny_data, tmp_path / "data"))


@pytest.fixture
def line(data, tiny_model_folder) -> list:
    """A command line that is correct as long as its files are."""
    flags = ["--epochs", "1", "--lr", "1e-3", "--option", "finetune"]
    return ["--data_dir", data, "--model", tiny_model_folder, "--only", "sst", *flags]


def leftovers(folder: Path) -> list[str]:
    """Files that a run may have written: all but the data it was given."""
    files = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(str(file) for file in files if file.parts[0] != "data")


@pytest.fixture
def check(tmp_path, message):
    """A function: a result is one reviewed line, and nothing but ``kept`` was written."""

    def check(result, kept=()) -> None:
        assert_refused(result)
        message(result.err)
        assert leftovers(tmp_path) == sorted(kept)

    return check


@pytest.fixture
def refused(run_script_here, check):
    """A function that runs a command line which must be refused."""
    return lambda line, kept=(): check(run_script_here(classifier, *line), kept)


# ---------------------------------------------------------------------------------------------
# Data files: every fault in every file in which it can be


def rewrite(file: Path, change) -> None:
    """Let ``change`` alter the lines of a file, each a list of cells."""
    lines = [row.split("\t") for row in file.read_text(encoding="utf-8").splitlines()]
    change(lines)
    file.write_text("".join("\t".join(row) + "\n" for row in lines), encoding="utf-8")


def cell(row: int, column: str, value: str):
    """A change of one cell of a file; row 0 is the header."""

    def change(lines):
        lines[row][lines[0].index(column)] = value

    return partial(rewrite, change=change)


def extra_cell(row: int):
    return partial(rewrite, change=lambda lines: lines[row].append("more"))


def repeat_id(lines):
    column = lines[0].index("id")
    lines[5][column] = lines[1][column]


def latin_1(file):
    file.write_bytes(file.read_bytes() + "9\tabc\tcaf\xe9\t1\n".encode("latin-1"))


def folder_for_file(file):
    file.unlink()
    file.mkdir()


FAULTS = {
    "column": cell(0, "sentence", "text"),
    "commas": lambda file: file.write_text(file.read_text().replace("\t", ",")),
    "id twice": partial(rewrite, change=repeat_id),
    "no id": cell(4, "id", " "),
    "empty": lambda file: file.write_text(""),
    "header": lambda file: file.write_text(file.read_text().splitlines(keepends=True)[0]),
    "UTF-8": latin_1,
    "no text": cell(6, "sentence", "  "),
    "tab": extra_cell(1),
    "later tab": extra_cell(3),
    "folder": folder_for_file,
}
LABEL_FAULTS = {"label": cell(0, "sentiment", "stars")}
LABEL_FAULTS |= {
    f"label {value}": cell(2, "sentiment", value)
    for value in (" ", "good", "1.5", "inf", "nan", "1_0", "5", "-1")
}


@pytest.mark.parametrize(
    ("split", "fault"),
    [
        *itertools.product(["dev"], FAULTS),
        *itertools.product(["train"], LABEL_FAULTS),
        ("test-student", "no text"),
    ],
)
def test_a_fault_of_a_data_file(refused, line, data, split, fault):
    (FAULTS | LABEL_FAULTS)[fault](data / f"ids-sst-{split}.csv")
    refused(line)


def test_missing_files(refused, line, data, tmp_path):
    for split in ("test-student", "dev", "train"):  # by the last a data folder is known
        (data / f"ids-sst-{split}.csv").unlink()
        refused(line)
    line[1] = tmp_path / "nowhere"
    refused(line)
    refused(["--train", tmp_path / "own.csv", "--dev", tmp_path / "own.csv"])


def test_label_of_dev_that_train_lacks(refused, tiny_model_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    train = write_table(folder / "t.csv", "id sentence label", make_rows(6, labels="012"))
    dev = write_table(folder / "d.csv", "id sentence label", make_rows(4, labels="0123"))
    refused(["--train", train, "--dev", dev, "--model", tiny_model_folder])


def test_faults_of_the_second_data_set_show_before_the_first_is_trained(refused, line, data):
    cell(2, "sentence", "")(data / "ids-cfimdb-test-student.csv")
    refused([flag for flag in line if flag not in ("--only", "sst")])


# ---------------------------------------------------------------------------------------------
# Weights, and places to write to


@pytest.fixture
def model(tiny_model_folder, tmp_path, line) -> Path:
    """A copy of the tiny model that a test may spoil; the command line names it."""
    folder = Path(shutil.copytree(tiny_model_folder, tmp_path / "data" / "model"))
    line[line.index("--model") + 1] = folder
    return folder


def truncate(file):
    file.write_bytes(file.read_bytes()[:-1000])


def other_shape(file):
    file.write_text(file.read_text().replace('"intermediate_size": 64', '"intermediate_size": 48'))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("model.safetensors", truncate),
        ("config.json", other_shape),
        ("model.safetensors", Path.unlink),
        ("vocab.txt", Path.unlink),
        ("", shutil.rmtree),
    ],
    ids=["truncated", "wrong shape", "no weights", "no vocabulary", "no folder"],
)
def test_a_faulty_model(refused, line, model, name, spoil):
    spoil(model / name)
    refused(line)


def test_predictions_folder_not_writable(refused, line, tmp_path):
    """A file is in its place, since root may write into any folder."""
    (tmp_path / "predictions").write_text("in the way")
    refused(line, kept=["predictions"])
    assert (tmp_path / "predictions").read_text() == "in the way"


def test_a_fault_in_a_process(check, line, model, tmp_path):
    """A process of its own also shows warnings and late exceptions."""
    truncate(model / "model.safetensors")
    check(as_process(ROOT / "classifier.py", *line, folder=tmp_path))


# ---------------------------------------------------------------------------------------------
# Flags


@pytest.mark.parametrize(
    "flags",
    [
        *(f"--lr {value}" for value in ("0", "nan", "fast")),
        *("--epochs 1.5", "--batch_size 0", "--hidden_dropout_prob 1", "--seed 4294967296"),
        *("--option x", "--precision fp8", "--only mnist", "--unknown"),
        *("--train t.csv", "--dev_out d.csv", "--train t.csv --dev d.csv --only sst"),
        *("--train a --dev b --test_out t.csv", "--predict text", "--checkpoint x.pt"),
        *("--predict  --checkpoint x.pt", "--predict \t --checkpoint x.pt"),
    ],
)
def test_nonsense_flags(refused, flags):
    refused(flags.split(" "))


@pytest.mark.parametrize("task", ["bert.embed", "classifier.init"])
def test_a_stub_that_is_called(line, run_script_here, monkeypatch, task):
    def stub(*_):
        raise NotImplementedError(graded_task(task).title)

    names = {"bert.embed": (bert.BertModel, "embed"), "classifier.init": (nn.Dropout, "__init__")}
    monkeypatch.setattr(*names[task], stub)
    result = run_script_here(classifier, *line)
    title = graded_task(task).title
    check = f"python sanity_check.py --task {graded_task(task).number}"
    assert result.err == f"error: {title} is not written yet; run {check}\n"
    assert result.code == 1


def test_what_a_student_does_not_support_keeps_its_traceback(line, run_script_here, monkeypatch):
    def not_yet(*_):
        raise NotImplementedError("cross encoding")

    monkeypatch.setattr(bert.BertModel, "embed", not_yet)
    with pytest.raises(NotImplementedError):
        run_script_here(classifier, *line)


def test_every_message_belongs_to_a_test():
    for name in read_messages():
        file, test = name.split(": ", 1)
        function = re.match(r"\w+", test)[0]
        text = (ROOT / "tests" / f"test_{file}.py").read_text(encoding="utf-8")
        assert f"def {function}(" in text, name


# ---------------------------------------------------------------------------------------------
# Checkpoints and texts for --predict


def predicting(checkpoint) -> list:
    return ["--predict", "a film", "--checkpoint", checkpoint]


@pytest.fixture(scope="module")
def checkpoint(tiny_model_folder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "sst-classifier.pt"
    return save_sentiment_checkpoint(path, tiny_model_folder, labels=5, dropout=0.3)


@pytest.fixture
def copied(checkpoint, tmp_path) -> Path:
    """A copy in the data folder, where nothing written counts."""
    (tmp_path / "data").mkdir(exist_ok=True)
    return Path(shutil.copy(checkpoint, tmp_path / "data" / "x.pt"))


@pytest.mark.parametrize("size", [0, 20_000, -1])
def test_damaged_checkpoint(run_script_here, copied, size):
    """The reason is torch's, in its words."""
    copied.write_bytes(copied.read_bytes()[:size])
    result = run_script_here(classifier, *predicting(copied))
    assert_refused(result, f"{copied} is not a checkpoint: ")


def saved(content, **options):
    return lambda path: torch.save(content, path, **options)


LAYER = {"model": nn.Linear(1, 1)}
OTHER_FILES = {
    "page": lambda path: path.write_bytes(b"<!doctype html>\n<html>404</html>"),
    "text": lambda path: path.write_bytes(b"not a model\n"),
    "objects": saved(LAYER),
    "objects, pickled": saved(LAYER, _use_new_zipfile_serialization=False),
    "no config": saved({"state_dict": {}}),
    "other fields": saved({"model": {}, "config": {"num_labels": {0: 0}}}),
    "tensor": saved(torch.zeros(3)),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_a_checkpoint_of_something_else(refused, tmp_path, kind):
    (tmp_path / "data").mkdir()
    OTHER_FILES[kind](tmp_path / "data" / "x.pt")
    refused(predicting(tmp_path / "data" / "x.pt"))


@pytest.mark.parametrize("bias", [None, torch.zeros(3)], ids=["missing", "other shape"])
def test_a_checkpoint_with_other_tensors(refused, copied, bias):
    content = torch.load(copied, weights_only=True)
    del content["model"]["classifier.bias"]
    if bias is not None:
        content["model"]["classifier.bias"] = bias
    torch.save(content, copied)
    refused(predicting(copied))


def test_a_checkpoint_whose_pretrained_model_is_gone(refused, model, copied):
    content = torch.load(copied, weights_only=True)
    content["config"]["model"] = str(model)
    torch.save(content, copied)
    shutil.rmtree(model)
    hub._locate.cache_clear()
    refused(predicting(copied))


def test_standard_input_not_utf8(check, checkpoint, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "classifier.py"), "--predict", "--checkpoint", str(checkpoint)],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8:strict"},
        input=b"a caf\xe9\n",
        capture_output=True,
    )
    check(SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr.decode()))
