"""Bad input to classifier.py: one line on stderr, a non-zero exit, nothing half written."""

import itertools
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support import (
    ROOT,
    as_process,
    assert_refused,
    make_rows,
    save_sentiment_checkpoint,
    write_table,
)

import classifier
from optimizer import AdamW
from training.files import hub
from training.loop.checkpoints import load_checkpoint

CPU = torch.device("cpu")


@pytest.fixture
def data(tmp_path, tiny_data) -> Path:
    """A copy of the tiny data that a test may spoil."""
    return Path(shutil.copytree(tiny_data, tmp_path / "data"))


@pytest.fixture
def line(data, tiny_model_folder) -> list:
    """A command line that is all right as long as its files are."""
    flags = ["--epochs", "1", "--lr", "1e-3", "--option", "finetune"]
    return ["--data_dir", data, "--model", tiny_model_folder, "--only", "sst", *flags]


def leftovers(folder: Path) -> list[str]:
    """What a run may have written: everything but the data it was given."""
    files = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(str(file) for file in files if file.parts[0] != "data")


@pytest.fixture
def refused(run_script_here, tmp_path):
    """A function that runs a command line which must be refused in one line."""

    def run(line, *facts, kept=()) -> None:
        result = run_script_here(classifier, *line)
        check_refusal(result, tmp_path, facts, kept)

    return run


def check_refusal(result, folder: Path, facts, kept=()) -> None:
    assert_refused(result, *facts)
    assert leftovers(folder) == sorted(kept)


def refused_by_a_process(line, folder: Path, *facts: str) -> None:
    """The same, in a process of its own: also shows warnings and late exceptions."""
    check_refusal(as_process(ROOT / "classifier.py", *line, folder=folder), folder, facts)


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


def repeat_id(lines):
    column = lines[0].index("id")
    lines[5][column] = lines[1][column].upper()


def commas_for_tabs(file):
    file.write_text(file.read_text().replace("\t", ","))


def latin_1(file):
    file.write_bytes(file.read_bytes() + "9\tabc\tcaf\xe9\t1\n".encode("latin-1"))


def folder_for_file(file):
    file.unlink()
    file.mkdir()


FAULTS = {  # what is done to a file, what is said of it
    "column": (
        cell(0, "sentence", "text"),
        ["FILE", "lacks the column sentence (it has: ", "text", "separated by tabs"],
    ),
    "label": (
        cell(0, "sentiment", "stars"),
        ["FILE lacks the column sentiment (it has: id, sentence, stars)"],
    ),
    "commas": (commas_for_tabs, ["FILE", "lacks the column id, sentence", "separated by tabs"]),
    "id twice": (
        partial(rewrite, change=repeat_id),
        ["FILE, row 5 (id 00", "repeats an earlier id; remove one"],
    ),
    "no id": (cell(4, "id", " "), ["FILE, row 4 (id ?) has no id; every row needs one"]),
    "empty": (lambda file: file.write_text(""), ["FILE is empty; fetch it again"]),
    "header": (
        lambda file: file.write_text(file.read_text().splitlines(keepends=True)[0]),
        ["FILE has a header but no rows; fetch it again"],
    ),
    "UTF-8": (latin_1, ["FILE is not UTF-8", "save it as UTF-8"]),
    "no text": (
        cell(6, "sentence", "  "),
        ["FILE, row 6 (id 00", "has an empty sentence; fill it in or remove the row"],
    ),
    "tab": (
        partial(rewrite, change=lambda lines: lines[1].append("more")),
        ["FILE, row 1 has more cells than the header; take the extra tab out"],
    ),
    "later tab": (
        partial(rewrite, change=lambda lines: lines[3].append("more")),
        ["FILE cannot be read as a tab-separated file", "line 4"],
    ),
    "folder": (folder_for_file, ["ids-sst-"]),
}
LABEL_FAULTS = {
    " ": ["has an empty label; fill it in"],
    **{
        value: [f"the label '{value}', not an integer; mend"]
        for value in ("good", "1.5", "inf", "nan", "1_0")
    },
    **{value: [f"label {value}, out of range 0 to 4; mend"] for value in ("5", "-1")},
}


