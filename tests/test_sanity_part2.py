"""sanity_part2.py against our MultitaskBERT, wrong versions, and other right ones."""

import sys
from argparse import Namespace
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bert
import sanity_check
import sanity_part1
import sanity_part2
from sanity_tools import faulty
from tasks import TASKS, task
from utils import InputError

INIT, FORWARD, SENTIMENT = "multitask.init", "multitask.forward", "multitask.predict_sentiment"
PARAPHRASE, SIMILARITY = "multitask.predict_paraphrase", "multitask.predict_similarity"
IDS = (INIT, FORWARD, SENTIMENT, PARAPHRASE, SIMILARITY)
NO_DROPOUT = "no dropout of your own in training mode"
SHIFT = "more columns of padding after the first sentence change results"
FROZEN = "option pretrain: none of your layers takes part"


class Plain(nn.Module):
    """A bi-encoder: a linear layer for each task, over the pooled output or two of them."""

    def __init__(self, config):
        super().__init__()
        self.bert = bert.BertModel.from_pretrained("bert-base-uncased")
        for parameter in self.bert.parameters():
            parameter.requires_grad = config.option == "finetune"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.width = config.hidden_size
        self.make_heads(config)

    def make_heads(self, config):
        self.sentiment = nn.Linear(self.width, 5)
        self.paraphrase = nn.Linear(2 * self.width, 1)
        self.similarity = nn.Linear(2 * self.width, 1)

    def forward(self, ids, mask):
        return self.bert(ids, mask)["pooler_output"]

    def features(self, ids_1, mask_1, ids_2, mask_2):
        pair = self.forward(ids_1, mask_1), self.forward(ids_2, mask_2)
        return self.dropout(torch.cat(pair, dim=-1))

    def predict_sentiment(self, ids, mask):
        vectors = self.forward(ids, mask)
        return self.sentiment(self.dropout(vectors))

    def predict_paraphrase(self, *batch):
        return self.paraphrase(self.features(*batch)).squeeze(-1)

    def predict_similarity(self, *batch):
        return self.similarity(self.features(*batch)).squeeze(-1)


@pytest.fixture
def use(monkeypatch):
    """A function that makes a class the student's MultitaskBERT."""
    module = ModuleType("multitask_classifier")
    module.get_args = lambda: Namespace(pair_model="mini", option="a default")
    monkeypatch.setitem(sys.modules, "multitask_classifier", module)

    def function(cls):
        module.MultitaskBERT = cls
        return module

    return function


def found():
    """Findings by task, only of tasks that have any."""
    findings = {task_id: sanity_part2.check(task(task_id)) for task_id in IDS}
    return {task_id: list_ for task_id, list_ in findings.items() if list_}


def split(findings):
    """Tasks with faults, the texts of all hints."""
    wrong = {k: faulty(v) for k, v in findings.items()}
    hints = [f.text for v in findings.values() for f in v if f.kind == "hint"]
    return {k: v for k, v in wrong.items() if v}, hints


# ---------------------------------------------------------------------------------------------
# Right ways


class Differences(Plain):
    """Concatenation with |u − v|, shape (B, 1)."""

    def make_heads(self, config):
        super().make_heads(config)
        self.paraphrase = nn.Sequential(
            nn.Linear(3 * self.width, self.width), nn.ReLU(), nn.Linear(self.width, 1)
        )
        self.similarity = nn.Linear(3 * self.width, 1)

    def features(self, ids_1, mask_1, ids_2, mask_2):
        u, v = self(ids_1, mask_1), self(ids_2, mask_2)
        return self.dropout(torch.cat((u, v, (u - v).abs()), dim=-1))

    def predict_paraphrase(self, *batch):
        return self.paraphrase(self.features(*batch))

    def predict_similarity(self, *batch):
        return self.similarity(self.features(*batch))


class Cosine(Plain):
    """Cosines without layers of their own; a paraphrase's is scaled, with a threshold."""

    def embeddings(self, ids_1, mask_1, ids_2, mask_2):
        return self.dropout(self(ids_1, mask_1)), self.dropout(self(ids_2, mask_2))

    def predict_paraphrase(self, *batch):
        return 20 * (F.cosine_similarity(*self.embeddings(*batch)) - 0.5)

    def predict_similarity(self, *batch):
        return nn.CosineSimilarity()(*self.embeddings(*batch)) * 5


