"""One BERT for three tasks: sentiment (SST), paraphrases (Quora) and similarity (STS).

python multitask_classifier.py --option finetune --lr 2e-5 --batch_size 16
python multitask_classifier.py --option finetune --lr 2e-5 --tasks sst,sts
python multitask_classifier.py --predict 'How old are you?' 'What is your age?' --checkpoint FILE
torchrun --nproc_per_node 2 multitask_classifier.py --option finetune
"""

from __future__ import annotations

import training.threads  # noqa: F401, before torch

# isort: split
import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bert import BertModel
from config import BertConfig
from datasets import (
    SentenceClassificationDataset,
    SentenceClassificationTestDataset,
    SentencePairDataset,
    SentencePairTestDataset,
    TextDataset,
    load_data,
    load_pairs,
    preprocess_string,
)
from evaluation import (
    COLUMNS,
    accuracy,
    classify,
    classify_pairs,
    detect_pairs,
    pearson,
    say_classes,
    score_pairs,
    write_in_order,
)

### BEGIN SOLUTION multitask.imports
### STUB: # imports of your own modules, in the order of their names, as ruff sorts them
from extensions import additions, objectives, pooling, sampling, updates
from extensions import flags as techniques
from extensions import losses as loss_functions
from extensions.cross_encoding import check_segments, concat
from extensions.task_layers import encode, split_top_layers
from extensions.word_tags import WordTags

### END SOLUTION multitask.imports
from optimizer import AdamW
from training.acceleration import accelerate
from training.arguments import (
    OneLineParser,
    check_seed,
    positive_float,
    positive_int,
    probability,
    run_script,
)
from training.batches import PAIR, SINGLE, LengthBatches, evaluation_loader
from training.checkpoints import (
    ResumePoint,
    restore_model,
    resume_path,
    run_settings,
    save_model,
)
from training.course_files import COURSE_STEMS, SPLITS, multitask_files
from training.devices import autocast_for, keep_freed_memory, pick_device
from training.encoder_outputs import cache_encoder_outputs
from training.error_analysis import describe
from training.errors import InputError
from training.files import check_writable, sha256_of
from training.flags import add_flags
from training.hub import default_model
from training.processes import (
    broadcast_parameters,
    first_process,
    in_first_process,
    join_processes,
)
from training.report import Report
from training.run import Run
from training.tables import read_table
from utils import seed_everything

# ---------------------------------------------------------------------------------------------
# The table of tasks


@dataclass(frozen=True)
class Task:
    """All that the loop, the evaluation and the files have to know of a task.

    A further task is a row here, a loss, and a head in MultitaskBERT.
    """

    name: str  # of flags and files: --sst_train, predictions/sst-dev-output.csv
    file: str  # its data files: data/ids-sst-train.csv
    label: str  # the column of the label there
    classes: int  # how many; 0 if the label is a number on a scale
    keys: tuple[str, ...]  # what the head takes of a batch, and the labels
    head: str  # which method of MultitaskBERT
    predict: Callable  # a pass over batches, from evaluation.py
    metric: Callable  # (y_true, y_pred) → a number
    column: str  # of its prediction files


TASKS = {
    "sst": Task(
        name="sst",
        file=COURSE_STEMS["sst"],
        label="sentiment",
        classes=5,
        keys=SINGLE,
        head="predict_sentiment",
        predict=classify,
        metric=accuracy,
        column=COLUMNS[0],
    ),
    "para": Task(
        name="para",
        file=COURSE_STEMS["para"],
        label="is_duplicate",
        classes=2,
        keys=PAIR,
        head="predict_paraphrase",
        predict=detect_pairs,
        metric=accuracy,
        column=COLUMNS[1],
    ),
    "sts": Task(
        name="sts",
        file=COURSE_STEMS["sts"],
        label="similarity",
        classes=0,
        keys=PAIR,
        head="predict_similarity",
        predict=score_pairs,
        metric=pearson,
        column=COLUMNS[2],
    ),
}

### BEGIN SOLUTION multitask.further_tasks
### STUB: FURTHER_TASKS: dict[str, Task] = {}  # your own; --tasks names them
FURTHER_TASKS = {
    "nli": Task(  # does the second sentence follow from the first?
        name="nli",
        file="nli",
        label="relation",
        classes=3,
        keys=PAIR,
        head="predict_relation",
        predict=classify_pairs,
        metric=accuracy,
        column="Predicted_Relation",
    ),
}
### END SOLUTION multitask.further_tasks
ALL_TASKS = TASKS | FURTHER_TASKS

### BEGIN SOLUTION multitask.losses
### STUB: # the losses of the other two tasks are yours to choose; see train_multitask
# (outputs, labels) → a number; the first one of each task is its default
LOSSES = {
    "sst": {"cross_entropy": F.cross_entropy, "ordinal": loss_functions.ordinal},
    "para": {"binary_cross_entropy": loss_functions.paraphrase},
    "sts": {"mse": loss_functions.mean_squared, "cosent": loss_functions.cosent},
    "nli": {"cross_entropy": F.cross_entropy},
}
### END SOLUTION multitask.losses


