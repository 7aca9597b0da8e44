"""What the course brings: its data files, with their folder and classes, and names of models."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from training.files.errors import InputError

COURSE_DATA = Path(__file__).resolve().parent.parent.parent / "data"
PRACTICE_DATA = COURSE_DATA / "practice"


class DataSet(NamedTuple):
    """A data set of the course, and its files' names and columns."""

    stem: str  # of the files {stem}-{ending}.csv
    column: str  # of predictions
    label: str  # the column of the labels
    classes: int | None  # how many; None: labels are similarities


SETS = {
    "sst": DataSet("ids-sst", "Predicted_Sentiment", "sentiment", 5),
    "cfimdb": DataSet("ids-cfimdb", "Predicted_Sentiment", "sentiment", 2),
    "para": DataSet("quora", "Predicted_Is_Paraphrase", "is_duplicate", 2),
    "sts": DataSet("sts", "Predicted_Similarity", "similarity", None),
}
COURSE_STEMS = {task: SETS[task].stem for task in ("sst", "para", "sts")}  # of part 2
CLASSES = {  # the names of each course file's classes, from 0 on
    "ids-sst": ("negative", "somewhat negative", "neutral", "somewhat positive", "positive"),
    "ids-cfimdb": ("negative", "positive"),
}
COURSE_MODEL = "bert-base-uncased"
OFFLINE_NAME = "all-MiniLM-L6-v2"  # stands in for it where no hub answers
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")  # of a model's folder: either one
SPLITS = {"train": "train", "dev": "dev", "test": "test-student"}


def data_folder(data_dir: str | None = None) -> Path:
    """The folder of the course files: --data_dir, $MINBERT_DATA, data/, else the practice set.

    A folder counts if it holds SST's training file, itself or in its sub-folder ``course``.
    """
    probe = "ids-sst-train.csv"
    name = data_dir or os.environ.get("MINBERT_DATA")
    for folder in (Path(name), Path(name) / "course") if name else (COURSE_DATA,):
        if (folder / probe).is_file():
            return folder
    if name:
        origin = "--data_dir" if data_dir else "$MINBERT_DATA"
        remedy = "python -m data.download --out DIR fetches it"
        raise InputError(f"{origin} {name} lacks {probe}; {remedy}")
    print(
        "data: the PRACTICE SET (data/practice), because the course files are not in data/: "
        "python -m data.download fetches them"
    )
    return PRACTICE_DATA


def class_names(file: str, count: int) -> list[str]:
    """The names of a data file's ``count`` classes: the course's, or numbers."""
    name = Path(file).name
    names = next((names for stem, names in CLASSES.items() if name.startswith(stem)), ())
    return [*names] if len(names) == count else [str(label) for label in range(count)]


def trained_names(config: Any, count: int) -> list[str]:
    """The names of a model's classes: a checkpoint's, a folder's id2label, or numbers."""
    table = getattr(config, "id2label", None) or {}
    names = getattr(config, "labels", None) or [table.get(str(i), str(i)) for i in range(count)]
    return [str(i) if name == f"LABEL_{i}" else name for i, name in enumerate(names)]
