"""Runs from TOMLs and their results (research/experiments/run.py, results.py)."""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from made_up import a_result, calls, write_toml
from support import ROOT, assert_refused, succeeded

from research.experiments import results, run, search
from training.files.errors import InputError

SST_DEV = "ids-sst-dev.csv"


def test_a_run_for_every_seed(place, run_script_here, tiny_data):
    toml = write_toml(place, "plain", "lr = 0.1\nuse_it = true\nnot_this = false")
    succeeded(run_script_here(run, toml))
    folder = place / "runs" / "plain-0"
    assert calls(place) == [
        f"--lr 0.1 --use_it --fast --seed {seed} --out_dir {place / 'runs' / f'plain-{seed}'} "
        f"--filepath {place / 'runs' / f'plain-{seed}' / 'model.pt'}"
        for seed in (0, 1)
    ]
    first, second = results.load_results()
    assert (first["name"], first["seed"], second["seed"]) == ("plain", 0, 1)
    assert first["flags"] == results.read_experiment(toml).digest()
    assert first["metrics"]["overall"] == pytest.approx(0.8)
    assert (first["seconds"], first["peak_mb"]) == (60.0, 800.0)
    # the stand-in wrote ids 110 … 100 and predicted 1 for the second of them: in the data file's
    # order that is the last but one
    predicted = results.dev_predictions(place / "runs" / "plain-1", "sst", tiny_data / SST_DEV)
    assert predicted.tolist() == [0.0] * 9 + [1.0, 0.0]
    assert first["data"]["sst"] == results.sha256_of(tiny_data / SST_DEV)[:12]
    assert len(first["commit"]) == 12
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


def test_a_run_whose_line_is_there_can_be_made_again(place, run_script_here):
    """A clone has the lines, but not the models with which other runs begin."""
    toml = write_toml(place, "long", seeds="[0]")
    succeeded(run_script_here(run, toml))
    lines = results.RESULTS.read_text()
    shutil.rmtree(place / "runs")
    later = write_toml(place, "later", 'model = "$RUNS/long-0"', seeds="[0]")
    said = (f"later-0 reads {place / 'runs' / 'long-0'}, which is not there", "--again")
    assert_refused(run_script_here(run, later), *said, code=1)
    assert not (place / "runs").exists()
    succeeded(run_script_here(run, toml, "--again"))
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
expanded = os.environ["MINBERT_DATA"] + "/x.tsv"
metrics["best"]["seen"] = float(sys.argv[sys.argv.index("--train") + 1] == expanded)
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
    assert (first["unigram_entropy"], first["seconds"], first["data"]) == (6.0, 7.0, {})
    assert second["metrics"] == {"dev_accuracy": 0.5, "seen": 1.0}
    assert second["peak_mb"] == 8


def test_a_run_from_each_of_several_models(place):
    path = place / "labels.toml"
    path.write_text(
        '[run]\nname = "labels"\nkind = "tag"\nseeds = [2]\n'
        'models = ["$RUNS/long-0/pieces-0", "$RUNS/long-0/pieces-50"]\n'
        '[flags]\ntrain = "$MINBERT_DATA/train"\n[variants.slow]\nlr = 1e-6\n'
    )
    runs = results.read_experiment(path).with_variants()
    names = ["labels-pieces-0", "labels-pieces-50", "labels-slow-pieces-0", "labels-slow-pieces-50"]
    assert [one.name for one in runs] == names
    assert runs[3].flags == {
        "train": "$MINBERT_DATA/train",
        "lr": 1e-6,
        "model": "$RUNS/long-0/pieces-50",
    }
    folder = place / "runs" / "labels-pieces-50-2"
    assert run.command_of(runs[1], 2, folder)[1:] == [
        *(str(ROOT / "lessons" / "token_classifier.py"),),
        *("--train", f"{os.environ['MINBERT_DATA']}/train"),
        *("--model", str(place / "runs" / "long-0" / "pieces-50"), "--fast"),
        *("--seed", "2", "--out", str(folder)),
    ]


def test_the_last_epoch_is_kept_with_the_best(place):
    rows = [{"epoch": 1, "dev_f1": 0.7}, {"epoch": 2, "dev_f1": 0.6}]
    metrics = {"best": rows[0], "epochs": rows, "seconds": 3}
    (place / "metrics.json").write_text(json.dumps(metrics))
    found = results.read_metrics(place, "tag")
    assert (found["metrics"], found["last"]) == (rows[0], rows[1])


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
        ("[run\n", "is not a TOML"),
        ("[run]\n", r"\[run\] has no name"),
        ('[run]\nname = "a"\n', r"\[run\] has no seeds"),
        ('[run]\nname = "a"\nkind = "ensemble"\n', r"\[run\] has no members"),
        ('[run]\nname = "a"\nkind = "x"\n', "kind 'x' is not one of"),
        ('[run]\nname = "a"\nseeds = [-1]\n', "the seed -1 is not an integer"),
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
    "path", sorted((ROOT / "research" / "experiments").glob("*/*.toml")), ids=lambda p: p.stem
)
def test_the_tomls_of_the_repository(path):
    """Their flags are flags; what makes no sense would be refused only when its turn comes."""
    import classifier
    from extensions.multitask import get_args
    from lessons import token_classifier
    from pretraining import pretrain

    one = results.read_experiment(path)
    assert one.name == path.stem
    for name in one.members:
        assert path.with_name(f"{name.rstrip('-012')}.toml").is_file()
    scripts = {"pretrain": pretrain, "classify": classifier, "tag": token_classifier}
    for each in one.with_variants():
        arguments = results.train_command(each, 0, Path("runs"))[2:]
        if each.kind in scripts:
            scripts[each.kind].get_args([one for one in arguments if one != "--uncorrected"])
        if each.kind == "train":
            args = get_args(arguments)
            tasks = {"tasks": each.flags["tasks"].split(",")} if "tasks" in each.flags else {}
            paths = {k: results.expanded(v) for k, v in each.flags.items() if isinstance(v, str)}
            flags = each.flags | paths | tasks | {"seed": 0}
            flags = {name: value for name, value in flags.items() if name != "teachers"}
            assert {name: getattr(args, name) for name in flags} == flags
    if one.search:
        assert search.check_ranges(one)[0] > 0


def test_every_recorded_run_has_its_toml_with_the_same_flags():
    folder = ROOT / "research" / "experiments"
    digests = {
        one.name: one.digest()
        for path in folder.glob("*/*.toml")
        for one in results.read_experiment(path).with_variants()
    }
    lines = results.parse_results((folder / "results.jsonl").read_text(encoding="utf-8"))
    assert len(lines) > 1000
    others = {
        line["name"]
        for line in lines
        if line["flags"] != digests.get(line["name"]) and "-control" not in line["name"]
    }
    assert not others


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
# results.jsonl


def test_lines_of_several_processes_do_not_mix(place):
    def work(name):
        for i in range(25):
            results.append_result(a_result(name, i, {"sst": 0.5}, more="x" * 10_000))

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
    with pytest.raises(InputError, match=r"cannot write .*: the disk is full"):
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
        (whole[:-20] + "\n", "line 2 is not a result: .*; delete that line"),
        (whole + "[1]\n", "line 3 is not a result: "),
        (whole + '{"name": "c", "seed": 1}\n', "line 3 is not a result: "),
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
