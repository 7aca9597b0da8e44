"""What token_classifier.py and question_answering.py have in common: a linear layer on BERT.

The model and its folder, the flags of the command line, how a run begins and ends, and what it
leaves in --out. This file does not know what the head's outputs mean, how data look or what the
loss is.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

from torch import Tensor, nn
from torch.utils.data import Dataset

from base_bert import BertPreTrainedModel
from bert import BertModel
from config import BertConfig
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.cli.flags import TrainingFlags, flag, positive_float, positive_int
from training.files.errors import InputError
from training.files.hub import default_model
from training.files.writing import check_writable
from training.loop.batches import TrainingLoader
from training.loop.checkpoints import ResumePoint, end_run, has_ended, run_settings
from training.loop.device_check import check_device
from training.loop.devices import autocast_for, compile_encoder, pick_device, speed_up
from training.loop.processes import (
    is_main_process,
    join_processes,
    on_main_process,
)
from training.loop.run import Run
from training.reports.report import TRAIN_AND_DEV, Report
from utils import seed_everything

# ---------------------------------------------------------------------------------------------
# The model


class BertWithHead(BertPreTrainedModel):
    """BERT, and one linear layer over the last hidden states of all tokens.

    It is saved as, and loaded from, a folder of one of ``transformers``' models.

    Args:
        config: of the encoder; its id2label names the head's outputs unless ``labels`` does.
        labels: names of the head's outputs.
    """

    ARCHITECTURE = "BertForTokenClassification"  # what transformers calls the same model
    HEAD = "classifier"  # and its linear layer

    def __init__(self, config: BertConfig, labels: Sequence[str] | None = None):
        super().__init__(config)
        is_ours = getattr(config, "architectures", None) == [self.ARCHITECTURE]
        named = getattr(config, "id2label", {}) if is_ours else {}
        known = [named[number] for number in sorted(named, key=int)]
        self.labels = list(labels or known)
        self.head_is_known = self.labels == known
        if not self.labels:
            raise InputError(
                f"{config.name_or_path} holds no {self.ARCHITECTURE}; give --checkpoint the "
                f"folder that a training run of this lesson wrote"
            )
        config.id2label = {str(i): label for i, label in enumerate(self.labels)}
        config.label2id = {label: i for i, label in enumerate(self.labels)}
        self.bert = BertModel(config)
        setattr(self, self.HEAD, nn.Linear(config.hidden_size, len(self.labels)))
        self._init_weights(self.head)

    @property
    def head(self) -> nn.Linear:
        """The linear layer, D → number of labels."""
        return getattr(self, self.HEAD)

    def load_hf_weights(self, tensors: dict[str, Tensor], source: str) -> None:
        """Load the encoder's tensors, and the head's if the checkpoint is of this kind of model."""
        names = {key: f"{self.HEAD}.{key}" for key in ("weight", "bias")}
        core = {name: tensor for name, tensor in tensors.items() if name not in names.values()}
        super().load_hf_weights(core, source)
        if not self.head_is_known:
            print(f"weights: the head of {len(self.labels)} outputs is new")
            return
        try:
            self.head.load_state_dict({key: tensors[name] for key, name in names.items()})
        except (KeyError, RuntimeError) as error:
            raise InputError(
                f"{source} lacks the head that its config names; train again"
            ) from error

    def to_hf_weights(self) -> dict[str, Tensor]:
        """The tensors under the names of ``transformers``' model, head included."""
        tensors = {f"bert.{name}": tensor for name, tensor in super().to_hf_weights().items()}
        for key, tensor in self.head.state_dict().items():
            tensors[f"{self.HEAD}.{key}"] = tensor.cpu().contiguous()
        return tensors

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors that ``transformers`` loads, head included."""
        super().save_pretrained(folder, architectures=[self.ARCHITECTURE])


def restore(args: HeadFlags, kind: type[BertWithHead]) -> SimpleNamespace:
    """The model of --checkpoint (a ``kind``), its tokenizer, device and autocast."""
    device = pick_device(args.use_gpu)
    model = kind.from_pretrained(args.checkpoint)
    if args.fast:
        speed_up(model)
    args.length = min(args.length, model.config.max_position_embeddings)
    tokenizer = BertTokenizer.from_pretrained(args.checkpoint)
    autocast = autocast_for(device, args.precision)
    return SimpleNamespace(
        model=model.to(device), tokenizer=tokenizer, device=device, autocast=autocast
    )


# ---------------------------------------------------------------------------------------------
# A run, and what it writes into --out


def resume_file(args) -> Path:
    """The file from which --resume continues."""
    return Path(args.out) / "model.resume"


def new_run(
    args,
    model: nn.Module,
    optimizer: AdamW,
    dataset: Dataset,
    columns: dict[str, str],
    curves: Mapping[str, str] = TRAIN_AND_DEV,
) -> Run:
    """The run that these flags describe, on a model on its device; it writes into --out.

    Args:
        dataset: to learn from.
        columns: of the table: headings and keys.
        curves: metrics of the picture: keys and names.
    """
    if args.fast:
        speed_up(model, optimizer)
    check_device(args, model, {"forward": dataset})
    loader = TrainingLoader(dataset, args.batch_size, args.seed)
    if args.compile:
        compile_encoder(model, args, args.epochs * len(loader))
    return Run(
        args,
        model,
        optimizer,
        loader,
        point=ResumePoint(resume_file(args), run_settings(args)),
        report=Report(f"{args.out}/", Path(args.out).name, columns, curves),
    )


# ---------------------------------------------------------------------------------------------
# The command line


OUT_HELP = "folder for everything written (%(default)s)"


@dataclass
class HeadFlags(TrainingFlags):
    """The options of every lesson that trains a head."""

    out: str = flag("predictions/head", path="writes", help=OUT_HELP)
    lr: float = flag(5e-5, type=positive_float, help="learning rate")
    length: int = flag(128, type=positive_int, help="most tokens per row")
    limit: int | None = flag(
        None, type=positive_int, help="use the first LIMIT examples of each file"
    )
    evaluate: str | None = flag(
        None, may_change=True, metavar="FILE", help="score a trained model on this file"
    )
    checkpoint: str | None = flag(None, may_change=True, metavar="DIR", help="folder of that model")
    train: str | None = None
    dev: str | None = None
    predict: str | None = None


Flags = TypeVar("Flags", bound=HeadFlags)


def checked(parser: argparse.ArgumentParser, args: Flags) -> Flags:
    """The flags, after checking which of them go together."""
    if bool(args.checkpoint) != (args.predict is not None or args.evaluate is not None):
        parser.error("--predict and --evaluate need --checkpoint, which is for them alone")
    if bool(args.train) != bool(args.dev):
        parser.error("--train and --dev go together")
    if args.reencode:
        parser.error("--reencode is for frozen encoders; here all of BERT learns")
    return args


def default_files(args: HeadFlags, folder: str, candidates: Sequence[tuple[str, ...]]) -> None:
    """Without --train: those files of a folder of $MINBERT_DATA that are all there.

    Args:
        candidates: names of the files for train, dev and, where there is one, test.
    """
    if args.train or args.evaluate:
        return
    path = Path(os.environ.get("MINBERT_DATA", "data")) / folder
    for names in candidates:
        if all((path / name).is_file() for name in names):
            for flag_name, name in zip(("train", "dev", "test"), names, strict=False):
                setattr(args, flag_name, str(path / name))
            return
    raise InputError(
        f"{path / candidates[0][0]} is missing: give --train and --dev, or set $MINBERT_DATA"
    )


def train_and_score(
    args: HeadFlags, train: Callable[[HeadFlags], None], evaluate: Callable[[HeadFlags], None]
) -> None:
    """Score the model of --checkpoint, or train one and score it."""
    check_writable(args.out)
    if args.evaluate:
        evaluate(args)
        return
    join_processes(args.use_gpu)
    args.model = args.model or on_main_process(default_model)
    if has_ended(resume_file(args), f"{args.out}/", args):
        return
    seed_everything(args.seed)
    train(args)
    if is_main_process():
        args.checkpoint = args.out
        evaluate(args)
        end_run(resume_file(args), f"{args.out}/")
