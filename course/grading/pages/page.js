const text = (row, column) => row.cells[column].textContent.trim();
function compare(a, b) {
  const [x, y] = [Number(a), Number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, {numeric: true}) : x - y;
}
document.querySelectorAll("th button").forEach(button => button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0], column = head.cellIndex;
  const up = head.getAttribute("aria-sort") === "descending", sign = up ? 1 : -1;
  const order = (a, b) => (a === "–") - (b === "–") || sign * compare(a, b);  // dashes are last
  const rows = [...body.rows].sort((a, b) => order(text(a, column), text(b, column)));
  head.parentNode.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
}));
