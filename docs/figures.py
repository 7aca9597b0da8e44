"""Draw the figures of the texts: from real tensors of real sentences, as SVG.

    python docs/figures.py            draw all of docs/figures/

The model is MiniLM (all-MiniLM-L6-v2), run by our BertModel; drawing.py has the pen. Shapes:
L tokens, D hidden size, H heads, W = D / H.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import Tensor, nn

from bert import BertModel
from docs import modern_figures
from docs.drawing import Drawing, side_by_side, svg_of
from lessons.attention_maps import attention_maps
from optimizer import AdamW
from pretraining.masking import mask_tokens
from tokenizer import BertTokenizer
from training.cli.flags import OneLineParser
from training.cli.scripts import run_script
from training.files.course_files import OFFLINE_NAME
from training.files.writing import write_whole
from training.loop.encoder_outputs import outputs_of

FOLDER = Path(__file__).resolve().parent / "figures"
MESS = "A slow, unwatchable mess."
SEA, SHIP = "The captain looked at the sea.", "The ship sailed."
STORM, BREAD = "A storm was coming.", "The bread needs salt."
TUNING, TUNED = "A man is tuning a violin.", "A violin is being tuned by a man."
NEXT_TOKEN = 1, 8  # layer and head, from 0: here a token looks at the one after it
SAME_WORD = 2, 9  # and here at the same word in the other sentence

# ---------------------------------------------------------------------------------------------
# The model, and what it makes of sentences


@functools.cache
def pretrained() -> tuple[BertModel, BertTokenizer]:
    """MiniLM and its tokenizer."""
    bert = BertModel.from_pretrained(OFFLINE_NAME).requires_grad_(False)  # in eval mode
    return bert, BertTokenizer.from_pretrained(OFFLINE_NAME)


def encoded(*texts: str, second: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and segments of a padded batch, (B, L) each."""
    pairs = [] if second is None else [[second]]
    made = pretrained()[1](list(texts), *pairs, padding=True, return_tensors="pt")
    return made["input_ids"], made["attention_mask"], made["token_type_ids"]


def tokens_of(ids: Tensor) -> list[str]:
    """The tokens of one row of ids."""
    return pretrained()[1].convert_ids_to_tokens(ids.tolist())


def output_of(module: nn.Module, *texts: str) -> Tensor:
    """The output of a module of the model for the first of these texts: (L, …)."""
    with outputs_of(module) as outputs:
        pretrained()[0](*encoded(*texts))
    return outputs[0][0]


def weights_of(place: tuple[int, int], *texts: str, second: str | None = None) -> Tensor:
    """The attention weights of the first text's tokens in one head, (L, L)."""
    layer, head = place
    return attention_maps(pretrained()[0], *encoded(*texts, second=second))[layer, 0, head]


# ---------------------------------------------------------------------------------------------
# The figures


def model(d: Drawing) -> None:
    """The model at a glance.

    A sentence is cut into tokens, and each token becomes a vector. In every layer the tokens look
    at each other, then each is worked on alone. The vector of [CLS] gives the class.
    """
    bert, ids = pretrained()[0], encoded(MESS)[0][0]
    chips = side_by_side(tokens_of(ids))
    d.text(320, 42, MESS, "big bold")
    d.arrow(320, 54, 320, 80)
    d.text(334, 73, "tokenizer", "start quiet")
    for chip in chips:
        d.chip(chip, 86, "quiet" if chip[0] in ("[CLS]", "[SEP]") else "blue")
    d.text(24, 150, "embeddings: a vector for each token", "start bold")
    d.strips(chips, 164, output_of(bert.embed_layer_norm, MESS), 1.0)
    for back in (14, 7, 0):  # further layers behind the first one
        place = 16 + back, 266 - back, 608 - 2 * back, 252
        d.box(*place, "card full")
        d.box(*place, "blue")
    d.text(32, 296, "attention between tokens", "start bold")
    d.text(608, 296, f"{len(bert.bert_layers)} layers; bert-base has 12", "end blue bold")
    for (_, looks), row in zip(chips, weights_of(NEXT_TOKEN, MESS).tolist(), strict=True):
        for (_, seen), share in zip(chips, row, strict=True):
            d.line([(seen, 308), (looks, 388)], "blue thick", f' opacity="{share:.2f}"')
        d.box(looks - 13, 450, 26, 28, "orange strong")
        d.arrow(looks, 478, looks, 492)
    d.text(32, 436, "feed-forward: each token alone", "start bold")
    d.text(608, 436, "add & norm after both", "end quiet")
    for y in (396, 496):
        d.box(32, y, 576, 6, "quiet strong")
    d.text(24, 550, "vectors that know the whole sentence", "start bold")
    d.strips(chips, 564, output_of(bert.bert_layers[-1], MESS), 1.0)
    d.arrow(chips[0][1], 640, chips[0][1], 664)
    d.box(24, 668, 84, 36, "green", "pooler")
    d.arrow(108, 686, 132, 686)
    d.box(136, 668, 108, 36, "green", "classifier")
    d.arrow(244, 686, 270, 686)
    for i in range(5):
        d.box(276 + 68 * i, 668, 62, 36, "purple", str(i))
    d.text(276, 732, "negative", "start quiet")
    d.text(610, 732, "positive", "end quiet")


