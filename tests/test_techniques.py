"""The flags that switch techniques on: each changes what a run learns, by its weight.

What a technique computes is compared with oracles in references/test_ext_*.py.
"""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from factories import PAIRS, make_rows, stir, write_table
from running import assert_same_tensors, draw_nothing

import multitask_classifier
from extensions import multitask, objective
from extensions.flags import TechniqueFlags
from extensions.model import TechniquesBERT
from extensions.tasks import read_held_out
from extensions.text.no_duplicates import compared_texts
from training.cli.task_flags import find_files
from training.files.errors import InputError
from training.files.predictions import read_predictions
from training.loop.checkpoints import load_checkpoint
from utils import seed_everything

CPU = torch.device("cpu")
ON = {  # a name: the flags of a run
    "plain": {},
    "simcse": {"sst_extra": "simcse", "para_extra": "simcse", "sts_extra": "simcse"},
    "ranking": {"para_extra": "ranking"},
    "ranking_symmetric": {"sts_extra": "ranking_symmetric", "pooling": "mean"},
    "cosent": {"sts_loss": "cosent"},
    "cosine head": {"similarity": "cosine"},
    "r_drop": {"regulariser": "r_drop"},
    "smart": {"regulariser": "smart"},
    "smart cross": {"regulariser": "smart", "pair_encoding": "cross"},
    "pcgrad": {"gradients": "pcgrad"},
    "pals": {"pals": 12, "pal_heads": 2},
    "pals frozen": {"pals": 12, "pal_heads": 2, "option": "pretrain"},
    "separate_layers": {"separate_layers": 1},
    "lora": {"adapt": "lora", "rank": 4},
    "annealed": {"sampling": "annealed"},
}


@pytest.fixture
def run(tiny_model_folder, tiny_data, tmp_path, monkeypatch):
    """A function: train with further flags → the checkpoint; ``args`` are the last run's."""
    monkeypatch.chdir(tmp_path)
    draw_nothing(monkeypatch)
    defaults = {"option": "finetune", "lr": 1e-3, "epochs": 1, "steps_per_epoch": 4}
    defaults |= {"model": str(tiny_model_folder), "data_dir": str(tiny_data), "precision": "fp32"}

    def train(**values) -> dict:
        args = train.args = find_files(TechniqueFlags(**defaults | values))
        seed_everything(args.seed)
        multitask.train(args, read_held_out(args))
        return load_checkpoint(args.filepath)

    return train


@pytest.mark.parametrize("name", [name for name in ON if name != "plain"])
def test_each_flag_changes_what_is_learned_and_the_model_can_be_used(run, name, capsys):
    kinds = ("pair_encoding", "pooling", "option")
    plain = run(**{flag: ON[name][flag] for flag in kinds if flag in ON[name]})["model"]
    saved = run(**ON[name])["model"]
    shared = plain.keys() & saved.keys()
    assert any(not torch.equal(plain[key], saved[key]) for key in shared)
    multitask.test(run.args, read_held_out(run.args))
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    shown = capsys.readouterr().out.rpartition("dev  ")[2]
    assert f"sst {metrics['best']['sst']:.3f}" in shown


def test_without_flags_it_is_the_plain_run_to_the_last_bit(run):
    saved = run(steps_per_epoch=6)["model"]
    seed_everything(run.args.seed)
    multitask_classifier.train_multitask(run.args)
    assert_same_tensors(saved, load_checkpoint(run.args.filepath)["model"])


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        *((name, "regulariser_weight") for name in ("r_drop", "smart")),
        *((name, "extra_weight") for name in ("simcse", "ranking")),
        ("plain", "sts_weight"),
    ],
)
def test_a_term_counts_by_its_weight(run, name, flag):
    """The same noise and dropout in both runs: nothing but the term makes a difference."""
    small, large = (run(**ON[name] | {flag: weight})["model"] for weight in (1e-9, 5.0))
    assert any(not torch.equal(small[key], large[key]) for key in small)


def sentiments(path) -> torch.Tensor:
    """The log-probabilities that a checkpoint gives some rows of tokens."""
    model, _ = multitask.load_model(path, CPU)
    ids = torch.arange(5, 45).view(5, 8)
    with torch.no_grad():
        return model.predict_sentiment(ids, torch.ones_like(ids)).log_softmax(dim=-1)