class BareCosine(Cosine):
    """A cosine as a logit is poor, yet no probability."""

    def predict_paraphrase(self, *batch):
        return F.cosine_similarity(*self.embeddings(*batch))


class ScaledSigmoid(Plain):
    """Scores between 0 and 5, order dependent."""

    def predict_similarity(self, *batch):
        return 5 * super().predict_similarity(*batch).sigmoid()


class UnitSigmoid(Plain):
    """Scores between 0 and 1, for labels divided by 5."""

    def predict_similarity(self, *batch):
        return super().predict_similarity(*batch).sigmoid()


class Distance(Plain):
    """Minus the distance: never above zero."""

    def predict_similarity(self, ids_1, mask_1, ids_2, mask_2):
        u, v = self.dropout(self(ids_1, mask_1)), self.dropout(self(ids_2, mask_2))
        return -(u - v).abs().sum(-1)


class Pooled(Plain):
    """forward as the mean of the real pieces beside [CLS]: (B, 2·D)."""

    def make_heads(self, config):
        self.sentiment = nn.Sequential(nn.LayerNorm(2 * self.width), nn.Linear(2 * self.width, 5))
        self.paraphrase = nn.Bilinear(2 * self.width, 2 * self.width, 1)
        self.similarity = nn.Linear(4 * self.width, 1)

    def forward(self, ids, mask):
        hidden = self.bert(ids, mask)["last_hidden_state"]
        weights = mask[..., None].to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return torch.cat((mean, hidden[:, 0]), dim=-1)

    def predict_paraphrase(self, ids_1, mask_1, ids_2, mask_2):
        u, v = self.dropout(self(ids_1, mask_1)), self.dropout(self(ids_2, mask_2))
        return self.paraphrase(u, v)[:, 0]


class HiddenForward(Plain):
    """forward returns all that BERT returns; the predictions pool."""

    def forward(self, ids, mask, segments=None):
        return self.bert(ids, mask, segments)

    def features(self, ids_1, mask_1, ids_2, mask_2):
        u = self(ids_1, mask_1)["last_hidden_state"].masked_fill(mask_1[..., None] == 0, -9)
        v = self(ids_2, mask_2)["last_hidden_state"].masked_fill(mask_2[..., None] == 0, -9)
        return self.dropout(torch.cat((u.amax(1), v.amax(1)), dim=-1))

    def predict_sentiment(self, ids, mask):
        hidden = self(ids, mask)["pooler_output"]
        return self.sentiment(self.dropout(hidden)).log_softmax(-1)  # logits, too


class Cross(Plain):
    """Each pair is put together as [CLS] a [SEP] b [SEP] and read at once."""

    def make_heads(self, config):
        self.sentiment = nn.Linear(self.width, 5)
        self.paraphrase = nn.Linear(self.width, 1)
        self.similarity = nn.Linear(self.width, 1)

    def features(self, ids_1, mask_1, ids_2, mask_2):
        rows = [torch.cat((a[a != 0], b[b != 0][1:])) for a, b in zip(ids_1, ids_2, strict=True)]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        first = torch.tensor([int((a != 0).sum()) for a in ids_1])[:, None]
        segments = (torch.arange(ids.size(1)) >= first).long() * (ids != 0)
        return self.dropout(self.bert(ids, (ids != 0).long(), segments)["pooler_output"])


class ForwardOfPairs(Cross):
    """forward takes two sentences, and calls the parts of BERT."""

    def forward(self, ids_1, mask_1, ids_2, mask_2):
        hidden = self.bert.embed(torch.cat((ids_1, ids_2[:, 1:]), 1))
        return self.bert.encode(hidden, torch.cat((mask_1, mask_2[:, 1:]), 1))[:, 0]

    def features(self, *batch):
        return self.dropout(self(*batch))

    def predict_sentiment(self, ids, mask):
        return self.sentiment(self.dropout(self.bert(ids, mask)["pooler_output"]))


class AlwaysPositive(Cross):
    """For these six pairs, with this start, all logits are between 0 and 1."""

    def make_heads(self, config):
        super().make_heads(config)
        with torch.no_grad():
            self.paraphrase.weight.mul_(0.1)
            self.paraphrase.bias.fill_(0.5)

    def features(self, ids_1, mask_1, ids_2, mask_2):
        hidden = self.bert.embed(torch.cat((ids_1, ids_2[:, 1:]), 1))
        mask = torch.cat((mask_1, mask_2[:, 1:]), 1)
        return self.dropout(self.bert.encode(hidden, mask)[:, 0])


