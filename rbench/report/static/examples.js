// The examples: unpacked in the browser, filtered, searched, and listed page by page.
const report = (globalThis.report ??= {});
const { el, fill, data, get, set, title, choice } = report;

const PAGE = 40;
const FILTERS = ["encoder", "finetune", "task", "attack", "status", "words", "q"];
report.examples = [];
report.ordered = [];

// Unpacks the examples and gives each its names.
report.unpack = async function unpack() {
  const packed = document.getElementById("packed").textContent.trim();
  if (!packed) return;
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { fields, cells, rows } = await new Response(stream).json();
  report.examples = rows.map((row, index) => {
    const one = Object.fromEntries(fields.map((name, i) => [name, row[i]]));
    const [attack, encoder, finetune, task] = cells[one.cell];
    return Object.assign(one, { index, attack, encoder, finetune, task });
  });
  report.ordered = [...report.examples].sort(before);
};

// The whole text of an example, before or after; null where the page holds no texts.
report.texts = (one, after) => one.text && one.text.map((pieces) => pieces.map((piece) => typeof piece === "string" ? piece : piece[after ? 1 : 0]).join(""));

report.snippet = function snippet(one, most) {
  const texts = report.texts(one, true);
  const text = texts ? texts.join(" / ") : one.example;
  return el("bdi", { dir: "auto", class: "data" }, report.visible(text.length > most ? `${text.slice(0, most)}…` : text));
};

function searched(one) {
  one.searched ??= [one.example, ...(report.texts(one, false) ?? []), ...(report.texts(one, true) ?? [])].join("\n").toLowerCase();
  return one.searched;
}

// "3" for three words changed, "3-" for three or more.
function words(one) {
  const wanted = get("words");
  if (!wanted) return true;
  return wanted.endsWith("-") ? one.changed >= Number.parseInt(wanted, 10) : one.changed === Number(wanted);
}

report.filtered = function filtered() {
  const wanted = ["encoder", "finetune", "task", "attack", "status"].map((name) => [name, get(name)]).filter(([, value]) => value);
  const query = get("q").toLowerCase();
  return report.ordered.filter((one) => wanted.every(([name, value]) => one[name] === value) && words(one) && (!query || searched(one).includes(query)));
};

// Successes first, and of these what moved the victim most: by its score, or else by the fewest words.
const STATUSES = ["succeeded", "failed", "skipped", "errored"];
const before = (a, b) => STATUSES.indexOf(a.status) - STATUSES.indexOf(b.status) || (b.drop ?? -1) - (a.drop ?? -1) || a.changed - b.changed || a.index - b.index;

// Opens an example, with the filters that show it.
report.openExample = function openExample(one) {
  set({ encoder: "", finetune: "", task: "", attack: "", status: "", words: "", q: "", page: "", at: String(one.index) });
  document.getElementById("detail")?.scrollIntoView({ block: "nearest" });
};

function step(by) {
  const found = report.filtered();
  if (!found.length) return;
  const at = found.findIndex((one) => one.index === Number(get("at", "-1")));
  const next = by === 0 ? Math.floor(Math.random() * found.length) : at < 0 ? 0 : (at + by + found.length) % found.length;
  set({ at: String(found[next].index), page: "" });
}

