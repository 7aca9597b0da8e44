"""Batches: rows of similar length together, in a new order every epoch; micro-batches.

It knows of a data set that it has ``lengths()`` and a ``collate_fn``, and of a batch that it is a
dict of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from training.loop.processes import rank, world_size

Rows = TypeVar("Rows", list[int], np.ndarray)
POOL_BATCHES = 50  # how many batches' worth of shuffled rows are sorted by length together

# What a model takes of a batch of single texts or of pairs, and the labels
SINGLE = ("token_ids", "attention_mask", "labels")
PAIR = ("token_ids_1", "attention_mask_1", "token_ids_2", "attention_mask_2", "labels")


class LengthBatches(Sampler):
    """Batches of rows of similar length, in an order that is new and random every epoch.

    Rows are shuffled, cut into pools of 50 batches, sorted by length within a pool, cut into
    batches, and the batches shuffled again: little padding, and hardly less random than a plain
    shuffle. The epoch's order depends on ``seed`` and ``epoch`` alone.

    Args:
        lengths: of every row, in word pieces.
        batch_size: rows a batch; the last one of an epoch may be smaller.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int):
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.skip = 0

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose order comes next, and how many of its batches to leave out."""
        self.epoch, self.skip = epoch, skip

    def __len__(self) -> int:
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed + 1_000_003 * self.epoch)
        # arrays, since lists of numbers take five times the memory
        order = torch.randperm(len(self.lengths), generator=generator).numpy()
        lengths = np.asarray(self.lengths)
        pool_size = POOL_BATCHES * self.batch_size
        batches: list[np.ndarray] = []
        for start in range(0, len(order), pool_size):
            pool = order[start : start + pool_size]
            batches += _cut(pool[np.argsort(lengths[pool], kind="stable")], self.batch_size)
        for i in torch.randperm(len(batches), generator=generator)[self.skip :]:
            yield batches[i].tolist()


class TrainingLoader(DataLoader):
    """The batches of a training set, by length, from any batch of any epoch on.

    Args:
        dataset: with ``lengths()`` and ``collate_fn``.
        options: of DataLoader.
    """

    def __init__(self, dataset: Any, batch_size: int, seed: int, **options: Any):
        batches = LengthBatches(dataset.lengths(), batch_size, seed)
        super().__init__(dataset, batch_sampler=batches, collate_fn=dataset.collate_fn, **options)

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose batches come next, and how many of them to leave out."""
        self.batch_sampler.set_epoch(epoch, skip)
        # An epoch begins with a random draw of the loader's; one that goes on has had it.
        self.generator = torch.Generator() if skip else None

    @property
    def pieces_per_batch(self) -> float:
        """Word pieces of a batch, on average."""
        return float(np.sum(self.batch_sampler.lengths)) / len(self)


def evaluation_loader(
    dataset: Any, batch_size: int, lengths: Sequence[int] | None = None
) -> DataLoader:
    """All rows once, the longest first (so that too large a batch fails at once).

    Args:
        lengths: of every row, if not ``dataset.lengths()``.
    """
    lengths = lengths or dataset.lengths()
    order = sorted(range(len(dataset)), key=lambda i: (-lengths[i], i))
    batches = list(_cut(order, batch_size))
    return DataLoader(dataset, batch_sampler=batches, collate_fn=dataset.collate_fn)


def _cut(rows: Rows, batch_size: int) -> Iterator[Rows]:
    for start in range(0, len(rows), batch_size):
        yield rows[start : start + batch_size]


def part_slices(rows: int, count: int, rank: int, world_size: int) -> list[slice]:
    """Which of a batch's rows each micro-batch of a process takes; of too few rows some none.

    Of W processes number r takes rows r, r + W, r + 2W …, in ``count`` parts or fewer.
    """
    size = math.ceil(len(range(rank, rows, world_size)) / count) * world_size
    return [slice(i, i + size, world_size) for i in range(rank, rows, size)] if size else []


def part_of(
    batch: Mapping[str, Any], keys: Sequence[str], part: int, rows: slice, device: torch.device
) -> tuple[Tensor, ...]:
    """A micro-batch on the device; where a key has a list, it holds a tensor for each part."""
    values = (batch[key] for key in keys)
    tensors = (value[part] if isinstance(value, list) else value[rows] for value in values)
    return tuple(to_device(tensor, device) for tensor in tensors)


def micro_batches(
    batch: Mapping[str, Any], count: int, device: torch.device, keys: Sequence[str] = SINGLE
) -> Iterator[tuple[Tensor, ...]]:
    """Split a process's share of a batch into ``count`` parts: tuples of the tensors of ``keys``.

    The gradients of all micro-batches, each weighted by its share of the rows, sum up to the
    batch's.
    """
    slices = part_slices(len(batch["labels"]), count, rank(), world_size())
    for part, rows in enumerate(slices):
        yield part_of(batch, keys, part, rows, device)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of a batch on the device, without waiting for the work that the device has.

    A GPU fetches from pinned memory by itself, when its turn comes; a copy from other memory makes
    the CPU wait for all kernels before it.
    """
    if device.type == "cuda":
        moved = tensor.pin_memory().to(device, non_blocking=True)
    else:
        moved = tensor.to(device)
    if moved is not tensor:
        moved.host = tensor
    return moved


def on_host(tensor: Tensor) -> Tensor:
    """The tensor that ``to_device`` copied, which is read without waiting; else a copy from there.

    Numbers of it are read by ``.numpy()``, which refuses a tensor on a device.
    """
    host = getattr(tensor, "host", None)
    return tensor.cpu() if host is None else host
