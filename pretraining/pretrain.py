"""Pre-training: from raw text to a BERT, by masked words and the order of sentences.

python pretraining/pretrain.py --text books/ --out heartbert --preset heartbert --epochs 3
python pretraining/pretrain.py --text books/ --out tiny --preset tiny --objective sop --steps 5000
python pretraining/pretrain.py --text reviews.txt --out adapted --model bert-base-uncased
python classifier.py --option finetune --model heartbert
torchrun --nproc_per_node 2 pretraining/pretrain.py --text books/ --out heartbert

How text becomes ids is corpus.py's, how rows are made and masked masking.py's business. What is
written to --out loads as any pretrained BERT, here and in transformers.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # Python puts the folder of the script there

import training.threads  # noqa: F401, before torch

# isort: split
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from config import BertConfig
from optimizer import AdamW
from pretraining.corpus import AS_TYPED, Corpus, build, checked_files, read_blocks, unigram_entropy
from pretraining.masking import IGNORED, MASKED, PretrainingExamples
from pretraining.model import OBJECTIVES, PretrainingModel
from pretraining.presets import PRESETS, preset
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.acceleration import accelerate
from training.cli.arguments import (
    OneLineParser,
    check_seed,
    positive_float,
    positive_int,
    probability,
)
from training.cli.flags import TrainingFlags, add_fields, flag
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import default_model
from training.files.writing import atomic_write, check_writable, write_json
from training.loop.batches import LengthBatches, TrainingLoader
from training.loop.checkpoints import ResumePoint, resume_path, run_settings
from training.loop.devices import keep_freed_memory, pick_device
from training.loop.processes import (
    broadcast_from_main,
    broadcast_parameters,
    is_main_process,
    join_processes,
    on_main_process,
)
from training.loop.progress import minutes, pieces_of, say
from training.loop.run import Run
from utils import seed_everything

# ---------------------------------------------------------------------------------------------
# Losses

# The running sums: masked pieces and pairs of segments, the sums of their losses, and hits
COUNTS = ("masked", "mlm_loss", "mlm_right", "pairs", "pair_loss", "pair_right")
KEYS = ("token_ids", "token_type_ids", "attention_mask", "labels", "next_labels")


def measure(
    model: PretrainingModel,
    ids: Tensor,
    segments: Tensor,
    mask: Tensor,
    labels: Tensor,
    relation: Tensor,
) -> tuple[Tensor, Tensor, dict[str, float]]:
    """The two losses of rows, each summed up, and COUNTS.

    Args:
        ids, segments, mask: (B, L) each.
        labels: (B, L), the piece that was at a chosen position, IGNORED elsewhere.
        relation: (B,), 0 for segments in order and 1 for others.
    """
    chosen = labels != IGNORED  # (B, L), M of them
    segments = segments if model.relation else None  # one segment: all 0, the default
    words, order = model(ids, mask, segments, chosen)  # (M, V), (B, 2)
    true_words = labels[chosen]  # (M,)
    word_loss = F.cross_entropy(words, true_words, reduction="sum")
    found = [word_loss, (words.argmax(dim=-1) == true_words).sum()]
    pair_loss = torch.zeros_like(word_loss)
    if order is not None:
        pair_loss = F.cross_entropy(order, relation, reduction="sum")
        found += [pair_loss, (order.argmax(dim=-1) == relation).sum()]
    sums = torch.stack([one.detach().float() for one in found]).tolist()  # one wait, not four
    counts = dict(zip(("mlm_loss", "mlm_right", "pair_loss", "pair_right"), sums, strict=False))
    pairs = len(ids) if order is not None else 0
    return word_loss, pair_loss, {"masked": len(true_words), "pairs": pairs} | counts


def averages(sums: dict[str, float], objective: str) -> dict[str, float]:
    """Loss and accuracy of masked words, and of the relation if it is learned."""
    found = {
        "mlm_loss": sums["mlm_loss"] / max(1, sums["masked"]),
        "mlm_acc": sums["mlm_right"] / max(1, sums["masked"]),
    }
    if objective != "none":
        found[f"{objective}_loss"] = sums["pair_loss"] / max(1, sums["pairs"])
        found[f"{objective}_acc"] = sums["pair_right"] / max(1, sums["pairs"])
    return found


def weight_decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Groups of parameters for an optimizer: no weight decay on biases and LayerNorm, as BERT."""
    norms = {id(p) for m in model.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters()}
    groups: tuple[list, list] = ([], [])
    for name, parameter in model.named_parameters():
        groups[name.endswith("bias") or id(parameter) in norms].append(parameter)
    rates = (weight_decay, 0.0)
    return [
        {"params": group, "weight_decay": rate} for group, rate in zip(groups, rates, strict=True)
    ]


