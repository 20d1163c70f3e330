// The steps of one attack: a slider over them, the text after each, and what the victim answered.
const report = (globalThis.report ??= {});
const { el, fill, data, get, set } = report;

// Places of changes count code points, as Python does.
const letters = (text) => Array.from(text);

// The columns after step `k`: their characters, and for each the step that made it (0: the original).
function after(one, k) {
  const columns = report.texts(one, false).map((text) => { const chars = letters(text); return { chars, made: chars.map(() => 0) }; });
  one.steps.slice(1, k + 1).forEach(([, , changes], i) => [...changes].reverse().forEach(([column, start, length, text]) => {
    const of = columns[column], made = letters(text);
    of.chars = [...of.chars.slice(0, start), ...made, ...of.chars.slice(start + length)];
    of.made = [...of.made.slice(0, start), ...made.map(() => i + 1), ...of.made.slice(start + length)];
  }));
  return columns;
}

report.stepTexts = (one, k) => after(one, k).map((column) => column.chars.join(""));

// What step `k` replaced, as pairs of texts.
function replaced(one, k) {
  if (k === 0) return [];
  const before = after(one, k - 1);
  return one.steps[k][2].map(([column, start, length, text]) => [before[column].chars.slice(start, start + length).join(""), text]);
}

// A column as nodes: words of earlier steps are marked, those of this step more so.
function marked({ chars, made }, k) {
  const nodes = [];
  for (let start = 0, end = 0; start < chars.length; start = end) {
    while (end < chars.length && made[end] === made[start]) end += 1;
    const nodesHere = report.visible(chars.slice(start, end).join(""));
    nodes.push(made[start] ? el("ins", { class: made[start] === k ? "now" : "earlier" }, nodesHere) : nodesHere);
  }
  return nodes;
}

const labels = (one) => data.names.labels[one.task] ?? [];
const number = (score) => score.toFixed(score >= 0.01 || score === 0 ? 2 : 4);

function said(one, k) {
  const [score, prediction] = one.steps[k];
  const names = labels(one);
  const victim = names.length ? `probability of ${names[one.label] ?? one.label} ${number(score)}, predicted ${names[prediction] ?? prediction}` : `score ${number(score)}`;
  return `Step ${k} of ${one.steps.length - 1}: ${victim}`;
}

// A bar for each step: probabilities from 0 to 1, scores of pairs up to the largest of them.
function bars(one, go) {
  const top = labels(one).length ? 1 : Math.max(...one.steps.map(([score]) => score), one.label ?? 0) || 1;
  return one.steps.map(([score], k) => el("span", { class: "step", title: said(one, k), onclick: () => go(k) },
    el("i", { style: `height: ${Math.round(100 * Math.max(0, score) / top)}%` })));
}

const bar = (one) => labels(one).length ? `the victim\u2019s probability of ${labels(one)[one.label] ?? one.label}` : "the victim\u2019s score";

let shown = null;

// The step in the address is that of an example (`12.3`: step 3 of example 12); of any other the last is shown.
function wanted(one) {
  const [index, k] = get("step").split(".");
  const most = one.steps.length - 1;
  return Number(index) === one.index && /^\d+$/.test(k ?? "") ? Math.min(most, Number(k)) : most;
}

// Says why an example that was attacked has no slider.
function missing(one) {
  if (!["succeeded", "failed"].includes(one.status)) return null;
  if (!one.text) return el("p", { class: "dim" }, "No steps are shown, because the page holds no texts.");
  return el("p", { class: "dim" }, "No steps are shown: the attack did not tell them.");
}

// Returns the slider of an example and the place of the text that it moves; `draw` makes that text of a heading and columns.
report.drawSteps = function drawSteps(one, draw) {
  shown = null;
  if (!one.text || !one.steps) return { slider: missing(one), side: null };
  const most = one.steps.length - 1;
  if (most === 0) return { slider: el("p", { class: "dim" }, "The attack kept no change."), side: null };
  const go = (k) => set({ step: k === most ? "" : `${one.index}.${k}` });
  const input = el("input", { type: "range", id: "step", min: 0, max: most, step: 1, value: wanted(one), oninput: () => go(Number(input.value)) });
  const chart = el("div", { class: "bars", "aria-hidden": "true" }, bars(one, go));
  const line = el("p", { class: "said", id: "step-said" });
  const side = el("div", { class: "side", id: "step-text" });
  shown = () => {
    const k = wanted(one);
    const text = said(one, k);
    input.value = String(k);
    input.setAttribute("aria-valuetext", text);
    [...chart.children].forEach((bar, i) => bar.classList.toggle("now", i === k));
    fill(line, text, replaced(one, k).flatMap(([old, made], i) => [i ? ", " : ". ", old ? el("del", {}, report.visible(old)) : "inserted", " ", made ? el("ins", { class: "now" }, report.visible(made)) : "removed"]));
    fill(side, draw(k === 0 ? "Before the attack" : k === most ? "After the attack" : `After step ${k} of ${most}`, after(one, k).map((column) => marked(column, k))));
  };
  shown();
  return { slider: el("div", { class: "steps" }, el("label", { for: "step" }, "Steps of the attack", el("span", { class: "dim" }, ` (bars: ${bar(one)} after each)`)), chart, input, line), side };
};

report.watch(["step"], () => shown?.());
