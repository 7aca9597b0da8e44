"""Train a submitted classifier.py again and compare its predictions with those handed in.

It runs in the sandbox, without labels that students do not have, within a time budget. What comes
out is told and costs nothing by itself: chance, another machine and other threads make another run
of the same code differ, and code that only copies its own predictions agrees to 100 %. Staff look.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import scipy

import classifier
from course.grading.judging.predictions import Gold, Wanted, read, wanted_files
from course.grading.judging.types import Submission
from course.grading.pages.output import Column, clean, table
from course.grading.sandbox import leftovers, sandbox
from course.grading.sandbox.confine import MIB, Limits
from course.grading.sandbox.context import GradingContext
from course.grading.sandbox.requests import frames_in, who
from course.grading.sandbox.worker import frame
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.files.hub import default_model, find_model
from training.files.predictions import parse_predictions
from training.files.writing import sha256_of

PROGRAM = "training.py"
FLAGS = ("--option", "finetune")
SPLITS = ("train", "dev", "test-student")  # the data files that students have, too
MODEL_FILES = ("*.json", "*.txt", "*.safetensors", "*.bin")
MOST = 4 * MIB  # of one file of predictions
UNLIKELY = 0.001  # how rarely chance alone makes what was handed in so much better
OWN_FLAGS = ("train", "dev", "test", "predict", "resume", "data_dir", "model")
OWN_FLAGS += ("only", "dev_out", "test_out")
GOES_ON = "This says nothing about points."


@dataclass(frozen=True)
class Rig:
    """What all trainings of a batch share."""

    minutes: float
    flags: tuple[str, ...]  # of classifier.py
    option: str  # pretrain or finetune, as the flags say
    stage: Path  # data/ and model/, which the sandbox may read
    data: tuple[str, ...]  # the data sets that are there
    limits: Limits
    threads: int
    about: Mapping[str, Any] = field(default_factory=dict)  # what has to be the same to be reused


@contextlib.contextmanager
def open_rig(
    minutes: float,
    group: int,
    flags: Sequence[str] = (),
    data: Path | None = None,
    model: Path | None = None,
    threads: int = 1,
) -> Iterator[Rig]:
    """Lay out data and model for the sandbox.

    Args:
        minutes: for each submission.
        group: may read what is laid out, as root.
        flags: of classifier.py, in addition to --option finetune.
        data: folder of the course's files; without one, where classifier.py looks.
        model: folder of the pretrained BERT; without one, the scripts' own default.
        threads: for each training.

    Raises:
        InputError: data or model are not there, or a flag is the grader's own.
    """
    given = classifier.get_args([*FLAGS, *flags])
    if taken := [name for name in OWN_FLAGS if getattr(given, name)]:
        raise InputError(f"--flags: --{taken[0]} is not for the re-run, which sets it itself")
    source, found = data_folder(data and str(data)), find_model(model or default_model())
    with leftovers.own_folder() as stage:
        for name in ("data", "model"):
            (stage / name).mkdir()
        for name in classifier.DATA_SETS:
            files = [source / f"ids-{name}-{split}.csv" for split in SPLITS]
            if all(path.is_file() for path in files):
                for path in files:
                    shutil.copyfile(path, stage / "data" / path.name)
        for path in (path for pattern in MODEL_FILES for path in found.glob(pattern)):
            shutil.copyfile(path, stage / "model" / path.name)
        shutil.copyfile(Path(__file__).with_name(PROGRAM), stage / PROGRAM)
        leftovers.for_group(stage, group)
        there = tuple(n for n in classifier.DATA_SETS if (stage / f"data/ids-{n}-dev.csv").exists())
        about = {"minutes": minutes, "flags": list(flags), "threads": threads}
        about["data"] = {p.name: sha256_of(p)[:16] for p in sorted((stage / "data").iterdir())}
        about["model"] = sha256_of(found / "config.json")[:16]
        limits = limits_for(minutes, threads, stage / "model")
        yield Rig(minutes, tuple(flags), given.option, stage, there, limits, threads, about)


def limits_for(minutes: float, threads: int, model: Path) -> Limits:
    """Room for weights, gradients, two moments, and the files that classifier.py writes of them."""
    weights = sum(path.stat().st_size for path in model.iterdir()) // MIB
    seconds = 60 * minutes
    return Limits(
        wall_s=seconds + 60,
        quiet_s=seconds + 60,
        cpu_s=int(seconds * threads) + 60,
        memory_mib=12_288 + 20 * weights,  # addresses are more than what is held
        total_mib=4_096 + 12 * weights,
        file_mib=256 + 16 * weights,
        processes=64 + 4 * threads,
    )


# ---------------------------------------------------------------------------------------------
# One submission


def rerun(
    rig: Rig, context: GradingContext, submission: Submission, gold: Mapping[Any, Gold], slot: int
) -> dict[str, Any]:
    """What a result says under "rerun"."""
    wanted = handed_in(rig, submission)
    found: dict[str, Any] = {"about": dict(rig.about), "files": [], "status": "not run"}
    if "classifier.py" not in submission.files or not wanted:
        return found | {"verdict": "nothing to compare: no code, or no predictions of this option"}
    trained = train(rig, context, submission, wanted, slot)
    files = [
        compare(one, submission.files[one.path], trained["files"].get(one.path), gold)
        for one in wanted
    ]
    found |= {key: trained[key] for key in ("status", "seconds", "printed")} | {"files": files}
    return found | {"verdict": verdict(rig, trained["status"], files, trained["printed"])}


def handed_in(rig: Rig, submission: Submission) -> list[Wanted]:
    """The files of predictions that this training would write and that were handed in."""
    return [
        wanted
        for wanted in wanted_files(1)
        if wanted.option == rig.option
        and wanted.data in rig.data
        and wanted.path in submission.files
    ]


def train(
    rig: Rig, context: GradingContext, submission: Submission, wanted: Sequence[Wanted], slot: int
) -> dict[str, Any]:
    """Run classifier.py in the sandbox; status, seconds, what it printed last, its files.

    Raises:
        RuntimeError: the sandbox did not start, which is no fault of the student's.
    """
    sets = {one.data for one in wanted}
    only = ["--only", *sets] if len(sets) == 1 else []
    folders = {"--data_dir": rig.stage / "data", "--model": rig.stage / "model"}
    where = [str(word) for pair in folders.items() for word in pair]
    # no -I and no -P: the script's own folder has to be on its path
    command = [sys.executable, "-s", "-B", "classifier.py", *FLAGS, *rig.flags, *only, *where]
    code = {n: c.decode() for n, c in submission.files.items() if n.endswith(".py")}
    request = {
        "limits": asdict(rig.limits),
        "who": asdict(who(context, slot)),
        "course": str(context.stage / "handout"),
        "files": code,
        "command": command,
        "environment": {"OMP_NUM_THREADS": str(rig.threads), "HF_HUB_OFFLINE": "1"},
        "seconds": 60 * rig.minutes,
        "wanted": [one.path for one in wanted],
        "most": MOST,
    }
    staff = context.stage / "staff"
    start = [sys.executable, "-I", "-B", str(rig.stage / PROGRAM), str(staff)]
    readable = [context.stage, rig.stage]
    ended = sandbox.run(start, frame(request), readable, rig.limits, slot, context.around)
    frames = frames_in(ended.answer)
    if not frames or "layers" not in frames[0][0]:
        raise RuntimeError(f"the sandbox did not start ({ended.status}): {ended.printed[-500:]}")
    files: dict[str, bytes] = {}
    for said, content in frames[1:]:
        if said.get("file") in request["wanted"]:
            files.setdefault(said["file"], content)
    last, printed = frames[-1]
    status = last.get("status")
    if status not in ("ended", "timeout", "crashed"):  # it took the program down with it
        status, printed = ended.status if ended.status != "ended" else "crashed", b""
    lines = printed.decode("utf-8", "replace").strip().splitlines()
    said = clean(lines[-1]) if lines and status == "crashed" else ""
    return {"status": status, "seconds": round(ended.seconds), "printed": said, "files": files}


# ---------------------------------------------------------------------------------------------
# Comparing


def compare(
    wanted: Wanted, before: bytes, again: bytes | None, gold: Mapping[Any, Gold]
) -> dict[str, Any]:
    """One file: the share of equal classes, both accuracies, how likely chance is the reason.

    Returns:
        file, rows, agree, handed_in, again, chance (None where unknown) and fault.
    """
    entry: dict[str, Any] = {"file": wanted.path, "fault": "" if again else "not written"}
    entry |= dict.fromkeys(("rows", "agree", "handed_in", "again", "chance"))
    if again is None:
        return entry
    labels = gold.get((wanted.data, wanted.split))
    try:
        first, second = (values(wanted.path, content, labels) for content in (before, again))
    except InputError as error:
        return entry | {"fault": clean(error, 500)}
    if first.keys() != second.keys():
        return entry | {"fault": "the two are about other rows: is this the right --data?"}
    same = sum(first[key] == second[key] for key in first)
    entry |= {"rows": len(first), "agree": same / max(1, len(first))}
    if labels:
        right = dict(zip(labels.ids, labels.labels.tolist(), strict=True))
        hits = [(first[key] == right[key], second[key] == right[key]) for key in first]
        entry["handed_in"] = sum(hit for hit, _ in hits) / len(hits)
        entry["again"] = sum(hit for _, hit in hits) / len(hits)
        entry["chance"] = chance(hits.count((True, False)), hits.count((False, True)))
    return entry


def values(path: str, content: bytes, labels: Gold | None) -> dict[str, float]:
    """A file's predictions by id, read as strictly as those that count."""
    if labels:
        return dict(zip(labels.ids, read(path, content, labels).tolist(), strict=True))
    return parse_predictions(
        content[:MOST].decode("utf-8-sig", "replace"), "Predicted_Sentiment", path
    )


