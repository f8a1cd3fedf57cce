// Small helpers to make elements. Words only ever become text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element: `on...` are listeners, other properties are attributes; false and null are left out. */
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** Make an element of a drawing. */
export function s(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return element;
}

/** Put children in place of whatever is in an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(2).filter((child) => child));
  return element;
}

/** Write a share as a percentage; only a true 0 or 1 is written as such. */
export function percent(p) {
  if (p === null || p === undefined) return "unknown";
  if (p === 0 || p === 1) return `${100 * p} %`;
  return `${Math.min(Math.max(Math.round(100 * p), 1), 99)} %`;
}

/** Write an interval in per cent, "" where there is none. */
export function between(low, high) {
  if (low === null || high === null || low === undefined || high === undefined) return "";
  return `[${Math.round(100 * low)}, ${Math.round(100 * high)}]`;
}

/** Write a number with about three digits. */
export function short(value) {
  if (value === null || value === undefined) return "unknown";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return size > 0 && size < 1e-4 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

/** Write a whole number with its thousands apart. */
export function count(n) {
  return n.toLocaleString("en");
}

/** Turn the parts of a sentence into text, names in italics. */
export function sentence(parts) {
  return parts.map((part) => (part.em ? h("em", {}, part.text) : part.text));
}

/** Make tabs of which one panel shows; the arrow keys move between them. `open(key)` is told. */
export function tabs(label, entries, chosen, open) {
  const buttons = entries.map(([key, words]) =>
    h("button", { type: "button", role: "tab", id: `tab-${key}`, "aria-controls": "panel", "aria-selected": String(key === chosen),
      tabindex: key === chosen ? 0 : -1, onclick: () => open(key) }, words));
  return h("div", { role: "tablist", "aria-label": label, class: "tabs", onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    open(entries[at][0]);
    document.getElementById(`tab-${entries[at][0]}`)?.focus();
  } }, buttons);
}

/** Let readers choose light or dark; the system's choice is the first. It is kept in this tab alone. */
export function themeButton() {
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = h("button", { type: "button", class: "theme" });
  const tell = () => {
    fill(button, document.createTextNode(dark() ? "Light" : "Dark"));
    button.setAttribute("aria-label", `Change to ${dark() ? "light" : "dark"} colours`);
  };
  try {
    const kept = sessionStorage.getItem("fans-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch { /* a file from disk may have no storage */ }
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    try { sessionStorage.setItem("fans-theme", document.documentElement.dataset.theme); } catch { /* likewise */ }
    tell();
    document.dispatchEvent(new Event("theme"));
  });
  tell();
  return button;
}
