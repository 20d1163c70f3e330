// The heat table: encoders in rows, attacks below tasks in columns. A click on a number filters the examples.
const report = (globalThis.report ??= {});
const { el, fill, data, get, set, title } = report;

const metricOf = () => data.metrics.find((metric) => metric.name === get("metric", "asr")) ?? data.metrics[0];
const id = (key) => JSON.stringify(key);

function drawSwitch() {
  const current = metricOf();
  fill(document.getElementById("metrics"), data.metrics.map((metric) =>
    el("label", {}, el("input", { type: "radio", name: "metric", value: metric.name, checked: metric === current, onchange: () => set({ metric: metric.name === "asr" ? "" : metric.name }) }), metric.short)));
  const arrow = current.best === "lowest" ? "lower is more robust" : current.name === "clean" ? "higher is better" : "higher is more robust";
  fill(document.getElementById("metric-said"), el("span", {}, `${current.title}${current.percent ? ", %" : ""}: ${current.definition}; ${arrow}. `),
    el("b", {}, "Marked"), el("span", {}, `: ${current.bold}. Numbers are ${current.of}. Click a number for its examples, a heading to sort.${options()}${current.signs.map((said) => ` ${said}`).join("")}`));
}

// Options that the title of a strategy leaves out.
const options = () => data.names.finetunes.filter((name) => name.includes("[") && !title(name).includes("["))
  .map((name) => ` ${title(name)}: ${name.slice(name.indexOf("[") + 1, -1).replaceAll(",", ", ")}.`).join("");

// What a victim is before attacks has a column under no attack.
const headOf = (attack, metric) => (attack ? title(attack) : metric.short);

// The columns: [task, attack]. Averages, where there are any, come first, so that a narrow window shows them.
function columnsOf(metric) {
  const there = new Set(metric.cells.map((cell) => id([cell.key[0], cell.key[3]])));
  const attacks = [...new Set([...data.names.attacks, ...metric.cells.map((cell) => cell.key[0])])];
  return ["", ...data.names.tasks].map((task) => [task, attacks.filter((attack) => there.has(id([attack, task])))])
    .filter(([, of]) => of.length);
}

function rowsOf(metric, cells) {
  const victims = new Map();
  for (const encoder of data.names.encoders)
    for (const finetune of data.names.finetunes)
      if (metric.cells.some((cell) => cell.key[1] === encoder && cell.key[2] === finetune))
        victims.set(report.several ? id([encoder, finetune]) : encoder, { encoder, finetunes: report.several ? [finetune] : data.names.finetunes });
  const rows = [...victims.values()];
  const [task, attack] = sorting();
  if (attack === null) return rows;
  const sign = get("order") === "up" ? 1 : -1;
  const value = (row) => cellOf(cells, row, attack, task)?.value ?? null;
  return rows.sort((a, b) => (value(a) === null) - (value(b) === null) || sign * (value(a) - value(b)));
}

function sorting() {
  let found = null;
  try { found = JSON.parse(get("sort", "null")); } catch { /* the end of the link is lost */ }
  return Array.isArray(found) ? found : [null, null];
}

function cellOf(cells, row, attack, task) {
  for (const finetune of row.finetunes) {
    const found = cells.get(id([attack, row.encoder, finetune, task]));
    if (found) return found;
  }
  return null;
}

function sortBy(task, attack) {
  const same = get("sort") === JSON.stringify([task, attack]);
  if (same && get("order") === "up") set({ sort: "", order: "" });
  else set({ sort: JSON.stringify([task, attack]), order: same ? "up" : "" });
}

function headings(groups, metric) {
  const top = el("tr", {}, el("th", { scope: "col", rowspan: 2, class: "name" }, "Encoder"),
    groups.map(([task, attacks]) => el("th", { scope: "colgroup", colspan: attacks.length, class: "group" }, task ? title(task) : "Average over tasks")));
  const below = el("tr", {}, groups.map(([task, attacks]) => attacks.map((attack, i) => {
    const sorted = get("sort") === JSON.stringify([task, attack]);
    const order = sorted ? (get("order") === "up" ? "ascending" : "descending") : "none";
    return el("th", { scope: "col", "aria-sort": order, class: i ? "" : "first" },
      el("button", { type: "button", onclick: () => sortBy(task, attack), title: `Sort by ${headOf(attack, metric)}` }, el("span", {}, headOf(attack, metric)), el("i", { "aria-hidden": "true" }, sorted ? (get("order") === "up" ? "▲" : "▼") : "")));
  })));
  return el("thead", {}, top, below);
}

