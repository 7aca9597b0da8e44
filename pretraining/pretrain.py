"""Pre-training: from raw text to a BERT, by masked words and next sentences.

python -m pretraining.pretrain --text books/ --out heartbert --preset heartbert --epochs 3
python -m pretraining.pretrain --text books/ --out tiny --preset tiny --objective none --steps 5000
python -m pretraining.pretrain --text reviews.txt --out adapted --model bert-base-uncased
python classifier.py --option finetune --model heartbert
torchrun --nproc_per_node 2 -m pretraining.pretrain --text books/ --out heartbert

The folder --out loads like any pretrained BERT, here and in transformers.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import nn

from config import BertConfig
from optimizer import AdamW
from pretraining.corpus import Corpus, build
from pretraining.examples import PretrainingExamples
from pretraining.flags import PRESETS, SHAPE, PretrainingFlags, get_args
from pretraining.masking import KEYS, pretraining_losses
from pretraining.model import PretrainingModel
from pretraining.report import Report
from pretraining.steps import StepsConfig, StepsModel
from pretraining.vocabulary import find_tokenizer
from tokenizer import BertTokenizer
from training import loop
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.loop.processes import gather
from training.loop.progress import minutes
from utils import seed_everything

# ---------------------------------------------------------------------------------------------
# The model, its optimizer and its batches


def new_model(args: PretrainingFlags, tokenizer: BertTokenizer) -> PretrainingModel:
    """A new model in the shape of --preset or --config, or one with the weights of --model."""
    if args.model:
        model = PretrainingModel.from_pretrained(args.model, objective=args.objective)
    else:
        special = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        shape = dict(zip(SHAPE, PRESETS[args.preset or "heartbert"], strict=True))
        shape = vars(BertConfig.from_json(args.config)) if args.config else shape
        config = BertConfig(**(shape | special))
        if args.architecture == "bert":
            model = PretrainingModel(config, args.objective)
        else:
            steps = StepsConfig(**(vars(config) | {"architecture": args.architecture}))
            model = StepsModel(steps, args.objective)
    if args.dropout is not None:  # of this model, but not of its configuration, which is saved:
        # a text that is read once cannot be learned by heart (Geiping & Goldstein 2023, section
        # 4.2); the few labels of fine-tuning can
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = args.dropout
    config = model.config
    if args.length > config.max_position_embeddings:
        positions = f"{config.max_position_embeddings} positions"
        raise InputError(f"--length {args.length} is more than the model's {positions}; lower it")
    size = sum(p.numel() for p in model.parameters())
    print(
        f"model: {size:,} parameters, hidden size {config.hidden_size}, {config.num_hidden_layers} "
        f"layers, {config.num_attention_heads} heads, {len(tokenizer):,} word pieces"
    )
    return model


class PretrainingLoader(loop.TrainingLoader):
    """Batches of masked rows; every epoch packs and masks the text differently."""

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Pack the epoch's rows, and skip its first batches."""
        if self.dataset.epoch != epoch:
            self.dataset.set_epoch(epoch)
            self.batch_sampler.lengths = self.dataset.lengths()
        super().set_epoch(epoch, skip)
        self.generator = torch.Generator()  # it draws a number, on which dropout must not depend


def new_optimizer(args: PretrainingFlags, model: PretrainingModel) -> AdamW:
    """AdamW, without decay of biases and LayerNorm, as in BERT."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    return AdamW(groups, lr=args.lr, weight_decay=args.weight_decay)


# ---------------------------------------------------------------------------------------------
# Training


def train(args: PretrainingFlags, tokenizer: BertTokenizer, corpus: Corpus) -> None:
    """Pre-train on a corpus; args.out keeps the model with the lowest loss on held-out documents.

    It also gets metrics.json, steps.csv, the last model in last/ and, until the run is
    complete, the file from which --resume continues.
    """
    device = loop.pick_device(args.use_gpu)
    autocast = loop.autocast_for(device, args.precision)
    model = new_model(args, tokenizer).to(device)
    optimizer = new_optimizer(args, model)
    if args.fast:
        loop.speed_up(model, optimizer)
    corpus, held_out = corpus.split(args.held_out, args.seed)
    report = Report(args, tokenizer, held_out)
    examples = PretrainingExamples(args, tokenizer, corpus, args.mask)
    workers = 2 if device.type == "cuda" else 0
    loader = PretrainingLoader(examples, args.batch_size, args.seed, num_workers=workers)
    planned = args.steps or args.epochs * len(loader)
    args.steps = None if args.minutes else planned
    args.eval_every = args.eval_every or max(args.log_every, math.ceil(planned / 20))
    loop.check_device(args, model, {"forward": examples})
    args.checksum_of_text = corpus.checksum()

    with loop.Run(args, model, optimizer, loader, report) as run:
        run.total_steps = args.steps or sys.maxsize
        if run.step == 0:
            report.keep(run)
        for _ in run.epochs():
            for batch in run.batches():
                for inputs in loop.parts(batch, args.accumulate, device, KEYS):
                    with autocast():
                        heads = pretraining_losses(model, *inputs)
                    counts = {"mlm": max(1, batch["masked"])}  # in the whole batch; else its rows
                    loss = sum(
                        predicted.loss / counts.get(head, len(batch["labels"]))
                        for head, predicted in heads.items()
                    )
                    run.scale(loss).backward()
                    fraction = len(inputs[0]) / len(batch["labels"])  # of the batch's rows
                    run.log(fraction, loss=loss / fraction)
                    for head, predicted in heads.items():
                        run.log(predicted.count, **predicted.means(head))
                run.gather_gradients()
                loop.clip(model, args.clip)
                loop.set_lr(optimizer, args, *done_and_total(args, run))
                optimizer.step()
                optimizer.zero_grad()
                report.after_update(run, int(batch["attention_mask"].sum()))
                run.end_step()  # last, so that a resume point has the report's results
            run.end_epoch()
    report.save(model, args.filepath)
    print(f"took {minutes(run.progress.seconds())}; wrote {args.out} (best) and {args.filepath}")


def done_and_total(args: PretrainingFlags, run: loop.Run) -> tuple[float, float]:
    """How much of the run is done, and of how much: steps, or with --minutes seconds."""
    if not args.minutes:
        return run.step, run.total_steps
    seconds, total = gather(run.progress.seconds())[0], 60 * args.minutes
    expected = round(run.step * total / max(seconds, 1e-3))  # steps, at the speed so far
    run.total_steps = run.step + 1 if seconds >= total else max(run.step + 2, expected)
    return seconds, total


def main() -> None:
    """Build the corpus, train on it."""
    args = get_args()
    loop.join_processes(args.use_gpu)
    with loop.sole_run([args]):
        seed_everything(args.seed)
        tokenizer = find_tokenizer(args)
        train(args, tokenizer, build(args.text, tokenizer, args.corpus))


if __name__ == "__main__":
    run_script(main)
