const data = JSON.parse(document.getElementById("data").textContent);
const { layers, heads, tokens } = data;
const bytes = Uint8Array.from(atob(data.maps), c => c.charCodeAt(0));
const length = tokens.length;
const at = { layer: 0, head: -1, token: 0 };
const find = id => document.getElementById(id);
const add = (parent, tag, text) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
};
// what token `from` gives token `to` to say, in head `head` of the chosen layer
const share = (head, from, to) =>
  bytes[((at.layer * heads + head) * length + from) * length + to] / 255;
const mean = (from, to) => {
  let sum = 0;
  for (let head = 0; head < heads; head++) sum += share(head, from, to);
  return sum / heads;
};
const shade = (element, value) => {
  element.style.backgroundColor = `rgb(var(--blue) / ${value})`;
  element.style.color = value > 0.75 ? "var(--paper)" : "";
};
const percent = value => `${Math.round(100 * value)} %`;

function draw() {
  const chosen = to => at.head < 0 ? mean(at.token, to) : share(at.head, at.token, to);
  buttons.forEach((button, to) => {
    shade(button, chosen(to));
    button.title = percent(chosen(to));
    button.tabIndex = to === at.token ? 0 : -1;
    if (to === at.token) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  });
  rows.forEach((cells, head) => {
    cells[0].parentElement.className = head === at.head ? "chosen" : "";
    cells.forEach((cell, to) => {
      shade(cell, share(head, at.token, to));
      cell.title = `head ${head + 1}: ${percent(share(head, at.token, to))}`;
    });
  });
  const best = tokens.map((token, to) => [chosen(to), token]).sort((a, b) => b[0] - a[0]);
  find("said").textContent = `Layer ${at.layer + 1}, ` +
    (at.head < 0 ? "mean of all heads" : `head ${at.head + 1}`) +
    `: “${tokens[at.token]}” attends to ` +
    best.slice(0, 3).map(([value, token]) => `“${token}” ${percent(value)}`).join(", ");
}

function choices(id, count, name, first) {
  for (let i = first; i < count; i++) {
    const label = add(find(id), "label");
    const input = add(label, "input");
    Object.assign(input, { type: "radio", name: id, checked: i === first });
    label.append(i < 0 ? " all" : ` ${i + 1}`);
    input.addEventListener("change", () => { at[name] = i; draw(); });
  }
}

function point(to) { at.token = to; draw(); }

choices("layers", layers, "layer", 0);
choices("heads", heads, "head", -1);
const buttons = tokens.map((token, to) => {
  const button = add(find("sentence"), "button", token);
  button.className = "token";
  button.addEventListener("mouseenter", () => point(to));
  button.addEventListener("focus", () => point(to));
  return button;
});
find("sentence").addEventListener("keydown", event => {
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -length, End: length }[event.key];
  if (!step) return;
  event.preventDefault();
  buttons[Math.max(0, Math.min(length - 1, at.token + step))].focus();
});
const rows = [];
for (let head = 0; head < heads; head++) {
  const row = add(find("each"), "tr");
  add(row, "th", `head ${head + 1}`).scope = "row";
  rows.push(tokens.map(token => add(row, "td", token)));
}
draw();
