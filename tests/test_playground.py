"""lessons/playground.py: the page computes what torch computes, and a person can use it."""

import base64
import copy
import json
import re
import shutil
import subprocess
import unicodedata

import numpy as np
import pytest
import torch
from factories import (
    ROOT,
    save_classifier_folder,
    save_sentiment_checkpoint,
    save_tiny_model,
    stir,
    tiny_config,
    tiny_vocabulary,
    write_table,
)
from running import as_process, assert_refused, succeeded
from test_tokenizer import TEXTS, WORDS

import tokenizer
from course import handout
from course.handout_repository import write_files
from lessons import grammar, playground
from lessons.attention_maps import attention_maps
from pretraining.model import PretrainingModel
from tokenizer import SPECIAL_TOKENS, BertTokenizer
from training.loop.checkpoints import load_checkpoint, save_checkpoint

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="no node on PATH: the page's JavaScript is not compared; install nodejs"
)


def save_word_model(folder, **shape):
    """A random model with a head for masked words."""
    vocabulary = [*tiny_vocabulary(), *"the captain looked at sea old and smiled".split()]
    torch.manual_seed(4)
    config = tiny_config(vocab_size=len(vocabulary), max_position_embeddings=40, **shape)
    stir(PretrainingModel(config), 0.2).save_pretrained(folder)
    BertTokenizer(vocabulary).save_pretrained(folder)
    return folder


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
def word_logits(loaded, ids):
    """Logits of the words at every position: (1, L) → (L, V)."""
    return loaded.masked(ids, torch.ones_like(ids))[0]


@torch.no_grad()
def class_logits(loaded, ids):
    """Logits of the classes: (1, L) → (1, K)."""
    return loaded.head(loaded.bert(ids, torch.ones_like(ids))["pooler_output"])


FORWARD = """(() => {
  const bytes = new Uint8Array(Buffer.from(given.weights, "base64"));
  const bert = new Bert(unpack(bytes.buffer, given.table), given.config);
  const trace = bert.forward(given.ids, given.real, given.off);
  const list = tensor => Array.from(tensor.data);
  return {
    hidden: trace.layers.map(layer => list(layer.output)),
    maps: trace.layers.map(layer => list(layer.probabilities)),
    pooled: list(trace.pooler.output),
    words: given.words &&
      list(bert.maskedWords(trace.layers.at(-1).output, given.ids.map((_, i) => i))),
    classes: given.classes && list(bert.classify(trace.pooler.output)),
  };
})()"""


def packed(loaded):
    """What bert.js is made from."""
    content, table = playground.pack(loaded.tensors)
    weights = base64.b64encode(content).decode()
    return {"weights": weights, "table": table, "config": loaded.bert.config.to_dict()}


def forward(tmp_path, loaded, ids, real=None, off=()):
    """All that bert.js computes for one sentence."""
    given = packed(loaded) | {
        "ids": ids,
        "real": real or [1] * len(ids),
        "off": list(off),
        "words": loaded.masked is not None,
        "classes": len(loaded.labels),
    }
    return in_node(tmp_path, ["bert"], FORWARD, given)


def close(found, wanted):
    wanted = wanted.detach().numpy()
    np.testing.assert_allclose(np.array(found).reshape(wanted.shape), wanted, atol=1e-4, rtol=0)


@needs_node
@pytest.mark.parametrize("name", ["words", "classes"])
@pytest.mark.parametrize("padding", [0, 3])
def test_the_forward_pass_is_torch_s(request, tmp_path, name, padding):
    loaded = request.getfixturevalue(name)
    small = rounded(loaded)
    ids = loaded.tokenizer("a sea of words")["input_ids"]
    assert len(ids) % 4  # rows left over by the blocks of four
    real = [1] * len(ids) + [0] * padding
    found = forward(tmp_path, loaded, ids + [0] * padding, real)
    batch, mask = torch.tensor([ids + [0] * padding]), torch.tensor([real])
    maps = attention_maps(small.bert, batch, mask)[:, 0]
    close(found["maps"], maps)
    assert maps.max() > 0.2  # uneven enough for the comparison to mean something
    with torch.no_grad():
        encoded = small.bert(batch, mask)
    close(found["hidden"][-1], encoded["last_hidden_state"][0])
    close(found["pooled"], encoded["pooler_output"])
    if padding:
        return  # the heads take no mask
    if loaded.masked:
        close(found["words"], word_logits(small, batch))
    if loaded.labels:
        close(found["classes"], class_logits(small, batch))


