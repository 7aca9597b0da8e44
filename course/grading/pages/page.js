function sortBy(head) {
  const table = head.closest("table"), body = table.tBodies[0];
  const number = head.classList.contains("number");
  const before = head.getAttribute("aria-sort");
  const upFirst = !number || head.classList.contains("rank");
  const up = before ? before === "descending" : upFirst;
  const value = row => row.cells[head.cellIndex].dataset.value;
  const order = (a, b) => number ? a - b : a.localeCompare(b, undefined, {numeric: true});
  const rows = Array.from(body.rows).sort((first, second) => {
    const a = value(first), b = value(second);
    if (a === "" || b === "") return (a === "") - (b === "");
    return up ? order(a, b) : order(b, a);
  });
  table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
}
document.querySelectorAll("th button").forEach(button =>
  button.addEventListener("click", () => sortBy(button.closest("th"))));
