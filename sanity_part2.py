"""The checks of part 2: MultitaskBERT in multitask_classifier.py, one function at a time.

There is no one right answer here: two sentences may be encoded apart or together, pooled and
compared in many ways, and a similarity may have any scale. So nothing is compared with a reference;
each check asks for a property that every way must have: a shape, logits rather than probabilities,
both sentences counting, padding and neighbours in the batch not counting, gradients. The model is
built around a tiny random BERT. What may be meant is a hint, not a fault. This file does not know
how any task is solved.

``check(task)`` gives the findings. B is the number of sentences or pairs, D the hidden size.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import sanity_part1
from config import BertConfig
from sanity_part1 import CLASSIFIER_DROPOUT, NUM_LABELS
from sanity_tools import Finding, FixedDropout, describe, faulty
from tasks import Task, task

TINY = {  # a width that many numbers of heads divide; ids of [CLS] and [SEP] as they really are
    "vocab_size": 1100,
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "attention_probs_dropout_prob": 0.0,  # what dropout is left is the student's own
    "hidden_dropout_prob": 0.0,
}
CLS, SEP, FIRST_WORD = 101, 102, 999
LENGTHS = ((9, 6, 4, 8, 5, 7), (6, 4, 8, 5, 7, 3))  # of six first and six second sentences
TOLERANCE = 1e-4  # in float32; relative where a result is above 1
UNUSED = 1e-6  # a change this small of a sentence that matters does not happen
CHECKED = {
    "multitask.init": "BERT loaded, frozen or trainable as asked, layers of your own",
    "multitask.forward": "shape, padding, other sentences, gradients",
    "multitask.predict_sentiment": "logits, padding, other sentences, gradients",
    "multitask.predict_paraphrase": "logits, both sentences, padding, other pairs, gradients",
    "multitask.predict_similarity": "scores, both sentences, padding, other pairs, gradients",
}
SINGLE = ("multitask.forward", "multitask.predict_sentiment")
SIDES = ("first", "second")


# ---------------------------------------------------------------------------------------------
# The student's model around a tiny BERT


def tiny_encoder() -> nn.Module:
    """What BertModel.from_pretrained gives here: always the same random weights, large ones."""
    model = importlib.import_module("bert").BertModel(BertConfig(**TINY))
    generator = torch.Generator().manual_seed(11711)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                parameter.normal_(std=0.15, generator=generator)
    return model


def default_flags() -> dict[str, Any]:
    """What the student's own flags are by default: the configuration may be made from them."""
    module = importlib.import_module("multitask_classifier")
    quiet = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["multitask_classifier.py"]),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
    ):
        try:
            return vars(module.get_args())
        except (Exception, SystemExit):
            return {}


def student_model(option: str) -> tuple[nn.Module, list[nn.Module]]:
    """The student's MultitaskBERT in evaluation mode, and the encoders that it loaded."""
    module = importlib.import_module("multitask_classifier")
    bert = importlib.import_module("bert")
    given = {
        "num_labels": {label: label for label in range(NUM_LABELS)},  # as in the data sets
        "hidden_size": TINY["hidden_size"],
        "hidden_dropout_prob": CLASSIFIER_DROPOUT,
        "data_dir": ".",
        "option": option,
    }
    config = SimpleNamespace(**(default_flags() | given))
    encoders: list[nn.Module] = []

    def load(*_: Any, **__: Any) -> nn.Module:
        encoders.append(tiny_encoder())
        return encoders[-1]

    torch.manual_seed(0)
    with mock.patch.object(bert.BertModel, "from_pretrained", side_effect=load):
        model = module.MultitaskBERT(config).eval()
    for parameter in own_parameters(model, encoders):
        if parameter.dim() > 1 and not parameter.any():  # zeros are a fine start, but say nothing
            nn.init.normal_(parameter, std=0.1)
    return model, encoders


