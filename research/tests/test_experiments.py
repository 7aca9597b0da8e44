"""Runs from TOMLs, their results, the report's statistics, and the search (experiments/)."""

import itertools
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import bootstrap, pearsonr
from support import ROOT, assert_refused, save_tiny_model, succeeded

import classifier
from extensions.multitask import get_args
from lessons import token_classifier
from pretraining import pretrain
from research.experiments import controls, report, results, run, search, stability
from training.files.errors import InputError

# ---------------------------------------------------------------------------------------------
# A stand-in for multitask_classifier.py: it writes what that one writes, at once

STAND_IN = """
import json, sys
from pathlib import Path

arguments = sys.argv[1:]
flags = {a: b for a, b in zip(arguments, arguments[1:]) if a.startswith("--")}
seed, out = int(flags["--seed"]), Path(flags["--out_dir"])
with open(Path(__file__).with_name("calls"), "a") as file:
    file.write(" ".join(arguments) + "\\n")
if flags.get("--lr") == "13.0":
    (out / "model.resume").write_text("")
    sys.exit("error: the loss is nan")
tasks = flags.get("--tasks", "sst,para,sts").split(",")
columns = {"sst": "Predicted_Sentiment", "para": "Predicted_Is_Paraphrase",
           "sts": "Predicted_Similarity"}
for task in tasks:
    ids = [f"{number:025x}" for number in range(110, 99, -1)]  # not the order of the data
    values = [3.14159 if task == "sts" else int(key == ids[seed]) for key in ids]
    rows = "".join(f"{key},{value}\\n" for key, value in zip(ids, values))
    (out / f"{task}-dev-output.csv").write_text(f"id,{columns[task]}\\n" + rows)
best = {task: 0.5 for task in tasks} | {"epoch": 2, "loss": 1.5}
best["overall"] = 1.0 - abs(float(flags.get("--lr", 0)) - 0.3)
metrics = {"best": best, "epochs": [], "seconds": 60.0, "peak_mb": 800.0, "args": {}}
(out / "multitask-metrics.json").write_text(json.dumps(metrics))
(out / "model.pt").write_text("")
"""