def chance(only_first: int, only_second: int) -> float:
    """How often two equally good classifiers would differ so much for the first one (sign test)."""
    rows = only_first + only_second
    if not rows:
        return 1.0
    return float(scipy.stats.binomtest(only_first, rows, alternative="greater").pvalue)


def verdict(rig: Rig, status: str, files: Sequence[Mapping[str, Any]], printed: str) -> str:
    """A sentence for staff."""
    compared = [entry for entry in files if entry["agree"] is not None]
    rows = sum(entry["rows"] for entry in compared)
    parts = []
    if status == "crashed":
        parts.append(f"ended with an error{f' ({printed})' if printed else ''}")
    elif status == "timeout":
        parts.append(f"did not end within {rig.minutes:g} minutes")
    elif status != "ended":
        parts.append(f"was stopped: {status}")
    if rows:
        agree = sum(entry["agree"] * entry["rows"] for entry in compared) / rows
        parts.append(f"agrees to {agree:.0%}")
    faults = [f"{Path(e['file']).name}: {e['fault']}" for e in files if e["fault"]]
    if faults and status == "ended":
        parts.append("; ".join(faults[:2]))
    if any(e["chance"] is not None and e["chance"] < UNLIKELY for e in compared):
        parts.append("what was handed in is better than chance explains")
    return "; ".join(parts)


def section(results: Sequence[Mapping[str, Any]]) -> tuple[str, str, str]:
    """The section of the staff's page: heading, text, HTML."""
    rows = []
    for result in results:
        if again := result.get("rerun"):
            shown = [entry for entry in again["files"] if entry["agree"] is not None] or [{}]
            for entry in shown:
                name = Path(entry["file"]).name if entry else ""
                seconds = again.get("seconds")
                rows.append({"student": result["student"], "verdict": again["verdict"], **entry})
                rows[-1] |= {"file": name, "seconds": seconds}
    columns = [
        Column("student", "Group", "key"),
        Column("file", "File"),
        Column("agree", "Agree", "score", bar=True),
        Column("handed_in", "Handed in", "score"),
        Column("again", "Again", "score"),
        Column("seconds", "Seconds", "seconds"),
        Column("verdict", "Verdict", "long"),
    ]
    text = (
        "classifier.py as handed in, trained again in the sandbox. Two honest runs differ by "
        f"chance, machine and threads. {GOES_ON}"
    )
    return "Trained again", text, table(columns, rows, "Trained again")
