"""The flags that switch techniques on: each does something, and what makes no sense is refused.

What a technique computes is compared with oracles in test_ext_*.py; here it is the way into a run.
"""

import itertools
import json
import re
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support import make_rows, write_table
from test_multitask import (  # noqa: F401  (a fixture)
    CPU,
    PAIRS,
    SENTENCES,
    check_shapes_and_padding,
    flags,
    make_config,
    make_model,
    watch_gradients,
)
from torch import nn
from torch.nn import functional as F

import multitask_classifier
from bert import BertModel
from datasets import load_pairs
from extensions import flags as techniques
from extensions import multitask
from extensions.features.word_tags import WordTags, load_tagger
from extensions.flags import TechniqueFlags
from extensions.gradients.pcgrad import pcgrad
from extensions.gradients.task_gradients import TaskGradients
from extensions.loss import objective, simcse
from extensions.loss.on_vectors import on_vectors, without_duplicates
from extensions.model import TechniquesBERT
from extensions.tasks import LOSSES, STEMS, TASKS
from extensions.text.no_duplicates import NoDuplicates
from extensions.update.step import Updates
from multitask_classifier import MultitaskBERT, complete_flags
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.files.errors import InputError
from training.files.predictions import read_predictions
from training.loop import run as training_run
from training.loop.batches import LengthBatches
from training.loop.checkpoints import ResumePoint, StopRequest, load_checkpoint
from utils import seed_everything

ON = {  # a name: the flags of a run
    "supcon": {"sst_extra": "supcon"},
    "simcse": {"sst_extra": "simcse", "para_extra": "simcse", "sts_extra": "simcse"},
    "ranking": {"para_extra": "ranking"},
    "ranking_symmetric": {"sts_extra": "ranking_symmetric", "pooling": "mean"},
    "cosine_embedding": {"para_extra": "cosine_embedding"},
    "angle": {"sts_extra": "angle"},
    "r_drop": {"regulariser": "r_drop"},
    "r3f": {"regulariser": "r3f", "epsilon": 0.5},
    "smart": {"regulariser": "smart", "ascents": 2},
    "fgm": {"regulariser": "fgm"},
    "freelb": {"regulariser": "freelb", "ascents": 3},
    "bregman": {"bregman": 1.0},
    "smart whole": {"regulariser": "smart", "bregman": 1.0, "pair_encoding": "cross"},
    "sum": {"gradients": "sum"},
    "sum uncertain": {"gradients": "sum", "task_weights": "uncertainty"},
    "pcgrad": {"gradients": "pcgrad"},
    "gradvac": {"gradients": "gradvac"},
    "cagrad": {"gradients": "cagrad"},
    "uncertainty": {"task_weights": "uncertainty"},
    "pals": {"pals": 12, "pal_heads": 2},
    "pals frozen": {"pals": 12, "pal_heads": 2, "option": "pretrain"},
    **{kind: {"adapt": kind, "rank": 4} for kind in techniques.ADAPTATIONS},
    "mixout": {"mixout": 0.5},
    "reinit": {"reinit": 1},
    "layer_decay": {"layer_decay": 0.5},
    "ema": {"average": "ema", "average_decay": 0.5},
    "swa": {"average": "swa"},
    **{kind: {"optimizer": kind} for kind in techniques.OPTIMIZERS[1:]},
    "cosine": {"schedule": "cosine"},
    "sqrt": {"schedule": "sqrt", "warmup": 0.3},
    "head_layers": {"head_layers": 2},
    "shapes": {"tag_words": "shapes"},
    "count_features": {"count_features": True},
    "many": {
        "regulariser": "smart",
        "sst_extra": "supcon",
        "gradients": "pcgrad",
        "average": "ema",
        "layer_decay": 0.9,
        "pals": 12,
        "mixout": 0.3,
        "tag_words": "shapes",
    },
}


@pytest.fixture
def run(flags, monkeypatch):  # noqa: F811
    """A function: train with further flags → the checkpoint."""
    monkeypatch.setattr(multitask_classifier, "describe", lambda *_: None)  # pictures take longest
    flags.epochs, flags.steps_per_epoch, flags.precision = 2, 6, "fp32"
    flags.pair_encoding = "bi"

    def train(**values) -> dict:
        given = Namespace(**vars(flags) | values)
        seed_everything(flags.seed)
        multitask.train(given)
        return load_checkpoint(flags.filepath)

    train.flags = flags
    return train


