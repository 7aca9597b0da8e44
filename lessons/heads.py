"""What token_classifier.py and question_answering.py have in common: a linear layer on BERT.

The model and its folder, the flags of the command line, and how a run begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from base_bert import BertPreTrainedModel, load_tensors
from bert import BertModel
from config import BertConfig
from lessons.saved_head import output_names
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.cli.flags import TrainingFlags, flag, positive_float, positive_int, read_flags
from training.files.errors import InputError
from training.files.folder import check_surplus
from training.files.hub import default_model
from training.loop import (
    Run,
    TrainingLoader,
    autocast_for,
    check_device,
    is_main_process,
    join_processes,
    on_main_process,
    pick_device,
    sole_run,
    speed_up,
)
from training.reports.report import Report
from utils import seed_everything


class BertWithHead(BertPreTrainedModel):
    """BERT, and one linear layer over the last hidden states of all tokens.

    It is saved as, and loaded from, a folder of one of ``transformers``' models.

    Args:
        config: of the encoder.
        labels: names of a new head's outputs; None for the head of the checkpoint.
    """

    ARCHITECTURE = "BertForTokenClassification"  # what transformers calls the same model
    HEAD = "classifier"  # and its linear layer

    def __init__(self, config: BertConfig, labels: Sequence[str] | None = None):
        super().__init__(config)
        self.is_new = labels is not None
        if not self.is_new and getattr(config, "architectures", None) != [self.ARCHITECTURE]:
            what = f"{config.name_or_path} holds no {self.ARCHITECTURE}"
            raise InputError(f"{what}; give --checkpoint what a run of this lesson wrote")
        self.labels = list(labels or output_names(config))
        config.id2label = {str(i): label for i, label in enumerate(self.labels)}
        config.label2id = {label: i for i, label in enumerate(self.labels)}
        self.bert = BertModel(config)
        self.head = nn.Linear(config.hidden_size, len(self.labels))
        self._init_weights(self.head)

    def load_hf_weights(self, tensors: dict[str, Tensor], source: str) -> None:
        """Load the encoder's tensors, and the head's unless it is a new one."""
        names = {f"{self.HEAD}.{kind}": kind for kind in ("weight", "bias")}
        core = {name: tensor for name, tensor in tensors.items() if name not in names}
        if not self.is_new:
            check_surplus(source, core, (), self.HEAD)
        super().load_hf_weights(core, source)
        if self.is_new:
            print(f"weights: the head of {len(self.labels)} outputs is new")
        else:
            load_tensors(self.head, tensors, names, source)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors that ``transformers`` loads, head included."""
        head = self.head.state_dict(prefix=f"{self.HEAD}.")
        super().save_pretrained(folder, head, architectures=[self.ARCHITECTURE])


@dataclass
class HeadFlags(TrainingFlags):
    """The options of every lesson that trains a head."""

    out: str = flag("predictions/head", may_change=True, help="folder for everything written")
    lr: float = flag(5e-5, type=positive_float, help="learning rate")
    length: int = flag(128, type=positive_int, help="most tokens per row")
    limit: int | None = flag(None, type=positive_int, help="first LIMIT examples of each file")
    evaluate: str | None = flag(
        None, may_change=True, metavar="FILE", help="score a trained model on this file"
    )
    checkpoint: str | None = flag(None, may_change=True, metavar="DIR", help="folder of that model")
    train: str | None = None
    dev: str | None = None
    predict: str | None = None

    def faults(self) -> Iterator[str]:
        """Why these flags make no sense together, a sentence each."""
        if bool(self.checkpoint) != (self.predict is not None or self.evaluate is not None):
            yield "--predict and --evaluate need --checkpoint, which is for them alone"
        if not self.checkpoint and not (self.train and self.dev):
            yield "give --train and --dev, or --checkpoint with --predict or --evaluate"

    @property
    def filepath(self) -> str:
        """Where the model goes; the resume point is next to it."""
        return f"{self.out}/model.safetensors"


class Trained(NamedTuple):
    """A model, and what it is run with."""

    model: BertWithHead
    tokenizer: BertTokenizer
    device: torch.device
    autocast: Callable[[], AbstractContextManager]


def load(args: HeadFlags, kind: type[BertWithHead], labels: Sequence[str] | None = None) -> Trained:
    """The trained model of --checkpoint, or with ``labels`` the BERT of --model and a new head."""
    device, name = pick_device(args.use_gpu), args.model if labels else args.checkpoint
    model = kind.from_pretrained(name, labels=labels)
    if args.fast and not labels:  # else new_run does it, with the optimizer
        speed_up(model)
    args.length = min(args.length, model.config.max_position_embeddings)
    tokenizer = BertTokenizer.from_pretrained(name)
    return Trained(model.to(device), tokenizer, device, autocast_for(device, args.precision))


def new_run(
    args: HeadFlags,
    model: BertWithHead,
    optimizer: AdamW,
    dataset: torch.utils.data.Dataset,
    columns: Mapping[str, str],
    curves: Mapping[str, str],
) -> Run:
    """The run that these flags describe, on a model on its device; it writes into --out.

    Args:
        dataset: to learn from.
        columns: of the table: headings and keys.
        curves: metrics of the page: keys and names.
    """
    if args.fast:
        speed_up(model, optimizer)
    check_device(args, model, {"forward": dataset})
    loader = TrainingLoader(dataset, args.batch_size, args.seed)
    report = Report(f"{args.out}/", Path(args.out).name, columns, curves)
    return Run(args, model, optimizer, loader, report)


def run_lesson(
    about: str,
    args: HeadFlags,
    train: Callable[..., None],
    evaluate: Callable[..., None],
    predict: Callable[..., None],
) -> None:
    """Read the flags; then predict or score with a trained model, or train and score one."""
    read_flags(args, None, about)
    if args.predict is not None:
        return predict(args)
    if args.evaluate:
        return evaluate(args)
    join_processes(args.use_gpu)
    args.model = args.model or on_main_process(default_model)
    with sole_run([args]):
        seed_everything(args.seed)
        train(args)
        if is_main_process():
            args.checkpoint = args.out  # which ``evaluate`` reads
            evaluate(args)