@pytest.fixture
def place(tmp_path, monkeypatch, tiny_data) -> Path:
    """Results and runs in a folder of the test's own, and the stand-in."""
    monkeypatch.setenv("MINBERT_DATA", str(tiny_data))
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(results, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.gold.cache_clear()
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    return tmp_path


def write_toml(place: Path, name: str, flags: str = "", more: str = "", seeds: str = "[0, 1]"):
    path = place / f"{name}.toml"
    script = json.dumps(str(place / "stand_in.py"))
    path.write_text(
        f'[run]\nname = "{name}"\nscript = {script}\nseeds = {seeds}\n[flags]\n{flags}\n{more}\n'
    )
    return path


def calls(place: Path) -> list[str]:
    path = place / "calls"
    return path.read_text().splitlines() if path.is_file() else []


def a_result(name: str, seed: int | None, dev: dict, data: dict | None = None) -> dict:
    metrics, data = dict.fromkeys(dev, 0.5), data or {}
    one = {"name": name, "seed": seed, "flags": {}, "metrics": metrics}
    return one | {"seconds": 90.0, "data": data, "dev": dev}


# ---------------------------------------------------------------------------------------------
# run.py


def test_a_run_for_every_seed(place, run_script_here, tiny_data):
    toml = write_toml(place, "plain", "lr = 0.1\nuse_it = true\nnot_this = false")
    succeeded(run_script_here(run, toml))
    folder = place / "runs" / "plain-0"
    assert calls(place) == [
        f"--lr 0.1 --use_it --seed {seed} --out_dir {place / 'runs' / f'plain-{seed}'} "
        f"--filepath {place / 'runs' / f'plain-{seed}' / 'model.pt'}"
        for seed in (0, 1)
    ]
    first, second = results.load_results()
    assert (first["name"], first["seed"], second["seed"]) == ("plain", 0, 1)
    assert first["flags"] == {"lr": 0.1, "use_it": True, "not_this": False}
    assert first["metrics"]["overall"] == pytest.approx(0.8)
    assert (first["seconds"], first["peak_mb"]) == (60.0, 800.0)
    # the stand-in wrote ids 110 … 100 and said 1 to the first (second) of them: in the data
    # file's order that is the last (last but one)
    assert first["dev"] == {"sst": "00000000001", "para": "00000000001", "sts": [3.142] * 11}
    assert second["dev"]["sst"] == "00000000010"
    assert first["data"]["sst"] == results.sha256_of(tiny_data / "ids-sst-dev.csv")[:12]
    assert len(first["commit"]) == 40
    assert isinstance(first["dirty"], bool)
    assert "torch" in first["machine"]
    assert json.loads((folder / "result.json").read_text()) == first


def test_runs_already_done_are_skipped(place, run_script_here):
    toml = write_toml(place, "plain", "lr = 0.1")
    succeeded(run_script_here(run, toml, "--seeds", "1"))
    assert len(calls(place)) == 1
    result = succeeded(run_script_here(run, toml))
    assert "plain-1 is in results.jsonl already" in result.out
    before = results.load_results()
    assert [one["seed"] for one in before] == [1, 0]
    other = write_toml(place, "plain", "lr = 0.2")
    said = "plain-0 is in results.jsonl with other flags"
    assert_refused(run_script_here(run, other), said, code=1)
    results.RESULTS.unlink()  # a lost line is taken from the folder of the run
    succeeded(run_script_here(run, write_toml(place, "plain", "lr = 0.1")))
    assert sorted(results.load_results(), key=str) == sorted(before, key=str)
    assert len(calls(place)) == 2
    results.RESULTS.unlink()  # but not if the flags are others by now
    succeeded(run_script_here(run, write_toml(place, "plain", "lr = 0.5")))
    assert len(calls(place)) == 4


def test_a_run_whose_line_is_there_can_be_made_anew(place, run_script_here):
    """A clone has the lines, but not the models with which other runs begin."""
    toml = write_toml(place, "long", seeds="[0]")
    succeeded(run_script_here(run, toml))
    lines = results.RESULTS.read_text()
    shutil.rmtree(place / "runs")
    later = write_toml(place, "later", 'model = "$RUNS/long-0"', seeds="[0]")
    said = (f"later-0 reads {place / 'runs' / 'long-0'}, which is not there", "--anew")
    assert_refused(run_script_here(run, later), *said, code=1)
    assert not (place / "runs").exists()
    succeeded(run_script_here(run, toml, "--anew"))
    assert results.RESULTS.read_text() == lines
    succeeded(run_script_here(run, later))
    assert len(calls(place)) == 3


def test_a_run_that_fails_is_not_recorded_and_goes_on_next_time(
    place, run_script_here, monkeypatch
):
    toml = write_toml(place, "bad", "lr = 13.0")
    said = "error: bad-0 ended with status 1; the same command goes on with it\n"
    assert_refused(run_script_here(run, toml), said, code=1)
    assert "--resume" not in calls(place)[0]
    run_script_here(run, toml)
    assert calls(place)[1].endswith(" --resume")
    monkeypatch.setenv("MINBERT_DATA", str(ROOT / "data" / "practice"))
    result = run_script_here(run, write_toml(place, "plain"))
    assert_refused(result, "sst-dev-output.csv has other ids than", code=1)
    assert results.load_results() == []


PRETRAINS = """
import json, sys
from pathlib import Path
out = Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(exist_ok=True)
best = {"step": 9, "mlm_loss": 5.0}
metrics = {"best": best, "seconds": 7, "unigram_entropy": 6.0, "held_out": [best], "args": {}}
(out / "metrics.json").write_text(json.dumps(metrics))
"""
CLASSIFIES = """
import json, os, sys
from pathlib import Path
Path("predictions").mkdir(exist_ok=True)
metrics = {"best": {"dev_accuracy": 0.5}, "seconds": 7, "peak_mb": 8}
metrics["best"]["train"] = sys.argv[sys.argv.index("--train") + 1]
Path("predictions/finetune-sst-metrics.json").write_text(json.dumps(metrics))
"""


def test_pretraining_and_classifying_are_runs_too(place, run_script_here):
    (place / "pretrains.py").write_text(PRETRAINS)
    (place / "classifies.py").write_text(CLASSIFIES)
    for kind, script, flags in (
        ("pretrain", "pretrains", ""),
        ("classify", "classifies", 'train = "$MINBERT_DATA/x.tsv"'),
    ):
        head = f'name = "{script}"\nkind = "{kind}"\nseeds = [3]\nscript = "{place}/{script}.py"'
        (place / f"{script}.toml").write_text(f"[run]\n{head}\n[flags]\n{flags}\n")
        succeeded(run_script_here(run, place / f"{script}.toml"))
    first, second = results.load_results()
    assert first["metrics"]["mlm_loss"] == first["held_out"][-1]["mlm_loss"] == 5.0
    assert (first["unigram_entropy"], first["seconds"], first["dev"]) == (6.0, 7.0, {})
    assert second["metrics"]["train"] == f"{os.environ['MINBERT_DATA']}/x.tsv"
    assert (second["flags"], second["peak_mb"]) == ({"train": "$MINBERT_DATA/x.tsv"}, 8)
    assert_refused(run_script_here(report), "no results yet", code=1)  # of several tasks


def test_a_run_from_each_of_several_models(place):
    path = place / "labels.toml"
    path.write_text(
        '[run]\nname = "labels"\nkind = "tag"\nseeds = [2]\n'
        'models = ["$RUNS/long-0/pieces-0", "$RUNS/long-0/pieces-50"]\n'
        '[flags]\ntrain = "$MINBERT_DATA/train"\n[variants.slow]\nlr = 1e-6\n'
    )
    runs = run.planned([path])
    names = ["labels-pieces-0", "labels-pieces-50", "labels-slow-pieces-0", "labels-slow-pieces-50"]
    assert [one.name for one in runs] == names
    assert run.recorded_flags(runs[3]) == {
        "train": "$MINBERT_DATA/train",
        "lr": 1e-6,
        "model": "$RUNS/long-0/pieces-50",
    }
    folder = place / "runs" / "labels-pieces-50-2"
    assert run.command_of(runs[1], 2, folder)[1:] == [
        *(str(ROOT / "lessons" / "token_classifier.py"),),
        *("--train", f"{os.environ['MINBERT_DATA']}/train"),
        *("--model", str(place / "runs" / "long-0" / "pieces-50")),
        *("--seed", "2", "--out", str(folder)),
    ]


def test_the_last_epoch_is_kept_with_the_best(place):
    rows = [{"epoch": 1, "dev_f1": 0.7}, {"epoch": 2, "dev_f1": 0.6}]
    metrics = {"best": rows[0], "epochs": rows, "seconds": 3}
    (place / "metrics.json").write_text(json.dumps(metrics))
    found = results.read_metrics(place, "tag")
    assert (found["best"], found["last"]) == (rows[0], rows[1])


def test_an_ensemble_runs_on_its_members_checkpoints(place, monkeypatch):
    toml = place / "both.toml"
    toml.write_text(
        '[run]\nname = "both"\nkind = "ensemble"\nmembers = ["plain-0", "plain-1"]\n'
        "[flags]\nuse_gpu = true\n"
    )
    one = results.read_experiment(toml)
    folder = place / "runs" / "both"
    with pytest.raises(InputError, match="both needs the runs plain-0, plain-1; run these first"):
        run.command_of(one, None, folder)
    for member in one.members:
        (place / "runs" / member).mkdir(parents=True)
        (place / "runs" / member / "model.pt").write_text("")
    models = [str(place / "runs" / member / "model.pt") for member in one.members]
    script = str(ROOT / "extensions" / "ensemble.py")
    assert run.command_of(one, None, folder) == [
        *(sys.executable, script, *models, "--use_gpu", "--out_dir", str(folder))
    ]
    assert run.seeds_of(one, [5]) == [None]


def test_a_joined_toml_runs_its_members(place, run_script_here):
    for task in ("sst", "sts"):
        write_toml(place, f"only-{task}", f'tasks = "{task}"', seeds="[0]")
    joined = place / "joined.toml"
    joined.write_text('[run]\nname = "j"\nkind = "joined"\nmembers = ["only-sst", "only-sts"]\n')
    succeeded(run_script_here(run, joined))
    found = results.load_results()
    assert [list(one["dev"]) for one in found] == [["sst"], ["sts"]]
    (row,) = report.rows_of(found, {"j": ["only-sst", "only-sts"]})
    assert (row.name, row.seeds, row.seconds) == ("j", (0,), (120.0,))
    assert list(row.predicted) == ["sst", "sts"]


def test_variants_are_runs_beside_the_baseline(place, run_script_here):
    toml = write_toml(place, "plain", seeds="[0]")
    with toml.open("a") as file:
        file.write("[variants.slow]\nlr = 1e-6\nteachers = ['a.pt', 'b.pt']\n")
    base, slow = results.read_experiment(toml).with_variants()
    assert (base.name, slow.name, slow.seeds) == ("plain", "plain-slow", (0,))
    assert slow.flags == base.flags | {"lr": 1e-6, "teachers": ["a.pt", "b.pt"]}
    line = " ".join(results.as_arguments(slow.flags))
    assert "--teachers a.pt b.pt" in line
    succeeded(run_script_here(run, toml, "--only", "plain-slow"))
    succeeded(run_script_here(run, toml))
    assert [one["name"] for one in results.load_results()] == ["plain-slow", "plain"]
    refused = run_script_here(run, toml, "--only", "fast")
    assert "--only fast: there are plain, plain-slow" in refused.err
    toml.write_text('[run]\nname = "a"\nseeds = [1]\n[variants]\nlr = 1\n')
    with pytest.raises(InputError, match="a variant is a table of flags"):
        results.read_experiment(toml)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run\n", "is no TOML"),
        ("[run]\n", r"\[run\] has no name"),
        ('[run]\nname = "a"\n', r"\[run\] has no seeds"),
        ('[run]\nname = "a"\nkind = "joined"\n', r"\[run\] has no members"),
        ('[run]\nname = "a"\nkind = "x"\n', "kind 'x' is none of"),
        ('[run]\nname = "a"\nseeds = [-1]\n', "the seed -1 is no integer"),
        ('[run]\nname = "a"\nseed = [1]\n', "unknown seed"),
        ('[run]\nname = "a"\nseeds = [1]\n[flag]\n', "unknown flag"),
    ],
)
def test_a_faulty_toml(tmp_path, text, said):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        results.read_experiment(path)
    with pytest.raises(InputError, match="no file"):
        results.read_experiment(tmp_path / "b.toml")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "research" / "experiments").glob("*.toml")), ids=lambda p: p.stem
)
def test_the_tomls_of_the_repository(path):
    """Their flags are flags; what makes no sense would be refused only when its turn comes."""
    one = results.read_experiment(path)
    assert one.name == path.stem
    for name in one.members:
        assert path.with_name(f"{name.rstrip('-012')}.toml").is_file()
    for each in one.with_variants():
        scripts = {"pretrain": pretrain, "classify": classifier, "tag": token_classifier}
        scripts["stability"] = stability
        if each.kind in scripts:
            scripts[each.kind].get_args(results.train_command(each, 0, Path("runs"))[2:])
        if each.kind != "train":
            continue
        command = results.train_command(each, 0, Path("runs"))
        args = get_args(command[2:])
        assert (args.seed, args.option) == (0, each.flags["option"])
        tasks = {"tasks": each.flags["tasks"].split(",")} if "tasks" in each.flags else {}
        paths = {k: results.expanded(v) for k, v in each.flags.items() if isinstance(v, str)}
        flags = each.flags | paths | tasks
        assert all(getattr(args, name) == value for name, value in flags.items())
    if one.search:
        assert search.check_ranges(one)[0] > 0


