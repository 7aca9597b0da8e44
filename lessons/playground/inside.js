// The forward pass, one screen a step: its tensors, the lines of bert.py, and where a number comes from.

/** What a screen needs: the trace of the chosen layer and head, names, sizes, and how to add pictures. */
function viewOf(now) {
  const { config } = data;
  const { layer, head } = state;
  const names = piecesOf(now.asked.ids);
  const length = names.length;
  const size = config.hidden_size, width = size / config.num_attention_heads;
  const view = { now, config, layer, head, names, length, size, width, piece: state.piece,
    trace: now.trace, tensors: now.trace.layers[layer], path: `bert_layers.${layer}` };
  /** The part of a head's tensor (H, L, C) that is this head's. */
  view.own = ({ shape, data: numbers }) =>
    numbers.subarray(head * shape[1] * shape[2], (head + 1) * shape[1] * shape[2]);
  /** A picture with a row for each piece. */
  view.rows = (title, numbers, columns, explain, more = {}) => heat(find("tensors"), {
    title, shape: `${more.letters ?? "L × D"} = ${length} × ${columns}`, data: numbers, rows: length, columns,
    names, chosen: state.piece, explain, say: find("said-inside"), ...more,
  });
  return view;
}

const at = (tensor, row, column) => tensor.data[row * tensor.shape[1] + column];
const rowOf = ({ shape, data: numbers }, row) => numbers.subarray(row * shape[1], (row + 1) * shape[1]);

/** The terms of a sum of products with the largest ones first. */
function largest(first, second, shownTerms = 4) {
  const order = Array.from(first.keys());
  order.sort((a, b) => Math.abs(first[b] * second[b]) - Math.abs(first[a] * second[a]));
  const terms = order.slice(0, shownTerms).map(i => `${number(first[i])}·${number(second[i])} [${i}]`);
  return terms.join(" + ") + (order.length > shownTerms ? ` + … ${order.length - shownTerms} more` : "");
}

/** Where a number that a linear layer gave comes from. */
async function explainLinear(name, input, row, value, title) {
  const { weight, bias } = await model.ask("row", { name, row });
  return `${title} = ${number(value)}: x · W row ${row} + bias = ${largest(input, weight)} + bias ${number(bias)}`;
}

/** Where a number that a LayerNorm gave comes from. */
async function explainNorm(name, input, column, value, title) {
  const { weight, bias } = await model.ask("norm", { name, column });
  const { mean, deviation } = spread(input, data.config.layer_norm_eps);
  return `${title} = ${number(value)}: (x ${number(input[column])} − mean ${number(mean)}) / deviation ` +
    `${number(deviation)} × γ ${number(weight)} + β ${number(bias)}`;
}