@pytest.mark.parametrize("name", ON)
def test_each_flag_changes_what_is_learned_and_the_model_can_be_used(run, name, capsys):
    run.flags.epochs, run.flags.steps_per_epoch = 1, 4
    kind = {"pair_encoding": "bi", "pooling": "pooler", "option": "finetune"}
    plain = run(**{flag: ON[name].get(flag, value) for flag, value in kind.items()})["model"]
    with_it = run(**ON[name])
    shared = plain.keys() & with_it["model"].keys()
    assert any(not torch.equal(plain[key], with_it["model"][key]) for key in shared)
    model, _ = multitask.load_model(run.flags.filepath, CPU)
    saved = with_it["model"]
    assert all(torch.equal(saved[key], value) for key, value in model.state_dict().items())
    multitask.test(Namespace(**vars(run.flags) | ON[name]))
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    shown = capsys.readouterr().out.rpartition("dev  ")[2]
    assert f"sst {metrics['best']['sst']:.3f}" in shown


def test_without_flags_it_is_the_plain_run_to_the_last_bit(run):
    saved = run()["model"]
    seed_everything(run.flags.seed)
    multitask_classifier.train_multitask(run.flags)
    plain = load_checkpoint(run.flags.filepath)["model"]
    assert saved.keys() == plain.keys()
    assert all(torch.equal(saved[name], value) for name, value in plain.items())


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        *((name, "regulariser_weight") for name in ("r_drop", "r3f", "smart", "fgm")),
        *((name, "extra_weight") for name in ("supcon", "simcse", "ranking", "angle")),
        ("bregman", "bregman"),
    ],
)
def test_a_term_counts_by_its_weight(run, name, flag):
    """The same noise and dropout in both runs: nothing but the term makes a difference."""
    run.flags.epochs, run.flags.steps_per_epoch = 1, 4
    small, large = (run(**ON[name] | {flag: weight})["model"] for weight in (1e-9, 5.0))
    assert any(not torch.equal(small[key], large[key]) for key in small)


def test_the_slow_copy_draws_the_same_dropout(run, monkeypatch):
    """Where nothing moves it is the model, and D is 0 in every step."""
    found = []

    def watched(task):
        def divergence(outputs, theirs):
            found.append((outputs - theirs).abs().max().item())
            return (outputs - theirs).square().mean()

        return divergence

    monkeypatch.setattr(objective, "divergence", watched)
    run(bregman=1.0, lr=1e-30, hidden_dropout_prob=0.5)
    assert found == [0.0] * 12


@pytest.mark.parametrize(
    ("name", "pattern", "count"),
    [
        ("pals", r"added\.pals\.tasks\.(sst|para|sts)\.decoder\.weight", 3),
        ("pals frozen", r"added\.pals\.tasks\.(sst|para|sts)\.decoder\.weight", 3),
        ("serial", r".*\.adapters\.(sst|para|sts)\.up\.weight", 12),  # two in each of two layers
        ("parallel", r".*\.adapters\.(sst|para|sts)\.up\.weight", 6),
        ("lora", r".*\.lora_b", 4),
        ("dora", r".*\.lora_b", 4),
        ("count_features", r"added\.(text|pair)_counts\.linear\.weight", 2),
        ("shapes", r"added\.tags\.weight", 1),
        ("uncertainty", r"added\.uncertainty\.log_variances\.(sst|para|sts)", 3),
    ],
)
def test_what_begins_as_0_has_learned(run, name, pattern, count):
    """Of every task, if it is a task's: what is never used would have stayed 0."""
    saved = run(**ON[name])["model"]
    found = [value for key, value in saved.items() if re.fullmatch(pattern, key)]
    assert len(found) == count
    assert all(value.abs().max() > 0 for value in found)


@pytest.mark.parametrize("kind", techniques.ADAPTATIONS)
def test_an_adapted_bert_keeps_its_weights(run, kind, tiny_model_folder):
    saved = run(adapt=kind, rank=4)["model"]
    before = BertModel.from_pretrained(tiny_model_folder).state_dict()
    moved = [
        name
        for name, value in before.items()
        if f"bert.{name}" in saved and not torch.equal(saved[f"bert.{name}"], value)
    ]
    assert all(name.endswith("bias") for name in moved) if kind == "bitfit" else not moved


