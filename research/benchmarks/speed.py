"""How fast we train and predict, compared with transformers, alternating on the same sentences.

    python -P research/benchmarks/speed.py --data DIR --model all-MiniLM-L6-v2 [--use_gpu]

Prints the tables of docs/measured.md: medians (minimum–maximum) of --repeats rounds. The factor is
how many times the first contender is as fast, by round. Each one is a process of its own. The peak
is that of two large matrices in bf16; against it count the model's products without padding. -P
keeps our datasets.py from shadowing a library that Trainer looks for. What needs a GPU is skipped
without one, and a line says so.
Needs: pip install -r requirements-dev.txt accelerate==1.15.0 sentence-transformers==6.2.0
"""

import importlib.util
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace
from unittest import mock

import pandas as pd
import sklearn.metrics  # noqa: F401 - or the evaluation's time would contain it
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.benchmark import Timer

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import classifier
from config import BertConfig
from pretraining.masking import MASKED, mask_tokens
from pretraining.model import PretrainingModel
from research.benchmarks.fixed_shapes import fixed_steps, most_masked, padded, positions_of
from research.experiments.results import machine
from training import fast, loop
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.cli.sentiment_flags import ClassifierFlags
from training.files.course_files import data_folder
from training.files.hub import find_model
from training.loop.run import Run

os.environ["HF_HUB_OFFLINE"] = "1"
LR, BATCHES, PREDICTED = 5e-5, (8, 32), 1000
LENGTH = 128  # of rows in pre-training, in tokens
WARM_UP, STEPS = 5, 40  # the first steps are not timed
DEV = ROOT / "data" / "practice" / "ids-sst-dev.csv"

# ---------------------------------------------------------------------------------------------
# Contenders. Each takes a job (model, use_gpu, batch, and a file with as many rows as all steps
# read, so that all see the same sentences) and returns the function that is timed


def tick(job: SimpleNamespace) -> None:
    """Note the time: call it first, after each step of training, and last."""
    if job.use_gpu and len(job.times) in job.timed:
        torch.cuda.synchronize()
    job.times.append(time.perf_counter())


def our_flags(job: SimpleNamespace, **flags: object) -> ClassifierFlags:
    """Those of classifier.py; its files go into the working directory."""
    shared = {"model": job.model, "option": "finetune", "batch_size": job.batch, "epochs": 1}
    files = {"train": job.file, "dev": str(DEV), "dev_out": "dev.csv", "filepath": "model.pt"}
    flags |= {"lr": LR, "use_gpu": job.use_gpu, "trust_device": True}
    return ClassifierFlags(**shared, **files, **flags)


def ours(job: SimpleNamespace, is_fast: bool = False) -> Callable[[], object]:
    """The training of classifier.py."""
    end_step = Run.end_step
    mock.patch.object(Run, "end_step", lambda run: (end_step(run), tick(job))).start()
    return partial(classifier.train, our_flags(job, fast=is_fast))


def in_fixed_shapes(
    job: SimpleNamespace, model: torch.nn.Module, loss_of: Callable, batches: Callable, **options
) -> Callable[[], object]:
    """Training by fixed_steps: an epoch of ``batches()`` meets all shapes before the timing."""
    fast.replace_by_kernels(model.to(loop.pick_device(job.use_gpu)).train())
    step = fixed_steps(model, loss_of, LR, **options)

    def train() -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for epoch in (1, 2):
                for batch in batches():
                    step(*batch)
                    if epoch == 2:
                        tick(job)

    return train


