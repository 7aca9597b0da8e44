"""One BERT for three tasks: sentiment (SST), paraphrases (Quora) and similarity (STS).

python multitask_classifier.py --option finetune --lr 2e-5 --batch_size 16
python multitask_classifier.py --option finetune --lr 2e-5 --tasks sst,sts
python multitask_classifier.py --predict 'How old are you?' 'What is your age?' --checkpoint FILE
torchrun --nproc_per_node 2 multitask_classifier.py --option finetune
"""

from __future__ import annotations

import training.threads  # noqa: F401, before torch

# isort: split
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
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
    detect_pairs,
    pearson,
    say_classes,
    score_pairs,
    write_in_order,
)
from optimizer import AdamW

### BEGIN SOLUTION multitask.imports
### STUB: # imports of your own modules, in the order of their names, as ruff sorts them
from solution.cross_encoding import check_segments, concat
from solution.curriculum import drawn, round_robin

### END SOLUTION multitask.imports
from training.acceleration import accelerate
from training.cli.arguments import given_lines, probability
from training.cli.flags import complete, flag
from training.cli.scripts import run_script
from training.files.course_files import COURSE_STEMS, class_names, find_course_files
from training.files.errors import InputError
from training.files.hub import default_model
from training.loop.batches import PAIR, SINGLE, LengthBatches, evaluation_loader
from training.loop.checkpoints import restore_model, resume_path, save_model
from training.loop.devices import autocast_for, keep_freed_memory, pick_device
from training.loop.encoder_outputs import cache_encoder_outputs, unique_texts
from training.loop.processes import (
    broadcast_parameters,
    is_main_process,
    on_main_process,
    join_processes,
)
from training.reports.error_analysis import describe
from training.tasks import (
    Task,
    TaskFlags,
    Turns,
    check_run,
    evaluate,
    input_lengths,
    make_parser,
    mean_losses,
    name_outputs,
    new_run,
    overall,
    parse_flags,
    report_of,
    task_names,
    tasks_with_loss,
)
from utils import seed_everything

# ---------------------------------------------------------------------------------------------
# The tasks

TASKS = {
    "sst": Task("sst", "sentiment", 5, SINGLE, "predict_sentiment", classify, accuracy, COLUMNS[0]),
    "para": Task(
        "para", "is_duplicate", 2, PAIR, "predict_paraphrase", detect_pairs, accuracy, COLUMNS[1]
    ),
    "sts": Task(
        "sts", "similarity", 0, PAIR, "predict_similarity", score_pairs, pearson, COLUMNS[2]
    ),
}

### BEGIN SOLUTION multitask.losses
### STUB: # (outputs, labels) → a number; a task without a loss is not trained: two are yours to add
### STUB: LOSSES = {"sst": F.cross_entropy}


def paraphrase_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy: (B,) logits of "yes", (B,) labels 0 and 1."""
    return F.binary_cross_entropy_with_logits(logits, labels.float())


def similarity_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error of (B,) scores and labels from 0 to 5, both brought to 0 … 1."""
    return F.mse_loss(scores / 5, labels / 5)


LOSSES = {"sst": F.cross_entropy, "para": paraphrase_loss, "sts": similarity_loss}
### END SOLUTION multitask.losses


# ---------------------------------------------------------------------------------------------
# Configuration: a flag is a field


@dataclass
class ModelFlags:
    """Those that a checkpoint keeps, because the model depends on them."""

    option: str = flag(
        "pretrain",
        choices=("pretrain", "finetune"),
        help="pretrain: BERT stays as it is, only the heads learn; finetune: all of it learns",
    )
    hidden_dropout_prob: float = flag(0.3, type=probability, help="before the heads")
    tasks: list[str] = flag(
        list(TASKS), type=partial(task_names, known=TASKS), help="which ones, e.g. sst,sts"
    )
    ### BEGIN SOLUTION multitask.choices
    pair_encoding: str = flag(
        "bi",
        choices=("bi", "cross"),
        help="each sentence on its own, or [CLS] a [SEP] b [SEP] in one pass",
    )
    ### END SOLUTION multitask.choices


