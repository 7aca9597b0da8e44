"""Fixtures, small models and data for the tests of all folders: random and offline."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports huggingface_hub
os.environ.pop("MINBERT_MODEL", None)
os.environ.setdefault("MPLBACKEND", "Agg")

import importlib
import importlib.util
import itertools
import json
import multiprocessing
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from browser import Browser
from torch import nn
from tqdm import tqdm

import sanity_check
from bert import BertModel
from checks import jobs
from checks.findings import Outcome
from classifier import BertSentimentClassifier
from config import BertConfig
from optimizer import AdamW
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import find_model
from training.loop.checkpoints import ResumePoint, load_checkpoint, save_model
from training.reports import report

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


def data_folder(*names: str) -> Path:
    """A folder of $MINBERT_DATA; skips where it is not there."""
    folder = Path(os.environ.get("MINBERT_DATA", "missing"), *names)
    if not folder.is_dir():
        pytest.skip(f"no {'/'.join(names)} here: set MINBERT_DATA to the folder that holds it")
    return folder


def copy_tree(target: Path) -> Path:
    """Copy this repository without what runs, environments and tools leave in it."""
    everywhere = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "*.pt", "*.resume", "*.part"
    )
    made = {
        ROOT / "data": "*.csv",
        ROOT / "predictions": "*.csv",
        ROOT / "research" / "experiments": "runs",
    }

    def left_out(folder: str, names: list[str]) -> set[str]:
        own = shutil.ignore_patterns(made.get(Path(folder), ""))
        return everywhere(folder, names) | own(folder, names)

    return Path(shutil.copytree(ROOT, target, ignore=left_out))


@pytest.fixture(scope="session")
def fit_sandbox() -> None:
    """Skips, with the remedy, where this machine cannot grade foreign code."""
    from course.grading.sandbox import isolation  # here: most tests need nothing of the grader

    around = isolation.Bubblewrap()
    why = isolation.problem(around)
    if not why:
        command = [isolation.python(), "-I", "-c", "import safetensors; print(1)"]
        _, answer, printed = isolation.run(command, b"", [], isolation.Limits(), around)
        why = "" if answer == b"1\n" else printed
    if why:
        pytest.skip(f"NOTHING IS GRADED HERE: {why}")


needs_sandbox = pytest.mark.usefixtures("fit_sandbox")


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


def random_bert(dtype=torch.float32, **values) -> BertModel:
    """A tiny BERT far from uniform attention, in evaluation mode."""
    torch.manual_seed(3)
    model = BertModel(tiny_config(**values)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model.to(dtype)


def tiny_vocabulary() -> list[str]:
    """Special tokens, letters and digits as words and as continuations: splits any ASCII word."""
    characters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
    return [*SPECIAL_TOKENS, *characters, *("##" + c for c in characters)]


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])


def padded_batch(*lengths: int, vocabulary: int = 100) -> tuple[torch.Tensor, ...]:
    """Random ids, mask and two segments of rows of these lengths: (B, L) each."""
    chance = torch.Generator().manual_seed(3)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, vocabulary, mask.shape, generator=chance)
    return ids * mask, mask, (torch.arange(max(lengths)) >= 4).long() * mask


PAIRS = (
    *padded_batch(6, 3, 5, 4, vocabulary=80)[:2],
    *padded_batch(4, 7, 5, 3, vocabulary=80)[:2],
)  # ids and masks


def with_random_weights(model: nn.Module) -> nn.Module:
    """The model with random weights that make a difference, in evaluation mode."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.15)
    return model.eval()


def assert_shapes_and_padding(model: nn.Module) -> None:
    """Every row alone, without padding, gives what it gives in a padded batch."""
    heads = (
        (model.predict_sentiment, PAIRS[:2], (4, 5)),
        (model.predict_paraphrase, PAIRS, (4,)),
        (model.predict_similarity, PAIRS, (4,)),
    )
    for head, inputs, shape in heads:
        together = head(*inputs)
        assert together.shape == shape
        for row in range(4):
            lengths = [int(mask[row].sum()) for mask in inputs[1::2] for _ in range(2)]
            alone = [tensor[row : row + 1, :n] for tensor, n in zip(inputs, lengths, strict=True)]
            torch.testing.assert_close(head(*alone)[0], together[row], rtol=1e-5, atol=1e-5)


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def save_tiny_model(folder: Path, **values) -> Path:
    """A checkpoint folder with random weights and a vocabulary of characters."""
    torch.manual_seed(0)
    shape = {"vocab_size": len(tiny_vocabulary()), "max_position_embeddings": 512}
    BertModel(tiny_config(**(shape | values))).save_pretrained(folder)
    BertTokenizer(tiny_vocabulary()).save_pretrained(folder)
    return folder


