"""The heads of the lessons on words and answers: loss, gradients and folders of transformers."""

import pytest
import torch
import transformers
from factories import NO_DROPOUT, padded_batch, stir, tiny_config
from running import one_line_error

from base_bert import weight_names
from lessons.entities import NO_LABEL
from lessons.question_answering import QuestionAnswerer, span_loss
from lessons.token_classifier import TokenClassifier, tag_loss

TAGS = ["O", "B-LOC", "I-LOC"]
HEADS = {
    "tags": (TokenClassifier, TAGS, transformers.BertForTokenClassification),
    "spans": (QuestionAnswerer, ("first", "last"), transformers.BertForQuestionAnswering),
}


@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["fp32", "fp64"]
)
@pytest.mark.parametrize("name", HEADS)
def test_loss_and_gradients_are_those_of_transformers(name, dtype, atol, tmp_path):
    """Of the folder that ours wrote, in training without dropout; losses are in float32."""
    kind, labels, theirs = HEADS[name]
    stir(kind(tiny_config(**NO_DROPOUT), labels)).save_pretrained(tmp_path)
    ours = kind.from_pretrained(str(tmp_path)).to(dtype).train()
    theirs = theirs.from_pretrained(tmp_path, attn_implementation="eager").to(dtype).train()
    ids, mask, segments = padded_batch(9, 7, 6, 5)
    if name == "tags":
        targets = torch.arange(36).view(4, 9) % 3
        targets = targets.masked_fill((mask == 0) | (ids % 2 == 0), NO_LABEL)
        logits = (ours(ids, mask),)
        loss = tag_loss(*logits, targets) / (targets != NO_LABEL).sum()
        expected = theirs(ids, attention_mask=mask, labels=targets)
        wanted = (expected.logits,)
    else:
        places = torch.tensor([[4, 6], [0, 0], [2, 2], [3, 3]])
        logits = ours(ids, mask, segments)
        loss = span_loss(*logits, places) / len(places)
        ends = {"start_positions": places[:, 0], "end_positions": places[:, 1]}
        expected = theirs(ids, attention_mask=mask, token_type_ids=segments, **ends)
        wanted = (expected.start_logits, expected.end_logits)
    for mine, other in zip(logits, wanted, strict=True):
        torch.testing.assert_close(mine[mask.bool()], other[mask.bool()], atol=atol, rtol=0)
    torch.testing.assert_close(loss.double(), expected.loss.double(), atol=1e-6, rtol=0)
    loss.backward()
    expected.loss.backward()
    state = {key: p.grad for key, p in theirs.named_parameters()}
    names = [(f"bert.{a}", f"bert.{b}") for a, b in weight_names(2) if not a.startswith("pooler")]
    names += [(f"{kind.HEAD}.{key}", f"head.{key}") for key in ("weight", "bias")]
    assert {hf for hf, _ in names} == state.keys()
    for hf, own in names:  # float64 logits have gone through a loss in float32
        torch.testing.assert_close(ours.get_parameter(own).grad, state[hf], atol=1e-5, rtol=1e-4)
    assert state[f"{kind.HEAD}.weight"].abs().max() > 1e-3


@pytest.mark.parametrize("name", HEADS)
def test_folders_go_through_transformers_and_back(name, tmp_path, capsys):
    """The head is new where labels are given."""
    kind, labels, theirs = HEADS[name]
    ours = kind(tiny_config(), labels).eval()
    ours.save_pretrained(tmp_path / "a")
    theirs.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    again = kind.from_pretrained(str(tmp_path / "b"))
    assert again.labels == list(labels)
    for key, tensor in ours.state_dict().items():
        if "pooler" not in key:  # which theirs lack
            assert torch.equal(again.state_dict()[key], tensor), key
    folder, new = str(tmp_path / "b"), ["a", "b", "c", "d"]
    for other in (kind.from_pretrained(folder, new), kind.from_pretrained(folder, labels=new)):
        assert (len(other.head.weight), other.labels) == (4, new)
        assert not hasattr(other.config, "labels")
    assert "the head of 4 outputs is new" in capsys.readouterr().out


def test_outputs_without_names(tmp_path):
    """As transformers saves two: tags need their names, the ends of answers do not."""
    for kind, _, theirs in HEADS.values():
        config = transformers.BertConfig(**vars(tiny_config()))
        theirs(config).save_pretrained(tmp_path / kind.HEAD)
    QuestionAnswerer.from_pretrained(tmp_path / "qa_outputs")
    with one_line_error("has the label 'LABEL_0' (id2label)"):
        TokenClassifier.from_pretrained(tmp_path / "classifier")