function said(cell, metric) {
  const [attack, encoder, finetune, task] = cell.key;
  const parts = [`${report.victim(encoder, finetune)}${task ? `, ${title(task)}` : ""}${attack ? `, ${title(attack)}` : ""}: ${metric.title} ${cell.shown}${metric.percent && cell.value !== null ? "%" : ""}`];
  if (cell.interval) parts.push(`95% interval ${cell.interval}`);
  if (cell.n !== null) parts.push(`n ${cell.n}`);
  if (cell.skipped) parts.push(`${cell.skipped} skipped`);
  if (cell.errored) parts.push(`${cell.errored} errored`);
  if (cell.seeds > 1) parts.push(`${cell.seeds} seeds`);
  if (cell.best) parts.push("marked");
  if (cell.flags?.length) parts.push(`flagged ${cell.flags.join(", ")}`);
  return parts.join(" · ");
}

function number(cell, metric, scale, first) {
  if (!cell) return el("td", { class: first ? "none first" : "none" }, "–");
  const [attack, encoder, finetune, task] = cell.key;
  const text = said(cell, metric);
  const show = () => { document.getElementById("cell-said").textContent = text; };
  const [ofAttack, ofFinetune] = [attack === "any attack" ? "" : attack, report.several ? finetune : ""];
  const chosen = task && get("task") === task && get("attack") === ofAttack && get("encoder") === encoder && get("finetune") === ofFinetune;
  const go = () => { set(chosen ? { task: "", attack: "", encoder: "", finetune: "", page: "", at: "" }
    : { task, attack: ofAttack, encoder, finetune: ofFinetune, page: "", at: "" }); };
  const face = el("span", {}, cell.shown);
  const inner = task ? el("button", { type: "button", title: text, "aria-label": text, "aria-pressed": Boolean(chosen) || "false", onclick: go, onfocus: show }, face)
    : el("span", { class: "face", title: text }, face);
  const made = el("td", { class: [cell.best ? "best" : "", first ? "first" : "", chosen ? "chosen" : ""].join(" ").trim(), "data-key": id(cell.key), "data-value": cell.value, onmouseenter: show }, inner);
  if (cell.value !== null && scale) made.style.setProperty("--heat", `${scale(cell.value)}%`);
  return made;
}

// A long list of options may break after a comma rather than inside a word.
const breakable = (text) => text.split(/(?<=,)/).map((part, i) => (i ? [el("wbr"), part] : part));

function drawTable() {
  const metric = metricOf();
  const cells = new Map(metric.cells.map((cell) => [id(cell.key), cell]));
  const groups = columnsOf(metric);
  const values = metric.cells.map((cell) => cell.value).filter((value) => value !== null);
  const range = metric.percent ? [0, 1] : d3.extent(values);
  const scale = values.length ? d3.scaleLinear(range[0] === range[1] ? [range[0] - 1, range[1]] : range, [4, 62]).clamp(true) : null;
  fill(document.getElementById("heat"), el("caption", { class: "sr" }, `${metric.title} by encoder, task and attack`), headings(groups, metric),
    el("tbody", {}, rowsOf(metric, cells).map((row) => el("tr", {},
      el("th", { scope: "row", class: "name", title: row.encoder }, breakable(report.victim(row.encoder, row.finetunes[0]))),
      groups.map(([task, attacks]) => attacks.map((attack, i) => number(cellOf(cells, row, attack, task), metric, scale, i === 0)))))));
}

report.drawHeat = function drawHeat() {
  if (!data.metrics.length) return;
  report.watch(["metric"], drawSwitch);
  report.watch(["metric", "sort", "order", "task", "attack", "encoder", "finetune"], drawTable);
};

// The tables of measures: one at a time, which the address names.
report.drawMeasures = function drawMeasures() {
  const tabs = document.getElementById("tabs");
  if (!tabs) return;
  const tables = [...document.querySelectorAll(".measure")];
  report.watch(["measure"], () => {
    const current = tables.find((one) => one.dataset.measure === get("measure")) ?? tables[0];
    for (const one of tables) one.hidden = one !== current;
    fill(tabs, tables.map((one) => el("label", {}, el("input", { type: "radio", name: "measure", value: one.dataset.measure, checked: one === current,
      onchange: () => set({ measure: one === tables[0] ? "" : one.dataset.measure }) }), one.dataset.tab)));
  });
};