def ours_recorded(job: SimpleNamespace) -> Callable[[], object]:
    """The training of classifier.py, with a recorded step for every 16 tokens of length."""
    data = classifier.read_data(flags := our_flags(job), "train")["train"]
    model, _ = classifier.new_model(flags)
    loader = loop.TrainingLoader(data, job.batch, flags.seed)

    def loss_of(ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(model(ids, mask).float(), labels)

    def batches() -> Iterator[tuple[Tensor, ...]]:
        for batch in loader:
            yield padded(job.batch, batch["token_ids"], batch["attention_mask"], batch["labels"])

    return in_fixed_shapes(job, model, loss_of, batches)


def pretraining(job: SimpleNamespace, **options: Callable) -> Callable[[], object]:
    """Masked words in rows of random tokens, a fixed number of them in a batch."""
    model = PretrainingModel.from_pretrained(job.model, objective="none")
    size, count = job.config.vocab_size, most_masked(job.batch * LENGTH)

    def loss_of(ids: Tensor, mask: Tensor, positions: Tensor, labels: Tensor) -> Tensor:
        words, _ = model(ids, mask, None, positions)  # (count, V)
        return cross_entropy(words, labels)

    def batches() -> Iterator[tuple[Tensor, ...]]:
        for _ in range(job.timed[1]):
            ids = torch.randint(size, (job.batch, LENGTH))
            inputs, labels = mask_tokens(ids, torch.zeros_like(ids).bool(), 0, size)
            yield inputs, torch.ones_like(ids), *positions_of(labels, count)

    return in_fixed_shapes(job, model, loss_of, batches, **options)


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


def trainer(job: SimpleNamespace, unpadded: bool = False) -> Callable[[], object]:
    """transformers.Trainer, by length, in bf16, on ids; or with all texts of a batch in a row."""
    import transformers

    tokenizer, model, texts, labels = theirs(job, "flash_attention_2" if unpadded else "sdpa")
    flatten = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True)

    class Ticks(transformers.TrainerCallback):
        def on_step_end(self, *_: object, **__: object) -> None:
            tick(job)

    class Unpadded(transformers.Trainer):
        def compute_loss(self, model: torch.nn.Module, inputs: dict, *_, **__) -> torch.Tensor:
            """Of the first positions of all texts, which are in one row: (1, tokens)."""
            targets = inputs.pop("labels")  # (B,)
            hidden = model.bert(**inputs).last_hidden_state  # (1, tokens, D)
            first = hidden[0, inputs["cu_seq_lens_q"][:-1].long()]  # (B, D)
            logits = model.classifier(model.dropout(model.bert.pooler(first[:, None])))
            return torch.nn.functional.cross_entropy(logits.float(), targets)

    def collate(rows: list[dict]) -> dict:
        targets = torch.tensor([row["labels"] for row in rows])
        return flatten([{"input_ids": row["input_ids"]} for row in rows]) | {"labels": targets}

    ids = tokenizer(texts, truncation=True)["input_ids"]
    encoded = [{"input_ids": x, "labels": label} for x, label in zip(ids, labels, strict=True)]
    arguments = transformers.TrainingArguments(
        "trainer", per_device_train_batch_size=job.batch, num_train_epochs=1, learning_rate=LR,
        save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=not job.use_gpu,
        bf16=True, train_sampling_strategy="group_by_length", remove_unused_columns=False,
    )  # fmt: skip
    kinds = transformers.Trainer, transformers.DataCollatorWithPadding(tokenizer)
    kind, collator = (Unpadded, collate) if unpadded else kinds
    return kind(model, arguments, collator, train_dataset=encoded, callbacks=[Ticks()]).train


def our_predictions(job: SimpleNamespace, by_line: bool = False) -> Callable[[], object]:
    """Of classifier.py, with tokenization: its evaluation with --fast, or its --predict."""
    flags = our_flags(job, fast=True)
    data = classifier.read_data(flags, "train")["train"]
    model, config = classifier.new_model(flags)
    loaded = model.to(loop.pick_device(job.use_gpu)).eval(), config
    mock.patch.object(classifier, "load_model", return_value=loaded).start()
    if by_line:
        return partial(classifier.predict, [text for text, *_ in data], "", job.use_gpu)
    return partial(classifier.test, flags, {"dev": data})


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
    return partial(model.encode, texts, batch_size=job.batch)


UNPADDED = "`trainer` without padding"
RECORDED = "ours, recorded steps"
TRAINING = {
    "ours, `--fast`": partial(ours, is_fast=True),
    "ours": ours,
    RECORDED: ours_recorded,
    "`trainer`": trainer,
    UNPADDED: partial(trainer, unpadded=True),
}
PRETRAINING = {
    "masked words, recorded steps": pretraining,
    "masked words, steps as usual": partial(pretraining, record=lambda step, pool: step),
}
PREDICTING = {
    "ours, the evaluation with `--fast`": our_predictions,
    "ours, `--predict`: one sentence at a time": partial(our_predictions, by_line=True),
    "`transformers`, sorted by length, bf16": their_predictions,
    "`sentence-transformers`, `encode`": vectors,
}
TABLES = {"fine-tuning": TRAINING, "pre-training": PRETRAINING}
TABLES[f"{PREDICTED:,} predictions"] = PREDICTING


