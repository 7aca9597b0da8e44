"""Ask the sandbox: send jobs to its program, read what comes back, and trust nothing of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from course.grading.sandbox import isolation
from course.grading.sandbox.context import GradingContext
from course.grading.sandbox.worker import ENDS, HEAD, MOST_NUMBERS

NUMBERS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NUMBERS += (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
OTHER = type("non-tensor", (), {})()  # stands for what is neither tensor, text nor None
Job = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What came back for one job: "ran" and its outputs, or a status of types.STATUSES."""

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
    staff, course = (context.stage / name for name in ("staff", "handout"))
    worker = staff / "course" / "grading" / "sandbox" / "worker.py"
    command = [isolation.python(), "-s", "-B", str(worker), str(staff), str(course)]
    inputs = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    replies: dict[str, Reply] = {}
    while waiting := [job for job in jobs if job["name"] not in replies]:
        request = {"jobs": waiting, "seconds": context.seconds}
        text = torch.frombuffer(bytearray(json.dumps(request).encode()), dtype=torch.uint8)
        message = save({**inputs, "request": text})
        status, answer, printed = isolation.run(
            command, message, [context.stage], context.limits, context.isolation
        )
        started, *answers = records(answer) or [None]
        if started != (0, b""):
            why = " ".join(printed.split())[-300:]
            raise RuntimeError(f"no sandbox here ({status}: {why}): see docs/threat-model.md")
        for asked, (number, content) in zip(waiting, answers, strict=False):
            replies[asked["name"]] = decode(number, content)
        for asked in waiting[len(answers) :][:1]:
            replies[asked["name"]] = Reply(status if status in ENDS else "crashed")
    return replies


def records(answer: bytes) -> list[tuple[int, bytes]]:
    """All whole records of what the sandbox wrote: how each job ended, and what it left."""
    whole, start = [], HEAD.size
    while start <= len(answer):
        number, size = HEAD.unpack_from(answer, start - HEAD.size)
        if start + size > len(answer):
            break
        whole.append((number, answer[start : start + size]))
        start += size + HEAD.size
    return whole


def decode(number: int, content: bytes) -> Reply:
    """A record as a reply: tensors, texts, and stand-ins for what was neither."""
    if 0 < number < len(ENDS):
        return Reply(ENDS[number])
    try:
        arrays = {} if number else load(content)
    except Exception:  # of safetensors, of torch: whatever it is, it is not an answer
        arrays = {}
    if not arrays or sum(array.numel() for array in arrays.values()) > MOST_NUMBERS:
        return Reply("invalid answer")
    outputs: dict[str, Any] = {}
    for key, array in arrays.items():
        kind, _, name = key.partition("/")
        outputs[name] = None if kind == "none" else OTHER
        if kind == "text":
            content = array.contiguous().numpy().tobytes() if array.dtype == torch.uint8 else b""
            outputs[name] = content.decode(errors="replace")
        elif kind == "tensor" and array.dtype in NUMBERS:
            outputs[name] = array
    return Reply("ran", outputs)
