"""What an exception in a student's code means: every entry of the table, by code that raises it."""

import importlib
import textwrap
import warnings

import pytest
import torch
from support import ROOT
from torch import nn

from checks import jobs
from checks.errors import describe
from checks.exceptions import find, meaning, table
from checks.fingerprints import Fingerprint, digest, fingerprint_of, projections, same_projections
from checks.graded_tasks import graded_task
from checks.part1 import adamw_cases, adamw_checks, explain, runners
from checks.part2 import batches, calls, models
from checks.traces import attribute
from course.answers import VARIANTS, installed_source, put_methods, read_all

ARGUMENTS = {
    "bert.attention": "self, key, query, value, attention_mask",
    "bert.add_norm": "self, input, output, dense_layer, dropout, ln_layer",
    "bert.layer": "self, hidden_states, attention_mask",
    "bert.embed": "self, input_ids",
    "optimizer.step": "self, closure=None",
    "classifier.init": "self, config",
    "classifier.forward": "self, input_ids, attention_mask",
    "multitask.init": "self, config",
    "multitask.predict_sentiment": "self, input_ids, attention_mask",
    "multitask.predict_paraphrase": "self, ids_1, mask_1, ids_2, mask_2",
}
GIVEN = {  # what stands above a student's lines
    "optimizer.step": """
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad, self.state[p]
        """,
    "classifier.init": """
        super().__init__()
        self.num_labels = config.num_labels
        self.bert = BertModel.from_pretrained("model")
        """,
}
INDENTS = {"optimizer.step": 8}


def written(task_id, body):
    """The source of a task's file in which a student has written these lines."""
    entry = graded_task(task_id)
    given = textwrap.dedent(GIVEN.get(task_id, "")).strip("\n")
    body = textwrap.dedent(body).strip("\n")
    if body.startswith("def "):
        text = body
    else:
        text = f"{given}\n{textwrap.indent(body, ' ' * INDENTS.get(task_id, 0))}".strip("\n")
        name = entry.function.rpartition(".")[2]
        text = f"def {name}({ARGUMENTS[task_id]}):\n{textwrap.indent(text, '    ')}"
        if task_id == "optimizer.step" and "enable_grad" not in body:
            text = f"@torch.no_grad()\n{text}"
    source = (ROOT / entry.file).read_text(encoding="utf-8")
    name = text.removeprefix("@torch.no_grad()\n").partition("(")[0].removeprefix("def ")
    return put_methods(source, entry.function.partition(".")[0], {name: text + "\n"})


def run(task_id):
    """Run the student's function as its check does."""
    if task_id == "optimizer.step":
        adamw_cases.run_case(importlib.import_module("optimizer").AdamW, adamw_cases.CASES[0])
    elif task_id == "multitask.init":
        models.student_model("finetune")
    elif task_id.startswith("multitask"):
        model, _ = models.student_model("finetune")
        calls.call(model, task_id, batches.batch_for(task_id))
    else:
        runners.student_outputs(task_id)