def embeddings(d: Drawing) -> None:
    """The three embeddings.

    For each token the vectors of its word, position and segment are added and normalised. The two
    tokens "the" have the same word vector, but not the same sum.
    """
    bert, ids = pretrained()[0], encoded(SEA)[0][0]
    chips, length = side_by_side(tokens_of(ids)), len(ids)
    rows = {
        "word: what the token is": bert.word_embedding.weight[ids],
        "+ position: where it is": bert.pos_embedding.weight[:length],
        "+ segment: which sentence it is in": bert.tk_type_embedding.weight[[0] * length],
        "= sum, normalised": output_of(bert.embed_layer_norm, SEA),
    }
    for chip in chips:
        d.chip(chip, 20, "green" if chip[0] == "the" else "quiet")
    for y, (words, vectors) in zip((92, 210, 328, 462), rows.items(), strict=True):
        d.text(24, y, words, "start bold")
        d.strips(chips, y + 16, vectors, 1.0 if y == 462 else 0.1)
    for y, words in ((92, "twice the same"), (462, "no longer the same")):
        d.text(616, y, words, "end green bold")
        for _, middle in (chip for chip in chips if chip[0] == "the"):
            d.box(middle - 18, y + 11, 36, 80, "green frame")
    d.line([(24, 432), (616, 432)], "")
    d.text(616, 580, f"7 of {bert.config.hidden_size} numbers of each vector", "end quiet")


