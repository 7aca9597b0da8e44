// What a classifier says: its classes, what each piece does to them, and the sentence among others.

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b"];
const MARKS = [ // one for each colour, since colours alone do not tell classes apart
  "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0", "M-3.6-3.6H3.6V3.6H-3.6Z", "M0-4.6L4.4 3.4H-4.4Z",
  "M0-5L4.4 0L0 5L-4.4 0Z", "M-4.6-3.4H4.6L0 4.6Z", "M-5-1.6H5V1.6H-5Z", "M-1.6-5H1.6V5H-1.6Z",
];
const STAR = "M0-11L2.7-3.6L10.5-3.4L4.3 1.4L6.5 8.9L0 4.5L-6.5 8.9L-4.3 1.4L-10.5-3.4L-2.7-3.6Z";

/** The probabilities of the classes, with a mark at those of an earlier answer. */
function classBars(parent, now, before) {
  bars(parent, data.labels.map((name, i) => ({
    name, value: now.classes[i], says: percent(now.classes[i]), before: before?.classes[i],
  })));
}

function showClasses(now, before) {
  find("probabilities").replaceChildren();
  find("left").replaceChildren();
  classBars(find("probabilities"), now, before);
  if (before) addKey(find("probabilities"), "before the last change");
  if (data.points) showPoints(now);
}

/** Leave out each piece in turn: what happens to the class that was found with all of them? */
async function leaveOut() {
  const { asked, classes } = shown;
  const best = classes.indexOf(Math.max(...classes));
  const places = asked.ids.slice(1, -1).map((_, i) => i + 1);
  const sentences = places.map(place => ({ ids: asked.ids.filter((_, i) => i !== place) }));
  const found = [];
  const answer = await model.ask("each", { sentences, off: asked.off }, told => {
    found[told.index] = told.found;
    find("left").textContent = `${found.length} of ${places.length} …`;
  });
  if (!answer.done || shown.asked !== asked) return;
  find("left").replaceChildren();
  add(find("left"), "p", { className: "soft" },
    `Change of “${data.labels[best]}” (${percent(classes[best])} with all tokens):`);
  bars(find("left"), places.map((place, i) => {
    const change = found[i][best] - classes[best];
    const now = found[i].indexOf(Math.max(...found[i]));
    const turns = now === best ? "" : ` → ${data.labels[now]}`;
    return { name: data.pieces[asked.ids[place]], value: change, says: signed(change) + turns };
  }), Math.max(...places.map((_, i) => Math.abs(found[i][best] - classes[best])), 0.1));
}

/** Two principal components of a vector, by the directions that were found on the dev set. */
function project(vector) {
  const { mean, directions } = data.points;
  return directions.map(axis => axis.reduce((sum, a, i) => sum + a * (vector[i] - mean[i]), 0));
}

/** The [CLS] vectors of the dev set before and after fine-tuning, and the sentence's among them. */
function showPoints(now) {
  const { points } = data;
  const own = project(now.trace.layers.at(-1).output.data.subarray(0, data.config.hidden_size));
  find("points").replaceChildren();
  for (const [name, title] of [["before", "Before fine-tuning"], ["after", "After fine-tuning"]]) {
    if (!points[name]) continue;
    const card = add(find("points"), "div", { className: "card" });
    add(card, "h3", {}, `${title}: ${points.texts.length} sentences of the dev set`);
    scatter(card, points[name], name === "after" ? own : null);
    const legend = add(card, "div", { className: "legend" });
    data.labels.forEach((label, i) => {
      const entry = add(legend, "span");
      draw(draw(entry, "svg", { viewBox: "-7 -7 14 14" }), "path", markOf(i));
      entry.append(` ${label}`);
    });
    add(card, "p", { className: "soft" }, name === "after" ?
      "Each point is a sentence's last [CLS] vector, the two directions in which they differ most. " +
      "The star is your sentence. A point's colour and shape are its true class." :
      "The same sentences by the model that was fine-tuned. Your sentence is not among them: the " +
      "page holds the weights of the fine-tuned model only.");
  }
}

const markOf = i => ({ d: MARKS[i % MARKS.length], fill: COLOURS[i % COLOURS.length] });

function scatter(parent, points, own) {
  const all = own ? [...points, own] : points;
  const [xs, ys] = [0, 1].map(axis => all.map(point => point[axis]));
  const scale = (values, size) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return v => 12 + (size - 24) * (v - low) / (high - low || 1);
  };
  const [x, y] = [scale(xs, 400), scale(ys, 300)];
  const picture = draw(parent, "svg", { viewBox: "0 0 400 300", class: "points", tabindex: 0,
    role: "application", "aria-label": "Sentences as points; arrow keys read them" });
  const marks = points.map(([a, b], i) => draw(picture, "path",
    { ...markOf(data.points.classes[i]), transform: `translate(${x(a)} ${y(b)})`, opacity: 0.8 }));
  if (own) {
    draw(picture, "path", { d: STAR, class: "here", transform: `translate(${x(own[0])} ${y(own[1])})` });
  }
  let at = 0;
  const say = i => {
    marks[at].removeAttribute("stroke-width");
    at = i;
    find("said-points").textContent =
      `${data.labels[data.points.classes[i]]}: ${data.points.texts[i]}`;
  };
  marks.forEach((mark, i) => mark.addEventListener("pointerenter", () => say(i)));
  picture.addEventListener("focus", () => say(at));
  picture.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10 }[event.key];
    if (!step) return;
    event.preventDefault();
    say((at + step + marks.length) % marks.length);
  });
}
