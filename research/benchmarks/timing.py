"""What the benchmarks share: work in a process of its own, in turns, and tables of what came out.

A benchmark names its pieces of work in a dict; called with --job JSON it does one of them (do_job).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import torch

Work = Callable[[SimpleNamespace], dict]

# ---------------------------------------------------------------------------------------------
# In the process of its own


def do_job(works: Mapping[str, Work], text: str) -> None:
    """Do what a job asks for, and print its result as JSON, with the peak of memory in MB.

    Args:
        text: JSON: "work", a key of ``works``, and what that needs.
    """
    job = SimpleNamespace(**json.loads(text))
    torch.manual_seed(0)
    result = works[job.work](job)
    unit = 2**20 if sys.platform == "darwin" else 2**10  # of ru_maxrss, in bytes or in KB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    print(json.dumps({"peak": peak} | result))


def timed(work: Callable[[], object], use_gpu: bool = False) -> dict:
    """The seconds that it takes."""
    if use_gpu:
        torch.cuda.synchronize()
    begun = time.perf_counter()
    work()
    if use_gpu:
        torch.cuda.synchronize()
    return {"seconds": time.perf_counter() - begun}


# ---------------------------------------------------------------------------------------------
# Running, and showing what came out


def run_alone(script: str | Path, work: str, **job: object) -> dict:
    """Do a piece of work of a script in a process of its own → its result."""
    from training.files.errors import InputError

    command = [sys.executable, "-P", str(script), "--job", json.dumps(job | {"work": work})]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=offline)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise InputError(f"{work!r} failed: {lines[-1]}")
    print(f"{work}: done", file=sys.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turns(script: str | Path, jobs: Mapping[object, dict], repeats: int) -> dict:
    """Do all jobs in turns, several times: key → the results."""
    results: dict[object, list[dict]] = {key: [] for key in jobs}
    for _ in range(repeats):
        for key, job in jobs.items():
            results[key].append(run_alone(script, **job))
    return results


def seconds(runs: Sequence[dict]) -> list[float]:
    """The times of all repeats."""
    return [run["seconds"] for run in runs]


def spread(values: Iterable[float], digits: int = 1) -> str:
    """Median (minimum–maximum)."""
    values = list(values)
    shown = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
    return "{} ({}–{})".format(*shown)


def ratios(above: Iterable[float], below: Iterable[float]) -> str:
    """The spread of the quotients, turn by turn."""
    return spread((one / other for one, other in zip(above, below, strict=True)), 2)


def peak_memory(runs: Sequence[dict]) -> str:
    """MB of a contender's process, the median over the repeats."""
    return f"{median(run['peak'] for run in runs):,.0f}"


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A Markdown table under a line in bold."""
    print(f"\n**{title}**\n")
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(map(str, row)) + " |")
    sys.stdout.flush()