def rate_of(contender: str, job: SimpleNamespace) -> float:
    """Rows a second."""
    os.chdir(Path(job.file).parent)
    torch.manual_seed(0)
    with redirect_stdout(sys.stderr):
        timed = TABLES[job.table][contender](job)
        tick(job)
        timed()
        tick(job)
    first, last = job.timed
    return job.sentences * (last - first) / (job.times[last] - job.times[first])


def peak(use_gpu: bool) -> float:
    """The most floating-point operations a second: of products of two matrices in bf16."""
    device, size = ("cuda", 8192) if use_gpu else ("cpu", 1536)
    matrix = torch.ones(size, size, dtype=torch.bfloat16, device=device)
    timer = Timer("x @ x", globals={"x": matrix}, num_threads=torch.get_num_threads())
    return 2 * size**3 / min(timer.timeit(3).mean for _ in range(10))


def work_of(job: SimpleNamespace) -> float:
    """Floating-point operations of a forward pass of a row of the mean length."""
    width = job.config.hidden_size
    length, head = LENGTH, MASKED * width * (width + job.config.vocab_size)
    if TABLES[job.table] is not PRETRAINING:
        data = classifier.read_data(our_flags(job), "train")["train"]
        length, head = mean(data.lengths()), 0
    matrices = 4 * width**2 + 2 * width * job.config.intermediate_size
    layers = job.config.num_hidden_layers * (matrices + 2 * length * width)
    return 2 * length * (layers + head)


# ---------------------------------------------------------------------------------------------
# Running, and showing what came out


def spread(values: Iterable[float], digits: int) -> str:
    """Median (minimum–maximum)."""
    values = list(values)
    shown = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
    return "{} ({}–{})".format(*shown)


def rows(contenders: dict, job: SimpleNamespace, run: Callable, repeats: int) -> Iterator[str]:
    """Of a table in Markdown: rates, factors and the peak's share."""
    rounds = [[run(rate_of, (name, job)) for name in contenders] for _ in range(repeats)]
    first, *_ = rates = [*zip(*rounds, strict=True)]
    passes = 1 if contenders is PREDICTING else 3  # backwards twice as much
    share = 100 * passes * work_of(job) / run(peak, (job.use_gpu,))
    for name, own in zip(contenders, rates, strict=True):
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
    use_gpu = args.use_gpu and torch.cuda.is_available()
    shared = {"model": str(find_model(args.model)), "use_gpu": use_gpu}
    shared["config"] = BertConfig.from_pretrained(shared["model"])  # says once which it is
    print(f"{machine(use_gpu)}, {args.repeats} rounds")
    if not (use_gpu and importlib.util.find_spec("flash_attn")):
        print(f"{UNPADDED}, skipped: needs a GPU and flash-attn")
        del TRAINING[UNPADDED]
    if not use_gpu:
        print(f"{RECORDED}, and pre-training, skipped: need a GPU")
        del TRAINING[RECORDED], TABLES["pre-training"]
    fresh = multiprocessing.get_context("forkserver")  # it imports what is above once
    with tempfile.TemporaryDirectory() as folder, fresh.Pool(1, maxtasksperchild=1) as pool:
        for table, contenders in TABLES.items():
            trains = contenders is not PREDICTING
            print(f"\n| batch size | {table} | rows/s | factor | % of the peak |")
            print("|--:|---|--:|--:|--:|", flush=True)
            for batch in BATCHES if contenders is TRAINING else BATCHES[-1:]:
                first, last = (WARM_UP, WARM_UP + STEPS) if trains else (0, 1)
                job = SimpleNamespace(batch=batch, times=[], timed=(first, last), **shared)
                job.table = table
                job.sentences = batch if trains else PREDICTED  # from tick to tick
                count = last * job.sentences
                job.file = str(Path(folder, f"{count}.csv"))
                sample = everything.sample(count, replace=count > len(everything), random_state=0)
                sample["id"] = [f"{number:025x}" for number in range(count)]
                sample.reset_index(drop=True).to_csv(job.file, sep="\t")
                print(*rows(contenders, job, pool.apply, args.repeats), sep="\n", flush=True)


if __name__ == "__main__":
    run_script(main)
