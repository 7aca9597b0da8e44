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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from datasets import load_data
from research.benchmarks import timing
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.course_files import data_folder
from training.files.errors import InputError
from training.files.hub import find_model

FILE = "ids-sst-train.csv"


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


def measure(texts: list[str], model: str | None, repeats: int) -> dict[str, list[float]]:
    """Ours "cold" and "warm" and two ways to call Rust, in turns → the seconds of every repeat."""
    ours = BertTokenizer.from_pretrained(model)
    rust = load_rust(find_model(model) / "vocab.txt", ours.lower_case)
    if [rust.encode(text).ids for text in texts] != ours(texts)["input_ids"]:
        raise InputError("the ids differ from the Rust tokenizer's; see tests/tokenizer_parity.py")
    jobs: dict[str, Callable[[], object]] = {
        "cold": lambda: [ours.word_pieces.text_to_ids(text) for text in texts],
        "warm": lambda: [ours.word_pieces.text_to_ids(text) for text in texts],
        "encode_batch": lambda: [encoding.ids for encoding in rust.encode_batch(texts)],
        "encode": lambda: [rust.encode(text).ids for text in texts],
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        ours.word_pieces.clear()
        for name, job in jobs.items():
            gc.collect()  # the garbage of the run before
            times[name].append(timing.timed(job)["seconds"])
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
    print(f"{len(texts):,} sentences from {path}")
    times = measure(texts, args.model, args.repeats)
    rust = list(map(min, times.pop("encode_batch"), times.pop("encode")))
    print(f"Rust {len(texts) / median(rust):>9,.0f} sentences/s")
    for name, ours in times.items():
        ratios = timing.ratios(rust, ours)
        print(f"{name} {len(texts) / median(ours):>9,.0f} sentences/s, {ratios} × Rust")


if __name__ == "__main__":
    run_script(main)