SIGNALLED = """
import sys, signal, time
from pathlib import Path
def stop(*_):
    time.sleep(0.5)  # the end of the step
    Path(sys.argv[2]).write_text("kept")
    sys.exit(3)
signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)
Path(sys.argv[1]).write_text("")
time.sleep(30)
"""


def in_a_child(work) -> int:
    """Call a function in a forked process, which is spared the imports: the process's id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            work()
            status = 0
        finally:
            os._exit(status)
    return child


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_waits_for_the_resume_file(tmp_path, sent):
    ready, kept, returned = tmp_path / "ready", tmp_path / "kept", tmp_path / "returned"
    (tmp_path / "script.py").write_text(SIGNALLED)

    def work():
        command = [sys.executable, str(tmp_path / "script.py"), str(ready), str(kept)]
        returned.write_text(str(results.call(command)))

    child = in_a_child(work)
    while not ready.is_file():
        time.sleep(0.02)
    (os.killpg if sent == signal.SIGINT else os.kill)(child, sent)  # a terminal tells the group
    assert os.waitpid(child, 0)[1] == 0
    assert returned.read_text() == "(3, True)"
    assert kept.read_text() == "kept"


# ---------------------------------------------------------------------------------------------
# controls.py


def write_control(place: Path, name: str, kind: str, flags: str) -> Path:
    path = place / f"{name}.toml"
    head = f'name = "{name}"\nkind = "{kind}"\nseeds = [0, 1]\nmodels = ["a/b"]'
    path.write_text(f"[run]\n{head}\n[flags]\nepochs = 9\n{flags}\n")
    return path


def test_the_control_of_sentences(place, run_script_here):
    for split, first in (("train", 0), ("dev", 50)):
        words = (("dull", 0), ("bright", 1), ("is n't bright", 0), ("is n't dull", 1))
        rows = [
            f"{i}\t{split}-{i}\ta film that {text} , {first + i}\t{label}"
            for i, (text, label) in enumerate(words * 6)
        ]
        (place / f"{split}.csv").write_text("\n".join(["\tid\tsentence\tsentiment", *rows]) + "\n")
    flags = f'train = "{place}/train.csv"\ndev = "{place}/dev.csv"'
    toml = write_control(place, "films", "classify", flags)
    done = succeeded(run_script_here(controls, toml))
    assert "films-control: dev_acc 1.000" in done.out  # pairs of words tell "n't bright"
    (line,) = results.load_results()
    assert (line["name"], line["seed"]) == ("films-control", None)
    assert line["flags"] == {"train": f"{place}/train.csv", "dev": f"{place}/dev.csv"}
    done = succeeded(run_script_here(controls, toml))
    assert "films-control is in results.jsonl already" in done.out


def test_a_control_that_reads_no_more_than_a_model(place, run_script_here):
    """The word that tells stands behind the model's last position: the whole texts show it."""
    model = save_tiny_model(place / "model", max_position_embeddings=16)
    far = "a word " * 4
    for split in ("train", "dev"):
        rows = [f"{i}\t{split}-{i}\t{far}{'good' if i % 2 else 'bad'}\t{i % 2}" for i in range(8)]
        (place / f"{split}.csv").write_text("\n".join(["\tid\tsentence\tsentiment", *rows]) + "\n")
    flags = f'train = "{place}/train.csv"\ndev = "{place}/dev.csv"'
    toml = write_control(place, "films", "classify", flags)
    assert "dev_acc 1.000" in succeeded(run_script_here(controls, toml)).out
    done = succeeded(run_script_here(controls, toml, "--model", model))
    assert "films-control-cut: dev_acc 0.500" in done.out
    toml = write_control(place, "sim", "train", 'tasks = "sts"')
    refused = run_script_here(controls, toml, "--model", model)
    assert_refused(refused, "sim: only controls of sentences take a --model", code=1)