def raised(task_id, body, change=None):
    """The exception of a student's lines, as the check catches it."""
    source = written(task_id, body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with installed_source(graded_task(task_id).file, change(source) if change else source):
                try:
                    run(task_id)
                except (Exception, SystemExit) as error:
                    return error, find(error), describe(error)
        except Exception as error:  # at import
            return error, find(error), describe(error)
    pytest.fail("nothing was raised")


# ---------------------------------------------------------------------------------------------
# The table: entry, task, a student's lines, words that have to be in the sentence

ATTENTION, ADD_NORM, LAYER = "bert.attention", "bert.add_norm", "bert.layer"
EMBED, STEP = "bert.embed", "optimizer.step"
INIT, FORWARD = "classifier.init", "classifier.forward"
SCORES = "scores = query @ key.transpose(-1, -2)\n"
BERT = "out = self.bert(input_ids, attention_mask)\n"

WRONG = [
    # New shapes
    (
        "shape_of_other_size",
        ATTENTION,
        "context = query\nreturn context.reshape(query.size(0), query.size(1), 42)",
        "`context` (5, 6, 10, 7) = (B, H, L, W); 2100 numbers; (5, 6, 42) = (B, H, D); 1260",
    ),
    (
        "shape_of_other_size",
        ATTENTION,
        "return query.transpose(1, 2).reshape(3, -1, 768)",
        "is 768 written in the code?; bert-base",
    ),
    (
        "shape_of_other_size",
        ATTENTION,
        "return query.reshape(3, 7, 12, 64)",
        "is 64 written in the code?",
    ),
    (
        "shape_of_other_size",
        ATTENTION,
        "return query.reshape(11, 5, -1)",
        "needs a multiple of 55",
    ),
    (
        "view_of_transposed",
        ATTENTION,
        "return query.transpose(1, 2).view(5, 10, 42)",
        "reshape(); contiguous() before view()",
    ),
    ("two_sizes_open", ATTENTION, "return query.view(3, -1, -1)", "only one size"),
    ("not_callable", ATTENTION, "batch = query.shape()", "a tuple, not a method; x.size(0)"),
    (
        "fraction_as_size",
        ATTENTION,
        "return query.reshape(3, 7, 64 / 2)",
        "whole numbers; use //",
    ),
    (
        "no_size",
        INIT,
        "self.head = nn.Linear(config.hidden_size, '5')",
        "one of them here is a str",
    ),
    ("expand", ATTENTION, "return query.expand(3, 4, 9, 8)", "one of size 7 cannot become 8"),
    (
        "too_many_axes_for_place",
        ATTENTION,
        "scores = torch.zeros(3, 4, 7)\nscores[0] = query",
        "a tensor with 4 axes does not fit where 2",
    ),
    (
        "permuted_axes",
        ATTENTION,
        "return query.permute(0, 2, 1)",
        "`query` (5, 6, 10, 7) = (B, H, L, W) has 4, 3 are named",
    ),
    ("shape_joined", ATTENTION, "return query.view(query.shape[:2] + 32)", "another tuple"),
    ("tuple_changed", ATTENTION, "shape = query.shape\nshape[0] = 3", "cannot be changed"),
    # Products and sums
    (
        "factors_do_not_meet",
        ATTENTION,
        "return query @ key",
        "`query` (5, 6, 10, 7) = (B, H, L, W) and `key`; transpose missing",
    ),
    (
        "factors_do_not_meet",
        ATTENTION,
        SCORES + "return torch.matmul(value, scores)",
        "(B, H, L, W) and `scores` (5, 6, 10, 10) = (B, H, L, L); wrong way round",
    ),
    (
        "factors_do_not_meet",
        ADD_NORM,
        "return dense_layer.weight @ output",
        "`dense_layer.weight` (42, 42) = (D, D) and `output` (5, 10, 42) = (B, L, D)",
    ),
    (
        "product_of_heads",
        ATTENTION,
        "return torch.bmm(query, key.transpose(-1, -2))",
        "bmm wants tensors of 3 axes; (5, 6, 7, 10) = (B, H, W, L)",
    ),
    ("product_of_heads", ATTENTION, "return torch.mm(query, key)", "mm wants tensors of 2 axes"),
    (
        "shapes_do_not_meet",
        ATTENTION,
        SCORES + "return scores @ value.transpose(1, 2)",
        "`value.transpose(1, 2)` (5, 10, 6, 7) = (B, L, H, W) do not fit; the last two axes",
    ),
    (
        "shapes_do_not_meet",
        ATTENTION,
        SCORES + "return scores + attention_mask.squeeze()",
        "`attention_mask.squeeze()` (5, 10) = (B, L) do not fit: on axis 2; from the last one on",
    ),
    (
        "shapes_do_not_meet",
        EMBED,
        "return self.word_embedding(input_ids) + self.pos_embedding(self.position_ids)",
        "(5, 10, 42) = (B, L, D) and; (1, 16, 42) = (1, 16, D)",
    ),
    (
        "layer_of_other_width",
        ADD_NORM,
        "return ln_layer(output + dropout(dense_layer(input)))",
        "`dense_layer` takes vectors of 36 numbers; `input` (5, 10, 42) = (B, L, D) has 42 (D)",
    ),
    (
        "layer_of_other_width",
        FORWARD,
        "self.classifier = nn.Linear(768, 5)\n"
        + BERT
        + "return self.classifier(out['pooler_output'])",
        "is 768 written in the code?",
    ),
    (
        "layer_of_other_width",
        "multitask.predict_paraphrase",
        "self.sentiment = nn.Linear(1536, 1)\n"
        "pair = torch.cat([self(ids_1, mask_1), self(ids_2, mask_2)], dim=-1)\n"
        "return self.sentiment(pair)",
        "is 768 written in the code? 1536 is 2 · 768.",
    ),
    (
        "layer_of_other_width",
        "multitask.predict_paraphrase",
        "pair = torch.cat([self(ids_1, mask_1), self(ids_2, mask_2)], dim=-1)\n"
        "return self.sentiment(pair)",
        "`self.sentiment` takes vectors of 96 (D) numbers; `pair` (7, 192) = (7, 2·D)",
    ),
    (
        "norm_of_other_width",
        ADD_NORM,
        "return ln_layer(output)",
        "vectors of 42 (D) numbers; (5, 10, 36) = (B, L, 36)",
    ),
    (
        "einsum_letters",
        ATTENTION,
        "return torch.einsum('bld,bmd->blm', query, key)",
        "has a letter; `query` (5, 6, 10, 7)",
    ),
    (
        "cat_of_tensors",
        ATTENTION,
        "return torch.cat(query, key)",
        "torch.cat([a, b], dim=…)",
    ),
    ("cat_of_nothing", ATTENTION, "return torch.cat([])", "still empty"),
    (
        "cat_axes",
        ATTENTION,
        "return torch.cat([query, key[0]], dim=1)",
        "one has 4 axes, another 3",
    ),
    (
        "cat_sizes",
        ATTENTION,
        "return torch.cat([query, key[:, :, :3]], dim=1)",
        "dim=1; 10 meets 3",
    ),
    # Axes and places
    (
        "axis_out_of_range",
        ATTENTION,
        "return torch.softmax(query.flatten(2), dim=3)",
        "`query.flatten(2)` (5, 6, 70) = (B, H, 70) has 3 axes; no axis 3; squeeze()",
    ),
    (
        "too_many_indices",
        FORWARD,
        BERT + "return out['pooler_output'][:, 0, :]",
        "(5, 42) = (B, D) has 2 axes, and more indices",
    ),
    ("index_out_of_shape", ATTENTION, "return query[:, 9]", "axis 1 of `query`; has 6 places"),
    (
        "item_out_of_range",
        EMBED,
        "length = input_ids.shape[2]",
        "`input_ids` (5, 10) = (B, L) has fewer axes",
    ),
    ("item_out_of_range", STEP, "rate = group['betas'][2]", "`group['betas']` holds 2 items"),
    (
        "row_out_of_table",
        EMBED,
        "return self.pos_embedding(input_ids)",
        "`self.pos_embedding` has 16 rows, and `input_ids` goes up to 98",
    ),
    (
        "no_axis_left",
        FORWARD,
        BERT + "return self.classifier(out['pooler_output'][0, 0])",
        "no axis left",
    ),
    (
        "unpacked",
        ATTENTION,
        "b, l, d = query.shape",
        "`query` (5, 6, 10, 7) = (B, H, L, W) has 4 axes, but here are 3 names",
    ),
    ("unpacked", EMBED, "b, l, d = input_ids.size()", "has 2 axes, but here are 3 names"),
    (
        "unpacked",
        FORWARD,
        "a, b, c = self.bert(input_ids, attention_mask)",
        "gives a dictionary; ['pooler_output']",
    ),
    ("unpacked", STEP, "m, v = state", "`state` is a dictionary; no keys"),
    ("single_number", ATTENTION, "b, l = query.size(0)", "`query.size(0)` is a single number"),
    (
        "single_number",
        ATTENTION,
        "for i in query.size(1):\n    pass",
        "`query.size(1)` is a single",
    ),
    # Types
    (
        "ids_are_floats",
        EMBED,
        "return self.tk_type_embedding(torch.zeros(input_ids.shape))",
        "whole numbers; torch.long",
    ),
    ("index_is_float", ATTENTION, "return query[0.5]", "only whole numbers can be an index"),
    (
        "two_precisions",
        ATTENTION,
        "return query.float() @ key.transpose(-1, -2)",
        "two precisions; without .float()",
    ),
    (
        "whole_numbers_in_place",
        STEP,
        "m = torch.zeros(grad.shape, dtype=torch.int)\nm.add_(grad)",
        "a tensor of type Int",
    ),
    ("power", STEP, "v = grad ^ 2", "a power is **"),
    ("power", STEP, "v = group['betas'][0] ^ 2", "a power is **"),
    ("floats_wanted", EMBED, "return F.softmax(input_ids, -1)", "are ids, or a mask"),
    (
        "other_than_weights",
        EMBED,
        "return self.embed_layer_norm(input_ids)",
        "are ids, whole numbers, where their vectors should be",
    ),
    (
        "other_than_weights",
        EMBED,
        "return self.embed_layer_norm(self.word_embedding(input_ids).float())",
        "was .float() called?",
    ),
    (
        "mask_of_numbers",
        "multitask.predict_sentiment",
        "attention_mask.masked_fill(attention_mask, 1)",
        "mask == 0",
    ),
    (
        "layer_of_other_width",
        INIT,
        "self.head = nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 6))\nself.head(torch.ones(2, 3))",
        "a layer in `self.head` takes vectors of 5 numbers and gets 4",
    ),
    (
        "row_out_of_table",
        EMBED,
        "ids = input_ids - 9\nself.word_embedding(ids)",
        "`ids` goes down to -9",
    ),
    ("nothing_there", STEP, "m = state.get('m')\nm.add_(grad)", "as `state.get('m')` gave it"),
    ("key_for_value", INIT, "config.option.weight", "`config.option` is the text 'pretrain'"),
    (
        "divided_by_zero",
        STEP,
        "x = 1 / group['weight_decay']",
        "`1 / group['weight_decay']` divides",
    ),
    ("other_arguments", ATTENTION, "self.transform(*query)", "takes x, linear_layer"),
    ("other_arguments", ATTENTION, "return query.softmax(1, dim=1)", "twice"),
    ("unknown_name", ATTENTION, "return sqrt(8)", "math.sqrt of a number"),
    ("not_callable", INIT, "config('hidden_size')", "no function, but a types.SimpleNamespace"),
    ("other_arguments", ATTENTION, "return math.sqrt()", "more, or fewer, arguments"),
    ("other_combination", STEP, "torch.add(grad)", "add is given (Tensor); it takes (Tensor input"),
    ("other_type", EMBED, "torch.zeros_like(torch)", "`torch` is a module of Python"),
    ("truth_of_tensor", ATTENTION, "F.dropout(query, query)", "`F.dropout` is given a tensor"),
    (
        "shapes_do_not_meet",
        ATTENTION,
        "torch._foreach_add([query, key], [query, key[:, :3]])",
        "two tensors do not fit: on axis 1 one has 6, the other 3",
    ),
    ("container_filled", ATTENTION, "nn.Sequential(query)", "takes modules one by one"),
    ("key_as_attribute", FORWARD, "self.bert(input_ids, attention_mask).cls", "['pooler_output']"),
    ("other_operands", STEP, "m = -group['params']", "`group['params']` is a list"),
    ("other_operands", ATTENTION, "return query @ 8", "`8` is a plain number"),
    ("other_operands", STEP, "m = self + 1", "`self` is of type AdamW"),
    ("nothing_there", ATTENTION, "return {}.get('a').flatten(2)", "`{}.get('a')` gives None"),
    ("name_for_place", STEP, "group['params']['w']", "`group['params']` is a list: it is read by"),
    ("missing_attribute", INIT, "BertModel.from_pretraind('x')", "do you mean from_pretrained?"),
    ("missing_attribute", INIT, "super().__int__()", "has no __int__"),
    (
        "stack_of_shapes",
        EMBED,
        "words, places = self.word_embedding(input_ids), self.pos_embedding(self.position_ids)\n"
        "torch.stack([words[0], places[0]])",
        "here are (10, 42) = (L, D) and (16, 42) = (16, D)",
    ),
    ("cat_of_others", ATTENTION, "torch.stack([query, 8])", "no tensor, but a int"),
    ("slice_of_others", EMBED, "self.position_ids[:, : input_ids.size]", "ends at a whole number"),
    (
        "norm_of_axes",
        ADD_NORM,
        "F.layer_norm(input, input.shape, ln_layer.weight)",
        "only the last axis",
    ),
    ("number_wanted", ATTENTION, "math.sqrt('8')", "this is a str"),
    (
        "mask_is_additive",
        ATTENTION,
        SCORES + "return scores.masked_fill(attention_mask, -1e9)",
        "made to be added to scores",
    ),
    ("not_data", STEP, "p.data = None", "can only hold tensors"),
    (
        "not_a_parameter",
        INIT,
        "self.head = nn.Linear(3, 4)\nself.head.weight = torch.zeros(4, 3)",
        "has to stay an nn.Parameter; weight.copy_",
    ),
    ("unhashable", STEP, "self.state[group] = {}", "a dict cannot be a key"),
    ("no_length", INIT, "len(config.num_labels)", "a number has no length"),
    (
        "one_number_wanted",
        ATTENTION,
        "return query / math.sqrt(query)",
        "functions of math; torch.sqrt(x)",
    ),
    (
        "number_from_shape",
        ATTENTION,
        "return query / math.sqrt(query.shape)",
        "one of its sizes is wanted",
    ),
    ("whole_number_wanted", ATTENTION, "return range(query)", "one whole number is wanted"),
    ("root_of_negative", STEP, "math.sqrt(group['betas'][0] - 1)", "number below 0"),
    ("overflow", STEP, "2.0 ** 5000", "base and exponent swapped"),
    (
        "dropout_probability",
        INIT,
        "self.dropout = nn.Dropout(config.hidden_size)",
        "42 is something else",
    ),
    (
        "other_type",
        ATTENTION,
        "return query / torch.sqrt(query.size(-1))",
        "`query.size(-1)` is a plain number: math.sqrt is for numbers",
    ),
    (
        "other_type",
        ADD_NORM,
        "return ln_layer(dense_layer)",
        "`dense_layer` is a layer (Linear); layer(x)",
    ),
    ("other_type", FORWARD, BERT + "return self.classifier(out)", "`out` is a dictionary"),
    ("other_type", STEP, "m = torch.zeros_like(grad.shape)", "`grad.shape` is a shape, not"),
    (
        "other_type",
        EMBED,
        "return self.pos_embedding(input_ids.size(1))",
        "`input_ids.size(1)` is no tensor; a tensor of ids",
    ),
    ("other_type", STEP, "m = torch.zeros(grad)", "zeros wants tuple of ints; x.shape"),
    (
        "other_operands",
        STEP,
        "m = group['betas'] * grad",
        "`group['betas']` is a pair: beta1, beta2 = group['betas']",
    ),
    ("other_operands", STEP, "beta1 = 1 - group['betas']", "is a pair"),
    (
        "other_operands",
        EMBED,
        "return self.word_embedding(input_ids) + self.pos_embedding",
        "`self.pos_embedding` is a layer (Embedding)",
    ),
    (
        "other_operands",
        ATTENTION,
        "weights = nn.Softmax(dim=-1)\nreturn weights @ value",
        "`weights` is a layer (Softmax), not what it makes",
    ),
    # Gradients
    (
        "in_place_on_parameter",
        ATTENTION,
        "self.query.weight.mul_(2)",
        "a parameter is changed in place",
    ),
    (
        "in_place_on_parameter",
        STEP,
        "with torch.enable_grad():\n    p[0] = 1",
        "under torch.no_grad()",
    ),
    (
        "in_place_before_backward",
        ATTENTION,
        "weights = torch.softmax(query @ key.transpose(-1, -2) + attention_mask, -1)\n"
        "context = weights @ value\n"
        "weights += 1\n"
        "return context.transpose(1, 2).flatten(2)",
        "changed in place; make a new tensor",
    ),
    (
        "backward_twice",
        STEP,
        "with torch.enable_grad():\n    x = p.exp().sum()\n    x.backward()\n    x.backward()",
        "backward() runs twice",
    ),
    (
        "cut_off",
        STEP,
        "with torch.enable_grad():\n    p.detach().sum().backward()",
        "cut off from all parameters",
    ),
    (
        "backward_of_many",
        STEP,
        "with torch.enable_grad():\n    p.exp().backward()",
        "the mean or the sum",
    ),
    ("numpy", ATTENTION, "return query.numpy()", "NumPy knows no gradients"),
    # Losses
    (
        "outputs_and_labels",
        ATTENTION,
        "F.binary_cross_entropy_with_logits(query[0, 0, :, :1], query[0, 0, :, 0])",
        "(B, 1) and (B,)",
    ),
    (
        "rows_and_labels",
        ATTENTION,
        "F.cross_entropy(query[0, 0], torch.zeros(3, dtype=torch.long))",
        "other numbers of outputs and labels",
    ),
    (
        "labels_are_floats",
        ATTENTION,
        "F.cross_entropy(query[0, 0], query[0, 0, :, 0])",
        "labels that are whole numbers",
    ),
    # Classes and modules
    ("super_not_called", INIT, "super.__init__()", "its own parentheses"),
    ("super_of_another", INIT, "super(BertModel, self).__init__()", "needs no names"),
    (
        "super_init_forgotten",
        INIT,
        "def __init__(self, config):\n    self.dropout = nn.Dropout(0.1)",
        "has to come first",
    ),
    (
        "container_called",
        INIT,
        "heads = nn.ModuleList([nn.Linear(3, 4)])\nheads(torch.zeros(3))",
        "a ModuleList only holds modules",
    ),
    (
        "container_filled",
        INIT,
        "self.head = nn.Sequential([nn.Linear(3, 4)])",
        "takes modules one by one",
    ),
    (
        "each_of_a_generator",
        INIT,
        "self.bert.parameters().requires_grad = False\nself.bert.parameters().requires_grad",
        "go through it in a loop",
    ),
    (
        "layer_made_of_tensor",
        ATTENTION,
        "return nn.Softmax(query, dim=-1)",
        "`nn.Softmax` is a class; `query` is for a layer that has been made",
    ),
    ("layer_made_of_tensor", ADD_NORM, "return nn.LayerNorm(input + output)", "`input + output`"),
    (
        "layer_made_of_tensor",
        LAYER,
        "return BertSelfAttention(hidden_states, attention_mask)",
        "`BertSelfAttention` is a class",
    ),
    # Calls
    ("method_not_called", ATTENTION, "batch = query.size[0]", "`query.size(…)` calls it"),
    ("method_not_called", STEP, "v = grad.square + 1", "`grad.square` is the method itself"),
    (
        "method_not_called",
        INIT,
        "for p in self.bert.parameters:\n    p.requires_grad = False",
        "`self.bert.parameters(…)` calls it",
    ),
    ("not_callable", STEP, "rate = group('lr')", "`group` is a dictionary, read with square"),
    ("not_callable", ATTENTION, "return query(key)", "`query` is a tensor, not a function"),
    ("not_callable", ADD_NORM, "return dropout.p(input)", "`dropout.p` is a number"),
    ("not_callable", STEP, "loss = closure()", "`closure` is None"),
    (
        "other_arguments",
        LAYER,
        "return self.self_attention(hidden_states)",
        "`self.self_attention` takes hidden_states, attention_mask; you gave 1",
    ),
    (
        "other_arguments",
        LAYER,
        "return self.self_attention.attention(hidden_states, attention_mask)",
        "takes key, query, value, attention_mask; you gave 2",
    ),
    (
        "other_arguments",
        LAYER,
        "a = self.self_attention(hidden_states, attention_mask)\n"
        "return self.add_norm(self, hidden_states, a, self.attention_dense,\n"
        "    self.attention_dropout, self.attention_layer_norm)",
        "input, output, dense_layer, dropout, ln_layer; you gave 6, where self comes by itself",
    ),
    (
        "other_arguments",
        LAYER,
        "return self.add_norm(hidden_states, outputs=hidden_states, dense_layer=self.out_dense)",
        "has no argument outputs: do you mean output?",
    ),
    (
        "other_arguments",
        LAYER,
        "return BertSelfAttention.forward(hidden_states, attention_mask)",
        "`BertSelfAttention` is the class",
    ),
    (
        "other_arguments",
        ATTENTION,
        "def attention(key, query, value, attention_mask):\n    return query",
        "with self in it?",
    ),
    ("other_arguments", STEP, "p.add_(grad, value=-1)", "add_ and sub_ is called alpha"),
    ("other_arguments", STEP, "p.addcmul_(grad, grad, alpha=1)", "addcdiv_ is called value"),
    ("other_arguments", ATTENTION, "return F.softmax(query, axis=-1)", "torch calls an axis dim"),
    ("other_arguments", ATTENTION, "return query.transpose(1)", 'still needs "dim1"'),
    (
        "other_arguments",
        ATTENTION,
        "return self.dropout(query, p=0.1)",
        "`self.dropout` takes input; Its settings were given when the layer was made",
    ),
    ("other_arguments", INIT, "super().__init__(config)", "takes nothing: super().__init__()"),
    (
        "other_arguments",
        FORWARD,
        "return self.bert(input_ids)",
        "`self.bert` takes input_ids, attention_mask; you gave 1",
    ),
    ("other_combination", STEP, "v = grad.pow()", "pow is given (); takes (Tensor exponent)"),
    (
        "endless",
        LAYER,
        "return self.forward(hidden_states, attention_mask)",
        "forward calls itself again and again",
    ),
    ("truth_of_tensor", STEP, "if grad:\n    pass", "neither: ask what you mean"),
    (
        "raise_left",
        ATTENTION,
        SCORES + "raise NotImplementedError('Task 1.1 · BertSelfAttention.attention')",
        "the stub's raise is still there",
    ),
    # Nothing, texts, dictionaries
    (
        "nothing_there",
        STEP,
        "q = torch.nn.Parameter(torch.zeros(2))\nq.grad.pow(2)",
        "`q.grad` is None: no gradient was computed for it",
    ),
    (
        "nothing_there",
        ATTENTION,
        "merged = self.eval_quietly(query)\nreturn merged.flatten(2)",
        "`merged` is None, as `self.eval_quietly(query)` gave it: is a `return` missing there?",
    ),
    (
        "nothing_there",
        ATTENTION,
        "return self.eval_quietly(query).flatten(2)",
        "`self.eval_quietly(query)` gives None",
    ),
    (
        "key_for_value",
        FORWARD,
        "x, p = self.bert(input_ids, attention_mask)\nreturn self.classifier(self.dropout(p))",
        "`p` is the text 'pooler_output'; gives its keys",
    ),
    (
        "key_for_value",
        STEP,
        "for q in group:\n    q.grad",
        "`q` is the text 'params'",
    ),
    (
        "missing_key",
        FORWARD,
        BERT + "return out['pooled_output']",
        "`out` is a dictionary; ['last_hidden_state'] or ['pooler_output']",
    ),
    ("missing_key", FORWARD, "self.bert(input_ids, attention_mask)[1]", "['pooler_output']"),
    (
        "missing_key",
        INIT,
        "self.heads = nn.ModuleDict({'yes': nn.Linear(3, 4)})\nself.heads['ye']",
        "`self.heads` has the keys 'yes': do you mean yes?",
    ),
    (
        "layer_of_other_width",
        INIT,
        "self.heads = nn.ModuleDict({'a': nn.Linear(3, 4)})\nself.heads['a'](torch.ones(7))",
        "`self.heads['a']` takes vectors of 3 numbers",
    ),
    (
        "factors_do_not_meet",
        INIT,
        "heads = {1: nn.Linear(3, 4)}\nlist(heads.values())[0](torch.ones(2, 7))",
        "vectors of another size than it takes",
    ),
    (
        "single_number",
        STEP,
        "m, v = (grad, 3[0])",
        "`3` is a single number",
    ),
    ("other_than_weights", FORWARD, "return self.classifier(input_ids)", "whole numbers, where"),
    ("negative_size", INIT, "self.head = nn.Linear(4, -1)", "below 0"),
    (
        "list_of_modules_too_short",
        INIT,
        "self.heads = nn.ModuleList([nn.Linear(3, 4)])\nself.heads[1]",
        "holds fewer modules",
    ),
    ("unpacked", STEP, "m, v = (grad.foo if 0 else grad,)", "holds 1 values, but here are 2 names"),
    ("missing_key", FORWARD, "self.bert(input_ids, attention_mask)[:, 0]", "['pooler_output']"),
    (
        "missing_key",
        STEP,
        "state['step'] += 1",
        "`state` has no keys now: 'step' needs a first value",
    ),
    (
        "missing_key",
        STEP,
        "if not state:\n    state['step'] = 0\nm = state['exp_avg']",
        "`state` has 'step' now: 'exp_avg' needs a first value",
    ),
    ("missing_key", STEP, "rate = group['beta']", "`group` has the keys; do you mean betas?"),
    (
        "key_as_attribute",
        FORWARD,
        "self.bert(input_ids, attention_mask).pooler_output",
        "is read by `self.bert(input_ids, attention_mask)['pooler_output']`",
    ),
    ("key_as_attribute", STEP, "rate = group.lr", "`group['lr']`"),
    ("key_as_attribute", STEP, "for q in self.param_groups:\n    q.grad", "keys: 'params', 'lr'"),
    ("name_for_place", STEP, "beta1 = group['betas']['beta1']", "is read by place"),
    ("tensor_by_name", FORWARD, BERT + "out['pooler_output']['x']", "by places, not by names"),
    ("not_a_container", EMBED, "return self.word_embedding[input_ids]", "`self.word_embedding(x)`"),
    ("not_a_container", INIT, "config['hidden_size']", "`config.name`, not ['name']"),
    # Names and attributes
    ("missing_attribute", ATTENTION, "return self.droput(query)", "do you mean dropout?"),
    ("missing_attribute", ATTENTION, "return self.num_heads", "do you mean num_attention_heads?"),
    ("missing_attribute", ATTENTION, "self.config.hidden_size", "__init__ keeps"),
    (
        "missing_attribute",
        ATTENTION,
        "return query.sofmax(-1)",
        "tensors have no sofmax: do you mean",
    ),
    (
        "missing_attribute",
        ATTENTION,
        "return F.Softmax(query)",
        "layers are in torch.nn, functions",
    ),
    ("missing_attribute", ATTENTION, "return torch.sqrtt(query)", "do you mean sqrt?"),
    (
        "missing_attribute",
        ATTENTION,
        "d = query.size(-1).sqrt()",
        "a plain number, which has no sqrt",
    ),
    ("missing_attribute", ATTENTION, "out = []\nreturn out.flatten(2)", "`out` is a list"),
    (
        "missing_attribute",
        INIT,
        "self.head = nn.Linear(config.hidden, 5)",
        "do you mean hidden_size? An option of your own; getattr(config, 'hidden', default)",
    ),
    ("missing_attribute", STEP, "rate = self.lr", "group['lr']"),
    ("missing_attribute", STEP, "for q in self.params:\n    pass", "do you mean param_groups?"),
    (
        "missing_attribute",
        ADD_NORM,
        "return dropout(dense_layer)",
        "a tensor is wanted, and `dense_",
    ),
    ("missing_attribute", LAYER, "return self.query(hidden_states)", "in self.self_attention"),
    ("unknown_name", ATTENTION, "return np.sqrt(8)", "is missing: import numpy as np"),
    (
        "unknown_name",
        ATTENTION,
        "return transform(query, self.query)",
        "do you mean self.transform?",
    ),
    ("unknown_name", INIT, "nn.Linear(hidden_size, 5)", "do you mean config.hidden_size?"),
    ("unknown_name", ATTENTION, "return config.hidden_size", "config is no argument"),
    ("unknown_name", ATTENTION, "return quary", "do you mean query?"),
    ("unknown_name", STEP, "return zzz", "no value before this line"),
    (
        "no_value_yet",
        ATTENTION,
        "if query is None:\n    out = 1\nreturn out",
        "in line 52, which was not reached",
    ),
    ("no_value_yet", STEP, "rate = rate * 2", "used before it has a value"),
    ("no_value_yet", STEP, "math = math.sqrt(2)", "hides what math is outside"),
    ("divided_by_zero", STEP, "t = 0\nx = 1 / (1 - 0.9**t)", "steps count from 1"),
    ("divided_by_zero", ATTENTION, "return 1 / 0", "`1 / 0` divides by is 0"),
    ("missing_module", ATTENTION, "import torch.nn.funtional", "do you mean functional?"),
    ("missing_module", ATTENTION, "import maths", "do you mean math?"),
    ("missing_module", ATTENTION, "import zzz_helpers", "is it a file of yours, zzz_helpers.py?"),
    ("missing_import", ATTENTION, "from torch.nn import Linearr", "do you mean Linear?"),
]
HELPER = "    def eval_quietly(self, x):\n        x.flatten()\n\n    def transform(self"


def with_helper(source):
    """A student's own method that returns nothing, in the attention's class."""
    return source.replace("    def transform(self", HELPER, 1)


def short(case):
    return f"{case[0]}, {case[2].splitlines()[-1].strip()[:40]}"


@pytest.mark.parametrize(("name", "task_id", "body", "words"), WRONG, ids=map(short, WRONG))
def test_an_exception_is_explained(name, task_id, body, words):
    error, (found, said), finding = raised(task_id, body, with_helper)
    assert (found, said[:0]) == (name, ""), (error, said)
    for part in words.split("; "):
        assert part in said, said
    assert finding.kind == "error"
    assert finding.text.startswith(f"{type(error).__name__}: ")
    assert finding.text.endswith(f": {said}")
    assert f"({graded_task(task_id).file}:" in finding.text or task_id == ATTENTION


# ---------------------------------------------------------------------------------------------
# Where no student's line raises, or another machine is needed: the message alone

MESSAGES = [
    ("no_gpu", AssertionError("Torch not compiled with CUDA enabled"), "there is no GPU here"),
    (
        "two_devices",
        RuntimeError("Expected all tensors to be on the same device, but found cuda:0 and cpu"),
        "device=x.device",
    ),
]


@pytest.mark.parametrize(("name", "error", "words"), MESSAGES, ids=lambda part: str(part)[:12])
def test_a_message_is_enough(name, error, words):
    try:
        raise error
    except Exception as caught:
        found, said = find(caught)
    assert found == name
    assert words in said


def test_every_entry_is_tried_and_none_is_there_twice():
    names = [entry.name for entry in table()]
    assert len(names) == len(set(names)) >= 60
    assert set(names) == {name for name, *_ in [*WRONG, *MESSAGES]}


SYNTAX = [
    (
        "return (query",
        "the bracket that closes it is missing\n            return (query\n                   ^",
    ),
    ("return query)", "a bracket is closed that was not opened\n            return query)\n"),
    ("if query is None\n    return key", "the colon at the end of the line is missing"),
    ("if query is None:\nreturn key", "what belongs below has to be indented"),
    ("x = 1\n  return key", "indent each line like the ones around it"),
    ("if x = 1:\n    return key", "= assigns, == compares"),
    ("return 'query", "the quotation mark that closes the text is missing"),
]


@pytest.mark.parametrize(("line", "said"), SYNTAX, ids=lambda part: part[:16])
def test_a_line_that_python_cannot_read_is_shown(line, said, tmp_path):
    marked = written(ATTENTION, "return None  # here")
    source = marked.replace("return None  # here", textwrap.indent(line, " " * 8).lstrip())
    file = tmp_path / "bert.py"
    file.write_text(source, encoding="utf-8")
    with pytest.raises(SyntaxError) as caught:
        compile(source, file, "exec")
    text = describe(caught.value).text
    assert said in text
    number = marked.partition("return None  # here")[0].count("\n") + 1
    assert f"(bert.py:{number}" in text or f"(bert.py:{number + 1})" in text
    assert "bert.py, line" not in text  # Python's own form, which says it again


@pytest.mark.parametrize(
    ("line", "body", "name"),
    [
        ("import math\n", "return math.sqrt(8)", "import math"),
        ("import torch\n", "return torch.zeros(1)", "import torch"),
        (
            "from torch.nn import functional as F\n",
            "return F.relu(query)",
            "from torch.nn import functional as F",
        ),
    ],
)
def test_an_import_that_is_missing_is_named(line, body, name):
    def without(source):
        return source.replace(line, "import torch as torch_\n" if name == "import torch" else "")

    found, said = raised(ATTENTION, body, without)[1]
    assert found == "unknown_name"
    assert said == f"at the top of the file is missing: {name}"


SLIP = "import torch\nfrom utils import softmaxx\n"


def test_a_file_that_lacks_its_class_says_so():
    found, said = raised(ATTENTION, "return 1", lambda s: s.replace("import torch\n", SLIP))[1]
    assert (found, said.split(":")[0]) == ("missing_import", "utils has no softmaxx")


# ---------------------------------------------------------------------------------------------
# Where no entry knows an exception


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('mine')",
        "assert query is None, 'no'",
        "raise KeyError('mine')",
        "raise RuntimeError('the student says so')",
        "raise TypeError",
    ],
)
def test_a_raise_of_the_students_is_told_as_theirs(body):
    finding = raised(ATTENTION, body)[2]
    assert finding.text.endswith(": a line of yours raises this, so the condition for it was met")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return query.permute(1, 2, 1, 3)", "here `query` is a tensor (5, 6, 10, 7)"),
        (
            "n = 'six'\nreturn int(n)",
            "here `n` is of type str of 3",
        ),
        ("x = None\nreturn iter(x, 3)", "here `x` is None"),
    ],
)
def test_of_other_exceptions_what_was_given_is_told(body, said):
    (name, told), finding = raised(ATTENTION, body)[1:]
    assert name == "operands"
    assert told.startswith(said)
    assert finding.text.endswith(told)