@pytest.mark.parametrize(
    ("split", "fault"),
    [
        pair
        for pair in itertools.product(("train", "dev", "test-student"), FAULTS)
        if pair != ("test-student", "label")  # it has none
    ],
)
def test_a_fault_of_any_file(refused, line, data, split, fault):
    spoil, facts = FAULTS[fault]
    file = data / f"ids-sst-{split}.csv"
    spoil(file)
    refused(line, *(fact.replace("FILE", str(file)) for fact in facts))


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("value", LABEL_FAULTS)
def test_a_fault_of_a_label(refused, line, data, split, value):
    cell(2, "sentiment", value)(data / f"ids-sst-{split}.csv")
    refused(line, f"ids-sst-{split}.csv, row 2 (id 00", *LABEL_FAULTS[value])


def test_missing_files(refused, line, data, tmp_path):
    for split in ("test-student", "dev"):
        file = data / f"ids-sst-{split}.csv"
        file.unlink()
        refused(line, f"no file {file}", "data/download.py")
    (data / "ids-sst-train.csv").unlink()  # the file by which a data folder is known
    refused(line, "--data_dir", "no ids-sst-train.csv there", "data/download.py")
    line[1] = tmp_path / "nowhere"
    refused(line, "--data_dir", "nowhere: no ids-sst-train.csv there", "data/download.py")


def test_not_utf8_in_a_process(line, data, tmp_path):
    file = data / "ids-sst-test-student.csv"
    file.write_bytes(file.read_bytes().replace(b"film", b"f\xedlm"))
    refused_by_a_process(line, tmp_path, f"{file} is not UTF-8", "save it as UTF-8")


