// All heads at a glance, one of them large, who reads whom in it, and what happens without it.

/** The probabilities of a head: (L, L), row after row. */
function mapOf(now, layer, head) {
  const { shape, data: numbers } = now.trace.layers[layer].probabilities;
  const size = shape[1] * shape[2];
  return numbers.subarray(head * size, (head + 1) * size);
}

function showAttention(now) {
  const { layer, head } = state;
  showGrid(now);
  find("head-title").textContent = `Layer ${layer + 1}, head ${head + 1}`;
  find("off").checked = state.off.has(`${layer}.${head}`);
  find("map").replaceChildren();
  const length = now.asked.ids.length;
  const names = piecesOf(now.asked.ids);
  heat(find("map"), {
    title: "Attention weights", shape: `row: who reads; column: what is read; ${length} × ${length}`, data: mapOf(now, layer, head),
    rows: length, columns: length, names, below: names, chosen: state.piece, most: 1, square: true,
    say: find("said-attention"),
    explain: (i, j) => `“${names[i]}” takes ${percent(mapOf(now, layer, head)[i * length + j])} of ` +
      `what it reads from “${names[j]}” (layer ${layer + 1}, head ${head + 1})`,
  });
  showLines(now, names);
  showEffect(now);
}

function showGrid(now) {
  const { num_hidden_layers: layers, num_attention_heads: heads } = data.config;
  const length = now.asked.ids.length;
  const grid = find("grid");
  const focused = document.activeElement?.dataset?.head;
  grid.replaceChildren();
  grid.style.gridTemplateColumns = `max-content repeat(${heads}, minmax(1.7rem, 5.5rem))`;
  for (let layer = 0; layer < layers; layer++) {
    add(grid, "span", {}, `layer ${layer + 1}`);
    for (let head = 0; head < heads; head++) {
      const name = `${layer}.${head}`;
      const off = state.off.has(name);
      const button = add(grid, "button", { type: "button", className: off ? "off" : "" });
      button.dataset.head = name;
      button.setAttribute("aria-pressed", layer === state.layer && head === state.head);
      button.setAttribute("aria-label", `layer ${layer + 1}, head ${head + 1}${off ? ", off" : ""}`);
      paint(add(button, "canvas"), mapOf(now, layer, head), length, length, 1);
      button.addEventListener("click", () => { Object.assign(state, { layer, head }); show(); });
      if (name === focused) button.focus();
    }
  }
}

/** The pieces twice, with a curve from each to what it reads. */
function showLines(now, names) {
  const length = names.length, step = 22, width = 440, left = 130, right = 290;
  const map = mapOf(now, state.layer, state.head);
  find("lines").replaceChildren();
  const picture = draw(find("lines"), "svg", { class: "lines", viewBox: `0 0 ${width} ${step * length + 8}`,
    role: "group", "aria-label": "Curves from the tokens to what they read" });
  const y = i => step * i + 14;
  for (let i = 0; i < length; i++) {
    for (let j = 0; j < length; j++) {
      const share = map[i * length + j];
      const strong = i === state.piece;
      if (share < (strong ? 0.01 : 0.08)) continue;
      const middle = (left + right) / 2;
      draw(picture, "path", {
        d: `M${left + 4} ${y(i)}C${middle} ${y(i)} ${middle} ${y(j)} ${right - 4} ${y(j)}`,
        "stroke-width": 0.6 + 6 * share, opacity: (strong ? 0.35 : 0.06) + (strong ? 0.6 : 0.2) * share,
      });
    }
  }
  const cut = name => name.length > 14 ? `${name.slice(0, 13)}…` : name;
  names.forEach((name, i) => {
    const chosen = i === state.piece;
    const group = draw(picture, "g", { role: "button", tabindex: 0, "aria-pressed": chosen,
      "aria-label": `what “${name}” reads` });
    draw(group, "text", { x: left, y: y(i) + 4, "text-anchor": "end", class: chosen ? "chosen" : "" }, cut(name));
    const choose = () => { choosePiece(i); find("lines").querySelectorAll("g")[i].focus(); };
    group.addEventListener("click", choose);
    group.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
    });
    const share = map[state.piece * length + i];
    draw(picture, "text", { x: right, y: y(i) + 4, opacity: 0.45 + 0.55 * Math.min(1, 3 * share) },
      share >= 0.05 ? `${cut(name)} ${percent(share)}` : cut(name));
  });
}

/** What the model says, with marks where it would be if all heads were on. */
function showEffect(now) {
  const off = [...state.off.values()];
  const names = off.map(([layer, head]) => `${layer + 1}.${head + 1}`).join(", ");
  find("switched").textContent = off.length ? `Switched off (layer.head): ${names}.` : "All heads are on.";
  const effect = find("effect");
  effect.replaceChildren();
  const whole = off.length ? now.whole : undefined;
  if (data.labels.length) classBars(effect, now, whole);
  if (data.words && !now.asked.places.length) {
    add(effect, "p", { className: "soft" }, "Mask a token (in the first view) to see its words here.");
  }
  now.asked.places.slice(0, 1).forEach((place, m) => {
    add(effect, "h3", {}, `Token ${place}, [MASK]`);
    bars(effect, topWords(now.words[m]).slice(0, 6).map(({ id, p }) => ({
      name: data.pieces[id], value: p, says: percent(p), before: whole?.words[m][id],
    })));
  });
  if (whole) addKey(effect, "with all heads on");
  if (!data.words && !data.labels.length) {
    add(effect, "p", { className: "soft" }, "This model has no head for words or classes, only vectors.");
  }
  if (off.length) {
    const button = add(effect, "button", { type: "button", id: "all-on" }, "Switch all on again");
    button.addEventListener("click", () => { state.off.clear(); refresh(); });
  }
}
