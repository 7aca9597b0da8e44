"""The rows of the course's data files, and data sets that turn them into padded batches.

Files are tab-separated in spite of their name .csv. Columns are read by name, every row is checked,
and a data set tokenizes each text once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from config import BertConfig
from tokenizer import MODEL_MAX_LENGTH, BertTokenizer
from training.files.course_files import COURSE_STEMS, SETS, data_folder
from training.files.errors import InputError
from training.files.tables import class_labels, read_table, refuse, similarities

# ---------------------------------------------------------------------------------------------
# Rows


def load_data(filename: str | Path, flag: str = "train", num_labels: int | None = None) -> Any:
    """Rows of a file of single sentences.

    Args:
        filename: a file with id, sentence or text, and (unless flag is 'test') sentiment or label.
        flag: 'train' → (rows, number of classes); 'test' → rows (sentence, id); anything else →
            rows (sentence, label, id).
        num_labels: the number of classes if it is known; labels must be below it.
    """
    path = Path(filename)
    table = read_table(path, ("sentence",), None if flag == "test" else "sentiment")
    sentences = table["sentence"].str.strip()
    refuse(path, table, sentences == "", "has an empty sentence", "fill it in or remove the row")
    if flag == "test":
        return list(zip(sentences, table["id"], strict=True))
    labels = class_labels(path, table, num_labels)
    rows = list(zip(sentences, labels.tolist(), table["id"], strict=True))
    return (rows, num_labels or int(labels.max()) + 1) if flag == "train" else rows


def load_pairs(filename: str | Path, flag: str, label: str, classes: int = 2) -> list[tuple]:
    """Rows of a file of sentence pairs: (sentence1, sentence2, label, id), for 'test' no label.

    A row without a label or with an empty sentence, of which the Quora files have two, is left out
    with a line that names it.

    Args:
        label: the column of the labels; ``similarity`` has floats from 0 to 5, others classes.
        classes: how many of them.
    """
    path, pair = Path(filename), ["sentence1", "sentence2"]
    table = read_table(path, pair, None if flag == "test" else label)
    table[pair] = table[pair].map(preprocess_string)
    empty = (table[pair] == "").any(axis=1)
    if flag == "test":
        refuse(path, table, empty, "has an empty sentence", "every test row needs a prediction")
        return list(table[[*pair, "id"]].itertuples(index=False, name=None))
    empty |= table["label"].str.strip() == ""
    for number, key in table["id"][empty].items():
        print(f"data: {path.name}, row {number + 1} (id {key}) lacks a text or label; left out")
    table = table[~empty]
    if table.empty:
        raise InputError(f"{path}: no row has two sentences and a label; is it the right file?")
    if label == "similarity":
        labels = similarities(path, table)
    else:
        labels = class_labels(path, table, classes)
    rows = (table["sentence1"], table["sentence2"], labels.tolist(), table["id"])
    return list(zip(*rows, strict=True))


def load_multitask_data(sst_file, para_file, sts_file, split: str = "train") -> tuple:
    """Rows of the three tasks: (sentiment, {label: index}, paraphrase, similarity).

    With split 'test' rows have no label, and {label: index} is empty.
    """
    sst = load_data(sst_file, "test" if split == "test" else "rows")
    num_labels = {} if split == "test" else {i: i for i in range(max(row[1] for row in sst) + 1)}
    para = load_pairs(para_file, split, "is_duplicate")
    sts = load_pairs(sts_file, split, "similarity")
    for rows, file in ((sst, sst_file), (para, para_file), (sts, sts_file)):
        print(f"Loaded {len(rows)} {split} examples from {file}")
    return sst, num_labels, para, sts


def load_multitask_test_data() -> tuple[list[tuple], list[tuple], list[tuple]]:
    """The three tasks' test rows, without labels: (sentiment, paraphrase, similarity)."""
    folder = data_folder()
    files = [folder / f"{stem}-test-student.csv" for stem in COURSE_STEMS.values()]
    sst, _, para, sts = load_multitask_data(*files, split="test")
    return sst, para, sts


def preprocess_string(text: str) -> str:
    """Put a space before . ? , and ', collapse white space; the tokenizer lower-cases."""
    return " ".join(re.sub(r"([.?,'])", r" \1", text).split())


