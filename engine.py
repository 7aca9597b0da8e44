"""What every training run shares, each a small piece that can be read alone.

Batches by length, precision, the update with its options, several processes, a frozen encoder that
runs once, progress with an estimate, and a file to resume from. The training loops themselves stand
in the scripts; this file does not know about tasks.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Sampler

try:
    import resource
except ImportError:  # Windows
    resource = None

from utils import (
    InputError,
    first_line,
    first_process,
    load_checkpoint,
    positive_float,
    positive_int,
    probability,
    process_count,
    process_number,
    progress_bar,
    save_checkpoint,
)


def add_flags(
    parser: argparse.ArgumentParser,
    frozen: bool = True,
    looks: str = "epochs without a better dev",
) -> None:
    """The options that every training script takes; all off by default but the precision.

    Args:
        frozen: whether the script has a mode in which the encoder does not learn.
        looks: what --patience counts.
    """
    add = parser.add_argument
    add(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default="auto",
        help="of matrix products; auto takes bf16 where the hardware computes in it",
    )
    add("--accumulate", type=positive_int, default=1, help="parts a batch is computed in")
    add("--clip", type=positive_float, help="largest norm of all gradients together")
    add("--warmup", type=probability, default=0.0, help="share of the steps with rising lr")
    add(
        "--decay",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="let lr fall linearly to 0 after the warm-up",
    )
    add("--patience", type=positive_int, help=f"stop after that many {looks}")
    add("--compile", action="store_true", help="torch.compile the model: slow start, then faster")
    if frozen:
        add("--reencode", action="store_true", help="run a frozen encoder anew for every batch")
    add("--resume", action="store_true", help="go on where an interrupted run stopped")


# ---------------------------------------------------------------------------------------------
# Batches

Rows = TypeVar("Rows", list[int], np.ndarray)
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
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.skip = 0

    def begin(self, epoch: int, skip: int = 0) -> None:
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


def evaluation_loader(dataset, batch_size: int) -> DataLoader:
    """All rows once, the longest first (so that too large a batch fails at once)."""
    lengths = dataset.lengths()
    order = sorted(range(len(dataset)), key=lambda i: (-lengths[i], i))
    batches = list(_cut(order, batch_size))
    return DataLoader(dataset, batch_sampler=batches, collate_fn=dataset.collate_fn)


def _cut(rows: Rows, batch_size: int) -> Iterator[Rows]:
    for start in range(0, len(rows), batch_size):
        yield rows[start : start + batch_size]


SINGLE = ("token_ids", "attention_mask", "labels")
PAIR = ("token_ids_1", "attention_mask_1", "token_ids_2", "attention_mask_2", "labels")


def parts(
    batch: dict, count: int, device: torch.device, keys: Sequence[str] = SINGLE
) -> Iterator[tuple[Tensor, ...]]:
    """One process's share of a batch in ``count`` parts: a tuple of the tensors of ``keys`` each.

    Of W processes number r takes rows r, r + W, r + 2W …; of a batch smaller than W some take
    none. The gradients of all parts, each weighted by its share of the rows, add up to the batch's.
    """
    own = slice(process_number(), None, process_count())
    size = math.ceil(len(batch["labels"][own]) / count)
    if size:
        tensors = (batch[key][own].to(device) for key in keys)
        yield from zip(*(tensor.split(size) for tensor in tensors), strict=True)


# ---------------------------------------------------------------------------------------------
# Precision, memory, the update, the frozen encoder

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's numbers, malloc.h


def keep_freed_memory() -> None:
    """On Linux: keep freed blocks of up to 64 MB for the next step, rather than return them.

    By default glibc maps each block above 32 MB anew, and the word embedding's gradient is one:
    the system would hand out, and zero, its pages in every step, an eighth of a small step's time.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # another libc may not have it
        if set_option:
            set_option(M_MMAP_THRESHOLD, 64 << 20)
            set_option(M_TRIM_THRESHOLD, 512 << 20)