def save_classifier_folder(folder: Path, spread: float = 0.1) -> tuple[BertModel, nn.Linear]:
    """A random BERT and a head of two classes, with weights that count, in a folder."""
    torch.manual_seed(11)
    model = stir(BertModel(tiny_config(vocab_size=len(tiny_vocabulary()))), spread)
    head = nn.Linear(model.config.hidden_size, 2)
    model.save_pretrained(folder, head)
    BertTokenizer(tiny_vocabulary()).save_pretrained(folder)
    return model, head


def save_sentiment_checkpoint(path: Path, model: Path, labels: int, dropout: float) -> Path:
    """A checkpoint of classifier.py, with weights that are not the model folder's."""
    config = SimpleNamespace(
        hidden_dropout_prob=dropout,
        num_labels=labels,
        hidden_size=32,
        data_dir=".",
        option="finetune",
        model=str(model),
    )
    torch.manual_seed(1)
    model = stir(BertSentimentClassifier(config))
    save_model(model, AdamW(model.parameters()), SimpleNamespace(lr=1.0), config, path)
    return path


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


def as_process(script: Path | str, *arguments, folder: Path, **environment: str) -> SimpleNamespace:
    """Run a script as a shell does, which also shows warnings and late exceptions."""
    done = subprocess.run(
        [sys.executable, *map(str, (script, *arguments))],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)


needs_gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)
needs_fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)


def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs make no page: drawing takes longest."""
    monkeypatch.setattr(report.Report, "draw_page", lambda *_: None)


def fork(
    main: Callable,
    folder: Path,
    line: Sequence[str],
    last_event: int | None = None,
    delay: float = 0.0,
    counted: tuple[str, ...] = ("",),
    **environment,
) -> multiprocessing.Process:
    """Start a script's main in a forked process, spared the imports, with its output in log.txt.

    It writes its resume file after every step, and is killed just before or just after a written
    file takes its place, the event of that number, if it has one; or so many seconds later. Files
    count whose names end in one of ``counted``.
    """
    importlib.import_module("torch._dynamo")  # torch takes it in late: once, not in every process

    folder.mkdir(exist_ok=True)

    def live() -> None:
        os.chdir(folder)
        os.environ |= environment
        sys.stdout = sys.stderr = open("log.txt", "a", buffering=1)
        sys.argv = ["script.py", *map(str, line)]
        ResumePoint.__init__.__defaults__ = (0.0,)
        os.fsync = lambda descriptor: None  # a killed process loses nothing without it
        report.Report.draw_page = lambda *_: None
        if last_event is not None:
            die_at(last_event, delay, counted)
        run_script(main)

    process = multiprocessing.get_context("fork").Process(target=live)
    process.start()
    return process


def die_at(last_event: int, delay: float, counted: tuple[str, ...]) -> None:
    """Let this process kill itself at that event, or soon after."""
    events, replace = itertools.count(1), os.replace

    def event(path) -> None:
        if not str(path).endswith(counted) or next(events) != last_event:
            return
        if delay:
            signal.setitimer(signal.ITIMER_REAL, delay)  # nobody handles it: it kills
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched_replace(old, new) -> None:
        event(new)
        replace(old, new)
        event(new)

    os.replace = watched_replace


def run_forked(main: Callable, folder: Path, line: Sequence[str], *how_it_dies: object) -> int:
    """Run it to its end, or to the event at which it is killed (see ``fork``); → its exit code."""
    process = fork(main, folder, line, *how_it_dies)
    process.join()
    return process.exitcode


def left_by(folder: Path, *patterns: str) -> dict:
    """What a finished run left: files and tensors byte for byte, metrics but for their seconds."""
    assert not list(folder.rglob("*.resume"))
    found = {}
    for file in (file for pattern in patterns for file in folder.glob(pattern)):
        name = str(file.relative_to(folder))
        if file.suffix == ".pt":
            saved = load_checkpoint(file)
            for i, state in saved["optimizer"]["state"].items():
                saved["model"] |= {f"{i}.{key}": torch.as_tensor(state[key]) for key in state}
            for key, tensor in saved["model"].items():
                found[name, key] = tensor.numpy().tobytes()
        elif file.name.endswith("metrics.json"):
            metrics = json.loads(file.read_text())
            found[name] = [metrics.get(key) for key in ("best", "epochs", "training", "held_out")]
        elif file.suffix in (".safetensors", ".tsv", ".txt", ".json", ".csv"):
            found[name] = file.read_bytes()
    assert found
    return found


def written_at(folder: Path) -> dict[Path, int]:
    """When each file below a folder was written: equal only where nothing was written again."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "log.txt")
    return {file: file.stat().st_mtime_ns for file in files}


