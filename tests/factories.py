"""What tests are made of: small random models, configurations and tables, offline."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports huggingface_hub
os.environ.pop("MINBERT_MODEL", None)
os.environ.setdefault("MPLBACKEND", "Agg")

import random
import re
import runpy
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from tqdm import tqdm

from bert import BertModel
from classifier import BertSentimentClassifier
from config import BertConfig
from optimizer import AdamW
from pretraining.model import PretrainingModel
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.loop.checkpoints import save_model

# tqdm's own lock is shared by processes that fork from this one: a test that kills one of them
# while it draws a bar would leave all later ones waiting
tqdm.set_lock(threading.RLock())

torch.set_num_threads(1)  # the models here are so small that a second thread only costs

ROOT = Path(__file__).resolve().parent.parent


def copy_tree(target: Path) -> Path:
    """Copy this repository without what runs, environments and tools leave in it."""
    everywhere = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "*.pt", "*.resume", "*.part"
    )
    made = {
        ROOT / "data": "*.csv",
        ROOT / "predictions": "*.csv",
        ROOT / "research" / "experiments": "runs",
    }

    def left_out(folder: str, names: list[str]) -> set[str]:
        own = shutil.ignore_patterns(made.get(Path(folder), ""))
        return everywhere(folder, names) | own(folder, names)

    return Path(shutil.copytree(ROOT, target, ignore=left_out))


def copy_part1(target: Path) -> Path:
    """Copy what part 1 and its checks need."""
    for name in ("training", "checks"):
        shutil.copytree(ROOT / name, target / name)
    for file in (*ROOT.glob("*.py"), ROOT / "sanity_check.data", ROOT / "optimizer_test.npy"):
        shutil.copy(file, target)
    return target


def read_cases(name: str) -> list[tuple[str, str, str]]:
    """The cases of a text in checks/: a function, what is found in it, and a student's lines."""
    text = (ROOT / "tests" / "checks" / name).read_text(encoding="utf-8")
    return re.findall(r"^## (\w+): (\w+)\n(.*?)\n(?=\n|\Z)", text, re.DOTALL | re.MULTILINE)


def multitask_variant(name: str) -> type[nn.Module]:
    """The MultitaskBERT of a correct solution."""
    space = runpy.run_path(str(ROOT / "course" / "variants" / "multitask" / name))
    (methods,) = (x for x in space.values() if getattr(x, "__module__", "") == "<run_path>")
    return type("MultitaskBERT", (methods, nn.Module), {})


def tiny_config(**values) -> BertConfig:
    """A BERT of a few thousand parameters."""
    small = {
        "vocab_size": 100,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    return BertConfig(**(small | values))


def random_bert(dtype=torch.float32, **values) -> BertModel:
    """A tiny BERT far from uniform attention, in evaluation mode."""
    torch.manual_seed(5)
    return stir(BertModel(tiny_config(**values)), 0.2).to(dtype)


def tiny_vocabulary() -> list[str]:
    """Special tokens, letters and digits as words and as continuations: splits any ASCII word."""
    characters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
    return [*SPECIAL_TOKENS, *characters, *("##" + c for c in characters)]


TINY = BertTokenizer(tiny_vocabulary())
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])


def padded_batch(*lengths: int, vocabulary: int = 100) -> tuple[torch.Tensor, ...]:
    """Random ids, mask and two segments of rows of these lengths: (B, L) each."""
    chance = torch.Generator().manual_seed(3)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, vocabulary, mask.shape, generator=chance)
    return ids * mask, mask, (torch.arange(max(lengths)) >= 4).long() * mask


PAIRS = (
    *padded_batch(6, 3, 5, 4, vocabulary=80)[:2],
    *padded_batch(4, 7, 5, 3, vocabulary=80)[:2],
)  # ids and masks


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def save_tiny_model(folder: Path, **values) -> Path:
    """A checkpoint folder with random weights and a vocabulary of characters."""
    torch.manual_seed(0)
    shape = {"vocab_size": len(tiny_vocabulary()), "max_position_embeddings": 512}
    BertModel(tiny_config(**(shape | values))).save_pretrained(folder)
    BertTokenizer(tiny_vocabulary()).save_pretrained(folder)
    return folder


def save_word_model(folder: Path) -> Path:
    """A random model with a head for masked words."""
    vocabulary = [*tiny_vocabulary(), *"the captain looked at sea old and smiled".split()]
    torch.manual_seed(4)
    config = tiny_config(vocab_size=len(vocabulary), max_position_embeddings=40)
    stir(PretrainingModel(config), 0.2).save_pretrained(folder)
    BertTokenizer(vocabulary).save_pretrained(folder)
    return folder


def save_with_head(model: BertModel, head: nn.Linear, folder: Path, **entries) -> None:
    """The folder of a BertForSequenceClassification, whose classes have no names."""
    names = {str(i): f"LABEL_{i}" for i in range(head.out_features)}
    entries = {"architectures": ["BertForSequenceClassification"], "id2label": names} | entries
    model.save_pretrained(folder, head.state_dict(prefix="classifier."), **entries)


