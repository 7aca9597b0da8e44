"""lessons/lora.py: what learns, and the rank of a full update."""

from types import SimpleNamespace

import pytest
import torch
from factories import save_tiny_model
from running import assert_refused, succeeded

from bert import BertModel
from classifier import BertSentimentClassifier
from lessons import lora as lesson
from optimizer import AdamW
from training.loop import save_model


def test_the_table_counts_what_learns(run_script_here):
    done = succeeded(run_script_here(lesson, "--rank", 4, "--length", 16))
    rows = {line[:31].strip(): line[31:].split() for line in done.out.splitlines()[3:]}
    assert rows["all of it"][:2] == ["109,482,240", "100.000%"]
    assert rows["LoRA, r = 4, query and value"][0] == f"{12 * 2 * 4 * 2 * 768:,}"
    assert rows["nothing: a head alone"][:2] == ["0", "0.000%"]
    megabytes = [float(number.replace(",", "")) for number in rows["all of it"][2:]]
    assert megabytes[0] == round(4 * 109_482_240 / 2**20)
    assert megabytes[1] == pytest.approx(12 * 109_482_240 / 2**20, abs=0.05)
    assert megabytes[3] == pytest.approx(sum(megabytes[:3]), abs=1.5)


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory):
    """Two checkpoints of classifier.py: one fine-tuned (by hand), one with a frozen BERT."""
    folder = tmp_path_factory.mktemp("classifiers")
    save_tiny_model(folder)
    paths = {}
    for option in ("finetune", "pretrain"):
        config = SimpleNamespace(hidden_size=32, hidden_dropout_prob=0.1, num_labels=5)
        config.model, config.option, config.data_dir = str(folder), option, "."
        model = BertSentimentClassifier(config)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "query" in name or "classifier" in name:
                    parameter.add_(torch.randn_like(parameter))
        paths[option] = folder / f"{option}.pt"
        save_model(model, AdamW(model.parameters()), SimpleNamespace(), config, paths[option])
    return paths


def test_the_rank_of_a_classifiers_update(classifiers, tiny_data, run_script_here, monkeypatch):
    """The model that is measured has updates of the rank that its row names."""
    before = BertModel.from_pretrained(classifiers["finetune"].parent)

    def rank_in_place_of_accuracy(loader, model, device):
        first, second = (b.bert_layers[1].self_attention.query.weight for b in (before, model.bert))
        return (float(torch.linalg.matrix_rank(second - first, atol=1e-4)),)

    monkeypatch.setattr(lesson, "model_eval", rank_in_place_of_accuracy)
    flags = ("--checkpoint", classifiers["finetune"], "--data_dir", tiny_data)
    done = succeeded(run_script_here(lesson, *flags))
    table = [line.split() for line in done.out.splitlines() if line[:4].strip().isdigit()]
    assert [int(row[0]) for row in table] == list(lesson.RANKS)
    assert [float(row[-1]) for row in table] == [min(32, rank) for rank in lesson.RANKS]
    queries = [float(row[1]) for row in table]
    assert queries == sorted(queries)
    assert (queries[0], queries[-1]) == (0.0, 1.0)
    assert {row[2] for row in table} == {"1.000"}  # the keys never moved


def test_a_frozen_bert_has_no_update(classifiers, run_script_here):
    done = run_script_here(lesson, "--checkpoint", classifiers["pretrain"])
    assert_refused(done, "trained with --option pretrain")
