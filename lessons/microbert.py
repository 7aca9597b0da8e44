"""BERT in plain Python, from derivatives to a filled [MASK]: ``python -m lessons.microbert``.

It learns for about a minute; docs/microbert.md walks through the file. Shapes: L tokens, width D,
H heads of width W = D / H, V words. The weights have the names of bert.py.
"""

import math
import random
import signal
from collections import Counter
from operator import add, mul

TAPE = []  # the matrices that were computed, in this order: derivatives go through it backwards


def dot(a, b):
    return sum(map(mul, a, b))


def product(a, b):  # (n, k), (k, m) → (n, m)
    columns = list(zip(*b))
    return [[dot(row, column) for column in columns] for row in a]


class Matrix:  # rows of numbers, and the derivative of the loss by each of them
    def __init__(self, rows, parents=(), back=None):
        self.rows = [list(row) for row in rows]
        self.grad = [[0.0] * len(row) for row in self.rows]
        if parents:  # back makes their gradients from the one of this matrix
            TAPE.append((self, parents, back))

    def backward(self):  # from the loss to the weights
        self.grad = [[1.0]]
        while TAPE:
            matrix, parents, back = TAPE.pop()
            for parent, grad in zip(parents, back(matrix.grad)):
                parent.grad = [list(map(add, *rows)) for rows in zip(parent.grad, grad)]

    def __matmul__(self, other):  # C = A B: dA = dC Bᵀ, dB = Aᵀ dC
        a, b = self.rows, other.rows
        back = lambda g: (product(g, zip(*b)), product(zip(*a), g))
        return Matrix(product(a, b), (self, other), back)

    def __add__(self, other):  # a bias is one row, which is added to every row
        b = other.rows * (len(self.rows) // len(other.rows))
        back = lambda g: (g, g if len(g) == len(other.rows) else [map(sum, zip(*g))])
        return Matrix([map(add, *rows) for rows in zip(self.rows, b)], (self, other), back)

    def __mul__(self, other):  # every row, number by number, with the one row of other
        a, b = self.rows, other.rows[0]
        back = lambda g: ([map(mul, row, b) for row in g], [map(dot, zip(*g), zip(*a))])
        return Matrix([map(mul, row, b) for row in a], (self, other), back)

    T = property(lambda self: Matrix(zip(*self.rows), (self,), lambda g: (zip(*g),)))

    def by_row(self, function):  # a function of a row x gives y, and how dy becomes dx
        y, backs = zip(*map(function, self.rows))
        return Matrix(y, (self,), lambda g: ([back(d) for back, d in zip(backs, g)],))

    def pick(self, numbers):  # rows by number: a product with a 1 where the row is
        return Matrix([[float(i == n) for i in range(len(self.rows))] for n in numbers]) @ self


def softmax(x):
    powers = [math.exp(number - max(x)) for number in x]
    p = [power / sum(powers) for power in powers]
    return p, lambda g: [chance * (d - dot(p, g)) for chance, d in zip(p, g)]


def surprise(p):  # −log of a probability: the loss
    return [-math.log(p[0])], lambda g: [-g[0] / p[0]]


def gelu(x):  # x Φ(x), where Φ is how much of the normal distribution lies below x
    below = [(1 + math.erf(number / math.sqrt(2))) / 2 for number in x]
    density = [math.exp(-number * number / 2) / math.sqrt(2 * math.pi) for number in x]
    return map(mul, x, below), lambda g: map(mul, map(add, below, map(mul, x, density)), g)


def normalize(x):  # to mean 0 and variance 1
    n, mean = len(x), sum(x) / len(x)
    deviation = math.sqrt(sum((number - mean) ** 2 for number in x) / n + 1e-12)
    y = [(number - mean) / deviation for number in x]
    return y, lambda g: [(d - sum(g) / n - a * dot(y, g) / n) / deviation for a, d in zip(y, g)]


class Bert:  # Devlin et al. 2019: the encoder, and the word that it expects behind a [MASK]
    def __init__(self, words, positions, width, layers, heads, draw):
        self.weights, self.heads = {}, heads
        self.layers = [f"bert_layers.{number}." for number in range(layers)]

        def new(name, outputs, inputs=0):  # a linear layer; without inputs, a layer norm
            rows = [[draw.gauss(0, 0.2) for _ in range(inputs)] for _ in range(outputs)]
            self.weights[name + ".weight"] = Matrix(rows if inputs else [[1.0] * outputs])
            self.weights[name + ".bias"] = Matrix([[0.0] * outputs])

        new("word_embedding", words, width)
        new("pos_embedding", positions, width)
        del self.weights["pos_embedding.bias"]  # the one of words is for the guess
        new("embed_layer_norm", width)
        for layer in self.layers:
            for name in ("query", "key", "value"):
                new(layer + "self_attention." + name, width, width)
            new(layer + "attention_dense", width, width)
            new(layer + "attention_layer_norm", width)
            new(layer + "interm_dense", 4 * width, width)
            new(layer + "out_dense", width, 4 * width)
            new(layer + "out_layer_norm", width)

    def linear(self, x, name):  # x Wᵀ + b
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x, name):
        return x.by_row(normalize) * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def attention(self, x, layer):  # x + softmax(Q Kᵀ / √W) V Wᵀ + b: (L, D) → (L, D)
        names = ("query", "key", "value")  # transposed, (D, L): pick takes rows, a head's W of D
        query, key, value = (self.linear(x, f"{layer}self_attention.{name}").T for name in names)
        output = self.weights[layer + "attention_dense.weight"].T
        width = len(output.rows) // self.heads
        scale = Matrix([[1 / math.sqrt(width)] * len(x.rows)])
        x = x + self.weights[layer + "attention_dense.bias"]
        for first in range(0, len(output.rows), width):  # each head adds what it has seen
            own = range(first, first + width)
            scores = query.pick(own).T @ key.pick(own) * scale  # (L, W) @ (W, L) → (L, L)
            context = scores.by_row(softmax) @ value.pick(own).T  # (L, L) @ (L, W) → (L, W)
            x = x + context @ output.pick(own)  # (L, W) @ (W, D) → (L, D)
        return x

    def hidden(self, ids):  # (L,) → (L, D)
        x = self.weights["word_embedding.weight"].pick(ids)
        x = x + self.weights["pos_embedding.weight"].pick(range(len(ids)))
        x = self.norm(x, "embed_layer_norm")
        for layer in self.layers:
            x = self.norm(self.attention(x, layer), layer + "attention_layer_norm")
            inner = self.linear(x, layer + "interm_dense").by_row(gelu)  # (L, 4D)
            x = self.norm(x + self.linear(inner, layer + "out_dense"), layer + "out_layer_norm")
        return x

    def expects(self, ids):  # each word's probability behind the [MASK], by its embedding: (1, V)
        return self.linear(self.hidden(ids).pick([ids.index(0)]), "word_embedding").by_row(softmax)