@dataclass
class MultitaskFlags(TaskFlags, ModelFlags):
    """All that a run needs to know."""

    ### BEGIN SOLUTION multitask.sampling
    sampling: str = flag(
        "round_robin", choices=("round_robin", "proportional"), help="which task is next"
    )
    ### END SOLUTION multitask.sampling


def get_args(arguments: Sequence[str] | None = None) -> MultitaskFlags:
    """The flags of a command line, checked."""
    args = MultitaskFlags()
    parse_flags(make_parser(MultitaskFlags), args, arguments, TASKS)
    return args


def complete_flags(
    args,
    kind: type[MultitaskFlags] = MultitaskFlags,
    stems: Mapping[str, str] = COURSE_STEMS,
) -> MultitaskFlags:
    """A copy of an older caller's flags with defaults for the rest, and the data files found."""
    args = complete(args, kind)
    name_outputs(args, stems)
    find_course_files(args, stems)
    return args


# ---------------------------------------------------------------------------------------------
# The model


class MultitaskBERT(nn.Module):
    """One BERT with a head for each task.

    Args:
        config: hidden_size, hidden_dropout_prob, option ('pretrain' freezes BERT, 'finetune' trains
            it too); optionally model, the name or folder of the pretrained BERT, and the rest of
            ModelFlags.
    """

    # Whether a pair goes through BERT as one sequence; whether a text's [CLS] depends on that text
    # alone, so that a frozen BERT needs to run but once for each text
    joins_pairs, texts_alone = False, False

    def __init__(self, config):
        super().__init__()
        flags = complete(config, MultitaskFlags)
        self.bert = BertModel.from_pretrained(flags.model)
        if config.option not in ("pretrain", "finetune"):
            raise ValueError(f"option {config.option!r} is neither 'pretrain' nor 'finetune'")
        self.bert.requires_grad_(config.option == "finetune")
        ### BEGIN SOLUTION multitask.init
        ### STUB: # a dropout with config.hidden_dropout_prob, and a linear layer for each task:
        ### STUB: # five classes from a sentence's vector of config.hidden_size numbers; one number
        ### STUB: # from what you make of a pair's two vectors, for each of the two kinds of pairs
        self.joins_pairs = flags.pair_encoding == "cross"
        self.texts_alone = not self.joins_pairs
        if self.joins_pairs:
            check_segments(self.bert)
        self.add_heads(config)

    def add_heads(self, config) -> None:
        """Dropout, and a linear layer for each task."""
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        width = config.hidden_size * (1 if self.joins_pairs else 3)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(width, 1)
        self.similarity = nn.Linear(width, 1)
        ### END SOLUTION multitask.init

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """One vector for each sentence: (B, L), (B, L) → (B, D). All heads start from it."""
        ### BEGIN SOLUTION multitask.forward
        ### STUB: # BERT's pooler_output is a good start. What the heads of the three tasks below
        ### STUB: # have in common may become a method of its own.
        return self.bert(input_ids, attention_mask)["pooler_output"]  # (B, D)

    def apply_head(self, head: nn.Module, vectors: Tensor) -> Tensor:
        """Dropout and a head, in float32: bf16 has so few numbers that many pairs would tie."""
        with torch.autocast(vectors.device.type, enabled=False):
            return head(self.dropout(vectors.float()))

    def pair_features(self, ids_1: Tensor, mask_1: Tensor, ids_2: Tensor, mask_2: Tensor) -> Tensor:
        """What the heads of pairs see: (B, D) of a cross-encoder, (B, 3 D) of a bi-encoder.

        A bi-encoder's is [u; v; |u − v|] (Reimers & Gurevych 2019, section 3).
        """
        if not self.joins_pairs:
            u, v = self(ids_1, mask_1), self(ids_2, mask_2)  # (B, D) each
            return torch.cat([u, v, (u - v).abs()], dim=-1)  # (B, 3 D)
        pad_id, positions = self.bert.config.pad_token_id, self.bert.position_ids.size(1)
        ids, mask, segments = concat(ids_1, mask_1, ids_2, mask_2, pad_id, positions)  # (B, L)
        hidden = self.bert.encode(self.bert.embed(ids, segments), mask)  # (B, L, D)
        return self.bert.pooler_af(self.bert.pooler_dense(hidden[:, 0]))  # (B, D)
        ### END SOLUTION multitask.forward

    # The heads of the three tasks

    def predict_sentiment(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits of the five classes, before any softmax: (B, L), (B, L) → (B, 5)."""
        ### BEGIN SOLUTION multitask.predict_sentiment
        ### STUB: # the sentence's vector, dropout, the linear layer
        return self.apply_head(self.sentiment, self(input_ids, attention_mask))  # (B, 5)
        ### END SOLUTION multitask.predict_sentiment

    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        """The logit of "yes, a paraphrase": (B, L1), (B, L1), (B, L2), (B, L2) → (B,).

        Above 0 means yes; no sigmoid here: the loss and the evaluation apply it.
        Figure: docs/figures/pairs.svg
        """
        ### BEGIN SOLUTION multitask.predict_paraphrase
        ### STUB: # a vector for each sentence, both put together in a way that shows how they
        ### STUB: # differ, dropout, the linear layer
        features = self.pair_features(input_ids_1, attention_mask_1, input_ids_2, attention_mask_2)
        return self.apply_head(self.paraphrase, features).squeeze(-1)  # (B, 1) → (B,)
        ### END SOLUTION multitask.predict_paraphrase

    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        """How alike two sentences are, from 0 to 5: (B, L1), (B, L1), (B, L2), (B, L2) → (B,)."""
        ### BEGIN SOLUTION multitask.predict_similarity
        ### STUB: # like predict_paraphrase, but the result is on the labels' scale: 5 times a
        ### STUB: # sigmoid is one way, 5 times the cosine of the two vectors is another
        features = self.pair_features(input_ids_1, attention_mask_1, input_ids_2, attention_mask_2)
        return 5 * self.apply_head(self.similarity, features).squeeze(-1).sigmoid()  # (B, 1) → (B,)
        ### END SOLUTION multitask.predict_similarity


def new_model(args: MultitaskFlags) -> tuple[MultitaskBERT, SimpleNamespace]:
    """A model on a pretrained BERT, and its configuration."""
    config = model_config(args, ModelFlags)
    return MultitaskBERT(config), config


def model_config(args: MultitaskFlags, kind: type[ModelFlags]) -> SimpleNamespace:
    """What of the flags the model depends on, and the width of its BERT."""
    return SimpleNamespace(
        **{one.name: getattr(args, one.name) for one in fields(kind)},
        hidden_size=BertConfig.from_pretrained(args.model).hidden_size,
        data_dir=".",
        model=args.model,
    )


def load_model(filepath: str | Path, device: torch.device) -> tuple[MultitaskBERT, SimpleNamespace]:
    """The model that save_model wrote, in evaluation mode, and its configuration."""
    return restore_model(
        filepath,
        device,
        MultitaskBERT,
        what="this model",
        script="multitask_classifier.py (techniques have a script of their own)",
        is_ours=lambda config: config.keys() <= {*vars(MultitaskFlags()), "hidden_size"},
    )


# ---------------------------------------------------------------------------------------------
# Data

HeldOut = Mapping[str, Mapping[str, TextDataset]]  # "dev" and "test": data sets by task


def read_rows(task: Task, args: MultitaskFlags, split: str) -> list[tuple]:
    """The rows of args.sst_train, for instance; split is 'train', 'dev' or 'test'."""
    path = getattr(args, f"{task.name}_{split}")
    if task.keys == PAIR:
        return load_pairs(path, split, task.label, task.classes)
    return load_data(path, "test" if split == "test" else "dev", task.classes)


def read_set(task: Task, args: MultitaskFlags, split: str) -> TextDataset:
    """The same as a data set, tokenized."""
    if task.read:
        return task.read(getattr(args, f"{task.name}_{split}"), args)
    rows = read_rows(task, args, split)
    if split == "test":
        pair = task.keys == PAIR
        return (SentencePairTestDataset if pair else SentenceClassificationTestDataset)(rows, args)
    if task.keys == SINGLE:
        return SentenceClassificationDataset(rows, args)
    return SentencePairDataset(rows, args, isRegression=task.classes == 0)


def read_held_out(
    args: MultitaskFlags,
    splits: Sequence[str] = ("dev", "test"),
    tasks: Mapping[str, Task] = TASKS,
) -> HeldOut:
    """The dev sets, and the test sets of those tasks that have a file of them."""
    return {
        split: {
            name: read_set(tasks[name], args, split)
            for name in args.tasks
            if getattr(args, f"{name}_{split}")
        }
        for split in splits
    }


# ---------------------------------------------------------------------------------------------
# Training


def plan_turns(args: MultitaskFlags, sizes: Mapping[str, int], steps: int) -> list[list[str]]:
    """The task of every step of every epoch.

    Args:
        sizes: training examples of each task.
    """
    ### BEGIN SOLUTION multitask.turns
    ### STUB: return [list(sizes) * steps for _ in range(args.epochs)]  # of one task only
    if args.sampling == "round_robin":
        return [round_robin(list(sizes), steps) for _ in range(args.epochs)]
    return [drawn(sizes, steps, args.seed, epoch) for epoch in range(1, args.epochs + 1)]
    ### END SOLUTION multitask.turns


def train_multitask(args, held_out: HeldOut | None = None) -> None:
    """Train on all tasks; the epoch with the best overall dev score is kept in args.filepath.

    Also writes learning curves and multitask-metrics.json into args.out_dir, after every epoch,
    and every minute a file that --resume goes on from. Reads the dev sets unless they are given.
    """
    args = complete_flags(args)
    keep_freed_memory()
    device = pick_device(args.use_gpu)
    names = tasks_with_loss(args.tasks, LOSSES)
    train_sets = {name: read_set(TASKS[name], args, "train") for name in names}
    held_out = held_out or read_held_out(args, ["dev"])
    dev_sets = {name: held_out["dev"][name] for name in names}
    model, config = new_model(args)
    broadcast_parameters(model.to(device))
    turns = new_turns(args, model, train_sets)
    dev_loaders = {
        TASKS[name]: evaluation_loader(rows, args.batch_size, input_lengths(rows, model))
        for name, rows in dev_sets.items()
    }
    optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    accelerate(model, optimizer, train_sets.values())
    if args.option == "pretrain" and model.texts_alone and not args.reencode:
        cache_texts(model.bert, [*train_sets.values(), *dev_sets.values()], args, device)
    if args.compile:
        model.compile()

    with new_run(args, model, optimizer, turns) as run:
        for _ in run.epochs():
            for batch in run.batches():
                task = TASKS[batch["task"]]
                for *inputs, labels in run.micro_batches(batch, task.keys):
                    with run.autocast():
                        outputs = getattr(model, task.head)(*inputs)  # (B, 5) or (B,)
                    share = len(labels) / len(batch["labels"])
                    loss = LOSSES[task.name](outputs.float(), labels) * share
                    run.backward(loss)
                    run.add(**{f"{task.name}_loss": loss.item(), f"{task.name}_steps": share})
                run.step()
            with run.autocast():
                scores = evaluate(model, dev_loaders, device)
            if run.is_best(overall(scores)):
                save_model(model, optimizer, args, config, args.filepath)
            run.end_epoch(mean_losses(run.totals.sums) | scores | {"overall": overall(scores)})


def new_turns(args: MultitaskFlags, model: nn.Module, sets: Mapping[str, TextDataset]) -> Turns:
    """The tasks' training batches, in the order of the steps."""
    batches = {
        name: LengthBatches(input_lengths(rows, model), args.batch_size, args.seed)
        for name, rows in sets.items()
    }
    steps = args.steps_per_epoch or sum(map(len, batches.values()))
    plan = plan_turns(args, {name: len(rows) for name, rows in sets.items()}, steps)
    return Turns(plan, sets, batches)


def cache_texts(bert: nn.Module, datasets: Iterable[TextDataset], args, device) -> None:
    """Run a frozen BERT once over every text; see cache_encoder_outputs."""
    rows = SentenceClassificationTestDataset(unique_texts(datasets), args)
    with autocast_for(device, args.precision)():
        cache_encoder_outputs(bert, [rows], args.batch_size, device)


# ---------------------------------------------------------------------------------------------
# Testing, predicting


def test_model(args, held_out: HeldOut | None = None) -> None:
    """Write each task's predictions for dev and test with the model kept in args.filepath.

    Also writes, on dev, a report, the most confident mistakes and pictures into args.out_dir.
    Reads dev and test sets unless they are given.
    """
    args = complete_flags(args)
    device = pick_device(args.use_gpu)
    model, config = load_model(args.filepath, device)
    vars(args).update(vars(config))
    sizes = {TASKS[name]: args.batch_size for name in args.tasks}
    test_on(model, sizes, args, device, held_out or read_held_out(args))


test_multitask = test_model  # an older name


def test_on(
    model: nn.Module,
    tasks: Mapping[Task, int],
    args: MultitaskFlags,
    device: torch.device,
    held_out: HeldOut,
) -> None:
    """What test_model does, for these tasks in batches of these sizes."""
    keep_freed_memory()
    scores, results = {}, []
    for task, size in tasks.items():
        for split in held_out:
            rows = held_out[split].get(task.name)
            if rows is None:
                continue
            with autocast_for(device, args.precision)():
                loader = evaluation_loader(rows, size, input_lengths(rows, model))
                found = task.predict(loader, getattr(model, task.head), device)
            write_in_order(getattr(args, f"{task.name}_{split}_out"), rows, found, task.column)
            if split == "dev":
                scores[task.name] = task.metric(found["y_true"], found["y_pred"])
                names = class_names(getattr(args, f"{task.name}_dev"), task.classes)
                stem = f"{args.out_dir}/multitask-{task.name}"
                results.append((task.describe or describe)(stem, found, rows, names))
    report_of(args, scores).conclude(args, results)
    shown = "".join(f"  {name} {score:.3f}" for name, score in scores.items())
    print(f"dev{shown}  overall {overall(scores, LOSSES):.3f}")
    print(f"wrote predictions to {args.out_dir}")


@torch.no_grad()
def predict(model: nn.Module, config, lines: Iterable[Sequence[str]], device) -> None:
    """Print what the model says of each line: one text, or the two of a pair.

    Raises:
        InputError: it was not trained on a task of such lines.
    """
    encoder = SentenceClassificationTestDataset([], config)
    trained = getattr(config, "tasks", list(TASKS))
    for texts in lines:
        if not all(text.strip() for text in texts):
            continue
        if len(texts) == 1:
            inputs = encoder.pad([texts[0].lower().strip()])  # (1, L), (1, L)
            logits = model.predict_sentiment(*(one.to(device) for one in inputs))  # (1, 5)
            said = {"sst": say_classes(logits)}
        else:
            padded = [encoder.pad([preprocess_string(text)]) for text in texts]  # (1, L) each
            inputs = [one.to(device) for pair in padded for one in pair]
            share = model.predict_paraphrase(*inputs).float().sigmoid().item()
            similarity = model.predict_similarity(*inputs).item()
            said = {"para": f"paraphrase {share:.3f}", "sts": f"similarity {similarity:.2f}"}
        shown = [text for task, text in said.items() if task in trained]
        if not shown:
            raise InputError(
                f"this checkpoint was trained on {', '.join(trained)} alone: it has no answer to "
                + ("one text" if len(texts) == 1 else "a pair")
            )
        print(f"{'  '.join(shown)}   {' | '.join(text.strip() for text in texts)}", flush=True)


# ---------------------------------------------------------------------------------------------
# The script


def main() -> None:
    """Train and test on all tasks, or predict."""
    args = get_args()
    if args.predict is not None:
        device = pick_device(args.use_gpu)
        predict(*load_model(args.checkpoint, device), given_lines(args.predict), device)
        return
    join_processes(args.use_gpu)
    args.model = args.model or on_main_process(default_model)
    args = complete_flags(args)
    check_run(args)
    held_out = read_held_out(args)  # a fault must show before the training
    seed_everything(args.seed)
    train_multitask(args, held_out)
    if is_main_process():
        test_model(args, held_out)
        resume_path(args.filepath).unlink(missing_ok=True)


if __name__ == "__main__":
    run_script(main)
