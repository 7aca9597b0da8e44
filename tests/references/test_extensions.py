"""Cross encoding, layers of a task's own, pooling, and which task is next."""

from types import SimpleNamespace

import pytest
import scipy.stats
import torch
import transformers
from factories import make_rows, padded_batch, random_bert, save_tiny_model, tiny_config
from running import assert_same_tensors, one_line_error

from bert import BertModel
from datasets import SentencePairDataset, preprocess_string
from extensions.features import pooling
from extensions.features.cross_encoding import concat
from extensions.parameters.task_layers import encode, split_top_layers
from extensions.text.sampling import Turns
from training.loop.batches import LengthBatches
from training.loop.models import check_segments


def test_cross_encoding_is_that_of_transformers(tmp_path):
    """On a random BERT of only 40 positions; the last pairs are cut, on either side."""
    folder = str(save_tiny_model(tmp_path, max_position_embeddings=40))
    text = " ".join(row[1] for row in make_rows(200)).split()
    counts = [(12, 12), (12, 3), (3, 12), (12, 11), (11, 12)]
    pairs = [(" ".join(text[:one]), " ".join(text[:two])) for one, two in counts]
    pairs += [("How old are you?", "what is your age"), ("", "A dog runs.")]
    data = SentencePairDataset([(*pair, 0, "x") for pair in pairs], SimpleNamespace(model=folder))
    batch = data.collate_fn(list(data))
    keys = ("token_ids_1", "attention_mask_1", "token_ids_2", "attention_mask_2")
    ids, mask, segments = concat(*(batch[key] for key in keys), 0, 40)
    tokenizer = transformers.BertTokenizer.from_pretrained(folder, local_files_only=True)
    joined = tokenizer(
        *([preprocess_string(text) for text in side] for side in zip(*pairs, strict=True)),
        padding=True,
        truncation=True,
        max_length=40,
        return_tensors="pt",
        return_token_type_ids=True,
    )
    assert torch.equal(ids, joined["input_ids"])
    assert torch.equal(mask, joined["attention_mask"])
    assert torch.equal(segments, joined["token_type_ids"])
    with_another_padding, *_ = concat(*(batch[key] for key in keys), 99, 40)
    assert torch.equal(with_another_padding, ids.masked_fill(mask == 0, 99))
    assert mask.sum(dim=1).tolist()[:5] == [40] * 5
    with torch.no_grad():
        ours = encode(BertModel.from_pretrained(folder), ids, mask, segments)
        theirs = transformers.BertModel.from_pretrained(folder).eval()(**joined)
    difference = (ours["last_hidden_state"] - theirs.last_hidden_state)[mask.bool()]
    assert difference.abs().max() < 1e-5
    assert (ours["pooler_output"] - theirs.pooler_output).abs().max() < 1e-5


def test_a_model_without_segments_is_one_line():
    assert check_segments(BertModel(tiny_config()), "--pair") is None
    with one_line_error("--pair needs "):
        check_segments(BertModel(tiny_config(type_vocab_size=1)), "--pair")


IDS, MASK, _ = padded_batch(4, 3)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_own_layers_begin_as_copies_that_learn(count):
    bert = random_bert(num_hidden_layers=3).requires_grad_(False)
    expected = bert(IDS, MASK)
    layers = split_top_layers(bert, count, ("sst", "sts"))
    assert len(bert.bert_layers) == 3 - count
    assert set(layers) == {"sst", "sts"}
    for task in layers:
        output = encode(bert, IDS, MASK, layers=layers[task])
        assert_same_tensors(output, expected)
    assert all(parameter.requires_grad for parameter in layers.parameters())
    assert not any(parameter.requires_grad for parameter in bert.parameters())


def test_pooling_by_hand():
    hidden = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [50.0, 60.0]], [[5.0, 1.0]] * 3])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    output = {"last_hidden_state": hidden, "pooler_output": torch.tensor([[0.1, 0.2], [0.3, 0.4]])}
    expected = {
        "pooler": [[0.1, 0.2], [0.3, 0.4]],
        "cls": [[1.0, -4.0], [5.0, 1.0]],
        "mean": [[2.0, -3.0], [5.0, 1.0]],
    }
    assert set(expected) == set(pooling.KINDS)
    for kind, rows in expected.items():
        torch.testing.assert_close(pooling.pool(output, mask, kind), torch.tensor(rows))


REAL_SIZES = {"sst": 8544, "para": 141498, "sts": 6040}


def order(kind: str, epoch: int = 1, steps: int = 20_000, seed: int = 0) -> list[str]:
    sets = {name: SimpleNamespace(dataset=range(size)) for name, size in REAL_SIZES.items()}
    return Turns(sets, steps, kind, epochs=25, seed=seed, first_task="sts").order(epoch)


@pytest.mark.parametrize(
    ("epoch", "expected"), [(1, (0.055, 0.907, 0.039)), (25, (0.271, 0.476, 0.253))]
)
def test_annealed_draws_follow_the_formula(epoch, expected):
    """Fractions of the course's data by Stickland & Murray's formula, of 25 epochs."""
    names = order("annealed", epoch)
    counts = [names.count(name) for name in REAL_SIZES]
    wanted = [fraction / sum(expected) * len(names) for fraction in expected]
    assert scipy.stats.chisquare(counts, wanted).pvalue > 0.001
    assert names == order("annealed", epoch)
    assert names != order("annealed", epoch, seed=1)


def test_one_task_comes_before_the_others():
    assert set(order("before", 1)) == {"sts"}
    assert order("before", 2, steps=5) == ["sst", "para", "sst", "para", "sst"]
    assert order("round_robin", 2, steps=4) == ["sst", "para", "sts", "sst"]


class Rows(list):
    """A data set of numbers."""

    def collate_fn(self, rows):
        return {"labels": rows}


@pytest.mark.parametrize(("kind", "tasks"), [("round_robin", 1), ("together", 2)])
def test_turns_continue_where_the_epoch_before_has_come_to(kind, tasks):
    """Every row of a task once before any comes again, in a new order, also after a stop."""
    sets = {"a": Rows(range(10)), "b": Rows(range(100, 105))}
    loaders = {
        name: SimpleNamespace(dataset=rows, batch_sampler=LengthBatches([1] * len(rows), 2, seed=0))
        for name, rows in sets.items()
    }
    whole = []
    for epoch in range(1, 7):
        turns = Turns(loaders, 4, kind)
        turns.set_epoch(epoch)
        steps = [step["turns"] for step in turns]
        assert [len(step) for step in steps] == [tasks] * len(turns)
        assert len(turns) == 4 // tasks
        whole += [(batch["task"], batch["labels"]) for step in steps for batch in step]
        turns.set_epoch(epoch, skip=1)
        assert [step["turns"] for step in turns] == steps[1:]
    for name, own in sets.items():
        rows = [row for task, labels in whole if task == name for row in labels]
        rounds = [rows[: len(own)], rows[len(own) : 2 * len(own)]]
        assert [sorted(one) for one in rounds] == [own, own]
        assert rounds[0] != rounds[1]