function filters(place) {
  const any = (names) => [["", "all"], ...names.map((name) => [name, title(name)])];
  const change = (name) => (value) => set({ [name]: value, page: "", at: "" });
  const there = (name) => [...new Set(report.examples.map((one) => one[name]))];
  const order = (name, names) => names.filter((value) => there(name).includes(value));
  const search = el("input", { type: "search", value: get("q"), placeholder: "a word or an id", oninput: (event) => set({ q: event.target.value, page: "", at: "" }) });
  const fields = () => [
    choice("Encoder", any(order("encoder", data.names.encoders)), get("encoder"), change("encoder")),
    data.names.finetunes.length > 1 ? choice("Fine-tuning", any(data.names.finetunes), get("finetune"), change("finetune")) : null,
    choice("Task", any(order("task", data.names.tasks)), get("task"), change("task")),
    choice("Attack", any(order("attack", data.names.attacks)), get("attack"), change("attack")),
    choice("Status", any(there("status").sort()), get("status"), change("status")),
    choice("Words changed", [["", "all"], ...[1, 2, 3, 4].map((n) => [String(n), String(n)]), ["5-", "5 or more"]], get("words"), change("words")),
  ].filter(Boolean);
  const selects = el("div", { class: "fields inner" });
  fill(place, selects, el("label", { class: "field grow" }, el("span", {}, "Search"), search));
  return () => { fill(selects, fields()); if (document.activeElement !== search) search.value = get("q"); };
}

function row(one, current) {
  const open = () => set({ at: String(one.index) });
  return el("tr", { class: one === current ? "chosen" : "", "data-index": one.index, onclick: open },
    el("td", {}, el("span", { class: `status ${one.status}` }, one.status)),
    el("td", { class: "names" }, `${report.victim(one.encoder, one.finetune)} · ${title(one.task)} · ${title(one.attack)}`),
    el("td", { class: "number" }, one.changed), el("td", { class: "number" }, one.queries),
    el("td", { class: "text" }, el("button", { type: "button", class: "link", "aria-pressed": one === current ? "true" : "false", onclick: (event) => { event.stopPropagation(); open(); } }, report.snippet(one, 120))));
}

function list(place, found, current) {
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  // Without a page in the address the list shows that of the chosen example: a link holds the example alone.
  const at = get("at") ? Math.max(0, found.indexOf(current)) : 0;
  const page = Math.min(pages - 1, Number(get("page", Math.floor(at / PAGE))) || 0);
  const button = (text, by) => el("button", { type: "button", disabled: page + by < 0 || page + by >= pages, onclick: () => set({ page: String(page + by) }) }, text);
  const of = report.examples.length;
  fill(place, el("p", { id: "count", class: "dim", role: "status" }, `${found.length.toLocaleString("en")} of ${of.toLocaleString("en")} examples`, pages > 1 ? `, page ${page + 1} of ${pages} ` : " ", pages > 1 ? [button("‹ earlier", -1), " ", button("later ›", 1)] : null),
    el("div", { class: "scroll list", tabindex: 0, role: "region", "aria-label": "List of examples" }, el("table", { class: "examples" }, el("caption", { class: "sr" }, "Attacked examples"),
      el("thead", {}, el("tr", {}, ["Status", "Encoder, task, attack", "Words", "Queries", "Text after the attack"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, found.slice(page * PAGE, (page + 1) * PAGE).map((one) => row(one, current))))));
}

report.drawExamples = function drawExamples() {
  const place = document.getElementById("examples");
  const told = data.sampled.said ? el("p", { class: "note" }, data.sampled.said) : null;
  if (!report.examples.length) return fill(place, told, el("p", { class: "dim" }, "There are no examples to show."));
  const [controls, detail, rows] = [el("div", { class: "fields" }), el("div", { id: "detail", tabindex: -1 }), el("div", { id: "rows" })];
  const button = (text, by, key) => el("button", { type: "button", onclick: () => step(by), title: `Key ${key}` }, text);
  fill(place, told, controls, el("div", { class: "buttons" }, button("‹ Previous", -1, "k"), button("Next ›", 1, "j"), button("Random", 0, "r")), detail, rows);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) return;
    const by = { j: 1, k: -1, r: 0 }[event.key];
    if (by !== undefined) step(by);
  });
  const refresh = filters(controls);
  report.watch([...FILTERS, "page", "at"], () => {
    refresh();
    const found = report.filtered();
    const current = report.examples[Number(get("at", "-1"))] ?? found[0];
    report.drawDetail(detail, current);
    list(rows, found, current);
  });
  return place;
};