def peak_memory(device: torch.device) -> float | None:
    """The most memory held so far, in MB: on CUDA that of tensors, else that of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def computes_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 matrices natively, not by emulation."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return False


def autocast_for(device: torch.device, precision: str) -> Callable[[], AbstractContextManager]:
    """What to put forward passes under: ``with autocast(): logits = model(ids, mask)``.

    Args:
        precision: 'fp32'; 'bf16' for matrix products in bfloat16, with parameters, softmax,
            LayerNorm and optimizer in float32; 'auto' for bf16 where the hardware has it.
    """
    bf16 = precision == "bf16" or (precision == "auto" and computes_bf16(device))
    return lambda: torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16)


def rate(step: int, steps: int, warmup: float, decay: bool) -> float:
    """The factor on the learning rate in step 0, 1, 2 …: linear warm-up, then constant or decay.

    step / w up to w = warmup · steps, then 1, or (steps − step) / (steps − w) with decay, as
    transformers' get_linear_schedule_with_warmup: with a warm-up, step 0 has rate 0.
    """
    rising = round(warmup * steps)
    if step < rising:
        return step / rising
    return max(0.0, (steps - step) / max(1, steps - rising)) if decay else 1.0


def clip_and_schedule(
    model: nn.Module, optimizer: Optimizer, args: Any, step: int, steps: int
) -> None:
    """Before step number ``step`` of ``steps``: the clipping and the learning rate of args."""
    if args.clip:
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    if args.warmup or args.decay:
        set_rates(optimizer, rate(step, steps, args.warmup, args.decay))


def set_rates(optimizer: Optimizer, factor: float) -> None:
    """Of every group its own learning rate, the one it began with, times a factor."""
    for group in optimizer.param_groups:
        group["lr"] = factor * group.setdefault("initial_lr", group["lr"])


def remember_outputs(
    encoder: nn.Module, datasets: Sequence[Any], batch_size: int, device: torch.device
) -> None:
    """Run a frozen encoder once over all texts; from then on it looks its output up.

    The encoder runs in evaluation mode, without dropout, since its output could not be kept
    otherwise. For a batch it has seen it returns pooler_output (B, D), and last_hidden_state cut
    to [CLS], (B, 1, D); a text it has not seen is encoded as before.
    """
    encode = encoder.forward
    known: dict[bytes, tuple[Tensor, Tensor]] = {}

    def key(row: Tensor, mask: Tensor) -> bytes:
        return row[: int(mask.sum())].numpy().tobytes()

    encoder.eval()
    for dataset in datasets:
        for batch in progress_bar(evaluation_loader(dataset, batch_size), "encode"):
            ids, mask = batch["token_ids"], batch["attention_mask"]
            with torch.no_grad():
                output = encode(ids.to(device), mask.to(device))
            for row, row_mask, cls, pooled in zip(
                ids, mask, output["last_hidden_state"][:, :1], output["pooler_output"], strict=True
            ):
                known[key(row, row_mask)] = (cls, pooled)

    def look_up(input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        rows = zip(input_ids.cpu(), attention_mask.cpu(), strict=True)
        found = [known.get(key(row, mask)) for row, mask in rows]
        if None in found:
            return encode(input_ids, attention_mask)
        cls, pooled = (torch.stack(kind) for kind in zip(*found, strict=True))
        return {"last_hidden_state": cls, "pooler_output": pooled}  # (B, 1, D), (B, D)

    encoder.forward = look_up


# ---------------------------------------------------------------------------------------------
# Several processes, started by torchrun: each computes its share of every batch


def start_alike(model: nn.Module) -> None:
    """In several processes: the first one's parameters in all, and dropout of one's own in each."""
    if process_count() > 1:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
        if not first_process():
            torch.manual_seed(torch.initial_seed() + process_number())


def add_up(model: nn.Module, seen: Seen) -> None:
    """After the backward passes of a step: the sum over all processes of gradients and counts.

    A parameter that had a gradient in no process is left without one, as it would be in one.
    """
    counts = [*seen.step.values()]
    if process_count() > 1:
        learning = [p for p in model.parameters() if p.requires_grad]
        used = torch.tensor([float(p.grad is not None) for p in learning])
        counts = _sum(torch.tensor(counts, dtype=torch.float64)).tolist()
        learning = [p for p, times in zip(learning, _sum(used).tolist(), strict=True) if times]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
        together = torch.cat([grad.flatten() for grad in grads])  # one message, not hundreds
        dist.all_reduce(together)
        for p, grad in zip(learning, together.split([p.numel() for p in learning]), strict=True):
            p.grad = grad.view_as(p)
    seen.take(counts)


def any_process(flag: bool) -> bool:
    """Whether the flag is set in any process; all have to ask."""
    return flag if process_count() == 1 else bool(_sum(torch.tensor([float(flag)])).item())


def from_first(value: Any) -> Any:
    """A plain value as the first process has it, so that all decide alike."""
    if process_count() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def _sum(numbers: Tensor) -> Tensor:
    """The sum over all processes of a small tensor on the CPU."""
    numbers = numbers.to("cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(numbers)
    return numbers.cpu()


# ---------------------------------------------------------------------------------------------
# Progress


class Progress:
    """A bar over an epoch's batches, and after the first of them an estimate of the whole run.

    Time is taken to grow with the number of word pieces, so that a few short batches first do
    not promise too much. An epoch's end corrects an estimate that was wrong by a fifth.

    Args:
        pieces: word pieces of the training rows, all together.
        epochs: of the run that are still to come.
        seconds_before: what they took before an interruption.
    """

    ESTIMATE_AFTER = 5.0  # seconds of training

    def __init__(self, pieces: int, epochs: int, seconds_before: float = 0.0):
        self.total = pieces * epochs
        self.done = 0
        self.begun = time.monotonic()
        self.before = seconds_before  # of a run that was interrupted
        self.told: float | None = None  # seconds of the last estimate

    def bar(self, loader: DataLoader, epoch: int) -> Iterator[dict]:
        """The loader's batches, counted."""
        for batch in progress_bar(loader, f"epoch {epoch}"):
            yield batch
            self.done += sum(
                int(batch[key].sum()) for key in batch if key.startswith("attention_mask")
            )
            if self.told is None and time.monotonic() - self.begun > self.ESTIMATE_AFTER:
                self._estimate()
        if self.told is not None:
            self._estimate()

    def _estimate(self) -> None:
        """Say how long the run takes, unless it is over or what was said still holds."""
        if self.done >= self.total:
            return
        whole = self.before + (time.monotonic() - self.begun) * self.total / self.done
        if self.told is None or abs(whole - self.told) > self.told / 5:
            self.told = whole
            print(f"estimate: training takes about {minutes(whole)} in all", flush=True)

    def seconds(self) -> float:
        """Seconds since the beginning, those before an interruption included."""
        return self.before + time.monotonic() - self.begun