def test_of_an_exit_nothing_is_said():
    finding = raised(ATTENTION, "import sys\nsys.exit(3)")[2]
    assert finding.text.startswith("SystemExit: 3 (bert.py:")
    assert finding.text.endswith(")")


def test_an_exception_that_cannot_be_looked_at_is_no_trouble():
    class Odd(nn.Module):
        def __getattr__(self, name):
            raise SystemExit(name)

        def __repr__(self):
            raise RuntimeError

    def fail():
        odd = Odd.__new__(Odd)
        return odd + {}.missing

    with pytest.raises((AttributeError, SystemExit)) as caught:
        fail()
    assert isinstance(meaning(caught.value), str)
    for kind in (AttributeError, TypeError, KeyError, SyntaxError):  # never raised
        assert meaning(kind()) == ""


@pytest.mark.parametrize(
    "answer", [a for a in read_all(VARIANTS) if a.task.part == 1], ids=lambda a: a.name
)
def test_right_code_gets_no_sentence(answer, monkeypatch):
    said = []
    monkeypatch.setattr("checks.errors.meaning", lambda error: said.append(error) or meaning(error))
    source = put_methods(
        (ROOT / answer.task.file).read_text(encoding="utf-8"),
        answer.task.function.split(".")[0],
        answer.versions[answer.first],
        answer.imports,
    )
    with installed_source(answer.task.file, source):
        assert jobs.examine(answer.task) == []
    assert said == []


