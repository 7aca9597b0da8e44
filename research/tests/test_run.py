"""Runs from TOMLs and their results (research/experiments/run.py, results.py)."""

import multiprocessing
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
FORK = multiprocessing.get_context("fork")  # spares a process the imports


def test_a_run_for_every_seed(place, run_script_here, tiny_data):
    toml = write_toml(place, "plain", "lr = 0.1\nuse_it = true\nnot_this = false")
    succeeded(run_script_here(run, toml))
    assert calls(place) == [
        f"--lr 0.1 --use_it --fast --seed {seed} --out_dir {place / 'runs' / f'plain-{seed}'} "
        f"--filepath {place / 'runs' / f'plain-{seed}' / 'model.pt'}"
        for seed in (0, 1)
    ]
    first, second = results.load_results()
    assert (first["name"], first["seed"], second["seed"]) == ("plain", 0, 1)
    assert first["flags"] == results.read_experiment(toml).digest()
    assert first["metrics"] == {"sst": 0.5, "para": 0.5, "sts": 0.5}  # no losses
    assert (first["seconds"], first["peak_mb"]) == (60.0, 800.0)
    # the stand-in wrote ids 110 … 100 and predicted 1 for the second of them: in the data file's
    # order that is the last but one
    predicted = results.dev_predictions(place / "runs" / "plain-1", "sst", tiny_data / SST_DEV)
    assert predicted.tolist() == [0.0] * 9 + [1.0, 0.0]
    assert first["data"]["sst"] == results.sha256_of(tiny_data / SST_DEV)[:12]
    assert len(first["commit"].removesuffix("-dirty")) == 12


def test_runs_already_done_are_skipped(place, run_script_here):
    toml = write_toml(place, "plain", "lr = 0.1")
    succeeded(run_script_here(run, toml, "--seeds", "1"))
    assert len(calls(place)) == 1
    succeeded(run_script_here(run, toml))
    assert [result["seed"] for result in results.load_results()] == [1, 0]
    assert len(calls(place)) == 2
    message = "plain-0 is in results.jsonl with other flags"
    assert_refused(run_script_here(run, write_toml(place, "plain", "lr = 0.2")), message, code=1)


def test_a_run_whose_line_is_there_can_be_made_again(place, run_script_here):
    """A clone has the lines, but not the models with which other runs begin."""
    toml = write_toml(place, "long", seeds="[0]")
    succeeded(run_script_here(run, toml))
    lines = results.RESULTS.read_text()
    shutil.rmtree(place / "runs")
    later = write_toml(place, "later", 'model = "$RUNS/long-0"', seeds="[0]")
    facts = (f"later-0 reads {place / 'runs' / 'long-0'}, which is not there", "--again")
    assert_refused(run_script_here(run, later), *facts, code=1)
    succeeded(run_script_here(run, toml, "--again"))
    assert results.RESULTS.read_text() == lines
    succeeded(run_script_here(run, later))
    assert len(calls(place)) == 3


ROWS = "[{'pieces': 8, 'mlm_loss': 5.0}]"


def test_a_corpus_that_pretraining_makes_is_not_missed(place, run_script_here):
    """A clone has no tokenized text; other kinds of runs only read it."""
    (place / "script.py").write_text(
        WRITES.replace("METRICS", "'metrics.json'").replace("ROWS", ROWS)
    )
    for kind in ("pretrain", "exam"):
        head = f'name = "{kind}"\nkind = "{kind}"\nseeds = [0]\nscript = "{place}/script.py"'
        (place / f"{kind}.toml").write_text(f'[run]\n{head}\n[flags]\ncorpus = "$RUNS/made"\n')
    succeeded(run_script_here(run, place / "pretrain.toml"))
    done = run_script_here(run, place / "exam.toml")
    assert_refused(done, f"exam-0 reads {place / 'runs' / 'made'}, which is not there", code=1)


def test_a_run_that_fails_is_not_recorded_and_goes_on_next_time(
    place, run_script_here, monkeypatch
):
    toml = write_toml(place, "bad", "lr = 13.0")
    assert_refused(run_script_here(run, toml), "bad-0 ended with status 1", code=1)
    assert "--resume" not in calls(place)[0]
    run_script_here(run, toml)
    assert calls(place)[1].endswith(" --resume")
    monkeypatch.setenv("MINBERT_DATA", str(ROOT / "data" / "practice"))
    result = run_script_here(run, write_toml(place, "plain"))
    assert_refused(result, "sst-dev-output.csv has other ids than", code=1)
    assert results.load_results() == []