# ---------------------------------------------------------------------------------------------
# Stopped and resumed


@pytest.mark.parametrize(
    "name", ["bregman", "ema", "swa", "gradvac", "pcgrad", "many", "freelb", "sum uncertain"]
)
@pytest.mark.parametrize("steps", [3, 9])
def test_stopped_and_resumed_it_ends_with_the_same_weights(run, monkeypatch, name, steps):
    whole = run(**ON[name])
    seen = 0
    leave = StopRequest.leave_if_asked

    def watched(self, point):
        nonlocal seen
        seen += 1
        if seen == steps // (3 if "gradients" in ON[name] else 1):
            self.asked = True
        leave(self, point)

    with monkeypatch.context() as patch:
        patch.setattr(StopRequest, "leave_if_asked", watched)
        patch.setattr(ResumePoint, "due", lambda point: True)
        with pytest.raises(InputError, match="--resume goes on"):
            run(**ON[name])
    again = run(**ON[name], resume=True)
    for key, value in whole["model"].items():
        assert torch.equal(again["model"][key], value), key


# ---------------------------------------------------------------------------------------------
# Equalities


@pytest.mark.parametrize("average", ["ema", "swa"])
def test_training_goes_on_from_its_own_weights(run, monkeypatch, average):
    paths = []
    step = AdamW.step

    def watched(self, closure=None):
        paths[-1].append(self.param_groups[0]["params"][0].detach().clone())
        return step(self, closure)

    monkeypatch.setattr(AdamW, "step", watched)
    for more in ({}, {"average": average, "average_decay": 0.9}):
        paths.append([])
        run(**more, epochs=4, steps_per_epoch=3)
    plain, averaged = paths
    assert len(plain) == 12
    assert all(torch.equal(one, other) for one, other in zip(plain, averaged, strict=True))


@pytest.mark.parametrize("rule", ["sum", "pcgrad"])
def test_a_rule_in_the_loop_is_that_rule(run, monkeypatch, rule):
    """What reaches the optimizer: the gradients of three batches, combined by the rule."""
    taken, combined = [], []
    take, combine = TaskGradients.take, TaskGradients.combine

    def watched_take(self, task):
        for p, of_sst in zip(self.parameters, taken[-1], strict=True) if task == "para" else ():
            if p.grad is not None and of_sst is not None:
                p.grad.copy_(-of_sst)  # so that there is a conflict
        taken.append([None if p.grad is None else p.grad.clone() for p in self.parameters])
        take(self, task)

    def watched_combine(self, weigh):
        products = combine(self, weigh)
        combined.append((products, [p.grad.clone() for p in self.parameters]))
        return products

    monkeypatch.setattr(TaskGradients, "take", watched_take)
    monkeypatch.setattr(TaskGradients, "combine", watched_combine)
    steps = []
    step = AdamW.step
    monkeypatch.setattr(AdamW, "step", lambda self: steps.append(step(self)))
    run(gradients=rule, epochs=1, steps_per_epoch=4)  # rounded up to two whole rounds
    assert (len(taken), len(combined), len(steps)) == (6, 2, 2)
    products, grads = combined[1]
    weights = torch.ones(3)
    if rule == "pcgrad":
        weights = pcgrad(products, torch.Generator().manual_seed(run.flags.seed + 5))
        assert not torch.allclose(weights, torch.ones_like(weights))
    shared = 0
    for of_tasks, result in zip(zip(*taken[3:], strict=True), grads, strict=True):
        there = [g for g in of_tasks if g is not None]
        if len(there) == 3:
            shared += 1
            there = [weight * g for weight, g in zip(weights.tolist(), there, strict=True)]
        torch.testing.assert_close(result, sum(there), atol=1e-7, rtol=1e-5)
    assert shared > 10


def test_a_schedule_keeps_the_ratios_of_the_layers(run, monkeypatch):
    rates = []
    step = AdamW.step

    def watched(self, closure=None):
        rates.append([group["lr"] for group in self.param_groups])
        return step(self, closure)

    monkeypatch.setattr(AdamW, "step", watched)
    run(layer_decay=0.5, schedule="cosine", warmup=0.5, epochs=1, steps_per_epoch=8)
    assert rates[0] == [0.0] * len(rates[0])
    for row in rates[1:]:
        for lower, upper in itertools.pairwise(row):
            assert lower == pytest.approx(upper / 2)
    assert rates[4][-1] == pytest.approx(run.flags.lr)
    assert 0 < rates[7][-1] < rates[5][-1] < run.flags.lr