def test_a_size_without_a_letter_is_said_as_it_is():
    body = BERT + "return torch.softmax(self.classifier(out['pooler_output']), dim=2)"
    assert "(5, 9) = (B, 9) has 2 axes" in raised(FORWARD, body)[1][1]


# ---------------------------------------------------------------------------------------------
# Not started, or a stub's raise that was left


def stub(task_id):
    entry = graded_task(task_id)
    return f'raise NotImplementedError("{entry.title}")'


TODO = "### TODO\n# what to do\n"


@pytest.mark.parametrize(
    ("task_id", "body"),
    [
        (ATTENTION, TODO + "{stub}"),
        (ATTENTION, "{stub}"),
        (ATTENTION, "'''Attend.'''\n{stub}"),
        (ATTENTION, "raise NotImplementedError"),
        (STEP, TODO + "{stub}"),
        (STEP, "{stub}"),
        (INIT, TODO + "{stub}"),
        (INIT, "{stub}"),
    ],
)
def test_a_stub_is_not_started(task_id, body):
    finding = raised(task_id, body.format(stub=stub(task_id)))[2]
    assert finding.kind == "not started"


@pytest.mark.parametrize(
    ("task_id", "body"),
    [
        (ATTENTION, TODO + SCORES + "{stub}"),
        (ATTENTION, SCORES + "{stub}"),
        (ATTENTION, TODO + "{stub}\n" + SCORES),
        (STEP, TODO + "state['step'] = 1\n{stub}"),
        (STEP, TODO + "{stub}\nstate['step'] = 1"),
        (STEP, "{stub}\nstate['step'] = 1"),
        (INIT, TODO + "self.dropout = nn.Dropout(0.1)\n{stub}"),
    ],
)
def test_a_raise_that_was_left_is_named(task_id, body):
    finding = raised(task_id, body.format(stub=stub(task_id)))[2]
    assert finding.kind == "error"
    assert "the stub's raise is still there, with code of yours around it" in finding.text


