"""Sentiment of single sentences: fine-tune BERT on SST and CFIMDB, or on any labelled file.

python classifier.py --option finetune --lr 5e-5
python classifier.py --option pretrain --lr 1e-3
python classifier.py --option finetune --train my-train.csv --dev my-dev.csv
python classifier.py --predict 'Funny, warm and beautifully acted.' --checkpoint sst-classifier.pt
torchrun --nproc_per_node 2 classifier.py --option finetune
"""

import math
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import training.loop as loop
from bert import BertModel
from datasets import SentenceClassificationDataset as SentimentDataset  # the course's names
from datasets import SentenceClassificationTestDataset as SentimentTestDataset
from datasets import TextDataset, load_data
from evaluation import classify, metrics_of, say_classes, write_in_order
from optimizer import AdamW
from training.cli.flags import given_lines, hint_at_rate, with_defaults
from training.cli.scripts import run_script
from training.cli.sentiment_flags import ClassifierFlags, get_args, plan
from training.files.course_files import class_names
from utils import seed_everything

save_model = loop.save_model


class BertSentimentClassifier(nn.Module):
    """BERT with a linear layer over its pooled output (Devlin et al. 2019, section 4.1).

    Args:
        config: num_labels, hidden_size, hidden_dropout_prob, option ('pretrain' freezes BERT,
            'finetune' trains it too); optionally model, the name or folder of the pretrained BERT.
    """

    def __init__(self, config):
        super().__init__()
        self.num_labels = config.num_labels
        model = with_defaults(config, ClassifierFlags).model
        self.bert = BertModel.from_pretrained(model)
        if config.option not in ("pretrain", "finetune"):
            raise ValueError(f"option {config.option!r} is neither 'pretrain' nor 'finetune'")
        self.bert.requires_grad_(config.option == "finetune")
        ### BEGIN SOLUTION classifier.init
        ### STUB: # a dropout with config.hidden_dropout_prob, and one nn.Linear from
        ### STUB: # config.hidden_size to config.num_labels
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        ### END SOLUTION classifier.init

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits of the classes, before any softmax: (B, L), (B, L) → (B, num_labels)."""
        ### BEGIN SOLUTION classifier.forward
        ### STUB: # pooler_output of self.bert, dropout, the linear layer; no softmax
        pooled = self.bert(input_ids, attention_mask)["pooler_output"]  # (B, D)
        return self.classifier(self.dropout(pooled))  # (B, num_labels)
        ### END SOLUTION classifier.forward


def model_eval(dataloader, model: nn.Module, device: torch.device) -> tuple:
    """→ (accuracy, macro F1, y_pred, y_true, sents, sent_ids) on labelled batches."""
    model.eval()
    return metrics_of(classify(dataloader, model, device))


def model_test_eval(dataloader, model: nn.Module, device: torch.device) -> tuple:
    """→ (y_pred, sents, sent_ids) on batches without labels."""
    model.eval()
    predictions = classify(dataloader, model, device)
    return predictions["y_pred"], predictions["sents"], predictions["sent_ids"]


def load_model(filepath: str, device: torch.device) -> tuple[nn.Module, SimpleNamespace]:
    """The classifier that save_model wrote, in evaluation mode, and its configuration."""
    return loop.restore_model(filepath, device, BertSentimentClassifier)


def read_data(args: ClassifierFlags, *splits: str) -> dict[str, TextDataset]:
    """The data sets of those splits that have a file; "train" sets args.num_labels."""
    data: dict[str, TextDataset] = {}
    for split in splits:
        if split == "train":
            rows, args.num_labels = load_data(args.train, "train", args.num_labels)
            data[split] = SentimentDataset(rows, args)
        elif split == "dev":
            data[split] = SentimentDataset(load_data(args.dev, "dev", args.num_labels), args)
        elif args.test:
            data[split] = SentimentTestDataset(load_data(args.test, "test"), args)
    return data


def new_model(args: ClassifierFlags) -> tuple[nn.Module, SimpleNamespace]:
    """A classifier on a pretrained BERT, and its configuration."""
    config = SimpleNamespace(
        hidden_dropout_prob=args.hidden_dropout_prob,
        num_labels=args.num_labels,
        hidden_size=BertModel.config_class.from_pretrained(args.model).hidden_size,
        data_dir=".",
        option=args.option,
        model=args.model,
        labels=class_names(args.dev, args.num_labels),
    )
    return BertSentimentClassifier(config), config


def train(args, data: dict[str, TextDataset] | None = None) -> None:
    """Train on args.train; the epoch with the best accuracy on args.dev is kept in args.filepath.

    Also writes the learning curves and a metrics.json next to the predictions, after every epoch,
    and every minute a file that --resume goes on from.

    Args:
        args: the flags; older callers give some of them.
        data: what the files hold, if they were read before.
    """
    args = with_defaults(args, ClassifierFlags)
    device = loop.pick_device(args.use_gpu)
    autocast = loop.autocast_for(device, args.precision)
    data = data or read_data(args, "train", "dev")
    train_loader = loop.TrainingLoader(data["train"], args.batch_size, args.seed)
    dev_loader = loop.evaluation_loader(data["dev"], args.batch_size)
    model, config = new_model(args)
    model.to(device)
    optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    if args.fast:
        loop.speed_up(model, optimizer)
    loop.check_device(args, model, {"forward": data["train"]})

    guess = math.log(args.num_labels)  # the loss of equal probabilities
    with loop.Run(args, model, optimizer, train_loader, args.report, guess=guess) as run:
        for _ in run.epochs():
            for batch in run.batches():
                for ids, mask, labels in loop.parts(batch, args.accumulate, device):
                    with autocast():
                        logits = model(ids, mask)  # (B, L), (B, L) → (B, num_labels)
                    loss = F.cross_entropy(logits.float(), labels)
                    run.scale(loss * len(labels) / len(batch["labels"])).backward()
                    run.log(len(labels), loss=loss, train_acc=logits.argmax(dim=-1) == labels)
                run.gather_gradients()
                loop.clip(model, args.clip)
                loop.set_lr(optimizer, args, run.step, run.total_steps)
                optimizer.step()
                optimizer.zero_grad()
                run.end_step()
            with autocast():
                accuracy, f1 = model_eval(dev_loader, model, device)[:2]
            if run.is_best(accuracy):
                save_model(model, optimizer, args, config, args.filepath)
            run.end_epoch({"dev_acc": accuracy, "dev_f1": f1})


def test(args, data: dict[str, TextDataset] | None = None) -> None:
    """Write predictions for args.dev and args.test with the model kept in args.filepath."""
    args = with_defaults(args, ClassifierFlags)
    device = loop.pick_device(args.use_gpu)
    autocast = loop.autocast_for(device, args.precision)
    model, config = load_model(args.filepath, device)
    if args.fast:
        loop.speed_up(model)
    args.model, args.num_labels = config.model, config.num_labels
    data = data or read_data(args, "dev", "test")
    for split in ("dev", "test") if "test" in data else ("dev",):
        with autocast():
            loader = loop.evaluation_loader(data[split], args.batch_size)
            predictions = classify(loader, model, device)
        if split == "dev":
            accuracy, f1 = metrics_of(predictions)[:2]
            print(f"dev accuracy {accuracy:.3f}, macro F1 {f1:.3f} ({args.dev})")
        path = getattr(args, f"{split}_out")
        write_in_order(path, data[split], predictions, "Predicted_Sentiment")


def predict(texts, checkpoint: str, use_gpu: bool) -> None:
    """Print the class and the probability of every class for each text."""
    device = loop.pick_device(use_gpu)
    model, config = load_model(checkpoint, device)
    encoder = SentimentTestDataset([], config)
    for text in filter(None, map(str.strip, texts)):
        ids, mask = encoder.pad([text])  # (1, L), (1, L)
        encoder.report_cut([text])
        with torch.no_grad():
            logits = model(ids.to(device), mask.to(device))  # (1, num_labels)
        print(f"{say_classes(logits, config)}   {text}", flush=True)


def main() -> None:
    """Train and test on every planned data set, or predict."""
    args = get_args()
    if args.predict is not None:
        texts = map(" ".join, given_lines(args.predict))
        predict(texts, args.checkpoint, args.use_gpu)
        return
    loop.join_processes(args.use_gpu)
    runs = plan(args)
    hint_at_rate(args)
    with loop.sole_run(runs, [run.stem for run in runs]):
        # all files are read first: a fault in the last one must not show after an hour of training
        data = [read_data(run, "train", "dev", "test") for run in runs]
        for run, its_data in zip(runs, data, strict=True):
            seed_everything(run.seed)
            train(run, its_data)
            if loop.is_main_process():
                test(run, its_data)


if __name__ == "__main__":
    run_script(main)