def bare_model() -> nn.Module:
    """A MultitaskBERT whose __init__ was not run: enough to see which functions are begun."""
    cls = importlib.import_module("multitask_classifier").MultitaskBERT
    model = cls.__new__(cls)
    nn.Module.__init__(model)
    return model


def own_parameters(model: nn.Module, encoders: list[nn.Module]) -> list[nn.Parameter]:
    """The model's parameters that did not come with a loaded BERT."""
    loaded = {id(parameter) for encoder in encoders for parameter in encoder.parameters()}
    return [parameter for parameter in model.parameters() if id(parameter) not in loaded]


def function_of(task_id: str) -> str:
    """The name of a task's method: ``predict_sentiment``."""
    return "__init__" if task_id == "multitask.init" else task_id.split(".")[1]


# ---------------------------------------------------------------------------------------------
# Batches


def sentences(side: int) -> tuple[Tensor, Tensor]:
    """Ids and mask, (B, L) each, as the tokenizer gives them; no word is in both sides."""
    lengths = torch.tensor(LENGTHS[side])[:, None]  # (B, 1)
    place = torch.arange(int(lengths.max()))  # (L,)
    generator = torch.Generator().manual_seed(side)
    words = torch.randint(0, 25, (len(lengths), len(place)), generator=generator)
    ids = FIRST_WORD + 50 * side + words
    ids[:, 0] = CLS
    ids = torch.where(place == lengths - 1, SEP, ids) * (place < lengths)
    return ids, (place < lengths).long()


def other_words(ids: Tensor) -> Tensor:
    """The same batch, each word another one."""
    return torch.where(ids >= FIRST_WORD, ids + 25, ids)


def with_another_first(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch, its first sentence shorter and of other words."""
    ids, mask = ids.clone(), mask.clone()
    ids[0] = other_words(ids[0])
    end = int(mask[0].sum()) - 2
    ids[0, end:], mask[0, end:] = 0, 0
    ids[0, end - 1] = SEP
    return ids, mask


def wider(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same batch, with three more columns of padding."""
    return tuple(nn.functional.pad(tensor, (0, 3)) for tensor in (ids, mask))


Batch = list[tuple[Tensor, Tensor]]  # of each side: ids, mask


def batch_for(task_id: str) -> Batch:
    """What a task's function is called with."""
    return [sentences(side) for side in range(1 if task_id in SINGLE else 2)]


def changed(batch: Batch, side: int, change: Callable[..., tuple[Tensor, Tensor]]) -> Batch:
    """A batch in which one side is changed."""
    return [change(*pair) if i == side else pair for i, pair in enumerate(batch)]


def call(model: nn.Module, task_id: str, batch: Batch, seed: int = 0) -> Any:
    """What the student's function returns for copies of a batch."""
    torch.manual_seed(seed)
    return getattr(model, function_of(task_id))(*(t.clone() for pair in batch for t in pair))


def values(model: nn.Module, task_id: str, batch: Batch) -> Tensor:
    """The result without its graph, one row a sentence or pair."""
    with torch.no_grad(), FixedDropout():
        result = call(model, task_id, batch)
    return result.detach().reshape(len(batch[0][0]), -1)


# ---------------------------------------------------------------------------------------------
# Changes from outside: what stands at padding, and what BERT returns


@contextlib.contextmanager
def other_padding(encoders: list[nn.Module]) -> Iterator[None]:
    """While active, [PAD] has another embedding. Its id stays, since code may look for that."""
    tables = [getattr(encoder, "word_embedding", None) for encoder in encoders]
    rows = [table.weight.data[0] for table in tables if isinstance(table, nn.Embedding)]
    before = [row.clone() for row in rows]
    try:
        for row in rows:
            row.copy_(torch.linspace(-2, 2, len(row)).sin())
        yield
    finally:
        for row, old in zip(rows, before, strict=True):
            row.copy_(old)


@contextlib.contextmanager
def loud(model: nn.Module, encoders: list[nn.Module], scale: float) -> Iterator[None]:
    """While active, BERT returns, and each own layer gets, random numbers of that scale.

    Both, since some ways never call BERT's forward and others have no layers.
    """

    def noise(value: Any) -> Any:
        floating = isinstance(value, Tensor) and value.is_floating_point()
        return scale * torch.randn_like(value) if floating else value

    def replace_outputs(_module: nn.Module, _inputs: Any, outputs: Any) -> Any:
        if not isinstance(outputs, dict):
            return outputs
        return {name: noise(value) for name, value in outputs.items()}

    def replace_inputs(_module: nn.Module, inputs: tuple) -> tuple:
        return tuple(map(noise, inputs))

    inside = {module for encoder in encoders for module in encoder.modules()}
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Bilinear)]
    hooks = [encoder.register_forward_hook(replace_outputs) for encoder in encoders]
    hooks += [m.register_forward_pre_hook(replace_inputs) for m in layers if m not in inside]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def loud_values(model: nn.Module, encoders: list[nn.Module], task_id: str) -> Tensor:
    """Results for random embeddings from small to large, one after the other."""
    found = []
    for scale in (1.0, 10.0, 100.0):
        with loud(model, encoders, scale):
            found.append(values(model, task_id, batch_for(task_id)))
    return torch.cat(found)


