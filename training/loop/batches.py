"""Batches: rows of similar length together, in a new order every epoch; the parts of a batch."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from training.loop.processes import rank, world_size

POOL_BATCHES = 50  # how many batches' worth of shuffled rows are sorted by length together


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
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.epoch = self.skip = 0

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose order comes next, and how many of its batches to leave out."""
        self.epoch, self.skip = epoch, skip

    def __len__(self) -> int:
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed + 1_000_003 * self.epoch)
        # tensors, since lists of numbers take five times the memory
        order = torch.randperm(len(self.lengths), generator=generator)
        lengths = torch.tensor(self.lengths)
        batches: list[Tensor] = []
        for pool in order.split(POOL_BATCHES * self.batch_size):
            pool = pool[lengths[pool].argsort(stable=True)]
            batches += pool.split(self.batch_size)
        for i in torch.randperm(len(batches), generator=generator)[self.skip :]:
            yield batches[i].tolist()


class TrainingLoader(DataLoader):
    """The batches of a training set, by length, from any batch of any epoch on."""

    def __init__(self, dataset: Any, batch_size: int, seed: int, **options: Any):
        batches = LengthBatches(dataset.lengths(), batch_size, seed)
        super().__init__(dataset, batch_sampler=batches, collate_fn=dataset.collate_fn, **options)

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose batches come next, and how many of them to leave out."""
        self.batch_sampler.set_epoch(epoch, skip)
        # An epoch begins with a random draw of the loader's; one that goes on has had it.
        self.generator = torch.Generator() if skip else None


def evaluation_loader(dataset: Any, batch_size: int) -> DataLoader:
    """All rows once, the longest first (so that too large a batch fails at once)."""
    lengths = dataset.lengths()
    order = sorted(range(len(dataset)), key=lambda i: (-lengths[i], i))
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return DataLoader(dataset, batch_sampler=batches, collate_fn=dataset.collate_fn)


def input_keys(batch: Mapping[str, Any]) -> Sequence[str]:
    """The keys of a batch's ids and masks, of single texts or of pairs: token_ids_1, …"""
    ends = ("_1", "_2") if "token_ids_1" in batch else ("",)
    return [f"{name}{end}" for end in ends for name in ("token_ids", "attention_mask")]


def parts(
    batch: Mapping[str, Any], accumulate: int, device: torch.device, keys: Sequence[str] = ()
) -> Iterator[tuple[Tensor, ...]]:
    """Split a batch into up to ``accumulate`` parts on the device: ids, masks and labels, or keys.

    Of W processes number r takes rows r, r + W, r + 2W …; of too few rows some take none. The
    gradients of all parts, each weighted by its fraction of the rows, sum up to the batch's.
    """
    keys = keys or (*input_keys(batch), "labels")
    count, step = len(batch["labels"]), world_size()
    size = step * math.ceil(len(range(rank(), count, step)) / accumulate)
    for start in range(rank(), count, size or 1):
        rows = slice(start, start + size, step)
        yield tuple(to_device(batch[key][rows], device) for key in keys)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of a batch on the device, without waiting for the work that the device has.

    A GPU fetches from pinned memory by itself; a copy from other memory makes the CPU wait.
    """
    if device.type == "cpu":
        return tensor
    is_cuda = device.type == "cuda"
    moved = (tensor.pin_memory() if is_cuda else tensor).to(device, non_blocking=is_cuda)
    moved.host = tensor
    return moved


def cpu_copy(tensor: Tensor) -> Tensor:
    """The tensor that ``to_device`` copied, which is read without waiting; else a copy from there.

    Numbers of it are read by ``.numpy()``, which refuses a tensor on a device.
    """
    host = getattr(tensor, "host", None)
    return tensor.cpu() if host is None else host
