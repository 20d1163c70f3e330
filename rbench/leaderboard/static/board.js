// Sorts and filters the tables of a leaderboard. Without it the tables stand in the order of their ranks.
const section = document.getElementById("leaderboard");
const value = (row, at) => {
  const cell = row.cells[at];
  if (cell.dataset.value === undefined) return cell.textContent.trim().toLowerCase();
  return cell.dataset.value === "" ? null : Number(cell.dataset.value);
};
const sort = (table, at, order) => {
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows].map((row) => [value(row, at), row]);
  rows.sort(([one], [other]) => {
    if (one === null || other === null) return (one === null) - (other === null); // what is missing comes last
    return sign * (one < other ? -1 : one > other ? 1 : 0);
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
  for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
  table.tHead.rows[0].cells[at].setAttribute("aria-sort", order);
};
for (const table of section.querySelectorAll("table.board")) {
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const other = now === "ascending" ? "descending" : "ascending";
      sort(table, at, now ? other : head.dataset.first);
    });
  });
  table.tHead.rows[0].cells[0].setAttribute("aria-sort", "ascending");
}
const find = section.querySelector(".find");
const [text, controls] = find.querySelectorAll("input");
const filter = () => {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...section.querySelectorAll("table.board tbody tr")];
  for (const row of rows) {
    const name = row.querySelector("th").textContent.toLowerCase();
    row.hidden = !words.every((word) => name.includes(word)) || (!controls.checked && row.classList.contains("control"));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  find.querySelector("[role=status]").textContent = shown === rows.length ? "" : `${shown} of ${rows.length} rows`;
};
text.addEventListener("input", filter);
controls.addEventListener("change", filter);
find.hidden = false;