def run_together(
    main: Callable, folder: Path, line: Sequence[str], count: int = 2
) -> tuple[list[int], str]:
    """Forked processes, told by torchrun's variables that they belong together.

    Returns:
        their exit codes, and their log.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        shared = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    shared |= {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": str(count)}
    started = [
        fork(main, folder, line, **shared, RANK=str(rank), LOCAL_RANK=str(rank))
        for rank in range(count)
    ]
    for process in started:
        process.join()
    return [process.exitcode for process in started], (folder / "log.txt").read_text()


def run_as_two(main: Callable, folder: Path, line: Sequence[str]) -> str:
    """Two of them that have to end well; → their log."""
    codes, said = run_together(main, folder, line)
    assert codes == [0, 0], said
    return said


def load_script(name: str) -> ModuleType:
    """A script of a folder that is no package, loaded from its path."""
    spec = importlib.util.spec_from_file_location(f"{Path(name).stem}_script", ROOT / name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def versions(answers: Iterable) -> list:
    """Every version of every answer of course/, as parameters of a test."""
    pairs = [(answer, version) for answer in answers for version in answer.versions]
    return [pytest.param(a, v, id=f"{a.folder}/{a.name}, {v}") for a, v in pairs]


class JobsHere:
    """In place of checks.child.Child: jobs run in this process, where tests change functions."""

    def __init__(self, limit: float):
        self.limit = limit

    def __enter__(self) -> "JobsHere":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self, job: str, title: str) -> Outcome:
        return jobs.run(job)

    def printed(self) -> list[str]:
        return []


@pytest.fixture
def check_here(monkeypatch, capsys) -> Iterator[Callable[..., tuple[int, list[str]]]]:
    """A function: run sanity_check.py in this process; its exit status and lines."""
    monkeypatch.setattr(sanity_check, "Child", JobsHere)
    monkeypatch.setenv("COLUMNS", "1000")  # no line is broken
    for known in (jobs.fault_of_import, jobs.fault_of_model):  # of other files, perhaps
        known.cache_clear()

    def check(*arguments: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            sanity_check.main(arguments)
        return stopped.value.code, "".join(capsys.readouterr()).splitlines()

    yield check
    for known in (jobs.fault_of_import, jobs.fault_of_model):
        known.cache_clear()


# ---------------------------------------------------------------------------------------------
# Pages in a real browser


@pytest.fixture(scope="session")
def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no chromium or google-chrome on PATH: the page is not looked at; install chromium")


@pytest.fixture(scope="module")
def browser(chromium, tmp_path_factory) -> Iterator[Browser]:
    one = Browser(chromium, tmp_path_factory.mktemp("profile"))
    yield one
    one.session = None
    one.close()


# ---------------------------------------------------------------------------------------------
# The wording of messages, reviewed in one place

MESSAGES = ROOT / "tests" / "messages.txt"


def read_messages() -> dict[str, str]:
    """The reviewed messages: {test: message}."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" | ", 1) for line in lines if " | " in line)


@pytest.fixture
def message(request, tmp_path_factory) -> Callable[[str], None]:
    """A function that compares a message with the one in messages.txt that has this test's name.

    ``pytest --write-messages`` writes it there instead; then review the difference. Folders of the
    test and lists of choices, which differ between versions of Python, are left out.
    """
    count = itertools.count()

    def compare(text: str) -> None:
        base = re.escape(str(tmp_path_factory.getbasetemp()))
        text = re.sub(rf"{base}/[^/\s:;,)']+", "TMP", text.strip()).replace(str(ROOT), "ROOT")
        text = re.sub(r" \(choose from [^)]*\)", "", text).replace("\n", " \u21b5 ")
        number = next(count)
        name = f"{request.node.path.stem.removeprefix('test_')}: {request.node.name}"
        name = ascii(f"{name} #{number + 1}" if number else name)[1:-1]
        if request.config.getoption("--write-messages"):
            messages = read_messages() | {name: text}
            lines = [f"{key} | {value}\n" for key, value in sorted(messages.items())]
            MESSAGES.write_text("".join(lines), encoding="utf-8")
        assert text == read_messages().get(name)

    return compare


# ---------------------------------------------------------------------------------------------
# What many tests assert


def succeeded(result: SimpleNamespace) -> SimpleNamespace:
    """The result of a script that had to end well."""
    assert result.code == 0, result.err
    return result


def assert_refused(result: SimpleNamespace, *facts: str, code: int | None = None) -> None:
    """A script printed one line with all the facts, and left with a status that is not 0."""
    assert result.code in ((1, 2) if code is None else (code,)), result.out
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1, result.err
    for fact in facts:
        assert fact in result.err


@contextmanager
def one_line_error(*facts: str) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Expect an InputError: one line that holds all the facts."""
    with pytest.raises(InputError) as caught:
        yield caught
    assert "\n" not in str(caught.value)
    for fact in facts:
        assert fact in str(caught.value)


class Malicious:
    """Unpickled, it makes a folder: harmless, and seen."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def assert_same_tensors(found: dict, wanted: dict) -> None:
    """Two dictionaries hold the same names and the same numbers, bit for bit."""
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


def stir(model: nn.Module, spread: float = 0.1) -> nn.Module:
    """Move every parameter: biases are born as zeros, which would hide a missing one."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return model.eval()
