// One example: its texts with the changed words marked, and all that is known of it.
const report = (globalThis.report ??= {});
const { el, fill, data, get, title } = report;

// The pieces of a text as nodes: old words struck through, new ones marked. `side` is "old", "new" or "both".
function marked(pieces, side) {
  return pieces.flatMap((piece) => {
    if (typeof piece === "string") return report.visible(piece);
    const [old, made] = piece;
    return [
      old && side !== "new" ? el("del", {}, report.visible(old)) : null,
      made && side !== "old" ? el("ins", {}, report.visible(made)) : null,
    ];
  });
}

// A heading, and below it the columns of a text, each as nodes.
function titled(one, heading, texts) {
  const columns = data.names.columns[one.task] ?? [];
  return [el("h3", {}, heading), ...texts.map((nodes, i) =>
    el("p", { class: "data", dir: "auto" }, texts.length > 1 ? el("b", { class: "column" }, `${columns[i] ?? i} `) : null, nodes))];
}

const text = (one, side, heading) => el("div", { class: "side" }, titled(one, heading, one.text.map((pieces) => marked(pieces, side))));

// The steps as outcomes.jsonl has them.
const steps = (one) => one.steps && one.steps.map(([score, prediction, changes]) => ({ score, prediction, changes: changes.map(([column, start, length, made]) => ({ column, start, end: start + length, new: made })) }));

const label = (one, value) => value === null || value === undefined ? "" : Number.isInteger(value) ? data.names.labels[one.task]?.[value] ?? String(value) : String(Math.round(1000 * value) / 1000);

function facts(one) {
  const scored = !(data.names.labels[one.task]?.length);
  const oracle = one.oracle === null ? "" : one.oracle === one.label ? "the true label holds" : `the true label is now ${label(one, one.oracle)}`;
  return [["Label", label(one, one.label)], [scored ? "Score before" : "Predicted before", label(one, one.before)], [scored ? "Score after" : "Predicted after", label(one, one.after)],
    ["Queries", one.queries], ["Words changed", `${one.changed} of ${one.words}`], ["Similarity", one.similarity], ["Fall of the score", one.drop], ["Oracle", oracle],
    ["Seed", one.training === null ? one.seed : `${one.seed}, training ${one.training}`], ["Example", one.example], ["Reason", one.reason]]
    .filter(([, value]) => value !== "" && value !== null && value !== undefined);
}

function asJson(one) {
  const named = (texts) => texts && Object.fromEntries(texts.map((value, i) => [data.names.columns[one.task]?.[i] ?? `text${i}`, value]));
  const { encoder, finetune, task, attack, seed, training, example, status, reason, label: gold, before, after, queries, words, changed, similarity, oracle } = one;
  return JSON.stringify({ suite: data.suite, encoder, finetune, task, attack, seed, train_seed: training, example_id: example, status, reason, label: gold,
    original_prediction: before, perturbed_prediction: after, num_queries: queries, num_words: words, num_words_changed: changed, similarity, oracle_label: oracle,
    original: named(report.texts(one, false)), perturbed: named(report.texts(one, true)), steps: steps(one) }, null, 1);
}

async function copy(event, one) {
  const button = event.target;
  const content = asJson(one);
  try {
    await navigator.clipboard.writeText(content);
    button.textContent = "Copied";
  } catch {
    const area = document.body.appendChild(el("textarea", { "aria-label": "The example as JSON" }));
    area.value = content;
    area.select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Not allowed here";
    area.remove();
  }
  setTimeout(() => { button.textContent = "Copy as JSON"; }, 1500);
}

report.asJson = asJson;
report.drawDetail = function drawDetail(place, one) {
  if (!one) return fill(place, el("p", { class: "dim" }, "No example matches the filters."));
  const link = get("at") === String(one.index) ? null : el("p", { class: "dim" }, "The first that matches; choose another below.");
  const { slider, side } = report.drawSteps(one, (heading, texts) => titled(one, heading, texts));
  return fill(place, el("article", { class: "example", "data-index": one.index },
    el("header", {}, el("span", { class: `status ${one.status}` }, one.status), el("b", {}, `${report.victim(one.encoder, one.finetune)} · ${title(one.task)} · ${title(one.attack)}`),
      el("button", { type: "button", onclick: (event) => copy(event, one) }, "Copy as JSON")),
    one.text ? el("div", { class: "sides" }, text(one, "old", "Original"), side ?? text(one, "new", one.status === "skipped" ? "Not attacked" : "After the attack")) : null,
    slider,
    el("dl", { class: "facts small" }, facts(one).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", {}, report.visible(String(value))))))), link));
};
