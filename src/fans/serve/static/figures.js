// Keep, change and both, each with its interval.

import { h, fill, percent, between } from "./dom.js";

export const WORDS = { keep: "keep", change: "change", both: "both" };

/** Make the three figures; `show` puts others in place. Of an empty subset there is nothing to change alone. */
export function figuresPanel() {
  const rows = Object.fromEntries(Object.keys(WORDS).map((name) => [name, row(name)]));
  const note = h("p", { class: "note" });
  const said = h("p", { class: "sr", role: "status", "aria-live": "polite" });
  const busy = h("p", { class: "busy", hidden: true }, h("span", { class: "dot", "aria-hidden": "true" }), "asking the model");
  const element = h("section", { class: "figures", "aria-label": "Keep, change and both" }, Object.values(rows).map((each) => each.element), note, busy, said);
  let timer = null;
  return {
    element,
    said,
    show(figures, explained, confidence, empty) {
      for (const [name, each] of Object.entries(rows)) each.show(empty && name !== "keep" ? [] : figures[name], explained[name], confidence);
      fill(note, figures.note ? document.createTextNode(figures.note[0].toUpperCase() + figures.note.slice(1) + ".") : null);
      said.textContent = Object.keys(WORDS).slice(0, empty ? 1 : 3).map((name) => `${name} ${percent(figures[name][0])} ${between(figures[name][1], figures[name][2])}`).join(", ");
    },
    fail(words) {
      fill(note, h("span", { class: "error", role: "alert" }, words));
    },
    busy(is) {
      clearTimeout(timer);
      element.setAttribute("aria-busy", String(is));
      if (is) timer = setTimeout(() => { busy.hidden = false; }, 120);
      else busy.hidden = true;
    },
  };
}

function row(name) {
  const value = h("b", { class: "value" });
  const range = h("span", { class: "range" });
  const bar = h("div", { class: "fill" });
  const whisker = h("div", { class: "whisker" });
  const words = h("p", { class: "faint" });
  const element = h("div", { class: `figure ${name}`, "data-figure": name },
    h("div", { class: "line" }, h("span", { class: "name" }, WORDS[name]), value, range),
    h("div", { class: "gauge", "aria-hidden": "true" }, bar, whisker), words);
  return {
    element,
    show([p, low, high], explained, confidence) {
      value.textContent = p === undefined ? "-" : percent(p);
      range.textContent = between(low, high);
      range.title = `${percent(confidence)} interval`;
      bar.style.width = `${100 * (p ?? 0)}%`;
      whisker.hidden = low === null || low === undefined;
      whisker.style.left = `${100 * (low ?? 0)}%`;
      whisker.style.width = `${100 * ((high ?? 0) - (low ?? 0))}%`;
      words.textContent = explained;
    },
  };
}
