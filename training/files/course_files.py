"""The course's data files: their folder, their names and their classes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.files.errors import InputError

COURSE_DATA = Path(__file__).resolve().parent.parent.parent / "data"
PRACTICE_DATA = COURSE_DATA / "practice"
# The files of part 2: {stem}-{ending}.csv
COURSE_STEMS = {"sst": "ids-sst", "para": "quora", "sts": "sts"}
CLASSES = {  # the names of each course file's classes, from 0 on
    "ids-sst": ("negative", "somewhat negative", "neutral", "somewhat positive", "positive"),
    "ids-cfimdb": ("negative", "positive"),
    "quora": ("different", "the same"),
}
SPLITS = {"train": "train", "dev": "dev", "test": "test-student"}


def data_folder(data_dir: str | None = None, probe: str = "ids-sst-train.csv") -> Path:
    """The folder of the course files: --data_dir, $MINBERT_DATA, data/, else the practice set.

    A folder counts if it holds ``probe``, itself or in its sub-folder ``course``.
    """
    for name, origin in (
        (data_dir, "--data_dir"),
        (os.environ.get("MINBERT_DATA"), "$MINBERT_DATA"),
    ):
        if name:
            for folder in (Path(name), Path(name) / "course"):
                if (folder / probe).is_file():
                    return folder
            raise InputError(
                f"{origin} {name}: no {probe} there; python data/download.py --out DIR"
            )
    if (COURSE_DATA / probe).is_file():
        return COURSE_DATA
    print(
        "data: the PRACTICE SET (data/practice), because the course files are not in data/: "
        "python data/download.py fetches them"
    )
    return PRACTICE_DATA


def class_names(file: str, count: int, labels: str | None = None) -> list[str]:
    """The names of the classes of a data file.

    Args:
        count: how many there are.
        labels: their names, separated by commas; InputError if these are not as many.
    """
    known = next((names for stem, names in CLASSES.items() if Path(file).name.startswith(stem)), ())
    names = [name.strip() for name in labels.split(",")] if labels else list(known)
    if labels and len(names) != count:
        raise InputError(f"--labels names {len(names)} classes, {file} has {count}")
    return names if len(names) == count else [str(label) for label in range(count)]


def multitask_files(
    data_dir: str | None = None, stems: Mapping[str, str] = COURSE_STEMS
) -> dict[str, str]:
    """The files of the tasks in ``stems`` by the names of their flags: sst_train, … sts_test.

    Where quora-train.csv is missing but the small split of quora-dev.csv is there, that one is
    used, with a loud line; para_test is '' where quora-test-student.csv is missing too.
    """
    folder = data_folder(data_dir)
    files = {
        f"{task}_{split}": str(folder / f"{stem}-{ending}.csv")
        for task, stem in stems.items()
        for split, ending in SPLITS.items()
    }
    small = {split: folder / f"quora-small-{split}.csv" for split in ("train", "dev")}
    missing = "para" in stems and not Path(files["para_train"]).is_file()
    if missing and all(file.is_file() for file in small.values()):
        files |= {f"para_{split}": str(file) for split, file in small.items()}
        print(
            "*** quora-train.csv is not there: taking quora-small-train.csv and -dev.csv instead. "
            "Numbers will differ from those on all of Quora. ***"
        )
        if not Path(files["para_test"]).is_file():
            files["para_test"] = ""
    return files


def find_course_files(args: Any, stems: Mapping[str, str] = COURSE_STEMS) -> None:
    """Turn data/NAME in args.sst_train …, NAME a course file, into where the course files are."""
    names = {
        f"data/{stem}-{ending}.csv": f"{task}_{split}"
        for task, stem in stems.items()
        for split, ending in SPLITS.items()
    }
    paths = {flag: getattr(args, flag) for flag in names.values()}
    if names.keys() & set(paths.values()):
        files = multitask_files(args.data_dir, stems)
        for flag, path in paths.items():
            setattr(args, flag, files[names[path]] if path in names else path)
