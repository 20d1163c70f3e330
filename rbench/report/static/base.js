// What all parts share: elements that hold data as text only, titles of names, and the page's data.
const report = (globalThis.report ??= {});

report.data = JSON.parse(document.getElementById("data").textContent);

// Makes an element. Children are elements, or data that becomes text. Nothing is ever parsed as markup.
report.el = function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map((child) => child instanceof Node ? child : String(child)));
  return made;
};

report.fill = function fill(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return place;
};

// The title that stands for a name in tables, or the name.
report.title = (name) => report.data.names.titles[name] ?? name;

// Characters that are not seen, or change the order of others: control and format characters, and lone surrogates.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu;

// Returns a text as nodes in which hidden characters stand as their code points. Line breaks and tabs stay.
report.visible = function visible(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match[0] === "\n" || match[0] === "\t") continue;
    const code = `U+${match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    nodes.push(text.slice(end, match.index), report.el("span", { class: "hidden-char", title: "a character that is not seen" }, code));
    end = match.index + match[0].length;
  }
  nodes.push(text.slice(end));
  return nodes.filter((node) => node !== "");
};

// Okabe and Ito's colours, for colour-blind readers; the same as in rbench's figures.
report.COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b8a600"];

// Makes a labelled choice. `options` are [value, text]; `change` gets the value.
report.choice = function choice(label, options, value, change) {
  const select = report.el("select", { onchange: (event) => change(event.target.value) },
    options.map(([of, text]) => report.el("option", { value: of, selected: of === value }, text)));
  return report.el("label", { class: "field" }, report.el("span", {}, label), select);
};

report.several = new Set((report.data.metrics[0]?.cells ?? []).filter((cell) => cell.key[3]).map((cell) => `${cell.key[2]}/${cell.key[3]}`)).size
  > report.data.names.tasks.length;

// Names a victim: the encoder, and its strategy where a task has several.
report.victim = (encoder, finetune) => report.several ? `${report.title(encoder)}, ${report.title(finetune)}` : report.title(encoder);
