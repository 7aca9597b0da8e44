"""BertSentimentClassifier, Tasks 1.6 and 1.7, with each known mistake as a switch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bert import BertModel
from course.switches import Switches, chosen, dropped

SIZES = {  # of the Linear: of the width and the number of labels
    "labels_in_code": lambda width, labels: (width, 5),
    "one_output": lambda width, labels: (width, 1),
    "sizes_swapped": lambda width, labels: (labels, width),
    "width_in_code": lambda width, labels: (768, labels),
    "sizes_in_code": lambda width, labels: (768, 5),
}
INIT = {
    "options": "bert_always_frozen bert_always_trains options_swapped head_frozen_too".split(),
    "dropout": "no_dropout dropout_in_code dropout_of_bert keep_probability".split(),
    "linear": ["no_linear", "no_bias", *SIZES, "two_layers"],
}
GIVEN = {  # what BERT gets, of the ids and the mask (B, L)
    "no_mask": lambda ids, mask: (ids, torch.ones_like(ids)),
    "mask_inverted": lambda ids, mask: (ids, 1 - mask),
    "ids_and_mask_swapped": lambda ids, mask: (mask, ids),
    "ids_as_mask": lambda ids, mask: (ids, ids),
    "mask_as_ids": lambda ids, mask: (mask, mask),
}
POOLED = {  # the vector of each sentence (B, D), of BERT's states, its pooler's and the mask
    "cls_of_last_hidden_state": lambda self, states, pooler, real: states[:, 0],
    "last_piece_of_last_hidden_state": lambda self, states, pooler, real: states[:, -1],
    "mean_of_last_hidden_state": lambda self, states, pooler, real: states.mean(1),
    "mean_over_real_pieces": lambda self, states, pooler, real: (
        (states * real).sum(1) / real.sum(1)
    ),
    "max_of_last_hidden_state": lambda self, states, pooler, real: states.max(1).values,
    "logits_of_all_tokens": lambda self, states, pooler, real: states,
    "sum_of_last_hidden_state": lambda self, states, pooler, real: states.sum(1),
    "detached_bert": lambda self, states, pooler, real: pooler.detach(),
    "pooled_again": lambda self, states, pooler, real: pool(self, pooler),
    "pooler_without_tanh": lambda self, states, pooler, real: self.bert.pooler_dense(states[:, 0]),
    "cls_dropped_and_pooled": lambda self, states, pooler, real: pool(
        self, self.dropout(states[:, 0])
    ),
}
BETWEEN = {  # before dropout
    "relu_before_linear": torch.relu,
    "tanh_again": torch.tanh,
    "gelu_before_linear": F.gelu,
    "sigmoid_before_linear": torch.sigmoid,
    "softmax_before_linear": lambda x: x.softmax(-1),
    "norm_before_linear": lambda x: F.layer_norm(x, x.shape[-1:]),
}
LINEAR = {
    "no_linear": lambda linear, x: x,
    "linear_without_bias": lambda linear, x: x @ linear.weight.T,
}
ACTIVATIONS = {"relu_of_logits": torch.relu, "tanh_of_logits": torch.tanh, "gelu_of_logits": F.gelu}
ENDS = {  # what is returned of the logits
    "argmax_returned": lambda logits: logits.argmax(-1),
    "log_softmax_returned": lambda logits: logits.log_softmax(-1),
    "softmax_returned": lambda logits: logits.softmax(-1),
    "sigmoid_returned": torch.sigmoid,
    "softmax_over_batch": lambda logits: logits.softmax(0),
    "logsigmoid_returned": F.logsigmoid,
    "negative_logits": torch.neg,
    "squeezed": torch.squeeze,
    "max_returned": lambda logits: logits.max(-1).values,
    "unsqueezed": lambda logits: logits.unsqueeze(1),
    "all_detached": torch.detach,
    "log_softmax_over_batch": lambda logits: logits.log_softmax(0),
    "softmax_and_another": lambda logits: logits.softmax(-1).softmax(-1),
    "softmax_and_another_log": lambda logits: logits.softmax(-1).log_softmax(-1),
    "softmax_and_another_sigmoid": lambda logits: logits.softmax(-1).sigmoid(),
    "softmax_and_another_logsigmoid": lambda logits: F.logsigmoid(logits.softmax(-1)),
}
FORWARD = {
    "dropout": "no_dropout dropout_on_logits dropout_in_evaluation dropout_only_in_evaluation "
    "dropout_rate_in_code dropout_rate_in_code_half dropout_twice".split(),
    "given": GIVEN, "pooled": POOLED, "between": BETWEEN, "linear": LINEAR, "logits": ACTIVATIONS,
    "end": ENDS,
}  # fmt: skip


def init(wrong: Switches, self, config) -> None:
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
    if "no_linear" not in wrong:
        sizes = chosen(SIZES, wrong, lambda *sizes: sizes)(config.hidden_size, config.num_labels)
        self.classifier = nn.Linear(*sizes, bias="no_bias" not in wrong)
    if "two_layers" in wrong:
        self.hidden = nn.Linear(config.hidden_size, config.hidden_size)
    if "head_frozen_too" in wrong:
        self.requires_grad_(config.option == "finetune")


def pool(self, x: Tensor) -> Tensor:
    """BERT's pooler on vectors (B, D)."""
    return self.bert.pooler_af(self.bert.pooler_dense(x))


def forward(wrong: Switches, self, input_ids, attention_mask) -> Tensor:
    """forward, with the mistakes in ``wrong``: ids and mask (B, L) → (B, classes)."""
    given = chosen(GIVEN, wrong, lambda ids, mask: (ids, mask))(input_ids, attention_mask)
    outputs = self.bert(*given)
    states, pooler = outputs["last_hidden_state"], outputs["pooler_output"]
    real = attention_mask[..., None].to(states)  # (B, L, 1)
    x = chosen(POOLED, wrong, lambda self, states, pooler, real: pooler)(self, states, pooler, real)
    x = chosen(BETWEEN, wrong, lambda x: x)(x)
    if not wrong & {"no_dropout", "dropout_on_logits"}:
        x = dropped(wrong, self.dropout, x)
    logits = chosen(LINEAR, wrong, lambda linear, x: linear(x))(self.classifier, x)
    if wrong & {"dropout_on_logits", "dropout_twice"}:
        logits = self.dropout(logits)
    logits = chosen(ACTIVATIONS, wrong, lambda x: x)(logits)
    return chosen(ENDS, wrong, lambda logits: logits)(logits)