# ---------------------------------------------------------------------------------------------
# Task 2.1


def check_init() -> list[Finding]:
    """A BERT is loaded, trained as config.option says, and not alone."""
    findings = []
    for option in ("pretrain", "finetune"):
        model, encoders = student_model(option)
        if not encoders:
            text = "BertModel.from_pretrained is not called: BERT would start from random weights"
            return [Finding("values", text)]
        inside = {id(parameter) for parameter in model.parameters()}
        parameters = [p for encoder in encoders for p in encoder.parameters()]
        if not any(id(parameter) in inside for parameter in parameters):
            text = "BERT is not part of the model, so it is neither trained nor saved: make "
            return [
                Finding("values", text + "attribute (self.bert = …) or put it in nn.ModuleList")
            ]
        training = sum(parameter.requires_grad for parameter in parameters)
        if option == "pretrain" and training:
            text = f"{training} of {len(parameters)} parameters of BERT train; all are to be frozen"
            findings.append(Finding("values", f"option pretrain: {text}"))
        if option == "finetune" and not training:
            findings.append(Finding("values", "option finetune: BERT's parameters are frozen"))
        elif option == "finetune" and training < len(parameters):
            text = f"only {training} of {len(parameters)} parameters of BERT train; if you meant it"
            findings.append(Finding("hint", f"option finetune: {text}, fine"))
        own = own_parameters(model, encoders)
        if not own:
            text = "no layer of your own beside BERT; a sentiment needs one (what other functions "
            text += "make is new at every call; a list of layers has to be an nn.ModuleList)"
            return [*findings, Finding("values", text)]
        if not any(parameter.requires_grad for parameter in own):
            findings.append(Finding("values", f"option {option}: your own layers are frozen"))
    return findings


# ---------------------------------------------------------------------------------------------
# Tasks 2.2 to 2.5: the properties, each a function that returns findings


def check_function(task_id: str) -> list[Finding]:
    """All properties of one function, the form of its result first."""
    model, encoders = student_model("finetune")
    batch = batch_for(task_id)
    with FixedDropout():
        result = call(model, task_id, batch)
    findings = form(task_id, result)
    if findings:
        return findings
    findings += not_squashed(task_id, loud_values(model, encoders, task_id))
    findings += gradients(task_id, model, encoders, result)
    findings += dependence(task_id, model, encoders)
    if not faulty(findings):
        findings += single_row(task_id, model) + identical_sentences(task_id, model)
    return findings + dropout_hints(task_id, model)