IDS = "given.texts.map(text => new Tokenizer(given.pieces, given.lower, given.unicode).ids(text))"
UNICODE = {"letters": tokenizer.ADDED_LATER, "moved": tokenizer.MOVED}


@needs_node
@pytest.mark.parametrize("lower", [True, False])
def test_the_tokenizer_s_ids_are_ours(tmp_path, lower):
    pieces = list(dict.fromkeys([*SPECIAL_TOKENS, *WORDS, *tiny_vocabulary(), "A", "Á", "##é"]))
    tokenizer = BertTokenizer(pieces, lower)
    given = {"pieces": pieces, "lower": lower, "unicode": UNICODE, "texts": TEXTS}
    found = in_node(tmp_path, ["tokenizer"], IDS, given)
    assert found == [tokenizer.text_to_ids(text) for text in TEXTS]
    assert len({tuple(ids) for ids in found}) > len(TEXTS) / 2


@needs_node
def test_every_character_falls_into_words_as_ours(tmp_path):
    """All of the first two planes that this Python knows."""
    known = [c for c in map(chr, range(0x20000)) if unicodedata.category(c) not in ("Cn", "Cs")]
    expression = """given.texts.map(text => {
      const tokenizer = new Tokenizer([], true, given.unicode);
      return tokenizer.splitAtPunctuation(tokenizer.normalise(text)).join(" ");
    })"""
    for start in range(0, len(known), 40_000):
        texts = [f"a{c}B" for c in known[start : start + 40_000]]
        given = {"texts": texts, "unicode": UNICODE}
        found = in_node(tmp_path, ["tokenizer"], expression, given)
        wanted = [
            " ".join(tokenizer.split_at_punctuation(tokenizer.normalise(text))) for text in texts
        ]
        assert [(t, f) for t, f, w in zip(texts, found, wanted, strict=True) if f != w] == []


IN_TURN = """(() => {
  const bytes = new Uint8Array(Buffer.from(given.weights, "base64"));
  bert = new Bert(unpack(bytes.buffer, given.table), given.config);
  return given.ids.slice(1, -1).map((id, i) => {
    const hidden = given.ids.map((other, place) => place === i + 1 ? given.mask : other);
    return Math.log(wordsAt(bert.forward(hidden), [i + 1])[0][id]);
  });
})()"""


@needs_node
def test_a_sentence_has_the_score_of_the_grammar_exam(tmp_path, words):
    ids = tuple(words.tokenizer("the old captain looked at the sea")["input_ids"])
    mask = words.tokenizer.mask_token_id
    given = packed(words) | {"ids": ids, "mask": mask}
    logs = in_node(tmp_path, ["bert", "worker"], IN_TURN, given)
    with torch.no_grad():
        expected = grammar.log_probabilities(rounded(words).masked, torch.tensor([ids]), mask)
    np.testing.assert_allclose(logs, expected[0], atol=1e-4)
    scores = grammar.sentence_scores(rounded(words).masked, [ids], mask)
    assert sum(logs) == pytest.approx(scores[ids], abs=1e-3)
    assert np.ptp(logs) > 0.5


@needs_node
@pytest.mark.parametrize(
    ("first", "second", "rows"),
    [
        ("a b c", "a b x c", "a-a b-b /x c-c"),
        ("a b", "b a", "a/b b/a"),
        ("a b c d", "x", "a/x b/ c/ d/"),
    ],
)
def test_which_tokens_stand_side_by_side(tmp_path, first, second, rows):
    """What both begin and end with, joined by -, and the rest in order, by /."""
    both = [first.split(), second.split()]
    expression = "aligned(...given.both)"
    aligned = in_node(tmp_path, ["grammar"], expression, {"both": both})
    shown = [
        ("-" if row["same"] else "/").join(
            "" if place < 0 else names[place]
            for names, place in zip(both, row["pair"], strict=True)
        )
        for row in aligned
    ]
    assert " ".join(shown) == rows