class NaiveCross(Cross):
    """The padded batches side by side: right, but positions depend on the padding."""

    def features(self, ids_1, mask_1, ids_2, mask_2):
        ids, mask = torch.cat((ids_1, ids_2), 1), torch.cat((mask_1, mask_2), 1)
        return self.dropout(self(ids, mask))


class CrossAttention(Plain):
    """Attention of one sentence's pieces to the other's, by nn.MultiheadAttention."""

    def make_heads(self, config):
        super().make_heads(config)
        self.across = nn.MultiheadAttention(self.width, 12, dropout=0.1, batch_first=True)

    def features(self, ids_1, mask_1, ids_2, mask_2):
        u = self.bert(ids_1, mask_1)["last_hidden_state"]
        v = self.bert(ids_2, mask_2)["last_hidden_state"]
        from_v, _ = self.across(u[:, :1], v, v, key_padding_mask=mask_2 == 0)
        return torch.cat((u[:, 0], from_v[:, 0]), dim=-1)


class ThreeEncoders(Plain):
    """A BERT for each kind of task, flags of its own, a batch norm, zeros to start from."""

    def make_heads(self, config):
        super().make_heads(config)
        self.pairs = bert.BertModel.from_pretrained(config.pair_model)
        self.pairs.requires_grad_(config.option == "finetune")
        self.norm = nn.BatchNorm1d(2 * self.width)
        nn.init.zeros_(self.paraphrase.weight)

    def features(self, ids_1, mask_1, ids_2, mask_2):
        pair = self.pairs(ids_1, mask_1), self.pairs(ids_2, mask_2)
        return self.norm(torch.cat([outputs["pooler_output"] for outputs in pair], dim=-1))


class HalfFrozen(Plain):
    """Only the upper layer of BERT is fine-tuned."""

    def make_heads(self, config):
        super().make_heads(config)
        self.bert.word_embedding.requires_grad_(False)
        self.bert.bert_layers[0].requires_grad_(False)


class MonteCarlo(Plain):
    """Dropout at evaluation may be meant."""

    def predict_sentiment(self, ids, mask):
        return self.sentiment(F.dropout(self(ids, mask), 0.3))


class NoDropout(Plain):
    def predict_sentiment(self, ids, mask):
        return self.sentiment(self(ids, mask))


class Root(Plain):
    """A root's gradient is infinite where two sentences are the same."""

    def predict_similarity(self, ids_1, mask_1, ids_2, mask_2):
        u, v = self.dropout(self(ids_1, mask_1)), self.dropout(self(ids_2, mask_2))
        return -(u - v).square().sum(-1).sqrt()


class Squeezed(Plain):
    def predict_similarity(self, *batch):
        return self.similarity(self.features(*batch)).squeeze()