# ---------------------------------------------------------------------------------------------
# Data sets and batches


class TextDataset(Dataset):
    """Rows of (texts …, label, id), tokenized once.

    Args:
        dataset: the rows; without label where ``labelled`` is False.
        args: the script's flags; ``args.model``, where present, names the pretrained model.
    """

    texts_per_row = 1
    labelled = True
    label_type = torch.int64

    def __init__(self, dataset: list[tuple], args: Any):
        self.dataset = dataset
        self.p = args
        model = getattr(args, "model", None)
        self.tokenizer = BertTokenizer.from_pretrained(model)
        positions = BertConfig.from_pretrained(model).max_position_embeddings
        self.max_length = min(MODEL_MAX_LENGTH, positions)
        self._ids: dict[str, list[int]] = {}
        self.report_cut([text for row in dataset for text in row[: self.texts_per_row]])

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple:
        return self.dataset[index]

    def encode(self, text: str) -> list[int]:
        """[CLS] text [SEP] as ids, cut where the model's positions end, computed once a text."""
        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        if text not in self._ids:
            self._ids[text] = self.tokenizer.text_to_ids(text)
        return [first, *self._ids[text][: self.max_length - 2], last]

    def report_cut(self, texts: Sequence[str]) -> None:
        """Tokenize texts, and print how many of them had to be cut, if any."""
        for text in texts:
            self.encode(text)
        if too_long := sum(len(self._ids[text]) > self.max_length - 2 for text in texts):
            print(f"data: {too_long} of {len(texts)} texts were cut at {self.max_length} tokens")

    def tokens(self) -> list[list[int]]:
        """The number of tokens of each row's texts, [CLS] and [SEP] included."""
        return [[len(self.encode(text)) for text in row[: self.texts_per_row]] for row in self]

    def lengths(self) -> list[int]:
        """The length of each row's input in tokens: of a pair the longer text's."""
        return [max(row) for row in self.tokens()]

    def pad(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask of a batch of texts: (B, L) int64 each, L the longest of them."""
        rows = [torch.tensor(self.encode(text)) for text in texts]
        pad_id = self.tokenizer.pad_token_id
        ids = pad_sequence(rows, batch_first=True, padding_value=pad_id)
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        return ids, mask  # (B, L), (B, L)

    def pad_data(self, data: list[tuple]) -> dict[str, Any]:
        """A list of rows → a batch."""
        batch: dict[str, Any] = {}
        for i in range(self.texts_per_row):
            suffix = "" if self.texts_per_row == 1 else f"_{i + 1}"
            ids, mask = self.pad([row[i] for row in data])  # (B, L), (B, L)
            batch |= {f"token_ids{suffix}": ids, f"attention_mask{suffix}": mask}
            if suffix:
                batch[f"token_type_ids{suffix}"] = torch.zeros_like(ids)  # (B, L)
        if self.labelled:
            labels = [row[self.texts_per_row] for row in data]
            batch["labels"] = torch.tensor(labels, dtype=self.label_type)  # (B,)
        if self.texts_per_row == 1:
            batch["sents"] = [row[0] for row in data]
        return batch | {"sent_ids": [row[-1] for row in data]}

    def collate_fn(self, all_data: list[tuple]) -> dict[str, Any]:
        """What a DataLoader calls; the same as pad_data."""
        return self.pad_data(all_data)


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
        self.label_type = torch.float32 if isRegression else torch.int64
        super().__init__(dataset, args)


class SentencePairTestDataset(TextDataset):
    """Rows (sentence1, sentence2, id) → the same batch without labels."""

    texts_per_row = 2
    labelled = False


def read_set(task: str, args: Any, split: str) -> TextDataset:
    """A task's rows of args.sst_train, for instance; split is 'train', 'dev' or 'test'."""
    path = getattr(args, f"{task}_{split}")
    if task == "sst" and split == "test":
        return SentenceClassificationTestDataset(load_data(path, "test"), args)
    if task == "sst":
        return SentenceClassificationDataset(load_data(path, "dev", SETS[task].classes), args)
    rows = load_pairs(path, split, SETS[task].label)
    if split == "test":
        return SentencePairTestDataset(rows, args)
    return SentencePairDataset(rows, args, isRegression=task == "sts")
