"""Ask the sandbox: send jobs to its program, read what comes back, and trust nothing of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from course.grading.sandbox import sandbox
from course.grading.sandbox.context import GradingContext
from course.grading.sandbox.worker import ENDS, HEAD, MOST_NUMBERS, OTHERS

# What the program in the sandbox loads once for all tasks: always, and what scripts import
IMPORTS = ("utils", "base_bert")
IMPORTS_OF_SCRIPTS = (
    "tokenizer",
    "datasets",
    "evaluation",
    "training.loop.run",
    "training.loop.encoder_outputs",
    "training.cli.flags",
)
SCRIPTS = {"classifier.py", "multitask_classifier.py"}
OPTIMIZER = "optimizer.step"  # the one task without gradients of its own
NUMBERS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NUMBERS += (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
MOST_HEADER = 2**20  # bytes of the names and shapes in an answer, which cost more once they are read
Job = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What came back for one job: "ran" and outputs, or why there are none, of types.STATUSES."""

    status: str
    outputs: Mapping[str, Any] = field(default_factory=dict)


def job(name: str, run: str, arguments: Mapping[str, Any], files: Mapping[str, str]) -> Job:
    """What the sandbox does for a task: a function of runs.py, with a student's files there."""
    return {"name": name, "run": run, "arguments": arguments, "files": files}


def ask(
    context: GradingContext, jobs: Sequence[Job], tensors: Mapping[str, Tensor]
) -> dict[str, Reply]:
    """The reply to each job by its name; after one that takes a sandbox down, the rest in another.

    Raises:
        RuntimeError: the sandbox did not start, which is not the student's fault.
    """
    replies: dict[str, Reply] = {}
    while waiting := [job for job in jobs if job["name"] not in replies]:
        ended = run_worker(context, waiting, tensors)
        ready, *answers = records(ended.answer) or [None]
        if ready != (0, b""):
            raise RuntimeError(f"the sandbox did not start ({ended.status}): {ended.printed}")
        for asked, (number, content) in zip(waiting, answers, strict=False):
            replies[asked["name"]] = decode(number, content)
        if len(answers) < len(waiting):
            status = ended.status if ended.status in ENDS else "crashed"
            replies[waiting[len(answers)]["name"]] = Reply(status)
    return replies


def run_worker(
    context: GradingContext, jobs: Sequence[Job], tensors: Mapping[str, Tensor]
) -> sandbox.Ended:
    """Send jobs to the program in a new sandbox."""
    limits = replace(context.limits, quiet_s=context.limits.quiet_s + context.seconds)
    # what the program does before its tasks pays where several of them need it
    scripts = any(SCRIPTS & job["files"].keys() for job in jobs)
    request = {
        "jobs": jobs,
        "seconds": context.seconds,
        "imports": [*IMPORTS, *IMPORTS_OF_SCRIPTS * scripts],
        "gradients": any(job["name"] != OPTIMIZER for job in jobs),
    }
    text = torch.frombuffer(bytearray(json.dumps(request).encode()), dtype=torch.uint8)
    data = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    staff, course = (context.stage / name for name in ("staff", "handout"))
    worker = staff / "course" / "grading" / "sandbox" / "worker.py"
    command = [sys.executable, "-s", "-B", str(worker), str(staff), str(course)]
    message = save({**data, "request": text})
    return sandbox.run(command, message, [context.stage], limits, context.isolation)


def records(answer: bytes) -> list[tuple[int, bytes]]:
    """How each job ended and what it left: all whole records of what the sandbox wrote."""
    whole, place = [], 0
    while place + HEAD.size <= len(answer):
        number, size = HEAD.unpack_from(answer, place)
        start, place = place + HEAD.size, place + HEAD.size + size
        if place <= len(answer):
            whole.append((number, answer[start:place]))
    return whole


def decode(number: int, content: bytes) -> Reply:
    """One record as a reply: tensors, texts, and stand-ins for what was neither."""
    invalid = Reply("invalid answer")
    if number:
        return Reply(ENDS[number]) if number < len(ENDS) else invalid
    if int.from_bytes(content[:8], "little") > MOST_HEADER:
        return invalid
    try:
        tensors = load(content)
    except Exception:  # of safetensors, of torch: whatever it is, it is no answer
        return invalid
    if sum(tensor.numel() for tensor in tensors.values()) > MOST_NUMBERS:
        return invalid
    outputs: dict[str, Any] = {}
    for key, tensor in tensors.items():
        kind, _, name = key.partition("/")
        if kind == "tensor":
            outputs[name] = tensor if tensor.dtype in NUMBERS else OTHERS[-1]
        elif kind == "text" and tensor.dtype == torch.uint8:
            outputs[name] = tensor.numpy().tobytes().decode(errors="replace")[:2000]
        else:
            known = tensor.dtype == torch.uint8 and tensor.numel() == 1
            outputs[name] = OTHERS[min(tensor.item(), len(OTHERS) - 1) if known else -1]
    return Reply("ran", outputs)