const STEPS = [
  {
    id: "embeddings", name: "Embeddings",
    text: "Each token has a vector, each position has one, and so has the segment. They are added, and the sum is normalised.",
    draw({ trace: { embedded }, rows, names, size }) {
      const { words, positions, segments, added, output } = embedded;
      const plain = (title, table, of) => rows(title, table.data, size, (i, d) =>
        `${title}[${i}, ${d}] = ${number(at(table, i, d))}: learned, for ${of(i)}, dimension ${d}`);
      plain("word", words, i => `the token “${names[i]}”`);
      plain("position", positions, i => `place ${i} of the sentence`);
      plain("segment", segments, () => "the first segment, the same for all tokens here");
      rows("sum", added.data, size, (i, d) => `sum[${i}, ${d}] = word ${number(at(words, i, d))} + position ` +
        `${number(at(positions, i, d))} + segment ${number(at(segments, i, d))} = ${number(at(added, i, d))}`);
      rows("embedding = LayerNorm(sum)", output.data, size, (i, d) =>
        explainNorm("embed_layer_norm", rowOf(added, i), d, at(output, i, d), `embedding[${i}, ${d}]`));
    },
  },
  {
    id: "projections", name: "Q, K, V", layered: true, headed: true,
    text: "Three linear layers make of each vector a query (what it looks for), a key (what it is found by) and a value " +
      "(what is read from it). Each head has its share of the columns.",
    draw(view) {
      const { tensors, own, rows, width, head, path, layer } = view;
      rows(layer ? `hidden states, from layer ${layer}` : "hidden states: the embeddings", tensors.input.data, view.size,
        (i, d) => `hidden[${i}, ${d}] = ${number(at(tensors.input, i, d))}, from ${layer ? `layer ${layer}` : "the embeddings"}`);
      for (const role of ["query", "key", "value"]) {
        const numbers = own(tensors[role]);
        rows(`${role} of head ${head + 1}`, numbers, width, (i, w) =>
          explainLinear(`${path}.self_attention.${role}`, rowOf(tensors.input, i), head * width + w,
            numbers[i * width + w], `${role}[${i}, ${w}]`), { letters: "L × W" });
      }
    },
  },
  {
    id: "scores", name: "Scores, softmax", layered: true, headed: true,
    text: "A score is the product of a query and a key, divided by √W. The mask takes padding out, and the softmax turns " +
      "each row into attention weights that sum to 1.",
    draw({ trace, tensors, own, rows, names, length, width, piece }) {
      const [scores, shares] = [own(tensors.scores), own(tensors.probabilities)];
      const [query, key] = [own(tensors.query), own(tensors.key)];
      const vector = (numbers, i) => numbers.subarray(i * width, (i + 1) * width);
      const square = { letters: "L × L", square: true, below: names };
      rows("scores = Q Kᵀ / √W", scores, length, (i, j) =>
        `score[${i}, ${j}] = q(${names[i]}) · k(${names[j]}) / √${width} = ` +
        `(${largest(vector(query, i), vector(key, j), 3)}) / ${number(Math.sqrt(width))} = ${number(scores[i * length + j])}`, square);
      rows("softmax(scores + mask)", shares, length, (i, j) => {
        const total = rowIn(scores, i, length).reduce((s, x, k) => s + (trace.mask[k] ? 0 : Math.exp(x)), 0);
        return trace.mask[j] ? `share[${i}, ${j}] = 0: “${names[j]}” is padding, its score gets a large negative number` :
          `share[${i}, ${j}] = exp(${number(scores[i * length + j])}) / ${number(total)} (the row's sum of exp) = ` +
          `${number(shares[i * length + j])}`;
      }, { ...square, most: 1 });
      const card = add(find("tensors"), "div", { className: "card" });
      add(card, "h3", {}, `What “${names[piece]}” reads: attention weights`);
      bars(card, names.map((name, j) => ({ name, value: shares[piece * length + j], says: percent(shares[piece * length + j]) })));
    },
  },
  {
    id: "sum", name: "Weighted sum", layered: true, headed: true,
    text: "What a token gets from this head is the sum of all values, each times its attention weight. Choose a token in the sentence above.",
    draw({ tensors, own, rows, names, length, width, piece, head, size }) {
      const value = own(tensors.value);
      const shares = rowIn(own(tensors.probabilities), piece, length);
      const parts = value.map((v, i) => v * shares[Math.floor(i / width)]);
      rows(`weight of “${names[piece]}” × value`, parts, width, (j, w) =>
        `${percent(shares[j])} × value of “${names[j]}” ${number(value[j * width + w])} = ${number(parts[j * width + w])}`,
      { letters: "L × W", chosen: undefined });
      const context = tensors.context.data.subarray(piece * size + head * width, piece * size + (head + 1) * width);
      heat(find("tensors"), { title: `context of “${names[piece]}”, the sum of the rows above`, shape: `1 × W = 1 × ${width}`,
        data: context, rows: 1, columns: width, names: [names[piece]], say: find("said-inside"),
        explain: (_, w) => `context[${w}] = ${number(context[w])} = Σ share × value: ` +
          largest(shares, Array.from(shares, (_, j) => value[j * width + w]), 4).replaceAll(/\[(\d+)\]/g, (_, j) => `(${names[j]})`) });
    },
  },
  {
    id: "heads", name: "Heads together", layered: true,
    text: "The heads' results are put side by side again: columns 0 to W − 1 are the first head's, and so on.",
    draw({ tensors: { context }, rows, size, width, layer }) {
      rows("context of all heads", context.data, size, (i, d) => {
        const head = Math.floor(d / width);
        const off = state.off.has(`${layer}.${head}`) ? ", which is switched off" : "";
        return `context[${i}, ${d}] = ${number(at(context, i, d))}: column ${d % width} of head ${head + 1}${off}`;
      });
    },
  },
  {
    id: "add_norm", name: "Add & norm", layered: true,
    text: "A dense layer mixes the heads. Its result is added to what went in, and the sum is normalised: LayerNorm(x + Dense(context)).",
    draw({ tensors: { input, context, first }, rows, size, path }) {
      rows("x, what went in", input.data, size, (i, d) => `x[${i}, ${d}] = ${number(at(input, i, d))}`);
      rows("Dense(context)", first.projected.data, size, (i, d) =>
        explainLinear(`${path}.attention_dense`, rowOf(context, i), d, at(first.projected, i, d), `dense[${i}, ${d}]`));
      rows("x + Dense(context)", first.added.data, size, (i, d) =>
        `sum[${i}, ${d}] = ${number(at(input, i, d))} + ${number(at(first.projected, i, d))} = ${number(at(first.added, i, d))}`);
      rows("LayerNorm of it", first.normed.data, size, (i, d) =>
        explainNorm(`${path}.attention_layer_norm`, rowOf(first.added, i), d, at(first.normed, i, d), `normed[${i}, ${d}]`));
    },
  },
  {
    id: "feed_forward", name: "Feed-forward", layered: true,
    text: "Each vector is made wider, passes GELU, which keeps what is positive and damps what is negative, and is made " +
      "narrow again; then add & norm as before.",
    draw({ tensors: { first, expanded, activated, second }, rows, size, config, path }) {
      const wide = config.intermediate_size;
      rows("interm_dense", expanded.data, wide, (i, d) =>
        explainLinear(`${path}.interm_dense`, rowOf(first.normed, i), d, at(expanded, i, d), `expanded[${i}, ${d}]`), { letters: "L × 4D" });
      rows("GELU of it", activated.data, wide, (i, d) => {
        const x = at(expanded, i, d);
        return `GELU(${number(x)}) = x · Φ(x) = ${number(x)} × ${number((1 + erf(x / Math.SQRT2)) / 2)} = ${number(at(activated, i, d))}`;
      }, { letters: "L × 4D" });
      rows("out_dense", second.projected.data, size, (i, d) =>
        explainLinear(`${path}.out_dense`, rowOf(activated, i), d, at(second.projected, i, d), `dense[${i}, ${d}]`));
      rows("LayerNorm(x + out_dense), what the layer gives", second.normed.data, size, (i, d) =>
        explainNorm(`${path}.out_layer_norm`, rowOf(second.added, i), d, at(second.normed, i, d), `output[${i}, ${d}]`));
    },
  },
  {
    id: "pooler", name: "Pooler",
    text: "The last layer's vector of [CLS] stands for the sentence: a dense layer and a tanh. A classifier reads only this.",
    draw({ trace: { pooler, layers }, rows, size, now }) {
      const one = (title, tensor, explain) => heat(find("tensors"), { title, shape: `1 × D = 1 × ${size}`, data: tensor.data,
        rows: 1, columns: size, names: ["[CLS]"], say: find("said-inside"), explain });
      rows("what the last layer gave", layers.at(-1).output.data, size, (i, d) =>
        `hidden[${i}, ${d}] = ${number(at(layers.at(-1).output, i, d))}${i ? ": the pooler does not read it" : ""}`, { chosen: 0 });
      one("pooler_dense([CLS])", pooler.dense, (_, d) =>
        explainLinear("pooler_dense", pooler.cls.data, d, pooler.dense.data[d], `dense[${d}]`));
      one("tanh of it, pooler_output", pooler.output, (_, d) =>
        `pooler_output[${d}] = tanh(${number(pooler.dense.data[d])}) = ${number(pooler.output.data[d])}`);
      if (!now.classes) return;
      const card = add(find("tensors"), "div", { className: "card" });
      add(card, "h3", {}, "The classifier's answer");
      classBars(card, now);
    },
  },
];

