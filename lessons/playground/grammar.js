// Which of two sentences the model finds more probable, and which tokens decide.

/**
 * Which token stands next to which: what both sentences begin and end with, and the rest in order.
 * @returns {Array} of {pair, same}: pair [place in the first, place in the second], -1 for none
 */
function aligned(first, second) {
  const lengths = [first.length, second.length];
  const shorter = Math.min(...lengths), longer = Math.max(...lengths);
  let start = 0, end = 0;
  while (start < shorter && first[start] === second[start]) start++;
  while (end < shorter - start && first.at(-1 - end) === second.at(-1 - end)) end++;
  return Array.from({ length: longer }, (_, i) => {
    const same = i < start || i >= longer - end;
    const pair = lengths.map(length => {
      const place = i >= longer - end ? i - longer + length : i;
      return same || i < length - end ? place : -1;
    });
    return { pair, same };
  });
}

/** Ask for both sentences, the one above and its partner, and show them side by side. */
async function compare() {
  const box = find("verdict");
  const ids = [state.ids.map((id, i) => state.put.get(i) ?? id),
    [CLS, ...tokenizer.ids(find("partner").value), SEP]];
  const bad = ids.map(one => one.length < 3 ? "is empty" : one.length > data.most ? "is too long" :
    one.includes(MASK) ? "has a [MASK]" : one.includes(UNK) ? "has a word that the vocabulary does not have" : "");
  if (bad.some(text => text)) {
    box.textContent = bad[0] ? `The sentence above ${bad[0]}.` : `The other sentence ${bad[1]}.`;
    return;
  }
  const logs = [];
  find("compare").disabled = true;
  for (const one of ids) {
    const found = await hiddenInTurn(one, count => {
      box.textContent = `${count} of ${one.length - 2} tokens …`;
    });
    logs.push(found && found.map(Math.log));
  }
  find("compare").disabled = false;
  if (!logs.every(log => log)) return;
  box.replaceChildren();
  showPair(box, ids.map(one => one.slice(1, -1).map(id => data.pieces[id])), logs);
}

const nats = x => (Math.round(100 * x) / 100 + 0).toFixed(2).replace("-", "−"); // + 0: no −0.00

/** The verdict, and a row for each token of both sentences. */
function showPair(box, names, logs) {
  const sums = logs.map(log => log.reduce((sum, x) => sum + x, 0));
  const above = sums[0] - sums[1];
  const factor = Math.exp(Math.abs(above)).toLocaleString("en", { maximumSignificantDigits: 2 });
  add(box, "p", { id: "winner" }, above === 0 ? "A tie: both sentences are equally likely." :
    `The model prefers ${above > 0 ? "the sentence above" : "the other sentence"}, by ` +
    `${nats(Math.abs(above))} nats: a factor of ${factor}.`);
  const table = add(box, "table", { className: "pair" });
  const row = (cells, kind = "td", className = "") => {
    const line = add(table, "tr", { className });
    return cells.map(text => add(line, kind, {}, text));
  };
  row(["above", "log p", "other", "log p", "difference"], "th");
  const rows = aligned(...names).map(({ pair, same }) =>
    ({ same, pair, apart: (logs[0][pair[0]] ?? 0) - (logs[1][pair[1]] ?? 0) }));
  const most = Math.max(...rows.map(({ apart }) => Math.abs(apart)), 1e-9);
  for (const { same, pair, apart } of rows) {
    const cells = pair.flatMap((place, k) => place < 0 ? ["", ""] : [names[k][place], nats(logs[k][place])]);
    const last = row([...cells, nats(apart)], "td", same ? "" : "differs").at(-1);
    const bar = add(add(last, "span", { className: "track" }), "i", { className: apart < 0 ? "minus" : "" });
    bar.style.width = `${100 * Math.abs(apart) / most}%`;
  }
  row(["sum", nats(sums[0]), "", nats(sums[1]), nats(above)], "th");
}

/** Put an example into both places, the grammatical sentence above. */
function takePair([good, bad]) {
  find("text").value = good;
  find("partner").value = bad;
  typed();
  compare();
}

/** The view's controls. */
function prepareGrammar() {
  data.pairs.forEach(([good], i) => add(find("pairs"), "option", { value: i }, good));
  find("pairs").addEventListener("change", () => takePair(data.pairs[find("pairs").value]));
  find("compare").addEventListener("click", compare);
  find("partner").addEventListener("keydown", event => { if (event.key === "Enter") compare(); });
}