def sentiments(path) -> torch.Tensor:
    """The log-probabilities that a checkpoint gives some rows of pieces."""
    model, _ = multitask.load_model(path, CPU)
    ids = torch.arange(5, 45).view(5, 8)
    with torch.no_grad():
        return model.predict_sentiment(ids, torch.ones_like(ids)).log_softmax(dim=-1)


def test_a_student_comes_nearer_to_its_teachers(run):
    """Two of them, of SST alone, that answer unlike what it began with."""
    teachers = []
    for seed in (5, 6):
        run(seed=seed, lr=1e-2, tasks=["sst"], hidden_dropout_prob=0.0)
        teachers.append(f"teacher-{seed}.pt")
        Path(run.flags.filepath).rename(teachers[-1])
    wanted = torch.stack([sentiments(path) for path in teachers]).exp().mean(dim=0)
    apart = []
    for lr in (1e-12, 1e-2):
        run(teachers=teachers, teacher_share=0.99, lr=lr, tasks=["sst"], epochs=4)
        apart.append((wanted * (wanted.log() - sentiments(run.flags.filepath))).sum().item())
    assert apart[1] < 0.5 * apart[0]
    with pytest.raises(InputError, match="none of the --teachers was trained on para"):
        run(teachers=teachers, tasks=["sst", "para"])


def test_a_teacher_of_another_vocabulary_is_refused(run, tmp_path, tiny_model_folder):
    other = tmp_path / "other"
    model = BertModel.from_pretrained(tiny_model_folder)
    model.save_pretrained(other)
    BertTokenizer(sorted(BertTokenizer.from_pretrained(tiny_model_folder).pieces)).save_pretrained(
        other
    )
    run(model=str(other))
    Path(run.flags.filepath).rename("teacher.pt")
    with pytest.raises(InputError, match="another vocabulary"):
        run(teachers=["teacher.pt"])


def test_the_size_of_freelb_and_the_scale_of_similarities(tiny_model_folder, monkeypatch):
    """--epsilon bounds what FreeLB adds, too; similarities are apart by at most 1, as classes."""
    given = {}
    monkeypatch.setattr(objective.freelb, "losses", lambda *_, **more: given.update(more) or [])
    model = TechniquesBERT(make_config(tiny_model_folder))
    args = completed(Namespace(regulariser="freelb", epsilon=0.5))
    loss = objective.Objective(args, model, {}, nullcontext)
    list(loss(TASKS["sst"], (), None))
    assert given == {"start": 0.5, "radius": 0.5}
    apart = objective.divergence(TASKS["sts"])
    assert apart(torch.tensor([5.0, 0.0]), torch.tensor([0.0, 5.0])).item() == 1.0


def completed(given: Namespace) -> TechniqueFlags:
    """An older caller's flags with all defaults."""
    return complete_flags(given, TechniqueFlags, STEMS)


def test_a_tagger_is_the_one_that_was_there(run, tmp_path):
    """Of a resumed run, and of a model that is used."""
    path = tmp_path / "tagger.json"
    path.write_text('{"tags": ["A", "B"], "weights": {"bias": {"A": 1.0}}}')
    run(tag_words=str(path))
    args = completed(Namespace(**vars(run.flags) | {"tag_words": str(path)}))
    before = multitask.tagger_digest(args)
    path.write_text('{"tags": ["A", "B"], "weights": {"bias": {"B": 1.0}}}')
    assert multitask.tagger_digest(args) != before
    with pytest.raises(InputError, match="another tagger than the one"):
        multitask.load_model(run.flags.filepath, CPU)


# ---------------------------------------------------------------------------------------------
# Words


def test_words_keep_their_capitals(tiny_model_folder):
    tokenizer = BertTokenizer.from_pretrained(tiny_model_folder)
    words = WordTags(tokenizer, "shapes")
    text = "Berlin is NOT 100 miles away."
    ids = torch.tensor([tokenizer.encode(text.lower())])
    mask = torch.ones_like(ids)
    forgotten = words.tags(ids, mask)
    words = WordTags(tokenizer, "shapes")
    words.remember([text])
    remembered = words.tags(ids, mask)
    assert remembered.shape == ids.shape
    assert remembered[0, 0] == remembered[0, -1] == 0
    assert len(set(remembered[0].tolist())) >= 5  # none, Title, lower, negation, number, mark
    assert not torch.equal(remembered, forgotten)