@pytest.mark.parametrize("body", ["v = grad ^ 2", TODO + "v = 1\n{stub}"])
def test_an_optimizer_that_raises_is_started(body):
    source = written(STEP, body.format(stub=stub(STEP)))
    with installed_source("optimizer.py", source) as module:
        assert adamw_checks.is_started(module.AdamW)
        (finding, *_) = jobs.examine(graded_task(STEP))
    assert finding.kind == "values"
    assert "a power is **" in finding.text or "raise is still there" in finding.text


def test_part_2_says_what_an_exception_means_and_says_it_once():
    source = written("multitask.init", GIVEN_OF_PART_2 + "self.head = nn.Linear(config.hidden, 5)")
    with installed_source("multitask_classifier.py", source):
        (finding, *_) = jobs.examine(graded_task("multitask.init"))
    assert finding.name == "unknown_option"
    assert finding.text.count("getattr(config, 'hidden', default)") == 1
    assert finding.text.count("getattr") == 1


GIVEN_OF_PART_2 = (
    "super().__init__()\nself.bert = BertModel.from_pretrained('model')\n"
    "self.bert.requires_grad_(config.option == 'finetune')\n"
)


# ---------------------------------------------------------------------------------------------
# Our own stand-ins are never blamed on the student


LAYER_WITH = """
attended = self.self_attention(hidden_states, attention_mask)
attended = self.add_norm(hidden_states, attended, {modules})
expanded = self.interm_af(self.interm_dense(attended))
return self.add_norm(attended, expanded, self.out_dense, self.out_dropout, self.out_layer_norm)
"""
RIGHT_ORDER = "self.attention_dense, self.attention_dropout, self.attention_layer_norm"


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (
            "self.attention_dropout, self.attention_dense, self.attention_layer_norm",
            "dense_layer of add_norm's call 1: a Dropout instead of a tensor",
        ),
        ("None, 0.5, 'norm'", "dense_layer of add_norm's call 1: None instead of a tensor"),
    ],
)
def test_odd_modules_are_compared_not_read(modules, said):
    with installed_source("bert.py", written(LAYER, LAYER_WITH.format(modules=modules))):
        findings = jobs.examine(graded_task(LAYER))
    assert any(said in finding.text for finding in findings)
    assert "error" not in {finding.kind for finding in findings}


