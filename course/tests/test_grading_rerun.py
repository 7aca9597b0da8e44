"""Training submitted code again (course/grading/sandbox/rerun.py, training.py)."""

import json
import random
import textwrap
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support import needs_sandbox

from course.grading.judging.predictions import Gold, Wanted, load_gold
from course.grading.judging.types import Submission
from course.grading.sandbox import isolation, rerun, training
from course.grading.sandbox.context import open_context
from datasets import load_data
from research.benchmarks.grader import solution
from training.files.errors import InputError

DEV, TEST = (f"predictions/finetune-sst-{split}-out.csv" for split in ("dev", "test"))
FILE = Wanted(DEV, "sst", "dev", "finetune")


@pytest.fixture(scope="module")
def context():
    with open_context(1, "secret") as made:
        yield made


@pytest.fixture(scope="module")
def rig(context, tiny_data, tiny_model_folder):
    flags = ("--epochs", "1", "--precision", "fp32")
    with rerun.open_rig(10, context.group, flags, tiny_data, tiny_model_folder) as made:
        yield made


@pytest.fixture(scope="module")
def by_chance(tiny_data):
    """Files of predictions that nobody computed."""
    chance, files = random.Random(1), {}
    for path, split in ((DEV, "dev"), (TEST, "test")):
        name = "test-student" if split == "test" else split
        rows = load_data(tiny_data / f"ids-sst-{name}.csv", split)
        lines = [f"{row[-1]},{chance.randrange(5)}" for row in rows]
        files[path] = "\n".join(["id,Predicted_Sentiment", *lines, ""]).encode()
    return files


def handed_in(files, code=None) -> Submission:
    sources = {n: text.encode() for n, text in (solution() | (code or {})).items()}
    return Submission("1_a", 1, {**sources, **files})


@needs_sandbox
def test_code_that_made_its_predictions_agrees(rig, context, by_chance, tiny_data, slot):
    submission = handed_in(by_chance)
    wanted = rerun.handed_in(rig, submission)
    assert [one.path for one in wanted] == [DEV, TEST]
    trained = rerun.train(rig, context, submission, wanted, slot)
    assert (trained["status"], sorted(trained["files"])) == ("ended", [DEV, TEST])
    gold = load_gold(tiny_data, secret="x")
    found = rerun.rerun(rig, context, handed_in(trained["files"]), gold, slot)
    assert found["verdict"] == "agrees to 100%"
    assert found["files"][0]["handed_in"] == found["files"][0]["again"]
    assert [entry["rows"] for entry in found["files"]] == [11, 9]
    assert found["files"][1]["handed_in"] is None  # no labels of test rows here
    compared = rerun.compare(FILE, by_chance[DEV], trained["files"][DEV], gold)
    assert compared["agree"] < 1


HOSTILE = """
    import os, pathlib, socket
    found = []
    for name in SECRETS:
        try:
            found.append(str(list(os.scandir(name))))
        except OSError:
            pass
    try:
        socket.create_connection(("192.0.2.1", 80), 1)
        found.append("network")
    except OSError:
        pass
    try:
        found += [str(path) for path in pathlib.Path(BELOW).rglob("*-test.csv")]
    except OSError:
        pass
    os.mkfifo("predictions/pipe")
    os.symlink("/etc/passwd", "DEV")
    os.mkfifo("TEST")
    print("LOOK", found)
    raise SystemExit(1)
"""


@needs_sandbox
def test_no_labels_no_network_no_links(rig, context, by_chance, private_tree, slot):
    code = textwrap.dedent(HOSTILE).replace("DEV", DEV).replace("TEST", TEST)
    below = "/" if isolation.best().namespaces else str(private_tree)  # else what lies open is seen
    code = code.replace("SECRETS", repr([str(private_tree), str(private_tree / "course/gold")]))
    code = code.replace("BELOW", repr(below)).replace("LOOK", "found:")
    code = code.replace("print(", "raise SystemExit(")
    submission = handed_in(by_chance, {"classifier.py": code})
    found = rerun.rerun(rig, context, submission, {}, slot)
    assert found["status"] == "crashed"
    assert "ended with an error (('found:', []))" in found["verdict"]
    assert [entry["fault"] for entry in found["files"]] == ["not written"] * 2


