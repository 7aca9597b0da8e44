"""How fast we train and predict, compared with transformers, alternating on the same sentences.

    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2 [--use_gpu]

Prints Markdown tables, values as median (minimum–maximum) over --repeats rounds. Each contender is
a process of its own; its first steps, evaluation and files are not timed. The last column counts
the products of the whole model without padding, against those of two large matrices in bf16. -P
keeps our datasets.py from shadowing a library that Trainer looks for.
Needs: pip install -r requirements-dev.txt accelerate==1.15.0 sentence-transformers==6.2.0
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pandas as pd
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import classifier
from config import BertConfig
from datasets import load_data
from evaluation import classify
from research.experiments.results import machine
from tokenizer import BertTokenizer
from training import loop
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.cli.sentiment_flags import ClassifierFlags
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.files.hub import find_model
from training.loop.run import Run

os.environ["HF_HUB_OFFLINE"] = "1"
LR, BATCHES, PREDICTED = 5e-5, (8, 32), 1000
WARM_UP, STEPS = 5, 40  # the first steps are not timed
DEV = ROOT / "data" / "practice" / "ids-sst-dev.csv"

# ---------------------------------------------------------------------------------------------
# What is timed. A job: model, file, batch, use_gpu. The file has as many rows as all steps read, so
# that every contender sees the same sentences


class Done(Exception):
    """The last step has been made."""


class Clock:
    """Counts the sentences and the seconds of all steps but the first WARM_UP ones."""

    def __init__(self, job: SimpleNamespace):
        self.job, self.step, self.seconds = job, 0, 0.0

    def tick(self) -> None:
        """Call it after every step.

        Raises:
            Done: that was the last one.
        """
        self.step += 1
        if self.step in (WARM_UP, WARM_UP + STEPS):
            if self.job.use_gpu:
                torch.cuda.synchronize()
            self.seconds = time.perf_counter() - self.seconds
        if self.step == WARM_UP + STEPS:
            raise Done


def ours(job: SimpleNamespace, clock: Clock, flag: str = "") -> None:
    """The script itself, with a look at the clock after each of its steps."""
    end_step = Run.end_step

    def end_step_and_tick(run: Run) -> None:
        end_step(run)
        clock.tick()

    options = {"train": job.file, "dev": DEV, "model": job.model, "option": "finetune"}
    options |= {"epochs": 1, "lr": LR, "batch_size": job.batch}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    on_gpu = ["--use_gpu", "--trust_device"] if job.use_gpu else []
    sys.argv = ["classifier.py", *words, *on_gpu, *filter(None, [flag])]
    with mock.patch.object(Run, "end_step", end_step_and_tick):
        classifier.main()


def theirs(job: SimpleNamespace, attention: str = "sdpa") -> tuple:
    """Tokenizer and classifier of transformers with the same weights; texts and labels."""
    sys.path[:] = [folder for folder in sys.path if folder != str(ROOT)]  # where datasets.py is
    from transformers import AutoTokenizer, BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(
        job.model, num_labels=5, attn_implementation=attention
    ).train()
    table = pd.read_csv(job.file, sep="\t")
    texts, labels = table["sentence"].tolist(), table["sentiment"].tolist()
    return AutoTokenizer.from_pretrained(job.model), model, texts, labels


def trainer(job: SimpleNamespace, clock: Clock, unpadded: bool = False) -> None:
    """transformers.Trainer, by length, in bf16, on ids; or with all texts of a batch in a row."""
    import transformers

    if unpadded and not transformers.utils.is_flash_attn_2_available():
        raise InputError("skipped: needs a GPU and flash-attn")
    attention = "flash_attention_2" if unpadded else "sdpa"
    tokenizer, model, texts, labels = theirs(job, attention)
    flatten = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True)

    class Ticks(transformers.TrainerCallback):
        def on_step_end(self, *_: object, **__: object) -> None:
            clock.tick()

    class Unpadded(transformers.Trainer):
        def compute_loss(self, model: Any, inputs: dict, *_: object, **__: object) -> Any:
            """Of the first positions of all texts, which are in one row: (1, tokens)."""
            targets = inputs.pop("labels")  # (B,)
            hidden = model.bert(**inputs).last_hidden_state  # (1, tokens, D)
            first = hidden[0, inputs["cu_seq_lens_q"][:-1].long()]  # (B, D)
            logits = model.classifier(model.dropout(model.bert.pooler(first[:, None])))
            return torch.nn.functional.cross_entropy(logits.float(), targets)

    def collate(rows: list[dict]) -> dict:
        targets = torch.tensor([row["labels"] for row in rows])
        return flatten([{"input_ids": row["input_ids"]} for row in rows]) | {"labels": targets}

    encoded = [
        {**tokenizer(text, truncation=True), "labels": label}
        for text, label in zip(texts, labels, strict=True)
    ]
    arguments = transformers.TrainingArguments(
        "trainer", per_device_train_batch_size=job.batch, num_train_epochs=1, learning_rate=LR,
        save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=not job.use_gpu,
        bf16=True, train_sampling_strategy="group_by_length", remove_unused_columns=False,
    )  # fmt: skip
    kinds = transformers.Trainer, transformers.DataCollatorWithPadding(tokenizer)
    kind, collator = (Unpadded, collate) if unpadded else kinds
    kind(model, arguments, collator, train_dataset=encoded, callbacks=[Ticks()]).train()


# ---------------------------------------------------------------------------------------------
# Predictions for the same texts, with tokenization: functions that return what is timed


def our_predictions(job: SimpleNamespace, by_line: bool = False) -> Callable[[], object]:
    """The evaluation of classifier.py with --fast, or its --predict, one text after the other."""
    device = loop.pick_device(job.use_gpu)
    flags = ClassifierFlags(model=job.model, option="finetune", dev=str(DEV))
    model, config = classifier.new_model(flags, 5)
    model.to(device).eval()
    texts = classifier.SentimentDataset(load_data(job.file, "train")[0], config)
    if by_line:
        mock.patch.object(classifier, "load_model", return_value=(model, config)).start()
        return lambda: classifier.predict([text for text, *_ in texts], "", job.use_gpu)
    loop.speed_up(model)
    loader = loop.evaluation_loader(texts, job.batch)
    autocast = loop.autocast_for(device, "auto")()
    return autocast(lambda: classify(loader, model, device))


def their_predictions(job: SimpleNamespace) -> Callable[[], object]:
    """A loop over batches of texts of similar length, in bf16."""
    tokenizer, model, texts, _ = theirs(job)
    device = torch.device("cuda" if job.use_gpu else "cpu")
    model.to(device).eval()

    @torch.no_grad()
    @torch.autocast(device.type, torch.bfloat16)
    def predict() -> None:
        for rows in torch.tensor([len(text) for text in texts]).argsort().split(job.batch):
            chosen = [texts[i] for i in rows]
            batch = tokenizer(chosen, padding=True, truncation=True, return_tensors="pt")
            model(**batch.to(device)).logits.argmax(dim=-1).tolist()

    return predict


def vectors(job: SimpleNamespace) -> Callable[[], object]:
    """sentence-transformers, which returns vectors."""
    _, _, texts, _ = theirs(job)
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(job.model, device="cuda" if job.use_gpu else "cpu")
    return lambda: model.encode(texts, batch_size=job.batch)


TRAINING = {"ours --fast": partial(ours, flag="--fast"), "ours": ours}
TRAINING |= {"trainer": trainer, "unpadded": partial(trainer, unpadded=True)}
PREDICTING = {"dev, --fast": our_predictions, "--predict": partial(our_predictions, by_line=True)}
PREDICTING |= {"transformers": their_predictions, "sentence-tr.": vectors}


def rate_of(contender: str, job: SimpleNamespace) -> float | str:
    """Sentences a second of a contender, or why it was skipped."""
    os.chdir(Path(job.file).parent)
    torch.manual_seed(0)
    clock = Clock(job)
    with redirect_stdout(sys.stderr):
        try:
            if contender in TRAINING:
                TRAINING[contender](job, clock)
            predict = PREDICTING[contender](job)
            start = time.perf_counter()
            predict()
            return PREDICTED / (time.perf_counter() - start)
        except Done:
            return job.batch * STEPS / clock.seconds
        except InputError as error:
            return str(error)


def peak(use_gpu: bool) -> float:
    """The most floating-point operations a second: of products of two matrices in bf16."""
    device, size, times = ("cuda", 8192, []) if use_gpu else ("cpu", 1536, [])
    matrix = torch.ones(size, size, dtype=torch.bfloat16, device=device)
    for _ in range(10):
        start = time.perf_counter()
        (matrix @ matrix)[0, 0].item()  # waits for the GPU
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)


def work_of(job: SimpleNamespace) -> float:
    """Floating-point operations of a forward pass of a text of the mean length."""
    config = BertConfig.from_pretrained(job.model)
    tokenizer = BertTokenizer.from_pretrained(job.model)
    texts = pd.read_csv(job.file, sep="\t")["sentence"]
    length = sum(len(tokenizer.tokenize(text)) + 2 for text in texts) / len(texts)
    width = config.hidden_size
    matrices = 4 * width**2 + 2 * width * config.intermediate_size
    return 2 * length * config.num_hidden_layers * (matrices + 2 * length * width)


# ---------------------------------------------------------------------------------------------
# Running, and showing what came out


def spread(values: Iterable[float], digits: int) -> str:
    """Median (minimum–maximum)."""
    values = list(values)
    shown = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
    return "{} ({}–{})".format(*shown)


def table(contenders: dict, job: SimpleNamespace, pool: Any, repeats: int) -> Iterator[str]:
    """Markdown: rates, how many times the first one is as fast, by round, and the peak's share."""
    rates: dict[str, list] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, own in rates.items():
            own.append(pool.apply(rate_of, (name, job)))
    first, *_ = rates.values()
    passes = 3 if contenders is TRAINING else 1  # backwards twice as much
    share = 100 * passes * work_of(job) / pool.apply(peak, (job.use_gpu,))
    for name, own in rates.items():
        cells = own[0], "", ""
        if not isinstance(own[0], str):
            factors = (ahead / rate for ahead, rate in zip(first, own, strict=True))
            cells = spread(own, 1), spread(factors, 2), f"{share * median(own):.0f}"
        yield f"| {job.batch} | {name} | {' | '.join(cells)} |"