def test_a_student_comes_nearer_to_its_teachers(run):
    """Two of them, of SST alone, whose predictions are unlike those it began with."""
    teachers, apart = ["5.pt", "6.pt"], []
    for seed, path in zip((5, 6), teachers, strict=True):
        run(seed=seed, lr=1e-2, tasks=["sst"], hidden_dropout_prob=0.0, epochs=2, filepath=path)
    wanted = torch.stack([sentiments(path) for path in teachers]).exp().mean(dim=0)
    for lr in (1e-12, 1e-2):
        flags = {"teacher_share": 0.99, "lr": lr, "epochs": 4, "steps_per_epoch": 6}
        run(teachers=teachers, tasks=["sst"], **flags)
        apart.append((wanted * (wanted.log() - sentiments(run.args.filepath))).sum().item())
    assert apart[1] < 0.5 * apart[0]
    with pytest.raises(InputError, match="none of --teachers was trained on para"):
        run(teachers=teachers, tasks=["sst", "para"])


def test_pairs_are_positives_or_hard_negatives_by_their_labels(monkeypatch):
    """Of STS a similarity from 4 on is the same, and none is a negative."""
    monkeypatch.setattr(objective, "ranking", lambda *parts, symmetric: parts)
    losses = objective.Objective(TechniqueFlags(), None, nullcontext, {})
    vectors = torch.arange(3.0), torch.arange(10.0, 13.0)
    for name, labels, wanted in (
        ("para", (0, 1, 1), ([1, 2], [11, 12], [10])),
        ("sts", (0.0, 3.9, 4.0), ([2], [12], [])),
        ("nli", (0, 1, 2), ([2], [12], [10])),
    ):
        given = losses.loss_on_vectors("ranking", name, vectors, torch.tensor(labels), None)
        assert [part.tolist() for part in given] == list(wanted)


def test_the_texts_that_a_pair_is_compared_by():
    assert compared_texts(" A b", "c", "same") == {"a b", "c"}
    assert compared_texts("a", "C", "different") == {"c"}
    assert compared_texts("a", "c", "unknown") == set()


def test_inference_between_sentences_is_learned_before_sts(run, tmp_path):
    """Three classes of pairs, with a ranking loss on their vectors."""
    rows = make_rows(12, texts=2, labels="012", first_id=500)
    files = {"nli_test": ""}
    for split in ("train", "dev"):
        path = write_table(tmp_path / f"nli-{split}.csv", "id sentence1 sentence2 relation", rows)
        files[f"nli_{split}"] = str(path)
    flags = {"tasks": ["sts", "nli"], "nli_extra": "ranking", "sampling": "before", "epochs": 2}
    run(first_task="nli", **flags, **files)
    multitask.test(run.args, read_held_out(run.args))
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    first, second = ({"sts_loss", "nli_loss"} & epoch.keys() for epoch in metrics["epochs"])
    assert (first, second) == ({"nli_loss"}, {"sts_loss"})
    predicted = read_predictions("predictions/nli-dev-output.csv", "Predicted_Relation")
    right = [predicted[row[0]] == int(row[-1]) for row in rows]
    assert metrics["best"]["nli"] == pytest.approx(sum(right) / len(rows))


@pytest.mark.parametrize("values", [{"separate_layers": 1}, {"pals": 12}], ids=str)
def test_each_task_uses_its_own_parts(tiny_model_folder, values):
    config = {"option": "finetune", "hidden_dropout_prob": 0.3, "hidden_size": 32} | values
    torch.manual_seed(5)
    model = stir(TechniquesBERT(SimpleNamespace(**config, model=str(tiny_model_folder))))
    heads = {
        "sst": lambda: model.predict_sentiment(*PAIRS[:2]),
        "para": lambda: model.predict_paraphrase(*PAIRS),
        "sts": lambda: model.predict_similarity(*PAIRS),
    }
    before = {name: head() for name, head in heads.items()}
    for changed in heads:
        own = model.pals.tasks[changed] if model.pals else model.task_layers[changed]
        with torch.no_grad():
            for parameter in own.parameters():
                parameter.add_(torch.linspace(-0.3, 0.3, parameter.size(-1)))
        after = {name: head() for name, head in heads.items()}
        assert [name for name in heads if not torch.equal(before[name], after[name])] == [changed]
        before = after


@pytest.mark.parametrize("name", ["simcse", "cosent"])
def test_losses_over_the_rows_of_a_batch_are_refused_in_several_processes(name, monkeypatch):
    monkeypatch.setattr(objective, "world_size", lambda: 2)
    with pytest.raises(InputError, match="compares a batch's rows: use one process"):
        objective.Objective(TechniqueFlags(**ON[name]), None, nullcontext, {})
