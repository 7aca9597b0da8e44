"""research/experiments/counting.py: the probabilities of its formula; the masks of pre-training."""

import math
from itertools import pairwise

import numpy as np
import pytest
from support import succeeded, tiny_vocabulary

from pretraining import pretrain
from pretraining.building import build
from research.experiments import counting
from research.experiments.counting import PRIOR, NeighbourCounts
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
    pairs = [pair for ids in documents for pair in pairwise(ids)]
    pieces = [i for ids in documents for i in ids]
    p = [(pieces.count(w) + 1) / (len(pieces) + size) for w in range(size)]

    def conditional(word, given):  # p(word | given)
        of_given = [second for first, second in pairs if first == given]
        return (of_given.count(word) + PRIOR * p[word]) / (len(of_given) + PRIOR)

    left, right = pairs[3][0], pairs[4][1]
    unnormalised = [conditional(w, left) * conditional(right, w) for w in range(size)]
    wanted = [math.log(one / sum(unnormalised)) for one in unnormalised]
    found = NeighbourCounts(corpus, size).log_probabilities(np.array([left]), np.array([right]))
    np.testing.assert_allclose(found[0], wanted, rtol=1e-9)


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
