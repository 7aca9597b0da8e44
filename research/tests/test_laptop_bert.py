"""research/laptop_bert.py on a small random model, and the rules on the model that ships."""

import json
import re

import pytest
import torch
from made_up import a_result
from support import ROOT, WORDS, assert_refused, stir, succeeded, tiny_config, tiny_vocabulary

from bert import BertModel
from lessons import grammar
from pretraining.corpus import Corpus
from pretraining.model import PretrainingModel
from pretraining.steps import StepsModel
from research import laptop_bert
from research.experiments import exam, results
from tokenizer import BertTokenizer
from training.files.hub import OWN_MODEL, find_model
from training.files.writing import sha256_of

MACHINE = "Some CPU, 2 threads, torch 2"
SHAPE = {"max_position_embeddings": 128, "num_hidden_layers": 1, "hidden_dropout_prob": 0.5}


def save_model(folder, pieces=None, has_head=True, names="bert", **shape):
    """A random model with the books' vocabulary; strong dropout would show in its scores."""
    pieces = pieces or BertTokenizer.from_pretrained(OWN_MODEL).pieces
    torch.manual_seed(0)
    config = tiny_config(**(SHAPE | {"vocab_size": len(pieces)} | shape))
    model = PretrainingModel(config, objective="none") if has_head else BertModel(config)
    model = model if names == "bert" else StepsModel.new(config, names, "none")
    stir(model).save_pretrained(folder)
    BertTokenizer(pieces).save_pretrained(folder)
    return folder


def write_report(path, loss, machine=MACHINE, seconds=3600.0, kind="pretrain", **flags):
    """A TOML, and the line of its run in results.jsonl."""
    lines = [f"{k} = {json.dumps(v)}" for k, v in ({"text": laptop_bert.TEXT} | flags).items()]
    head = f'[run]\nname = "{path.stem}"\nkind = "{kind}"\nseeds = [0]\n[flags]\n'
    path.write_text(head + "\n".join(lines))
    flags = results.read_experiment(path).digest()
    more = {"flags": flags, "seconds": seconds, "machine": machine, "commit": "abc"}
    results.append_result(a_result(path.stem, 0, {"mlm_loss": loss}) | more)
    return path


@pytest.fixture
def entry(place, monkeypatch):
    """A folder with text, pairs, a model and, as its place.loss, that model's held-out loss."""
    monkeypatch.setenv("MINBERT_DATA", str(place))
    text = place / "pretrain_text" / "books" / "a.txt"
    text.parent.mkdir(parents=True)
    text.write_text("\n\n".join([" ".join(WORDS * 20)] * 60), encoding="utf-8")
    (place / "sums").write_text(f"{sha256_of(text)}  a.txt\n")
    monkeypatch.setattr(laptop_bert, "TEXTS", place / "sums")
    pairs = place / "pairs.txt"
    sentences = (" ".join(WORDS[i : i + 4]) for i in range(14))
    pairs.write_text("".join(f"{one} never\n{one} finds\n" for one in sentences), encoding="utf-8")
    monkeypatch.setattr(grammar, "SAMPLE", pairs)
    save_model(place / "model")
    return place


def measured(entry):
    """(accuracy, loss) of the entry's model."""
    model, tokenizer = exam.examined(entry / "model")
    corpus = Corpus(laptop_bert.books(tokenizer).folder)
    marks, loss = exam.measure(model, tokenizer, grammar.read_pairs(None), corpus, seed=0)
    return marks["all"].mean(), loss


@pytest.mark.parametrize("names", ["bert", "modern"])
def test_the_row_of_an_entry(entry, run_script_here, monkeypatch, names):
    """Of two runs, whose times add up; without the text its loss is not measured."""
    save_model(entry / "model", names=names)
    accuracy, loss = measured(entry)
    assert 0 < accuracy < 1 or names == "modern"
    short = write_report(entry / "short.toml", 9.0, seconds=7200.0, length=64)
    long = write_report(entry / "long.toml", loss + 0.05, model="$RUNS/short-0/last")
    line = ("../model", "--report", short, long)
    (entry / "here").mkdir()
    monkeypatch.chdir(entry / "here")
    done = succeeded(run_script_here(laptop_bert, *line))
    cells = [cell.strip() for cell in done.out.splitlines()[-1].strip("|").split("|")]
    size = sum(file.stat().st_size for file in (entry / "model").iterdir()) / 1e6
    assert cells[0] == "../model"
    assert re.fullmatch(rf"{accuracy:.3f} \[0\.\d+, \d\.\d+\]", cells[1])
    assert cells[2:] == [f"{loss:.3f}", f"{size:.1f}", "3 h 00 min", MACHINE, "abc"]
    monkeypatch.setenv("MINBERT_DATA", str(entry / "missing"))
    done = succeeded(run_script_here(laptop_bert, *line))
    assert "not checked: held-out loss" in done.out
    assert "| – |" in done.out.splitlines()[-1]


