"""What techniques change in a model and add to it, in an order in which each finds what it needs.

``start_anew`` comes right after the pretrained weights are there, ``Additions`` when tasks have got
their own top layers. Without flags neither does anything, and the model has no further tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from extensions.adapters import KINDS as ADAPTERS
from extensions.adapters import add_adapters, choose_task
from extensions.bitfit import train_biases
from extensions.features import PAIR_FEATURES, TEXT_FEATURES, AddFeatures, TagEmbedding, tagged
from extensions.heads import make_head
from extensions.lora import KINDS as LOW_RANK
from extensions.lora import add_lora
from extensions.mixout import replace_linears
from extensions.pals import PALs
from extensions.reinit import reinitialise_top
from extensions.task_weights import Uncertainty
from extensions.word_tags import WordTags

RANK = 8  # of LoRA, and the width of adapters, if the flag is not given


def start_anew(bert: nn.Module, config: Any) -> None:
    """Re-initialise top layers, if config.reinit says so."""
    if count := getattr(config, "reinit", None):
        reinitialise_top(bert, count)


def head(config: Any, inputs: int, outputs: int) -> nn.Module:
    """A task's head of config.head_layers layers."""
    return make_head(inputs, outputs, getattr(config, "head_layers", 1))


def added(model: nn.Module, name: str) -> Any:
    """A part of a model's Additions; None where it has none, as a model by someone else."""
    return getattr(getattr(model, "added", None), name, None)


class Additions(nn.Module):
    """Everything of config that is put into or beside a BERT, but for the two above.

    Args:
        bert: a BertModel; not a part of this module.
        config: MODEL_FLAGS of flags.py, any of which may be missing.
        tasks: names.
        regression: those of them whose loss is a squared error.
        pair_width: of what the heads of pairs see.
        words: config → the table of words' tags, called only where features are asked for.
    """

    def __init__(
        self,
        bert: nn.Module,
        config: Any,
        tasks: Iterable[str],
        regression: Iterable[str],
        pair_width: int,
        words: Callable[[Any], WordTags],
    ):
        super().__init__()
        tasks = list(tasks)
        chosen = getattr(config, "adapt", None)
        if chosen in LOW_RANK:
            add_lora(bert, config.rank or RANK, kind=chosen)
        elif chosen in ADAPTERS:
            add_adapters(bert, config.rank or RANK, chosen, tasks)
        elif chosen == "bitfit":
            train_biases(bert)
        if getattr(config, "mixout", None):
            replace_linears(bert, config.mixout)
        self.adapters = chosen in ADAPTERS
        size = getattr(config, "pals", None)
        self.pals = PALs(bert, tasks, size, config.pal_heads) if size else None
        learned = getattr(config, "task_weights", None) == "uncertainty"
        self.uncertainty = Uncertainty(tasks, regression) if learned else None
        tags, counts = getattr(config, "tag_words", None), getattr(config, "count_features", False)
        self.words = words(config) if tags or counts else None
        width = bert.config.hidden_size
        self.tags = TagEmbedding(self.words.count, width) if tags else None
        self.text_counts = AddFeatures(TEXT_FEATURES, width) if counts else None
        self.pair_counts = AddFeatures(PAIR_FEATURES, pair_width) if counts else None

    @contextmanager
    def turn(self, bert: nn.Module, task: str, ids: Tensor, mask: Tensor) -> Iterator[None]:
        """Within it a pass of ids (B, L) through BERT is the task's, and its words have tags."""
        with ExitStack() as stack:
            if self.pals is not None:
                stack.enter_context(self.pals.use(task))
            if self.adapters:
                choose_task(bert, task)
            if self.tags is not None:
                stack.enter_context(tagged(bert, self.tags, self.words.tags(ids, mask)))
            yield

    def with_counts(self, vectors: Tensor, *texts: Tensor) -> Tensor:
        """Vectors (B, D) and what is counted in their texts.

        Args:
            texts: ids and mask (B, L) of one text, or those of both texts of a pair.
        """
        if self.text_counts is None:
            return vectors
        counted, numbers = (
            (self.text_counts, self.words.text_counts)
            if len(texts) == 2
            else (self.pair_counts, self.words.pair_counts)
        )
        return counted(vectors, numbers(*texts).to(vectors.device))
