"""Before a run trains on a GPU: does it compute what the CPU computes?

A device's kernels can be wrong, and a model that they train learns all the same, only less. So two
rows of the run's own data go through the run's own model, forward and backward, without dropout: on
the device in the run's precision, and on the CPU in float32. What the precision explains is
measured: the CPU does it once more, with every matrix product rounded.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from inspect import signature
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from training.files.errors import InputError, first_line
from training.loop.batches import PAIR
from training.loop.devices import autocast_for
from training.loop.processes import gather

Values = list[tuple[str, Tensor]]  # by name, on the CPU in float32
LENGTH, SCALE = 16, 2.0**10  # most tokens of a row; of the loss, since float16 ends at 6e-8
MARGIN = 8  # times what rounding explains: kernels round in other places (on CPUs: up to 2.8 times)
PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm}


def check_device(args: Any, model: nn.Module, datasets: Mapping[str, Any]) -> None:
    """Compare a model on its device with a copy on the CPU.

    Args:
        datasets: by the name of a method of the model the rows that it is called with.

    Raises:
        InputError: rounding does not explain a difference, and --trust_device is not given.
    """
    device = next(model.parameters()).device
    samples = [(method, sample(model, method, rows)) for method, rows in datasets.items()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        fault = fault_of(model.eval(), samples, autocast_for(device, args.precision))
    fault = next(filter(None, gather(fault)), None)  # all processes end together
    if fault and not args.trust_device:
        raise InputError(f"{fault}; leave out --use_gpu, or train anyway with --trust_device")
    print(f"note: {fault}" if fault else f"device check: {device.type} computes as the CPU does")


def sample(model: nn.Module, method: str, rows: Any) -> list[Tensor]:
    """The inputs of two rows, cut to LENGTH tokens, the shortest one padded further: (2, L) each."""
    shortest = min(range(len(rows.lengths())), key=rows.lengths().__getitem__)
    batch = rows.collate_fn([rows[0], rows[shortest]])
    keys = PAIR[:-1] if "token_ids_1" in batch else ("token_ids", "attention_mask")
    if "token_type_ids" in batch and len(signature(getattr(model, method)).parameters) > 2:
        keys = (*keys, "token_type_ids")
    inputs = [batch[key][:, :LENGTH].clone() for key in keys]
    for mask in inputs[1::2]:
        mask[-1, max(1, mask.size(1) // 2) :] = 0
    return inputs


def fault_of(model: nn.Module, samples: list, autocast: Callable) -> str | None:
    """What the model's device computes differently from the CPU, in a phrase."""
    device = next(model.parameters()).device.type
    with autocast():
        is_half = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if is_half else torch.bfloat16
    try:
        plain = copy.deepcopy(model).cpu()
        for module in plain.modules():  # without the kernels of --fast
            for name, value in [*vars(module).items()]:
                if str(getattr(value, "__module__", "")).startswith("training.fast"):
                    delattr(module, name)
        exact = passes(plain, samples, nullcontext)
        with RoundedProducts(dtype):
            rounded = passes(plain, samples, nullcontext)
    except RuntimeError as error:
        if isinstance(error, NotImplementedError):  # a task that is not written yet
            raise
        print(f"note: no device check, since the model fails on the CPU ({first_line(error)})")
        return None
    # In float32 the sums of K products count as well: about √K units of 2⁻¹⁶ of bfloat16's
    longest_sum = max(size for p in model.parameters() for size in p.shape)
    factor = MARGIN * (1.0 if is_half else 2.0**-16 * math.sqrt(longest_sum))
    difference = first_difference(exact, rounded, passes(model, samples, autocast), factor)
    return difference and f"{device} does not compute what the CPU computes: {difference}"


class RoundedProducts(TorchDispatchMode):
    """Within it all matrix products, forward and backward, take and give rounded numbers."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        """Compute an operation."""
        if operation.overloadpacket not in PRODUCTS:
            return operation(*args, **(kwargs or {}))
        args = [x.to(self.dtype).to(x.dtype) if isinstance(x, Tensor) else x for x in args]
        result = operation(*args, **(kwargs or {}))
        return result.to(self.dtype).to(result.dtype)


def passes(model: nn.Module, samples: list, autocast: Callable) -> Values:
    """The outputs of all modules, in the order of their calls; then gradients, the head's first."""
    device = next(model.parameters()).device
    kept: Values = []
    loss = torch.zeros((), device=device)

    def keep(name: str, module: nn.Module, inputs: tuple, output: Any) -> None:
        if isinstance(output, Tensor) and output.dim() < 4:  # (B, H, L, L): not of a kernel
            kept.append((f"the output of {name}", output.detach().cpu().float()))

    modules = [pair for pair in model.named_modules() if pair[0]]
    hooks = [module.register_forward_hook(partial(keep, name)) for name, module in modules]
    for method, inputs in samples:
        with autocast():
            outputs = getattr(model, method)(*(tensor.to(device) for tensor in inputs))
        for output in outputs if isinstance(outputs, tuple) else (outputs,):
            keep(method, model, (), output)
            if output is not None and output.dim() > 1:
                rows = output.float().flatten(0, -2)  # (N, K) logits
                loss = loss + F.cross_entropy(rows, torch.zeros_like(rows[:, 0]).long())
            elif output is not None:
                loss = loss + (output.float() - 1).square().mean()
    for hook in hooks:
        hook.remove()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    tensors = torch.autograd.grad(SCALE * loss, [*learned.values()], materialize_grads=True)
    gradients = [(f"the gradient of {n}", g.cpu().float()) for n, g in zip(learned, tensors)]
    return kept + gradients[::-1]


def first_difference(exact: Values, rounded: Values, device: Values, factor: float) -> str | None:
    """The first tensor that is off by more than ``factor`` times what rounding explains."""

    def distances(values: Values) -> list[float]:
        return [float((x - y).norm()) for (_, x), (_, y) in zip(values, exact, strict=True)]

    sizes = [float(tensor.norm()) for _, tensor in exact]
    errors, off_by = distances(rounded), distances(device)
    # a small tensor may be rounded well by chance: at least the usual error is granted
    usual = median(error / size for error, size in zip(errors, sizes, strict=True) if size)
    for (name, _), size, error, off in zip(exact, sizes, errors, off_by, strict=True):
        explained = factor * max(error, usual * size)
        if math.isfinite(size + error) and error <= size and not off <= explained:
            return f"{name} is off by {off:.2g} of {size:.2g}; rounding explains {explained:.2g}"
    return None