# ---------------------------------------------------------------------------------------------
# Text → batches


def find_tokenizer(args) -> BertTokenizer:
    """The vocabulary: one trained on the text, or a named one, or the model's."""
    if not args.train_vocab:
        name = args.vocab or args.model or on_main_process(default_model)
        return BertTokenizer.from_pretrained(name)
    trouble = ""
    goes_on = args.resume and resume_path(args.out / "pretrain").is_file()
    if is_main_process() and not goes_on:
        try:
            train_vocabulary(args.text, args.train_vocab).save_pretrained(args.out)
        except InputError as error:
            trouble = str(error)
    trouble = broadcast_from_main(trouble)
    if trouble:
        raise InputError(trouble)
    return BertTokenizer.from_pretrained(str(args.out.resolve()))


def train_vocabulary(sources: Sequence[Path], size: int) -> BertTokenizer:
    """A WordPiece vocabulary of that many pieces, learned from text by the tokenizers library.

    It is put in alphabetical order: the library numbers some pieces differently each time, and a
    seed would not give the same model again.
    """
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError as error:
        raise InputError(
            "--train_vocab needs Hugging Face's tokenizers (pip install tokenizers); without it "
            "take a ready vocabulary by --vocab DIR"
        ) from error
    texts = (
        block.text.decode(errors="replace").translate(AS_TYPED)
        for block in read_blocks(checked_files(sources))
    )
    learner = BertWordPieceTokenizer(lowercase=True)
    special = list(SPECIAL_TOKENS)
    learner.train_from_iterator(texts, size, special_tokens=special, show_progress=False)
    learned = sorted(learner.get_vocab().keys() - set(special))
    count = len(special) + len(learned)
    print(f"vocabulary: {count:,} pieces learned from the text (--train_vocab {size:,})")
    return BertTokenizer([*special, *learned])


def make_examples(
    args, tokenizer: BertTokenizer, corpus: Corpus, probability: float
) -> PretrainingExamples:
    """Rows of a corpus as the flags ask for them, with that share of pieces masked."""
    return PretrainingExamples(
        corpus,
        tokenizer,
        args.objective,
        args.length,
        args.seed,
        full_sentences=args.full_sentences,
        whole_word=args.whole_word,
        probability=probability,
    )


# ---------------------------------------------------------------------------------------------
# Training


def new_model(args, tokenizer: BertTokenizer) -> PretrainingModel:
    """From scratch in the shape of --preset or --config, or on from the weights of --model."""
    if args.model:
        model = PretrainingModel.from_pretrained(args.model, objective=args.objective)
    else:
        special = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        if args.config:
            config = BertConfig(**(BertConfig.from_json(args.config).to_dict() | special))
        else:
            config = preset(args.preset, **special)
        model = PretrainingModel(config, args.objective)
    if args.dropout is not None:
        set_dropout(model, args.dropout)
    config = model.config
    if args.length > config.max_position_embeddings:
        raise InputError(
            f"--length {args.length} is more than the model's {config.max_position_embeddings} "
            f"positions; take a shorter one or another shape"
        )
    size = sum(p.numel() for p in model.parameters())
    print(
        f"model: {size:,} parameters, hidden size {config.hidden_size}, {config.num_hidden_layers} "
        f"layers, {config.num_attention_heads} heads, {len(tokenizer):,} word pieces"
    )
    return model


def set_dropout(model: nn.Module, probability: float) -> None:
    """Change the dropout of this model, and not that of its configuration, which is saved with it.

    A text that is read once cannot be learned by heart (Geiping & Goldstein 2023, section 4.2);
    the few labels of fine-tuning can.
    """
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = probability