def form(task_id: str, result: Any) -> list[Finding]:
    """A finite floating-point tensor of the right shape."""
    batch = len(LENGTHS[0])
    wanted = {
        "multitask.forward": ((batch, TINY["hidden_size"]),),
        "multitask.predict_sentiment": ((batch, NUM_LABELS),),
    }.get(task_id, ((batch,), (batch, 1)))
    what = {
        "multitask.forward": "an embedding of each sentence",
        "multitask.predict_sentiment": f"{NUM_LABELS} logits for each sentence",
        "multitask.predict_paraphrase": "one logit for each pair",
        "multitask.predict_similarity": "one score for each pair",
    }[task_id]
    if not isinstance(result, Tensor):
        text = f"returns a {type(result).__name__} instead of a tensor with {what}"
        return [Finding("shape", text)]
    if not result.is_floating_point():
        text = f"returns whole numbers ({result.dtype}); asked for is {what}, before any argmax"
        return [Finding("shape", f"{text} or rounding, which have no gradient")]
    shape = tuple(result.shape)
    if shape not in wanted:
        text = f"shape {shape} instead of {' or '.join(map(str, wanted))}: {what}"
        if task_id == "multitask.predict_paraphrase" and shape == (batch, 2):
            text += "; its sigmoid is the probability, so a second one is not needed"
        elif task_id not in SINGLE and shape == (batch, batch):
            text += "; here every first sentence meets every second one"
        elif len(shape) == 3:
            text += "; the axis of the word pieces is still there"
        return [Finding("shape", text)]
    if not result.isfinite().all():
        return [Finding("values", f"not finite: {result.detach().flatten()[:3].tolist()} …")]
    return []


def not_squashed(task_id: str, found: Tensor) -> list[Finding]:
    """Logits leave [0, 1] when BERT's embeddings are large; probabilities and classes do not."""
    if task_id in ("multitask.forward", "multitask.predict_similarity"):
        return []
    if found.min() < 0 or found.max() > 1 or found.max() - found.min() < 1e-6:
        return []
    asked = "a logit, which may be any number, is asked for"
    if set(found.flatten().tolist()) <= {0.0, 1.0}:
        return [Finding("values", f"a class (0 or 1) is returned; {asked}: leave rounding out")]
    if task_id == "multitask.predict_sentiment":
        name = "softmax" if (found.sum(-1) - 1).abs().max() < TOLERANCE else "sigmoid"
        text = f"probabilities are returned, as after a {name}; logits, which may be any numbers, "
        text += "are asked for: F.cross_entropy has the softmax inside"
        return [Finding("values", text)]
    text = f"a probability (always between 0 and 1) is returned; {asked}: leave the sigmoid to "
    return [Finding("values", text + "F.binary_cross_entropy_with_logits and to the evaluation")]


def gradients(
    task_id: str, model: nn.Module, encoders: list[nn.Module], result: Tensor
) -> list[Finding]:
    """They reach BERT through each sentence, and layers of the student's own."""
    if not result.requires_grad:
        text = "no gradient: the result is cut off from the parameters (no_grad, detach, .data, a "
        return [Finding("gradients", text + "class or a new tensor instead of the result?)")]
    cotangent = torch.randn(result.shape, generator=torch.Generator().manual_seed(1))
    model.zero_grad()
    (result * cotangent).sum().backward()
    trained = [p for encoder in encoders for p in encoder.parameters() if p.requires_grad]
    if not any(p.grad is not None and p.grad.any() for p in trained):
        text = "option finetune: no gradient reaches BERT (no_grad, detach or rounding?)"
        return [Finding("gradients", text)] if trained else []
    if not all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
        return [Finding("gradients", "gradients that are not finite reach the parameters")]
    findings = []
    tables = [e.word_embedding.weight for e in encoders if hasattr(e, "word_embedding")]
    grads = [table.grad for table in tables if table.grad is not None]
    for side, (ids, _) in enumerate(batch_for(task_id)):
        words = ids[ids >= FIRST_WORD]
        if grads and not any(grad[words].any() for grad in grads):
            text = f"no gradient reaches BERT through the {SIDES[side]} sentence"
            findings.append(Finding("gradients", f"{text} (unused, detached or under no_grad?)"))
    return findings + gradients_of_heads(task_id)


