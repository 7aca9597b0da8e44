"""Grade one submission: run its functions in the sandbox, compare, count points.

What a batch shares (the staff's files for the sandbox, settings, the assignment's secret) is in
``Desk``. It does not read submissions and writes no files; grade.py does.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

import sanity_part1
from course import handout, table
from course.grading import hidden, judge, sandbox
from course.grading.types import Submission
from course.grading.worker import BIGGEST, HEAD, MOST_TEXT, frame, read_frame
from tasks import Task

ROOT = Path(__file__).resolve().parents[2]
INSIDE = (
    "__init__",
    "runs",
    "sandbox",
    "seccomp",
    "worker",
)  # of this folder, what the sandbox needs
IMPORTS = (
    "course.grading.runs",
    "utils",
    "tokenizer",
    "base_bert",
    "datasets",
    "evaluation",
    "training.run",
    "training.encoder_outputs",
    "training.flags",
)
NUMBERS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NUMBERS += (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SECONDS = 20.0  # wall time of one task
OPTIMIZER = "optimizer.step"
PERIOD = 143  # the optimizer's gradients and first values repeat after so many seeds


@dataclass(frozen=True)
class Desk:
    """All that the grading of one assignment shares."""

    part: int
    settings: Mapping[str, Any]
    tasks: tuple[Task, ...]
    secret: str  # of the assignment; hidden inputs are made from it and the student's name
    stage: Path  # the staff's files that the sandbox may read
    limits: sandbox.Limits = field(default_factory=sandbox.Limits)
    seconds: float = SECONDS
    lock: threading.Lock = field(
        default_factory=threading.Lock
    )  # torch's default type is one for all

    def seed(self, student: str) -> int:
        """Of a student's hidden inputs."""
        key = f"{self.secret}:{self.part}:{student}".encode()
        return int.from_bytes(hashlib.blake2b(key, digest_size=4).digest()) >> 1


@contextlib.contextmanager
def open_desk(
    part: int, secret: str, limits: sandbox.Limits | None = None, seconds: float = SECONDS
) -> Iterator[Desk]:
    """Lay out the staff's files: the handout, for part 2 also our part 1, and the worker."""
    settings = table.read_settings(ROOT)
    tasks = tuple(t for t in table.course_tasks(settings) if table.part_number(t) == part)
    with tempfile.TemporaryDirectory(prefix="desk-") as folder:
        stage = Path(folder)
        write_all(stage / "handout", handout.build(ROOT, "2").files)
        if part == 2:
            solved = handout.build(ROOT, "2", with_solution=True).files
            names = {t.file for t in table.course_tasks(settings) if table.part_number(t) == 1}
            write_all(stage / "solution", {name: solved[name] for name in names})
        inside = stage / "staff" / "course" / "grading"
        inside.mkdir(parents=True)
        for name in INSIDE:
            shutil.copy(Path(__file__).with_name(f"{name}.py"), inside)
        for path in (stage, *stage.rglob("*")):  # the sandbox's user reads them, too
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield Desk(part, settings, tasks, secret, stage, limits or sandbox.Limits(), seconds)


def write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Files by their paths under a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


# ---------------------------------------------------------------------------------------------
# Asking the sandbox


@dataclass(frozen=True)
class Answer:
    """What came back for one job."""

    status: str
    outputs: Mapping[str, Any] = field(default_factory=dict)


def ask(
    desk: Desk, jobs: list[dict], tensors: Mapping[str, Tensor], slot: int
) -> tuple[dict[str, Answer], list[str]]:
    """Run jobs in a sandbox; after one that takes it down, run the rest in another.

    Returns:
        the answer of each job by its name, and the layers that were active.
    """
    answers: dict[str, Answer] = {}
    layers: list[str] = []
    data = save({name: tensor.detach().clone() for name, tensor in tensors.items()})
    while waiting := [job for job in jobs if job["name"] not in answers]:
        longest = max(job["seconds"] for job in waiting)
        limits = replace(desk.limits, quiet_s=desk.limits.quiet_s + longest)
        request = {"limits": asdict(limits), "imports": IMPORTS, "jobs": waiting, "slot": slot}
        request["sweep"] = sandbox.alone()
        folders = [str(desk.stage / name) for name in ("staff", "handout")]
        worker = str(desk.stage / "staff" / "course" / "grading" / "worker.py")
        command = [sys.executable, "-I", "-B", worker, *folders]
        ended = sandbox.run(command, frame(request, data), [desk.stage], limits, slot)
        frames = frames_in(ended.answer)
        if not frames or "layers" not in frames[0][0]:
            raise RuntimeError(
                f"the sandbox did not start ({ended.status}): {ended.printed[-500:]}"
            )
        layers = [*ended.layers, *map(str, frames[0][0]["layers"])]
        names = {job["name"] for job in waiting}
        for said, content in frames[1:]:
            if said.get("job") in names and said["job"] not in answers:
                answers[said["job"]] = decode(said, content)
        if all(job["name"] not in answers for job in waiting):
            statuses = {"timeout": "timeout", "too much memory": "memory"}
            answers[waiting[0]["name"]] = Answer(statuses.get(ended.status, "crashed"))
    return answers, layers


def frames_in(answer: bytes) -> list[tuple[dict, bytes]]:
    """All whole frames of what the sandbox wrote."""
    stream, found = io.BytesIO(answer), []
    while len(answer) - stream.tell() >= HEAD.size and (one := read_frame(stream, MOST_TEXT)):
        found.append(one)
    return found