@pytest.mark.parametrize("given", ["None", "3", "(hidden_states,)", "'text'"])
def test_odd_tensors_are_compared_not_read(given):
    body = LAYER_WITH.format(modules=RIGHT_ORDER).replace(
        "hidden_states, attended,", f"{given}, 1,"
    )
    with installed_source("bert.py", written(LAYER, body)):
        findings = jobs.examine(graded_task(LAYER))
    assert "error" not in {finding.kind for finding in findings}
    assert any("input of add_norm's call 1" in finding.text for finding in findings)


def test_a_stand_in_complains_by_the_students_name():
    body = "return self.add_norm(hidden_states)"
    text = raised(LAYER, body)[2].text
    assert text.startswith("TypeError: BertLayer.add_norm() missing 4 required")
    text = raised(FORWARD, "self.bert(input_ids)")[2].text
    assert text.startswith("TypeError: BertModel.forward() missing 1 required")


def test_a_layer_called_by_forward_is_traced():
    body = LAYER_WITH.format(modules=RIGHT_ORDER).replace("self.self_attention(", "{0}(")
    body = body.format("self.self_attention.forward").replace(
        "interm_af(self.", "interm_dense(self.", 0
    )
    body = body.replace(
        "self.interm_af(self.interm_dense(attended))", "self.interm_dense(attended)"
    )
    body = body.replace("self.interm_dense(", "self.interm_dense.forward(")
    with installed_source("bert.py", written(LAYER, body)):
        facts = [f.text for f in explain.measured(LAYER)]
    assert "a = self_attention(hidden_states, attention_mask); b = add_norm(" in facts[0]
    assert "c = interm_dense(b); d = add_norm(b, c," in facts[0]
    assert "something else" not in facts[0]


