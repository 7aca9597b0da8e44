"""BertSentimentClassifier, Tasks 1.6 and 1.7, with each known mistake as a switch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bert import BertModel
from course.switches import chosen

INIT = {
    "options": "bert_always_frozen bert_always_trains options_swapped head_frozen_too",
    "dropout": "no_dropout dropout_in_code dropout_of_bert keep_probability",
    "linear": "no_linear no_bias labels_in_code one_output sizes_swapped two_layers width_in_code",
}
FORWARD = {
    "dropout": "no_dropout dropout_in_evaluation dropout_on_logits dropout_twice "
    "dropout_only_in_evaluation dropout_rate_in_code dropout_rate_in_code_half",
    "given": "no_mask ids_and_mask_swapped ids_as_mask mask_as_ids",
    "pooled": "cls_of_last_hidden_state last_piece_of_last_hidden_state mean_of_last_hidden_state "
    "mean_over_real_pieces max_of_last_hidden_state logits_of_all_tokens sum_of_last_hidden_state "
    "detached_bert pooled_again pooler_without_tanh cls_dropped_and_pooled",
    "between": "relu_before_linear tanh_again gelu_before_linear sigmoid_before_linear "
    "softmax_before_linear norm_before_linear",
    "linear": "no_linear linear_without_bias",
    "logits": "relu_of_logits tanh_of_logits",
    "end": "argmax_returned log_softmax_returned softmax_returned sigmoid_returned "
    "softmax_over_batch logsigmoid_returned negative_logits squeezed max_returned "
    "unsqueezed all_detached log_softmax_over_batch",
}  # fmt: skip


def init(wrong: frozenset[str], self, config) -> None:
    """__init__, with the mistakes in ``wrong``."""
    nn.Module.__init__(self)
    self.num_labels = config.num_labels
    self.bert = BertModel.from_pretrained(getattr(config, "model", None))
    trains = {
        "bert_always_frozen": False,
        "bert_always_trains": True,
        "options_swapped": config.option == "pretrain",
    }
    self.bert.requires_grad_(chosen(trains, wrong, config.option == "finetune"))
    rates = {
        "dropout_in_code": 0.1,
        "dropout_of_bert": self.bert.config.hidden_dropout_prob,
        "keep_probability": 1 - config.hidden_dropout_prob,
    }
    if "no_dropout" not in wrong:
        self.dropout = nn.Dropout(chosen(rates, wrong, config.hidden_dropout_prob))
    width, labels = config.hidden_size, config.num_labels
    sizes = {
        "labels_in_code": (width, 5),
        "one_output": (width, 1),
        "sizes_swapped": (labels, width),
        "width_in_code": (768, labels),
    }
    if "no_linear" not in wrong:
        sizes = chosen(sizes, wrong, (width, labels))
        self.classifier = nn.Linear(*sizes, bias="no_bias" not in wrong)
    if "two_layers" in wrong:
        self.hidden = nn.Linear(width, width)
    if "head_frozen_too" in wrong:
        self.requires_grad_(config.option == "finetune")


def forward(wrong: frozenset[str], self, input_ids, attention_mask) -> Tensor:
    """forward, with the mistakes in ``wrong``: ids and mask (B, L) → (B, classes)."""
    given = {
        "no_mask": (input_ids, torch.ones_like(input_ids)),
        "ids_and_mask_swapped": (attention_mask, input_ids),
        "ids_as_mask": (input_ids, input_ids),
        "mask_as_ids": (attention_mask, attention_mask),
    }
    outputs = self.bert(*chosen(given, wrong, (input_ids, attention_mask)))
    x = pooled(wrong, self, outputs, attention_mask)
    between = {
        "relu_before_linear": torch.relu,
        "tanh_again": torch.tanh,
        "gelu_before_linear": F.gelu,
        "sigmoid_before_linear": torch.sigmoid,
        "softmax_before_linear": lambda x: x.softmax(-1),
        "norm_before_linear": lambda x: F.layer_norm(x, x.shape[-1:]),
    }
    x = chosen(between, wrong, lambda x: x)(x)
    p = self.dropout.p
    drops = {
        **dict.fromkeys(("no_dropout", "dropout_on_logits"), lambda x: x),
        "dropout_in_evaluation": lambda x: F.dropout(x, p),
        "dropout_only_in_evaluation": lambda x: F.dropout(x, p, not self.training),
        "dropout_rate_in_code_half": lambda x: F.dropout(x, 0.5, self.training),
        "dropout_rate_in_code": lambda x: F.dropout(x, 0.1, self.training),
    }
    x = chosen(drops, wrong, self.dropout)(x)
    linear = self.classifier
    layers = {"no_linear": lambda x: x, "linear_without_bias": lambda x: x @ linear.weight.T}
    logits = chosen(layers, wrong, linear)(x)
    if wrong & {"dropout_on_logits", "dropout_twice"}:
        logits = self.dropout(logits)
    acts = {"relu_of_logits": torch.relu, "tanh_of_logits": torch.tanh}
    return ended(wrong, chosen(acts, wrong, lambda x: x)(logits))


def pooled(wrong: frozenset[str], self, outputs, attention_mask) -> Tensor:
    """The vector of each sentence, (B, D)."""
    states, pooler = outputs["last_hidden_state"], outputs["pooler_output"]
    real = attention_mask[..., None].to(states)  # (B, L, 1)
    dense, tanh = self.bert.pooler_dense, self.bert.pooler_af
    ways = {
        "cls_of_last_hidden_state": lambda: states[:, 0],
        "last_piece_of_last_hidden_state": lambda: states[:, -1],
        "mean_of_last_hidden_state": lambda: states.mean(1),
        "mean_over_real_pieces": lambda: (states * real).sum(1) / real.sum(1),
        "max_of_last_hidden_state": lambda: states.max(1).values,
        "sum_of_last_hidden_state": lambda: states.sum(1),
        "logits_of_all_tokens": lambda: states,
        "detached_bert": lambda: pooler.detach(),
        "pooled_again": lambda: tanh(dense(pooler)),
        "pooler_without_tanh": lambda: dense(states[:, 0]),
        "cls_dropped_and_pooled": lambda: tanh(dense(self.dropout(states[:, 0]))),
    }
    return chosen(ways, wrong, lambda: pooler)()


def ended(wrong: frozenset[str], logits: Tensor) -> Tensor:
    """What is returned of the logits."""
    ways = {
        "argmax_returned": lambda: logits.argmax(-1),
        "max_returned": lambda: logits.max(-1).values,
        "log_softmax_returned": lambda: logits.log_softmax(-1),
        "log_softmax_over_batch": lambda: logits.log_softmax(0),
        "softmax_returned": lambda: logits.softmax(-1),
        "softmax_over_batch": lambda: logits.softmax(0),
        "sigmoid_returned": lambda: logits.sigmoid(),
        "logsigmoid_returned": lambda: F.logsigmoid(logits),
        "negative_logits": lambda: -logits,
        "squeezed": lambda: logits.squeeze(),
        "unsqueezed": lambda: logits.unsqueeze(1),
        "all_detached": lambda: logits.detach(),
    }
    return chosen(ways, wrong, lambda: logits)()