def test_tags_of_a_pair_are_those_of_its_texts(tiny_model_folder):
    tokenizer = BertTokenizer.from_pretrained(tiny_model_folder)
    words = WordTags(tokenizer, "shapes")
    first, second = "The Film", "not 7 films ,"
    words.remember([first, second])
    alone = [tokenizer.encode(text.lower()) for text in (first, second)]
    tags = [words.tags(torch.tensor([ids]), torch.ones(1, len(ids)).long()) for ids in alone]
    pair = torch.tensor([[*alone[0], *alone[1][1:], 0, 0]])
    mask = (torch.arange(pair.size(1)) < pair.size(1) - 2).long()[None]
    both = words.tags(pair, mask)
    assert both[0].tolist() == [*tags[0][0].tolist(), *tags[1][0, 1:].tolist(), 0, 0]


@pytest.mark.parametrize("content", ["", "[]", '{"tags": ["A"]}'])
def test_a_file_that_holds_no_tagger(tmp_path, content):
    path = tmp_path / "tagger.json"
    with pytest.raises(InputError, match="no file"):
        load_tagger(path)
    path.write_text(content)
    with pytest.raises(InputError, match="holds no tagger"):
        load_tagger(path)


# ---------------------------------------------------------------------------------------------
# Combinations that make no sense


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--para_extra ranking --pair_encoding cross", "compares two vectors"),
        ("--sts_extra angle --accumulate 2", "the parts of a batch do not add up"),
        ("--sts_loss cosent --accumulate 2", "--sts_loss cosent compares the rows"),
        ("--epsilon 1", "--epsilon is for"),
        ("--regulariser r_drop --epsilon 1", "--epsilon is for"),
        ("--regulariser fgm --ascents 2", "--ascents is for"),
        ("--first_epochs 3", "--first_epochs is for --sampling first, before"),
        ("--sampling first --epochs 2 --first_epochs 2", "leaves no epoch for the other tasks"),
        ("--average swa --average_decay .9", "--average_decay is for --average ema"),
        ("--teacher_share .9", "--teacher_share is for --teachers"),
        ("--wordnet /nowhere", "--wordnet is for --synonyms"),
        ("--pal_heads 6", "--pal_heads is for --pals"),
        ("--extra_weight 1", "--extra_weight is for --sst_extra"),
        ("--tasks sst --sts_loss cosent", "--sts_loss is for sts, which is not among the --tasks"),
        ("--nli_extra simcse", "--nli_extra is for nli, which is not"),
        ("--tasks sst --similarity cosine", "--similarity is for sts, which is not"),
        ("--gradients gradvac --adapt serial", "they share nothing that learns"),
        ("--regulariser smart --option pretrain", "a frozen BERT cannot learn"),
        ("--bregman 1 --option pretrain", "a frozen BERT cannot learn"),
        ("--adapt lora --option pretrain", "--adapt is about how BERT learns"),
        ("--gradients pcgrad --option pretrain", "--gradients is about"),
        ("--regulariser fgm --compile", "without --compile"),
        ("--sst_extra supcon --compile", "without --compile"),
        ("--regulariser freelb --bregman 1", "freelb has no pass without"),
        ("--regulariser freelb --regulariser_weight 2", "freelb has no other loss"),
        ("--regulariser freelb --task_weights uncertainty", "takes its loss in parts"),
        ("--regulariser r_drop --mixout .5", "mixout draws once for a pass"),
        ("--sst_extra supcon --option pretrain", "--sst_extra moves vectors"),
        ("--similarity cosine --option pretrain", "has nothing that learns but BERT"),
        ("--similarity cosine --tasks sts --head_layers 2", "--similarity cosine has none"),
        ("--rank 4", "--rank is for"),
        ("--rank 4 --adapt bitfit", "--rank is for"),
        ("--regulariser r_drop --sst_extra supcon", "r_drop has every row twice"),
        ("--gradients pcgrad --tasks sst", "two tasks or more"),
        ("--gradients cagrad --sampling annealed", "round_robin"),
        ("--gradients gradvac --task_weights uncertainty", "one of them"),
        ("--task_weights uncertainty --sts_weight 2", "learns the weights"),
        ("--adapt dora --mixout .5", "--adapt freezes what --mixout"),
        ("--adapt serial --pals 12", "--adapt freezes what --pals"),
        ("--mixout .5 --separate_layers 1", "--mixout does not reach"),
        ("--regulariser fgm --adapt lora", "which --adapt lora freezes"),
        ("--pals 10", "cannot be split into --pal_heads 12"),
        ("--layer_decay 1.1", "at most 1"),
        ("--schedule cosine --decay", "the linear schedule"),
        ("--schedule sqrt", "give it a --warmup"),
        ("--mixout 1", "below 1"),
        ("--sampling first --tasks sst,sts", "--first_task para is not among the --tasks"),
        ("--sampling before --tasks para", "name two --tasks"),
        ("--similarity cosine --pair_encoding cross", "--similarity cosine compares two vectors"),
        ("--sts_loss rank", "invalid choice: 'rank'"),
        ("--tasks sst,ner", "no task 'ner'; there are sst, para, sts, nli"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(line, said, capsys):
    arguments = line.split()
    if "--option" not in arguments:
        arguments += ["--option", "finetune"]
    with pytest.raises(SystemExit) as left:
        multitask.get_args(arguments)
    assert left.value.code == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_losses_over_the_rows_of_a_batch_are_refused_in_several_processes(run, monkeypatch):
    monkeypatch.setattr("extensions.loss.objective.world_size", lambda: 2)
    with pytest.raises(InputError, match="several processes share"):
        run(sst_extra="supcon")


def test_texts_that_serve_as_wrong_answers_come_once_in_a_batch():
    """A = b = c by way of two pairs; a wrong answer c must not be held against these either."""
    pairs = [("a", "b", 1), ("a", "c", 1), ("b", "d", 0), ("h", "c", 0), ("f", "g", 0)]
    rows = {"para": [(*pair, f"id{i}") for i, pair in enumerate(pairs)]}
    batches = {"para": LengthBatches([3] * 5, 5, seed=0)}
    args = multitask.get_args(["--option", "finetune"])
    assert without_duplicates(args, rows, batches) == batches
    args.para_extra = "ranking"
    found = without_duplicates(args, rows, batches)["para"]
    found.set_epoch(1)
    together = [set(batch) for batch in found]
    assert sorted(len(batch) for batch in together) == [1, 1, 3]
    assert all(len(batch & {0, 1, 3}) == 1 for batch in together)


@pytest.mark.parametrize(("task", "extra"), [("para", "ranking"), ("nli", "simcse")])
def test_a_pair_comes_with_its_hard_negative(task, extra):
    """Of 40 pairs with a contradiction each, which by chance would hardly ever meet."""
    labels = {"para": (1, 0), "nli": (2, 0)}[task]
    pairs = [(f"p{i}", f"{what}{i}", label) for what, label in zip("ec", labels, strict=True)
             for i in range(40)]  # fmt: skip
    rows = {task: [(*pair, f"id{i}") for i, pair in enumerate(pairs)]}
    line = ["--option", "finetune", f"--{task}_extra", extra, "--tasks", f"sst,{task}"]
    args = multitask.get_args(line)
    batches = {task: LengthBatches([3 + i * 7 % 20 for i in range(80)], 8, seed=0)}
    found = list(without_duplicates(args, rows, batches)[task])
    assert [len(batch) for batch in found] == [8] * 10
    for batch in found:
        assert {row % 40 for row in batch if row < 40} == {row % 40 for row in batch if row >= 40}


def test_supervised_simcse_takes_the_triplets_of_a_batch():
    torch.manual_seed(0)
    u, v = torch.randn(2, 5, 8)
    ids = torch.tensor([[1, 2], [1, 3], [1, 2], [1, 2], [1, 3]])
    labels = torch.tensor([0, 2, 1, 2, 0])  # of premise (1, 2) a contradiction, and so on
    found = on_vectors("simcse", "nli", (u, v), labels, (ids,))
    expected = simcse.supervised(u[[3, 1]], v[[3, 1]], v[[0, 4]])
    torch.testing.assert_close(found, expected)
    assert on_vectors("simcse", "nli", (u, v), labels * 0, (ids,)) == 0


def test_a_run_with_a_ranking_loss_takes_such_batches(run, monkeypatch):
    seen = []
    regrouped = NoDuplicates.__iter__
    monkeypatch.setattr(NoDuplicates, "__iter__", lambda self: seen.append(1) or regrouped(self))
    run(para_extra="ranking", epochs=1)
    assert seen


def test_a_run_of_tasks_in_turns_without_a_rule_takes_every_gradient_as_it_comes():
    args = multitask.get_args([])
    update = Updates(args, nn.Linear(1, 1), None, 10)
    assert [update.is_whole(name, 0) for name in args.tasks] == [True] * 3
    update.after(0)
    assert update.state_dict() == {}


# ---------------------------------------------------------------------------------------------
# Flags of one task


def test_one_task_first_and_as_many_steps_as_asked_for(run, monkeypatch):
    called = []
    micro_batches = training_run.micro_batches

    def watched(batch, *more):
        called.append((batch["task"], len(batch["labels"])))
        return micro_batches(batch, *more)

    monkeypatch.setattr(training_run, "micro_batches", watched)
    sizes = {"para_batch_size": 25, "sts_batch_size": 5}
    run(epochs=2, steps_per_epoch=5, sampling="first", first_task="sts", **sizes)
    order = ["sts"] * 5 + ["sst", "para", "sts", "sst", "para"]
    assert [task for task, _ in called] == order
    assert {size for task, size in called if task == "para"} == {25}
    assert {size for task, size in called if task == "sts"} == {5}
    rows = json.loads(Path("predictions/multitask-metrics.json").read_text())["epochs"]
    assert "sts_loss" in rows[0]
    assert "sst_loss" not in rows[0]  # it had no turn
    assert rows[0]["loss"] == pytest.approx(rows[0]["sts_loss"])
    shares = {"sst_loss": 2 / 5, "para_loss": 2 / 5, "sts_loss": 1 / 5}
    assert rows[1]["loss"] == pytest.approx(sum(rows[1][key] * n for key, n in shares.items()))


@pytest.mark.parametrize("task", ["sst", "para", "sts"])
def test_weights_of_losses(run, monkeypatch, task):
    norms = watch_gradients(monkeypatch)
    one = {"tasks": [task], "epochs": 1, "steps_per_epoch": 1, "hidden_dropout_prob": 0.0}
    for weight in (1.0, 3.0):
        run(option="pretrain", **one, **{f"{task}_weight": weight})
    assert norms[1] == pytest.approx(3 * norms[0], rel=1e-5)


@pytest.mark.parametrize(("name", "loss"), [("sst", "ordinal"), ("sts", "cosent")])
def test_the_loss_that_was_asked_for_is_taken(run, monkeypatch, name, loss):
    called = []
    function = LOSSES[name][loss]

    def watched(outputs, labels):
        called.append(outputs.dtype)
        return function(outputs, labels)

    monkeypatch.setitem(LOSSES[name], loss, watched)
    # a head whose outputs are in bf16
    monkeypatch.setattr(
        MultitaskBERT, "apply_head", lambda self, head, vectors: head(self.dropout(vectors))
    )
    run(precision="bf16", tasks=[name], epochs=1, steps_per_epoch=4, **{f"{name}_loss": loss})
    assert called == [torch.float32] * 4


def test_inference_between_sentences_is_learned_with_the_others(run, tmp_path):
    """Three classes of pairs, first alone and then in turns with STS."""
    rows = make_rows(12, texts=2, labels="012", first_id=500)
    files = {"nli_test": "", "nli_dev_out": "predictions/n.csv", "nli_test_out": "unused"}
    for split in ("train", "dev"):
        path = write_table(tmp_path / f"nli-{split}.csv", "id sentence1 sentence2 relation", rows)
        files[f"nli_{split}"] = str(path)
    files |= {"tasks": ["sts", "nli"], "nli_extra": "ranking", "sampling": "first"}
    run(first_task="nli", **files)
    multitask.test(Namespace(**vars(run.flags) | files))
    metrics = json.loads(Path("predictions/multitask-metrics.json").read_text())
    assert "sts_loss" not in metrics["epochs"][0]
    assert {"sts", "nli", "nli_loss", "sts_loss"} <= set(metrics["epochs"][1])
    predicted = read_predictions("predictions/n.csv", "Predicted_Relation")
    assert list(predicted) == [row[0] for row in rows]
    assert set(predicted.values()) <= {0, 1, 2}
    bad = write_table(
        tmp_path / "bad.csv", "id sentence1 sentence2 relation", [(*rows[0][:3], "3")]
    )
    with pytest.raises(InputError, match="label 3, out of range 0 to 2"):
        load_pairs(bad, "dev", "relation", 3)


# ---------------------------------------------------------------------------------------------
# The model

CHOICES = [
    {"similarity": "cosine"},
    {"pooling": "mean"},
    {"pooling": "max", "pair_encoding": "cross", "separate_layers": 2},
    {"separate_layers": 1, "option": "pretrain"},
]


@pytest.mark.parametrize("values", CHOICES, ids=str)
def test_shapes_and_padding(tiny_model_folder, values):
    check_shapes_and_padding(make_model(tiny_model_folder, TechniquesBERT, **values))


def test_a_cosine_is_on_the_labels_scale(tiny_model_folder):
    model = make_model(tiny_model_folder, TechniquesBERT, similarity="cosine")
    same = PAIRS[:2] * 2
    torch.testing.assert_close(model.predict_similarity(*same), torch.full((4,), 5.0))
    u, v = (F.normalize(model(*PAIRS[i : i + 2])) for i in (0, 2))
    torch.testing.assert_close(model.predict_similarity(*PAIRS), 5 * (u * v).sum(dim=1))
    assert model.similarity is None
    both = {"similarity": "cosine", "pair_encoding": "cross"}
    with pytest.raises(InputError, match="--similarity cosine compares two vectors"):
        TechniquesBERT(make_config(tiny_model_folder, **both))


def test_each_task_uses_its_own_layers(tiny_model_folder):
    model = make_model(tiny_model_folder, TechniquesBERT, separate_layers=1)
    heads = {
        "sst": lambda: model.predict_sentiment(*SENTENCES),
        "para": lambda: model.predict_paraphrase(*PAIRS),
        "sts": lambda: model.predict_similarity(*PAIRS),
    }
    before = {name: head() for name, head in heads.items()}
    for changed in heads:
        with torch.no_grad():
            model.task_layers[changed][0].out_layer_norm.bias.add_(torch.arange(32) % 3)
        after = {name: head() for name, head in heads.items()}
        assert [name for name in heads if not torch.equal(before[name], after[name])] == [changed]
        before = after


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ({}, True),
        ({"pooling": "cls"}, True),
        ({"pooling": "mean"}, False),
        ({"pair_encoding": "cross"}, False),
        ({"separate_layers": 1}, False),
        ({"pals": 12}, False),
    ],
)
def test_what_of_a_frozen_bert_can_be_kept(tiny_model_folder, values, kept):
    assert TechniquesBERT(make_config(tiny_model_folder, **values)).texts_alone is kept


