"""Ask the sandbox: send jobs to its program, read what comes back, and trust nothing of it."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from course.grading.sandbox import packages, sandbox
from course.grading.sandbox.context import GradingContext
from course.grading.sandbox.worker import HEAD, MOST_NUMBERS, MOST_TEXT, Frame, frame, read_frame

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
Job = dict[str, Any]
LACKING = {  # statuses without an answer, in words for the student
    "timeout": "it did not end within the time limit, and was stopped",
    "memory": "it needed more memory than the limit",
    "disk": "it wrote more, or more files, than the limit",
    "crashed": "the program ended before it gave an answer",
    "missing": "the file was not handed in",
    "invalid answer": "what it gave back cannot be read",
}


@dataclass(frozen=True)
class Reply:
    """What came back for one job."""

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
    data = save({name: tensor.detach().clone() for name, tensor in tensors.items()})
    while waiting := {job["name"]: job for job in jobs if job["name"] not in replies}:
        ended = run_worker(context, [*waiting.values()], data)
        ready, *frames = frames_in(ended.answer) or [({}, b"")]
        if "ready" not in ready[0]:
            raise RuntimeError(
                f"the sandbox did not start ({ended.status}): {ended.printed[-500:]}"
            )
        for header, content in frames:
            if header.get("job") in waiting and header["job"] not in replies:
                replies[header["job"]] = decode(header, content)
        if replies.keys().isdisjoint(waiting):
            status = "timeout" if ended.status == "timeout" else "crashed"
            replies[next(iter(waiting))] = Reply(status)
    return replies


def run_worker(context: GradingContext, jobs: Sequence[Job], data: bytes) -> sandbox.Ended:
    """Send jobs to the program in a new sandbox."""
    limits = replace(context.limits, quiet_s=context.limits.quiet_s + context.seconds)
    # what the program does before its tasks pays where several of them need it
    scripts = any(SCRIPTS & job["files"].keys() for job in jobs)
    request = {
        "limits": asdict(limits),
        "jobs": jobs,
        "seconds": context.seconds,
        "folders": [str(path) for path in (context.stage / "solution",) if path.is_dir()],
        "imports": [*IMPORTS, *IMPORTS_OF_SCRIPTS * scripts],
        "gradients": any(job["name"] != OPTIMIZER for job in jobs),
        "hidden": packages.hidden(packages.allowed_by(context.settings)),
    }
    staff, course = (context.stage / name for name in ("staff", "handout"))
    worker = staff / "course" / "grading" / "sandbox" / "worker.py"
    command = [sys.executable, "-s", "-B", str(worker), str(staff), str(course)]
    return sandbox.run(command, frame(request, data), [context.stage], limits, context.isolation)


def frames_in(answer: bytes) -> list[Frame]:
    """All whole frames of what the sandbox wrote."""
    stream, frames = io.BytesIO(answer), []
    while len(answer) - stream.tell() >= HEAD.size and (part := read_frame(stream, MOST_TEXT)):
        frames.append(part)
    return frames


def decode(header: Mapping[str, Any], content: bytes) -> Reply:
    """One frame as a reply: arrays, texts, and stand-ins for what was not a tensor."""
    status = header.get("status")
    if status != "ran":
        known = isinstance(status, str) and status in LACKING
        return Reply(status if known else "invalid answer")
    others, texts = header.get("others"), header.get("texts")
    readable = isinstance(others, dict) and isinstance(texts, dict)
    # each tensor's name, and each of its numbers, costs many times its bytes once it is read
    if not readable or int.from_bytes(content[:8], "little") > MOST_TEXT:
        return Reply("invalid answer")
    try:
        tensors = load(content)
    except Exception:  # of safetensors, of torch: whatever it is, it is no answer
        return Reply("invalid answer")
    if sum(tensor.numel() for tensor in tensors.values()) > MOST_NUMBERS:
        return Reply("invalid answer")
    outputs: dict[str, Any] = {
        name: tensor if tensor.dtype in NUMBERS else stand_in(str(tensor.dtype))
        for name, tensor in tensors.items()
    }
    # no file can hold halves of characters
    speakable = {n: str(text).encode(errors="replace").decode() for n, text in texts.items()}
    outputs |= {name: text[:2000] for name, text in speakable.items()}
    outputs |= {n: None if kind == "NoneType" else stand_in(kind) for n, kind in others.items()}
    return Reply("ran", outputs)


def stand_in(kind: Any) -> Any:
    """Something whose type has that name; judge.py tells the student."""
    known = isinstance(kind, str) and kind.replace(".", "_").isidentifier()
    return type(kind[:40] if known else "object", (), {})()
