"""The vocabulary of a run: a ready one, or one that is learned from its text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pretraining.blocks import AS_TYPED, read_blocks, text_files
from pretraining.flags import PretrainingFlags
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.files.errors import InputError
from training.files.hub import default_model
from training.loop.checkpoints import resume_path
from training.loop.processes import on_main_process


def find_tokenizer(args: PretrainingFlags) -> BertTokenizer:
    """The tokenizer of --train_vocab, --vocab or --model, or else of the default model."""
    if not args.train_vocab:
        name = args.vocab or args.model or on_main_process(default_model)
        return BertTokenizer.from_pretrained(name)

    def train_and_save() -> None:
        is_resumed = args.resume and resume_path(args.out / "pretrain").is_file()
        if not is_resumed:
            train_vocabulary(args.text, args.train_vocab).save_pretrained(args.out)

    on_main_process(train_and_save)
    return BertTokenizer.from_pretrained(str(args.out.resolve()))


def train_vocabulary(sources: Sequence[Path], size: int) -> BertTokenizer:
    """A WordPiece vocabulary of that size, learned from text by the tokenizers library.

    It is put in alphabetical order: the library numbers some word pieces differently each time, and
    a seed would not give the same model again.
    """
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError as error:
        raise InputError(
            "--train_vocab needs Hugging Face's tokenizers (pip install tokenizers); without it "
            "give a ready vocabulary with --vocab DIR"
        ) from error
    texts = (
        block.text.decode(errors="replace").translate(AS_TYPED)
        for block in read_blocks(text_files(sources))
    )
    learner = BertWordPieceTokenizer(lowercase=True)
    special = list(SPECIAL_TOKENS)
    learner.train_from_iterator(texts, size, special_tokens=special, show_progress=False)
    learned = sorted(learner.get_vocab().keys() - set(special))
    count = len(special) + len(learned)
    print(f"vocabulary: {count:,} word pieces learned from the text (--train_vocab {size:,})")
    return BertTokenizer([*special, *learned])
