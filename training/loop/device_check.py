"""Whether a device computes what the CPU computes: looked at before a run trains on it.

PyTorch's kernels for a device can be wrong, and a model that they train learns all the same, only
less. So two rows of the run's own data go through the run's own model, forward and backward and
without dropout: on the device in the run's precision, and on the CPU in float32. What the precision
explains is measured: the CPU does it once more, with every matrix product rounded.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import signature
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from training.files.errors import InputError, first_line
from training.loop.batches import PAIR
from training.loop.devices import autocast_for
from training.loop.processes import gather

Autocast = Callable[[], AbstractContextManager]
Sample = tuple[str, list[Tensor]]  # a method of the model; ids and mask, segments or a second pair
Values = list[tuple[str, Tensor]]  # by name, on the CPU in float32

REFERENCE = "cpu"  # the kind of device that others are compared with
LENGTH = 16  # most tokens of a row
MARGIN = 8  # times what rounding explains: kernels round in other places (on CPUs: up to 2.8 times)
PRECISIONS = {None: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm}


def check_device(args: Any, model: nn.Module, datasets: Mapping[str, Any]) -> None:
    """Compare a model on its device with a copy on the CPU; nothing to do if it is there itself.

    Args:
        datasets: by the name of a method of the model the rows that it is called with.

    Raises:
        InputError: rounding does not explain a difference, and --trust_device is not given.
    """
    device = next(model.parameters()).device
    if device.type == REFERENCE:
        return
    samples = [sample(model, method, rows) for method, rows in datasets.items()]
    modes = {module: module.training for module in model.modules()}
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        fault = fault_of(model.eval(), samples, autocast_for(device, args.precision))
    for module, mode in modes.items():
        module.training = mode
    fault = next(filter(None, gather(fault)), None)  # all processes end together
    if fault and not args.trust_device:
        raise InputError(f"{fault}, or train anyway with --trust_device")
    print(f"note: {fault}" if fault else f"device check: {device.type} computes as the CPU does")


def sample(model: nn.Module, method: str, rows: Any) -> Sample:
    """Two rows of a data set, cut to LENGTH tokens, at least one of them padded."""
    lengths = np.asarray(rows.lengths())
    longest = np.where(lengths <= LENGTH, lengths, 0).argmax()
    numbers = [[int(longest), int(lengths.argmin())]]
    own = torch.Generator()  # a loader draws a number
    (batch,) = DataLoader(rows, batch_sampler=numbers, collate_fn=rows.collate_fn, generator=own)
    keys = PAIR[:-1] if "token_ids_1" in batch else ("token_ids", "attention_mask")
    if "token_type_ids" in batch and len(signature(getattr(model, method)).parameters) > 2:
        keys = (*keys, "token_type_ids")
    inputs = [batch[key][:, :LENGTH].clone() for key in keys]  # (2, L) each
    for mask in inputs[1::2]:
        if mask.all():
            mask[-1, mask.size(1) // 2 :] = 0
    return method, inputs


def fault_of(model: nn.Module, samples: Sequence[Sample], autocast: Autocast) -> str | None:
    """What the model's device computes differently from the CPU, and what to do."""
    device = next(model.parameters()).device.type
    with autocast():
        enabled = torch.is_autocast_enabled(device)
        half = torch.get_autocast_dtype(device) if enabled else None
    try:
        plain = copy_on_cpu(model)
        exact = forward_and_backward(plain, samples, nullcontext)
        # gradients as large as float16 holds them, with space for those between the layers
        largest = max(abs(float(end)) for _, g in exact[1] for end in g.aminmax())
        scale = 2.0 ** (10 - math.ceil(math.log2(largest))) if 0 < largest < math.inf else 1.0
        with RoundedProducts(half or torch.bfloat16):
            rounded = forward_and_backward(plain, samples, nullcontext, scale)
    except RuntimeError as error:
        if isinstance(error, NotImplementedError):  # a task that is not written yet
            raise
        print(f"note: no device check, since the model fails on the CPU ({first_line(error)})")
        return None
    try:
        computed = forward_and_backward(model, samples, autocast, scale)
    except NotImplementedError as error:
        remedy = "set PYTORCH_ENABLE_MPS_FALLBACK=1, leave out --use_gpu"
        return f"{device} lacks an operation of the model ({first_line(error)}): {remedy}"
    # Errors grow with the unit of rounding. In float32 those of the sums count as well: of K
    # products, added up in whatever order, about √K units.
    longest_sum = max(size for p in model.parameters() for size in p.shape)
    factor = 1.0 if half else 2.0**-16 * math.sqrt(longest_sum)  # bfloat16 has 16 bits less
    kinds = zip(exact, rounded, computed, (1.0, scale), strict=True)
    differences = (first_difference(*values, MARGIN * factor) for values in kinds)
    difference = next(filter(None, differences), None)
    where = f"{device} in {PRECISIONS[half]} does not compute what the CPU computes"
    return difference and f"{where}: {difference}; leave out --use_gpu"


# ---------------------------------------------------------------------------------------------
# Passes


