// Some of the trials behind the figures: what changed the prediction and what did not. And other methods.

import { h, percent, between, count } from "./dom.js";
import { seriesSvg } from "./scenes.js";

const SIDES = [
  ["changed", "Change: only the subset was changed", "the prediction changed, as it should", "it did not"],
  ["kept", "Keep: everything else was changed", "the prediction changed", "it did not, as it should"],
];

/** Changed features of a trial that are shown at once. */
const FIRST = 8;

/** Show trials by side, those that moved the prediction apart from those that did not. */
export function trialsPanel(found, target) {
  return SIDES.map(([side, heading, yes, no]) => h("section", { class: "side" }, h("h3", {}, heading),
    [[true, yes], [false, no]].map(([moved, words]) => {
      const some = found[side].filter((each) => each.moved === moved);
      return h("div", { class: `trials ${moved ? "moved" : "stayed"}` }, h("h4", {}, h("span", { class: "sign", "aria-hidden": "true" }, moved ? "≠ " : "= "), words[0].toUpperCase() + words.slice(1)),
        some.length ? h("ul", { class: some[0].shown.kind }, some.map((each) => card(each, target))) : h("p", { class: "faint" }, "None of the trials."));
    })));
}

function card(each, target) {
  return h("li", { class: "trial" }, shownTrial(each.shown), h("p", { class: "outcomes" }, `${target}: ${each.before} → ${each.after}`),
    each.n > 1 ? h("p", { class: "faint" }, `${each.n} trials alike`) : null);
}

function shownTrial(shown) {
  if (shown.kind === "picture") return h("img", { src: shown.picture, alt: "what the model was shown", class: "pixels" });
  if (shown.kind === "series") {
    const { svg } = seriesSvg({ ...shown, panels: shown.panels.slice(0, 3) }, null, { wide: 300, left: 6, tall: 46, ticks: false });
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", "what the model was given");
    return svg;
  }
  if (shown.kind === "text") return h("blockquote", {}, shown.text || "(nothing)");
  if (shown.kind === "gone") return h("p", {}, shown.n ? `Without ${shown.n} ${shown.n === 1 ? "edge" : "edges"}: ${shown.names.join(", ")}${shown.n > shown.names.length ? ", ..." : ""}` : "Nothing was taken out.");
  if (!shown.moves || !shown.moves.length) return h("p", {}, "Nothing differs: what was drawn was as it is.");
  const rows = (moves) => h("table", {}, h("tbody", {}, moves.map(({ name, from, to }) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, from), h("td", { "aria-label": "becomes" }, "→"), h("td", {}, to)))));
  const rest = shown.moves.slice(FIRST);
  return [rows(shown.moves.slice(0, FIRST)), rest.length ? h("details", {}, h("summary", {}, `and ${rest.length + shown.more} more`), rows(rest)) : null];
}

/** Compare methods: `rows` have a method's name, its subset and figures. */
export function methodsTable(rows, units, show) {
  const cell = (figures, name) => h("td", { class: "number" }, percent(figures[name][0]), h("small", {}, between(figures[name][1], figures[name][2])));
  return h("div", { class: "scroll" }, h("table", { class: "methods" },
    h("caption", { class: "faint" }, "Each method's own subset of this input, on the same draws, with its interval. The mark is the highest both; a difference smaller than the intervals is none."),
    h("thead", {}, h("tr", {}, ["method", "subset", "keep", "change", "both", "model rows", ""].map((words) => h("th", { scope: "col" }, words)))),
    h("tbody", {}, rows.map((each) => h("tr", { "data-method": each.method },
      h("th", { scope: "row" }, each.label),
      each.figures ? [
        h("td", {}, each.count, h("small", {}, each.names.join(", ") + (each.n_names > each.names.length ? ", ..." : ""))),
        cell(each.figures, "keep"), cell(each.figures, "change"), cell(each.figures, "both"), h("td", { class: "number" }, each.rows === null ? "" : count(each.rows)),
        h("td", {}, show ? h("button", { type: "button", onclick: () => show(each.subset) }, "Show") : null),
      ] : h("td", { colspan: 6, class: each.error ? "error" : "faint" }, each.error ?? "is being asked ..."))))));
}

/** Mark the row with the highest PNS, in words and not by colour alone. */
export function markBest(table, rows) {
  const known = rows.filter((each) => each.figures && each.figures.both[0] !== null);
  const best = Math.max(...known.map((each) => each.figures.both[0]));
  for (const row of table.querySelectorAll("tbody tr")) {
    const each = rows.find((one) => one.method === row.dataset.method);
    const is = known.length > 1 && each.figures && each.figures.both[0] === best;
    row.classList.toggle("best", Boolean(is));
    if (is) row.querySelector("th").append(" ★");
  }
  return table;
}

