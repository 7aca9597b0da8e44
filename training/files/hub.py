"""Where pretrained weights are found, by a folder or a name. Needs no torch."""

import functools
import os
from pathlib import Path

from training.files.course_files import COURSE_MODEL
from training.files.errors import InputError

OWN_MODEL = "books"  # pre-trained in this repository, and part of it
MODELS = Path(__file__).resolve().parent.parent.parent / "models"

print_once = functools.cache(print)  # a line that this process has not printed before


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
    return _locate(os.fspath(name_or_path or default_model(local_files_only)), local_files_only)


def default_model(local_files_only: bool = False) -> str:
    """The scripts' own default: $MINBERT_MODEL if set, else bert-base-uncased or its stand-in."""
    if redirect := os.environ.get("MINBERT_MODEL"):
        return redirect
    from training.files import download  # only where a name has to be looked up

    return download.course_or_offline_model(local_files_only)


@functools.cache
def _locate(name: str, local_files_only: bool, why: str = "") -> Path:
    path = Path(os.path.expanduser(name))
    # a folder of that name may hold the texts of books
    if name == OWN_MODEL and not (path / "config.json").is_file():
        path = MODELS / OWN_MODEL
    if os.path.isdir(path):
        print(f"model: {path}{why}")
        return path
    if os.path.exists(path) or path.is_absolute() or name.count("/") > 1:
        raise InputError(f"no model folder at {path}{why}; give the one around its config.json")
    from training.files import download

    folder, source = download.fetch_model(name, local_files_only)
    print(f"model: {name}{why} from {source}", flush=True)
    return folder