def test_label_of_dev_that_train_lacks(refused, tiny_model_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    train = write_table(folder / "t.csv", "id sentence label", make_rows(6, labels="012"))
    dev = write_table(folder / "d.csv", "id sentence label", make_rows(4, labels="0123"))
    line = ["--train", train, "--dev", dev, "--model", tiny_model_folder]
    refused(line, "d.csv, row 4 (id ", "has the label 3, out of range 0 to 2")


def test_faults_of_the_second_data_set_show_before_the_first_is_trained(refused, line, data):
    cell(2, "sentence", "")(data / "ids-cfimdb-test-student.csv")
    line = [flag for flag in line if flag not in ("--only", "sst")]
    refused(line, "ids-cfimdb-test-student.csv, row 2")


# ---------------------------------------------------------------------------------------------
# Weights


@pytest.fixture
def model(tiny_model_folder, tmp_path, line) -> Path:
    """A copy of the tiny model that a test may spoil; the command line names it."""
    folder = Path(shutil.copytree(tiny_model_folder, tmp_path / "data" / "model"))
    line[line.index("--model") + 1] = folder
    return folder


def other_shape(file):
    file.write_text(file.read_text().replace('"intermediate_size": 64', '"intermediate_size": 48'))


@pytest.mark.parametrize(
    ("name", "spoil", "facts"),
    [
        (
            "model.safetensors",
            lambda file: file.write_bytes(file.read_bytes()[:-1000]),
            ["MODEL/model.safetensors", "cannot be read", "fetch it again"],
        ),
        ("config.json", other_shape, ["MODEL", "wrong shape: ", "(64, 32)", "(48, 32)"]),
        (
            "model.safetensors",
            Path.unlink,
            ["MODEL holds no weights (model.safetensors or pytorch_model.bin)"],
        ),
        ("vocab.txt", Path.unlink, ["MODEL holds no vocabulary (vocab.txt or tokenizer.json)"]),
        ("", shutil.rmtree, ["no model folder at MODEL; check the path"]),
    ],
    ids=["truncated", "wrong shape", "no weights", "no vocabulary", "no folder"],
)
def test_a_faulty_model(refused, line, model, name, spoil, facts):
    spoil(model / name)
    refused(line, *(fact.replace("MODEL", str(model)) for fact in facts))


def test_weights_truncated_in_a_process(line, model, tmp_path):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    refused_by_a_process(line, tmp_path, str(weights), "cannot be read", "fetch it again")


# ---------------------------------------------------------------------------------------------
# Places to write to


def test_predictions_folder_not_writable(refused, line, tmp_path):
    """A file stands in its place, since root may write into any folder."""
    (tmp_path / "predictions").write_text("in the way")
    refused(line, "cannot write predictions/", "choose another place", kept=["predictions"])
    assert (tmp_path / "predictions").read_text() == "in the way"


def test_predictions_folder_not_writable_in_a_process(line, tmp_path):
    (tmp_path / "data" / "file").write_text("in the way")
    line += ["--dev_out", tmp_path / "data" / "file" / "dev.csv"]
    refused_by_a_process(line, tmp_path, f"cannot write {tmp_path / 'data' / 'file'}")


# ---------------------------------------------------------------------------------------------
# A loss that is not finite


class Runaway(AdamW):
    """Works as it should for the first epoch's four batches, then leaps to infinity."""

    steps = 0

    def step(self, closure=None):
        """One step, the fifth with lr 1e30."""
        self.steps += 1
        if self.steps > 4:
            self.param_groups[0]["lr"] = 1e30
        return super().step(closure)


def test_loss_not_finite(run_script_here, line, tmp_path):
    line[line.index("--lr") + 1] = "1e30"
    line += ["--epochs", "9", "--precision", "fp32"]
    result = run_script_here(classifier, *line)
    facts = ("the loss is", "in epoch 1, batch 2; lower --lr", "sst-classifier.pt")
    steps = "predictions/finetune-sst-steps.csv"
    check_refusal(result, tmp_path, facts, [steps])
    assert len((tmp_path / steps).read_text().splitlines()) == 2  # the header, the good step


def test_loss_not_finite_after_a_good_epoch(run_script_here, line, tmp_path, monkeypatch):
    monkeypatch.setattr(classifier, "AdamW", Runaway)
    line += ["--epochs", "9", "--precision", "fp32"]
    result = run_script_here(classifier, *line)
    stem = "predictions/finetune-sst"
    kept = ["sst-classifier.pt", "sst-classifier.resume"]
    names = ("curves.png", "metrics.json", "report.html", "steps.csv")
    kept += [f"{stem}-{name}" for name in names]
    check_refusal(result, tmp_path, ["in epoch 2, batch 2"], kept)
    model, _ = classifier.load_model(tmp_path / "sst-classifier.pt", CPU)
    assert all(torch.isfinite(tensor).all() for tensor in model.state_dict().values())
    assert load_checkpoint(tmp_path / "sst-classifier.pt")["optimizer"]["param_groups"][0]["lr"] < 1
    said = run_script_here(
        classifier, "--predict", "a film", "--checkpoint", tmp_path / "sst-classifier.pt"
    )
    assert said.code == 0
    assert "class" in said.out
    assert "nan" not in said.out


# ---------------------------------------------------------------------------------------------
# Flags


@pytest.mark.parametrize(
    ("flags", "fact"),
    [
        ("--lr -1", "--lr: -1 must be a finite number above 0"),
        ("--lr 0", "--lr: 0 must be a finite number above 0"),
        ("--lr nan", "--lr: nan must be a finite number above 0"),
        ("--lr inf", "--lr: inf must be a finite number above 0"),
        ("--lr fast", "--lr: invalid positive_float value: 'fast'"),
        ("--epochs 0", "--epochs: 0 must be at least 1"),
        ("--epochs 1.5", "--epochs: invalid positive_int value: '1.5'"),
        ("--batch_size 0", "--batch_size: 0 must be at least 1"),
        ("--batch_size -8", "--batch_size: -8 must be at least 1"),
        ("--hidden_dropout_prob 1", "--hidden_dropout_prob: 1 must be at least 0 and below 1"),
        ("--hidden_dropout_prob -0.1", "--hidden_dropout_prob: -0.1 must be at least 0"),
        ("--hidden_dropout_prob nan", "--hidden_dropout_prob: nan must be at least 0"),
        ("--option x", "--option: invalid choice: 'x'"),
        ("--precision fp8", "--precision: invalid choice: 'fp8'"),
        ("--only mnist", "--only: invalid choice: 'mnist'"),
        ("--seed -1", "--seed must be at least 0"),
        ("--seed 4294967296", "--seed must be at least 0 and below 2**32"),
        ("--seed x", "--seed: invalid int value: 'x'"),
        ("--train t.csv", "--train and --dev go together"),
        ("--dev d.csv", "--train and --dev go together"),
        ("--test t.csv", "--train and --dev go together"),
        ("--train t.csv --dev d.csv --only sst", "--only chooses one of the course's data sets"),
        ("--dev_out d.csv", "the files of ONE data set, but two would run"),
        ("--test_out t.csv", "the files of ONE data set, but two would run"),
        ("--train a --dev b --test_out t.csv", "predictions for --test go: give both"),
        ("--predict text", "--predict needs --checkpoint"),
        ("--unknown", "unrecognized arguments: --unknown"),
    ],
)
def test_nonsense_flags(refused, flags, fact):
    refused(flags.split(), fact, "(see python classifier.py --help)")


# ---------------------------------------------------------------------------------------------
# Checkpoints and texts for --predict


def predicting(checkpoint) -> list:
    return ["--predict", "a film", "--checkpoint", checkpoint]


def test_missing_checkpoint(refused):
    refused(predicting("none.pt"), "no checkpoint at none.pt: train first")


@pytest.fixture(scope="module")
def checkpoint(tiny_model_folder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "sst-classifier.pt"
    return save_sentiment_checkpoint(path, tiny_model_folder, labels=5, dropout=0.3)


def copied(checkpoint: Path, folder: Path) -> Path:
    """A copy in the data folder, where nothing written counts."""
    (folder / "data").mkdir(exist_ok=True)
    return Path(shutil.copy(checkpoint, folder / "data" / "x.pt"))


@pytest.mark.parametrize("size", [0, 100, 20_000, -1])
def test_damaged_checkpoint(refused, checkpoint, tmp_path, size):
    path = copied(checkpoint, tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    refused(predicting(path), f"{path} is damaged or not a checkpoint of ours")


@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        {"state_dict": {}},
        {"model": {}, "config": 3},
        {"model": {}, "config": {"num_labels": {0: 0}}},
        torch.zeros(3),
    ],
)
def test_a_checkpoint_of_something_else(refused, tmp_path, content):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "x.pt"
    torch.save(content, path)
    refused(predicting(path), f"{path} is not a checkpoint of classifier.py; train again")


@pytest.mark.parametrize("spoil", ["lacks one", "other shape", "lacks all"])
def test_a_checkpoint_with_other_tensors(refused, checkpoint, tmp_path, spoil):
    path = copied(checkpoint, tmp_path)
    saved = torch.load(path, weights_only=True)
    if spoil == "lacks one":
        del saved["model"]["classifier.bias"]
    elif spoil == "other shape":
        saved["model"]["classifier.bias"] = torch.zeros(3)
    else:
        del saved["model"]
    torch.save(saved, path)
    refused(predicting(path), f"{path} holds other tensors than a classifier on")


def test_a_checkpoint_whose_pretrained_model_is_gone(refused, checkpoint, model, tmp_path):
    path = copied(checkpoint, tmp_path)
    saved = torch.load(path, weights_only=True)
    saved["config"]["model"] = str(model)
    torch.save(saved, path)
    shutil.rmtree(model)
    hub._locate.cache_clear()
    refused(predicting(path), f"no model folder at {model}; check the path")


def test_standard_input_not_utf8(checkpoint, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "classifier.py"), "--predict", "--checkpoint", str(checkpoint)],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8:strict"},
        input=b"a caf\xe9\n",
        capture_output=True,
    )
    result = SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr.decode())
    check_refusal(result, tmp_path, ("standard input is not UTF-8", "convert it"))


def test_long_texts_are_cut_and_counted_aloud(run_script_here, line, data):
    for split in ("train", "test-student"):
        cell(3, "sentence", "film " * 200)(data / f"ids-sst-{split}.csv")
    result = run_script_here(classifier, *line)
    assert (result.code, result.err) == (0, "")
    cut = [text for text in result.out.splitlines() if "were cut at 512 pieces" in text]
    assert cut == [
        "data: 1 of 25 texts were cut at 512 pieces",
        "data: 1 of 9 texts were cut at 512 pieces",
    ]