def test_the_control_of_pairs(place, run_script_here, tmp_path, monkeypatch):
    (tmp_path / "course").mkdir()
    pairs = (("a red cat", "a red cat", 5.0), ("a red cat", "a blue cat", 2.0), ("one", "two", 0.0))
    rows = [f"{i}\t{i:025x}\t{a}\t{b}\t{label}" for i, (a, b, label) in enumerate(pairs)]
    text = "\n".join(["\tid\tsentence1\tsentence2\tsimilarity", *rows]) + "\n"
    for name in ("sts-train", "sts-dev", "ids-sst-train"):
        (tmp_path / "course" / f"{name}.csv").write_text(text)
    monkeypatch.setenv("MINBERT_DATA", str(tmp_path))
    succeeded(run_script_here(controls, write_control(place, "sim", "train", 'tasks = "sts"')))
    (line,) = results.load_results()
    assert 0.9 < line["metrics"]["sts"] < 1  # 1 and 0 at the ends, something between
    refused = run_script_here(controls, write_control(place, "sst", "train", 'tasks = "sst"'))
    assert_refused(refused, "sst: there are controls of sentences, sts and names only", code=1)


def test_the_control_of_names(place, run_script_here):
    (place / "train").write_text("Paris\tB-LOC\nis\tO\n\nPARIS\tB-LOC\nParis\tB-PER\n\nx\tB-ORG\n")
    (place / "dev").write_text("paris\tB-LOC\nBonn\tB-LOC\nx\tO\n\nis\tB-ORG\n")
    flags = f'train = "{place}/train"\ndev = "{place}/dev"\nlimit = 2'
    succeeded(run_script_here(controls, write_control(place, "names", "tag", flags)))
    (line,) = results.load_results()
    assert line["metrics"]["dev_f1"] == pytest.approx(2 / (1 + 3))  # one claimed, of three