class PretrainingLoader(TrainingLoader):
    """Batches of masked rows; every epoch packs and masks the text in another way."""

    def __init__(self, examples: PretrainingExamples, batch_size: int, seed: int, workers: int):
        examples.set_epoch(1)
        super().__init__(examples, batch_size, seed, num_workers=workers)

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Pack the epoch's rows, and leave out its first batches."""
        if self.dataset.epoch != epoch:
            self.dataset.set_epoch(epoch)
            self.batch_sampler.lengths = self.dataset.lengths()
        super().set_epoch(epoch, skip)
        self.generator = torch.Generator()  # it draws a number, on which dropout must not depend


def train(args, tokenizer: BertTokenizer, corpus: Corpus) -> None:
    """Pre-train on a corpus; the best model on held-out documents is kept in args.out.

    Beside it: curves.png, metrics.json, steps.csv, the last model in last/, and while it runs a
    file that --resume goes on from.
    """
    keep_freed_memory()
    device = pick_device(args.use_gpu)
    model = new_model(args, tokenizer)
    broadcast_parameters(model.to(device))
    optimizer = AdamW(weight_decay_groups(model, args.weight_decay), lr=args.lr)
    # on a GPU PyTorch's kernel is faster in training too; on a CPU with dropout it is not
    accelerate(model, optimizer, kernel_in_training=device.type == "cuda")
    if args.compile:
        model.compile()
    held = None
    if args.held_out:
        corpus, held_out = corpus.split(args.held_out, args.seed)
        held = HeldOut(args, tokenizer, held_out)
    check_size(corpus, args.length, "the text", "give more text, or a smaller --length")
    examples = make_examples(args, tokenizer, corpus, args.mask)
    loader = PretrainingLoader(examples, args.batch_size, args.seed, args.workers)
    args.steps = args.steps or args.epochs * len(loader)
    args.eval_every = args.eval_every or max(args.log_every, math.ceil(args.steps / 20))

    tables = Tables()
    say_plan(args, len(loader))
    with new_run(args, model, optimizer, loader, corpus, tables) as run:
        if run.step_number == 0:
            keep_checkpoint(args, tokenizer, model, -1, 0)
        for _ in run.epochs():
            for batch in run.batches():
                masked = max(1, int((batch["labels"] != IGNORED).sum()))
                for inputs in run.micro_batches(batch, KEYS):
                    with run.autocast():
                        word_loss, pair_loss, counts = measure(model, *inputs)
                    run.backward(word_loss / masked + pair_loss / len(batch["labels"]))
                    run.add(**counts)
                run.step()
                read = run.progress.begun_pieces
                keep_checkpoint(args, tokenizer, model, read - pieces_of(batch), read)
                is_last = run.step_number == args.steps
                if is_last or run.step_number % args.log_every == 0:
                    tables.training.append(end_row(run, args.objective))
                if is_last or run.step_number % args.eval_every == 0:
                    evaluate(args, tokenizer, model, held, run, tables)
            run.end_epoch()
    save(model, tokenizer, args.out / "last")
    took = minutes(run.progress.seconds())
    print(f"took {took}; wrote {args.out} (best) and {args.out / 'last'}")
    if is_main_process():
        run.point.path.unlink(missing_ok=True)


class Tables:
    """The rows of both tables: in training every --log_every steps, on held-out text."""

    def __init__(self):
        self.training: list[dict] = []
        self.held_out: list[dict] = []

    def state_dict(self) -> dict:
        """For a run that goes on."""
        return vars(self)

    def load_state_dict(self, state: dict) -> None:
        """Go on from there."""
        self.__dict__.update(state)


def new_run(args, model, optimizer, loader, corpus: Corpus, tables: Tables) -> Run:
    """The run of these flags: how long it is, its files and what it sums up."""
    return Run(
        args,
        model,
        optimizer,
        loader,
        point=ResumePoint(resume_path(args.out / "pretrain"), settings(args, corpus)),
        checkpoint=str(args.out),
        totals=COUNTS,
        steps_file=args.out / "steps.csv",
        steps=args.steps,
        stateful={"tables": tables},
    )


def settings(args, corpus: Corpus) -> dict[str, Any]:
    """What has to be the same for a run to be resumed; the text is known by its contents."""
    free = ("text", "corpus", "vocab", "limit", "epochs", "workers", "keep_at")
    config = args.config and BertConfig.from_json(args.config).to_dict()
    text = [file["sha256"][:16] for file in corpus.description["files"].values()]
    return run_settings(args, (), free) | {"config": config, "text": "-".join(text)}