def adamw(weights, state, t, lr=1e-3, b1=0.9, b2=0.999, eps=1e-6, decay=0.0):
    """Step t of Kingma & Ba 2015 and Loshchilov & Hutter 2019; then gradients are 0 again."""
    rate = lr * math.sqrt(1 - b2**t) / (1 - b1**t)
    for w, i in [(matrix, i) for matrix in weights for i in range(len(matrix.rows))]:
        m, v = state.get((w, i), [[0.0] * len(w.rows[i])] * 2)
        m = [b1 * old + (1 - b1) * g for old, g in zip(m, w.grad[i])]
        v = [b2 * old + (1 - b2) * g * g for old, g in zip(v, w.grad[i])]
        moved = [x - rate * a / (math.sqrt(b) + eps) for x, a, b in zip(w.rows[i], m, v)]
        w.rows[i] = [x - lr * decay * x for x in moved]
        w.grad[i], state[w, i] = [0.0] * len(m), (m, v)


VERBS = {"dog": "bark", "cat": "purr", "bird": "sing", "bee": "hum"}
EXAMPLES = "the dogs near the bee bark loudly", "the bee behind the dogs hums here"


def sentence(draw):  # the dogs near the bee bark loudly: the verb belongs to the first animal
    names, ends = draw.sample(list(VERBS), 2), draw.choices(["", "s"], k=2)
    place = f" {draw.choice(['near', 'behind', 'above'])} the {names[1]}{ends[1]}"
    place = draw.choice(["", place])
    verb = VERBS[names[0]] + ("" if ends[0] else "s")
    return f"the {names[0]}{ends[0]}{place} {verb} {draw.choice(['loudly', 'today', 'here'])}"


def main():
    """Train on masked words of 181 sentences; guess the verbs of others before and after."""
    draw, state, steps = random.Random(11711), {}, 400
    texts = [text for text in (sentence(draw) for _ in range(400)) if text not in EXAMPLES]
    corpus = [["[CLS]", *text.split()] for text in texts]
    words = ["[MASK]", *sorted({word for line in corpus for word in line})]
    triples = Counter(triple for line in corpus for triple in zip(line, line[1:], line[2:]))
    model = Bert(len(words), positions=8, width=16, layers=2, heads=2, draw=draw)
    for step in range(steps + 1):
        for text in EXAMPLES if step in (0, steps) else ():
            line = ["[CLS]", *text.split()[:-2], "[MASK]", text.split()[-1]]
            if unknown := {*line} - {*words}:
                raise SystemExit(f"error: {', '.join(unknown)}: not among {', '.join(words)}")
            p, guess = max(zip(model.expects([words.index(word) for word in line]).rows[0], words))
            counted = max(words, key=lambda word: triples[line[-3], word, line[-1]])
            print(f"{' '.join(line[1:])}: {guess} ({p:.2f}), neighbours say {counted}", flush=True)
            TAPE.clear()
        losses = []
        for line in draw.sample(corpus, 8):
            ids = [words.index(word) for word in line]
            position = draw.randrange(1, len(ids))
            word, ids[position] = ids[position], 0
            loss = model.expects(ids).T.pick([word]).by_row(surprise)
            losses += loss.rows[0]
            loss.backward()
        adamw(model.weights.values(), state, step + 1, lr=5e-3)
        if step % 50 == 0:
            print(f"step {step} of {steps}: loss {sum(losses) / 8:.2f}", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    main()
