"""The course's data files, and data sets that turn their rows into padded batches.

Files are tab-separated in spite of their name .csv. Columns are read by name, every row is checked,
and each text is tokenized once. This file does not know about models or tasks' losses.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from config import BertConfig
from tokenizer import MODEL_MAX_LENGTH, BertTokenizer
from training.errors import InputError
from training.flags import TrainingFlags, complete

COURSE_DATA = Path(__file__).parent / "data"
PRACTICE_DATA = COURSE_DATA / "practice"
LABEL_COLUMNS = ("sentiment", "label", "is_duplicate", "similarity")
MOST_CLASSES = 1000
# The files of part 2: {stem}-{ending}.csv
COURSE_STEMS = {"sst": "ids-sst", "para": "quora", "sts": "sts"}
SPLITS = {"train": "train", "dev": "dev", "test": "test-student"}

# ---------------------------------------------------------------------------------------------
# Where the files are


def data_folder(data_dir: str | None = None, probe: str = "ids-sst-train.csv") -> Path:
    """The folder of the course files: --data_dir, $MINBERT_DATA, data/, else the practice set.

    A folder counts if it holds ``probe``, itself or in its sub-folder ``course``.
    """
    for given, origin in (
        (data_dir, "--data_dir"),
        (os.environ.get("MINBERT_DATA"), "$MINBERT_DATA"),
    ):
        if given:
            for folder in (Path(given), Path(given) / "course"):
                if (folder / probe).is_file():
                    return folder
            raise InputError(
                f"{origin} {given}: no {probe} there; python data/download.py --out DIR"
            )
    if (COURSE_DATA / probe).is_file():
        return COURSE_DATA
    print(
        "data: the PRACTICE SET (data/practice), because the course files are not in data/: "
        "python data/download.py fetches them"
    )
    return PRACTICE_DATA


def multitask_files(
    data_dir: str | None = None, stems: Mapping[str, str] = COURSE_STEMS
) -> dict[str, str]:
    """The files of the tasks in ``stems`` by the names of their flags: sst_train, … sts_test.

    Where quora-train.csv is missing but the small split of quora-dev.csv is there, that one is
    taken, with a loud line; para_test is '' where quora-test-student.csv is missing too.
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
    given = {flag: getattr(args, flag) for flag in names.values()}
    if names.keys() & set(given.values()):
        found = multitask_files(args.data_dir, stems)
        for flag, path in given.items():
            setattr(args, flag, found[names[path]] if path in names else path)


# ---------------------------------------------------------------------------------------------
# Reading and checking rows


