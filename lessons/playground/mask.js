// What the model expects behind each [MASK], and how likely it finds the whole sentence.

const TOP = 10;

/** The most probable words at each masked place; a click puts one in. */
function showMask(now, before) {
  find("places").replaceChildren();
  if (!now.asked.places.length) {
    add(find("places"), "p", { className: "soft" }, "No token is masked yet. Click one in the " +
      "sentence above, or several, and the model says what it expects there.");
  }
  now.asked.places.forEach((place, m) => {
    const card = add(find("places"), "div", { className: "card" });
    add(card, "h3", {}, `Token ${place}: ${hidden(place)}`);
    const earlier = before?.words[before.asked.places.indexOf(place)];
    bars(card, topWords(now.words[m]).map(({ id, p }) => ({
      name: data.pieces[id], value: p, says: percent(p), before: earlier?.[id],
      action: () => putIn(place, id),
    })));
    if (earlier) addKey(card, "before the last change");
  });
}

/** What the mark on the bars means. */
function addKey(parent, text) {
  const key = add(parent, "p", { className: "soft key" });
  add(key, "b");
  key.append(` ${text}`);
}

function topWords(probabilities) {
  const ids = Array.from(probabilities.keys());
  ids.sort((a, b) => probabilities[b] - probabilities[a]);
  return ids.slice(0, TOP).map(id => ({ id, p: probabilities[id] }));
}

/** What stands behind a [MASK], where the reader knows and the model does not. */
function hidden(place) {
  const id = state.ids[place];
  return id === MASK ? "[MASK]" : `[MASK], which hides “${data.pieces[id]}”`;
}

function putIn(place, id) {
  state.put.set(place, id);
  state.masked.delete(place);
  refresh();
}

const measured = []; // the last sentences that were measured, newest first

/**
 * The probability of each token given all others, each hidden in turn; nothing if it was stopped.
 * @param {Function} told is called with how many there are so far
 */
async function hiddenInTurn(ids, told) {
  const places = ids.slice(1, -1).map((_, i) => i + 1);
  const sentences = places.map(place => ({
    ids: ids.map((id, i) => i === place ? MASK : id), place, piece: ids[place],
  }));
  const found = [];
  const answer = await model.ask("each", { sentences, off: [...state.off.values()] }, one => {
    found[one.index] = one.found;
    told(found.length);
  });
  return answer.done && found;
}

/** Pseudo-likelihood: the sum of log p(piece | all others). */
async function measure() {
  const ids = state.ids.map((id, i) => state.put.get(i) ?? id); // what is hidden is known here
  if (ids.includes(MASK)) {
    find("likelihood").textContent = "Put a word in for the [MASK] of the text first.";
    return;
  }
  find("measure").disabled = true;
  const found = await hiddenInTurn(ids, count => {
    find("likelihood").textContent = `${count} of ${ids.length - 2} tokens …`;
  });
  find("measure").disabled = false;
  if (!found || !found.length) return;
  const log = found.reduce((sum, p) => sum + Math.log(p), 0);
  measured.unshift({ names: ids.slice(1, -1).map(id => data.pieces[id]), found, log });
  measured.splice(3);
  find("likelihood").replaceChildren();
  for (const one of measured) {
    const box = add(find("likelihood"), "details", { open: one === measured[0] });
    add(box, "summary", {}, `log-likelihood ${number(one.log)}, or ` +
      `${percent(Math.exp(one.log / one.found.length))} per token: ${one.names.join(" ")}`);
    bars(box, one.names.map((name, i) => ({ name, value: one.found[i], says: percent(one.found[i]) })));
  }
}