def projections(d: Drawing) -> None:
    """Queries, keys and values.

    Three linear layers make three matrices of the same hidden states, and each is cut into heads.
    """
    layer, head = NEXT_TOKEN
    bert = pretrained()[0]
    attention, count = bert.bert_layers[layer].self_attention, bert.config.num_attention_heads
    d.text(320, 34, "hidden states: a row for each token", "bold")
    d.rows(tokens_of(encoded(SEA)[0][0]), 200, 50, 18)
    d.heat(200, 50, output_of(bert.bert_layers[layer - 1], SEA)[:, ::16], 10, 18, 1.5)
    d.text(454, 126, f"D = {bert.config.hidden_size}", "start")
    d.text(454, 150, "(B, L, D)", "start quiet")
    for i, name in enumerate(("query", "key", "value")):
        left = 28 + 202 * i
        d.arrow(320 + 60 * (i - 1), 218, left + 90, 254)
        d.box(left + 20, 258, 140, 34, "green", f"{name}: D → D")
        d.arrow(left + 90, 292, left + 90, 316)
        matrix = output_of(getattr(attention, name), SEA)[:, ::16].split(24 // count, 1)
        for j, part in enumerate(matrix):  # (L, W), of which two numbers are shown
            d.heat(left + 15.4 * j, 324, part, 6, 13, 3.0)
        d.box(left + 15.4 * head - 3, 320, 17, 124, "purple frame")
    wide = attention.attention_head_size
    d.text(320, 480, f"each in H = {count} heads of width W = {wide}", "bold")
    d.text(320, 508, "(B, H, L, W), one head framed", "quiet")


def attention(d: Drawing) -> None:
    """Attention in four steps.

    A score for each pair of tokens; the mask makes those of padding hugely negative; softmax makes
    weights of each row, with nothing for padding; the values are summed with these weights.
    """
    layer, head = NEXT_TOKEN
    tokens = tokens_of(encoded(SHIP, SEA)[0][0])  # padded to the longer sentence
    module = pretrained()[0].bert_layers[layer].self_attention
    query, key, value = (
        output_of(part, SHIP, SEA).unflatten(-1, (module.num_attention_heads, -1))[:, head]
        for part in (module.query, module.key, module.value)
    )  # (L, W) each
    scores, weights = query @ key.mT / value.size(1) ** 0.5, weights_of(NEXT_TOKEN, SHIP, SEA)
    real = tokens.index("[PAD]")
    for x, name, seen in ((84, "1 scores Q Kᵀ / √W", scores), (394, "2 + mask", scores[:, :real])):
        d.text(x, 30, name, "start bold")
        d.heat(x, 112, seen, 24, 24, 8.0)
        for j, token in enumerate(tokens):
            d.text(x + 24 * j + 18, 104, token, "start quiet", -90)
    d.box(394 + 24 * real, 111, 24 * (len(tokens) - real), 217, "ink full")
    d.text(592, 220, "hugely negative", "card bold", -90)
    for y in (112, 408):
        d.rows(tokens, 84, y, 24)
    d.text(84, 392, "3 softmax: weights", "start bold")
    d.heat(84, 408, weights, 24, 24, 1.0)
    d.text(84, 652, "each row sums to 1", "start quiet")
    d.text(394, 392, "4 weights × V: context", "start bold")
    d.heat(394, 408, weights @ value, 216 / value.size(1), 24, 1.2)
    d.text(394, 652, f"W = {value.size(1)} for each token", "start quiet")


def heads(d: Drawing) -> None:
    """Heads apart and together.

    Apart, each head has its part of every token. Side by side again, a row holds all heads of one
    token. Merged carelessly, the shape is right, but a row holds one head of all tokens.
    """
    tokens = tokens_of(encoded(SEA)[0][0])[:4]
    colours = ("blue", "orange", "green", "purple")
    d.text(24, 34, "apart: (B, H, L, W)", "start bold")
    d.text(616, 34, "4 of 12 heads, 4 of 9 tokens", "end quiet")
    d.text(24, 250, "together: (B, L, D), a row is a token", "start bold")
    d.text(24, 424, "the same shape, but a row is a head", "start bold")
    for head, colour in enumerate(colours):
        d.text(94 + 150 * head, 66, f"head {head + 1}", f"bold {colour}")
        for row, token in enumerate(tokens):
            d.box(44 + 150 * head, 78 + 32 * row, 100, 28, colour, token)
            d.box(24 + 138 * head, 264 + 32 * row, 134, 28, colour, token)
            d.box(24 + 138 * row, 438 + 32 * head, 134, 28, colour, token)
        d.text(598, 285 + 32 * head, "✓", "big green")
        d.text(598, 459 + 32 * head, "✗", "big orange")


def add_norm(d: Drawing) -> None:
    """What LayerNorm does to each token.

    In the sum the tokens' numbers spread differently. After the norm each token has mean 0 and
    standard deviation 1. Then learned numbers scale and shift them.
    """
    bert, tokens = pretrained()[0], tokens_of(encoded(SEA)[0][0])
    dense, norm = bert.bert_layers[0].attention_dense, bert.bert_layers[0].attention_layer_norm
    total = output_of(bert.embed_layer_norm, SEA) + output_of(dense, SEA)  # (L, D)
    plain = nn.functional.layer_norm(total, total.shape[-1:])  # (L, D)
    stages = (
        ("x + Dense(s)", "the sum", "orange", total),
        ("LayerNorm", "mean 0, sd 1", "blue", plain),
        ("scale, shift", "both learned", "green", output_of(norm, SEA)),
    )
    at = torch.linspace(-2.6, 2.6, 53)
    for i, (first, second, colour, rows) in enumerate(stages):
        left = 92 + 182 * i
        d.text(left + 70, 34, first, "bold")
        d.text(left + 70, 58, second, "quiet")
        for j, row in enumerate(rows):
            base, spread = 132 + 44 * j, float(row.std(correction=0))
            width = 0.9 * spread * len(row) ** -0.2  # of each kernel, by Silverman's rule
            density = torch.exp(-0.5 * ((at[:, None] - row) / width) ** 2).mean(1) / width  # (53,)
            d.curve(left + 60 + 23 * at, base - 13 * density, f"{colour} area")
            d.text(left + 168, base - 7, f"{spread:.2f}", "end quiet")
    d.rows(tokens, 92, 104, 44)
    d.text(616, 520, "right of each curve: its standard deviation (sd)", "end quiet")


def gelu(d: Drawing) -> None:
    """GELU and ReLU.

    GELU follows ReLU far from 0; it is smooth, and slightly negative below 0, where most inputs of
    the feed-forward networks are.
    """
    layers = pretrained()[0].bert_layers
    inputs = torch.cat([output_of(layer.interm_dense, SEA).flatten() for layer in layers])
    for x in range(-4, 4):
        d.text(340 + 78 * x, 298, str(x).replace("-", "−"), "quiet")
        if x > 0:
            d.text(330, 276 - 78 * x, str(x), "end quiet")
    d.line([(28, 270), (613, 270)], "")
    d.line([(340, 24), (340, 278)], "")
    xs = torch.linspace(-4, 3.1, 72)
    curves = (
        (torch.relu, "orange thick dash", 84, "ReLU: max(0, x)"),
        (nn.functional.gelu, "blue thick", 52, "GELU: x · Φ(x)"),
    )
    for function, classes, y, name in curves:
        d.curve(340 + 78 * xs, 270 - 78 * function(xs), classes)
        d.line([(32, y), (80, y)], classes)
        d.text(92, y + 6, name, "start bold")
    counts = torch.histc(inputs, 56, -4, 3)
    tops = (492 - 120 * counts / counts.max()).tolist()
    for classes, part in (("blue area", slice(0, 32)), ("green area", slice(32, 56))):
        edges = [(28 + 9.75 * (i + j), y) for i, y in list(enumerate(tops))[part] for j in (0, 1)]
        d.line([(edges[0][0], 492), *edges, (edges[-1][0], 492)], classes)
    below = 100 * float((inputs < 0).float().mean())
    d.text(28, 346, "what really comes in, in all layers:", "start bold")
    d.text(28, 372, f"{below:.0f} % are below 0", "start blue bold")


def adamw(d: Drawing) -> None:
    """Bias correction in AdamW.

    One weight goes from 1 towards the minimum at 0. With bias correction the first steps are as
    long as the learning rate; without it they are over three times as long, past the minimum.
    """
    d.text(24, 34, "the weight θ, with its minimum at 0", "start bold")
    d.text(24, 322, "length of a step, in learning rates", "start bold")
    for zero, unit, ticks in ((172, 120, (0, 1)), (522, 35, (0, 1, 3, 5))):
        for tick in ticks:
            d.line([(60, zero - tick * unit), (610, zero - tick * unit)], "thin")
            d.text(48, zero - tick * unit + 6, str(tick), "end quiet")
    across = 60 + 27 * torch.arange(21)
    runs = (
        (False, "orange thick dash", 106, "without"),
        (True, "blue thick", 76, "with correction"),
    )
    for correct, classes, y, name in runs:
        weights = trajectory(correct)
        lengths = weights.diff().abs() / 0.05
        d.curve(across, 172 - 120 * weights, classes)
        d.curve(across[1:], 522 - 35 * lengths, classes)
        d.line([(380, y), (424, y)], classes)
        d.text(436, y + 6, name, "start bold")
    for step in (1, 5, 10, 15, 20):
        d.text(60 + 27 * step, 552, f"step {step}" if step == 1 else str(step), "quiet")


def trajectory(correct_bias: bool) -> Tensor:
    """θ before and after each of 20 steps down θ² / 2, whose gradient is θ."""
    theta = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = AdamW([theta], lr=0.05, correct_bias=correct_bias)
    passed = [1.0]
    for _ in range(20):
        theta.grad = theta.detach().clone()
        optimizer.step()
        passed.append(theta.item())
    return torch.tensor(passed)


def pairs(d: Drawing) -> None:
    """Bi-encoder and cross-encoder.

    As two sequences, the words of one sentence see nothing of the other. As one sequence, man looks
    at man, violin at violin and tuning at tuned, across the sentences.
    """
    names = tokens_of(encoded(TUNING, second=TUNED)[0][0])
    shares = weights_of(SAME_WORD, TUNING, second=TUNED)
    end = names.index("[SEP]")
    first = {i: 108 + 33 * (i - 1) for i in range(1, end)}  # where each token is, from above
    second = {i: 75 + 33 * (i - end - 1) for i in range(end + 1, len(names) - 1)}
    for left, title in ((24, "bi-encoder"), (350, "cross-encoder")):
        d.text(left + 133, 34, title, "big bold")
        for x, places, colour in ((left, first, "blue"), (left + 186, second, "orange")):
            for i, y in places.items():
                d.box(x, y - 14, 80, 28, colour, names[i])
            d.arrow(x + 40, max(places.values()) + 20, x + 40, 388)
        d.box(left, 520, 266, 34, "purple", "answer")
    for i, y in first.items():
        for j, to in second.items():
            share = float(shares[i, j] + shares[j, i]) / 2
            d.line([(433, y), (533, to)], "purple thick", f' opacity="{share:.2f}"')
    for x, vector in ((64, "u"), (250, "v")):
        d.box(x - 40, 392, 80, 34, "quiet", "BERT")
        d.arrow(x, 426, x, 452)
        d.box(x - 22, 456, 44, 34, "green", vector)
        d.arrow(x, 490, x, 516)
    d.box(350, 392, 266, 34, "quiet", "BERT")
    d.arrow(483, 426, 483, 452)
    d.box(390, 456, 186, 34, "green", "one vector")
    d.arrow(483, 490, 483, 516)
    layer, head = (place + 1 for place in SAME_WORD)
    d.text(616, 584, f"lines: attention, layer {layer}, head {head}", "end quiet")


def pretraining(d: Drawing) -> None:
    """What BERT was pretrained on.

    In each row some tokens are chosen and have to be found: most are hidden by [MASK], some by
    another token, some stay. And [CLS] has to say whether the second sentence follows the first.
    """
    tokenizer = pretrained()[1]
    special, mask, size = tokenizer.all_special_ids, tokenizer.mask_token_id, tokenizer.vocab_size
    for top, second, seed, answer in ((62, STORM, 0, "yes"), (320, BREAD, 290, "no")):
        ids = encoded(SEA, second=second)[0]  # (1, L)
        chance = torch.Generator().manual_seed(seed)
        given = torch.isin(ids, torch.tensor(special))
        inputs, labels = mask_tokens(ids, given, mask, size, generator=chance)  # (1, L) each
        names, wanted = tokens_of(inputs[0]), tokens_of(ids[0])
        middle = names.index("[SEP]") + 1
        chips = side_by_side(names[:middle]) + side_by_side(names[middle:], right=402)
        d.text(32, top - 26, "[CLS]: does the second sentence follow?", "start bold")
        d.text(608, top - 26, answer, "end green big bold")
        for i, chip in enumerate(chips):
            y, colour = (top, "blue") if i < middle else (top + 96, "orange")
            chosen = labels[0, i] >= 0
            d.chip(chip, y, "purple strong" if chosen else colour)
            if chosen:
                d.arrow(chip[1], y + 30, chip[1], y + 50)
                d.text(chip[1], y + 70, wanted[i], "purple bold")


def course(d: Drawing) -> None:
    """From the handout to the grade.

    The course's repository makes yours, with stubs. You write, the checks judge each function
    alone, and one script zips. The grader runs the zip on fresh inputs and gives points.
    """
    d.text(160, 34, "the course", "big bold")
    d.text(480, 34, "you", "big bold")
    d.box(24, 52, 272, 100, "blue", "repository", "with the solutions", "and the table of tasks")
    d.box(344, 52, 272, 100, "orange", "your repository", "stubs, data, texts", "and the checks")
    d.box(344, 198, 272, 76, "orange", "write a function", "one of the graded tasks")
    alone = "each function alone"
    d.box(344, 324, 272, 100, "green", "sanity_check.py", "stored references,", alone)
    d.box(344, 470, 272, 76, "orange", "prepare_submit.py", "checks, then one zip")
    d.box(24, 324, 272, 100, "purple", "the grader", "in a sandbox, fresh inputs,", alone)
    d.box(24, 470, 272, 76, "purple", "points, feedback", "and the leaderboard")
    d.arrow(296, 102, 340, 102)
    d.arrow(480, 152, 480, 194)
    d.arrow(440, 274, 440, 320)
    d.text(428, 304, "try", "end quiet")
    d.arrow(520, 324, 520, 278)
    d.text(532, 304, "again", "start quiet")
    d.arrow(480, 424, 480, 466)
    d.arrow(344, 508, 320, 508, 320, 374, 300, 374)
    d.arrow(160, 152, 160, 320)
    d.text(172, 240, "the same tasks", "start quiet")
    d.arrow(160, 424, 160, 466)


FIGURES = (model, embeddings, projections, attention, heads, add_norm, gelu)
FIGURES += (adamw, pairs, pretraining, course, *modern_figures.FIGURES)


def main() -> None:
    """Draw every figure."""
    OneLineParser(description="Draw the figures of the texts.").parse_args()
    for draw in FIGURES:
        write_whole(FOLDER / f"{draw.__name__}.svg", svg_of(draw))
    print(f"wrote {len(FIGURES)} figures into {FOLDER}")


if __name__ == "__main__":
    run_script(main)