def test_the_page_holds_everything_and_fetches_nothing(run_script_here, tmp_path):
    folder = save_word_model(tmp_path / "words")
    succeeded(run_script_here(playground, "--model", folder))
    text = (tmp_path / "playground.html").read_text(encoding="utf-8")
    text = text.replace('src="data:image/svg+xml;base64,', "", 1)  # the figure of the grammar view
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|src=|@import|url\(", text)
    assert "default-src 'none'" in text


def test_a_checkpoint_with_points(run_script_here, tmp_path):
    base = save_tiny_model(tmp_path / "base", hidden_size=32)
    checkpoint = save_sentiment_checkpoint(tmp_path / "mine.pt", base, labels=2, dropout=0.1)
    saved = load_checkpoint(checkpoint)
    saved["config"]["labels"] = ["dull", "warm"]
    save_checkpoint(checkpoint, saved)
    rows = [("0" * 25, "a film", 0), ("1" * 25, "a dull film", 1), ("2" * 25, "warm", 1)]
    dev = write_table(tmp_path / "dev.csv", "id sentence sentiment", rows)
    line = ("--model", checkpoint, "--dev", dev, "--out", "mine.html")
    done = succeeded(run_script_here(playground, *line))
    assert "it has classes" in done.out
    text = (tmp_path / "mine.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["labels"] == ["dull", "warm"]
    assert data["sentences"][0] == "Funny, warm and beautifully acted."
    assert data["points"]["classes"] == [0, 1, 1]
    loaded = playground.load(str(checkpoint))
    ids = torch.tensor([loaded.tokenizer("a dull film")["input_ids"]])
    with torch.no_grad():
        vector = loaded.bert(ids, torch.ones_like(ids))["last_hidden_state"][0, 0].numpy()
    own = np.array(data["points"]["directions"]) @ (vector - np.array(data["points"]["mean"]))
    np.testing.assert_allclose(own, data["points"]["after"][1], atol=2e-4)
    assert np.abs(np.array(data["points"]["after"]) - data["points"]["before"]).max() > 1e-3


def test_bad_input_is_one_line(run_script_here, tmp_path):
    plain = save_tiny_model(tmp_path / "plain")
    for flags, fact in (
        (["--model", plain, "--dev", "x.csv"], "this model has none"),
        (["--model", tmp_path / "no.pt"], "no checkpoint at"),
    ):
        assert_refused(run_script_here(playground, *flags), fact, code=1)
    assert not (tmp_path / "playground.html").exists()


PIECE = "document.querySelectorAll('#pieces button')[{}]"
STILL = "shown && !busy"


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens the page of a model."""

    def open_page(loaded, labels=()):
        file = tmp_path / "page.html"
        file.write_text(playground.page(loaded, "a <b>model</b>", labels, None), encoding="utf-8")
        browser.open(file)
        browser.wait(STILL)
        return browser

    yield open_page
    assert browser.complaints() == []


def write(browser, text):
    """Replace the sentence, as one types."""
    browser.click("document.getElementById('text')")
    browser.eval("document.getElementById('text').select()")
    browser.type(text)
    browser.wait(STILL)


def pieces_of(browser):
    return browser.eval(
        "Array.from(document.querySelectorAll('#pieces button'), b => b.textContent)"
    )


def test_typing_masking_and_putting_in(opened, words):
    browser = opened(words)
    write(browser, "the old captain")
    assert pieces_of(browser) == ["[CLS]", "the", "old", "captain", "[SEP]"]
    browser.click(PIECE.format(3))
    browser.wait(f"{STILL} && shown.words.length === 1")
    assert pieces_of(browser)[3] == "[MASK]"
    found = browser.eval(
        "Array.from(document.querySelectorAll('#places button.name'), b => b.textContent)"
    )
    ids = torch.tensor([words.tokenizer("the old [MASK]")["input_ids"]])
    best = word_logits(rounded(words), ids)[3].topk(10).indices
    assert found == words.tokenizer.convert_ids_to_tokens(best.tolist())
    browser.click(PIECE.format(1))
    browser.wait(f"{STILL} && shown.words.length === 2")
    browser.click("document.querySelectorAll('#places button.name')[0]")
    browser.wait(f"{STILL} && shown.words.length === 1")
    assert pieces_of(browser)[1] != "[MASK]"


def test_an_example_hides_a_word_that_the_page_knows(opened, words):
    browser = opened(words)
    assert browser.eval("document.getElementById('text').value").startswith("She opened the door")
    first, count = (len(words.tokenizer.tokenize(text)) for text in ("She opened the", "door"))
    masked = [i for i, piece in enumerate(pieces_of(browser), -1) if piece == "[MASK]"]
    assert masked == list(range(first, first + count))  # counted behind [CLS]
    tracks = browser.eval(
        "Array.from(document.querySelectorAll('#places .card:first-child .track'),"
        " t => [t.children.length,"
        " t.firstChild.offsetWidth / t.offsetWidth])"
    )
    best = browser.eval("Array.from(shown.words[0]).sort((a, b) => b - a).slice(0, 10)")
    assert [marks for marks, _ in tracks] == [1] * 10  # a bar, and nothing from an answer before it
    np.testing.assert_allclose(
        [width for _, width in tracks], best, atol=0.01
    )  # the track is 100 %


def table_of(browser):
    return browser.eval(
        "Array.from(document.querySelectorAll('.pair tr'), row =>"
        " Array.from(row.children, cell => cell.textContent))"
    )


def test_two_sentences_are_compared_token_by_token(opened, words):
    browser = opened(words)
    write(browser, "the old captain smiled")
    browser.click("document.getElementById('tab-grammar')")
    browser.click("document.getElementById('partner')")
    browser.type("the old sea smiled")
    browser.click("document.getElementById('compare')")
    browser.wait("document.getElementById('winner')")
    texts = ("the old captain smiled", "the old sea smiled")
    ids = [tuple(words.tokenizer(text)["input_ids"]) for text in texts]
    mask = words.tokenizer.mask_token_id
    scores = grammar.sentence_scores(rounded(words).masked, ids, mask)
    rows = table_of(browser)
    first, second = (float(rows[-1][column].replace("−", "-")) for column in (1, 3))
    assert [first, second] == pytest.approx([scores[sentence] for sentence in ids], abs=0.01)
    assert [row[0] for row in rows[1:-1]] == texts[0].split()
    assert [row[2] for row in rows[1:-1]] == texts[1].split()
    differ = browser.eval(
        "Array.from(document.querySelectorAll('.differs td'), c => c.textContent)"
    )
    assert differ[::2][:2] == ["captain", "sea"]
    preferred = "the sentence above" if first > second else "the other sentence"
    assert preferred in browser.eval("document.getElementById('winner').textContent")


def test_a_classifier_follows_the_typing(opened, classes):
    browser = opened(classes, ["bad <i>", "good"])
    write(browser, "A Warm film")
    assert browser.eval("document.querySelector('#probabilities .name').textContent") == "bad <i>"
    ids = torch.tensor([classes.tokenizer("a warm film")["input_ids"]])
    wanted = class_logits(rounded(classes), ids).softmax(dim=-1)[0]
    np.testing.assert_allclose(browser.eval("Array.from(shown.classes)"), wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("is_solved", "line", "own", "is_right"),
    [
        (False, 'raise NotImplementedError("Task 1.2', "mine = ln_layer  # mine", False),
        (True, "return ln_layer(", "input = 2 * input  # ln_layer, mine", False),
        (True, "return ln_layer(", "mine = ln_layer  # mine", True),
    ],
)
def test_a_student_s_page_marks_lines_of_what_is_right(tmp_path, is_solved, line, own, is_right):
    write_files(tmp_path / "mine", handout.build(ROOT, "1").files)
    file = tmp_path / "mine" / "bert.py"
    text = ((ROOT / "bert.py") if is_solved else file).read_text(encoding="utf-8")
    assert text.count(line) == 1
    file.write_text(text.replace(line, f"{own}\n        {line}"), "utf-8")
    model = save_word_model(tmp_path / "words")
    line = ("-m", "lessons.playground", "--model", model, "--out", tmp_path / "page.html")
    done = as_process(*line, folder=tmp_path / "mine")
    assert done.code == 0, done.err
    title = "Task 1.2 · BertLayer.add_norm"
    assert (f"{title} does not pass its check" in done.out) == (not is_right)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    code = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["code"]
    (mine,) = (one for one in code["add_norm"]["lines"] if "mine" in one["text"])
    assert mine["here"] == code["add_norm"]["isRight"] == is_right
    assert code["embeddings"]["isRight"] == any(one["here"] for one in code["embeddings"]["lines"])
    assert code["embeddings"]["isRight"] == is_solved
    assert ('class="warn">The page computes in its own JavaScript' in page) == (not is_right)