def test_a_second_run_begins_with_the_first_one(entry, run_script_here):
    first = write_report(entry / "first.toml", 9.0)
    second = write_report(entry / "second.toml", 9.0, model="bert-base-uncased")
    done = run_script_here(laptop_bert, entry / "model", "--report", first, second)
    fault = "second begins with bert-base-uncased, which no report before it has trained"
    assert (done.code, done.err) == (1, f"broken rule: {fault}\n")


@pytest.mark.parametrize(
    ("run", "facts"),
    [
        ({"seconds": 10801.0}, "took 3 h 00 min on a CPU"),
        ({"seconds": 601.0, "use_gpu": True}, "took 10 min 01 s on a GPU; 10 min 00 s are allowed"),
        ({"machine": "Some CPU, 3 threads, torch 2"}, "ran on Some CPU, 3 threads"),
        ({"machine": "Some CPU"}, "ran on Some CPU, and 2 threads"),
        ({"text": "wikipedia"}, "text is wikipedia"),
        ({"held_out": 0.01}, "held_out is 0.01, and 0.02"),
        ({"model": "bert-base-uncased"}, "begins with bert-base-uncased"),
        ({"model": "$RUNS/other-0"}, "begins with $RUNS/other-0"),
        ({"loss": -0.2}, "the report's loss is"),
    ],
)
def test_a_run_against_the_rules(entry, run_script_here, run, facts):
    _, loss = measured(entry)
    flags = {name: value for name, value in run.items() if name != "loss"}
    report = write_report(entry / "run.toml", loss + run.get("loss", 0), **flags)
    done = run_script_here(laptop_bert, entry / "model", "--report", report)
    assert done.code == 1
    assert done.err.startswith("broken rule: ")
    assert facts in done.err
    assert done.err.count("\n") == 1
    assert "|" not in done.out


def test_each_rule_that_a_model_breaks_is_a_line(entry, run_script_here):
    """Too large with what lies in it, another vocabulary, too few positions."""
    folder = save_model(entry / "bad", [*tiny_vocabulary(), *WORDS], max_position_embeddings=64)
    (folder / "deep").mkdir()
    with open(folder / "deep" / "large", "wb") as file:
        file.truncate(12_000_000)
    report = write_report(entry / "run.toml", 9.0)
    done = run_script_here(laptop_bert, folder, "--report", report)
    assert done.code == 1
    lines = done.err.splitlines()
    facts = ("12,000,000 are allowed", "another vocabulary", "has 64 positions")
    assert len(lines) == len(facts)
    for line, fact in zip(lines, facts, strict=True):
        assert fact in line


def test_bad_input_is_one_line(entry, run_script_here):
    report = write_report(entry / "run.toml", 9.0)
    (entry / "empty").mkdir()
    exam_toml = write_report(entry / "exam.toml", 9.0, kind="exam")
    changed = write_report(entry / "changed.toml", 9.0)
    changed.write_text(changed.read_text() + "\nlr = 1.0\n")
    headless = save_model(entry / "headless", has_head=False)
    for model, toml, fact in (
        ("empty", report, "empty"),
        (headless, report, "no head for masked words"),
        ("model", entry / "missing.toml", "missing.toml is not a TOML"),
        ("model", exam_toml, "has no pre-training exam-0"),
        ("model", changed, "the flags of"),
        ("model", ROOT / "research/experiments/books/books.toml", "has no pre-training books-0"),
    ):
        done = run_script_here(laptop_bert, entry / model, "--report", toml)
        assert_refused(done, fact, code=1)
    (entry / "sums").write_text("0  a.txt\n")
    done = run_script_here(laptop_bert, entry / "model", "--report", report)
    assert_refused(done, "does not hold the texts of sums", code=1)


def test_the_model_that_ships_is_within_the_rules():
    model, tokenizer = exam.examined(OWN_MODEL)
    assert laptop_bert.model_faults(find_model(OWN_MODEL), 12_000_000, model, tokenizer) == []
    stage = laptop_bert.read_stage(str(ROOT / "research/experiments/books/books.toml"))
    assert laptop_bert.run_faults([stage], stage[1]["seconds"]) == []
    page = (ROOT / "docs" / "laptop-bert.md").read_text(encoding="utf-8")
    row = re.search(r"^\| books .*$", page, re.MULTILINE)[0]
    assert f"| {stage[1]['metrics']['mlm_loss']:.3f} |" in row
    assert f"| 10.9 | 2 h 44 min | {stage[1]['machine']} | {stage[1]['commit']} |" in row
    assert len(laptop_bert.TEXTS.read_text().splitlines()) == 66