OLD_CONFIG = {  # of a checkpoint of the time when one script had all flags
    "hidden_size": 32,
    "hidden_dropout_prob": 0.3,
    "data_dir": ".",
    "option": "finetune",
    "pair_encoding": "bi",
    "pooling": "mean",
    "similarity": "linear",
    "separate_layers": 1,
    "tasks": ["sst", "para", "sts"],
    "reinit": None,
    "mixout": None,
    "adapt": "lora",
    "rank": 4,
    "pals": None,
    "pal_heads": 12,
    "head_layers": 2,
    "task_weights": "uncertainty",
    "tag_words": "shapes",
    "count_features": True,
    "tagger": None,
}
OLD_NAMES = """
bert.bert_layers.0.self_attention.query.lora_a task_layers.sts.0.out_dense.weight
added.uncertainty.log_variances.sst added.tags.weight added.text_counts.linear.weight
added.pair_counts.linear.weight sentiment.0.weight paraphrase.3.bias similarity.0.weight
""".split()


def test_checkpoints_of_before_are_read(tiny_model_folder, tmp_path):
    """The same keys of the configuration, the same names of tensors."""
    config = SimpleNamespace(**OLD_CONFIG, model=str(tiny_model_folder))
    model = TechniquesBERT(config)
    assert set(OLD_NAMES) <= model.state_dict().keys()
    path = tmp_path / "old.pt"
    multitask.save_model(model, AdamW(model.parameters()), Namespace(), config, path)
    again, _ = multitask.load_model(path, CPU)
    assert again.pooling == "mean"
    with pytest.raises(InputError, match=r"techniques have a script of their own"):
        multitask_classifier.load_model(path, CPU)
