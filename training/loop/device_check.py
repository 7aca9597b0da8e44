"""Before a run trains on a GPU: does it compute what the CPU computes?

Two rows go through the model without dropout, forward and backward: on the device in the run's
precision, on the CPU in float32, and on the CPU in 16 bits, which measures how much of a difference
the precision explains.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from inspect import signature
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from training.files.errors import InputError, first_line
from training.loop.batches import input_keys
from training.loop.devices import autocast_for
from training.loop.processes import gather

LENGTH, SCALE = 16, 2.0**10  # most tokens of a row; of the loss, since float16 ends at 6e-8
MARGIN = 8  # times what rounding explains: kernels round in other places (on CPUs: up to 2.8 times)


def check_device(args: Any, model: nn.Module, datasets: Mapping[str, Any]) -> None:
    """InputError where a device is wrong; ``datasets`` has rows by the model's methods."""
    device = next(model.parameters()).device
    samples = {name: sample(getattr(model, name), rows) for name, rows in datasets.items()}
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        fault = fault_of(model.eval(), samples, autocast_for(device, args.precision))
    fault = next(filter(None, gather(fault)), None)  # all processes end together
    if fault:
        raise InputError(f"{fault}; leave out --use_gpu, or train anyway with --trust_device")
    print(f"device check: {device.type} computes as the CPU does")


def sample(method: Callable, rows: Any) -> list[Tensor]:
    """A method's inputs of two rows, cut to LENGTH tokens, the second padded: (2, L) each."""
    batch = rows.collate_fn([rows[0], rows[1 % len(rows.lengths())]])
    keys = input_keys(batch)
    if "token_type_ids" in batch and len(signature(method).parameters) > 2:
        keys = (*keys, "token_type_ids")
    inputs = [batch[key][:, :LENGTH].clone() for key in keys]
    for mask in inputs[1::2]:
        mask[-1, max(1, mask.size(1) // 2) :] = 0
    return inputs


def fault_of(model: nn.Module, samples: Mapping, autocast: Callable) -> str | None:
    """What the model's device computes differently from the CPU, in a phrase."""
    device = next(model.parameters()).device.type
    with autocast():
        is_half = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if is_half else torch.bfloat16
    on_cpu = copy.deepcopy(model).cpu()
    try:
        exact = passes(on_cpu, samples, nullcontext)
        rounded = passes(on_cpu, samples, partial(torch.autocast, "cpu", dtype))
    except RuntimeError as error:  # such as code that names the GPU
        return f"the model fails on the CPU ({first_line(error)})"
    computed = passes(model, samples, autocast)
    # in float32 the sums of K products count as well: about √K units of 2⁻¹⁶ of bfloat16's
    longest = max(size for p in model.parameters() for size in p.shape)
    factor = MARGIN * (1.0 if is_half else 2.0**-16 * longest**0.5)
    sizes = {name: float(x.norm()) for name, x in exact.items()}
    errors = {name: float((rounded[name] - x).norm()) for name, x in exact.items()}
    # a small tensor may be rounded well by chance: at least the usual error is granted
    usual = median(errors[name] / size for name, size in sizes.items() if size)
    for name, size in sizes.items():
        off = float((computed[name] - exact[name]).norm())
        explained = factor * max(errors[name], usual * size)
        if errors[name] <= size and not off <= explained:  # nan is no digit
            numbers = f"off by {off:.2g} of {size:.2g}; rounding explains {explained:.2g}"
            return f"{device} does not compute what the CPU computes: {name} is {numbers}"
    return None


def passes(model: nn.Module, samples: Mapping, autocast: Callable) -> dict[str, Tensor]:
    """The outputs of all modules, in the order of their calls; then gradients, the head's first."""
    device, kept = next(model.parameters()).device, {}
    loss = torch.zeros((), device=device)

    def keep(name: str, module: nn.Module | None, inputs: tuple, output: Any) -> None:
        if isinstance(output, Tensor) and output.dim() < 4:  # (B, H, L, L): not of a kernel
            kept[f"the output of {name} (number {len(kept)})"] = output.detach()

    modules = [pair for pair in model.named_modules() if pair[0]]
    hooks = [module.register_forward_hook(partial(keep, name)) for name, module in modules]
    for method, inputs in samples.items():
        with autocast():
            outputs = getattr(model, method)(*(tensor.to(device) for tensor in inputs))
        for output in filter(torch.is_tensor, outputs if isinstance(outputs, tuple) else [outputs]):
            keep(method, None, (), output)
            loss = loss + (output.float() - 1).square().mean()
    for hook in hooks:
        hook.remove()
    learned = {f"the gradient of {n}": p for n, p in model.named_parameters() if p.requires_grad}
    tensors = torch.autograd.grad(SCALE * loss, [*learned.values()], materialize_grads=True)
    kept |= reversed(dict(zip(learned, tensors, strict=True)).items())
    return {name: tensor.cpu().float() for name, tensor in kept.items()}