# ---------------------------------------------------------------------------------------------
# Held-out text


def check_size(corpus: Corpus, length: int, what: str, remedy: str) -> None:
    """InputError if a text does not fill one row."""
    if corpus.n_tokens < length:
        raise InputError(
            f"{what} has {corpus.n_tokens:,} word pieces, less than one row of {length}; {remedy}"
        )


class HeldOut:
    """Rows of documents that are not trained on, with the same masks in every evaluation.

    15 % of the pieces are masked, whatever --mask says: so losses can be compared.

    Whole batches of some args.eval_rows rows, drawn at random: that bounds an evaluation's time.
    """

    def __init__(self, args, tokenizer: BertTokenizer, corpus: Corpus):
        if args.objective == "nsp" and corpus.n_documents < 2:
            raise InputError(
                "the held-out text is one document, and next sentences need two; give more text, "
                "a larger --held_out, or --objective sop"
            )
        check_size(corpus, args.length, "the held-out text", "give more text, or --held_out 0")
        self.entropy = unigram_entropy(corpus)
        self.examples = make_examples(args, tokenizer, corpus, MASKED)
        # they come in random order, so that the first of them are a choice by chance
        batches = LengthBatches(self.examples.lengths(), args.batch_size, args.seed)
        self.batches = list(islice(batches, math.ceil(args.eval_rows / args.batch_size)))

    @torch.no_grad()
    def measure(self, model: PretrainingModel, autocast) -> dict[str, float]:
        """Losses, accuracies and the perplexity exp(loss) of masked words."""
        device = model.decoder_bias.device
        sums = dict.fromkeys(COUNTS, 0.0)
        model.eval()
        for rows in self.batches:
            batch = self.examples.collate_fn([self.examples[i] for i in rows])
            with autocast():
                _, _, counts = measure(model, *(batch[key].to(device) for key in KEYS))
            sums = {name: sums[name] + counts.get(name, 0.0) for name in COUNTS}
        model.train()
        found = averages(sums, model.objective)
        return found | {"perplexity": math.exp(min(found["mlm_loss"], 700.0))}


def evaluate(args, tokenizer, model, held: HeldOut | None, run: Run, tables: Tables) -> None:
    """Measure the held-out text, keep the model if it is the best yet, write the curves."""
    if held is None:
        save(model, tokenizer, args.out)
    else:
        row = {"step": run.step_number, "pieces": run.progress.begun_pieces}
        row |= broadcast_from_main(held.measure(model, run.autocast))
        tables.held_out.append(row)
        say(
            f"held-out text at step {row['step']}: mlm loss {row['mlm_loss']:.3f} (unigram "
            f"entropy {held.entropy:.3f}), perplexity {row['perplexity']:.1f}, "
            f"accuracy {row['mlm_acc']:.3f}" + say_relation(row, args.objective)
        )
        if run.is_best(-row["mlm_loss"]):
            save(model, tokenizer, args.out)
    record(args, tables, held.entropy if held else None, run.progress.seconds())


def keep_checkpoint(args, tokenizer, model: PretrainingModel, before: int, read: int) -> None:
    """Write OUT/pieces-N for each N of --keep_at to which a step has come from ``before``."""
    for wanted in args.keep_at:
        if before < wanted <= read and is_main_process():
            save(model, tokenizer, args.out / f"pieces-{wanted}")


def save(model: PretrainingModel, tokenizer: BertTokenizer, folder: Path) -> None:
    """Weights, configuration and vocabulary."""
    tokenizer.save_pretrained(folder, model.config.max_position_embeddings)
    model.save_pretrained(folder)


# ---------------------------------------------------------------------------------------------
# What is printed, written and drawn


def say_plan(args, batches: int) -> None:
    """How long the run is, and the head of the table."""
    print(
        f"plan: {args.steps:,} steps of {args.batch_size} rows of up to {args.length} pieces "
        f"({args.steps / batches:.2f} epochs), lr {args.lr:g}, an evaluation on held-out text "
        f"every {args.eval_every:,} steps"
    )
    pair = "" if args.objective == "none" else f"  {args.objective} loss   acc"
    print(f"   step  mlm loss    acc{pair}   pieces/s   time left")


