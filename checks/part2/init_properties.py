"""The verdict on Task 2.1, MultitaskBERT.__init__: BERT loaded, trained as asked, and not alone."""

from __future__ import annotations

import re

from torch import Tensor

from checks.findings import Finding
from checks.fingerprints import projections, same_projections
from checks.part2.arrays import Stopped, error_of, take
from checks.part2.calls import Measured
from checks.part2.models import OPTIONS, PREDICTIONS, TINY, function_of, tiny_encoder

MATRICES = re.compile(r"mat1 and mat2 shapes .*\((\d+x\d+) and (\d+)x")  # in torch's message


def judge_init(measured: Measured, seed: int) -> list[Finding]:
    """A BERT is loaded, trained as config.option says, and not alone."""
    findings: list[Finding] = []
    for option in OPTIONS:
        table = take(measured, f"{option}/bert", None, 2 + len(projections(None)))
        if not len(table):
            text = "BertModel.from_pretrained is not called: BERT would start from random weights"
            return [Finding("values", text, name="bert_not_loaded")]
        if not table[:, 0].any():
            text = "BERT is not part of the model, so it is neither trained nor saved: make it an "
            text += "attribute (self.bert = …) or put it in nn.ModuleList"
            return [Finding("values", text, name="bert_not_registered")]
        if not weights_are_kept(table[:, 2:], seed):
            text = "BERT is loaded, but then none of its weights is kept: it would start from "
            return [Finding("values", f"{text}random ones", name="bert_not_loaded")]
        findings += frozen_or_not(option, int((table[:, 1] != 0).sum()), len(table))
        findings += own_layers(option, measured)
    findings = list(dict.fromkeys(findings))  # what is wrong with both options is reported once
    if any(finding.name in ("layers_in_list", "no_layers") for finding in findings):
        return findings
    return findings + width_in_code(measured)


def weights_are_kept(rows: Tensor, seed: int) -> bool:
    """Whether any matrix of an encoder is still what was loaded (some may be initialised again)."""
    loaded = [projections(p) for p in tiny_encoder(seed).parameters() if p.dim() > 1]
    finite = [row for row in rows if row.isfinite().all()]
    return any(same_projections(row, expected) for row in finite for expected in loaded)


def frozen_or_not(option: str, training: int, parameters: int) -> list[Finding]:
    """What of BERT trains, against what the option asks for."""
    if option == "pretrain" and training:
        text = f"{training} of {parameters} parameters of BERT train; all are to be frozen"
        return [Finding("options", f"option pretrain: {text}", name="bert_not_frozen")]
    if option == "finetune" and not training:
        text = "option finetune: BERT's parameters are frozen; all are to train"
        return [Finding("options", text, name="bert_always_frozen")]
    if option == "finetune" and training < parameters:
        text = f"only {training} of {parameters} parameters of BERT train; if you meant it"
        return [Finding("hint", f"option finetune: {text}, fine")]
    return []


def own_layers(option: str, measured: Measured) -> list[Finding]:
    """There are layers besides BERT, in the model and to train."""
    own = take(measured, f"{option}/own", None)
    if f"{option}/loose" in measured:
        text = f"layers in a plain list or dict (self.{measured[f'{option}/loose']}) are no part "
        text += (
            "of the model: no optimizer trains them, no checkpoint holds them; use nn.ModuleList"
        )
        return [Finding("layers", text, name="layers_in_list")]
    if not len(own):
        text = "no layer of your own besides BERT; a sentiment needs one (what other functions "
        text += "make is new, and random, at every call)"
        return [Finding("layers", text, name="no_layers")]
    if not own.any():
        text = f"option {option}: your own layers are frozen, so nothing can be learnt"
        return [Finding("layers", text, name="layers_frozen")]
    return []


def width_in_code(measured: Measured) -> list[Finding]:
    """A layer of 768 inputs that the functions written so far find too wide for this BERT."""
    if error := error_of(measured, "predictions"):
        raise Stopped(error)
    widths = take(measured, "finetune/widths", None).tolist()
    for name in map(function_of, PREDICTIONS):
        shapes = MATRICES.search(str(measured.get(f"predictions/{name}", "")))
        if shapes and int(shapes[2]) % 768 == 0 and int(shapes[2]) in widths:
            text = f"a layer takes {shapes[2]} numbers, but config.hidden_size is "
            text += f"{TINY['hidden_size']} here, so {name} gives it {shapes[1]}: "
            text += "is 768 written in the code? Every BERT has its own width"
            return [Finding("layers", text, name="width_in_code")]
    return []
