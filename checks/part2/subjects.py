"""What the properties of part 2 look at: the models that __init__ makes; a function and its calls.

BertModel.from_pretrained gives copies of a tiny BERT here. Each call goes to a model that is built
anew, always with the same random weights. One thing at a time is changed for a call: words,
padding, the rows of the batch, dropout, the vectors that BERT gives. B is the number of sentences
or pairs, L that of tokens, D the hidden size.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from checks.fixed_dropout import FixedDropout
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
ATTEMPTS = 8  # at results of which no two are the same, as behind a ReLU or a sigmoid they may be
TOLERANCE, ROUNDING = 1e-4, 1e-5  # of how far results are apart, of the results themselves
UNUSED = 1e-3  # of how far results are apart: other words of a sentence that counts change more
SCALES = (1.0, 100.0)  # of random vectors
RESULTS = {  # the shape of what a function returns, and what that is
    "forward": ((B, TINY["hidden_size"]), "a vector for each sentence"),
    "predict_sentiment": ((B, 5), "five logits for each sentence"),
    "predict_paraphrase": ((B,), "one logit for each pair"),
    "predict_similarity": ((B,), "one score for each pair"),
}


@cache
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
) -> tuple[nn.Module, list[nn.Parameter], list[nn.Parameter]]:
    """The student's MultitaskBERT in evaluation mode; parameters that it has loaded, and its own.

    Args:
        option: "pretrain" or "finetune".
        attempt: gives other initial weights to the student's own layers, and each time BERT's
            vectors are smaller, so that a sigmoid or tanh of them is not 1 to the last digit.
        other_padding: whether [PAD] has another embedding.
    """
    fixed = {"hidden_size": TINY["hidden_size"], "hidden_dropout_prob": DROPOUT, "data_dir": "."}
    config = SimpleNamespace(**(default_flags() | fixed | {"option": option}))
    loaded: list[nn.Parameter] = []

    def load(*_: Any, **__: Any) -> nn.Module:
        bert = copy.deepcopy(tiny_bert())
        if other_padding:
            row = bert.word_embedding.weight.data[0]  # (D,)
            row.copy_(torch.linspace(-2, 2, len(row)).sin())
        for parameter in bert.bert_layers[-1].out_layer_norm.parameters():
            parameter.data /= 4**attempt
        loaded.extend(bert.parameters())
        return bert

    torch.manual_seed(attempt)
    with mock.patch.object(importlib.import_module("bert").BertModel, "from_pretrained", load):
        model = importlib.import_module("multitask_classifier").MultitaskBERT(config).eval()
    known = {*loaded}
    own = [parameter for parameter in model.parameters() if parameter not in known]
    for parameter in own:
        if parameter.dim() > 1 and not parameter.any():  # zeros are a fine start, but say nothing
            nn.init.normal_(parameter, std=0.1)
    return model, loaded, own


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
    return F.pad(ids, (0, 3)), F.pad(mask, (0, 3))


class Made:
    """Task 2.1: the models that __init__ makes, with BERT trained and with BERT frozen."""

    def __init__(self):
        self.model, self.bert, self.own = student_model("finetune")
        _, self.frozen_bert, self.frozen_own = student_model("pretrain")
        self.registered = bool({*self.bert} & {*self.model.parameters()})

    @cached_property
    def keeps_weights(self) -> bool:
        """Whether any matrix in the model, perhaps of a copied BERT, is what was loaded."""
        loaded = [p for p in tiny_bert().parameters() if p.dim() > 1]
        return any(torch.equal(p, q) for p in self.model.parameters() for q in loaded)

    @cached_property
    def unseen(self) -> str:
        """An attribute with layers in a list or dict, which nn.Module does not look into."""
        known = {*self.model.parameters(), *self.bert}
        for name, value in vars(self.model).items():
            if not name.startswith("_") and isinstance(value, dict | list | tuple):
                layers = value.values() if isinstance(value, dict) else value
                modules = nn.ModuleList(layer for layer in layers if isinstance(layer, nn.Module))
                if {*modules.parameters()} - known:
                    return name
        return ""


class Function:
    """Tasks 2.2 to 2.5: one of the student's functions, called once at the beginning.

    An exception of that call is kept as ``error``.
    """

    def __init__(self, task_id: str):
        self.name, self.batch = task_id.split(".")[1], batch_for(task_id)
        self.wanted, self.what = RESULTS[self.name]
        self.sides = ("sentence",) if task_id in SINGLE else ("first sentence", "second sentence")
        self.equal = [self.batch[0]] * len(self.batch)  # pairs of identical sentences
        self.row = "sentence" if task_id in SINGLE else "pair"
        self.seen: list[tuple[Any, Any]] = []  # ids and mask of each pass through BERT
        self.attempt, self.error, self.result = 0, None, None
        made: list[Any] = []
        try:
            for self.attempt in range(ATTEMPTS):
                with watched(self.seen):
                    made.append(self.call())
                if not isinstance(made[-1], Tensor) or not has_repeats(made[-1]):
                    break
            else:
                self.attempt = max(range(ATTEMPTS), key=lambda n: made[n].unique().numel())
            self.result = made[self.attempt]
        except (Exception, SystemExit) as error:
            self.error = error
        self.shape = tuple(getattr(self.result, "shape", ()))
        self.returned = getattr(self.result, "dtype", f"a {type(self.result).__name__}")
        is_tensor = isinstance(self.result, Tensor)
        self.got = f"{self.shape} of {self.returned}" if is_tensor else self.returned

    def call(self, batch: Batch | None = None, seed: int = 0, **how: bool) -> Any:
        """What the function returns, without a graph.

        Args:
            batch: another one than usual, which is copied.
            seed: of what is random.
            how: training mode; chance, with which dropout is random, and else drops always the same
                numbers; other_padding, with which [PAD] has another embedding; large, with which
                the student's own parameters are 100 times what they are.
        """
        model, _, own = student_model("finetune", self.attempt, how.get("other_padding", False))
        for parameter in own if how.get("large") else ():
            parameter.data *= SCALES[-1]
        inputs = [x.clone() for pair in batch or self.batch for x in pair]
        torch.manual_seed(seed)
        with torch.no_grad(), contextlib.nullcontext() if how.get("chance") else FixedDropout():
            return getattr(model.train(how.get("training", False)), self.name)(*inputs)

    def gradients(self, batch: Batch, option: str = "finetune") -> SimpleNamespace:
        """Gradients of the results' sum with random weights, which add up to 0 over the rows.

        Returns:
            flows: whether the result has a graph.
            bert: those of the parameters of all BERTs, copies included, that are to be trained.
            all: the gradients of the model's parameters.
            sides: of each side whether a gradient reaches the embeddings of its words.
        """
        model, loaded, _ = student_model(option, self.attempt)
        torch.manual_seed(1)
        with FixedDropout():
            result = getattr(model, self.name)(*(x.clone() for pair in batch for x in pair))
        if result.requires_grad:
            weights = torch.randn_like(result)  # (B, …)
            (result * (weights - weights.mean(dim=0))).sum().backward()
        cls = importlib.import_module("bert").BertModel
        berts = [module for module in model.modules() if isinstance(module, cls)]
        words = [x for b in berts if (x := b.word_embedding.weight.grad) is not None]  # (V, D) each
        bert = {p for module in berts for p in module.parameters()} | {*loaded}
        return SimpleNamespace(
            flows=result.requires_grad,
            bert=[p.grad for p in bert if p.requires_grad],
            all=[p.grad for p in model.parameters() if p.grad is not None],
            sides=[any(x[ids[ids >= FIRST_WORD]].any() for x in words) for ids, _ in batch],
        )

    def changes(self, *batches: Batch, **how: Any) -> bool:
        """Whether results are others, not only by rounding, in these batches together."""
        after = torch.cat([self.call(batch, **how) for batch in batches])
        limit = TOLERANCE * spread(self.result) + ROUNDING * self.result.abs()
        return not ((after - self.result).abs() <= limit).all()

    def changed(self, side: int, change: Callable[..., tuple[Tensor, Tensor]]) -> Batch:
        """The batch with one side changed."""
        return [change(*pair) if i == side else pair for i, pair in enumerate(self.batch)]

    def rows(self, start: int, end: int) -> Batch:
        """Some rows of the batch."""
        return [(ids[start:end], mask[start:end]) for ids, mask in self.batch]

    # What several properties, or their sentences, are about

    @cached_property
    def unused(self) -> list[str]:
        """The sentences whose words do not count."""
        limit = UNUSED * spread(self.result)
        after = [self.call(self.changed(side, other_words)) for side in range(len(self.sides))]
        far = [((x - self.result).abs() > limit).any() for x in after]
        return [sentence for sentence, is_far in zip(self.sides, far, strict=True) if not is_far]

    @property
    def detached(self) -> str:
        """A sentence that no gradient passes through, where one passes through the other."""
        first, second = self.learning.sides
        return self.sides[first] if first != second else ""

    @cached_property
    def leaks(self) -> bool:
        """Whether results change with the embedding of [PAD]."""
        return self.changes(self.batch, other_padding=True)

    @cached_property
    def counts_columns(self) -> bool:
        """Whether results change with more columns of padding."""
        return any(self.changes(self.changed(side, wider)) for side in range(len(self.batch)))

    @cached_property
    def at_random(self) -> Tensor:
        """Finite results for random vectors of several sizes, and for identical sentences.

        There are none if all are the same.
        """
        results = [self.call(self.equal), self.call(large=True)]
        for scale in SCALES:
            with noise(scale):
                results.append(self.call())
        rows = torch.cat(results)
        rows = rows[rows.isfinite().reshape(len(rows), -1).all(dim=-1)]
        return rows if rows.unique().numel() > 1 else rows[:0]

    @cached_property
    def is_probability(self) -> bool:
        """Whether they lie between 0 and 1."""
        outside = (self.at_random < -ROUNDING) | (self.at_random > 1 + ROUNDING)
        return bool(len(self.at_random)) and not outside.any()

    @property
    def limit(self) -> str:
        """Where none of those results lies, although logits may; "" if they lie on both sides."""
        x = self.at_random
        places = {"below 0": x < -ROUNDING, "above 0": x > ROUNDING}
        places["below −1 or above 1"] = x.abs() > 1 + ROUNDING
        return next((place for place, are in places.items() if len(x) and not are.any()), "")

    @cached_property
    def is_rounded(self) -> bool:
        """Whether they are whole numbers."""
        return bool(len(self.at_random)) and torch.equal(self.at_random, self.at_random.round())

    @property
    def highest(self) -> float:
        """The largest of those results, not −0."""
        return self.at_random.max().item() + 0.0

    @cached_property
    def dropouts(self) -> list[int]:
        """How many numbers each dropout is given in training."""
        with mock.patch.object(F, "dropout", side_effect=F.dropout) as dropout:
            self.call(training=True, chance=True)
        given = [[*call.args, *call.kwargs.values()][0] for call in dropout.call_args_list]
        return [x.numel() for x in given]

    @cached_property
    def is_random(self) -> bool:
        """Whether results change from call to call in training mode."""
        first, second = (self.call(seed=seed, training=True, chance=True) for seed in range(2))
        return not torch.equal(first, second)

    @cached_property
    def learning(self) -> SimpleNamespace:
        """Gradients with BERT trained."""
        return self.gradients(self.batch)


def has_repeats(results: Tensor) -> bool:
    """Whether two rows of results, (B, …), are the same."""
    return results.dim() > 0 and len(results.reshape(len(results), -1).unique(dim=0)) < len(results)


def spread(results: Tensor) -> Tensor:
    """How far the results of a row, (B, …), usually are from their mean."""
    return (results - results.mean(dim=0)).std()


@contextlib.contextmanager
def watched(seen: list[tuple[Any, Any]]) -> Iterator[None]:
    """While active, the ids and the mask of each pass through BERT are noted."""
    cls = importlib.import_module("bert").BertModel
    with (
        mock.patch.object(cls, "embed", autospec=True, side_effect=cls.embed) as embed,
        mock.patch.object(cls, "encode", autospec=True, side_effect=cls.encode) as encode,
    ):
        try:
            yield
        finally:  # behind self; by position or by name
            ids = [[*call.args[1:], *call.kwargs.values()][0] for call in embed.call_args_list]
            masks = [[*call.args[1:], *call.kwargs.values()][-1] for call in encode.call_args_list]
            seen[:] = zip(ids, masks, strict=False)


@contextlib.contextmanager
def noise(scale: float) -> Iterator[None]:
    """While active, BERT gives, and each linear layer is given, random numbers of that size.

    Both, since some functions have no layers, and others use only a part of BERT.
    """
    cls = importlib.import_module("bert").BertModel
    encode, linear = cls.encode, F.linear

    def random_embeddings(*args: Any, **kwargs: Any) -> Tensor:
        return scale * torch.randn_like(encode(*args, **kwargs))

    with (
        mock.patch.object(cls, "encode", random_embeddings),
        mock.patch.object(F, "linear", lambda x, *a: linear(scale * torch.randn_like(x), *a)),
    ):
        yield
