"""How many sentences a second our tokenizer does, compared with the Rust one of Hugging Face.

    python research/benchmarks/tokenizer_speed.py --data FOLDER

Both run in this process, on one thread, in turns, on the training sentences of SST: the real ones
(--data or $MINBERT_DATA), else the practice set. Of Rust's encode_batch and encode the faster one
counts. Cold: our tokenizer has not seen a word yet; warm: it remembers them all. First it is
checked that both give the same ids.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from datasets import load_data
from tokenizer import BertTokenizer
from training.cli.arguments import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.files.hub import find_model

FILE = "ids-sst-train.csv"
Jobs = dict[str, Callable[[], object]]


def load_rust(vocab_file: Path, lower_case: bool):
    """The Rust tokenizer on one thread."""
    os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError as error:
        raise InputError(
            "nothing to compare with: install Hugging Face's tokenizers (pip install tokenizers)"
        ) from error
    return BertWordPieceTokenizer(str(vocab_file), lowercase=lower_case)


def seconds(job: Callable[[], object]) -> float:
    """The time of one run, without the garbage of the run before."""
    gc.collect()
    start = perf_counter()
    job()
    return perf_counter() - start


def in_turns(ours: Jobs, rust: Jobs, forget: Callable, repeats: int) -> dict[str, list[float]]:
    """Seconds of every repeat for each of ours, and under "Rust" for the faster one of Rust's."""
    times = {key: [] for key in (*ours, *rust)}
    for _ in range(repeats):
        forget()
        for key, job in (ours | rust).items():
            times[key].append(seconds(job))
    best = [min(row) for row in zip(*(times[key] for key in rust), strict=True)]
    return {key: times[key] for key in ours} | {"Rust": best}


def measure(texts: list[str], model: str | None, repeats: int) -> dict[str, dict[str, list[float]]]:
    """What is asked of the tokenizer → "cold", "warm" and "Rust" → the seconds of every repeat."""
    ours = BertTokenizer.from_pretrained(model)
    rust = load_rust(find_model(model) / "vocab.txt", ours.lower_case)
    if [rust.encode(text).ids for text in texts] != ours(texts)["input_ids"]:
        raise InputError("the ids differ from the Rust tokenizer's; see tests/tokenizer_parity.py")

    def read_ids(encoding) -> list[int]:
        return encoding.ids

    def read_all(encoding) -> tuple[list[int], ...]:
        return encoding.ids, encoding.type_ids, encoding.attention_mask

    times = {}
    for name, job, read in (
        (
            "text_to_ids: ids",
            lambda: [ours.word_pieces.text_to_ids(text) for text in texts],
            read_ids,
        ),
        ("batch call: ids, segments, masks", lambda: ours(texts), read_all),
    ):
        ways = {
            "encode_batch": lambda read=read: [read(one) for one in rust.encode_batch(texts)],
            "encode": lambda read=read: [read(rust.encode(text)) for text in texts],
        }
        times[name] = in_turns({"cold": job, "warm": job}, ways, ours.word_pieces.clear, repeats)
    return times


def main() -> None:
    """Read the arguments, find the data, print sentences a second and ratios with their range."""
    parser = OneLineParser(description="our tokenizer's speed compared with the Rust tokenizer's")
    parser.add_argument("--data", help="folder of the course files ($MINBERT_DATA does the same)")
    parser.add_argument("--model", help="folder or name of the model whose vocabulary is used")
    parser.add_argument("--repeats", type=positive_int, default=7)
    args = parser.parse_args()

    path = data_folder(args.data) / FILE
    texts = [text for text, *_ in load_data(path, "rows")]
    words = len({word for text in texts for word in text.split()})
    print(f"data: {len(texts):,} sentences, {words:,} different words, from {path}")
    for name, times in measure(texts, args.model, args.repeats).items():
        rust = times.pop("Rust")
        print(f"{name}\n  Rust {len(texts) / median(rust):>9,.0f} sentences/s")
        for key, own in times.items():
            ratios = [theirs / mine for theirs, mine in zip(rust, own, strict=True)]
            print(
                f"  {key} {len(texts) / median(own):>9,.0f} sentences/s, {median(ratios):.1f} x "
                f"Rust ({min(ratios):.1f} to {max(ratios):.1f} in {args.repeats} repeats)"
            )


if __name__ == "__main__":
    run_script(main)
