"""What pre-training and the techniques' scripts refuse."""

from functools import partial
from pathlib import Path

from row import Row, written

PRETRAIN = "pretraining.pretrain --text text --out out --vocab model --preset tiny"
TECHNIQUES = "extensions.multitask --option finetune --data_dir data --model model"


def write_text(folder: Path, documents: int = 3, words: int = 200) -> None:
    """A folder of text, a document a file."""
    (folder / "text").mkdir()
    for d in range(documents):
        (folder / "text" / f"{d}.txt").write_text("a warm dull film.\n" * words)


CORPUS = ("out/corpus/corpus.bin", "out/corpus/corpus.json")
SINGLE = partial(write_text, documents=1)
LATE = b"fine\n" * 9999 + b"bad \xff\xfe here\n"
SHORT = partial(write_text, words=9)
ROWS = [
    Row(f"{PRETRAIN} --full_sentences", "give --objective none"),
    Row(f"{PRETRAIN} --length 4", "--length must be at least 8"),
    Row(f"{PRETRAIN} --mask 0", "--mask 0 leaves nothing to predict"),
    Row(f"{PRETRAIN} --config x.json", "--preset and --config exclude each other"),
    Row(f"{PRETRAIN} --minutes 1 --steps 5", "--minutes and --steps exclude each other"),
    Row(
        "pretraining.pretrain --text text --out out --model model --architecture local",
        "--model keeps its vocabulary and architecture",
    ),
    Row(f"{PRETRAIN} --held_out 1", "is not a number of at least 0 and below 1"),
    Row(f"{PRETRAIN} --eval_rows 0", "'0' is not a whole number from 1"),
    Row(f"{PRETRAIN} --architecture bert,rotary", "'bert' is not a switch; give bert, modern, or"),
    Row(f"{PRETRAIN} --out text/model", "is inside --text text and would be read as text"),
    Row(PRETRAIN, "text: no such file or folder"),
    Row(PRETRAIN, "text holds no *.txt file", lambda folder: (folder / "text").mkdir()),
    Row(PRETRAIN, "no text in ", written("text/blank.txt", "\n\n")),
    Row(PRETRAIN, "late.txt is not text in UTF-8", written("text/late.txt", LATE)),
    Row(f"{PRETRAIN} --length 513", "more than the model's 512 positions", write_text, CORPUS),
    Row(PRETRAIN, "the corpus in out/corpus is a single document", SINGLE, CORPUS),
    Row(PRETRAIN, "the held-out text has ", SHORT, CORPUS),
    Row(PRETRAIN, "next sentences need a second document", write_text, CORPUS),
    Row(f"{TECHNIQUES} --para_extra ranking --pair_encoding cross", "one vector of both texts"),
    Row(f"{TECHNIQUES} --sst_extra simcse --accumulate 2", "compares the rows of a batch"),
    Row(f"{TECHNIQUES} --option pretrain --regulariser smart", "BERT is frozen"),
    Row(f"{TECHNIQUES} --regulariser r_drop --sst_extra simcse", "it has every row twice"),
    Row(f"{TECHNIQUES} --adapt lora --pals 12", "it freezes what that is about"),
    Row(f"{TECHNIQUES} --gradients pcgrad --sampling annealed", "a step has all tasks"),
    Row(f"{TECHNIQUES} --extra_weight 1", "--extra_weight needs --sst_extra or"),
    Row("extensions.multitask --rank 4", "--rank needs --adapt lora"),
    Row(f"{TECHNIQUES} --nli_extra ranking", "--nli_extra needs --tasks nli"),
    Row(f"{TECHNIQUES} --sampling before --epochs 1", "or takes all epochs"),
    Row(f"{TECHNIQUES} --sampling before --tasks para", "needs two --tasks"),
    Row(f"{TECHNIQUES} --pals 10 --pal_heads 3", "PALs of size 10 cannot be split into 3 heads"),
    Row(f"{TECHNIQUES} --separate_layers 3", "--separate_layers 3: this BERT has 2 layers"),
]