# ---------------------------------------------------------------------------------------------
# results.jsonl


def test_lines_of_several_processes_do_not_mix(place):
    def work(name):
        for i in range(25):
            results.append_result(a_result(name, i, {"sst": "01234" * 2000}))

    children = [in_a_child(lambda name=name: work(name)) for name in "ab"]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    found = results.load_results()
    assert sorted((one["name"], one["seed"]) for one in found) == [
        (name, i) for name in "ab" for i in range(25)
    ]


def test_a_full_disk_leaves_the_results_as_they_were(place, monkeypatch):
    results.append_result(a_result("a", 0, {}))
    before = results.RESULTS.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
    with pytest.raises(InputError, match=r"cannot write .*: no room; make room"):
        results.append_result(a_result("b", 0, {}))
    monkeypatch.undo()
    assert (place / "results.jsonl").read_bytes() == before


def test_a_broken_last_line(place):
    for name in "ab":
        results.append_result(a_result(name, 0, {}))
    whole = results.RESULTS.read_text()
    first_line = whole.index("\n") + 1
    for broken, said in (
        (whole[:-1], "the last line is cut off; delete that line"),
        (whole[:-20], "the last line is cut off; delete that line"),
        (whole[:-20] + "\n", "line 2 is no result: .*; delete that line"),
        (whole + "[1]\n", "line 3 is no result: "),
        (whole + '{"name": "c", "seed": 1}\n', "line 3 is no result: "),
        (whole + whole[first_line:], "line 3 repeats b-0; delete that line"),
    ):
        results.RESULTS.write_text(broken)
        with pytest.raises(InputError, match=said):
            results.load_results()
        with pytest.raises(InputError, match=said):
            results.append_result(a_result("c", 0, {}))
        assert results.RESULTS.read_text() == broken
    results.RESULTS.write_text(whole)
    assert len(results.load_results()) == 2