/** Row i of numbers in rows of a width. */
const rowIn = (numbers, i, width) => numbers.subarray(i * width, (i + 1) * width);

function showInside(now) {
  const index = STEPS.findIndex(step => step.id === state.step);
  const step = STEPS[index];
  const { title, lines, isRight } = data.code[step.id];
  find("steps").replaceChildren();
  STEPS.forEach(({ id, name }, i) => {
    const button = add(find("steps"), "button", { type: "button" }, `${i + 1} ${name}`);
    if (id === state.step) button.setAttribute("aria-current", "step");
    button.addEventListener("click", () => { goTo(i); find("steps").children[i].focus(); });
  });
  find("layer").value = state.layer;
  find("head").value = state.head;
  find("layer").parentElement.hidden = !step.layered;
  find("head").parentElement.hidden = !step.headed;
  find("step-title").textContent = step.name;
  find("step-text").textContent = step.text;
  find("code-title").textContent = lines[0].number ? `${title} in bert.py` : title;
  find("code-state").textContent = isRight
    ? "The page computes this step in JavaScript (bert.js)."
    : "This does not pass its check (sanity_check.py). The numbers come from the page's own JavaScript (bert.js), not from these lines.";
  find("code").replaceChildren();
  for (const { number: line = "", text, here } of lines) {
    const element = add(find("code"), "span", { className: here ? "here" : "" });
    add(element, "i", {}, String(line));
    element.append(text);
  }
  find("tensors").replaceChildren();
  step.draw(viewOf(now));
  find("back").disabled = index === 0;
  find("next").disabled = index === STEPS.length - 1;
}

function goTo(index) {
  state.step = STEPS[index].id;
  find("said-inside").textContent = "Point at a number, or reach it with Tab and the arrow keys, to see where it comes from.";
  show();
}

const stepNumber = () => STEPS.findIndex(step => step.id === state.step);
