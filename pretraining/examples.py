"""The rows of pre-training: which sentences go together.

Next sentences (Devlin et al. 2019, section 3.1 and appendix A), RoBERTa's full sentences (Liu et
al. 2019, section 4.2). Rows are packed again for every epoch, from the seed and the epoch's number
alone. masking.py chooses what is masked.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from pretraining.masking import IGNORED, mask_tokens
from training.files.errors import InputError

SHORT = 0.1  # the fraction of rows that are made shorter, so that the model sees short ones too

# A row of a plan is five numbers: where segment A begins in the corpus, its length, where B begins,
# its length, and the label. A row of one segment has nothing in B. With full sentences it begins
# in the epoch's stream: all documents in the epoch's order, a [SEP] after each.
COLUMNS = 5


class PretrainingExamples(Dataset):
    """The rows of one epoch, which ``set_epoch(epoch)`` packs.

    - 'nsp': [CLS] A [SEP] B [SEP]. Sentences of a document are packed up to ``length``, in a tenth
      of the rows less, and cut in two at a random place. In half of the rows B comes from another
      document (label 1), and the sentences not used go into the next row. A pair that is too long
      loses tokens at either end of its longer segment. The original labels every chunk of a single
      sentence 1; here a coin decides first. Documents of one sentence serve as B only.
    - 'none': [CLS] sentences [SEP] of one document. A sentence longer than a row continues in the
      next. With full_sentences, rows are filled across documents, whose order is drawn again every
      epoch, with a [SEP] between two documents.

    Args:
        args: objective, full_sentences, length (of a row at most, [CLS] and [SEP]
            included), and the seed of packing and masks.
        tokenizer: for its special tokens and its vocabulary's size.
        probability: the fraction of tokens that ``collate_fn`` masks.
        epoch: the first whose rows are packed.

    Raises:
        InputError: an objective that this corpus, or this length, does not allow.
    """

    def __init__(self, args: Any, tokenizer: Any, corpus: Any, probability: float, epoch: int = 1):
        if args.objective == "nsp" and corpus.n_documents < 2:
            remedy = "give more text or --held_out, or take the objective none"
            raise InputError(f"next sentences need a second document, also held out; {remedy}")
        self.args, self.tokenizer = args, tokenizer
        self.corpus, self.probability = corpus, probability
        self.special = torch.zeros(tokenizer.vocab_size, dtype=torch.bool)  # (V,)
        self.special[tokenizer.all_special_ids] = True
        self.set_epoch(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Pack the rows of an epoch."""
        self.epoch = epoch
        chance = Random(f"{self.args.seed} {epoch}")
        plan = array("q")
        if self.args.full_sentences:
            self._pack_full(plan)
        elif self.args.objective == "none":
            for d in range(self.corpus.n_documents):
                self._pack_single(plan, memoryview(self.corpus.starts(d)), chance)
        else:
            for d in range(self.corpus.n_documents):
                self._pack_pairs(plan, d, chance)
        if not plan:
            remedy = "put those of a document on consecutive lines, or take the objective none"
            raise InputError(f"no document has two sentences to make a pair of; {remedy}")
        self.plan = np.frombuffer(plan, np.int64).reshape(-1, COLUMNS)  # (rows, 5)

    def _target(self, room: int, chance: Random) -> int:
        """How many tokens to pack: all there is room for, in a tenth of the rows fewer."""
        return _between(2, room, chance) if chance.random() < SHORT else room

    def _pack_single(self, plan: array, starts: Sequence[int], chance: Random) -> None:
        """Rows of one segment: as many whole sentences as fit."""
        at, end = starts[0], starts[-1]
        while at < end:
            target = self._target(self.args.length - 2, chance)
            after = starts[bisect_right(starts, at + target) - 1]
            if after <= at:  # the sentence alone is longer
                after = at + target
            plan.extend((at, after - at, after, 0, IGNORED))
            at = after

    def _pack_pairs(self, plan: array, d: int, chance: Random) -> None:
        """Rows of two segments, out of document d."""
        starts = memoryview(self.corpus.starts(d))  # of its sentences in ids
        last = len(starts) - 1
        room = self.args.length - 3
        first = 0
        while first < last and last > 1:
            target = self._target(room, chance)
            # sentences first … after − 1: the fewest that reach the target; each has a token
            enough = min(first + target, last)
            after = bisect_left(starts, starts[first] + target, first + 1, enough)
            label = int(chance.random() < 0.5)
            if after - first == 1 and label == 0:  # a pair needs two
                first, after = (first, after + 1) if after < last else (first - 1, after)
            cut = first + 1 if after - first == 1 else _between(first + 1, after - 1, chance)
            a = (starts[first], starts[cut] - starts[first])
            if label:
                b = self._elsewhere(d, target - a[1], chance)
                first = cut
            else:
                b = (starts[cut], starts[after] - starts[cut])
                first = after
            plan.extend((*_truncate(*a, *b, room, chance), label))

    def _elsewhere(self, d: int, wanted: int, chance: Random) -> tuple[int, int]:
        """(begin, length) of sentences from another document, at least one."""
        other = _between(0, self.corpus.n_documents - 2, chance)
        starts = memoryview(self.corpus.starts(other + (other >= d)))
        last = len(starts) - 1
        first = _between(0, last - 1, chance)
        enough = max(first + 1, min(first + wanted, last))
        after = bisect_left(starts, starts[first] + wanted, first + 1, enough)
        return starts[first], starts[after] - starts[first]

    def _pack_full(self, plan: array) -> None:
        """Rows of whole sentences, from one document into the next."""
        chance = np.random.default_rng([self.args.seed, self.epoch])
        self.order = chance.permutation(self.corpus.n_documents)
        self.ends = np.cumsum(self.corpus.document_lengths[self.order] + 1) - 1  # in the stream
        begin, used, offset = 0, 1, 0  # the row that is being filled; [CLS] is in it
        for d in self.order.tolist():
            starts = memoryview(self.corpus.starts(d))
            at, end = starts[0], starts[-1]
            while at < end:
                room = self.args.length - used - 1  # a [SEP] ends it
                after = starts[bisect_right(starts, at + room) - 1] if room > 0 else at
                if after <= at and used == 1:  # a sentence longer than a row is cut
                    after = at + room
                if after > at:
                    used += after - at
                    at = after
                if at < end:  # the row is full
                    here = offset + at - starts[0]
                    # without a sentence of this document, the [SEP] before it ends the row
                    plan.extend((begin, here - (at == starts[0]) - begin, 0, 0, IGNORED))
                    begin, used = here, 1
            used += 1  # the [SEP] after the document
            offset += end - starts[0] + 1
        plan.extend((begin, offset - 1 - begin, 0, 0, IGNORED))

    def __len__(self) -> int:
        return len(self.plan)

    def lengths(self, rows: Any = slice(None)) -> np.ndarray:
        """(rows,) int64: tokens of rows of this epoch, [CLS] and [SEP] included."""
        plan = self.plan[rows]
        return plan[:, 1] + plan[:, 3] + (2 if self.args.objective == "none" else 3)

    def batch(self, rows: Sequence[int]) -> dict[str, Any]:
        """A batch of rows: token_ids, token_type_ids, attention_mask, labels, next_labels: int64.

        labels (B, L) are the ids of the masked tokens, ``masked`` of them, and −100 elsewhere;
        next_labels (B,) are 0, 1, or −100 without a second segment. The masks depend on seed, epoch
        and rows alone, so a resumed epoch, or another process, masks the same tokens.
        """
        lengths = self.lengths(rows)[:, None]  # (B, 1)
        a, length_a, b, _, relation = self.plan[rows].T[:, :, None]  # (B, 1) each
        columns = np.arange(lengths.max())  # (L,)
        begin_b, is_real = length_a + 2, columns < lengths  # the column; (B, L)
        is_b = (columns >= begin_b) & is_real  # with its [SEP]; (B, L)
        is_text = (columns <= length_a) | (is_b & (columns < lengths - 1))
        is_text[:, 0] = False
        positions = np.where(is_b, b - begin_b, a - 1) + columns
        ids = np.where(is_real, self.tokenizer.sep_token_id, self.tokenizer.pad_token_id)
        ids[is_text] = self._tokens(positions[is_text])
        ids[:, 0] = self.tokenizer.cls_token_id

        content = zlib.crc32(ids[is_real].tobytes())
        mixed = np.random.SeedSequence([self.args.seed, self.epoch, content])
        generator = torch.Generator().manual_seed(int(mixed.generate_state(1, np.uint64)[0]))
        whole = torch.from_numpy(ids)  # (B, L)
        mask_id, size = self.tokenizer.mask_token_id, self.tokenizer.vocab_size
        options = (self.special[whole], mask_id, size, self.probability, generator)
        inputs, labels = mask_tokens(whole, *options)
        return {
            "token_ids": inputs,
            "token_type_ids": torch.from_numpy(is_b.astype(np.int64)),
            "attention_mask": torch.from_numpy(is_real.astype(np.int64)),
            "labels": labels,
            "next_labels": torch.from_numpy(relation[:, 0]),
            "masked": int((labels != IGNORED).sum()),
        }

    collate_fn = batch  # the name that a DataLoader knows

    def __getitem__(self, row: int) -> int:
        """What ``batch`` takes of a row: its number."""
        return row

    def _tokens(self, positions: np.ndarray) -> np.ndarray:
        """The ids at positions of the corpus or, with full sentences, of the epoch's stream."""
        if not self.args.full_sentences:
            return self.corpus.ids(positions)
        document = np.searchsorted(self.ends, positions)  # in the epoch's order
        is_end = positions == self.ends[document]
        ends = self.corpus.document_ends[self.order[document]]  # in the corpus
        ids = self.corpus.ids(ends - np.maximum(self.ends[document] - positions, 1))
        return np.where(is_end, self.tokenizer.sep_token_id, ids)


def _between(lowest: int, highest: int, chance: Random) -> int:
    """A random whole number, both ends included."""
    return lowest + int(chance.random() * (highest - lowest + 1))


def _truncate(
    begin_a: int, length_a: int, begin_b: int, length_b: int, room: int, chance: Random
) -> tuple[int, int, int, int]:
    """Shorten two segments to ``room`` tokens together, as BERT's code does.

    It takes token after token from the longer segment, from its front or its back by a coin.
    """
    while length_a + length_b > room:
        front = int(chance.random() < 0.5)
        if length_a > length_b:
            begin_a, length_a = begin_a + front, length_a - 1
        else:
            begin_b, length_b = begin_b + front, length_b - 1
    return begin_a, length_a, begin_b, length_b
