"""lessons/playground.py: the page computes what torch computes, and a person can use it."""

import base64
import copy
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch
from factories import (
    ODD_TEXTS,
    ODD_WORDS,
    copy_tree,
    save_classifier_folder,
    save_sentiment_checkpoint,
    save_tiny_model,
    save_word_model,
    tiny_vocabulary,
)
from running import as_process, succeeded

import tokenizer
from lessons import playground
from lessons.attention_maps import attention_maps
from tokenizer import SPECIAL_TOKENS, BertTokenizer

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="no node on PATH: the page's JavaScript is not compared; install nodejs"
)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return playground.load(str(save_word_model(tmp_path_factory.mktemp("words"))))


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    save_classifier_folder(folder, spread=0.2)
    return playground.load(str(folder))


def in_node(tmp_path, files, expression, given):
    """What JavaScript makes of an expression after the page's files, with ``given`` in sight."""
    code = "const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n"
    code += f"process.stdout.write(JSON.stringify({expression}));"
    script = tmp_path / "script.js"
    script.write_text(f"{playground.scripts(*files)}\n{code}", encoding="utf-8")
    done = subprocess.run(
        [NODE, script], input=json.dumps(given), capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rounded(loaded):
    """The same model with the rounded weights of the page."""
    small = copy.deepcopy(loaded)
    for tensor in small.tensors.values():
        if tensor.ndim == 2:
            values, scale = playground.quantize_rows(tensor.numpy())
            tensor.copy_(torch.from_numpy(values * scale[:, None]))
    return small


@torch.no_grad()
def word_logits(loaded, ids, mask):
    """Logits of the words at every position: (1, L), (1, L) → (L, V)."""
    return loaded.masked(ids, mask, positions=torch.arange(ids.size(1)))[0]


@torch.no_grad()
def class_logits(loaded, ids, mask):
    """Logits of the classes: (1, L), (1, L) → (1, K)."""
    return loaded.head(loaded.bert(ids, mask)["pooler_output"])


FORWARD = """(() => {
  const bytes = new Uint8Array(Buffer.from(given.weights, "base64"));
  const bert = new Bert(unpack(bytes.buffer, given.table), given.config);
  const trace = bert.forward(given.ids, given.real, []);
  const list = tensor => Array.from(tensor.data);
  return {
    maps: trace.layers.map(layer => list(layer.probabilities)),
    words: given.words &&
      list(bert.maskedWords(trace.layers.at(-1).output, given.ids.map((_, i) => i))),
    classes: given.words || list(bert.classify(trace.pooler.output)),
  };
})()"""


def close(found, wanted):
    np.testing.assert_allclose(np.array(found).reshape(wanted.shape), wanted, atol=1e-4, rtol=0)


@needs_node
@pytest.mark.parametrize(("name", "padding"), [("words", 3), ("classes", 0)])
def test_the_forward_pass_is_torch_s(request, tmp_path, name, padding):
    loaded = request.getfixturevalue(name)
    small = rounded(loaded)
    ids = loaded.tokenizer("a sea of words")["input_ids"]
    assert len(ids) % 4  # rows left over by the blocks of four
    real = [1] * len(ids) + [0] * padding
    ids = ids + [0] * padding
    content, table = playground.pack(loaded.tensors)
    given = {"weights": base64.b64encode(content).decode(), "table": table}
    given |= {"config": vars(loaded.bert.config)}
    given |= {"ids": ids, "real": real, "words": name == "words"}
    found = in_node(tmp_path, ["bert"], FORWARD, given)
    batch, mask = torch.tensor([ids]), torch.tensor([real])
    maps = attention_maps(small.bert, batch, mask)[:, 0]
    close(found["maps"], maps.numpy())
    assert maps.max() > 0.2  # uneven enough for the comparison to mean something
    logits = word_logits if name == "words" else class_logits
    close(found[name], logits(small, batch, mask).numpy())


@needs_node
@pytest.mark.parametrize("lower", [True, False])
def test_the_tokenizer_s_ids_are_ours(tmp_path, lower):
    words = [*ODD_WORDS, "A", "Á", "##é", *tiny_vocabulary()]
    pieces = list(dict.fromkeys([*SPECIAL_TOKENS, *words]))
    ours = BertTokenizer(pieces, lower)
    ids = "text => new Tokenizer(given.pieces, given.lower, given.unicode).ids(text)"
    unicode = {"letters": tokenizer.ADDED_LATER, "moved": tokenizer.MOVED}
    given = {"pieces": pieces, "lower": lower, "unicode": unicode, "texts": ODD_TEXTS}
    found = in_node(tmp_path, ["tokenizer"], f"given.texts.map({ids})", given)
    assert found == [ours.text_to_ids(text) for text in ODD_TEXTS]


def read_page(path) -> tuple[str, dict]:
    """A page, and what its script reads."""
    page = path.read_text(encoding="utf-8")
    return page, json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_of_a_checkpoint_holds_everything_and_fetches_nothing(run_script_here, tmp_path):
    base = save_tiny_model(tmp_path / "base")
    save_sentiment_checkpoint(tmp_path / "mine.pt", base, ["1", "warm"])
    line = ("--model", "mine.pt", "--out", "mine.html")
    assert "it has classes" in succeeded(run_script_here(playground, *line)).out
    text, data = read_page(tmp_path / "mine.html")
    assert data["labels"] == ["1", "warm"]
    assert data["sentences"][0] == "Funny, warm and beautifully acted."
    text = text.replace('src="data:image/svg+xml;base64,', "", 1)  # the figure of the grammar view
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|src=|@import|url\(", text)
    assert "default-src 'none'" in text


def test_a_student_s_page_marks_lines_of_what_is_right(tmp_path):
    file = copy_tree(tmp_path / "mine") / "bert.py"
    text, line = file.read_text(encoding="utf-8"), "return ln_layer("
    file.write_text(text.replace(line, f"input = 2 * input  # mine\n        {line}"), "utf-8")
    command = ("-m", "lessons.playground", "--model", save_word_model(tmp_path / "words"))
    done = succeeded(as_process(*command, "--out", tmp_path / "page.html", folder=file.parent))
    assert "Task 1.2 · BertLayer.add_norm does not pass its check" in done.out
    page, data = read_page(tmp_path / "page.html")
    assert 'class="warn">The page computes in its own JavaScript' in page
    code = data["code"]
    (mine,) = (one for one in code["add_norm"]["lines"] if "mine" in one["text"])
    assert (mine["here"], code["add_norm"]["isRight"]) == (False, False)
    assert code["embeddings"]["isRight"]
    shown = [one["text"].strip() for one in code["embeddings"]["lines"] if one["here"]]
    assert "words = self.word_embedding(input_ids)  # (B, L, D)" in shown


HIDES = """
  const pieces = () => Array.from(document.querySelectorAll("#pieces button"));
  const words = () => Array.from(document.querySelectorAll("#places button.name"));
  const said = buttons => buttons.map(button => button.textContent);
  const hidden = count => until(() => shown && !busy && shown.words.length === count);
  await until(() => shown && !busy);
  const text = document.getElementById("text");
  text.value = "the old captain";
  text.dispatchEvent(new Event("input"));
  await until(() => !busy);
  const made = [said(pieces())];
  pieces()[3].click();
  await hidden(1);
  made.push(said(pieces()), said(words()));
  words()[0].click();
  await hidden(0);
  return [...made, said(pieces())];
"""


def test_one_can_hide_a_word_and_put_another_in(in_browser, words):
    before, hidden, best, after = in_browser(playground.page(words, "a <b>model</b>"), HIDES)
    assert before == ["[CLS]", "the", "old", "captain", "[SEP]"]
    assert hidden == [*before[:3], "[MASK]", "[SEP]"]
    ids = torch.tensor([words.tokenizer("the old [MASK]")["input_ids"]])
    wanted = word_logits(rounded(words), ids, torch.ones_like(ids))[3].topk(10).indices
    assert best == words.tokenizer.convert_ids_to_tokens(wanted.tolist())
    assert after == [*before[:3], best[0], "[SEP]"]
