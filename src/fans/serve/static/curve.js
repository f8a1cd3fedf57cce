// The curve of PNS against size, and the two sliders that are answered from it without asking anybody.

import { h, s, fill, percent, short } from "./dom.js";

const LINES = [["pns", "both", ""], ["holds", "keep", "6 3"], ["changes", "change", "2 3"]];
const WIDE = 420, TALL = 200, LEFT = 44, RIGHT = 52, TOP = 22, FOOT = 34;

/** Return the figures of the curve at a size and a tolerance. */
export function figuresAt(curve, k, t) {
  const at = (name, which) => [curve[name][k][t], ...curve.intervals[k][t][which]];
  return { both: at("pns", 0), change: at("changes", 1), keep: at("holds", 2), note: "" };
}

/** Return the features of the subset at a size. */
export function subsetAt(curve, k) {
  return curve.order.slice(0, curve.sizes[k]);
}

/** Return where in the sizes the curve has a subset; -1 where it is none of its own. */
export function placeOf(curve, subset) {
  const k = curve.sizes.indexOf(subset.size);
  return k >= 0 && curve.order.slice(0, subset.size).every((f) => subset.has(f)) ? k : -1;
}

/** Draw the curve with its sliders; `move(k, t, done)` is told what they say. */
export function curvePanel(curve, units, move) {
  const n = curve.sizes.length;
  const size = h("input", { type: "range", id: "size", min: 0, max: n - 1, step: 1, value: curve.chosen,
    oninput: () => tell(false), onchange: () => tell(true) });
  const tolerance = h("input", { type: "range", id: "tolerance", min: 0, max: curve.tolerances.length - 1, step: 1, value: curve.used,
    oninput: () => tell(false), onchange: () => tell(true) });
  const sizeWords = h("output", { for: "size" });
  const toleranceWords = h("output", { for: "tolerance" });
  const tell = (done) => move(Number(size.value), Number(tolerance.value), done);
  const drawing = s("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", class: "curve" });
  drawing.addEventListener("click", (event) => {
    const box = drawing.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDE;
    move(Math.min(n - 1, Math.max(0, Math.round(((x - LEFT) / (WIDE - LEFT - RIGHT)) * Math.max(1, n - 1)))), Number(tolerance.value), true);
  });
  const labelled = (input, words, output) => h("div", { class: "slider" }, h("label", { for: input.id }, words), output, input);
  const element = h("section", { class: "along", "aria-label": "Size and tolerance" },
    labelled(size, "size", sizeWords),
    curve.tolerances.length > 1 ? labelled(tolerance, "tolerance", toleranceWords) : null,
    drawing,
    h("p", { class: "faint" }, `The highest-ranked ${units[1]}, one more at a time, on the same draws; the shaded band is the ${percent(curve.confidence)} interval of both. `,
      "Whoever picks the best point of the curve picks its luck as well."));
  return {
    element,
    show(k, t, mark = null) {
      if (k !== null) size.value = k;
      tolerance.value = t;
      const chosen = curve.sizes[Number(size.value)];
      const words = k === null ? "your own choice" : `${chosen} of ${curve.order.length} ${units[1]}${k === curve.chosen ? ", as chosen" : ""}`;
      sizeWords.textContent = words;
      size.setAttribute("aria-valuetext", words);
      const of = `${short(curve.tolerances[t])}${t === curve.used ? ", as used" : ""}`;
      toleranceWords.textContent = of;
      tolerance.setAttribute("aria-valuetext", of);
      draw(drawing, curve, k, t, mark);
    },
  };
}

function draw(drawing, curve, k, t, mark) {
  const n = curve.sizes.length;
  const across = (at) => LEFT + (WIDE - LEFT - RIGHT) * (n > 1 ? at / (n - 1) : 0.5);
  const down = (p) => TOP + (TALL - TOP - FOOT) * (1 - p);
  const parts = [];
  for (const p of [0, 0.5, 1]) {
    parts.push(s("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: down(p), y2: down(p) }),
      s("text", { x: LEFT - 6, y: down(p) + 4, "text-anchor": "end" }, `${100 * p} %`));
  }
  parts.push(s("line", { class: "chosen", x1: across(curve.chosen), x2: across(curve.chosen), y1: TOP, y2: TALL - FOOT }));
  const step = Math.ceil(n / 9);
  curve.sizes.forEach((size, at) => {
    if (at % step && at !== n - 1 || (at !== n - 1 && n - 1 - at < step)) return;
    parts.push(s("text", { x: across(at), y: TALL - FOOT + 14, "text-anchor": "middle" }, String(size)));
  });
  parts.push(s("text", { x: (LEFT + WIDE - RIGHT) / 2, y: TALL - 4, "text-anchor": "middle" }, "size of the subset"));
  const known = curve.sizes.map((_, at) => at).filter((at) => curve.intervals[at][t][0][0] !== null);
  if (known.length > 1) {
    const edge = (which, list) => list.map((at) => `${across(at).toFixed(1)},${down(curve.intervals[at][t][0][which]).toFixed(1)}`);
    parts.push(s("polygon", { class: "band", points: [...edge(0, known), ...edge(1, [...known].reverse())].join(" ") }));
  }
  const labels = [];
  for (const [name, words, dash] of [...LINES].reverse()) {
    let path = "", last = null;
    curve.sizes.forEach((_, at) => {
      const p = curve[name][at][t];
      if (p === null) { last = null; return; }
      path += `${last === null ? "M" : "L"}${across(at).toFixed(1)} ${down(p).toFixed(1)}`;
      last = p;
    });
    parts.push(s("path", { class: `line ${words}`, d: path, "stroke-dasharray": dash || null }));
    const end = [...curve[name]].map((row) => row[t]).reverse().find((p) => p !== null);
    if (end !== undefined) labels.push([down(end), words]);
  }
  labels.sort((a, b) => a[0] - b[0]);
  labels.forEach((label, i) => { if (i && label[0] - labels[i - 1][0] < 13) label[0] = labels[i - 1][0] + 13; });
  for (const [y, words] of labels) parts.push(s("text", { class: `label ${words}`, x: WIDE - RIGHT + 6, y: y + 4 }, words));
  parts.push(s("text", { class: "mark", x: across(curve.chosen), y: TOP - 9, "text-anchor": curve.chosen > n - 2 ? "end" : "middle" }, `chosen: ${curve.sizes[curve.chosen]}`));
  if (k !== null && curve.pns[k][t] !== null) parts.push(s("circle", { class: "now", cx: across(k), cy: down(curve.pns[k][t]), r: 5.5 }));
  if (mark && mark.p !== null) {
    const more = curve.sizes.findIndex((size) => size >= mark.size);
    const b = more < 0 ? n - 1 : more, a = Math.max(0, b - (curve.sizes[b] > mark.size ? 1 : 0));
    const at = a === b ? b : a + (mark.size - curve.sizes[a]) / (curve.sizes[b] - curve.sizes[a]);
    const x = across(at), y = down(mark.p);
    parts.push(s("path", { class: "own", d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z` }, s("title", {}, "your own subset")));
  }
  drawing.setAttribute("aria-label", `PNS against size from 0 to ${curve.order.length}; chosen: ${curve.sizes[curve.chosen]}, ${percent(curve.pns[curve.chosen][t])}`);
  fill(drawing, parts);
}