class RoundedProducts(TorchDispatchMode):
    """Within it all matrix products, forward and backward, take and give rounded numbers."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        """Compute an operation."""
        if operation.overloadpacket not in PRODUCTS:
            return operation(*args, **(kwargs or {}))
        return self.rounded(operation(*map(self.rounded, args), **(kwargs or {})))

    def rounded(self, value: Any) -> Any:
        """A tensor's numbers as the type has them; anything else as it is."""
        return value.to(self.dtype).to(value.dtype) if isinstance(value, Tensor) else value


def copy_on_cpu(model: nn.Module) -> nn.Module:
    """The model on the CPU, with the methods that one reads in place of those of training/fast."""
    memo: dict[int, Any] = {id(tensor): tensor.to("cpu", copy=True) for tensor in model.buffers()}
    for p in model.parameters():
        memo[id(p)] = nn.Parameter(p.detach().to("cpu", copy=True), p.requires_grad)
    plain = copy.deepcopy(model, memo)
    for module in plain.modules():
        for name, value in [*vars(module).items()]:
            if str(getattr(value, "__module__", "")).startswith("training.fast"):
                delattr(module, name)
    return plain


def forward_and_backward(
    model: nn.Module, samples: Sequence[Sample], autocast: Autocast, scale: float = 1.0
) -> tuple[Values, Values]:
    """The outputs of all modules, in the order of their calls; the gradients, the head's first.

    Args:
        scale: of the loss, and so of the gradients, which are as large as the model: no copies.
    """
    device = next(model.parameters()).device
    kept: Values = []
    total = torch.zeros((), device=device)

    def keep(name: str, module: nn.Module, inputs: tuple, output: Any) -> None:
        rows = without_padding(output, masks) if isinstance(output, Tensor) else None
        if rows is not None:
            kept.append((f"the output of {name}", rows.detach().cpu().float()))

    modules = [pair for pair in model.named_modules() if pair[0]]
    hooks = [module.register_forward_hook(partial(keep, name)) for name, module in modules]
    for method, inputs in samples:
        inputs = [tensor.to(device) for tensor in inputs]
        masks = [mask.bool() for mask in inputs[1::2]]
        with autocast():
            outputs = getattr(model, method)(*inputs)
        for output in outputs if isinstance(outputs, tuple) else (outputs,):
            keep(method, model, (), output)
            if output is not None:
                total = total + loss_of(without_padding(output, masks))
    for hook in hooks:
        hook.remove()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(scale * total, [*learned.values()], allow_unused=True)
    tensors = [
        torch.zeros(p.shape) if gradient is None else gradient.cpu().float()
        for p, gradient in zip(learned.values(), gradients, strict=True)
    ]
    names = (f"the gradient of {name}" for name in learned)
    return kept, [*zip(names, tensors, strict=True)][::-1]


def without_padding(output: Tensor, masks: Sequence[Tensor]) -> Tensor | None:
    """Of an output (B, L, K) or (B · L, K) the rows of tokens, (M, K); one of (B, …) is whole.

    Args:
        masks: (B, L) of bool. Where an output may belong to either of two, the tokens of both are
            taken. Where it belongs to none, as that of two texts joined, the result is None.
    """
    if output.dim() in (1, 2) and len(output) == len(masks[0]):
        return output
    fitting = [mask for mask in masks if output.shape[:-1] in (mask.shape, (mask.numel(),))]
    return output.flatten(0, -2)[torch.stack(fitting).all(dim=0).flatten()] if fitting else None


def loss_of(rows: Tensor) -> Tensor:
    """A loss as training has them: of logits (N, K), or of numbers (N,)."""
    if rows.dim() == 1:
        return (rows.float() - 1).square().mean()
    targets = torch.zeros(len(rows), dtype=torch.long, device=rows.device)  # others would cancel
    return F.cross_entropy(rows.float(), targets)


def first_difference(
    exact: Values, rounded: Values, computed: Values, scale: float, factor: float
) -> str | None:
    """The first tensor that is off by more than ``factor`` times what rounding explains."""

    def distances(values: Values) -> list[float]:  # of scaled ones
        pairs = zip(values, exact, strict=True)
        return [float(torch.sub(b, a, alpha=scale).norm()) / scale for (_, b), (_, a) in pairs]

    sizes = [float(tensor.norm()) for _, tensor in exact]
    errors, off_by = distances(rounded), distances(computed)
    # a small tensor may be rounded well by chance: at least the usual error is granted
    usual = median(error / size for error, size in zip(errors, sizes, strict=True) if size)
    for (name, _), size, error, off in zip(exact, sizes, errors, off_by, strict=True):
        explained = factor * max(error, usual * size)
        if not math.isfinite(size + error):
            continue  # the model's own fault, or the precision's: training says so
        if not math.isfinite(off):
            return f"{name} is not finite"
        if error <= size and off > explained:  # where the error is larger, no digit counts
            relative = size or 1.0
            return (
                f"{name} is off by {off / relative:.2g} of its size, where rounding explains "
                f"{explained / relative:.2g}"
            )
    return None