@pytest.mark.filterwarnings("error")
def test_a_tensor_within_a_computation_is_looked_at_without_a_warning():
    """Of another than a leaf torch warns where its .grad is read."""
    inner = torch.ones(2, requires_grad=True) * 2
    assert attribute(inner, "shape") == (2,)
    assert attribute(inner.detach(), "grad") is None


def test_what_the_courses_code_raises_is_not_told_as_the_students():
    body = "from utils import get_extended_attention_mask as f\nf(attention_mask, torch.float32)"
    said = raised(ATTENTION, body)[1][1]
    assert said == "utils.py raises this, so the condition for it was met"


# ---------------------------------------------------------------------------------------------
# A known mistake is told by an error's words


def test_the_digest_of_an_error_is_its_words_without_its_place():
    one = "TypeError: argument 'input' (position 1) must be Tensor, not int (bert.py:187)"
    assert digest(one) == digest(f"{one.replace('187', '3')}: `x` is a plain number")
    assert digest(one) == "TypeError: argument 'input' (position 1) must be Tensor, not int"
    for other in (one.replace("not int", "not str"), one.replace("position 1", "position 2")):
        assert digest(one) != digest(other)
    assert digest("E: a (21x48 and 32x32) (a.py:1)") != digest("E: a (48x21 and 32x32) (a.py:1)")
    assert digest("E: at 0x7f01 (a.py:1)") == digest("E: at 0x7f02 (b.py:2)")
    unset = "UnboundLocalError: cannot access local variable '{}' where it is not (a.py:1)"
    assert digest(unset.format("alpha")) == digest(unset.format("rate"))


