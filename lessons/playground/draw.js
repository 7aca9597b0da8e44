// What all views draw with: elements, bars, and pictures of matrices whose cells explain themselves.

const find = id => document.getElementById(id);

/** A new element inside another. */
function add(parent, tag, properties = {}, text = "") {
  const element = Object.assign(document.createElement(tag), properties);
  if (text) element.textContent = text;
  parent.append(element);
  return element;
}

/** The same for SVG, whose properties are attributes. */
function draw(parent, tag, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  parent.append(element);
  return element;
}

const percent = p => p > 0.0995 ? `${Math.round(100 * p)} %` :
  p >= 0.001 ? `${(100 * p).toFixed(1)} %` : p > 0 ? "< 0.1 %" : "0 %";
const number = x => (Math.abs(x) >= 100 ? x.toFixed(1) : x.toFixed(3)).replace("-", "−");
const signed = x => (x < 0 ? "−" : "+") + percent(Math.abs(x));

/** A colour of the page's style, "blue" or "orange", as three bytes. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
    .split(" ").map(Number);
}

/** Paint a matrix into a canvas, one pixel a cell: blue is positive, orange negative. */
function paint(canvas, data, rows, columns, most) {
  Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const plus = colour("blue"), minus = colour("orange");
  for (let i = 0; i < rows * columns; i++) {
    const strength = Math.min(1, Math.abs(data[i]) / most) ** 0.7; // so that small ones are seen
    image.data.set([...(data[i] < 0 ? minus : plus), 255 * strength], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

/** What 99 in 100 numbers do not exceed: trained models have a few that are far larger than all others. */
function nearlyLargest(numbers) {
  const sizes = numbers.map(Math.abs).sort();
  return sizes[Math.floor(0.99 * (sizes.length - 1))] || 1e-9;
}

/**
 * Bars with names and values; a mark shows what the value was before.
 * @param {Array} rows of {name, value, before, says, action}: a share from −1 to 1, its text, and
 *   what a click on the name does
 * @param {number} most what a full bar stands for
 */
function bars(parent, rows, most = 1) {
  const table = add(parent, "div", { className: "bars" });
  for (const { name, value, before, says, action } of rows) {
    const label = action ? add(table, "button", { className: "name", type: "button" }, name) :
      add(table, "span", { className: "name" }, name);
    if (action) {
      label.addEventListener("click", action);
      label.setAttribute("aria-label", `put in “${name}”, ${says}`);
    }
    const track = add(table, "span", { className: "track" });
    const bar = add(track, "i", { className: value < 0 ? "minus" : "" });
    bar.style.width = `${100 * Math.min(1, Math.abs(value) / most)}%`;
    if (before !== undefined) {
      add(track, "b", { title: `before: ${percent(before)}` }).style.left =
        `${100 * Math.min(1, before / most)}%`;
    }
    add(table, "span", { className: "value" }, says);
  }
}

/**
 * A picture of a matrix. Its cells explain themselves to the pointer and to the arrow keys.
 * @param {Object} what title; shape, in words; data, rows × columns numbers; names and below, of rows
 *   and columns; chosen, a row; most, what is darkest; square, for maps; say, the element that is
 *   told what explain(row, column) gives (a text, or a promise of one)
 */
function heat(parent, what) {
  const { title, shape, data, rows, columns, names, below, chosen, square, explain, say } = what;
  const figure = add(parent, "figure", { className: square ? "heat square" : "heat" });
  const caption = add(figure, "figcaption", {}, title);
  add(caption, "span", {}, shape);
  const body = add(figure, "div", { className: "body" });
  const height = square ? 0 : Math.max(3, Math.min(17, 340 / rows)); // pixels a row
  const side = add(body, "div", { className: "names" });
  side.style.gridTemplateRows = `repeat(${rows}, minmax(0, 1fr))`;
  if ((square ? 420 / rows : height) >= 9) {
    names.forEach((name, i) => add(side, "span", { className: i === chosen ? "chosen" : "" }, name));
  }
  const picture = add(body, "div", { className: "picture" });
  const canvas = add(picture, "canvas", { tabIndex: 0 });
  if (square) canvas.style.aspectRatio = `${columns} / ${rows}`;
  else canvas.style.height = `${rows * height}px`;
  const most = what.most ?? nearlyLargest(data);
  paint(canvas, data, rows, columns, most);
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", `${title}, ${shape}; arrow keys read the numbers`);
  if (below && columns <= 40) {
    const feet = add(body, "div", { className: "below" });
    feet.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    below.forEach(name => add(feet, "span", {}, name));
  }

  const cursor = add(picture, "div", { className: "cursor", hidden: true });
  const at = { row: chosen ?? 0, column: 0 };
  let asked = 0;
  async function point(row, column) {
    Object.assign(at, { row, column });
    cursor.hidden = false;
    Object.assign(cursor.style, {
      left: `${100 * column / columns}%`, width: `${100 / columns}%`,
      top: `${100 * row / rows}%`, height: `${100 / rows}%`,
    });
    const mine = ++asked;
    const text = await explain(row, column);
    if (mine === asked) say.textContent = text;
  }
  const cell = event => {
    const box = canvas.getBoundingClientRect();
    const inside = (place, size, count) => Math.max(0, Math.min(count - 1, Math.floor(count * place / size)));
    return [inside(event.clientY - box.top, box.height, rows),
      inside(event.clientX - box.left, box.width, columns)];
  };
  canvas.addEventListener("pointermove", event => point(...cell(event)));
  canvas.addEventListener("pointerdown", event => point(...cell(event)));
  canvas.addEventListener("pointerleave", () => { cursor.hidden = true; });
  canvas.addEventListener("focus", () => point(at.row, at.column));
  canvas.addEventListener("blur", () => { cursor.hidden = true; });
  canvas.addEventListener("keydown", event => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      Home: [0, -columns], End: [0, columns] }[event.key];
    if (!step) return;
    event.preventDefault();
    point(Math.max(0, Math.min(rows - 1, at.row + step[0])),
      Math.max(0, Math.min(columns - 1, at.column + step[1])));
  });
  return figure;
}