# ---------------------------------------------------------------------------------------------
# report.py: the statistics


def a_row(name: str, seeds: tuple, **predicted) -> report.Row:
    arrays = {task: np.array(values, float) for task, values in predicted.items()}
    return report.Row(name, seeds, arrays, (60.0,) * len(seeds), 512.0)


@pytest.fixture
def noisy() -> tuple[dict, report.Row, report.Row]:
    """Gold labels, a run, and a better one."""
    rng = np.random.default_rng(5)
    gold = {"sst": rng.integers(0, 5, 300), "sts": rng.uniform(0, 5, 200)}
    rows = []
    for name, wrong, spread in (("weak", 0.5, 2.0), ("strong", 0.4, 1.2)):
        changed = rng.random(300) < wrong
        rows.append(
            a_row(
                name,
                (0,),
                sst=[np.where(changed, (gold["sst"] + 1) % 5, gold["sst"])],
                sts=[gold["sts"] + rng.normal(0, spread, 200)],
            )
        )
    return gold, *rows


def test_intervals_are_those_of_scipy(noisy):
    gold, weak, strong = noisy

    def accuracy_gain(labels, ours, theirs, axis=-1):
        return (ours == labels).mean(axis=axis) - (theirs == labels).mean(axis=axis)

    def pearson_gain(labels, ours, theirs):
        return pearsonr(ours, labels).statistic - pearsonr(theirs, labels).statistic

    found = report.intervals(strong, weak, gold, resamples=4000)
    assert found.keys() == {"sst", "sts"}
    for task, gain in (("sst", accuracy_gain), ("sts", pearson_gain)):
        sample = (gold[task], strong.predicted[task][0], weak.predicted[task][0])
        expected = bootstrap(
            sample, gain, paired=True, n_resamples=4000, method="percentile", rng=1
        ).confidence_interval
        middle, low, high = found[task]
        assert middle == pytest.approx(gain(*sample), abs=1e-12)
        assert low == pytest.approx(expected.low, abs=0.006)
        assert high == pytest.approx(expected.high, abs=0.006)
        assert high - low > 0.03  # so that 0.006 says something


def test_an_interval_counted_by_hand():
    """Ours is right on four of six examples, theirs on two others: all 6⁶ draws are listed."""
    gold = {"sst": np.ones(6)}
    ours = a_row("a", (0,), sst=[[1, 1, 1, 1, 0, 0]])
    theirs = a_row("b", (0,), sst=[[1, 0, 0, 0, 1, 0]])
    draws = np.array(list(itertools.product([0, 1, 1, 1, -1, 0], repeat=6))).mean(axis=1)
    expected = np.quantile(draws, [0.025, 0.975], method="inverted_cdf")
    assert expected == pytest.approx([-1 / 3, 5 / 6])
    assert report.intervals(ours, theirs, gold)["sst"] == pytest.approx((2 / 6, *expected))


def test_seeds_are_drawn_in_pairs_only_where_both_ran_the_same():
    """A lucky seed lifts both runs: in pairs it cancels out, in other seeds it does not."""
    gold = {"sst": np.ones(4)}
    lucky = [[1, 1, 1, 1], [0, 0, 0, 0]]
    ours, theirs = a_row("a", (0, 1), sst=lucky), a_row("b", (0, 1), sst=lucky)
    assert report.intervals(ours, theirs, gold)["sst"] == (0.0, 0.0, 0.0)
    more = a_row("b", (1, 0, 2), sst=[*lucky[::-1], [1, 1, 1, 1]])  # the third counts not at all
    assert report.intervals(ours, more, gold)["sst"] == (0.0, 0.0, 0.0)
    assert report.intervals(more, ours, gold)["sst"] == (0.0, 0.0, 0.0)
    others = a_row("b", (2, 3), sst=lucky)
    assert report.intervals(ours, others, gold)["sst"] == pytest.approx((0, -1, 1))
    one = a_row("b", (None,), sst=[[1, 1, 0, 0]])
    assert report.intervals(ours, one, gold)["sst"][0] == 0.0