def save_classifier_folder(folder: Path, spread: float = 0.1) -> tuple[BertModel, nn.Linear]:
    """A random BERT and a head of two classes, with weights that count, in a folder."""
    torch.manual_seed(11)
    model = stir(BertModel(tiny_config(vocab_size=len(tiny_vocabulary()))), spread)
    head = nn.Linear(model.config.hidden_size, 2)
    save_with_head(model, head, folder)
    BertTokenizer(tiny_vocabulary()).save_pretrained(folder)
    return model, head


def save_sentiment_checkpoint(
    path: Path, model: Path, labels: Sequence[str] = "01234", dropout: float = 0.1
) -> Path:
    """A checkpoint of classifier.py, with weights that are not the model folder's."""
    config = SimpleNamespace(
        hidden_dropout_prob=dropout,
        num_labels=len(labels),
        labels=list(labels),
        hidden_size=32,
        data_dir=".",
        option="finetune",
        model=str(model),
    )
    torch.manual_seed(1)
    model = stir(BertSentimentClassifier(config))
    save_model(model, AdamW(model.parameters()), SimpleNamespace(lr=1.0), config, path)
    return path


WORDS = "a warm dull film that never quite finds its feet but sings at the end of act two".split()


def make_id(number: int) -> str:
    """An id as the course's files have them: 25 hexadecimal characters."""
    return f"{number:025x}"


def make_rows(count: int, texts: int = 1, labels: Sequence[str] = (), first_id: int = 0) -> list:
    """Rows (id, text …, label), labels in turn; the same arguments give the same rows."""
    chance = random.Random(count * 1000 + first_id)
    rows = []
    for i in range(count):
        words = [" ".join(chance.choices(WORDS, k=chance.randint(2, 6))) for _ in range(texts)]
        rows.append((make_id(first_id + i), *words, *([labels[i % len(labels)]] if labels else [])))
    return rows


def write_table(path: Path, columns: str, rows: Sequence, odd_header: bool = False) -> Path:
    """Write a course file: tab-separated, an unnamed index column first.

    With ``odd_header`` as the SST and CFIMDB test files have it: a further column of indices.
    """
    names = columns.split()
    lines = [["0", "", *names] if odd_header else ["", *names]]
    for i, row in enumerate(rows):
        lines.append([str(i), *(["0.0"] if odd_header else []), *map(str, row)])
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return path


class Malicious:
    """Unpickled, it makes a folder: harmless, and seen."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def stir(model: nn.Module, spread: float = 0.1) -> nn.Module:
    """Move every parameter: biases are born as zeros, which would hide a missing one."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return model.eval()


# Pieces of a vocabulary, and texts for it, that tokenizers trip over
ODD_WORDS = """the a movie was good bad un ##want ##ed ##able runn ##ing he said do not n't 's 've
    'm 're cafe resume uber naive istanbul ##i σοφος σοφοσ 中 文 日 ☃ 😀 ##😀 ß ss … — “ ” $ + ^ ` ~
    | < > = [ ] # : ; ( ) / \\ ##' ##. mask sep cls ... 'tis""".split()

ODD_TEXTS = [
    "",
    " ",
    "The movie was good.",
    "  unwanted\t\tmovies\n\nrunning \r ",
    "I can't, won't; don't!  (it's \"bad\")...",
    "Café résumé ÜBER naïve Ångström a\u0301e\u0323\u0308",
    "中文movie日本語のテスト 한국어 ㄱ",
    "\U00020000\U0002a700\uf900\u3400x\u9fff\U0002ceb0",
    "good😀movie 👩‍👩‍👧 ☃️ 🇩🇪",
    "a\x00b\x01c\x7fd\x80e\ufffdf\ufeffg\u00adh",
    "a\x0bb\x0cc\x1cd\x1de\x1ef\x1fg",
    "a\u0085b\u2028c\u2029d\u00a0e\u200bf\u3000g\u1680h\u202fi\u180ej\u2060k",
    "[MASK] the [SEP] [CLS] [PAD] [UNK]",
    "the[MASK]movie[SEP]. x[CLS][CLS]y [mask] [ MASK ] [[MASK]] [MASK",
    "[MA\x0bSK] [MA\u00adSK] [MÁSK] [MA\x85SK] ［MASK］",
    "a" * 99 + " " + "a" * 100 + " " + "a" * 101 + " " + "good" * 100,
    "á" * 100 + " " + "a\u0301" * 60 + " " + "中" * 120 + " " + "!" * 120 + "a" * 100 + ".",
    "ΣΟΦΟΣ σοφος ΌΣΟΣ",
    "İstanbul ISTANBUL ıIiİ I\u0307",
    "ß ẞ STRASSE Ǆ ǅ ﬁ ﬀ ½ ² Ⅷ ⓐ",
    "$5 + 3 = 8^2 ~ `x` | <br /> a_b #tag @me 100% \\n",
    "“quoted” ‘single’ — – … ‽ · • № ™ ° § ¶ ¿¡",
    "नमस्ते हिन्दी বাংলা ไทย עִבְרִית العَرَبِيَّة",
    "\ue000\U000f0000\u0378\U000e0001",
]