def gradients_of_heads(task_id: str) -> list[Finding]:
    """With BERT frozen something is left to learn; layers made at every call are not."""
    if task_id == "multitask.forward":
        return []
    model, _ = student_model("pretrain")
    result = call(model, task_id, batch_for(task_id))
    if not result.requires_grad:
        text = "option pretrain: none of your layers takes part, so nothing can be learnt"
        if task_id == "multitask.predict_sentiment":
            return [Finding("gradients", text)]
        return [Finding("hint", text)]  # a cosine of embeddings needs no layer
    result.sum().backward()
    if all(parameter.grad is None for parameter in model.parameters()):
        text = "no gradient reaches a parameter of the model, yet there are layers: made in "
        text += f"{function_of(task_id)} they are new, and random, at every call; make them in "
        return [Finding("gradients", text + "__init__, as attributes or in an nn.ModuleList")]
    return []


def dependence(task_id: str, model: nn.Module, encoders: list[nn.Module]) -> list[Finding]:
    """Each result depends on all of its own sentences and on nothing else."""
    batch = batch_for(task_id)
    before = values(model, task_id, batch)  # (B, …)
    limit = TOLERANCE * max(1.0, before.abs().max().item())
    row = "sentence" if len(batch) == 1 else "pair"
    findings, hints = [], []
    for side in range(len(batch)):
        name = "sentence" if len(batch) == 1 else f"{SIDES[side]} sentence"

        def moves(change: Callable, side: int = side) -> Tensor:
            """How much each row's result changes, (B, …)."""
            return (values(model, task_id, changed(batch, side, change)) - before).abs()

        if moves(lambda ids, mask: (other_words(ids), mask)).max() < UNUSED:
            text = f"the {name} has no effect: other words give the same result"
            findings.append(Finding("values", text))
        leak = moves(with_another_first)[1:].max().item()
        if not leak < limit:
            text = f"another {name} in the first row changes the results of other {row}s by up to "
            text += f"{leak:.1e}: each has to be computed from its own row only"
            findings.append(Finding("padding", text))
        leak = moves(wider).max().item()
        if not leak < limit:
            text = f"more columns of padding after the {name} change results by up to {leak:.1e}, "
            text += "which then depend on the batch (positions that shift?)"
            hints.append(Finding("hint", text))
    with other_padding(encoders):
        leak = (values(model, task_id, batch) - before).abs().max().item()
    if not leak < limit:
        text = f"what stands at padding changes the result by up to {leak:.1e}: each sentence's "
        text += "attention_mask has to reach BERT, and pooling has to leave padding out"
        findings.append(Finding("padding", text))
        hints = []  # said already
    return findings + hints


def single_row(task_id: str, model: nn.Module) -> list[Finding]:
    """The last batch may hold one row: a squeeze() without dim drops its axis."""
    batch = [(ids[:1], mask[:1]) for ids, mask in batch_for(task_id)]
    with torch.no_grad(), FixedDropout():
        result = call(model, task_id, batch)
    if result.dim() and len(result) == 1:
        return []
    text = f"a batch of one gives shape {tuple(result.shape)}: squeeze() without dim?"
    return [Finding("values" if task_id in SINGLE else "hint", text)]


def identical_sentences(task_id: str, model: nn.Module) -> list[Finding]:
    """Data sets hold pairs of one sentence twice: distance 0, angle 0."""
    if task_id in SINGLE:
        return []
    model.zero_grad()
    result = call(model, task_id, [sentences(0)] * 2)
    if not result.isfinite().all():
        return [Finding("values", "not finite for a pair of identical sentences")]
    result.sum().backward()
    if all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
        return []
    text = "the gradient of a pair of identical sentences is not finite (a root or an arccos?)"
    return [Finding("hint", text)]