def test_what_is_noise(noisy):
    gold, weak, strong = noisy
    assert not report.is_noise(report.intervals(strong, weak, gold)["sst"])
    nearly = a_row("nearly", (0,), sst=weak.predicted["sst"].copy(), sts=weak.predicted["sts"])
    right = np.flatnonzero(nearly.predicted["sst"][0] != gold["sst"])[:2]
    nearly.predicted["sst"][0, right] = gold["sst"][right]  # two more right of 300
    middle, low, high = report.intervals(nearly, weak, gold)["sst"]
    assert middle == pytest.approx(2 / 300)
    assert low <= 0 < high
    assert report.is_noise((middle, low, high))
    table = report.difference_table([weak, nearly, strong], gold)
    lines = table.splitlines()
    assert "+0.007 [+0.000, +0.017], noise" in lines[2]
    assert "noise" not in lines[3].split("|")[2]


def test_weighted_pearson_is_pearson_of_repeated_examples():
    rng = np.random.default_rng(0)
    x, y = rng.normal(1000, 1, (2, 12)), rng.normal(size=12)
    counts = rng.multinomial(12, np.full(12, 1 / 12), size=5).T
    found = report.weighted_pearson(x, y, counts.astype(float))
    for s, r in itertools.product(range(2), range(5)):
        expected = pearsonr(np.repeat(x[s], counts[:, r]), np.repeat(y, counts[:, r])).statistic
        assert found[s, r] == pytest.approx(expected, abs=1e-9)
    same = report.weighted_pearson(np.full((1, 12), 2.5), y, np.ones((12, 1)))
    assert same.tolist() == [[0.0]]


def test_scores_by_hand():
    gold = {"sst": np.array([0, 4, 2, 3]), "para": np.array([1, 0]), "sts": np.array([0.0, 5, 1])}
    row = a_row("a", (0,), sst=[[0, 4, 1, 1]], para=[[1, 0]], sts=[[1.0, 6, 2]])
    found = {score: values.item() for score, values in report.scores(row, gold).items()}
    assert found == pytest.approx({"sst": 0.5, "para": 1.0, "sts": 1.0, "overall": 2.5 / 3})


# ---------------------------------------------------------------------------------------------
# report.py: tables and picture


def fill(place: Path) -> None:
    """Results on the tiny data (11 rows): labels 01234…, 0101…, 0, 2.6, 5, 3.25 …"""
    files = results.dev_files({})
    gold = {task: results.gold(task, path)[1] for task, path in files.items()}
    sst, para, sts = "".join(map(str, gold["sst"])), "".join(map(str, gold["para"])), gold["sts"]
    wrong = "".join(str((int(label) + 1) % 5) for label in sst)
    prints = results.fingerprints(files, list(files))
    for seed, right in ((0, 5), (1, 8)):
        dev = {"sst": sst[:right] + wrong[right:], "para": para, "sts": sts}
        results.append_result(a_result("base", seed, dev, prints))
        results.append_result(a_result("one", seed, {"sst": sst}, prints))
        results.append_result(a_result("two", seed, {"para": para, "sts": sts}, prints))
    results.append_result(a_result("one", 2, {"sst": sst}, prints))
    results.append_result(a_result("alone", None, {"sst": sst}, prints))
    (place / "joined.toml").write_text(
        '[run]\nname = "joined"\nkind = "joined"\nmembers = ["one", "two"]\n'
    )