def end_row(run: Run, objective: str) -> dict:
    """Print a line of the table, begin the next one; its losses and accuracies."""
    row = {"step": run.step_number} | averages(run.totals.sums, objective)
    run.totals.clear()
    pair = ""
    if objective != "none":
        pair = f"  {row[f'{objective}_loss']:8.3f} {row[f'{objective}_acc']:.3f}"
    speed, left = run.progress.speed(), run.progress.left()
    say(
        f"{row['step']:7d}  {row['mlm_loss']:8.3f}  {row['mlm_acc']:.3f}{pair}"
        f" {'?' if speed is None else f'{speed:,.0f}':>10}"
        f"  {'?' if left is None else minutes(left):>10}"
    )
    return row


def say_relation(row: dict, objective: str) -> str:
    """The second head's accuracy, if there is one."""
    return "" if objective == "none" else f", {objective} accuracy {row[f'{objective}_acc']:.3f}"


def record(args, tables: Tables, entropy: float | None, seconds: float) -> None:
    """Write metrics.json and the curves of the run so far."""
    metrics = {
        "best": min(tables.held_out, key=lambda row: row["mlm_loss"], default=None),
        "unigram_entropy": entropy,
        "held_out": tables.held_out,
        "training": tables.training,
        "seconds": round(seconds, 1),
        "args": json.loads(json.dumps(vars(args), default=str)),  # paths as text
    }
    write_json(args.out / "metrics.json", metrics)
    plot(args.out / "curves.png", tables.training, tables.held_out, entropy, args.objective)


def plot(
    path: Path, rows: list[dict], held_out: list[dict], entropy: float | None, objective: str
) -> None:
    """A PNG: the loss of masked words against the unigram entropy, and the accuracies, by step."""
    from matplotlib.figure import Figure  # here, because importing it takes long

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(left, rows, held_out, "mlm_loss", "masked words", "C0")
    if entropy is not None:
        left.axhline(entropy, color="gray", ls=":", label="unigram entropy, held-out")
    draw(right, rows, held_out, "mlm_acc", "masked words", "C0")
    if objective != "none":
        draw(right, rows, held_out, f"{objective}_acc", objective.upper(), "C1")
    left.set(title="loss of masked words, nats", xlabel="step")
    right.set(title="accuracy", xlabel="step", ylim=(0, 1))
    for axes in (left, right):
        axes.legend(fontsize=8)
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)


def draw(axes, rows: list[dict], held_out: list[dict], key: str, name: str, color: str) -> None:
    """One quantity: thin in training, with dots on held-out text."""
    for table, style, kind in (
        (rows, {"lw": 0.8, "alpha": 0.6}, "training"),
        (held_out, {"marker": "o", "ms": 3}, "held-out"),
    ):
        if table:
            x, y = zip(*((row["step"], row[key]) for row in table), strict=True)
            axes.plot(x, y, color=color, label=f"{name}, {kind}", **style)


# ---------------------------------------------------------------------------------------------
# The command line


