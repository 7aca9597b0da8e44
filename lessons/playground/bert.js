// BERT's forward pass, function by function as in bert.py, with everything in between kept.
//
// L pieces, D hidden size, H heads, W = D / H width of a head, V vocabulary. There is one sentence
// at a time, so no batch. A tensor is {shape, data}: data is a Float32Array, row after row.
// This file does not know of pages, workers or text.
"use strict";

function zeros(...shape) {
  return { shape, data: new Float32Array(shape.reduce((size, side) => size * side, 1)) };
}

/**
 * The weights as playground.py packed them: matrices in int8 with one scale a row, vectors in float32.
 * @param {ArrayBuffer} buffer
 * @param {Array} table of {name, shape, at, scales}: where numbers and scales begin, in bytes
 * @returns {Object} name → tensor, in float32
 */
function unpack(buffer, table) {
  const weights = {};
  for (const { name, shape, at, scales } of table) {
    const tensor = zeros(...shape);
    const size = tensor.data.length;
    if (scales === null) {
      tensor.data.set(new Float32Array(buffer, at, size));
    } else {
      const bytes = new Int8Array(buffer, at, size);
      const scale = new Float32Array(buffer, scales, shape[0]);
      for (let i = 0; i < size; i++) tensor.data[i] = bytes[i] * scale[Math.floor(i / shape[1])];
    }
    weights[name] = tensor;
  }
  return weights;
}

// -------------------------------------------------------------------------------------------------
// What torch.nn gives to bert.py

/** Rows of a table: (L) numbers of rows → (L, D). */
function embedding(table, numbers) {
  const width = table.shape[1];
  const found = zeros(numbers.length, width);
  numbers.forEach((row, i) =>
    found.data.set(table.data.subarray(row * width, (row + 1) * width), i * width));
  return found;
}

/**
 * y = x Wᵀ + b: (L, in) → (L, out).
 *
 * Four rows and two outputs at a time: a number that is read once serves several products. Past the
 * end the last row or output is computed again.
 */
function linear(x, { weight, bias }) {
  const [rows, width] = x.shape;
  const outs = weight.shape[0];
  const y = zeros(rows, outs);
  const [X, M] = [x.data, weight.data];
  for (let first = 0; first < rows; first += 4) {
    const block = [0, 1, 2, 3].map(k => Math.min(first + k, rows - 1));
    const [a, b, c, d] = block.map(row => row * width); // where they begin
    for (let out = 0; out < outs; out += 2) {
      const other = Math.min(out + 1, outs - 1);
      const [m, n] = [out * width, other * width];
      let ya = 0, yb = 0, yc = 0, yd = 0; // of the four rows, for this output
      let za = 0, zb = 0, zc = 0, zd = 0; // and for the other one
      for (let i = 0; i < width; i++) {
        const p = M[m + i], q = M[n + i];
        const xa = X[a + i], xb = X[b + i], xc = X[c + i], xd = X[d + i];
        ya += p * xa; yb += p * xb; yc += p * xc; yd += p * xd;
        za += q * xa; zb += q * xb; zc += q * xc; zd += q * xd;
      }
      const found = [ya, yb, yc, yd, za, zb, zc, zd];
      for (let k = 0; k < 4; k++) {
        y.data[block[k] * outs + out] = found[k] + bias.data[out];
        y.data[block[k] * outs + other] = found[4 + k] + bias.data[other];
      }
    }
  }
  return y;
}

/** (x − mean) / √(variance + ε) · γ + β, for each row: (L, D) → (L, D). */
function layerNorm(x, { weight, bias }, eps) {
  const [rows, width] = x.shape;
  const y = zeros(rows, width);
  for (let row = 0; row < rows; row++) {
    const { mean, deviation } = spread(x.data.subarray(row * width, (row + 1) * width), eps);
    for (let i = 0; i < width; i++) {
      const normal = (x.data[row * width + i] - mean) / deviation;
      y.data[row * width + i] = normal * weight.data[i] + bias.data[i];
    }
  }
  return y;
}

/** Mean and √(variance + ε) of some numbers. */
function spread(numbers, eps) {
  let mean = 0, variance = 0;
  for (const number of numbers) mean += number / numbers.length;
  for (const number of numbers) variance += (number - mean) ** 2 / numbers.length;
  return { mean, deviation: Math.sqrt(variance + eps) };
}

/** In place: exp(x) / Σ exp(x), without overflow. */
function softmax(numbers) {
  const largest = numbers.reduce((a, b) => Math.max(a, b));
  let sum = 0;
  for (let i = 0; i < numbers.length; i++) sum += numbers[i] = Math.exp(numbers[i] - largest);
  for (let i = 0; i < numbers.length; i++) numbers[i] /= sum;
  return numbers;
}

/** The error function to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26). */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const powers = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 +
    t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - powers * Math.exp(-x * x));
}

/** A new tensor, with a function of each number. */
function map(x, f) {
  return { shape: x.shape, data: x.data.map(f) };
}

const gelu = x => map(x, v => 0.5 * v * (1 + erf(v / Math.SQRT2)));
const tanh = x => map(x, Math.tanh);
const sum = (first, ...others) =>
  map(first, (v, i) => others.reduce((total, other) => total + other.data[i], v));

// -------------------------------------------------------------------------------------------------
// bert.py

/**
 * A BERT.
 * @param {Object} weights name → tensor; the names are those of bert.py's parameters
 * @param {Object} config num_hidden_layers, num_attention_heads, layer_norm_eps
 */
class Bert {
  constructor(weights, config) {
    Object.assign(this, { weights, config, heads: config.num_attention_heads });
  }

