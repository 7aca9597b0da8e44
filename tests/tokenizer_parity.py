"""Compare our ids with the Rust tokenizer's on whole corpora and on random Unicode.

    python tests/tokenizer_parity.py --data DIR

It reads every .csv and .txt file under DIR. A check of a few minutes, not part of the tests. Exit
status 1 if any text's ids differ.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.cli.flags import OneLineParser, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.hub import find_model

SEED = 11711
SHOWN = 3  # differences printed for each source

# Where random strings take their characters from. Rust's strings hold no surrogates.
SCRIPTS = [
    [(0x20, 0x7E)],  # ASCII
    [(0x0, 0x20), (0x7F, 0xA0), (0x2000, 0x206F), (0xFFF0, 0xFFFF)],  # controls and spaces
    [(0xA0, 0x24F), (0x1E00, 0x1EFF)],  # Latin
    [(0x300, 0x36F), (0x483, 0x489), (0x1AB0, 0x1AFF), (0x20D0, 0x20F0)],  # combining marks
    [(0x370, 0x52F), (0x590, 0x6FF)],  # Greek, Cyrillic, Semitic
    [(0x900, 0xDFF), (0x1780, 0x17FF)],  # South Asian
    [(0x3000, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF)],  # East Asian
    [(0x2190, 0x2BFF), (0x1F300, 0x1FAFF), (0xFE00, 0xFE0F)],  # emoji and symbols
    [(0x10000, 0x1FFFF), (0x20000, 0x323AF), (0xE0000, 0xE01EF)],  # beyond the basic plane
]


def texts_of(path: Path) -> Iterator[str]:
    """The lines of a text file, or the text columns of a table."""
    if path.suffix == ".txt":
        yield from filter(None, path.read_text(encoding="utf-8").split("\n"))
        return
    separator = "," if path.parent.name == "imdb" else "\t"
    table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False)
    for column in table.columns:
        if column.startswith(("sentence", "text")):
            yield from table[column]


def random_strings(count: int, vocab: list[str]) -> Iterable[str]:
    """Stretches of 1 to 8 characters of one script, word pieces and special tokens, glued."""
    dice = random.Random(SEED)
    for _ in range(count):
        text = ""
        for _ in range(dice.randint(1, 12)):
            kind = dice.random()
            if kind < 0.1:
                text += dice.choice(SPECIAL_TOKENS)
            elif kind < 0.2:
                text += dice.choice(vocab)
            else:
                ranges = dice.choice(SCRIPTS)
                for _ in range(dice.randint(1, 8)):
                    text += chr(dice.randint(*dice.choice(ranges)))
            text += " " * (dice.random() < 0.3)
        yield text


def load_rust(vocab_file: Path, lower_case: bool):
    """The Rust tokenizer of Hugging Face."""
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError as error:
        raise InputError(
            "nothing to compare with: install Hugging Face's tokenizers (pip install tokenizers)"
        ) from error
    return BertWordPieceTokenizer(str(vocab_file), lowercase=lower_case)


def count_differences(name: str, texts: Iterable[str], ours: BertTokenizer, rust) -> int:
    """Compare the ids of all texts, print the count and the first differences."""
    count = wrong = pieces = 0
    for text in texts:
        row, theirs = ours(text)["input_ids"], rust.encode(text)
        count, pieces = count + 1, pieces + len(row)
        if row != theirs.ids:
            wrong += 1
            if wrong <= SHOWN:
                print(f"  {text[:200]!r}\n    ours {ours.convert_ids_to_tokens(row)[:40]}")
                print(f"    Rust {theirs.tokens[:40]}")
    print(f"{name:<16} {count:>8,} texts {pieces:>11,} ids {wrong:>6,} texts differ", flush=True)
    return wrong


def main() -> int:
    """Compare all sources; the exit status."""
    parser = OneLineParser(description="compare our ids with the Rust tokenizer's")
    parser.add_argument("--data", type=Path, required=True, help="folder of tables and texts")
    parser.add_argument("--sample", type=positive_int, default=20_000, help="texts of a file")
    parser.add_argument("--model", help="folder or name of the model whose vocabulary is used")
    parser.add_argument("--random", type=positive_int, default=100_000, help="random strings")
    args = parser.parse_args()
    ours = BertTokenizer.from_pretrained(args.model)
    rust = load_rust(find_model(args.model) / "vocab.txt", ours.lower_case)
    files = [path for path in sorted(args.data.rglob("*")) if path.suffix in (".csv", ".txt")]
    if not files:
        raise InputError(f"{args.data} holds neither .csv nor .txt files")
    wrong = 0
    for path in files:
        texts = list(texts_of(path))
        sample = random.Random(SEED).sample(texts, min(args.sample, len(texts)))
        wrong += count_differences(path.name, sample, ours, rust)
    strings = random_strings(args.random, ours.pieces)
    wrong += count_differences("random strings", strings, ours, rust)
    return 1 if wrong else 0


if __name__ == "__main__":
    run_script(lambda: sys.exit(main()))