@dataclass
class PretrainingFlags(TrainingFlags):
    """The command line's options; the schedule's defaults are BERT's, but for a longer warm-up."""

    text: list[Path] | None = flag(
        None,
        nargs="+",
        type=Path,
        required=True,
        help="text files, or folders of *.txt: a paragraph a line, a blank line between documents",
    )
    out: Path | None = flag(
        None, type=Path, required=True, help="folder of the model, curves.png, metrics.json"
    )
    preset: str | None = None  # of these three one: their options exclude each other
    config: Path | None = None
    model: str | None = None
    objective: str = flag(
        "nsp",
        choices=OBJECTIVES,
        help="next to masked words: does the second segment follow (nsp), are the two in order "
        "(sop), or no second segment (none)",
    )
    whole_word: bool = flag(False, action="store_true", help="mask all pieces of a word or none")
    mask: float = flag(MASKED, type=probability, help="share of the pieces that are masked")
    full_sentences: bool = flag(
        False,
        action="store_true",
        help="fill rows across documents, as RoBERTa; with --objective none",
    )
    length: int = flag(128, type=positive_int, help="pieces a row")
    batch_size: int = flag(32, type=positive_int, help="rows a step")
    epochs: int = flag(1, type=positive_int, help="times the length of the first epoch")
    steps: int | None = flag(None, type=positive_int, help="or so many steps")
    lr: float | None = flag(None, type=positive_float, help="5e-4 from scratch, 5e-5 with --model")
    dropout: float | None = flag(
        None, type=probability, help="while it is pre-trained; the configuration's"
    )
    weight_decay: float = flag(0.01, type=probability, help="not on biases and LayerNorm")
    clip: float | None = flag(1.0, type=positive_float, help="largest norm of all gradients")
    warmup: float = flag(0.1, type=probability, help="share of the steps with rising lr")
    decay: bool = flag(
        True,
        action=argparse.BooleanOptionalAction,
        help="let lr fall linearly to 0 after the warm-up",
    )
    patience: int | None = flag(
        None,
        type=positive_int,
        help="stop after that many evaluations on held-out text without a better one",
    )
    reencode: bool = False  # no option: all of the model learns
    limit: int | None = flag(None, type=positive_int, help="take the first so many sentences")
    held_out: float = flag(0.02, type=probability, help="share of documents to measure on; 0: none")
    eval_rows: int = flag(1024, type=positive_int, help="about so many rows, in whole batches")
    eval_every: int | None = flag(
        None,
        type=positive_int,
        help="steps between evaluations on them; a twentieth of the run",
    )
    keep_at: list[int] = flag(
        [],
        nargs="+",
        type=int,
        metavar="PIECES",
        help="keep the model, in OUT/pieces-N, when it has read N word pieces (0: as it begins)",
    )
    log_every: int = flag(50, type=positive_int, help="steps between rows of the table")
    corpus: Path | None = flag(None, type=Path, help="folder of the tokenized text; OUT/corpus")
    vocab: str | None = None  # of these two one
    train_vocab: int | None = None
    workers: int = flag(0, type=int, help="processes that make batches ahead")


def make_parser() -> argparse.ArgumentParser:
    """The options of PretrainingFlags."""
    parser = OneLineParser(prog="pretrain.py", description="Pre-train a BERT on raw text.")
    add_fields(parser, PretrainingFlags)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--preset", choices=tuple(PRESETS), help="shape; heartbert if nothing else")
    shape.add_argument("--config", type=Path, help="or the config.json of a shape")
    shape.add_argument("--model", help="or go on from a pretrained model, name or folder")
    vocabulary = parser.add_mutually_exclusive_group()
    vocabulary.add_argument("--vocab", help="model or folder whose vocabulary is taken")
    vocabulary.add_argument(
        "--train_vocab",
        type=positive_int,
        metavar="SIZE",
        help="learn one from the text (needs the tokenizers library)",
    )
    return parser


def get_args(arguments: Sequence[str] | None = None) -> PretrainingFlags:
    """Read and check the command line."""
    parser = make_parser()
    args = parser.parse_args(arguments, namespace=PretrainingFlags())
    if args.full_sentences and args.objective != "none":
        parser.error("--full_sentences has no second segment: give --objective none with it")
    if args.model and (args.vocab or args.train_vocab):
        parser.error("--model keeps its vocabulary; --vocab and --train_vocab need a new model")
    if args.length < 8:
        parser.error("--length must be at least 8")
    if not args.mask:
        parser.error("--mask 0 leaves nothing to predict")
    if args.workers < 0:
        parser.error("--workers must be at least 0")
    check_seed(parser, args.seed)
    if not (args.preset or args.config or args.model):
        args.preset = "heartbert"
    args.lr = args.lr or (5e-5 if args.model else 5e-4)
    args.corpus = args.corpus or args.out / "corpus"
    if args.patience and not args.held_out:
        parser.error("--patience looks at held-out text, of which --held_out 0 keeps none")
    for text in args.text:
        if args.out.resolve().is_relative_to(text.resolve()):
            parser.error(f"--out {args.out} lies in --text {text}, and would be read as text")
    return args


def main() -> None:
    """Build the corpus, train on it."""
    args = get_args()
    join_processes(args.use_gpu)
    check_writable(args.out)
    for left in (*args.out.glob(".*.part"), *(args.out / "last").glob(".*.part")):
        if is_main_process():
            left.unlink()  # what a run that was killed had begun to write
    seed_everything(args.seed)
    tokenizer = find_tokenizer(args)
    corpus = build(args.text, tokenizer, args.corpus, limit=args.limit)
    train(args, tokenizer, corpus)


if __name__ == "__main__":
    run_script(main)