def decode(said: Mapping[str, Any], content: bytes) -> Answer:
    """One frame as an answer: arrays, texts, and stand-ins for what was no tensor."""
    status = said.get("status")
    if status != "ran":
        known = isinstance(status, str) and status in judge.LACKING
        return Answer(status if known else "invalid answer")
    others, texts = said.get("others"), said.get("texts")
    readable = isinstance(others, dict) and isinstance(texts, dict)
    # each tensor's name, and each of its numbers, costs many times its bytes once it is read
    if not readable or int.from_bytes(content[:8], "little") > MOST_TEXT:
        return Answer("invalid answer")
    try:
        tensors = load(content)
    except Exception:  # of safetensors, of torch: whatever it is, it is no answer
        return Answer("invalid answer")
    if sum(tensor.numel() for tensor in tensors.values()) > BIGGEST:
        return Answer("invalid answer")
    outputs: dict[str, Any] = {
        name: tensor if tensor.dtype in NUMBERS else stand_in(str(tensor.dtype))
        for name, tensor in tensors.items()
    }
    outputs |= {name: speakable(text)[:2000] for name, text in texts.items()}
    outputs |= {n: None if kind == "NoneType" else stand_in(kind) for n, kind in others.items()}
    return Answer("ran", outputs)


def speakable(text: Any) -> str:
    """A text without halves of characters, which no file can hold."""
    return str(text).encode(errors="replace").decode()


def stand_in(kind: Any) -> Any:
    """Something whose type has that name; judge.py tells the student."""
    known = isinstance(kind, str) and kind.replace(".", "_").isidentifier()
    return type(kind[:40] if known else "object", (), {})()


# ---------------------------------------------------------------------------------------------
# Part 1


def jobs_of_part_1(desk: Desk, submission: Submission, seed: int) -> list[dict]:
    """One job for each task whose file was handed in."""
    jobs = []
    for entry in desk.tasks:
        if entry.file not in submission.files:
            continue
        if entry.id == OPTIMIZER:
            run = "course.grading.runs:optimizer"
            cases = [hidden.case_as_json(case) for case in hidden.make_cases(seed)]
            arguments = {"cases": cases, "seed": seed % PERIOD}
        else:
            run = "course.grading.runs:part_1"
            runs = [
                [f"{name} {dtype}", inputs, dtype, options]
                for name, (inputs, options) in hidden.runs_of(entry).items()
                for dtype in judge.DTYPES
            ]
            runs += [
                [f"{judge.PUBLIC} {group}", judge.PUBLIC, "float64", options]
                for group, options in sanity_part1.groups_of(entry.id).items()
            ]
            arguments = {"task_id": entry.id, "runs": runs}
        files = {entry.file: submission.files[entry.file].decode("utf-8")}
        job = {"name": entry.id, "run": run, "arguments": arguments, "files": files}
        jobs.append(job | {"folders": [], "seconds": desk.seconds})
    return jobs


def grade_part_1(
    desk: Desk, submission: Submission, slot: int
) -> tuple[dict[str, judge.Verdict], list[str]]:
    """The verdict on each task, by its id, and the sandbox's layers."""
    seed = desk.seed(submission.student)
    with desk.lock:
        sets = hidden.make(seed)
        expected = hidden.trajectories(hidden.make_cases(seed), seed % PERIOD)
    tensors = {f"{name}/{k}": t for name, one in sets.items() for k, t in one.inputs.items()}
    tensors |= {f"{judge.PUBLIC}/{k}": t for k, t in sanity_part1.public_inputs().items()}
    jobs = jobs_of_part_1(desk, submission, seed)
    answers, layers = ask(desk, jobs, tensors, slot)
    verdicts: dict[str, judge.Verdict] = {}
    for entry in desk.tasks:
        answer = answers.get(entry.id, Answer("missing"))
        if answer.status != "ran":
            verdicts[entry.id] = judge.nothing(entry, answer.status)
        elif entry.id == OPTIMIZER:
            verdicts[entry.id] = judge.judge_optimizer(entry, answer.outputs, expected)
        else:
            verdicts[entry.id] = judge.judge_part_1(entry, answer.outputs, sets, verdicts)
    return verdicts, layers


def grade_tasks(
    desk: Desk, submission: Submission, slot: int
) -> tuple[dict[str, judge.Verdict], list[str]]:
    """The verdict on each task of the desk's part, by its id, and the sandbox's layers."""
    if desk.part == 1:
        return grade_part_1(desk, submission, slot)
    from course.grading import part2  # it asks the sandbox by way of this module

    return part2.grade(desk, submission, slot)


# ---------------------------------------------------------------------------------------------
# Points


def row_points(entry: Task, settings: Mapping[str, Any]) -> dict[str, float]:
    """How many of a task's points each of its rows is worth."""
    given = settings["grading"]["shares"]
    rows = judge.rows_of(entry)
    shares = {row: given.get(row, 1.0) for row in rows}
    return {row: entry.points * share / sum(shares.values()) for row, share in shares.items()}


def counted(entry: Task, verdict: judge.Verdict, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A task's part of the result; with ``whole_tasks`` it gives all its points or none."""
    worth = row_points(entry, settings)
    if settings["grading"]["whole_tasks"] and not all(verdict.rows.values()):
        verdict.rows = dict.fromkeys(verdict.rows, False)
    rows = [
        {"what": row, "points": round(worth[row] * right, 2), "of": round(worth[row], 2)}
        for row, right in verdict.rows.items()
    ]
    return {
        "number": entry.number,
        "title": entry.title,
        "status": verdict.status,
        "points": round(sum(worth[row] for row, right in verdict.rows.items() if right), 2),
        "of": entry.points,
        "rows": rows,
        "messages": verdict.messages,
        "mistakes": [mistake.name for mistake in verdict.mistakes],
        "hints": [mistake.text for mistake in verdict.mistakes],
    }
