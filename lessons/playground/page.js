// The page: what is typed and clicked becomes a question to the model, and its answer is shown.

const data = JSON.parse(find("data").textContent);
const tokenizer = new Tokenizer(data.pieces, data.lowerCase, data.unicode);
const [PAD, UNK, CLS, SEP, MASK] = SPECIAL.map(piece => tokenizer.id(piece));
const PADDING = 3; // [PAD] that are added on request
const piecesOf = ids => ids.map(id => data.pieces[id]);

/** What the reader has chosen. */
const state = {
  ids: [], // of the sentence as it is typed, with [CLS] and [SEP]
  masked: new Set(), // places that are hidden
  put: new Map(), // place → id of a word that was put in
  off: new Map(), // "layer.head" → [layer, head], switched off
  view: "", layer: 0, head: 0, piece: 1, step: "embeddings", padding: false,
};
let shown = null; // the newest answer, with its question as .asked
let before = null; // the answer before it

// -------------------------------------------------------------------------------------------------
// The model, in a worker

class Model {
  constructor() {
    const source = new Blob([find("worker").textContent], { type: "text/javascript" });
    this.worker = new Worker(URL.createObjectURL(source));
    this.waiting = new Map(); // number of a question → who waits for its answer
    this.count = 0;
    this.worker.onmessage = ({ data: answer }) => {
      const { resolve, told } = this.waiting.get(answer.number);
      if (answer.failed) find("notes").textContent = `The model failed: ${answer.failed}`;
      else if ("index" in answer) return told(answer);
      this.waiting.delete(answer.number);
      resolve(answer);
    };
  }

  /** A question's answer; told is called with each part of it that comes earlier. */
  ask(kind, question, told) {
    const asked = ++this.count;
    return new Promise(resolve => {
      this.waiting.set(asked, { resolve, told });
      this.worker.postMessage({ ...question, kind, number: asked });
    });
  }
}

const model = new Model();

// -------------------------------------------------------------------------------------------------
// From the text to the question

/** Tokenize what is typed, and hide some places; what was masked and put in belonged to another sentence. */
function typed(places = []) {
  const text = data.labels.length ? find("text").value.toLowerCase() : find("text").value;
  const ids = tokenizer.ids(text);
  state.ids = [CLS, ...ids.slice(0, data.most - 2), SEP];
  state.masked = new Set(places);
  state.put.clear();
  const notes = [];
  const unknown = ids.filter(id => id === UNK).length;
  if (!ids.length) notes.push("The sentence is empty: the model reads [CLS] and [SEP] only.");
  if (ids.length > data.most - 2) {
    notes.push(`${ids.length} tokens are too many: the model reads the first ${data.most - 2}.`);
  }
  if (unknown) {
    notes.push(`${unknown} of the words ${unknown > 1 ? "are" : "is"} [UNK]: signs, such as an emoji, or a script that the vocabulary does not have.`);
  }
  if (/[\p{Script=Hebrew}\p{Script=Arabic}]/u.test(text)) {
    notes.push("The tokens are shown from left to right, in the order in which the model reads them.");
  }
  find("notes").textContent = notes.join(" ");
  refresh();
}

/** Type an example; the word in braces is hidden. */
function take(example) {
  const [start, word] = example.split(/[{}]/);
  find("text").value = example.replace(/[{}]/g, "");
  const first = tokenizer.ids(start).length + 1; // behind [CLS]
  typed(word ? tokenizer.ids(word).map((_, i) => first + i) : []);
}

/** What the worker is asked: ids (L), which of them are real, heads that are off, masked places. */
function question() {
  const ids = state.ids.map((id, i) => state.put.get(i) ?? (state.masked.has(i) ? MASK : id));
  const places = ids.flatMap((id, i) => id === MASK ? [i] : []);
  const room = state.padding && state.view === "inside" ? Math.min(PADDING, data.most - ids.length) : 0;
  const padding = Array(Math.max(0, room)).fill(PAD);
  const real = [...ids.map(() => 1), ...padding.map(() => 0)];
  return { ids: [...ids, ...padding], real, off: [...state.off.values()], places };
}

let busy = false, again = false;

/** Ask, and show the answer; while the worker is busy only the newest question waits. */
async function refresh() {
  showPieces();
  again = true;
  if (busy) return;
  busy = true;
  while (again) {
    again = false;
    const asked = question();
    if (shown && JSON.stringify(asked) === JSON.stringify(shown.asked)) continue;
    const answer = await model.ask("run", asked);
    if (answer.failed) continue; // which has been said
    if (asked.off.length) answer.whole = await model.ask("run", { ...asked, off: [] });
    [before, shown] = [shown, { ...answer, asked }];
    state.piece = Math.min(state.piece, asked.ids.length - 1);
    if (!again) show();
  }
  busy = false;
}

// -------------------------------------------------------------------------------------------------
// Showing