WRITES = """
import json, os, sys
from pathlib import Path
arguments = dict(zip(sys.argv, sys.argv[1:]))
assert arguments.get("--train", "") in ("", os.environ["MINBERT_DATA"] + "/x.tsv")
path = Path(arguments.get("--out", "predictions")) / METRICS
path.parent.mkdir(exist_ok=True)
path.write_text(json.dumps({"best": ROWS[0], "epochs": ROWS, "held_out": ROWS, "seconds": 7,
                            "unigram_entropy": 6.0}))
"""


@pytest.mark.parametrize(
    ("kind", "file", "row", "expected"),
    [
        (
            "pretrain",
            "metrics.json",
            {"step": 9, "pieces": 8, "mlm_loss": 5.0},
            {"unigram_entropy": 6.0, "held_out": [{"pieces": 8, "mlm_loss": 5.0}] * 2},
        ),
        ("classify", "finetune-sst-metrics.json", {"dev_acc": 0.5}, {"last": {"dev_acc": 0.5}}),
    ],
)
def test_other_scripts_are_runs_too(place, run_script_here, kind, file, row, expected):
    written = WRITES.replace("METRICS", repr(file)).replace("ROWS", repr([row, row]))
    (place / "script.py").write_text(written)
    head = f'name = "{kind}"\nkind = "{kind}"\nseeds = [3]\nscript = "{place}/script.py"'
    flags = 'train = "$MINBERT_DATA/x.tsv"' if kind == "classify" else ""
    (place / "one.toml").write_text(f"[run]\n{head}\n[flags]\n{flags}\n")
    succeeded(run_script_here(run, place / "one.toml"))
    (line,) = results.load_results()
    scores = {key: value for key, value in row.items() if key in results.SCORES}
    assert line.items() >= ({"metrics": scores, "seconds": 7.0, "data": {}} | expected).items()


def test_variants_and_models(place, run_script_here):
    path = place / "labels.toml"
    path.write_text(
        '[run]\nname = "labels"\nkind = "tag"\nseeds = [2]\n'
        'models = ["$RUNS/long-0/pieces-0", "$RUNS/long-0/pieces-50"]\n'
        '[flags]\ntrain = "$MINBERT_DATA/train"\n'
        "[variants.slow]\nlr = 1e-6\nteachers = ['a.pt', 'b.pt']\n"
    )
    runs = results.read_experiment(path).with_variants()
    names = ["labels-pieces-0", "labels-pieces-50", "labels-slow-pieces-0", "labels-slow-pieces-50"]
    assert [experiment.name for experiment in runs] == names
    folder = place / "runs" / "labels-slow-pieces-50-2"
    assert results.command_of(runs[3], 2, folder)[1:] == [
        str(ROOT / "lessons" / "token_classifier.py"),
        *("--train", f"{os.environ['MINBERT_DATA']}/train", "--lr", "1e-06"),
        *("--teachers", "a.pt", "b.pt"),
        *("--model", str(place / "runs" / "long-0" / "pieces-50"), "--fast"),
        *("--seed", "2", "--out", str(folder)),
    ]
    toml = write_toml(place, "plain", more="[variants.slow]\nlr = 1e-6\n", seeds="[0]")
    succeeded(run_script_here(run, toml, "--only", "plain-slow"))
    succeeded(run_script_here(run, toml))
    assert [result["name"] for result in results.load_results()] == ["plain-slow", "plain"]
    refused = run_script_here(run, toml, "--only", "fast")
    assert_refused(refused, "--only fast: there are plain, plain-slow")