def minutes(seconds: float) -> str:
    """A duration for people: 45 s, 3 min 05 s, 2 h 10 min."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


class Seen:
    """Running sums over what was trained on in an epoch, as it was seen: examples, losses, hits.

    Args:
        names: of the quantities.
        sums: where an interrupted epoch goes on from.
    """

    def __init__(self, names: Sequence[str], sums: dict[str, float] | None = None):
        self.sums = dict.fromkeys(names, 0.0) | (sums or {})
        self.step = dict.fromkeys(names, 0.0)  # added since the last add_up

    def add(self, **amounts: float) -> None:
        """Add to the quantities of this step."""
        for name, amount in amounts.items():
            self.step[name] += amount

    def take(self, amounts: Sequence[float]) -> None:
        """End a step in which all processes together counted so much, in the order of names."""
        for name, amount in zip(self.sums, amounts, strict=True):
            self.sums[name] += amount
            self.step[name] = 0.0


def check_finite(seen: Seen, epoch: int, batch: int, checkpoint: str) -> None:
    """InputError as soon as a sum is nan or infinite: nothing after it would be worth keeping."""
    for name, value in seen.sums.items():
        if not math.isfinite(value):
            raise InputError(
                f"the {name} is {value} in epoch {epoch}, batch {batch}; lower --lr. "
                f"The best epoch before it, if there was one, is kept in {checkpoint}"
            )


def waited_enough(scores: Sequence[float], patience: int | None) -> bool:
    """Whether the last ``patience`` of the epochs' dev scores are no better than those before."""
    if patience is None or len(scores) <= patience:
        return False
    return max(scores[-patience:]) <= max(scores[:-patience])


# ---------------------------------------------------------------------------------------------
# Interruptions


