"""One BERT for three tasks: sentiment (SST), paraphrases (Quora) and similarity (STS).

python multitask_classifier.py --option finetune --lr 2e-5 --batch_size 16 [--tasks sst,sts]
python multitask_classifier.py --predict 'How old are you?' 'What is your age?' --checkpoint FILE
torchrun --nproc_per_node 2 multitask_classifier.py --option finetune
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import training.loop as loop
from bert import BertModel
from datasets import SentenceClassificationTestDataset, TextDataset, preprocess_string, read_set
from evaluation import (
    HEADS,
    TASKS,
    HeldOut,
    overall,
    predict_held_out,
    predict_rows,
    read_held_out,
    say_classes,
    score,
)
from optimizer import AdamW
from training.cli.flags import given_lines, hint_at_rate, read_flags, with_defaults
from training.cli.scripts import run_script
from training.cli.task_flags import ABOUT, TaskFlags, find_files
from training.files.course_files import class_names
from training.files.errors import InputError
from training.files.hub import default_model
from training.loop.round_robin import RoundRobin
from training.reports.report import Report
from utils import seed_everything

save_model = loop.save_model  # the course's name

# ---------------------------------------------------------------------------------------------
# The model


class MultitaskBERT(nn.Module):
    """One BERT with a head for each task.

    Args:
        config: hidden_size, hidden_dropout_prob, option ('pretrain' freezes BERT, 'finetune' trains
            it too); optionally model, the name or folder of the pretrained BERT.
    """

    def __init__(self, config):
        super().__init__()
        self.bert = BertModel.from_pretrained(with_defaults(config, MultitaskFlags).model)
        if config.option not in ("pretrain", "finetune"):
            raise ValueError(f"option {config.option!r} is neither 'pretrain' nor 'finetune'")
        self.bert.requires_grad_(config.option == "finetune")
        ### BEGIN SOLUTION multitask.init
        ### STUB: # a dropout with config.hidden_dropout_prob, and a linear layer for each task:
        ### STUB: # five classes from a sentence's vector of config.hidden_size numbers; one number
        ### STUB: # from what you make of a pair's two vectors, for each of the two kinds of pairs
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.sentiment = nn.Linear(config.hidden_size, 5)
        self.paraphrase = nn.Linear(3 * config.hidden_size, 1)
        self.similarity = nn.Linear(3 * config.hidden_size, 1)
        ### END SOLUTION multitask.init

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """One vector for each sentence: (B, L), (B, L) → (B, D). All heads start from it."""
        ### BEGIN SOLUTION multitask.forward
        ### STUB: # BERT's pooler_output is a good start. What the heads of the three tasks below
        ### STUB: # have in common may become a method of its own.
        return self.bert(input_ids, attention_mask)["pooler_output"]  # (B, D)

    def pair_features(self, ids_1: Tensor, mask_1: Tensor, ids_2: Tensor, mask_2: Tensor) -> Tensor:
        """[u; v; |u − v|] of two vectors (Reimers & Gurevych 2019, section 3): (B, 3 D)."""
        u, v = self(ids_1, mask_1), self(ids_2, mask_2)  # (B, D) each
        return torch.cat([u, v, (u - v).abs()], dim=-1)  # (B, 3 D)

    def apply_head(self, head: nn.Module, vectors: Tensor) -> Tensor:
        """Dropout and a head, in float32: bf16 has so few numbers that many pairs would tie."""
        with torch.autocast(vectors.device.type, enabled=False):
            return head(self.dropout(vectors.float()))
        ### END SOLUTION multitask.forward

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
# Flags and data


@dataclass
class MultitaskFlags(TaskFlags):
    """All that a run needs to know; further options are further fields, made by ``flag``."""


def get_args(arguments: Sequence[str] | None = None) -> MultitaskFlags:
    """Read and check the command line."""
    return read_flags(MultitaskFlags(), arguments, ABOUT)


# ---------------------------------------------------------------------------------------------
# Training


def new_model(
    args: MultitaskFlags, kind: type[nn.Module] | None = None, **entries: object
) -> tuple[nn.Module, SimpleNamespace]:
    """A MultitaskBERT, or another kind, and its configuration, with further entries."""
    config = SimpleNamespace(
        option=args.option,
        hidden_dropout_prob=args.hidden_dropout_prob,
        tasks=args.tasks,
        hidden_size=BertModel.config_class.from_pretrained(args.model).hidden_size,
        data_dir=".",
        model=args.model,
        labels=class_names(args.sst_dev or "", 5),
        **entries,
    )
    return (kind or MultitaskBERT)(config), config


def train_multitask(args, held_out: HeldOut | None = None) -> None:
    """Train on all tasks; the epoch with the best overall dev score is kept in args.filepath.

    Also writes learning curves and multitask-metrics.json into args.out_dir, after every epoch,
    and every minute a file that --resume continues from. Reads the dev sets unless they are given.
    """
    args = find_files(with_defaults(args, MultitaskFlags))
    device = loop.pick_device(args.use_gpu)
    autocast = loop.autocast_for(device, args.precision)
    tasks = [task for task in args.tasks if task in LOSSES]
    if not tasks:
        raise InputError(f"nothing to train: LOSSES has no loss for {', '.join(args.tasks)}")
    if tasks != args.tasks:
        print(f"trains {', '.join(tasks)} only: LOSSES has no loss for the rest")
    train_sets = {task: read_set(task, args, "train") for task in tasks}
    dev_sets = {t: held_out[t, "dev"] if held_out else read_set(t, args, "dev") for t in tasks}
    loaders = {t: loop.TrainingLoader(train_sets[t], args.batch_size, args.seed) for t in tasks}
    train_loader = RoundRobin(loaders, args.steps_per_epoch or sum(map(len, loaders.values())))
    dev_loaders = {t: loop.evaluation_loader(rows, args.batch_size) for t, rows in dev_sets.items()}
    model, config = new_model(args)
    optimizer = AdamW([p for p in model.to(device).parameters() if p.requires_grad], lr=args.lr)
    if args.fast:
        loop.speed_up(model, optimizer)
    loop.check_device(args, model, {HEADS[task]: rows for task, rows in train_sets.items()})

    guess = sum(loss_of_a_guess(task, rows) for task, rows in train_sets.items()) / len(tasks)
    with loop.Run(args, model, optimizer, train_loader, report_of(args, tasks), guess=guess) as run:
        for _ in run.epochs():
            for batch in run.batches():
                task = batch["task"]
                for *inputs, labels in loop.parts(batch, args.accumulate, device):
                    with autocast():
                        outputs = getattr(model, HEADS[task])(*inputs)  # (B, 5) or (B,)
                    loss = LOSSES[task](outputs.float(), labels)
                    run.scale(loss * len(labels) / len(batch["labels"])).backward()
                    run.log(len(labels), loss=loss, **{f"{task}_loss": loss})
                run.gather_gradients()
                loop.clip(model, args.clip)
                loop.set_lr(optimizer, args, run.step, run.total_steps)
                optimizer.step()
                optimizer.zero_grad()
                run.end_step()
            with autocast():
                scores = evaluate(model, dev_loaders, device)
            if run.is_best(scores["overall"]):
                save_model(model, optimizer, args, config, args.filepath)
            run.end_epoch(scores)


def loss_of_a_guess(task: str, rows: TextDataset) -> float:
    """The loss of giving every row the same answer: equal probabilities, the mean similarity."""
    labels = torch.tensor([row[-2] for row in rows])  # (N,)
    same = labels.float().mean() if task == "sts" else torch.tensor(0.0)
    outputs = same.expand(len(labels), 5) if task == "sst" else same.expand(len(labels))
    return float(LOSSES[task](outputs, labels))


def report_of(args: MultitaskFlags, tasks: Sequence[str]) -> Report:
    """Where the run's reports go, and what they show of these tasks."""
    shown = {name: name for name in (*tasks, "overall")}
    title = f"{', '.join(tasks)}, {args.option}"
    return Report(f"{args.out_dir}/multitask-", title, {"loss": "loss"} | shown, shown)


