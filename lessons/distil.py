r"""A smaller model that learns from a larger one (Hinton et al. 2015; Sanh et al. 2019).

    python classifier.py --only sst --option finetune --lr 5e-5      the teacher
    python -m lessons.distil --teacher sst-classifier.pt --lr 1e-4   the student
    python -m lessons.distil --teacher sst-classifier.pt --lr 1e-4 --weights 0 1 0 --out alone

The student is a DistilBERT with every second layer of the teacher, trained on three losses: the
teacher's softened predictions, the labels, and the direction of the last layer's vectors. The last
line trains the same student on the labels only. The best epoch is kept in --out, a folder that
``transformers`` loads as DistilBertForSequenceClassification. docs/variants.md explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bert import BertModel
from classifier import load_model, model_eval
from datasets import SentenceClassificationDataset, load_data
from extensions.loss.distillation import direction_loss, soft_loss
from lessons.heads import new_run, train_and_score
from lessons.variants import DistilBertModel, count
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.cli.flags import (
    OneLineParser,
    TrainingFlags,
    add_fields,
    flag,
    positive_float,
    positive_int,
    probability,
)
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.loop import Run, autocast_for, clip, evaluation_loader, parts, pick_device, set_lr
from training.loop.batches import cpu_copy
from training.loop.module_outputs import outputs_of

COLUMNS = {  # of the table: headings and keys
    "soft": "soft",
    "task": "task",
    "direction": "direction",
    "train acc": "train_acc",
    "dev acc": "dev_acc",
}


class DistilBertClassifier(nn.Module):
    """DistilBERT's classifier: classifier(dropout(relu(pre_classifier([CLS]))))."""

    def __init__(self, bert: DistilBertModel, num_labels: int, dropout: float = 0.2):
        super().__init__()
        self.bert = bert
        self.pre_classifier = nn.Linear(bert.config.hidden_size, bert.config.hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(bert.config.hidden_size, num_labels)
        self.pre_classifier.apply(bert._init_weights)
        self.classifier.apply(bert._init_weights)

    def outputs(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """(B, L), (B, L) → logits (B, K), and the last layer's vectors (B, L, D)."""
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]  # (B, L, D)
        pooled = F.relu(self.pre_classifier(hidden[:, 0]))  # (B, D)
        return self.classifier(self.dropout(pooled)), hidden

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits: (B, L), (B, L) → (B, K)."""
        return self.outputs(input_ids, attention_mask)[0]

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the folder of a DistilBertForSequenceClassification."""
        head = {name: tensor for name, tensor in self.state_dict().items() if name[:5] != "bert."}
        labels = range(self.classifier.out_features)
        self.bert.save_pretrained(
            folder,
            head,
            architectures=["DistilBertForSequenceClassification"],
            seq_classif_dropout=self.dropout.p,
            id2label={str(i): f"LABEL_{i}" for i in labels},
            label2id={f"LABEL_{i}": i for i in labels},
        )


def student_of(teacher: BertModel, layers: int | None = None) -> DistilBertModel:
    """A DistilBERT that begins with layers 0, 2, 4 … of the teacher (Sanh et al. 2019, section 3).

    What the teacher adds to every token for segment 0 goes into the positions, so that the
    embeddings are exactly the teacher's.

    Args:
        layers: how many; half of the teacher's if not given. Otherwise evenly spaced ones.
    """
    depth = len(teacher.bert_layers)
    layers = layers or max(1, depth // 2)
    if layers > depth:
        raise InputError(f"--layers {layers}: the teacher has only {depth}")
    config = type(teacher.config)(**(teacher.config.to_dict() | {"num_hidden_layers": layers}))
    student = DistilBertModel(config)
    for part in ("word_embedding", "pos_embedding", "embed_layer_norm"):
        getattr(student, part).load_state_dict(getattr(teacher, part).state_dict())
    with torch.no_grad():
        student.pos_embedding.weight += teacher.tk_type_embedding.weight[0]
    for i, layer in enumerate(student.bert_layers):
        layer.load_state_dict(teacher.bert_layers[i * depth // layers].state_dict())
    return student


@torch.no_grad()
def teacher_outputs(
    teacher: nn.Module, input_ids: Tensor, attention_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """(B, L), (B, L) → logits (B, K) of a classifier, and its BERT's last vectors (B, L, D)."""
    with outputs_of(teacher.bert) as of_bert:
        logits = teacher(input_ids, attention_mask)
    return logits, of_bert[0]["last_hidden_state"]


def train(args: DistilFlags) -> None:
    """Train a student of args.teacher; the epoch with the best dev accuracy is kept in args.out."""
    device = pick_device(args.use_gpu)
    autocast = autocast_for(device, args.precision)
    teacher, config = load_model(args.teacher, device)
    rows, _ = load_data(args.train, "train", config.num_labels)
    train_set = SentenceClassificationDataset(rows, config)
    dev_set = SentenceClassificationDataset(load_data(args.dev, "dev", config.num_labels), config)
    dev_loader = evaluation_loader(dev_set, args.batch_size)
    bert = student_of(teacher.bert, args.layers)
    model = DistilBertClassifier(bert, config.num_labels, args.hidden_dropout_prob).to(device)
    optimizer = AdamW(model.parameters(), lr=args.lr)
    for name, encoder in (("teacher", teacher.bert), ("student", bert)):
        total, embeddings = count(encoder)
        print(f"{name}: {len(encoder.bert_layers)} layers, {total:,} parameters, ", end="")
        print(f"{embeddings:,} of them in embeddings")

    positions = bert.config.max_position_embeddings
    BertTokenizer.from_pretrained(config.model).save_pretrained(args.out, positions)

    with new_run(args, model, optimizer, train_set, COLUMNS) as run:
        for _ in run.epochs():
            for batch in run.batches():
                counts = len(batch["labels"]), int(batch["attention_mask"].numpy().sum())
                for ids, mask, labels in parts(batch, args.accumulate, device):
                    with autocast():
                        theirs, their_hidden = teacher_outputs(teacher, ids, mask)
                        logits, hidden = model.outputs(ids, mask)  # (B, K), (B, L, D)
                    sums = losses(logits, theirs, labels, args.temperature)
                    sums["direction"] = direction_loss(hidden, their_hidden, mask)
                    loss = weighted(sums, args.weights, *counts)
                    run.scale(loss).backward()
                    log(run, loss, sums, logits.argmax(dim=-1) == labels, mask)
                run.gather_gradients()
                clip(model, args.clip)
                set_lr(optimizer, args, run.step, run.total_steps)
                optimizer.step()
                optimizer.zero_grad()
                run.end_step()
            with autocast():
                accuracy, f1 = model_eval(dev_loader, model, device)[:2]
            if run.is_best(accuracy):
                model.save_pretrained(args.out)
            means = run.means() | {"dev_acc": accuracy, "dev_f1": f1}
            run.end_epoch(means | {"loss": weighted(means, args.weights)})


def losses(logits: Tensor, theirs: Tensor, labels: Tensor, temperature: float) -> dict[str, Tensor]:
    """DistilBERT's losses on outputs (B, K), summed over texts: on the teacher's, and on labels."""
    task = F.cross_entropy(logits.float(), labels, reduction="sum")
    return {"soft": soft_loss(logits, theirs, temperature), "task": task}


def weighted(losses: dict, weights: list[float], texts: int = 1, tokens: int = 1) -> Tensor | float:
    """The weighted sum of the three losses: soft and task by text, direction by token."""
    soft, task, direction = (
        weight * losses[name]
        for weight, name in zip(weights, ("soft", "task", "direction"), strict=True)
    )
    return (soft + task) / texts + direction / tokens


def log(run: Run, loss: Tensor, sums: dict[str, Tensor], right: Tensor, mask: Tensor) -> None:
    """Log a part of a batch: its part of the loss, the three losses, and where it is right (B,)."""
    texts, tokens = len(right), int(cpu_copy(mask).numpy().sum())
    run.log(texts, of=texts, loss=loss)
    run.log(texts, soft=sums["soft"] / texts, task=sums["task"] / texts, train_acc=right)
    run.log(tokens, direction=sums["direction"] / tokens)


def evaluate(args: DistilFlags) -> None:
    """Print the accuracy of the teacher on the dev set; the student's is in the table."""
    device = pick_device(args.use_gpu)
    teacher, config = load_model(args.teacher, device)
    rows = SentenceClassificationDataset(load_data(args.dev, "dev", config.num_labels), config)
    with autocast_for(device, args.precision)():
        accuracy = model_eval(evaluation_loader(rows, args.batch_size), teacher, device)[0]
    print(f"teacher: dev accuracy {accuracy:.3f}\nwrote {args.out}")


@dataclass
class DistilFlags(TrainingFlags):
    """The command line's options."""

    teacher: str | None = flag(
        None, required=True, metavar="FILE", help="a checkpoint of classifier.py"
    )
    out: str = flag("distilled", may_change=True, metavar="DIR", help="folder for the student")
    layers: int | None = flag(
        None, type=positive_int, help="the student's layers (half of the teacher's)"
    )
    weights: list[float] = flag(
        [5.0, 2.0, 1.0],  # those of DistilBERT's code
        type=float,
        nargs=3,
        metavar=("SOFT", "TASK", "DIRECTION"),
        help="of the three losses; 0 1 0 is plain fine-tuning",
    )
    temperature: float = flag(2.0, type=positive_float, help="T, which softens predictions")
    epochs: int = flag(5, type=positive_int, help="passes over the training data")
    lr: float = flag(5e-5, type=positive_float, help="learning rate")
    hidden_dropout_prob: float = flag(0.2, type=probability, help="dropout before the head")
    data_dir: str | None = flag(None, may_change=True, help="folder of the course files")
    train: str | None = flag(None, help="your training file (SST's)")
    dev: str | None = flag(None, help="its dev file")
    model: str | None = None  # the teacher's

    @property
    def filepath(self) -> str:
        """Where the model goes; the resume point is next to it."""
        return f"{self.out}/model.safetensors"


def main() -> None:
    """Train a student."""
    parser = OneLineParser(
        description="Train a DistilBERT of every second layer of a BERT.",
    )
    add_fields(parser, DistilFlags)
    args = parser.parse_args(namespace=DistilFlags())
    if bool(args.train) != bool(args.dev):
        parser.error("--train and --dev go together")
    if min(args.weights) < 0 or not 0 < sum(args.weights) < float("inf"):
        parser.error("--weights must be at least 0, and one of them above")
    if not args.train:
        folder = data_folder(args.data_dir)
        args.train, args.dev = (str(folder / f"ids-sst-{name}.csv") for name in ("train", "dev"))
    args.model = load_model(args.teacher, torch.device("cpu"))[1].model
    train_and_score(args, train, evaluate)


if __name__ == "__main__":
    run_script(main)
