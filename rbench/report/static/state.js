// The state of the view, which is the hash of the page's address: a link opens the same view.
const report = (globalThis.report ??= {});

const listeners = [];
let state = {};
state = read();

function read() {
  const hash = location.hash.slice(1);
  return hash.includes("=") ? Object.fromEntries(new URLSearchParams(hash)) : { ...state };
}

report.get = (name, otherwise = "") => state[name] ?? otherwise;

// Changes the state; a value that is empty is left out of the address.
report.set = function set(changes) {
  const next = { ...state, ...changes };
  for (const [name, value] of Object.entries(next)) if (value === "" || value === null || value === undefined) delete next[name];
  const changed = new Set([...Object.keys(state), ...Object.keys(next)].filter((name) => state[name] !== next[name]));
  if (!changed.size) return;
  state = next;
  const hash = new URLSearchParams(state).toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  tell(changed);
};

// Calls `draw` now, and whenever one of the names changes.
report.watch = function watch(names, draw) {
  listeners.push({ names: new Set(names), draw });
  draw();
};

function tell(changed) {
  for (const { names, draw } of listeners) if ([...changed].some((name) => names.has(name))) draw();
}

addEventListener("hashchange", () => {
  const before = state;
  state = read();
  tell(new Set([...Object.keys(before), ...Object.keys(state)].filter((name) => before[name] !== state[name])));
});

// Links to parts of the page scroll and leave the state in the address.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  const target = document.getElementById(link.getAttribute("href").slice(1));
  target?.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  target?.querySelector("h2")?.focus?.();
});

const button = document.getElementById("theme");
const dark = () => report.get("theme", matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") === "dark";
button.addEventListener("click", () => report.set({ theme: dark() ? "light" : "dark" }));
report.watch(["theme"], () => {
  if (report.get("theme")) document.documentElement.dataset.theme = report.get("theme");
  else delete document.documentElement.dataset.theme;
});
