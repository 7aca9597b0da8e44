"""What the lessons that put a linear layer on BERT have in common.

The model and its folder, the flags of the command line, how a run begins and ends, and what it
leaves in --out. It does not know what the head's outputs mean, how data look or what the loss
is. Of scores it knows that the best epoch is the one with the highest dev_f1. token_classifier.py
and question_answering.py use it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, TypeVar

from torch import Tensor, nn
from torch.utils.data import Dataset

from base_bert import BertPreTrainedModel
from bert import BertModel
from config import BertConfig
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.acceleration import accelerate
from training.cli.arguments import check_seed, positive_float, positive_int
from training.cli.flags import TrainingFlags, flag
from training.files.errors import InputError
from training.files.hub import default_model
from training.files.writing import check_writable
from training.loop.batches import TrainingLoader
from training.loop.checkpoints import ResumePoint, run_settings
from training.loop.devices import autocast_for, pick_device
from training.loop.processes import (
    broadcast_parameters,
    is_main_process,
    join_processes,
    on_main_process,
)
from training.loop.run import Run
from training.reports.report import Report
from utils import seed_everything

# ---------------------------------------------------------------------------------------------
# The model


class BertWithHead(BertPreTrainedModel):
    """BERT, and one linear layer over the last hidden states of all word pieces.

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
        """The encoder's tensors, and the head's where the checkpoint is one of this model."""
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


def settle_length(args: HeadFlags, model: BertWithHead) -> None:
    """--length where none was given; InputError if the model has fewer positions."""
    positions = model.config.max_position_embeddings
    if args.length is None:
        args.length = min(args.USUAL_LENGTH, positions)
    if args.length > positions:
        raise InputError(f"--length {args.length} is more than the model's {positions} positions")


def restore(args, kind: type[BertWithHead]) -> SimpleNamespace:
    """What predicting needs: model (a ``kind``), tokenizer, device and autocast, from the flags."""
    device = pick_device(args.use_gpu)
    model = kind.from_pretrained(args.checkpoint)
    accelerate(model)
    settle_length(args, model)
    tokenizer = BertTokenizer.from_pretrained(args.checkpoint)
    autocast = autocast_for(device, args.precision)
    return SimpleNamespace(
        model=model.to(device), tokenizer=tokenizer, device=device, autocast=autocast
    )


# ---------------------------------------------------------------------------------------------
# A run, and what it leaves in --out


def resume_file(args) -> Path:
    """Where an interrupted run is kept."""
    return Path(args.out) / "model.resume"


def new_run(
    args,
    model: BertWithHead,
    dataset: Dataset,
    totals: Sequence[str],
    columns: dict[str, str],
    curves: dict[str, str],
) -> Run:
    """The run of these flags, on a model that is on its device; all it writes goes into --out.

    Args:
        dataset: to learn from.
        totals: what is summed up; averages are taken over the first.
        columns: of the table: headings and keys.
        curves: metrics of the picture: keys and names.
    """
    loader = TrainingLoader(dataset, args.batch_size, args.seed)
    broadcast_parameters(model)
    optimizer = AdamW(model.parameters(), lr=args.lr)
    accelerate(model, optimizer)
    if args.compile:
        model.compile()
    return Run(
        args,
        model,
        optimizer,
        loader,
        point=ResumePoint(resume_file(args), run_settings(args, ("train", "dev"))),
        checkpoint=args.out,
        totals=totals,
        steps_file=f"{args.out}/steps.csv",
        report=Report(f"{args.out}/", Path(args.out).name, columns, curves),
    )


# ---------------------------------------------------------------------------------------------
# The command line


OUT_HELP = "folder of the model and of all that a run writes (%(default)s)"


@dataclass
class HeadFlags(TrainingFlags):
    """The options of every lesson that trains a head."""

    USUAL_LENGTH: ClassVar[int] = 128
    out: str = flag("predictions/head", help=OUT_HELP)
    lr: float = flag(5e-5, type=positive_float)
    length: int | None = flag(
        None, type=positive_int, help="most word pieces of a row (128, or what the model can read)"
    )
    limit: int | None = flag(
        None, type=positive_int, help="use the first so many examples of each file"
    )
    evaluate: str | None = flag(None, metavar="FILE", help="score a trained model on a file")
    checkpoint: str | None = flag(None, metavar="DIR", help="which model predicts or is scored")
    train: str | None = None
    dev: str | None = None
    predict: str | None = None


Flags = TypeVar("Flags", bound=HeadFlags)


def checked(parser: argparse.ArgumentParser, args: Flags) -> Flags:
    """The flags, after what argparse does not look at: which of them go together."""
    if bool(args.checkpoint) != (args.predict is not None or args.evaluate is not None):
        parser.error("--predict and --evaluate need --checkpoint, and it is for them alone")
    if bool(args.train) != bool(args.dev):
        parser.error("--train and --dev go together")
    if args.reencode:
        parser.error("--reencode is for frozen encoders; here all of BERT learns")
    check_seed(parser, args.seed)
    return args


def train_and_score(
    args,
    default_files: Callable[[HeadFlags], None],
    train: Callable[[HeadFlags], None],
    evaluate: Callable[[HeadFlags], None],
) -> None:
    """Score a model that was trained, or train one and score that."""
    check_writable(args.out)
    if args.evaluate:
        evaluate(args)
        return
    join_processes(args.use_gpu)
    default_files(args)
    args.model = args.model or on_main_process(default_model)
    seed_everything(args.seed)
    train(args)
    if is_main_process():
        args.checkpoint = args.out
        evaluate(args)
        resume_file(args).unlink(missing_ok=True)
