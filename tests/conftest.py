"""Shared fixtures. Everything here is small, random and offline."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports huggingface_hub
os.environ.pop("MINBERT_MODEL", None)
os.environ.setdefault("MPLBACKEND", "Agg")

import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tqdm import tqdm

from bert import BertModel
from config import BertConfig
from tokenizer import BertTokenizer
from training import acceleration
from training.arguments import run_script
from training.errors import InputError
from training.hub import find_model
from training.wordpieces import SPECIAL_TOKENS

# tqdm's own lock is shared by processes that fork from this one: a test that kills one of them
# while it draws a bar would leave all later ones waiting
tqdm.set_lock(threading.RLock())

torch.set_num_threads(1)  # the models here are so small that a second thread only costs

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def offline_model() -> Path:
    """The folder of the offline pretrained model; skips where its package is not installed."""
    try:
        return find_model(None)
    except InputError as error:
        pytest.skip(f"no pretrained model here: {error}")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real course files; skips where $MINBERT_DATA does not name one."""
    folder = Path(os.environ.get("MINBERT_DATA", "missing"))
    for candidate in (folder, folder / "course"):
        if (candidate / "ids-sst-train.csv").is_file():
            return candidate.resolve()
    pytest.skip("no real data here: set MINBERT_DATA to the folder of the course files")


@pytest.fixture(scope="session")
def private_tree() -> Iterator[Path]:
    """A copy of this repository that only its owner can enter, as the grader asks for.

    The clone itself may lie open to all, which is as it should be anywhere but in grading.
    """
    with tempfile.TemporaryDirectory(prefix="private-tree-") as name:
        yield copy_tree(Path(name) / "tree")


def copy_tree(target: Path) -> Path:
    """Copy this repository without what runs, environments and tools leave in it."""
    everywhere = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "*.pt", "*.resume", "*.part"
    )
    made = {ROOT / "data": "*.csv", ROOT / "predictions": "*.csv", ROOT / "experiments": "runs"}

    def left_out(folder: str, names: list[str]) -> set[str]:
        own = shutil.ignore_patterns(made.get(Path(folder), ""))
        return everywhere(folder, names) | own(folder, names)

    return Path(shutil.copytree(ROOT, target, ignore=left_out))


@pytest.fixture(scope="module")
def slot() -> Iterator[int]:
    """A slot of the sandbox that nobody else here has: what its user runs is killed."""
    from course.grade import own_slots  # here: most tests need nothing of the grader

    with own_slots(1) as (found,):
        yield found


def tiny_config(**values) -> BertConfig:
    """A BERT of a few thousand parameters."""
    small = {
        "vocab_size": 100,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    return BertConfig(**(small | values))


def tiny_vocabulary() -> list[str]:
    """Special tokens, letters and digits as words and as continuations: splits any ASCII word."""
    characters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
    return [*SPECIAL_TOKENS, *characters, *("##" + c for c in characters)]


@pytest.fixture
def own_step(monkeypatch) -> None:
    """Runs take AdamW.step of optimizer.py, not the fused one, so that a test can watch it."""
    monkeypatch.setattr(acceleration, "HAS_FAST_WAYS", False)


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def save_tiny_model(folder: Path, **values) -> Path:
    """A checkpoint folder with random weights and a vocabulary of characters."""
    torch.manual_seed(0)
    shape = {"vocab_size": len(tiny_vocabulary()), "max_position_embeddings": 512}
    BertModel(tiny_config(**(shape | values))).save_pretrained(folder)
    BertTokenizer(tiny_vocabulary()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def model_without_dropout(tmp_path_factory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("no-dropout"), **NO_DROPOUT)


# ---------------------------------------------------------------------------------------------
# Small course files, and scripts run within the test's own process

WORDS = "a warm dull film that never quite finds its feet but sings at the end of act two".split()


def make_id(number: int) -> str:
    """An id as the course's files have them: 25 hexadecimal characters."""
    return f"{number:025x}"


def make_rows(count: int, texts: int = 1, labels: Sequence[str] = (), first_id: int = 0) -> list:
    """Rows (id, text …, label), labels in turn; the same arguments give the same rows."""
    chance = random.Random(count * 1000 + first_id)
    rows = []
    for i in range(count):
        words = [" ".join(chance.choices(WORDS, k=chance.randint(2, 6))) for _ in range(texts)]
        rows.append((make_id(first_id + i), *words, *([labels[i % len(labels)]] if labels else [])))
    return rows


def write_table(path: Path, columns: str, rows: Sequence, odd_header: bool = False) -> Path:
    """Write a course file: tab-separated, an unnamed index column first.

    With ``odd_header`` as the SST and CFIMDB test files have it: a further column of indices.
    """
    names = columns.split()
    lines = [["0", "", *names] if odd_header else ["", *names]]
    for i, row in enumerate(rows):
        lines.append([str(i), *(["0.0"] if odd_header else []), *map(str, row)])
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory) -> Path:
    """All twelve course files, with a few rows of made-up text each. Read only."""
    folder = tmp_path_factory.mktemp("tiny-data")
    single, pair = "id sentence", "id sentence1 sentence2"
    for name, texts, label, labels in (
        ("ids-sst", 1, "sentiment", "01234"),
        ("ids-cfimdb", 1, "sentiment", "01"),
        ("quora", 2, "is_duplicate", ("0.0", "1.0")),
        ("sts", 2, "similarity", ("0.0", "2.6", "5.0", "3.25")),
    ):
        columns = single if texts == 1 else pair
        for split, count, first in (("train", 25, 0), ("dev", 11, 100)):
            rows = make_rows(count, texts, labels, first)
            write_table(folder / f"{name}-{split}.csv", f"{columns} {label}", rows)
        rows = make_rows(9, texts, first_id=200)
        write_table(folder / f"{name}-test-student.csv", columns, rows, odd_header=texts == 1)
    return folder


@pytest.fixture
def run_script_here(tmp_path, monkeypatch, capsys):
    """A function that runs a script's main() on a command line, in ``tmp_path``, in this process.

    It returns what a shell would see: code, out, err.
    """
    monkeypatch.chdir(tmp_path)

    def run(script, *arguments: str) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            run_script(script.main)
        except SystemExit as leaving:
            code = leaving.code
        said = capsys.readouterr()
        if isinstance(code, str):  # what Python itself does with sys.exit("…")
            return SimpleNamespace(code=1, out=said.out, err=f"{said.err}{code}\n")
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    deterministic = torch.are_deterministic_algorithms_enabled()
    yield run
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