# ---------------------------------------------------------------------------------------------
# Evaluation


def evaluate(model: nn.Module, loaders: Mapping[str, Iterable], device) -> dict[str, float]:
    """Each task's score on its dev batches, and the overall one."""
    model.eval()
    scores = {t: score(t, predict_rows(model, t, rows, device)) for t, rows in loaders.items()}
    return scores | {"overall": overall(scores)}


def test_model(args, held_out: HeldOut | None = None) -> None:
    """Write each task's predictions for dev and test with the model kept in args.filepath.

    It reads the data sets unless they are given.
    """
    args = find_files(with_defaults(args, MultitaskFlags))
    device = loop.pick_device(args.use_gpu)
    model, config = loop.restore_model(args.filepath, device, MultitaskBERT)
    if args.fast:
        loop.speed_up(model)
    vars(args).update(vars(config))
    held_out = held_out or read_held_out(args, args.tasks)
    with loop.autocast_for(device, args.precision)():
        predict_held_out(args, model, device, held_out, LOSSES)


test_multitask = test_model  # an older name


@torch.no_grad()
def predict(model: nn.Module, config, lines: Iterable[Sequence[str]], device) -> None:
    """Print what the model predicts for each line: one text, or the two of a pair.

    Raises:
        InputError: it was not trained on a task of such lines.
    """
    encoder, tasks = SentenceClassificationTestDataset([], config), getattr(config, "tasks", TASKS)
    for texts in lines:
        if not all(text.strip() for text in texts):
            continue
        clean = str.strip if len(texts) == 1 else preprocess_string
        cleaned = [clean(text) for text in texts]
        inputs = [x.to(device) for text in cleaned for x in encoder.pad([text])]  # (1, L) each
        encoder.report_cut(cleaned)
        answers = []
        if len(texts) == 1 and "sst" in tasks:
            answers.append(say_classes(model.predict_sentiment(*inputs), config))  # (1, 5)
        if len(texts) == 2 and "para" in tasks:
            yes = model.predict_paraphrase(*inputs).float().sigmoid().item()
            answers.append(f"paraphrase {yes:.3f}")
        if len(texts) == 2 and "sts" in tasks:
            answers.append(f"similarity {model.predict_similarity(*inputs).item():.2f}")
        if not answers:
            kind = "one text" if len(texts) == 1 else "a pair"
            raise InputError(f"no answer to {kind} from a model of {', '.join(tasks)} alone")
        print(f"{'  '.join(answers)}   {' | '.join(text.strip() for text in texts)}", flush=True)


def main() -> None:
    """Train and test on all tasks, or predict."""
    args = get_args()
    if args.predict is not None:
        device = loop.pick_device(args.use_gpu)
        model, config = loop.restore_model(args.checkpoint, device, MultitaskBERT)
        predict(model, config, given_lines(args.predict), device)
        return
    loop.join_processes(args.use_gpu)
    args.model = args.model or loop.on_main_process(default_model)
    find_files(args)
    hint_at_rate(args)
    with loop.sole_run([args], [f"{args.out_dir}/multitask"]):
        held_out = read_held_out(args, args.tasks)  # a fault must show before the training
        seed_everything(args.seed)
        train_multitask(args, held_out)
        if loop.is_main_process():
            test_model(args, held_out)


if __name__ == "__main__":
    run_script(main)