def test_the_report(place, run_script_here):
    fill(place)
    result = succeeded(run_script_here(report, "--plot", place / "scores.png"))
    lines = result.out.splitlines()
    mean, sd = np.mean([5 / 11, 8 / 11]), np.std([5 / 11, 8 / 11], ddof=1)
    overall = [(score / 11 + 1 + 1) / 3 for score in (5, 8)]
    expected = (
        f"| base | 2 | {mean:.3f} ({sd:.3f}) | 1.000 (0.000) | 1.000 (0.000) "
        f"| {np.mean(overall):.3f} ({np.std(overall, ddof=1):.3f}) | 1.5 | – |"
    )
    assert expected in lines
    whole = "1.000 (0.000)"
    assert f"| joined | 2 | {whole} | {whole} | {whole} | {whole} | 3.0 | – |" in lines
    assert "| alone | 1 | 1.000 | – | – | – | 1.5 | – |" in lines
    assert "note: joined lacks a member for some seeds, which are left out" in result.err
    (difference,) = [line for line in lines if line.startswith("| joined | +")]
    cells = [cell.strip() for cell in difference.split("|")[2:-1]]
    assert cells[0].startswith(f"+{1 - mean:.3f} [+")
    assert "noise" not in cells[0]
    assert cells[1] == "+0.000 [+0.000, +0.000], noise"
    assert (place / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_the_first_name_is_the_baseline(place, run_script_here):
    assert_refused(run_script_here(report), "no results yet in", code=1)
    fill(place)
    result = succeeded(run_script_here(report, "joined", "base"))
    assert "| against joined |" in result.out
    assert "alone" not in result.out
    assert "| base | -" in result.out
    result = run_script_here(report, "base", "nothing")
    assert_refused(result, "error: no results of nothing; there are: base\n", code=1)
    result = run_script_here(report, "--data_dir", ROOT / "data" / "practice")
    said = "base-0 was measured on another sst dev file than the one here"
    assert_refused(result, said, code=1)


# ---------------------------------------------------------------------------------------------
# search.py


def search_toml(place: Path, trials: int, low: str = "0.0") -> Path:
    ranges = f"[search]\ntrials = {trials}\nlr = {{ low = {low}, high = 1.0 }}\n"
    more = ranges + 'mode = { choices = ["a", "b"] }\nsize = { low = 1, high = 4 }\n'
    return write_toml(place, "tuned", more=more, seeds="[7]")


@pytest.fixture
def _optuna():
    pytest.importorskip("optuna", reason="Optuna is an extra: requirements-search.txt")


@pytest.mark.usefixtures("_optuna")
def test_a_search_goes_on_where_it_stopped(place, run_script_here):
    succeeded(run_script_here(search, search_toml(place, 2)))
    assert len(calls(place)) == 2
    result = succeeded(run_script_here(search, search_toml(place, 5)))
    assert len(calls(place)) == 5
    assert "the best of 5 trials" in result.out
    tried = [dict(zip(c.split()[::2], c.split()[1::2], strict=True)) for c in calls(place)]
    assert all(one["--seed"] == "7" and one["--mode"] in "ab" for one in tried)
    assert all(one["--size"] in "1234" for one in tried)
    closest = min(tried, key=lambda one: abs(float(one["--lr"]) - 0.3))
    best = result.out.split("overall on dev:\n")[1].splitlines()[0]
    assert f"--lr {closest['--lr']} " in best
    assert f"{1 - abs(float(closest['--lr']) - 0.3):.4f}" in best
    assert not results.RESULTS.exists()  # a search is no result
    result = run_script_here(search, search_toml(place, 5, low="0.2"))
    assert_refused(result, "is of other flags or ranges; delete it", code=1)


@pytest.mark.usefixtures("_optuna")
def test_an_interrupted_trial_comes_first(place, run_script_here, monkeypatch):
    call, stops = results.call, [False, True]

    def stopped(command):
        status, _ = call(command)
        return status, bool(stops) and stops.pop(0)

    monkeypatch.setattr(results, "call", stopped)
    result = run_script_here(search, search_toml(place, 3))
    assert result.code == 1
    assert result.err == "stopped; the same command goes on with this trial\n"
    assert len(calls(place)) == 2
    succeeded(run_script_here(search, search_toml(place, 3)))
    done = calls(place)
    assert len(done) == 4
    assert done[1] == done[2]  # the same values, seed and folder
    assert len({done[0], done[1], done[3]}) == 3


@pytest.mark.usefixtures("_optuna")
def test_trials_that_fail_count_as_tried(place, run_script_here):
    ranges = "[search]\ntrials = 2\nlr = { choices = [13.0] }\n"
    result = run_script_here(search, write_toml(place, "tuned", more=ranges))
    assert result.code == 1
    assert result.err.endswith("none of 2 trials came to an end; the lines above say why\n")
    assert len(calls(place)) == 2


@pytest.mark.parametrize(
    "ranges",
    [
        "",
        "[search]\ntrials = 3\n",
        "[search]\ntrials = 0\nlr = { low = 1, high = 2 }\n",
        "[search]\ntrials = 3\nlr = 1\n",
        "[search]\ntrials = 3\nlr = { low = 2, high = 1 }\n",
        "[search]\ntrials = 3\nlr = { low = 0, high = 1, log = true }\n",
        "[search]\ntrials = 3\nlr = { choices = [] }\n",
    ],
)
def test_faulty_ranges(place, ranges):
    one = results.read_experiment(write_toml(place, "a", more=ranges))
    with pytest.raises(InputError, match=r"a: \[search\]"):
        search.check_ranges(one)