def dropout_hints(task_id: str, model: nn.Module) -> list[Finding]:
    """BERT's own dropout is off here: what chance is left comes from the student's dropout."""
    batch = batch_for(task_id)

    def chance() -> bool:
        with torch.no_grad():
            first, second = (call(model, task_id, batch, seed) for seed in (0, 1))
        return not torch.equal(first, second)

    texts = []
    if chance():
        texts.append("results change from call to call in evaluation mode (dropout always on?)")
    elif task_id != "multitask.forward":
        model.train()
        if not chance():
            texts.append("no dropout of your own in training mode (config.hidden_dropout_prob)")
        model.eval()
    return [Finding("hint", text) for text in texts]


# ---------------------------------------------------------------------------------------------
# Which finding counts


def not_begun(task_id: str) -> bool:
    """Whether the function itself, not one that it calls, raises NotImplementedError."""
    try:
        if task_id == "multitask.init":
            student_model("finetune")
        else:
            call(bare_model(), task_id, batch_for(task_id))
    except (Exception, SystemExit) as error:
        innermost = error.__traceback__
        while innermost.tb_next:
            innermost = innermost.tb_next
        where = innermost.tb_frame.f_code.co_name
        return describe(error).kind == "not started" and where == function_of(task_id)
    return False


def explain(error: BaseException) -> Finding:
    """An exception, with what it probably means in a multitask model."""
    finding = describe(error)
    text = finding.text
    shapes = re.search(r"mat1 and mat2 shapes .* and (\d+)x", text)
    if shapes and int(shapes[1]) % 768 == 0:
        text += f"; config.hidden_size is {TINY['hidden_size']} here: is 768 written in the code?"
    elif "SimpleNamespace' object has no attribute" in text:
        text += "; read an option of your own as getattr(config, name, default)"
    return Finding(finding.kind, text)


def found_in(task_id: str) -> list[Finding]:
    """Findings of one task, an exception being one of them."""
    try:
        return check_init() if task_id == "multitask.init" else check_function(task_id)
    except (Exception, SystemExit) as error:
        return [explain(error)]


def faults(task_id: str) -> list[Finding]:
    """Findings of one task that are not hints.

    A forward that the predictions get along with is right: those may go another way.
    """
    wrong = faulty(found_in(task_id))
    if wrong and task_id == "multitask.forward":
        right = [not faults(name) for name in CHECKED if ".predict" in name]
        only_its_form = {finding.kind for finding in wrong} == {"shape"}
        if all(right) or (only_its_form and any(right)):
            return []
    return wrong


def waits(task_id: str) -> Finding | None:
    """The earlier task that has to be right before a fault can be this function's."""
    if task_id == "multitask.init":
        return None
    if faults("multitask.init"):
        return Finding("waits", f"for Task {task('multitask.init').number}")
    if sanity_part1.check_model(sanity_part1.WHOLE):
        return Finding("waits", "for bert.py (python sanity_check.py --part 1)")
    if task_id != "multitask.forward" and faults("multitask.forward"):
        return Finding("waits", f"for Task {task('multitask.forward').number}")
    return None


def check(entry: Task) -> list[Finding]:
    """What is wrong with the student's function for a task, then hints.

    A fault that an earlier task may have caused is no finding of this one: it waits.
    """
    with torch.random.fork_rng(devices=[]):
        if not_begun(entry.id):
            return [Finding("not started", "")]
        findings = found_in(entry.id)
        if not faulty(findings):
            return findings
        if waiting := waits(entry.id):
            return [waiting]
        if faults(entry.id):
            return findings
        return [Finding("hint", f"{found.text}; your predictions get along") for found in findings]