def test_an_ensemble_runs_on_its_members_checkpoints(place, run_script_here):
    toml = place / "both.toml"
    toml.write_text(
        '[run]\nname = "both"\nkind = "ensemble"\nmembers = ["plain-0", "plain-1"]\n'
        "[flags]\nuse_gpu = true\n"
    )
    models = [place / "runs" / f"plain-{seed}" / "model.pt" for seed in (0, 1)]
    assert_refused(run_script_here(run, toml), f"both reads {models[0]}, {models[1]}", code=1)
    experiment, folder = results.read_experiment(toml), place / "runs" / "both"
    script = str(ROOT / "extensions" / "ensemble.py")
    flags = ("--use_gpu", "--out_dir", str(folder))
    expected = [sys.executable, script, *map(str, models), *flags]
    assert results.command_of(experiment, None, folder) == expected
    assert run.seeds_of(experiment, [5]) == [None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run\n", "is not a TOML"),
        ("[run]\n", "missing 1 required positional argument: 'name'"),
        ('[run]\nname = "a"\n', r"\[run\] has no seeds"),
        ('[run]\nname = "a"\nkind = "ensemble"\n', r"\[run\] has no members"),
        ('[run]\nname = "a"\nkind = "x"\n', "kind 'x' is not one of"),
        ('[run]\nname = "a"\nseeds = [-1]\n', r"the seeds \[-1\] are not integers"),
        ('[run]\nname = "a"\nseed = [1]\n', "unexpected keyword argument 'seed'"),
        ('[run]\nname = "a"\nseeds = [1]\n[flag]\n', "unexpected keyword argument 'flag'"),
        ('[run]\nname = "a"\nseeds = [1]\n[variants]\nlr = 1\n', "a variant is a table of flags"),
    ],
)
def test_a_faulty_toml(tmp_path, text, message):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        results.read_experiment(path)
    with pytest.raises(InputError, match=r"b\.toml is not"):
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

    experiment = results.read_experiment(path)
    assert experiment.name == path.stem
    for name in experiment.members:
        assert path.with_name(f"{name.rstrip('-012')}.toml").is_file()
    scripts = {"pretrain": pretrain, "classify": classifier, "tag": token_classifier}
    for variant in experiment.with_variants():
        arguments = results.command_of(variant, 0, Path("runs"))[2:]
        if variant.kind in scripts:
            scripts[variant.kind].get_args([word for word in arguments if word != "--uncorrected"])
        if variant.kind == "train":
            args = get_args(arguments)
            tasks = {"tasks": variant.flags["tasks"].split(",")} if "tasks" in variant.flags else {}
            paths = {k: results.expanded(v) for k, v in variant.flags.items() if isinstance(v, str)}
            flags = variant.flags | paths | tasks | {"seed": 0}
            flags = {name: value for name, value in flags.items() if name != "teachers"}
            assert {name: getattr(args, name) for name in flags} == flags
    if experiment.search:
        pytest.importorskip("optuna", reason="Optuna is an extra: requirements-search.txt")
        assert search.read_search(experiment)[0] > 0


def test_every_recorded_run_has_its_toml_with_the_same_flags():
    folder = ROOT / "research" / "experiments"
    digests = {
        experiment.name: experiment.digest()
        for path in folder.glob("*/*.toml")
        for experiment in results.read_experiment(path).with_variants()
    }
    lines = results.load_results()
    assert len(lines) > 900
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


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_waits_for_the_resume_file(tmp_path, sent):
    ready, kept, returned = (tmp_path / name for name in ("ready", "kept", "returned"))
    (tmp_path / "script.py").write_text(SIGNALLED)

    def work():
        os.setsid()
        command = [sys.executable, str(tmp_path / "script.py"), str(ready), str(kept)]
        returned.write_text(str(results.call(command)))

    child = FORK.Process(target=work)
    child.start()
    while not ready.is_file():
        time.sleep(0.02)
    (os.killpg if sent == signal.SIGINT else os.kill)(child.pid, sent)  # a terminal tells it
    child.join()
    assert child.exitcode == 0
    assert returned.read_text() == "(3, True)"
    assert kept.read_text() == "kept"


# ---------------------------------------------------------------------------------------------
# results.jsonl


def test_lines_of_several_processes_do_not_mix(place):
    def work(name):
        for i in range(25):
            results.append_result(a_result(name, i, {"sst": 0.5}, more="x" * 10_000))

    children = [FORK.Process(target=work, args=name) for name in "ab"]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    runs = sorted((line["name"], line["seed"]) for line in results.load_results())
    assert runs == [(name, i) for name in "ab" for i in range(25)]


def test_nothing_is_added_behind_a_broken_line(place):
    for name in "ab":
        results.append_result(a_result(name, 0, {}))
    whole = results.RESULTS.read_text()
    first_line = whole.index("\n") + 1
    for broken, number in (
        (whole[:-20], 2),
        (whole + '{"name": "c", "seed": 1}\n', 3),
        (whole + whole[first_line:], 3),  # a run that is there
    ):
        results.RESULTS.write_text(broken)
        with pytest.raises(InputError, match=f"line {number} is not a result"):
            results.append_result(a_result("c", 0, {}))
        assert results.RESULTS.read_text() == broken