@needs_sandbox
def test_a_budget_that_runs_out_is_told(rig, context, by_chance, slot):
    code = f"import time\nopen({DEV!r}, 'wb').write({by_chance[DEV]!r})\ntime.sleep(600)\n"
    short = replace(rig, minutes=0.03)
    found = rerun.rerun(short, context, handed_in(by_chance, {"classifier.py": code}), {}, slot)
    assert found["status"] == "timeout"
    assert found["verdict"] == "did not end within 0.03 minutes; agrees to 100%"


def test_the_rig_holds_what_students_have(rig, tiny_data, tiny_model_folder):
    assert len(list((rig.stage / "data").iterdir())) == 6
    assert not [path for path in rig.stage.rglob("*") if path.name.endswith("-test.csv")]
    assert rig.limits.total_mib < 8000
    assert json.loads(json.dumps(rig.about)) == rig.about  # compared with what a file says
    for flag in ("--only sst", "--resume", "--model x", "--train a --dev b"):
        with (
            pytest.raises(InputError, match="is not for the re-run"),
            rerun.open_rig(1, 0, flag.split(), tiny_data, tiny_model_folder),
        ):
            pytest.fail(flag)
    with rerun.open_rig(1, 0, ["--option", "pretrain"], tiny_data, tiny_model_folder) as other:
        assert other.option == "pretrain"


def gold_of(labels) -> dict:
    import numpy as np

    ids = tuple(f"{number:025x}" for number in range(len(labels)))
    public = np.ones(len(labels), dtype=bool)
    one_file = Gold("ids-sst-dev.csv", "sst", "dev", "Predicted_Sentiment", 5, ids, labels, public)
    return {("sst", "dev"): replace(one_file, labels=np.array(labels))}


def as_file(values) -> bytes:
    lines = [f"{number:025x},{value}" for number, value in enumerate(values)]
    return "\n".join(["id,Predicted_Sentiment", *lines, ""]).encode()


def test_compare_counts_equal_classes_and_right_ones():
    gold = gold_of([1] * 100)
    found = rerun.compare(FILE, as_file([1] * 100), as_file([1] * 97 + [2] * 3), gold)
    assert (found["agree"], found["handed_in"], found["again"]) == (0.97, 1.0, 0.97)
    assert found["chance"] == pytest.approx(1 / 8)
    said = rerun.verdict(SimpleNamespace(minutes=5), "ended", [found], "")
    assert said == "agrees to 97%"
    found = rerun.compare(FILE, as_file([1] * 100), as_file([2] * 60 + [1] * 40), gold)
    said = rerun.verdict(SimpleNamespace(minutes=5), "ended", [found], "")
    assert said == "agrees to 40%; what was handed in is better than chance explains"


@pytest.mark.parametrize(
    ("again", "fault"),
    [
        (None, "not written"),
        (as_file([1] * 9), "lacks 1 ids"),
        (as_file([7] * 10), "not classes 0 to 4"),
        (b"\xff\xfe", "no UTF-8"),
        (b"id,Predicted_Sentiment\n" * 900, "too long"),
    ],
)
def test_a_bad_file_is_a_fault_and_no_error(again, fault):
    found = rerun.compare(FILE, as_file([1] * 10), again, gold_of([1] * 10))
    assert fault in found["fault"]
    assert found["agree"] is None
    assert fault in rerun.verdict(SimpleNamespace(minutes=5), "ended", [found], "")


def test_only_small_regular_files_are_read(tmp_path):
    (tmp_path / "predictions").mkdir()
    (tmp_path / "predictions" / "a.csv").write_bytes(b"12345")
    assert training.read(tmp_path, "predictions/a.csv", 5) == b"12345"
    assert training.read(tmp_path, "predictions/a.csv", 4) is None
    (tmp_path / "predictions" / "b.csv").symlink_to("a.csv")
    assert training.read(tmp_path, "predictions/b.csv", 5) is None
    (tmp_path / "elsewhere").symlink_to("predictions")
    assert training.read(tmp_path, "elsewhere/a.csv", 5) is None
    assert training.read(tmp_path, "predictions/missing.csv", 5) is None
    assert training.read(tmp_path, "predictions", 5) is None


def test_nothing_to_compare_is_told(rig, context, slot):
    found = rerun.rerun(rig, context, handed_in({}), {}, slot)
    assert found["verdict"].startswith("nothing to compare")


def test_the_section_shows_hostile_text_as_text():
    entry = rerun.compare(FILE, as_file([1]), None, {})
    again = {"verdict": "<script>", "files": [entry], "seconds": 3}
    _, _, html = rerun.section([{"student": "1_a", "rerun": again}])
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