def read_table(path: str | Path, columns: Sequence[str], label: str | None) -> pd.DataFrame:
    """Read a course file as text, with its columns checked.

    Args:
        path: a tab-separated file with a header.
        columns: the columns it must have, such as ("id", "sentence").
        label: a further one, renamed to "label" in the result; any of LABEL_COLUMNS will do.

    Raises:
        InputError: missing, empty, not UTF-8, without a column, an empty or repeated id.
    """
    path = Path(path)
    try:
        with warnings.catch_warnings():
            # pandas would cut the cells that stand beyond the header, and only warn
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                path,
                sep="\t",
                dtype=str,
                keep_default_na=False,
                encoding="utf-8-sig",
                index_col=False,
            ).fillna("")
    except FileNotFoundError:
        raise InputError(
            f"no file {path}; python data/download.py fetches the course files"
        ) from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty; fetch it again") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error}); save it as UTF-8") from None
    except pd.errors.ParserWarning:
        raise InputError(
            f"{path}, row 1 has more cells than the header; take the extra tab out"
        ) from None
    except (pd.errors.ParserError, OSError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise InputError(f"{path} cannot be read as a tab-separated file: {reason}") from None
    if label:
        present = [name for name in (label, *LABEL_COLUMNS) if name in table.columns][:1]
        table = table.rename(columns=dict.fromkeys(present, "label"))
        columns = (*columns, "label")
    missing = [name for name in columns if name not in table.columns]
    if missing:
        wanted = ", ".join(label if name == "label" else name for name in missing)
        found = ", ".join(name for name in table.columns if not name.startswith("Unnamed"))
        raise InputError(
            f"{path} lacks the column {wanted} (it has: {found}); columns are separated by tabs"
        )
    if table.empty:
        raise InputError(f"{path} has a header but no rows; fetch it again")
    for column in columns[1:]:
        swallowed = table[column].str.contains("\n.*\t", regex=True)
        _refuse(path, table, swallowed, "runs on over the next row", 'close its opening "')
    table["id"] = table["id"].str.strip().str.lower()
    _refuse(path, table, table["id"] == "", "has no id", "every row needs one")
    _refuse(path, table, table["id"].duplicated(), "repeats an earlier id", "remove one of the two")
    return table[list(columns)]


def _refuse(path: Path, table: pd.DataFrame, bad: pd.Series, what: str, remedy: str) -> None:
    """InputError naming the first bad row, if there is one."""
    if bad.any():
        number = int(bad.to_numpy().argmax())
        more = int(bad.sum()) - 1
        others = f" (and {more} more rows)" if more else ""
        row = f"row {number + 1} (id {table['id'].iloc[number] or '?'})"
        raise InputError(f"{path}, {row} {what}{others}; {remedy}")


def _numbers(path: Path, table: pd.DataFrame, whole: bool) -> pd.Series:
    """The labels as numbers; '1.0' is read as the class 1."""
    text = table["label"].str.strip()
    _refuse(path, table, text == "", "has an empty label", "fill it in or remove the row")
    values = pd.to_numeric(text, errors="coerce")
    kind = "an integer" if whole else "a number"
    bad = values.isna() | (values.abs() == float("inf"))
    if whole:
        bad |= values != values.round()
    first = text[bad].iloc[0] if bad.any() else ""
    _refuse(path, table, bad, f"has the label {first[:30]!r}, not {kind}", "mend the label")
    return values


def _in_range(path: Path, table: pd.DataFrame, values: pd.Series, lowest: float, highest: float):
    bad = (values < lowest) | (values > highest)
    shown = f"{values[bad].iloc[0]:g}" if bad.any() else ""
    what = f"has the label {shown}, out of range {lowest:g} to {highest:g}"
    _refuse(path, table, bad, what, "mend the label")


def load_data(filename: str | Path, flag: str = "train", num_labels: int | None = None) -> Any:
    """Rows of a file of single sentences.

    Args:
        filename: a file with id, sentence and (unless flag is 'test') sentiment or label.
        flag: 'train' → (rows, number of classes); 'test' → rows (sentence, id); anything else →
            rows (sentence, label, id).
        num_labels: the number of classes if it is known; labels must be below it.
    """
    path = Path(filename)
    labelled = flag != "test"
    table = read_table(path, ("id", "sentence"), "sentiment" if labelled else None)
    sentences = table["sentence"].str.lower().str.strip()
    _refuse(path, table, sentences == "", "has an empty sentence", "fill it in or remove the row")
    if not labelled:
        return list(zip(sentences, table["id"], strict=True))
    labels = _numbers(path, table, whole=True)
    _in_range(path, table, labels, 0, (num_labels or MOST_CLASSES) - 1)
    rows = list(zip(sentences, labels.astype(int).tolist(), table["id"], strict=True))
    if flag == "train":
        return rows, num_labels or int(labels.max()) + 1
    return rows


def load_pairs(
    filename: str | Path, flag: str, label: str, classes: int | None = None
) -> list[tuple]:
    """Rows of a file of sentence pairs: (sentence1, sentence2, label, id), for 'test' no label.

    A row without a label or with an empty sentence, of which the Quora files have two, is left out
    with a line that names it.

    Args:
        label: the column of the labels.
        classes: how many; 0 for floats from 0 to 5. If not given, ``is_duplicate`` has two and
            any other column floats.
    """
    path = Path(filename)
    labelled = flag != "test"
    table = read_table(path, ("id", "sentence1", "sentence2"), label if labelled else None)
    for column in ("sentence1", "sentence2"):
        table[column] = table[column].map(preprocess_string)
    empty = (table["sentence1"] == "") | (table["sentence2"] == "")
    if labelled:
        empty |= table["label"].str.strip() == ""
        for number in empty.to_numpy().nonzero()[0]:
            print(
                f"data: {path.name}, row {number + 1} (id {table['id'].iloc[number]}) left out: "
                f"an empty sentence or label"
            )
        table = table[~empty].reset_index(drop=True)
    else:
        _refuse(path, table, empty, "has an empty sentence", "every test row needs a prediction")
    pairs = (table["sentence1"], table["sentence2"])
    if not labelled:
        return list(zip(*pairs, table["id"], strict=True))
    if classes is None:
        classes = 2 if label == "is_duplicate" else 0
    values = _numbers(path, table, whole=bool(classes))
    _in_range(path, table, values, 0, classes - 1 if classes else 5)
    values = values.astype(int) if classes else values.astype(float)
    return list(zip(*pairs, values.tolist(), table["id"], strict=True))


def load_multitask_data(
    sentiment_filename: str | Path,
    paraphrase_filename: str | Path,
    similarity_filename: str | Path,
    split: str = "train",
) -> tuple[list[tuple], dict[int, int], list[tuple], list[tuple]]:
    """Rows of the three tasks: (sentiment, {label: index}, paraphrase, similarity).

    With split 'test' rows have no label, and {label: index} is empty.
    """
    sentiment = load_data(sentiment_filename, "test" if split == "test" else "rows")
    num_labels = {} if split == "test" else {i: i for i in range(max(r[1] for r in sentiment) + 1)}
    paraphrase = load_pairs(paraphrase_filename, split, "is_duplicate")
    similarity = load_pairs(similarity_filename, split, "similarity")
    for rows, path in (
        (sentiment, sentiment_filename),
        (paraphrase, paraphrase_filename),
        (similarity, similarity_filename),
    ):
        print(f"Loaded {len(rows)} {split} examples from {path}")
    return sentiment, num_labels, paraphrase, similarity


def load_multitask_test_data() -> tuple[list[tuple], list[tuple], list[tuple]]:
    """The three tasks' test rows, without labels: (sentiment, paraphrase, similarity)."""
    folder = data_folder()
    sentiment, _, paraphrase, similarity = load_multitask_data(
        folder / "ids-sst-test-student.csv",
        folder / "quora-test-student.csv",
        folder / "sts-test-student.csv",
        split="test",
    )
    return sentiment, paraphrase, similarity


def preprocess_string(text: str) -> str:
    """Lower-case, put a space before . ? , and ', collapse white space."""
    return " ".join(re.sub(r"([.?,'])", r" \1", text.lower()).split())


# ---------------------------------------------------------------------------------------------
# Data sets and batches


class TextDataset(Dataset):
    """Rows of (texts …, label, id), tokenized once. The four public data sets differ in two flags.

    Args:
        dataset: the rows; without label where ``labelled`` is False.
        args: whatever the script's flags are, kept as ``.p``; ``args.model``, where present, names
            the pretrained model whose vocabulary is used.
    """

    texts_per_row = 1
    labelled = True

    def __init__(self, dataset: list[tuple], args: Any):
        self.dataset = dataset
        self.p = args
        model = complete(args, TrainingFlags).model
        self.tokenizer = BertTokenizer.from_pretrained(model)
        positions = BertConfig.from_pretrained(model).max_position_embeddings
        self.max_length = min(MODEL_MAX_LENGTH, positions)
        self._encoded: dict[str, list[int]] = {}
        too_long = sum(len(self.encode(text)) < self._full_length(text) for text in self._texts())
        if too_long:
            print(f"data: {too_long} of {len(dataset)} texts were cut at {self.max_length} pieces")

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple:
        return self.dataset[index]

    def _texts(self) -> list[str]:
        return [text for row in self.dataset for text in row[: self.texts_per_row]]

    def _full_length(self, text: str) -> int:
        return len(self.tokenizer.text_to_ids(text)) + 2

    def encode(self, text: str) -> list[int]:
        """[CLS] text [SEP] as ids, cut where the model's positions end, computed once a text."""
        if text not in self._encoded:
            self._encoded[text] = self.tokenizer.encode(
                text, truncation=True, max_length=self.max_length
            )
        return self._encoded[text]

    def pieces(self) -> list[list[int]]:
        """Word pieces of each row's texts, [CLS] and [SEP] included."""
        return [[len(self.encode(text)) for text in row[: self.texts_per_row]] for row in self]

    def lengths(self) -> list[int]:
        """How long a row's input is, in word pieces: of a pair the longer text."""
        return [max(row) for row in self.pieces()]

    def pad(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask of a batch of texts: (B, L) int64 each, L the longest of them."""
        rows = [self.encode(text) for text in texts]
        length = max(map(len, rows))
        ids = torch.full((len(rows), length), self.tokenizer.pad_token_id, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        return ids, mask  # (B, L), (B, L)

    def pad_data(self, data: list[tuple]) -> dict[str, Any]:
        """A list of rows → a batch."""
        batch: dict[str, Any] = {}
        for i in range(self.texts_per_row):
            suffix = "" if self.texts_per_row == 1 else f"_{i + 1}"
            ids, mask = self.pad([row[i] for row in data])
            batch[f"token_ids{suffix}"] = ids  # (B, L)
            batch[f"attention_mask{suffix}"] = mask  # (B, L)
            if suffix:
                batch[f"token_type_ids{suffix}"] = torch.zeros_like(ids)  # (B, L)
        if self.labelled:
            labels = [row[self.texts_per_row] for row in data]
            batch["labels"] = torch.tensor(labels, dtype=self.label_type())  # (B,)
        if self.texts_per_row == 1:
            batch["sents"] = [row[0] for row in data]
        batch["sent_ids"] = [row[-1] for row in data]
        return batch

    def collate_fn(self, all_data: list[tuple]) -> dict[str, Any]:
        """What a DataLoader calls; the same as pad_data."""
        return self.pad_data(all_data)

    def label_type(self) -> torch.dtype:
        """int64 for classes."""
        return torch.int64


class SentenceClassificationDataset(TextDataset):
    """Rows (sentence, label, id) → token_ids, attention_mask, labels, sents, sent_ids."""


class SentenceClassificationTestDataset(TextDataset):
    """Rows (sentence, id) → token_ids, attention_mask, sents, sent_ids."""

    labelled = False


class SentencePairDataset(TextDataset):
    """Rows (sentence1, sentence2, label, id) → token_ids_1, … token_type_ids_2, labels, sent_ids.

    Args:
        isRegression: labels are similarities, kept as float32 and never cut to integers.
    """

    texts_per_row = 2

    def __init__(self, dataset: list[tuple], args: Any, isRegression: bool = False):
        self.isRegression = isRegression
        super().__init__(dataset, args)

    def label_type(self) -> torch.dtype:
        """float32 for similarities, int64 for classes."""
        return torch.float32 if self.isRegression else torch.int64


class SentencePairTestDataset(TextDataset):
    """Rows (sentence1, sentence2, id) → the same batch without labels."""

    texts_per_row = 2
    labelled = False