const VIEWS = {
  mask: { name: "Mask", draw: showMask, hint: "Click a token to hide it behind a [MASK].", there: data.words },
  grammar: { name: "Grammar", draw: () => {}, hint: "Below, type its partner.", there: data.words },
  classes: { name: "Class", draw: showClasses, hint: "The class follows what you type.", there: data.labels.length > 0 },
  inside: { name: "Look inside", draw: showInside, hint: "Click the token that you want to follow.", there: true },
  attention: { name: "Attention", draw: showAttention, hint: "Click the token that reads.", there: true },
};

/** Draw the chosen view of the newest answer. */
function show() {
  showPieces();
  if (!shown) return;
  find("count").textContent = `${shown.asked.ids.length} tokens, ${Math.round(shown.milliseconds)} ms.`;
  document.body.dataset.answers = model.count; // for who waits: tests
  VIEWS[state.view].draw(shown, before);
}

/** The pieces of the sentence, as buttons: one Tab stop, arrow keys between them. */
function showPieces() {
  const row = find("pieces");
  const focused = Array.from(row.children).indexOf(document.activeElement);
  const { ids } = question();
  const stop = focused >= 0 ? focused : state.view === "mask" ? 1 : state.piece;
  row.replaceChildren();
  ids.forEach((id, i) => {
    const piece = data.pieces[id];
    const button = add(row, "button", { type: "button", className: "piece" });
    add(button, "bdi", {}, piece);
    button.classList.toggle("goes-on", piece.startsWith("##"));
    button.classList.toggle("special", id === CLS || id === SEP || id === PAD);
    button.classList.toggle("masked", id === MASK);
    button.classList.toggle("put", state.put.has(i));
    button.tabIndex = i === stop ? 0 : -1;
    if (state.view === "mask") {
      button.setAttribute("aria-pressed", id === MASK);
      button.disabled = id === CLS || id === SEP;
    } else if (i === state.piece && state.view !== "classes") button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => clickPiece(i));
    if (i === focused) button.focus();
  });
}

function clickPiece(place) {
  if (state.view !== "mask") return choosePiece(place);
  if (state.put.delete(place)) { // what was hidden or said before comes back
    if (state.ids[place] !== MASK) state.masked.add(place);
  } else if (!state.masked.delete(place) && state.ids[place] !== MASK) {
    state.masked.add(place);
  }
  find("notes").textContent = state.ids[place] === MASK ? "This [MASK] stands in the text: take it out there." : "";
  refresh();
}

function choosePiece(place) {
  state.piece = place;
  show();
}

function choose(view) {
  state.view = view;
  for (const tab of find("tabs").children) {
    const on = tab.id === `tab-${view}`;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    find(tab.id.slice(4)).hidden = !on;
  }
  find("hint").textContent = VIEWS[view].hint;
  if (!shown) return; // the first question is still to come
  refresh(); // padding belongs to one view
  show();
}

// -------------------------------------------------------------------------------------------------
// The controls

/** Arrow keys walk along the buttons of a row. */
function walk(row, chosen) {
  row.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = Array.from(row.children).filter(button => !button.disabled);
    const next = all.indexOf(document.activeElement) + step;
    all[Math.max(0, Math.min(all.length - 1, next))].focus();
    if (chosen) document.activeElement.click();
  });
}

function prepare() {
  const { config } = data;
  find("facts").textContent = `${(data.parameters / 1e6).toFixed(1)} million weights, ` +
    `${config.num_hidden_layers} layers of ${config.num_attention_heads} heads, vectors of ${config.hidden_size} numbers, ` +
    `${data.pieces.length.toLocaleString("en")} word pieces`;
  const views = Object.keys(VIEWS).filter(view => VIEWS[view].there);
  for (const view of views) {
    const tab = add(find("tabs"), "button", { type: "button", id: `tab-${view}` }, VIEWS[view].name);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", view);
    tab.addEventListener("click", () => choose(view));
  }
  data.sentences.forEach(text => add(find("samples"), "option", { value: text }, text.replace(/{.*}/, "[MASK]")));
  for (const [id, count] of [["layer", config.num_hidden_layers], ["head", config.num_attention_heads]]) {
    for (let i = 0; i < count; i++) add(find(id), "option", { value: i }, String(i + 1));
    find(id).addEventListener("change", () => { state[id] = Number(find(id).value); show(); });
  }
  find("samples").addEventListener("change", () => take(find("samples").value));
  find("text").addEventListener("input", () => typed());
  find("padding").addEventListener("change", () => { state.padding = find("padding").checked; refresh(); });
  find("back").addEventListener("click", () => goTo(stepNumber() - 1));
  find("next").addEventListener("click", () => goTo(stepNumber() + 1));
  find("measure").addEventListener("click", measure);
  find("leave").addEventListener("click", leaveOut);
  prepareGrammar();
  find("off").addEventListener("change", () => {
    const { layer, head } = state;
    if (!state.off.delete(`${layer}.${head}`)) state.off.set(`${layer}.${head}`, [layer, head]);
    refresh();
  });
  walk(find("pieces"));
  walk(find("tabs"), true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  model.ask("load", { weights: find("weights").textContent, table: data.table, config,
    has: { words: data.words, classes: data.labels.length > 0 } });
  choose(views[0]);
  take(data.sentences[0]);
}

prepare();
