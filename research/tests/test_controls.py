"""The controls without BERT (research/experiments/controls.py)."""

from pathlib import Path

import pytest
from support import assert_refused, save_tiny_model, succeeded

from research.experiments import controls, results


def write_control(place: Path, name: str, kind: str, flags: str) -> Path:
    path = place / f"{name}.toml"
    head = f'name = "{name}"\nkind = "{kind}"\nseeds = [0, 1]\nmodels = ["a/b"]'
    path.write_text(f"[run]\n{head}\n[flags]\nepochs = 9\n{flags}\n")
    return path


def write_films(place: Path, text: str, labels: dict[str, int]) -> str:
    """Files to train on and for dev, and the flags that name them: sentences of a word each."""
    for split in ("train", "dev"):
        rows = [
            f"{i}\t{split}-{i}\t{text.format(word)} {split}{i}\t{label}"
            for i, (word, label) in enumerate([*labels.items()] * 6)
        ]
        (place / f"{split}.csv").write_text("\n".join(["\tid\tsentence\tsentiment", *rows]) + "\n")
    return f'train = "{place}/train.csv"\ndev = "{place}/dev.csv"'


def test_the_control_of_sentences(place, run_script_here):
    labels = {"dull": 0, "bright": 1, "is n't bright": 0, "is n't dull": 1}
    toml = write_control(place, "films", "classify", write_films(place, "a film that {} ,", labels))
    done = succeeded(run_script_here(controls, toml))
    assert "films-control: dev_acc 1.000" in done.out  # pairs of words tell "n't bright"
    (line,) = results.load_results()
    assert (line["name"], line["seed"]) == ("films-control", None)
    assert line["flags"] == controls.control_of(results.read_experiment(toml)).digest()
    succeeded(run_script_here(controls, toml))
    assert len(results.load_results()) == 1


def test_a_control_that_reads_no_more_than_a_model(place, run_script_here):
    """The word that tells is behind the model's last position: the whole texts show it."""
    model = save_tiny_model(place / "model", max_position_embeddings=16)
    flags = write_films(place, "a word a word a word a word a word a word a word a word {}",
                        {"good": 1, "bad": 0})  # fmt: skip
    toml = write_control(place, "films", "classify", flags)
    assert "dev_acc 1.000" in succeeded(run_script_here(controls, toml)).out
    done = succeeded(run_script_here(controls, toml, "--model", model))
    assert "films-control-cut: dev_acc 0.500" in done.out


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
    for name, tasks, flags, message in (
        ("sst", "sst", (), "sst: there are controls of sentences, sts and NER only"),
        ("cut", "sts", ("--model", "x"), "cut: only controls of sentences take a --model"),
    ):
        toml = write_control(place, name, "train", f'tasks = "{tasks}"')
        assert_refused(run_script_here(controls, toml, *flags), message, code=1)


def test_the_control_of_ner(place, run_script_here):
    (place / "train").write_text("Paris\tB-LOC\nis\tO\n\nPARIS\tB-LOC\nParis\tB-PER\n\nx\tB-ORG\n")
    (place / "dev").write_text("paris\tB-LOC\nBonn\tB-LOC\nx\tO\n\nis\tB-ORG\n")
    flags = f'train = "{place}/train"\ndev = "{place}/dev"\nlimit = 2'
    succeeded(run_script_here(controls, write_control(place, "names", "tag", flags)))
    (line,) = results.load_results()
    assert line["metrics"]["dev_f1"] == pytest.approx(2 / (1 + 3))  # one claimed, of three
