// Two encoders, or two strategies of the only one, text by text: the fourfold table, the test, and the texts that fell
// with one alone.
const report = (globalThis.report ??= {});
const { el, fill, data, get, set, title, choice } = report;

const axis = data.names.encoders.length > 1 ? "encoder" : "finetune";
const names = axis === "encoder" ? data.names.encoders : data.names.finetunes;

function chosen() {
  const one = names.includes(get("a")) ? get("a") : names[0];
  const other = names.includes(get("b")) && get("b") !== one ? get("b") : names.find((name) => name !== one);
  return [one, other];
}

// The pair as it was compared: always the one that tables show first against the other.
const pairOf = (one, other) => data.pairs.find((pair) => (pair.one === one && pair.other === other) || (pair.one === other && pair.other === one));

function fourfold(cell, pair) {
  if (!cell.fourfold) return el("p", { class: "dim" }, "No fourfold table: the RUN keeps no outcomes of this cell.");
  const [both, first, second, neither] = cell.fourfold;
  const [one, other] = [title(pair.one), title(pair.other)];
  return el("table", { class: "fourfold" }, el("caption", {}, `n ${cell.n}: examples that both classify correctly`),
    el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, `fell with ${other}`), el("th", { scope: "col" }, "held"))),
    el("tbody", {}, el("tr", {}, el("th", { scope: "row" }, `fell with ${one}`), el("td", {}, both), el("td", { class: "alone" }, first)),
      el("tr", {}, el("th", { scope: "row" }, "held"), el("td", { class: "alone" }, second), el("td", {}, neither))));
}

const cellName = (cell) => `${cell.task}/${cell.finetune}/${cell.attack}`;

function cellRow(cell, current) {
  const name = `${title(cell.task)}, ${title(cell.attack)}${report.several && cell.finetune ? `, ${title(cell.finetune)}` : ""}`;
  return el("tr", { class: cell === current ? "chosen" : "" },
    el("th", { scope: "row" }, el("button", { type: "button", class: "link", "aria-pressed": cell === current ? "true" : "false", onclick: () => set({ cell: cellName(cell) }) }, name)),
    [cell.n, cell.one, cell.other, cell.difference, cell.interval, cell.p, cell.verdict, cell.smallest].map((value) => el("td", {}, value)));
}

// The examples that fell with one of the two and held with the other: trainings are matched as `rbench compare` does.
report.fellAlone = function fellAlone(pair, cell) {
  const alike = (one) => one.task === cell.task && one.attack === cell.attack && (axis === "finetune" || one.finetune === cell.finetune);
  const of = (name) => report.examples.filter((one) => one[axis] === name && alike(one));
  const [mine, theirs] = [of(pair.one), of(pair.other)];
  const trainings = (rows) => [...new Set(rows.map((one) => one.training ?? 0))].sort((a, b) => a - b);
  const [a, b] = [trainings(mine), trainings(theirs)];
  const matched = Math.min(a.length, b.length) > 1 ? d3.zip(a, b) : d3.cross(a, b);
  const unit = (training, one) => JSON.stringify([training, one.seed, one.example]);
  const others = new Map(theirs.map((one) => [unit(one.training ?? 0, one), one]));
  const found = [[], []];
  for (const [first, second] of matched)
    for (const one of mine.filter((row) => (row.training ?? 0) === first)) {
      const other = others.get(unit(second, one));
      if (!other) continue;
      if (one.status === "succeeded" && other.status === "failed") found[0].push(one);
      if (one.status === "failed" && other.status === "succeeded") found[1].push(other);
    }
  return found;
};

function list(name, rows, count) {
  const more = count !== undefined && rows.length < count ? ` (${rows.length} of them are in this page)` : "";
  return el("div", {}, el("h4", {}, `Fell only with ${title(name)}: ${count ?? rows.length}${more}`),
    rows.length ? el("ol", { class: "fell" }, rows.map((one) => el("li", {}, el("button", { type: "button", class: "link", onclick: () => report.openExample(one) },
      report.snippet(one, 110))))) : el("p", { class: "dim" }, "None."));
}

function draw() {
  const place = document.getElementById("compare");
  if (names.length < 2) return fill(place, el("p", { class: "dim" }, "The RUN attacked one encoder. Compare it with another RUN: rbench report RUN RUN2."));
  if (!data.pairs.length) return fill(place, el("p", { class: "dim" }, "There is nothing to compare: the RUN has no numbers of attacks. The reason stands above."));
  const [one, other] = chosen();
  const options = names.map((name) => [name, title(name)]);
  const fields = el("div", { class: "fields" }, choice("First", options, one, (value) => set({ a: value, b: value === other ? one : other })),
    choice("Second", options, other, (value) => set({ b: value, a: value === one ? other : one })));
  const pair = pairOf(one, other);
  if (!pair || pair.missing) return fill(place, fields, el("p", { class: "note" }, pair?.missing || `These two are not in the report. They can be compared: rbench compare RUN --between ${one} ${other}`));
  const current = pair.cells.find((cell) => cellName(cell) === get("cell")) ?? pair.cells[0];
  const fell = report.fellAlone(pair, current);
  const header = ["Task and attack", "n", title(pair.one), title(pair.other), "Difference", "95% interval", "p (Holm)", "Verdict", "Could show"];
  return fill(place, fields,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Comparisons by cell" }, el("table", { class: "plain" },
      el("caption", { class: "sr" }, `Attack success rate of ${title(pair.one)} and ${title(pair.other)}`),
      el("thead", {}, el("tr", {}, header.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, pair.cells.map((cell) => cellRow(cell, current))))),
    el("div", { class: "columns", id: "paired" },
      el("div", {}, el("h3", {}, `${title(current.task)}, ${title(current.attack)}`), fourfold(current, pair),
        el("p", {}, `${current.fourfold ? `On the ${current.n} that both classify correctly, ` : ""}${title(pair.other)} less ${title(pair.one)}: ASR ${current.difference || "n/a"} points${current.interval ? `, 95% interval ${current.interval}` : ""}; p ${current.p || "n/a"} (${current.test}, Holm for ${pair.cells.length} cells): ${current.verdict}.`)),
      report.examples.length ? el("div", {}, list(pair.one, fell[0], current.fourfold?.[1]), list(pair.other, fell[1], current.fourfold?.[2])) : null),
    el("details", {}, el("summary", {}, "Notes"), el("p", { class: "dim" }, "ASR in %. Could show: the smallest true difference that such a sample shows with a power of 80%. ", pair.notes.join(" "))));
}

report.drawCompare = () => report.watch(["a", "b", "cell"], draw);