class StopRequest:
    """Ctrl-C asks for a stop at the end of the current step; a second one stops at once.

    Used as ``with StopRequest() as stop: … stop.leave_if_asked(point)``
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self.asked = False

    def __enter__(self) -> StopRequest:
        self.before = {sig: signal.signal(sig, self._ask) for sig in self.SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for sig, handler in self.before.items():
            signal.signal(sig, handler)

    def _ask(self, number: int, frame: object) -> None:
        if self.asked and process_count() == 1:  # torchrun passes a signal on: all get it twice
            raise KeyboardInterrupt
        self.asked = True
        print("\nstopping after this step (once more to stop at once)", flush=True)

    def leave_if_asked(self, point: ResumePoint) -> None:
        """Raise InputError, which says how to go on, if a stop was asked for in any process."""
        if any_process(self.asked):
            raise InputError(f"stopped; --resume goes on from {point.path}")


class ResumePoint:
    """A file from which an interrupted run goes on as if it had never stopped.

    It holds model, optimizer, random states, the position in the epoch and the run's settings, as
    tensors and plain values; it is written aside and renamed, so that the last good one survives a
    crash at any moment.

    Args:
        path: of the file.
        settings: what has to be the same for a run to go on: flags, sizes, hashes.
        seconds: how often ``due`` says that it is time to write.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any], seconds: float = 60.0):
        self.path = Path(path)
        self.settings = settings | {"processes": process_count()}
        self.seconds = seconds
        self.written = time.monotonic()

    def due(self) -> bool:
        """Whether the last write was long enough ago."""
        return time.monotonic() - self.written >= self.seconds

    def write(self, model: nn.Module, optimizer: Optimizer, position: dict[str, Any]) -> None:
        """Write everything; ``position`` is plain values of the caller's."""
        random_states = [_random_state()]
        if process_count() > 1:
            random_states *= process_count()
            dist.all_gather_object(random_states, _random_state())
        save_checkpoint(
            self.path,
            {
                "settings": self.settings,
                "position": position,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "random": random_states,
            },
        )
        self.written = time.monotonic()

    def read(self, model: nn.Module, optimizer: Optimizer) -> dict[str, Any] | None:
        """Put a run back where it was and return its position; None if there is no file.

        Raises InputError if the file is damaged or belongs to a run with other settings. What
        killed runs left half written is removed.
        """
        for left in self.path.parent.glob(".*.part"):
            if left.name.startswith(f".{self.path.stem}.") and first_process():
                left.unlink()
        if not self.path.is_file():
            if first_process():
                print(f"--resume: there is no {self.path} yet; this run begins at the beginning")
            return None
        anew = "run without --resume to start anew"
        try:
            saved = load_checkpoint(self.path)
            theirs = saved["settings"]
        except InputError as error:
            raise InputError(f"{error}; {anew}") from error
        except (KeyError, TypeError):
            raise InputError(f"{self.path} is no file to resume from; {anew}") from None
        different = sorted(
            key
            for key in theirs.keys() | self.settings.keys()
            if theirs.get(key) != self.settings.get(key)
        )
        if different:
            key = different[0]
            raise InputError(
                f"{self.path} belongs to a run with {key}={theirs.get(key)!r}, this one has "
                f"{self.settings.get(key)!r} (settings that differ: {', '.join(different)}); "
                f"{anew}, or with the old flags"
            )
        try:
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"{self.path} does not fit this model ({first_line(error)}); {anew}"
            ) from error
        random_state = saved["random"][process_number()]
        torch.set_rng_state(random_state["cpu"])
        if "cuda" in random_state and torch.cuda.is_available():
            torch.cuda.set_rng_state(random_state["cuda"])
        return saved["position"]


def _random_state() -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def resume_path(filepath: str | Path) -> Path:
    """Where an interrupted run is kept, beside its checkpoint: sst-classifier.resume."""
    return Path(filepath).with_suffix(".resume")


def save_model(model: nn.Module, optimizer, args, config, filepath: str | Path) -> None:
    """Save model, optimizer, flags and configuration, atomically, as tensors and plain values."""
    save_checkpoint(
        filepath,
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "args": vars(args),
            "config": vars(config),
        },
    )
    print(f"saved the model to {filepath}")


def restore_model(
    filepath: str | Path,
    device: torch.device,
    build: Callable[[SimpleNamespace], nn.Module],
    *,
    what: str,
    script: str,
    is_ours: Callable[[dict], bool],
) -> tuple[nn.Module, SimpleNamespace]:
    """The model that save_model wrote, in evaluation mode, and its configuration.

    Args:
        build: makes a new model of a configuration.
        what, script: the model and the script that trains it, for error messages.
        is_ours: whether a checkpoint's configuration is of such a model.

    Raises:
        InputError: no such file, not a checkpoint of the script, or other tensors than the model's.
    """
    saved = load_checkpoint(filepath)
    values = saved.get("config") if isinstance(saved, dict) else None
    if not isinstance(values, dict) or not is_ours(values):
        raise InputError(f"{filepath} is no checkpoint of {script}; train again")
    config = SimpleNamespace(**values)
    model = build(config)
    try:
        model.load_state_dict(saved.get("model", {}))
    except RuntimeError as error:
        raise InputError(
            f"{filepath} holds other tensors than {what} on {config.model}; train again"
        ) from error
    return model.to(device).eval(), config


def time_to_write(stop: StopRequest, point: ResumePoint) -> bool:
    """Whether a resume point is due, or a stop was asked for, in any process."""
    return any_process(stop.asked or point.due())
