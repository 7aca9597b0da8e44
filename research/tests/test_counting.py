"""research/experiments/counting.py: the probabilities of its formula; the masks of pre-training."""

from itertools import pairwise

import numpy as np
import pytest
from support import succeeded, tiny_vocabulary

from pretraining import pretrain
from pretraining.building import build
from research.experiments import counting
from research.experiments.counting import NeighbourModel
from tokenizer import BertTokenizer

TEXT = "the cat sat on the mat .\nthe dog sat on the cat .\n\na cat and a dog ate the fish .\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A text of many documents, its corpus and its vocabulary."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "book.txt").write_text(TEXT * 40, encoding="utf-8")
    words = sorted(set(TEXT.split()) | set("captain looked at".split()))
    vocabulary = [*tiny_vocabulary(), *(word for word in words if word not in tiny_vocabulary())]
    BertTokenizer(vocabulary).save_pretrained(folder / "vocabulary")
    corpus = build([folder / "book.txt"], BertTokenizer(vocabulary), folder / "corpus")
    return folder, corpus, len(vocabulary)


def test_the_probabilities_are_those_of_the_formula(place):
    _, corpus, size = place
    documents = [
        [int(i) for i in corpus.ids[starts[0] : starts[-1]]]
        for starts in map(corpus.starts, range(corpus.n_documents))
    ]
    tokens = [i for ids in documents for i in ids]
    p = [(tokens.count(w) + 1) / (len(tokens) + size) for w in range(size)]
    after = [pair for ids in documents for pair in pairwise(ids)]
    before = [(second, first) for first, second in after]
    gaps = [(ids[i - 1], ids[i], ids[i + 1]) for ids in documents for i in range(1, len(ids) - 1)]

    def conditional(word, context, pairs):
        nexts = [token for of, token in pairs if of == context]
        if not nexts:
            return p[word]
        kinds = [token for _, token in set(pairs)]
        backoff = (kinds.count(word) + 0.5) / (len(kinds) + 0.5 * size)
        kept = max(nexts.count(word) - 0.6, 0)
        return (kept + 0.6 * len(set(nexts)) * backoff) / len(nexts)

    model = NeighbourModel(corpus, size)
    model.pair_discount, model.gap_discount = 0.6, 0.8
    unseen = size - 1 - [0 if w in tokens else 1 for w in range(size)][::-1].index(1)
    for left, right in ((gaps[3][0], gaps[3][2]), (gaps[3][0], unseen)):
        product = [conditional(w, left, after) * conditional(w, right, before) / p[w]
                   for w in range(size)]  # fmt: skip
        between = [w for a, w, b in gaps if (a, b) == (left, right)]
        left_over = 0.8 * len(set(between)) / len(between) if between else 1
        expected = [
            max(between.count(w) - 0.8, 0) / max(len(between), 1)
            + left_over * product[w] / sum(product)
            for w in range(size)
        ]
        assert sum(expected) == pytest.approx(1)
        predicted = model.log_probabilities(np.array([left]), np.array([right]))
        np.testing.assert_allclose(np.exp(predicted[0]), expected, rtol=1e-9)
    assert left_over == 1  # the second gap is not in the text


def test_discounts_are_chosen_by_the_loss_on_a_part_of_the_text(place):
    folder, corpus, size = place
    tokenizer = BertTokenizer.from_pretrained(folder / "vocabulary")
    flags = ["--corpus", folder / "corpus", "--length", "16", "--held_out", "0.2"]
    args = counting.get_args([str(flag) for flag in flags])
    model = counting.tuned(corpus, tokenizer, args)
    assert model.counts.sum() == NeighbourModel(corpus, size).counts.sum()  # all of the text
    # a text that repeats itself: what is seen once will be seen again
    assert (model.pair_discount, model.gap_discount) == (
        min(counting.PAIR_DISCOUNTS),
        min(counting.GAP_DISCOUNTS),
    )


def test_both_models_are_measured_at_the_same_masks(place, run_script_here):
    folder, _, _ = place
    flags = ["--length", "16", "--batch_size", "4", "--eval_rows", "8", "--held_out", "0.2"]
    line = ["--preset", "tiny", "--objective", "none", "--full_sentences", "--seed", "0"]
    line += ["--text", folder / "book.txt", "--corpus", folder / "corpus", "--steps", "1"]
    line += ["--vocab", folder / "vocabulary", "--out", folder / "model", *flags]
    trained = succeeded(run_script_here(pretrain, *line))
    done = succeeded(
        run_script_here(
            counting, "--corpus", folder / "corpus", "--model", folder / "model", *flags
        )
    )
    assert done.out.count("[MASK]") == len(counting.SENTENCES)
    # what pre-training said of its model, up to the rounding of another attention kernel
    told = float(trained.out.split("step 1: mlm loss ")[1].split(" ")[0])
    measured = float(done.out.split("BERT: loss ")[1].split(",")[0])
    assert measured == pytest.approx(told, abs=0.002)
    counted = float(done.out.split("counting: loss ")[1].split(",")[0])
    assert counted < float(trained.out.split("unigram entropy ")[1].split(")")[0])
