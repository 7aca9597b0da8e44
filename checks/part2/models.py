"""What the functions of part 2 are called with: a MultitaskBERT around a tiny BERT, and a batch.

B is the number of sentences or pairs, L that of tokens, D the hidden size.
"""

from __future__ import annotations

import copy
import functools
import importlib
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from config import BertConfig

TINY = {  # a width that many numbers of heads divide; ids of [CLS] and [SEP] as they really are
    "vocab_size": 1100,
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "attention_probs_dropout_prob": 0.0,  # the only dropout is the student's own
    "hidden_dropout_prob": 0.0,
}
DROPOUT = 0.3  # config.hidden_dropout_prob
INIT, FORWARD = "multitask.init", "multitask.forward"
PREDICTIONS = (
    "multitask.predict_sentiment",
    "multitask.predict_paraphrase",
    "multitask.predict_similarity",
)
SINGLE = (FORWARD, PREDICTIONS[0])  # tasks of one sentence, not a pair
CLS, SEP, FIRST_WORD, WORDS = 101, 102, 999, 100
# Of seven first and seven second sentences: no class, width or usual constant is 7.
LENGTHS = ((9, 6, 4, 8, 5, 7, 10), (6, 4, 8, 5, 7, 3, 11))
B = len(LENGTHS[0])
Batch = list[tuple[Tensor, Tensor]]  # of each side: ids, mask


def function_of(task_id: str) -> str:
    """The name of a task's method: ``predict_sentiment``."""
    return "__init__" if task_id == INIT else task_id.split(".")[1]


@functools.cache
def tiny_bert() -> nn.Module:
    """The BERT whose copies BertModel.from_pretrained gives here, with large random weights."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(11711)
        model = importlib.import_module("bert").BertModel(BertConfig(**TINY))
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.15)
    return model


def default_flags() -> dict[str, Any]:
    """The defaults of the student's own flags, from which the configuration may be made."""
    try:
        return vars(importlib.import_module("multitask_classifier").get_args([]))
    except (Exception, SystemExit):
        return {}


def student_model(
    option: str, attempt: int = 0, other_padding: bool = False
) -> tuple[nn.Module, dict[str, nn.Parameter]]:
    """The student's MultitaskBERT in evaluation mode, and the parameters that it has loaded.

    Args:
        option: "pretrain" or "finetune".
        attempt: gives other initial weights to the student's own layers.
        other_padding: whether [PAD] has another embedding.
    """
    fixed = {"hidden_size": TINY["hidden_size"], "hidden_dropout_prob": DROPOUT, "data_dir": "."}
    config = SimpleNamespace(**(default_flags() | fixed | {"option": option}))
    loaded: dict[str, nn.Parameter] = {}

    def load(*_: Any, **__: Any) -> nn.Module:
        bert, number = copy.deepcopy(tiny_bert()), len(loaded)
        if other_padding:
            row = bert.word_embedding.weight.data[0]  # (D,)
            row.copy_(torch.linspace(-2, 2, len(row)).sin())
        loaded.update((f"{number}.{name}", p) for name, p in bert.named_parameters())
        return bert

    torch.manual_seed(attempt)
    with mock.patch.object(importlib.import_module("bert").BertModel, "from_pretrained", load):
        model = importlib.import_module("multitask_classifier").MultitaskBERT(config).eval()
    for parameter in own_parameters(model, loaded):
        if parameter.dim() > 1 and not parameter.any():  # zeros are a fine start, but say nothing
            nn.init.normal_(parameter, std=0.1)
    return model, loaded


def own_parameters(model: nn.Module, loaded: dict[str, nn.Parameter]) -> list[nn.Parameter]:
    """The model's parameters that did not come with a loaded BERT."""
    return [*(set(model.parameters()) - set(loaded.values()))]


def batch_for(task_id: str) -> Batch:
    """Of each side ids and mask, (B, L) each, as the tokenizer gives them; no word is in both."""
    batch = []
    for side, lengths in enumerate(LENGTHS[: 1 if task_id in SINGLE else 2]):
        ends, position = torch.tensor(lengths)[:, None], torch.arange(max(lengths))  # (B, 1), (L,)
        generator = torch.Generator().manual_seed(side)
        words = torch.randint(0, 25, (B, len(position)), generator=generator)
        ids = FIRST_WORD + (words + 50 * side) % WORDS
        ids[:, 0] = CLS
        ids = torch.where(position == ends - 1, SEP, ids) * (position < ends)
        batch.append((ids, (position < ends).long()))
    return batch


def other_words(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch, each word replaced by one that is in neither side."""
    return torch.where(ids >= FIRST_WORD, FIRST_WORD + (ids - FIRST_WORD + 25) % WORDS, ids), mask


def wider(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch with three more columns of padding."""
    return nn.functional.pad(ids, (0, 3)), nn.functional.pad(mask, (0, 3))