def main() -> None:
    """Measure and print the tables."""
    parser = OneLineParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", help="folder of the course files ($MINBERT_DATA does the same)")
    add("--model", help="name or folder of the pretrained BERT")
    add("--use_gpu", action="store_true", help="CUDA")
    add("--repeats", type=int, default=5, help="rounds, in each of which all contenders run once")
    args = parser.parse_args()
    everything = pd.read_csv(data_folder(args.data) / "ids-sst-train.csv", sep="\t", index_col=0)
    shared = {"model": str(find_model(args.model)), "use_gpu": args.use_gpu}
    print(f"{machine(args.use_gpu)}, {args.repeats} rounds")
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, fresh.Pool(1, maxtasksperchild=1) as pool:
        for contenders in (TRAINING, PREDICTING):
            print("\n| batch | contender | sentences/s | ours is … × as fast | % of the peak |")
            print("|--:|---|--:|--:|--:|", flush=True)
            for batch in BATCHES if contenders is TRAINING else BATCHES[1:]:
                count = batch * (WARM_UP + STEPS) if contenders is TRAINING else PREDICTED
                file = Path(folder, f"{count}.csv")
                sample = everything.sample(count, replace=count > len(everything), random_state=0)
                sample["id"] = [f"{number:025x}" for number in range(count)]
                sample.reset_index(drop=True).to_csv(file, sep="\t")
                job = SimpleNamespace(**shared, batch=batch, file=str(file))
                print(*table(contenders, job, pool, args.repeats), sep="\n", flush=True)


if __name__ == "__main__":
    run_script(main)