def overall(scores: Mapping[str, float]) -> float:
    """The leaderboard's mean of the tasks' accuracies and (r + 1) / 2 for a correlation r.

    Beside tasks of TASKS a further one does not count: it is there to help them.
    """
    counted = {name: value for name, value in scores.items() if name in TASKS} or scores
    terms = [
        (value + 1) / 2 if ALL_TASKS[name].metric is pearson else value
        for name, value in counted.items()
    ]
    return sum(terms) / len(terms)


# ---------------------------------------------------------------------------------------------
# The model


class MultitaskBERT(nn.Module):
    """One BERT with a head for each task.

    Args:
        config: hidden_size, hidden_dropout_prob, option ('pretrain' freezes BERT, 'finetune' trains
            it too); optionally model, the name or folder of the pretrained BERT, and the further
            choices that new_model puts there.
    """

    def __init__(self, config):
        super().__init__()
        model = getattr(config, "model", None)
        self.bert = BertModel.from_pretrained(model)
        if config.option not in ("pretrain", "finetune"):
            raise ValueError(f"option {config.option!r} is neither 'pretrain' nor 'finetune'")
        self.bert.requires_grad_(config.option == "finetune")
        ### BEGIN SOLUTION multitask.init
        ### STUB: # a dropout with config.hidden_dropout_prob, and a linear layer for each task:
        ### STUB: # five classes from a sentence's vector of config.hidden_size numbers; one number
        ### STUB: # from what you make of a pair's two vectors, for each of the two kinds of pairs
        self.cross = getattr(config, "pair_encoding", "bi") == "cross"
        self.pooling = getattr(config, "pooling", "pooler")
        self.cosine = getattr(config, "similarity", "linear") == "cosine"
        if self.cross and self.cosine:
            raise InputError(
                "--similarity cosine compares two vectors; --pair_encoding cross has 1"
            )
        if self.cross:
            check_segments(self.bert)
        additions.start_anew(self.bert, config)
        count = getattr(config, "separate_layers", 0)
        tasks = list(dict.fromkeys((*TASKS, *getattr(config, "tasks", ()))))
        self.task_layers = split_top_layers(self.bert, count, tasks)
        width = config.hidden_size * (1 if self.cross else 3)
        scores = [name for name in tasks if not ALL_TASKS[name].classes]
        self.added = additions.Additions(self.bert, config, tasks, scores, width, word_tags)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = additions.head(config, config.hidden_size, 5)
        self.paraphrase = additions.head(config, width, 1)
        self.similarity = None if self.cosine else additions.head(config, width, 1)
        self.relation = additions.head(config, width, 3) if "nli" in tasks else None
        ### END SOLUTION multitask.init

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        ### BEGIN SOLUTION multitask.forward_arguments
        segments: Tensor | None = None,
        task: str = "sst",
        ### END SOLUTION multitask.forward_arguments
    ) -> Tensor:
        """One vector for each sentence: (B, L), (B, L) → (B, D). All heads start from it."""
        ### BEGIN SOLUTION multitask.forward
        ### STUB: # BERT's pooler_output is a good start
        layers = self.task_layers[task] if self.task_layers else ()
        with self.added.turn(self.bert, task, input_ids, attention_mask):
            if layers or segments is not None:
                output = encode(self.bert, input_ids, attention_mask, segments, layers)
            else:
                output = self.bert(input_ids, attention_mask)
        return pooling.pool(output, attention_mask, self.pooling)  # (B, D)
        ### END SOLUTION multitask.forward

    # The heads of the three tasks

    ### BEGIN SOLUTION multitask.shared
    ### STUB: # what the heads have in common may become a method here
    def apply_head(self, head: nn.Module, vectors: Tensor) -> Tensor:
        """Dropout and a head, in float32: bf16 has so few numbers that many pairs would tie."""
        with torch.autocast(vectors.device.type, enabled=False):
            return head(self.dropout(vectors.float()))

    def two_vectors(self, ids_1, mask_1, ids_2, mask_2, task: str) -> tuple[Tensor, Tensor]:
        """Bi-encoder: each sentence on its own, (B, L1) …, (B, L2) … → (B, D), (B, D)."""
        return self(ids_1, mask_1, task=task), self(ids_2, mask_2, task=task)

    def pair_features(self, ids_1, mask_1, ids_2, mask_2, task: str) -> Tensor:
        """What the heads of pairs see: (B, D) of a cross encoder, (B, 3 D) of a bi-encoder.

        A bi-encoder's is [u; v; |u − v|] (Reimers & Gurevych 2019, section 3).
        """
        texts = ids_1, mask_1, ids_2, mask_2
        if self.cross:
            pad_id, positions = self.bert.config.pad_token_id, self.bert.position_ids.size(1)
            ids, mask, segments = concat(*texts, pad_id, positions)  # (B, L)
            features = self(ids, mask, segments, task)  # (B, D)
        else:
            u, v = self.two_vectors(*texts, task)  # (B, D) each
            features = torch.cat([u, v, (u - v).abs()], dim=-1)  # (B, 3 D)
        return self.added.with_counts(features, *texts)

    def predict_relation(self, *pair: Tensor) -> Tensor:
        """Logits of contradiction, neutral, entailment: (B, L1) …, (B, L2) … → (B, 3)."""
        return self.apply_head(self.relation, self.pair_features(*pair, "nli"))

    ### END SOLUTION multitask.shared

    def predict_sentiment(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits of the five classes, before any softmax: (B, L), (B, L) → (B, 5)."""
        ### BEGIN SOLUTION multitask.predict_sentiment
        ### STUB: # the sentence's vector, dropout, the linear layer
        vectors = self(input_ids, attention_mask)  # (B, D)
        vectors = self.added.with_counts(vectors, input_ids, attention_mask)  # (B, D)
        return self.apply_head(self.sentiment, vectors)  # (B, 5)
        ### END SOLUTION multitask.predict_sentiment

    def predict_paraphrase(
        self,
        input_ids_1: Tensor,
        attention_mask_1: Tensor,
        input_ids_2: Tensor,
        attention_mask_2: Tensor,
    ) -> Tensor:
        """The logit of "yes, a paraphrase": (B, L1), (B, L1), (B, L2), (B, L2) → (B,).

        Above 0 means yes; no sigmoid here: the loss and the evaluation apply it.
        """
        ### BEGIN SOLUTION multitask.predict_paraphrase
        ### STUB: # a vector for each sentence, both put together in a way that shows how they
        ### STUB: # differ, dropout, the linear layer
        pairs = input_ids_1, attention_mask_1, input_ids_2, attention_mask_2
        features = self.pair_features(*pairs, "para")  # (B, D) or (B, 3 D)
        return self.apply_head(self.paraphrase, features).squeeze(-1)  # (B, 1) → (B,)
        ### END SOLUTION multitask.predict_paraphrase

    def predict_similarity(
        self,
        input_ids_1: Tensor,
        attention_mask_1: Tensor,
        input_ids_2: Tensor,
        attention_mask_2: Tensor,
    ) -> Tensor:
        """How alike two sentences are, from 0 to 5: (B, L1), (B, L1), (B, L2), (B, L2) → (B,)."""
        ### BEGIN SOLUTION multitask.predict_similarity
        ### STUB: # like predict_paraphrase, but the result is on the labels' scale: 5 times a
        ### STUB: # sigmoid is one way, 5 times the cosine of the two vectors is another
        pairs = input_ids_1, attention_mask_1, input_ids_2, attention_mask_2
        if self.cosine:
            u, v = self.two_vectors(*pairs, "sts")  # (B, D) each
            return 5 * F.cosine_similarity(u.float(), v.float())  # (B,)
        features = self.pair_features(*pairs, "sts")  # (B, D) or (B, 3 D)
        return 5 * self.apply_head(self.similarity, features).squeeze(-1).sigmoid()  # (B, 1) → (B,)
        ### END SOLUTION multitask.predict_similarity


# ---------------------------------------------------------------------------------------------
# Models and data


def new_model(args) -> tuple[MultitaskBERT, SimpleNamespace]:
    """A model on a pretrained BERT, and its configuration."""
    config = SimpleNamespace(
        hidden_dropout_prob=args.hidden_dropout_prob,
        hidden_size=BertConfig.from_pretrained(args.model).hidden_size,
        data_dir=".",
        option=args.option,
        model=args.model,
        ### BEGIN SOLUTION multitask.config
        pair_encoding=args.pair_encoding,
        pooling=args.pooling,
        similarity=args.similarity,
        separate_layers=args.separate_layers,
        tasks=args.tasks,
        **{flag: getattr(args, flag) for flag in techniques.MODEL_FLAGS},
        ### END SOLUTION multitask.config
    )
    model = MultitaskBERT(config)
    ### BEGIN SOLUTION multitask.tagger
    config.tagger = tagger_digest(args)  # after the model, which says if there is no tagger
    ### END SOLUTION multitask.tagger
    return model, config


def load_model(filepath: str | Path, device: torch.device) -> tuple[MultitaskBERT, SimpleNamespace]:
    """The model that save_model wrote, in evaluation mode, and its configuration."""
    return restore_model(
        filepath,
        device,
        MultitaskBERT,
        what="this model",
        script="multitask_classifier.py",
        is_ours=lambda config: "num_labels" not in config,
    )


def read_rows(task: Task, args, split: str) -> list[tuple]:
    """The rows of args.sst_train, for instance; split is 'train', 'dev' or 'test'."""
    path = getattr(args, f"{task.name}_{split}")
    if task.keys == PAIR:
        return load_pairs(path, split, task.label, task.classes)
    return load_data(path, "test" if split == "test" else "dev", task.classes)


### BEGIN SOLUTION multitask.words
def word_tags(config) -> WordTags:
    """The words behind rows of word pieces, for features of them.

    Raises:
        InputError: no tagger in the file, or another one than the model has learned with.
    """
    found = WordTags(SentenceClassificationTestDataset([], config).tokenizer, config.tag_words)
    if found.tagger and getattr(config, "tagger", None) not in (None, sha256_of(config.tag_words)):
        raise InputError(
            f"{config.tag_words} is another tagger than the one this model learned with"
        )
    return found


def tagger_digest(args) -> str | None:
    """Of the file of --tag_words, if it names one."""
    return None if args.tag_words in (None, "shapes") else sha256_of(args.tag_words)


def remember_words(model: MultitaskBERT, args) -> None:
    """If words have features: give the model all texts of a run with their capitals."""
    words = additions.added(model, "words")
    if words is None:
        return
    for name in args.tasks:
        task = ALL_TASKS[name]
        columns = ("sentence",) if task.keys == SINGLE else ("sentence1", "sentence2")
        for path in filter(None, (getattr(args, f"{name}_{split}") for split in SPLITS)):
            table = read_table(Path(path), ("id", *columns), None)
            words.remember(table[list(columns)].to_numpy().flatten())


def load_teachers(args, device: torch.device) -> dict[str, list[MultitaskBERT]]:
    """Of each task the models of --teachers that were trained on it; {} without the flag.

    Raises:
        InputError: no teacher knows a task, or one has another vocabulary than the student.
    """
    found: dict[str, list[MultitaskBERT]] = {name: [] for name in args.tasks if args.teachers}

    def pieces(config) -> list[str]:
        return SentenceClassificationTestDataset([], config).tokenizer.pieces

    for path in args.teachers or ():
        model, config = load_model(path, device)
        if pieces(config) != pieces(args):
            raise InputError(f"--teachers {path} has another vocabulary than {args.model}")
        remember_words(model, args)
        for name in found.keys() & getattr(config, "tasks", TASKS):
            found[name].append(model)
    for name, models in found.items():
        if not models:
            raise InputError(
                f"none of the --teachers was trained on {name}; leave it out of --tasks"
            )
    return found


### END SOLUTION multitask.words
def read_set(task: Task, args, split: str) -> TextDataset:
    """The same as a data set, tokenized."""
    rows = read_rows(task, args, split)
    if split == "test":
        pair = task.keys == PAIR
        return (SentencePairTestDataset if pair else SentenceClassificationTestDataset)(rows, args)
    if task.keys == SINGLE:
        return SentenceClassificationDataset(rows, args)
    return SentencePairDataset(rows, args, isRegression=task.classes == 0)


def batch_size(task: Task, args) -> int:
    """The task's own, if there is one."""
    return getattr(args, f"{task.name}_batch_size", None) or args.batch_size


# ---------------------------------------------------------------------------------------------
# Training


class Turns:
    """The batches of an epoch: of the task whose turn it is, each task's rows without end.

    Args:
        plan: the task of every step of every epoch.
        datasets: each task's training set.
        batches: each task's sampler.
    """

    def __init__(
        self,
        plan: Sequence[Sequence[str]],
        datasets: Mapping[str, TextDataset],
        batches: Mapping[str, LengthBatches],
    ):
        self.plan, self.datasets, self.batches = plan, datasets, batches
        # of each task: how often all rows have gone by, and how many batches of the present round
        self.places = {name: {"epoch": 1, "batch": 0} for name in batches}
        self.names: Sequence[str] = ()  # of the tasks whose turns are left
        self.streams: dict[str, Iterator[dict]] = {}
        means = {
            name: sum(map(sum, rows.pieces())) / len(batches[name])
            for name, rows in datasets.items()
        }
        turns = [means[name] for names in plan for name in names]
        self.pieces_per_batch = sum(turns) / len(turns)

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch whose turns come next, and how many of them to leave out."""
        self.names = self.plan[epoch - 1][skip:]
        self.streams = self.streams or {
            name: infinite_batches(self.datasets[name], self.batches[name], place)
            for name, place in self.places.items()
        }

    def __len__(self) -> int:
        return len(self.plan[0])

    def __iter__(self) -> Iterator[dict]:
        for name in self.names:
            yield next(self.streams[name]) | {"task": name}

    def state_dict(self) -> dict:
        """Where each task's rows are, for a run that goes on."""
        return self.places

    def load_state_dict(self, places: dict) -> None:
        """Go on from there."""
        self.places = places


def infinite_batches(dataset: TextDataset, batches: LengthBatches, place: dict) -> Iterator[dict]:
    """Batches of one task without end, from ``place`` on, which keeps pace.

    Args:
        place: {"epoch": 1, "batch": 0} at the beginning: how often all rows have gone by, and how
            many batches of the present round.
    """
    while True:
        batches.set_epoch(place["epoch"], skip=place["batch"])
        for rows in batches:
            place["batch"] += 1
            yield dataset.collate_fn([dataset[i] for i in rows])
        place.update(epoch=place["epoch"] + 1, batch=0)


def plan_turns(args, sizes: Mapping[str, int], steps: int) -> list[list[str]]:
    """The task of every step of every epoch.

    Args:
        sizes: training examples of each task.
    """
    ### BEGIN SOLUTION multitask.turns
    ### STUB: return [list(sizes) * steps for _ in range(args.epochs)]  # of one task only
    first = (args.first_task, args.first_epochs)
    if args.gradients:
        return [updates.in_whole_rounds(list(sizes), steps) for _ in range(args.epochs)]
    return [
        sampling.order(args.sampling, sizes, steps, epoch, args.epochs, args.seed, *first)
        for epoch in range(1, args.epochs + 1)
    ]
    ### END SOLUTION multitask.turns


def texts_alone(args) -> bool:
    """Whether a text's [CLS] never depends on its partner or task, so that it can be kept."""
    ### BEGIN SOLUTION multitask.texts_alone
    ### STUB: return False  # True makes --option pretrain fast: BERT then runs once for each text
    plain = args.pooling in ("pooler", "cls") and not args.separate_layers and not args.pals
    return plain and args.pair_encoding == "bi"
    ### END SOLUTION multitask.texts_alone


def train_multitask(args) -> None:
    """Train on all tasks; the epoch with the best overall dev score is kept in args.filepath.

    Also writes learning curves and multitask-metrics.json into args.out_dir, after every epoch,
    and every minute a file that --resume goes on from.
    """
    args = with_defaults(args)
    keep_freed_memory()
    device = pick_device(args.use_gpu)
    autocast = autocast_for(device, args.precision)
    ### BEGIN SOLUTION multitask.tasks
    ### STUB: tasks = [TASKS["sst"]]  # SST alone: the other two are yours
    ### STUB: losses, weights = {"sst": F.cross_entropy}, {"sst": 1.0}
    tasks = [ALL_TASKS[name] for name in args.tasks]
    losses = {name: LOSSES[name][getattr(args, f"{name}_loss")] for name in args.tasks}
    weights = {name: getattr(args, f"{name}_weight") for name in args.tasks}
    ### END SOLUTION multitask.tasks
    train_sets = {task.name: read_set(task, args, "train") for task in tasks}
    dev_sets = {task.name: read_set(task, args, "dev") for task in tasks}
    dev_loaders = {
        task.name: evaluation_loader(dev_sets[task.name], batch_size(task, args)) for task in tasks
    }
    batches = {
        task.name: LengthBatches(train_sets[task.name].lengths(), batch_size(task, args), args.seed)
        for task in tasks
    }
    ### BEGIN SOLUTION multitask.batches
    batches = objectives.without_duplicates(args, train_sets, batches)
    ### END SOLUTION multitask.batches
    steps = args.steps_per_epoch or sum(map(len, batches.values()))
    plan = plan_turns(args, {name: len(rows) for name, rows in train_sets.items()}, steps)
    turns = Turns(plan, train_sets, batches)
    model, config = new_model(args)
    broadcast_parameters(model.to(device))
    ### BEGIN SOLUTION multitask.optimizer
    ### STUB: optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    remember_words(model, args)
    objective = objectives.Objective(args, model, losses, autocast, load_teachers(args, device))
    optimizer = updates.make_optimizer(args, model, AdamW)
    update = updates.Updates(args, model, objective.slow, len(turns) * args.epochs)
    ### END SOLUTION multitask.optimizer
    accelerate(model, optimizer)
    if args.option == "pretrain" and texts_alone(args) and not args.reencode:
        with autocast():
            cache_texts(model.bert, [*train_sets.values(), *dev_sets.values()], args, device)
    if args.compile:
        model.compile()

    run = new_run(args, model, optimizer, turns, list(train_sets))
    ### BEGIN SOLUTION multitask.update
    run.factor = update.factor if args.schedule else run.factor
    run.stateful["update"] = update
    ### END SOLUTION multitask.update
    with run:
        for _ in run.epochs():
            for batch in run.batches():
                task = ALL_TASKS[batch["task"]]
                for *inputs, labels in run.micro_batches(batch, task.keys):
                    share = len(labels) / len(batch["labels"])
                    ### BEGIN SOLUTION multitask.objective
                    ### STUB: with run.autocast():
                    ### STUB:     outputs = getattr(model, task.head)(*inputs)  # (B, 5) or (B,)
                    ### STUB: found = [losses[task.name](outputs.float(), labels)]
                    found = objective(task, inputs, labels)
                    ### END SOLUTION multitask.objective
                    for loss in found:  # one, unless a method runs backward several times
                        run.backward(loss * weights[task.name] * share)
                        run.add(**{f"{task.name}_loss": loss.item() * share})
                    run.add(**{f"{task.name}_steps": share})
                ### BEGIN SOLUTION multitask.gradients
                run.reduce()
                if not update.is_whole(task.name, run.step_number - 1):
                    continue  # the gradients of other tasks come first
                ### END SOLUTION multitask.gradients
                run.step()
                ### BEGIN SOLUTION multitask.after
                update.after(run.step_number - 1)
                ### END SOLUTION multitask.after
            with run.autocast():
                ### BEGIN SOLUTION multitask.average
                update.take_average()
                ### END SOLUTION multitask.average
                scores = evaluate(model, dev_loaders, device)
            if run.is_best(overall(scores)):
                save_model(model, optimizer, args, config, args.filepath)
            ### BEGIN SOLUTION multitask.own_weights
            update.give_back()
            ### END SOLUTION multitask.own_weights
            run.end_epoch(mean_losses(run.totals.sums) | scores | {"overall": overall(scores)})


def new_run(args, model: nn.Module, optimizer, turns: Turns, names: Sequence[str]) -> Run:
    """The run of these flags: its files, what it sums up and what it reports."""
    shown = [*names, "overall"]
    return Run(
        args,
        model,
        optimizer,
        turns,
        point=ResumePoint(resume_path(args.filepath), settings(args)),
        checkpoint=args.filepath,
        totals=[f"{name}_{what}" for name in names for what in ("loss", "steps")],
        steps_file=f"{args.out_dir}/multitask-steps.csv",
        report=Report(
            f"{args.out_dir}/multitask-",
            f"{', '.join(names)}, {args.option}",
            {"loss": "loss"} | {name: name for name in shown},
            {name: name for name in shown},
        ),
        stateful={"turns": turns},
    )


@torch.no_grad()
def evaluate(model: nn.Module, loaders: Mapping[str, Iterable], device) -> dict[str, float]:
    """The metric of each task on its dev batches, by the task's name."""
    model.eval()
    scores = {}
    for name, loader in loaders.items():
        found = ALL_TASKS[name].predict(loader, getattr(model, ALL_TASKS[name].head), device)
        scores[name] = ALL_TASKS[name].metric(found["y_true"], found["y_pred"])
    return scores


def cache_texts(bert: nn.Module, datasets: Iterable[TextDataset], args, device) -> None:
    """Run a frozen BERT once over every text; see cache_encoder_outputs."""
    texts = dict.fromkeys(
        text for dataset in datasets for row in dataset for text in row[: dataset.texts_per_row]
    )
    rows = SentenceClassificationTestDataset([(text, "") for text in texts], args)
    cache_encoder_outputs(bert, [rows], args.batch_size, device)


def mean_losses(sums: Mapping[str, float]) -> dict[str, float]:
    """Loss a step: of all steps of an epoch, and of those of each task that had any."""
    steps = {key.removesuffix("_steps"): n for key, n in sums.items() if key.endswith("_steps")}
    total = sum(sums[f"{name}_loss"] for name in steps)
    each = {f"{name}_loss": sums[f"{name}_loss"] / n for name, n in steps.items() if n}
    return {"loss": total / sum(steps.values()), **each}


def settings(args) -> dict:
    """What has to be the same for a run to be resumed: all that the result depends on."""
    files = {f"{name}_{split}" for name in ALL_TASKS for split in (*SPLITS, "dev_out", "test_out")}
    read = [f"{name}_{split}" for name in args.tasks for split in ("train", "dev")]
    same = run_settings(args, read, files)
    ### BEGIN SOLUTION multitask.settings
    same["teachers"] = [sha256_of(path) for path in args.teachers or ()]
    same["tagger"] = tagger_digest(args)
    ### END SOLUTION multitask.settings
    return same


# ---------------------------------------------------------------------------------------------
# Testing


def test_model(args) -> None:
    """Write each task's predictions for dev and test with the model kept in args.filepath.

    Also writes, on dev, a report, the most confident mistakes and pictures into args.out_dir.
    """
    args = with_defaults(args)
    keep_freed_memory()
    device = pick_device(args.use_gpu)
    autocast = autocast_for(device, args.precision)
    model, config = load_model(args.filepath, device)
    args = SimpleNamespace(**vars(args) | vars(config))
    ### BEGIN SOLUTION multitask.words_to_test
    remember_words(model, args)
    ### END SOLUTION multitask.words_to_test
    scores = {}
    for task in (ALL_TASKS[name] for name in args.tasks):
        head = getattr(model, task.head)
        for split in ("dev", "test"):
            if not getattr(args, f"{task.name}_{split}"):
                continue
            rows = read_set(task, args, split)
            with autocast():
                loader = evaluation_loader(rows, batch_size(task, args))
                found = task.predict(loader, head, device)
            write_in_order(getattr(args, f"{task.name}_{split}_out"), rows, found, task.column)
            if split == "dev":
                scores[task.name] = task.metric(found["y_true"], found["y_pred"])
                describe(f"{args.out_dir}/multitask-{task.name}", found, rows, task.classes)
    shown = "".join(f"  {name} {score:.3f}" for name, score in scores.items())
    print(f"dev{shown}  overall {overall(scores):.3f}\nwrote predictions to {args.out_dir}")


test_multitask = test_model  # an older name


# ---------------------------------------------------------------------------------------------
# Predicting from the command line


@torch.no_grad()
def predict(lines: Iterable[Sequence[str]], checkpoint: str, use_gpu: bool) -> None:
    """Print what the model says of each line: one text, or the two of a pair."""
    device = pick_device(use_gpu)
    model, config = load_model(checkpoint, device)
    encoder = SentenceClassificationTestDataset([], config)
    for texts in lines:
        if not all(text.strip() for text in texts):
            continue
        ### BEGIN SOLUTION multitask.words_to_predict
        if words := additions.added(model, "words"):
            words.remember(texts)
        ### END SOLUTION multitask.words_to_predict
        if len(texts) == 1:
            inputs = encoder.pad([texts[0].lower().strip()])  # (1, L), (1, L)
            logits = model.predict_sentiment(*(one.to(device) for one in inputs))  # (1, 5)
            said = say_classes(logits)
        else:
            padded = [encoder.pad([preprocess_string(text)]) for text in texts]  # (1, L) each
            inputs = [one.to(device) for pair in padded for one in pair]
            share = model.predict_paraphrase(*inputs).float().sigmoid().item()
            said = (
                f"paraphrase {share:.3f}  similarity {model.predict_similarity(*inputs).item():.2f}"
            )
        print(f"{said}   {' | '.join(text.strip() for text in texts)}", flush=True)


def lines_of(given: Sequence[str]) -> Iterable[Sequence[str]]:
    """The texts on the command line, or lines of standard input, where a tab separates a pair."""
    if given and list(given) != ["-"]:
        yield given
        return
    try:
        yield from (line.rstrip("\n").split("\t")[:2] for line in sys.stdin)
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 ({error}); convert it") from None


# ---------------------------------------------------------------------------------------------
# The command line


def task_names(text: str) -> list[str]:
    """An argparse type: sst,para,sts or fewer of them, in the table's order."""
    asked = [name.strip() for name in text.split(",")]
    unknown = [name for name in asked if name not in ALL_TASKS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no task {unknown[0]!r}; there are {', '.join(ALL_TASKS)}"
        )
    return [name for name in ALL_TASKS if name in asked]


def make_parser() -> argparse.ArgumentParser:
    """All flags; names and defaults of the data files and of the first seven others are fixed."""
    parser = OneLineParser(
        prog="multitask_classifier.py",
        description="One BERT for sentiment, paraphrases and similarity.",
    )
    add = parser.add_argument
    for task in ALL_TASKS.values():
        for split, ending in SPLITS.items():
            add(f"--{task.name}_{split}", default=f"data/{task.file}-{ending}.csv")
        for split in ("dev", "test"):
            name = f"{task.name}-{split}-output.csv"
            add(f"--{task.name}_{split}_out", help=f"predictions; default: {name} in --out_dir")
    add("--seed", type=int, default=11711)
    add("--epochs", type=positive_int, default=10)
    add(
        "--option",
        choices=("pretrain", "finetune"),
        default="pretrain",
        help="pretrain: BERT stays as it is, only the heads learn; finetune: all of it learns",
    )
    add("--use_gpu", action="store_true", help="CUDA, or Apple's MPS")
    add("--batch_size", type=positive_int, default=8)
    add("--hidden_dropout_prob", type=probability, default=0.3, help="before the heads")
    add("--lr", type=positive_float, default=1e-5)
    add_flags(parser)
    add("--model", help="name or folder of the pretrained BERT ($MINBERT_MODEL does the same)")
    add("--data_dir", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--out_dir", default="predictions", help="folder of all that a run writes")
    add("--filepath", help="checkpoint; default: {option}-{epochs}-{lr}-multitask.pt")
    add("--tasks", type=task_names, default=",".join(TASKS), help="which ones, e.g. sst,sts")
    add("--steps_per_epoch", type=positive_int, help="default: as many as give every row a turn")
    add("--predict", nargs="*", metavar="TEXT", help="or two texts, or lines of standard input")
    add("--checkpoint", help="which model predicts")
    ### BEGIN SOLUTION multitask.flags
    add(
        "--pair_encoding",
        choices=("bi", "cross"),
        default="bi",
        help="each sentence on its own, or [CLS] a [SEP] b [SEP] in one pass",
    )
    add("--pooling", choices=pooling.KINDS, default="pooler", help="a sentence's vector")
    add("--similarity", choices=("linear", "cosine"), default="linear", help="head of sts")
    add("--separate_layers", type=int, default=0, help="how many top layers each task has alone")
    add("--sampling", choices=sampling.KINDS, default="round_robin", help="which task is next")
    add("--first_task", choices=tuple(ALL_TASKS), default="para", help="--sampling first, before")
    add("--first_epochs", type=positive_int, default=1, help="--sampling first, before")
    for name, choices in LOSSES.items():
        add(f"--{name}_batch_size", type=positive_int, help="default: --batch_size")
        add(f"--{name}_weight", type=positive_float, default=1.0, help="of its loss")
        add(f"--{name}_loss", choices=tuple(choices), default=next(iter(choices)))
    techniques.add_flags(parser, ALL_TASKS)
    ### END SOLUTION multitask.flags
    return parser


def get_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read and check the command line."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    if (args.predict is None) != (args.checkpoint is None):
        parser.error("--predict and --checkpoint go together; --resume goes on with a run")
    if args.predict is not None and len(args.predict) > 2:
        parser.error("--predict takes one text, or the two of a pair: put each in quotes")
    check_seed(parser, args.seed)
    ### BEGIN SOLUTION multitask.check_flags
    if args.sampling in ("first", "before") and args.first_task not in args.tasks:
        parser.error(f"--first_task {args.first_task} is not among the --tasks")
    if args.sampling == "before" and len(args.tasks) == 1:
        parser.error("--sampling before has to come before another task: name two --tasks")
    if args.similarity == "cosine" and args.pair_encoding == "cross":
        parser.error("--similarity cosine compares two vectors, --pair_encoding cross makes one")
    for fault in techniques.faults(args):
        parser.error(fault)
    ### END SOLUTION multitask.check_flags
    return with_names(args)


def with_names(args) -> argparse.Namespace:
    """Fill in the names of what a run writes, where none were given."""
    args.filepath = args.filepath or f"{args.option}-{args.epochs}-{args.lr}-multitask.pt"
    for name in ALL_TASKS:
        for split in ("dev", "test"):
            flag = f"{name}_{split}_out"
            default = f"{args.out_dir}/{name}-{split}-output.csv"
            setattr(args, flag, getattr(args, flag) or default)
    return args


def with_defaults(args) -> SimpleNamespace:
    """The flags as older callers give them, completed by the defaults of those they don't know.

    Data files with their default names are looked for where the course files are.
    """
    defaults = vars(make_parser().parse_args([]))
    args = with_names(SimpleNamespace(**defaults | vars(args)))
    flags = [f"{name}_{split}" for name in ALL_TASKS for split in SPLITS]
    default = [flag for flag in flags if getattr(args, flag) == defaults[flag]]
    stems = {task.name: task.file for task in ALL_TASKS.values()}
    found = multitask_files(args.data_dir, stems) if default else {}
    for flag in default:
        setattr(args, flag, found[flag])
    return args


def check_data(args) -> None:
    """Find all files of a run and read those that training does not: faults must show before it."""
    for task in (ALL_TASKS[name] for name in args.tasks):
        for split in SPLITS:
            flag = f"{task.name}_{split}"
            path = getattr(args, flag)
            if split == "test" and not path:
                print(f"*** no --{flag}: no test predictions for this task ***")
            elif not Path(path).is_file():
                raise InputError(
                    f"no file {path} (--{flag}): python data/download.py fetches the course files, "
                    f"or leave {task.name} out with --tasks"
                )
        if getattr(args, f"{task.name}_test"):
            read_rows(task, args, "test")


def main() -> None:
    """Train and test on all tasks, or predict."""
    args = get_args()
    if args.predict is not None:
        predict(lines_of(args.predict), args.checkpoint, args.use_gpu)
        return
    join_processes(args.use_gpu)
    args.model = args.model or in_first_process(default_model)
    args = with_defaults(args)
    if args.option == "pretrain" and args.lr < 1e-4:
        print(f"hint: only the heads learn, and at --lr {args.lr:g} hardly move; try --lr 1e-3")
    check_data(args)
    outputs = [
        getattr(args, f"{name}_{split}_out") for name in ALL_TASKS for split in ("dev", "test")
    ]
    for out in (*outputs, args.filepath, f"{args.out_dir}/multitask"):
        check_writable(Path(out).parent)
    seed_everything(args.seed)
    print("\n" + "  ".join(f"{key}={value}" for key, value in vars(args).items() if value))
    train_multitask(args)
    if first_process():
        test_model(args)
        resume_path(args.filepath).unlink(missing_ok=True)


if __name__ == "__main__":
    run_script(main)