RIGHT = {  # name: class, words of the hints that are given
    "plain": (Plain, []),
    "|u − v|": (Differences, []),
    "cosine": (Cosine, [FROZEN] * 2),
    "bare cosine": (BareCosine, [FROZEN] * 2),
    "scaled sigmoid": (ScaledSigmoid, []),
    "sigmoid for scores": (UnitSigmoid, []),
    "distance": (Distance, [FROZEN]),
    "a wider forward": (Pooled, ["shape (6, 192) instead of (6, 96)"]),
    "forward returns all": (HiddenForward, ["returns a dict instead of a tensor with an emb"]),
    "cross encoding": (Cross, []),
    "padded batches side by side": (NaiveCross, [SHIFT] * 2),
    "a forward of pairs": (ForwardOfPairs, ["TypeError: ", SHIFT, SHIFT]),
    "logits between 0 and 1": (AlwaysPositive, [SHIFT] * 2),
    "cross attention": (CrossAttention, []),
    "three encoders": (ThreeEncoders, [NO_DROPOUT] * 2),
    "half frozen": (HalfFrozen, ["option finetune: only 22 of 39 "]),
    "dropout at evaluation": (MonteCarlo, ["results change from call to call in evaluation mode"]),
    "no dropout": (NoDropout, [NO_DROPOUT]),
    "root": (Root, [FROZEN, "the gradient of a pair of identical sentences is not finite"]),
    "squeeze of all axes": (Squeezed, ["a batch of one gives shape (): squeeze() without"]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_way_is_not_accused(name, use):
    cls, words = RIGHT[name]
    use(cls)
    wrong, hints = split(found())
    assert wrong == {}
    assert len(hints) == len(words), hints
    for hint, start in zip(hints, words, strict=True):
        assert hint.startswith(start)


# ---------------------------------------------------------------------------------------------
# Wrong ones: each changes one thing of Plain


def wrong(**methods):
    """Plain with other methods."""
    return type("Wrong", (Plain,), methods)


def after(name, change):
    """Plain whose method ``name`` returns ``change`` of what it should."""
    method = getattr(Plain, name)
    return wrong(**{name: lambda self, *batch: change(method(self, *batch))})


def init(change):
    """Plain with something done to it at the end of __init__."""

    def __init__(self, config):
        Plain.__init__(self, config)
        change(self, config)

    return wrong(__init__=__init__)


def loads_no_bert(self, config):
    nn.Module.__init__(self)
    self.bert = bert.BertModel(bert.BertConfig(**sanity_part2.TINY))
    self.head = nn.Linear(config.hidden_size, 5)


def hides_bert(self, config):
    encoder = self.bert
    del self.bert
    self.encoders = [encoder]


def lists_heads(self, config):
    self.heads = [self.sentiment, self.paraphrase, self.similarity]
    del self.sentiment, self.paraphrase, self.similarity


def freezes_all(self, config):
    self.requires_grad_(False)


def mean_of_all(self, ids, mask):
    return self.bert(ids, mask)["last_hidden_state"].mean(1)


def no_mask(self, ids, mask):
    return self.bert(ids, torch.ones_like(mask))["pooler_output"]


def no_gradient(self, ids, mask):
    with torch.no_grad():
        return self.bert(ids, mask)["pooler_output"]


def first_only(self, ids_1, mask_1, ids_2, mask_2):
    return Plain.predict_paraphrase(self, ids_1, mask_1, ids_1, mask_1)


def second_twice(self, ids_1, mask_1, ids_2, mask_2):
    return Plain.predict_similarity(self, ids_2, mask_2, ids_2, mask_2)


def wrong_mask(self, ids_1, mask_1, ids_2, mask_2):
    return Plain.predict_similarity(self, ids_1, mask_1, ids_2, mask_1)


def detached_second(self, ids_1, mask_1, ids_2, mask_2):
    pair = self(ids_1, mask_1), self(ids_2, mask_2).detach()
    return self.similarity(torch.cat(pair, dim=-1)).squeeze(-1)


def no_padding_mask(self, ids_1, mask_1, ids_2, mask_2):
    u = self.bert(ids_1, mask_1)["pooler_output"]
    v = self.bert(ids_2, torch.ones_like(mask_2))["pooler_output"]
    return self.paraphrase(torch.cat((u, v), dim=-1)).squeeze(-1)


def new_layer(self, *batch):
    return nn.Linear(2 * self.width, 1)(self.features(*batch)).squeeze(-1)


def every_pair(self, ids_1, mask_1, ids_2, mask_2):
    return self(ids_1, mask_1) @ self(ids_2, mask_2).T


def equal(self, ids_1, mask_1, ids_2, mask_2):
    return F.cosine_similarity(self(ids_1, mask_1), self(ids_2, mask_2)) / 2 + 0.5


def divided_by_zero(self, ids_1, mask_1, ids_2, mask_2):
    return 1 / (self(ids_1, mask_1) - self(ids_2, mask_2)).square().sum(-1)


def squeezed_forward(self, ids, mask):
    return self.bert(ids, mask)["pooler_output"].squeeze()


def in_the_batch(scores):
    return (scores - scores.mean(0)) / scores.std(0)


def wide_head(self, config):
    self.similarity = nn.Linear(768 * 2, 1)


def own_option(self, config):
    self.kind = config.pooling_kind


def half_classes(self, config):
    self.sentiment = nn.Linear(self.width, 2)


class NoHeads(Plain):
    def make_heads(self, config):
        pass


WRONG = {  # name: task that is wrong, class, words that a finding must hold
    "no pretrained BERT": (INIT, wrong(__init__=loads_no_bert), "from_pretrained is not"),
    "BERT in a list": (INIT, init(hides_bert), "BERT is not part of the model"),
    "BERT always trained": (
        INIT,
        init(lambda self, config: self.bert.requires_grad_(True)),
        "option pretrain: 39 of 39 parameters of BERT train; all are to be frozen",
    ),
    "BERT never trained": (
        INIT,
        init(lambda self, config: self.bert.requires_grad_(False)),
        "option finetune: BERT's parameters are frozen",
    ),
    "no layers": (INIT, NoHeads, "no layer of your own"),
    "layers in a list": (INIT, init(lists_heads), "has to be an nn.ModuleList"),
    "all frozen": (INIT, init(freezes_all), "your own layers are frozen"),
    "an option of one's own": (INIT, init(own_option), "getattr(config, name, default)"),
    "all pieces": (
        FORWARD,
        wrong(forward=lambda self, ids, mask: self.bert(ids, mask)["last_hidden_state"]),
        "shape (6, 9, 96) instead of (6, 96): an embedding of each sentence; the axis of the word",
    ),
    "a dict": (
        FORWARD,
        wrong(forward=lambda self, ids, mask: self.bert(ids, mask)),
        "returns a dict instead of a tensor",
    ),
    "mean over padding": (FORWARD, wrong(forward=mean_of_all), "what stands at padding changes"),
    "no mask": (FORWARD, wrong(forward=no_mask), "attention_mask has to reach BERT"),
    "no gradient": (FORWARD, wrong(forward=no_gradient), "no gradient: the result is cut off"),
    "constant": (FORWARD, after("forward", lambda x: x * 0), "the sentence has no effect"),
    "NaN": (FORWARD, after("forward", lambda x: x / 0 * 0), "not finite: [nan, nan, nan] …"),
    "squeezed": (FORWARD, wrong(forward=squeezed_forward), "a batch of one gives shape (96,)"),
    "sentiment softmax": (
        SENTIMENT,
        after("predict_sentiment", lambda x: x.softmax(-1)),
        "probabilities are returned, as after a softmax",
    ),
    "sentiment sigmoid": (
        SENTIMENT,
        after("predict_sentiment", lambda x: x.sigmoid()),
        "probabilities are returned, as after a sigmoid",
    ),
    "sentiment class": (
        SENTIMENT,
        after("predict_sentiment", lambda x: x.argmax(-1)),
        "returns whole numbers (torch.int64); asked for is 5 logits for each sentence",
    ),
    "two sentiments": (SENTIMENT, init(half_classes), "shape (6, 2) instead of (6, 5)"),
    "softmax over the batch": (
        SENTIMENT,
        after("predict_sentiment", lambda x: x.softmax(0)),
        "changes the results of other sentences",
    ),
    "a probability": (
        PARAPHRASE,
        after("predict_paraphrase", lambda x: x.sigmoid()),
        "a probability (always between 0 and 1) is returned; a logit, which may be any number",
    ),
    "half a cosine": (PARAPHRASE, wrong(predict_paraphrase=equal), "a probability (always"),
    "rounded": (
        PARAPHRASE,
        after("predict_paraphrase", lambda x: x.sigmoid().round()),
        "a class (0 or 1) is returned",
    ),
    "a truth": (PARAPHRASE, after("predict_paraphrase", lambda x: x > 0), "(torch.bool)"),
    "two logits": (
        PARAPHRASE,
        after("predict_paraphrase", lambda x: torch.stack((-x, x), -1)),
        "shape (6, 2) instead of (6,) or (6, 1): one logit for each pair; its sigmoid",
    ),
    "a list": (PARAPHRASE, after("predict_paraphrase", lambda x: x.tolist()), "returns a list"),
    "first sentence only": (
        PARAPHRASE,
        wrong(predict_paraphrase=first_only),
        "the second sentence has no effect: other words give the same result",
    ),
    "padding of the second": (
        PARAPHRASE,
        wrong(predict_paraphrase=no_padding_mask),
        "what stands at padding changes the result",
    ),
    "a new layer": (PARAPHRASE, wrong(predict_paraphrase=new_layer), "made in predict_paraphrase"),
    "second sentence twice": (
        SIMILARITY,
        wrong(predict_similarity=second_twice),
        "the first sentence has no effect",
    ),
    "the other mask": (SIMILARITY, wrong(predict_similarity=wrong_mask), "RuntimeError: "),
    "second detached": (
        SIMILARITY,
        wrong(predict_similarity=detached_second),
        "no gradient reaches BERT through the second sentence",
    ),
    "scores cut to integers": (
        SIMILARITY,
        after("predict_similarity", lambda x: (5 * x.sigmoid()).round()),
        "option finetune: no gradient reaches BERT (no_grad,",
    ),
    "integers": (
        SIMILARITY,
        after("predict_similarity", lambda x: (5 * x.sigmoid()).long()),
        "returns whole numbers (torch.int64); asked for is one score for each pair",
    ),
    "all against all": (SIMILARITY, wrong(predict_similarity=every_pair), "every first sentence"),
    "one over the distance": (
        SIMILARITY,
        wrong(predict_similarity=divided_by_zero),
        "not finite for a pair of identical sentences",
    ),
    "root of zero": (
        SIMILARITY,
        after("predict_similarity", lambda x: x + (x * 0).sqrt()),
        "gradients that are not finite reach the parameters",
    ),
    "standardised in the batch": (
        SIMILARITY,
        after("predict_similarity", in_the_batch),
        "in the first row changes the results of other pairs",
    ),
    "mean over the batch": (
        SIMILARITY,
        after("predict_similarity", lambda x: x.mean()),
        "shape () instead of (6,) or (6, 1)",
    ),
    "data": (SIMILARITY, after("predict_similarity", lambda x: x.data), "no gradient: the result"),
    "width in the code": (SIMILARITY, init(wide_head), "is 768 written in the code?"),
    "a typing error": (
        SIMILARITY,
        wrong(predict_similarity=lambda self, *batch: self.similarty(*batch)),
        "AttributeError: 'Wrong' object has no attribute 'similarty'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_said_in_words_and_accuses_its_own_task_only(name, use, monkeypatch):
    task_id, cls, words = WRONG[name]
    use(cls)
    monkeypatch.setattr(sanity_part1, "check_model", lambda _: [])  # bert.py is right: saves time
    wrong, _ = split(found())
    accused = [key for key, findings in wrong.items() if findings[0].kind != "waits"]
    assert accused == [task_id], wrong
    assert any(words in finding.text for finding in wrong[task_id]), wrong[task_id]
    for key in wrong.keys() - {task_id}:
        assert [finding.text for finding in wrong[key]] == [f"for Task {task(task_id).number}"]


def test_a_forward_of_another_form_is_not_blamed_for_one_wrong_prediction(use):
    def predict_similarity(self, *batch):
        return HiddenForward.predict_similarity(self, *batch).round()

    use(type("Wrong", (HiddenForward,), {"predict_similarity": predict_similarity}))
    wrong, _ = split(found())
    assert {key: findings[0].kind for key, findings in wrong.items()} == {SIMILARITY: "gradients"}


def test_a_constant_is_not_called_a_class(use):
    use(after("predict_paraphrase", lambda x: x * 0))
    texts = [finding.text for finding in found()[PARAPHRASE]]
    assert texts[0].startswith("option finetune: no gradient reaches BERT")
    assert not any("class (" in text or "probability" in text for text in texts)


# ---------------------------------------------------------------------------------------------
# Our solution, and what is not begun or has to wait


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pair_encoding": "cross", "pooling": "max"},
        {"similarity": "cosine", "pooling": "mean"},
        {"separate_layers": 1, "pooling": "cls"},
    ],
    ids=str,
)
def test_our_solution_is_right(options, monkeypatch):
    module = pytest.importorskip("multitask_classifier")
    monkeypatch.setattr(module, "get_args", lambda: Namespace(**options))
    wrong, hints = split(found())
    assert wrong == {}
    expected = [FROZEN, NO_DROPOUT] if "similarity" in options else []  # a cosine has no head
    assert [hint[: len(start)] for hint, start in zip(hints, expected, strict=True)] == expected


def unwritten_as(task_id):
    """A stub under the name that it has in the students' file."""
    name = sanity_part2.function_of(task_id)
    space = {}
    exec(f"def {name}(self, *_):\n    raise NotImplementedError('Task …')", space)
    return space[name]


@pytest.mark.parametrize("task_id", IDS)
def test_a_function_that_is_not_begun(task_id, use):
    use(wrong(**{sanity_part2.function_of(task_id): unwritten_as(task_id)}))
    findings = {key: list_[0] for key, list_ in found().items()}
    assert findings.pop(task_id).kind == "not started"
    others = {INIT: IDS[1:], FORWARD: IDS[2:]}.get(task_id, ())
    said = {key: (finding.kind, finding.text) for key, finding in findings.items()}
    assert said == {key: ("waits", f"for Task {task(task_id).number}") for key in others}


def test_nothing_is_begun(use):
    use(wrong(**{sanity_part2.function_of(task_id): unwritten_as(task_id) for task_id in IDS}))
    kinds = {key: [finding.kind for finding in findings] for key, findings in found().items()}
    assert kinds == {task_id: ["not started"] for task_id in IDS}


def test_an_unfinished_bert_is_no_fault_of_part_2(use, monkeypatch):
    use(Plain)
    monkeypatch.setattr(bert.BertModel, "embed", unwritten_as("bert.embed"))
    waiting = {key: [finding.text for finding in list_] for key, list_ in found().items()}
    assert waiting == {key: ["for bert.py (python sanity_check.py --part 1)"] for key in IDS[1:]}


def test_random_numbers_and_the_class_are_left_as_they_were(use):
    use(Plain)
    state, load = torch.get_rng_state(), bert.BertModel.from_pretrained
    assert found() == {}
    assert torch.equal(torch.get_rng_state(), state)
    assert bert.BertModel.from_pretrained == load


# ---------------------------------------------------------------------------------------------
# The script


def run_here(monkeypatch, capsys, *arguments: str) -> tuple[int, list[str]]:
    monkeypatch.setattr(sys, "argv", ["sanity_check.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        sanity_check.main()
    return stopped.value.code, "".join(capsys.readouterr()).splitlines()


def test_script_on_part_2(use, monkeypatch, capsys):
    use(WRONG["a probability"][1])
    code, lines = run_here(monkeypatch, capsys, "--part", "2")
    assert code == 1
    assert lines[2].startswith("  ok    Task 2.3 · MultitaskBERT.predict_sentiment: logits")
    assert lines[3].startswith("  WRONG Task 2.4 · MultitaskBERT.predict_paraphrase: a probability")
    assert lines[5:] == [
        "4 of 5 tasks right",
        "next: Task 2.4 · MultitaskBERT.predict_paraphrase "
        f"({task('2.4').check}), see {task('2.4').paper}",
    ]


def test_a_hint_is_no_fault(use, monkeypatch, capsys):
    use(NoDropout)
    code, lines = run_here(monkeypatch, capsys, "--task", "2.3")
    assert code == 0
    assert lines[1].startswith(f"        hint: {NO_DROPOUT}")
    assert lines[2] == "1 of 1 task right"


def test_without_a_choice_part_2_follows_part_1(use, monkeypatch, capsys):
    monkeypatch.setattr(sanity_check, "check_whole", lambda todo: False)
    monkeypatch.setattr(sanity_part1, "check", lambda entry: [])
    use(Plain)
    code, lines = run_here(monkeypatch, capsys)
    assert (code, lines[-1]) == (0, f"{len(TASKS)} of {len(TASKS)} tasks right")
    use(WRONG["a probability"][1])
    code, lines = run_here(monkeypatch, capsys)
    assert (code, lines[-1][:14]) == (1, "next: Task 2.4")


def test_a_student_of_part_1_is_not_told_of_part_2s_tasks(use, monkeypatch, capsys):
    monkeypatch.setattr(sanity_check, "check_whole", lambda todo: False)
    monkeypatch.setattr(sanity_part1, "check", lambda entry: [])
    use(wrong(**{sanity_part2.function_of(task_id): unwritten_as(task_id) for task_id in IDS}))
    code, lines = run_here(monkeypatch, capsys)
    assert code == 0
    assert lines[-2:] == [
        "  --    part 2 is not begun (python sanity_check.py --part 2)",
        "7 of 7 tasks right",
    ]
    monkeypatch.setattr(sanity_check, "check_whole", lambda todo: True)
    code, lines = run_here(monkeypatch, capsys)
    assert code == 1
    assert lines[-2] == "  --    part 2 is checked once part 1 is right, or with --part 2"
    code, lines = run_here(monkeypatch, capsys, "--part", "1")
    assert (code, lines[-1]) == (1, "7 of 7 tasks right")


def test_a_handout_of_part_1_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sanity_check, "HERE", tmp_path)
    assert sanity_check.entries_of_part_2(part_1_is_right=True) == []
    assert sanity_check.entries_of_part_2(part_1_is_right=False) == []
    assert capsys.readouterr().out == ""
    with pytest.raises(InputError, match=r"multitask_classifier\.py is not here"):
        sanity_check.check(task("2.1"))
