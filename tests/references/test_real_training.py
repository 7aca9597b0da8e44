"""Twenty real training steps as in transformers: same weights, same batches, no dropout."""

from itertools import islice
from types import SimpleNamespace

import pytest
from torch.nn import functional as F
from torch.utils.data import DataLoader

from classifier import BertSentimentClassifier, ClassifierFlags, SentimentDataset, load_data
from config import BertConfig
from optimizer import AdamW
from training.loop.batches import LengthBatches

STEPS = 20


def test_losses_equal_transformers_over_twenty_steps(offline_model, real_data):
    transformers = pytest.importorskip("transformers")
    model_name = str(offline_model)
    args = ClassifierFlags(model=model_name)
    rows, num_labels = load_data(real_data / "ids-sst-train.csv")
    dataset = SentimentDataset(rows, args)
    batches = islice(LengthBatches(dataset.lengths(), 8, seed=0), STEPS)
    loader = DataLoader(dataset, batch_sampler=list(batches), collate_fn=dataset.collate_fn)

    ours = BertSentimentClassifier(
        SimpleNamespace(
            hidden_dropout_prob=0.0,
            num_labels=num_labels,
            hidden_size=BertConfig.from_pretrained(model_name).hidden_size,
            option="finetune",
            model=model_name,
        )
    ).eval()  # evaluation mode: dropout 0 in every layer, gradients all the same
    theirs = transformers.BertForSequenceClassification.from_pretrained(
        model_name, num_labels=num_labels, attn_implementation="eager"
    ).eval()
    theirs.classifier.load_state_dict(ours.classifier.state_dict())
    optimizers = [AdamW(model.parameters(), lr=5e-5) for model in (ours, theirs)]

    differences = []
    for batch in loader:
        ids, mask, labels = batch["token_ids"], batch["attention_mask"], batch["labels"]
        our_loss = F.cross_entropy(ours(ids, mask), labels)
        their_loss = theirs(input_ids=ids, attention_mask=mask, labels=labels).loss
        differences.append(abs(our_loss.item() - their_loss.item()))
        for optimizer, loss in zip(optimizers, (our_loss, their_loss), strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert len(differences) == STEPS
    assert max(differences) < 1e-4, f"step {differences.index(max(differences)) + 1}"