def test_errors_are_told_apart_by_their_words():
    first, again, other = (fingerprint_of(f"E: {text} (a.py:1)") for text in ("1 2", "1 2", "2 1"))
    assert first.matches(again)
    assert not first.matches(other)
    assert not first.matches(Fingerprint({}))
    texts = ("KeyError: 'rate' (a.py:1)", "KeyError: 'rate' (b.py:2)", "KeyError: 'step' (a.py:1)")
    rows = [projections(text).float().double() for text in texts]
    assert same_projections(rows[0], rows[1])
    assert not same_projections(rows[0], rows[2])
    assert not same_projections(rows[0], projections(None))


def test_another_error_at_the_same_place_has_no_name():
    """A known mistake raises with correct_bias=False only, too."""
    plain = next(answer for answer in read_all(VARIANTS, STEP) if answer.name == "plain")
    asked = 'if group["correct_bias"]:'
    other = f'if not group["correct_bias"]: raise KeyError("mine")\n            {asked}'
    methods = {"step": plain.versions[plain.first]["step"].replace(asked, other)}
    source = (ROOT / "optimizer.py").read_text(encoding="utf-8")
    with installed_source("optimizer.py", put_methods(source, "AdamW", methods)):
        findings = jobs.examine(graded_task(STEP))
    assert findings
    assert {finding.name for finding in findings} == {""}
