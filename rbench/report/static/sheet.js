// One item at a time. Answers are kept in this browser after each click, and leave it only as a file that is exported.
const data = JSON.parse(document.getElementById("data").textContent);
const NAME = `rbench-judge/${data.sheet}/${data.rater}`;
const by = (id) => document.getElementById(id);
let place = 0;
let since = performance.now();
let saved = true;

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(NAME) ?? "{}");
    return found && typeof found === "object" && !Array.isArray(found) ? found : {};
  } catch {
    return {};
  }
}
const answers = read();

function save() {
  try {
    localStorage.setItem(NAME, JSON.stringify(answers));
    saved = true;
  } catch {
    saved = false;
  }
  by("unsaved").hidden = saved;
}

// Makes an element. Children are elements, or data that becomes text. Nothing is ever parsed as markup.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// The questions of an item: [name of the answer, what is asked, [value, text, key] of each choice].
function questions(item) {
  if (item.texts.length > 1) {
    const ends = { 1: "1: something else", [data.scale]: `${data.scale}: the same` };
    const steps = Array.from({ length: data.scale }, (_, i) => [String(i + 1), ends[i + 1] ?? String(i + 1), String(i + 1)]);
    return [["meaning", "How far do the two texts mean the same?", steps]];
  }
  const labels = data.tasks[item.task].labels.map((label, i) => [label, label, i < 9 ? String(i + 1) : ""]);
  return [
    ["label", "Which label fits?", [...labels, ["?", "cannot tell", "0"]]],
    ["natural", "Does it read as if a person wrote it?", [["yes", "yes", "y"], ["no", "no", "n"]]],
  ];
}

const complete = (item) => questions(item).every(([name]) => answers[item.id]?.[name] !== undefined);
const firstOpen = (from = 0) => {
  const found = data.items.findIndex((item, i) => i >= from && !complete(item));
  return found < 0 && from > 0 ? data.items.findIndex((item) => !complete(item)) : found;
};

function field([name, asked, choices], item) {
  const options = choices.map(([value, text, key]) => {
    const input = el("input", { type: "radio", name, value, "data-key": key });
    input.checked = answers[item.id]?.[name] === value;
    input.addEventListener("change", () => answer(item, name, value));
    const shown = key && text !== key && !text.startsWith(`${key}:`) ? [el("kbd", { "aria-hidden": "true" }, key)] : [];
    return el("label", {}, input, el("span", {}, text), ...shown);
  });
  return el("fieldset", {}, el("legend", {}, asked), el("div", { class: "options" }, ...options));
}

function text(columns, item, title) {
  const names = data.tasks[item.task].columns;
  const parts = columns.flatMap((own, i) => [
    ...(names.length > 1 ? [el("p", { class: "column" }, names[i])] : []),
    el("p", { class: "data", dir: "auto" }, own),
  ]);
  return el("div", { class: "text" }, ...(title ? [el("p", { class: "column" }, title)] : []), ...parts);
}

function answer(item, name, value) {
  const known = (answers[item.id] ??= {});
  known[name] = value;
  known.seconds = Math.round((known.seconds ?? 0) * 10 + (performance.now() - since) / 100) / 10;
  since = performance.now();
  save();
  progress();
}

function progress() {
  const count = data.items.filter(complete).length;
  by("progress").textContent = `${count} of ${data.items.length} answered`;
  by("bar").max = data.items.length;
  by("bar").value = count;
  return count;
}

function show(at, focus = true) {
  const item = data.items[at];
  place = at;
  since = performance.now();
  by("form").hidden = item === undefined;
  by("done").hidden = by("review").hidden = item !== undefined;
  const count = progress();
  if (item === undefined) {
    const left = data.items.length - count;
    by("done-heading").textContent = left ? `${left} left open` : "All answered. Thank you!";
    by("done-said").textContent = left
      ? "You can export what is there, or go back to the texts that are open."
      : "Export your answers, and send the file to whoever gave you this page.";
    if (focus) by("done-heading").focus();
    return;
  }
  const two = item.texts.length > 1;
  by("heading").textContent = `${two ? "Two texts" : "Text"}, ${at + 1} of ${data.items.length}`;
  by("texts").replaceChildren(...item.texts.map((one, i) => text(one, item, two ? `Text ${"AB"[i]}` : "")));
  by("questions").replaceChildren(...questions(item).map((one) => field(one, item)));
  by("back").disabled = at === 0;
  if (focus) {
    by("heading").focus();
    scrollTo(0, 0);
  }
}

const quoted = (value) => /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;

function exported() {
  const rows = data.items.map((item) => {
    const own = { sheet: data.sheet, rater: data.rater, item: item.id, ...answers[item.id] };
    return data.columns.map((name) => quoted(String(own[name] ?? ""))).join(",");
  });
  return `${[data.columns.join(","), ...rows].join("\n")}\n`;
}

by("form").addEventListener("submit", (event) => {
  event.preventDefault();
  show(place + 1);
});
by("back").addEventListener("click", () => show(place - 1));
by("open-item").addEventListener("click", () => {
  const next = firstOpen(place + 1);
  show(next < 0 ? data.items.length : next);
});
by("review").addEventListener("click", () => show(Math.max(0, firstOpen())));
by("export").addEventListener("click", () => {
  const link = el("a", { href: URL.createObjectURL(new Blob([exported()], { type: "text/csv" })), download: `answers-${data.sheet}-${data.rater}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  (by("form").hidden ? by("done-heading") : by("heading")).focus(); // so that keys go on with the item
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || by("form").hidden) return;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    if (event.target instanceof HTMLInputElement) return; // arrows move within a group of choices
    event.preventDefault();
    show(event.key === "ArrowLeft" ? Math.max(0, place - 1) : place + 1);
  } else if (event.key === "Enter" && !(event.target instanceof HTMLButtonElement) && event.target.tagName !== "SUMMARY") {
    event.preventDefault();
    show(place + 1);
  } else {
    const input = [...by("questions").querySelectorAll("input")].find((one) => one.dataset.key === event.key.toLowerCase());
    if (input) {
      event.preventDefault();
      input.click();
    }
  }
});
addEventListener("beforeunload", (event) => { if (!saved) event.preventDefault(); });

const start = firstOpen();
show(start < 0 ? data.items.length : start, false);
document.documentElement.dataset.ready = "";
