// Charts by Observable Plot: success by what an attack may spend, quality against robustness, and trainings.
const report = (globalThis.report ??= {});
const { el, fill, data, get, set, title, choice } = report;

const { COLOURS } = report;
const DASHES = ["0", "5 3", "2 2", "7 2 2 2"];

function size(place) {
  return Math.max(280, Math.min(560, place.clientWidth || 480));
}

function plot(options) {
  const made = Plot.plot({ style: { background: "none", color: "currentColor", fontFamily: "inherit", fontSize: "11px", overflow: "visible" }, ...options });
  made.setAttribute("role", "img");
  for (const part of made.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label"); // an image has one label
  return made;
}

// What a chart shows, as a table that screen readers and keyboards reach.
function legend(names) {
  return el("ul", { class: "legend" }, names.map((name, i) => {
    const line = el("span", { class: "line", "aria-hidden": "true" });
    line.style.borderTopColor = COLOURS[i % COLOURS.length];
    line.style.borderTopStyle = ["solid", "dashed", "dotted", "double"][Math.floor(i / COLOURS.length) % 4];
    return el("li", {}, line, name);
  }));
}

function budgetChart(place) {
  const by = get("by", "queries");
  const of = data.curves.filter((curve) => curve.by === by);
  const tasks = [...new Set(of.map((curve) => curve.key[3]))];
  const attacks = [...new Set(of.map((curve) => curve.key[0]))];
  const task = tasks.includes(get("task")) ? get("task") : tasks.includes(get("ctask")) ? get("ctask") : tasks[0];
  const attack = attacks.includes(get("attack")) ? get("attack") : attacks.includes(get("cattack")) ? get("cattack") : attacks[0];
  const shown = of.filter((curve) => curve.key[0] === attack && curve.key[3] === task);
  const names = shown.map((curve) => report.victim(curve.key[1], curve.key[2]) + (curve.flagged ? " †" : ""));
  const points = shown.flatMap((curve, i) => curve.points.map((point) => ({ ...point, i, name: names[i] })));
  const least = d3.min(points.filter((point) => point.x > 1), (point) => point.x) ?? 2;
  const start = by === "queries" ? Math.max(1, least / 2) : 0;
  const chart = plot({
    width: size(place), height: 300, marginLeft: 42, marginBottom: 38,
    x: { type: by === "queries" ? "log" : "linear", domain: [start, d3.max(points, (point) => point.x)], label: by === "queries" ? "Queries allowed" : "Words changed", ticks: 6, tickFormat: "~s" },
    y: { domain: [0, 100], label: "ASR, %", grid: true, ticks: 5 },
    marks: [
      Plot.areaY(points.filter((point) => point.low !== null), { x: (p) => Math.max(start, p.x), y1: (p) => 100 * p.low, y2: (p) => 100 * p.high, z: "i", fill: (p) => COLOURS[p.i % 8], fillOpacity: 0.12, curve: "step-after" }),
      DASHES.map((dash, k) => Plot.line(points.filter((point) => point.y !== null && Math.floor(point.i / 8) % 4 === k), { x: (p) => Math.max(start, p.x), y: (p) => 100 * p.y, z: "i", stroke: (p) => COLOURS[p.i % 8], strokeWidth: 1.8, strokeDasharray: dash, curve: "step-after" })),
      Plot.tip(points, Plot.pointer({ x: (p) => Math.max(start, p.x), y: (p) => 100 * (p.y ?? 0), title: (p) => `${p.name}\n${p.x} ${by}: ASR ${d3.format(".1f")(100 * p.y)}% [${d3.format(".1f")(100 * p.low)}, ${d3.format(".1f")(100 * p.high)}]`, fill: "var(--card)", stroke: "var(--line)" })),
    ],
  });
  chart.setAttribute("aria-label", `Attack success rate by ${by}: ${title(attack)} on ${title(task)}`);
  const clear = { task: "", attack: "", encoder: "", finetune: "" };
  fill(place, el("h3", {}, "Success by what the attack may spend"),
    el("div", { class: "fields" },
      choice("Attack", attacks.map((name) => [name, title(name)]), attack, (value) => set({ ...clear, cattack: value, ctask: task })),
      choice("Task", tasks.map((name) => [name, title(name)]), task, (value) => set({ ...clear, ctask: value, cattack: attack })),
      choice("Spent", [["queries", "queries"], ["words", "words changed"]], by, (value) => set({ by: value === "queries" ? "" : value }))),
    el("div", { class: "chart" }, chart), legend(names),
    el("p", { class: "dim" }, `n ${[...new Set(d3.extent(shown, (curve) => curve.n))].join(" to ")}; bands are Wilson 95% intervals, at each budget by itself.${shown.some((curve) => curve.flagged) ? " †: flagged." : ""}`));
}

const flagged = (point) => `${point.xs}${point.ys}`.includes("†");

function frontChart(place) {
  const metric = data.metrics.find((one) => one.name === "aua");
  const clean = data.metrics.find((one) => one.name === "clean");
  const scored = new Map(data.quality.map((one) => [one.encoder, one]));
  const x = get("front", scored.size > 1 ? "sts" : "clean");
  const groups = d3.group(metric.cells.filter((cell) => cell.value !== null && cell.key[0] !== "any attack"), (cell) => cell.key[0]);
  const attack = groups.has(get("fattack")) ? get("fattack") : [...groups.keys()][0];
  const task = data.names.tasks.length > 1 && groups.get(attack).some((cell) => cell.key[3] === "") ? "" : data.names.tasks[0];
  const points = groups.get(attack).filter((cell) => cell.key[3] === task).map((cell) => {
    const quality = x === "sts" ? scored.get(cell.key[1]) : clean.cells.find((one) => JSON.stringify(one.key.slice(1)) === JSON.stringify(cell.key.slice(1)));
    return { name: report.victim(cell.key[1], cell.key[2]), x: quality?.value ?? null, xs: quality?.shown, xlow: quality?.low ?? null, xhigh: quality?.high ?? null, y: cell.value, ys: cell.shown, ylow: cell.low, yhigh: cell.high };
  }).filter((point) => point.x !== null).map((point, i) => ({ ...point, colour: COLOURS[i % COLOURS.length] }));
  const front = points.filter((point) => !points.some((other) => other !== point && other.x >= point.x && other.y >= point.y && (other.x > point.x || other.y > point.y)));
  const label = x === "sts" ? "Similarity (Spearman ×100)" : "Clean accuracy, %";
  const chart = plot({
    width: size(place), height: 300, marginLeft: 42, marginBottom: 38, inset: 12,
    // Both axes begin at 0, and every interval is drawn: a small difference looks small.
    x: { label, zero: true, nice: true, ticks: 5 }, y: { label: "AUA, %", grid: true, zero: true, nice: true, ticks: 5 },
    marks: [
      Plot.ruleX(points.filter((p) => p.ylow !== null), { x: (p) => 100 * p.x, y1: (p) => 100 * p.ylow, y2: (p) => 100 * p.yhigh, stroke: "colour", strokeOpacity: 0.7 }),
      Plot.ruleY(points.filter((p) => p.xlow !== null), { y: (p) => 100 * p.y, x1: (p) => 100 * p.xlow, x2: (p) => 100 * p.xhigh, stroke: "colour", strokeOpacity: 0.7 }),
      Plot.line(d3.sort(front, (p) => p.x), { x: (p) => 100 * p.x, y: (p) => 100 * p.y, stroke: "var(--accent)", strokeOpacity: 0.5, strokeDasharray: "4 3" }),
      Plot.dot(points, { x: (p) => 100 * p.x, y: (p) => 100 * p.y, r: 4.5, fill: (p) => front.includes(p) ? p.colour : "var(--card)", stroke: "colour", strokeWidth: 2, title: (p) => `${p.name}\n${label} ${p.xs}\nAUA ${p.ys}%`, tip: { fill: "var(--card)", stroke: "var(--line)" } }),
    ],
  });
  chart.setAttribute("aria-label", `Accuracy under ${title(attack)} against ${label}`);
  fill(place, el("h3", {}, "Quality and robustness"),
    el("div", { class: "fields" }, choice("Attack", [...groups.keys()].map((name) => [name, title(name)]), attack, (value) => set({ fattack: value })),
      scored.size > 1 ? choice("Quality", [["sts", "similarity"], ["clean", "clean accuracy"]], x, (value) => set({ front: value })) : null),
    el("div", { class: "chart" }, chart), legend(points.map((point) => point.name + (flagged(point) ? " †" : ""))),
    el("p", { class: "dim" }, `Filled: no encoder is better in both. ${task ? title(task) : "Averages over tasks"}, as in the tables. Bars are 95% intervals; an average over tasks has none.${points.some(flagged) ? " †: flagged, or an average with a flagged part." : ""}`));
}

function seriesChart(place) {
  const trainings = [...new Set(data.series.map((line) => line.training))];
  const training = trainings.includes(get("training")) ? get("training") : trainings[0];
  const lines = data.series.filter((line) => line.training === training);
  const groups = [...d3.group(lines, (line) => line.group)];
  fill(place, el("h3", {}, "Trainings"), el("div", { class: "fields" }, choice("Training", trainings.map((name) => [name, name]), training, (value) => set({ training: value }))),
    groups.map(([group, of]) => {
      const points = of.flatMap((line, i) => line.steps.map((step, k) => ({ step, value: line.values[k], i, name: line.name })));
      const chart = plot({ width: size(place), height: 170, marginLeft: 46, x: { label: "Step" }, y: { label: group, grid: true, ticks: 4 },
        marks: [Plot.line(points, { x: "step", y: "value", z: "i", stroke: (p) => COLOURS[p.i % 8] }),
          Plot.tip(points, Plot.pointer({ x: "step", y: "value", title: (p) => `${p.name}\nstep ${p.step}: ${d3.format(".3~g")(p.value)}`, fill: "var(--card)", stroke: "var(--line)" }))] });
      chart.setAttribute("aria-label", `${group} of ${training} by step`);
      return [el("div", { class: "chart" }, chart), legend(of.map((line) => line.name))];
    }));
}

report.drawCurves = function drawCurves() {
  const charts = document.getElementById("charts");
  const parts = [
    [data.curves.length, ["by", "task", "attack", "ctask", "cattack"], budgetChart],
    [data.metrics.some((one) => one.name === "aua") && data.names.encoders.length > 1, ["front", "fattack"], frontChart],
    [data.series.length, ["training"], seriesChart],
  ].filter(([there]) => there);
  if (!parts.length) return fill(charts, el("p", { class: "dim" }, "There is nothing to draw: the RUN has no numbers of attacks, and its trainings hold no series."));
  for (const [, names, draw] of parts) {
    const place = charts.appendChild(el("figure", { class: "panel" }));
    report.watch(names, () => draw(place));
    addEventListener("resize", () => draw(place));
  }
  return charts;
};