  /** Weight and bias of a module. */
  module(name) {
    return { weight: this.weights[`${name}.weight`], bias: this.weights[`${name}.bias`] };
  }

  norm(x, name) {
    return layerNorm(x, this.module(name), this.config.layer_norm_eps);
  }

  /** Project and split into heads: (L, D) → (H, L, W). */
  transform(x, name) {
    const projected = linear(x, this.module(name)); // (L, D)
    const [length, size] = projected.shape;
    const width = size / this.heads;
    const split = zeros(this.heads, length, width);
    for (let head = 0; head < this.heads; head++) {
      for (let i = 0; i < length; i++) {
        const from = i * size + head * width;
        const part = projected.data.subarray(from, from + width);
        split.data.set(part, (head * length + i) * width);
      }
    }
    return split;
  }

  /**
   * softmax(Q Kᵀ / √W + mask) V for every head.
   * @param {Object} key, query, value (H, L, W) each
   * @param {Array} mask (L), 0 for a piece, a large negative number for padding
   * @param {Set} off heads that give zeros
   * @returns {Object} scores and probabilities (H, L, L); context (L, D), the heads side by side
   */
  attention(key, query, value, mask, off) {
    const [heads, length, width] = query.shape;
    const scores = zeros(heads, length, length);
    const probabilities = zeros(heads, length, length);
    const context = zeros(length, heads * width);
    for (let head = 0; head < heads; head++) {
      for (let i = 0; i < length; i++) {
        const q = (head * length + i) * width;
        const row = (head * length + i) * length;
        for (let j = 0; j < length; j++) {
          const k = (head * length + j) * width;
          let product = 0;
          for (let w = 0; w < width; w++) product += query.data[q + w] * key.data[k + w];
          scores.data[row + j] = product / Math.sqrt(width);
          probabilities.data[row + j] = scores.data[row + j] + mask[j];
        }
        softmax(probabilities.data.subarray(row, row + length));
        if (off.has(head)) continue;
        for (let j = 0; j < length; j++) {
          const p = probabilities.data[row + j];
          const from = (head * length + j) * width, to = (i * heads + head) * width;
          for (let w = 0; w < width; w++) context.data[to + w] += p * value.data[from + w];
        }
      }
    }
    return { scores, probabilities, context };
  }

  /** LayerNorm(x + Dense(Sublayer(x))): (L, D) and (L, D or intermediate size) → (L, D). */
  addNorm(input, output, dense, norm) {
    const projected = linear(output, this.module(dense));
    const added = sum(input, projected);
    return { projected, added, normed: this.norm(added, norm) };
  }

  /** One layer: (L, D) → (L, D), called ``output``. */
  layer(number, hidden, mask, off) {
    const name = `bert_layers.${number}`;
    const key = this.transform(hidden, `${name}.self_attention.key`);
    const value = this.transform(hidden, `${name}.self_attention.value`);
    const query = this.transform(hidden, `${name}.self_attention.query`);
    const attended = this.attention(key, query, value, mask, off);
    const first = this.addNorm(hidden, attended.context,
      `${name}.attention_dense`, `${name}.attention_layer_norm`);
    const expanded = linear(first.normed, this.module(`${name}.interm_dense`));
    const activated = gelu(expanded);
    const second = this.addNorm(first.normed, activated,
      `${name}.out_dense`, `${name}.out_layer_norm`);
    return { input: hidden, key, query, value, ...attended, first, expanded, activated, second,
      output: second.normed };
  }

  /** LayerNorm(word + position + segment): (L) ids → (L, D), called ``output``. */
  embed(ids) {
    const words = embedding(this.weights["word_embedding.weight"], ids);
    const positions = embedding(this.weights["pos_embedding.weight"], ids.map((_, i) => i));
    const segments = embedding(this.weights["tk_type_embedding.weight"], ids.map(() => 0));
    const added = sum(words, positions, segments);
    return { words, positions, segments, added, output: this.norm(added, "embed_layer_norm") };
  }

  /**
   * The whole model.
   * @param {Array} ids (L)
   * @param {Array} real (L), 1 for a piece, 0 for padding
   * @param {Array} off pairs [layer, head] that are switched off
   * @returns {Object} all tensors: embedded, layers, pooler
   */
  forward(ids, real = ids.map(() => 1), off = []) {
    const mask = real.map(one => (one ? 0 : -3e38)); // (L)
    const embedded = this.embed(ids);
    const layers = [];
    for (let number = 0; number < this.config.num_hidden_layers; number++) {
      const hidden = number ? layers[number - 1].output : embedded.output;
      const heads = new Set(off.filter(([layer]) => layer === number).map(([, head]) => head));
      layers.push(this.layer(number, hidden, mask, heads));
    }
    const cls = embedding(layers.at(-1).output, [0]); // (1, D)
    const dense = linear(cls, this.module("pooler_dense"));
    return { mask, embedded, layers, pooler: { cls, dense, output: tanh(dense) } };
  }

  // -----------------------------------------------------------------------------------------------
  // What stands on the encoder

  /** Logits of the words at M places of a sentence: (L, D) → (M, V). */
  maskedWords(encoded, places) {
    const hidden = embedding(encoded, places); // (M, D)
    const turned = gelu(linear(hidden, this.module("transform_dense")));
    const decoder = {
      weight: this.weights["word_embedding.weight"], // the same as the embedding's
      bias: this.weights.decoder_bias,
    };
    return linear(this.norm(turned, "transform_norm"), decoder);
  }

  /** Logits of the classes: (1, D) → (1, K). */
  classify(pooled) {
    return linear(pooled, this.module("classifier"));
  }
}
