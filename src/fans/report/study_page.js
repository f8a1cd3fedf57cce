"use strict";

// What the page does once it is open: tables are sorted, filtered and folded, and charts are drawn. It loads nothing.

const all = (within, selector) => [...within.querySelectorAll(selector)];
const one = (within, selector) => within.querySelector(selector);

// --- Tables ---------------------------------------------------------------------------------------------------------

for (const table of all(document, ".table")) {
  const controls = one(table, ".controls");
  controls.hidden = false;
  showTabs(table, controls);
  const apply = () => showParts(table, controls);
  controls.addEventListener("input", apply);
  apply();
  for (const results of all(table, ".results")) makeSortable(results);
  one(controls, ".csv").addEventListener("click", () => {
    const shown = one(table, ".dataset:not([hidden])");
    save(`${table.dataset.name}.csv`, "text/csv", csvOf(one(shown, "table")));
  });
}

/** Let tabs show one dataset at a time; the arrow keys move between them. */
function showTabs(table, controls) {
  const tabs = all(controls, "[role=tab]");
  const choose = (tab) => {
    for (const each of tabs) {
      each.setAttribute("aria-selected", each === tab);
      each.tabIndex = each === tab ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = each !== tab;
    }
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  });
  if (tabs.length) choose(tabs[0]);
}

/** Show the rows, columns and small print that the controls ask for. */
function showParts(table, controls) {
  const words = one(controls, "[type=search]").value.toLowerCase();
  const ticked = (kind) => new Map(all(controls, `[data-${kind}]`).map((box) => [box.dataset[kind], box.checked]));
  const groups = ticked("group");
  for (const row of all(table, ".results tbody tr")) {
    const named = row.cells[0].textContent.toLowerCase().includes(words);
    row.hidden = !(named && groups.get(row.dataset.group));
  }
  const paper = ticked("paper").get("");
  for (const [column, on] of ticked("column")) {
    for (const cell of all(table, `.results .${column}`)) {
      cell.hidden = !on || (cell.classList.contains("paper") && !paper);
    }
  }
  table.classList.toggle("no-intervals", !ticked("interval").get(""));
}

/** Sort by a column when its heading is clicked: the best first, then the worst, then as it was. */
function makeSortable(results) {
  const body = results.tBodies[0];
  const original = [...body.rows];
  const heads = [...results.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const first = head.dataset.sort === "high" ? "descending" : "ascending";
    const second = first === "descending" ? "ascending" : "descending";
    head.setAttribute("aria-sort", "none");
    one(head, "button").addEventListener("click", () => {
      const way = { none: first, [first]: second, [second]: "none" }[head.getAttribute("aria-sort")];
      for (const each of heads) each.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", way);
      body.append(...(way === "none" ? original : sorted(original, column, way)));
    });
  });
}

/** Return rows in the order of a column; those that have nothing there come last. */
function sorted(rows, column, way) {
  const sign = way === "ascending" ? 1 : -1;
  const value = (row) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) return cell.textContent.toLowerCase();
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return x === y ? 0 : x < y ? -sign : sign;
  });
}

// --- Files ----------------------------------------------------------------------------------------------------------

/** Return what is shown of a table as CSV, numbers with all their digits. */
function csvOf(table) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const shown = (row) => [...row.cells].filter((cell) => !cell.hidden);
  return [...table.rows]
    .filter((row) => !row.hidden)
    .map((row) => shown(row).map((cell) => quoted(cell.dataset.v ?? cell.textContent)).join(","))
    .join("\n") + "\n";
}

/** Have the browser save a text as a file. */
function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// --- Charts ---------------------------------------------------------------------------------------------------------

const WIDTH = 420, HEIGHT = 280;
const EDGE = { left: 58, right: 14, top: 28, bottom: 44 };
const DASHES = { "-": "", "--": "7 4", ":": "2 3", "-.": "7 3 2 3" };
const NEAR = 40; // a point further from the pointer than this is not meant
const FEW = 5; // so many lines can all show their intervals; of more, ours and the one at the pointer do
const CHARTS = JSON.parse(document.getElementById("charts").textContent);

for (const figure of all(document, ".chart")) showChart(figure, CHARTS[figure.dataset.chart]);

/** Draw a chart: its panels, and a legend whose entries hide and show lines. */
function showChart(figure, chart) {
  const place = one(figure, ".drawn");
  const hidden = new Set();
  const tip = html("div", { class: "tip", role: "status", hidden: "" });
  const panels = chart.panels.map((panel) => ({ panel, svg: panelElement(panel) }));
  const columns = Math.min(chart.columns, panels.length);
  place.style.gridTemplateColumns = `repeat(${columns}, minmax(0, ${WIDTH * 1.5}px))`;
  const draw = () => panels.forEach(({ panel, svg }) => drawPanel(svg, panel, chart, hidden));
  draw();
  place.append(legendOf(chart, hidden, draw), ...panels.map(({ svg }) => svg), tip);
  for (const { svg } of panels) explainPoints(svg, place, tip);
  one(figure, ".buttons").hidden = false;
  one(figure, ".csv").addEventListener("click", () => {
    save(`${chart.name}.csv`, "text/csv", csvOf(one(figure, ".data")));
  });
  one(figure, ".svg").addEventListener("click", () => {
    save(`${chart.name}.svg`, "image/svg+xml", asOne(panels.map(({ svg }) => svg), columns, chart, hidden));
  });
}

function panelElement(panel) {
  const about = panel.lines.map((line) => line.name).join(", ");
  const name = `${panel.title}: ${panel.y} by ${panel.x}. Lines: ${about}. Arrow keys read the points.`;
  return svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": name, tabindex: 0 });
}

/** Return buttons that hide and show lines, and two for all of them. */
function legendOf(chart, hidden, draw) {
  const legend = html("div", { class: "legend", role: "group", "aria-label": "Lines" });
  const names = Object.keys(chart.styles);
  const buttons = names.map((name) => {
    const button = html("button", { type: "button", "aria-pressed": "true" });
    const swatch = svgElement("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
    swatch.append(svgElement("path", { d: "M0 5H26", ...strokeOf(chart, name) }));
    button.append(swatch, name);
    button.addEventListener("click", () => set(name, hidden.has(name)));
    return button;
  });
  const set = (name, on, redraw = true) => {
    if (on) hidden.delete(name);
    else hidden.add(name);
    buttons[names.indexOf(name)].setAttribute("aria-pressed", on);
    if (redraw) draw();
  };
  legend.append(...buttons);
  for (const [words, on] of [["all", true], ["none", false]]) {
    const button = html("button", { type: "button" });
    button.append(words);
    button.addEventListener("click", () => {
      for (const name of names) set(name, on, false);
      draw();
    });
    if (names.length > 3) legend.append(button);
  }
  return legend;
}

function colourOf(chart, name) {
  const place = chart.styles[name][0];
  return place < 0 ? "var(--ours)" : `var(--k${place})`;
}

function strokeOf(chart, name) {
  const [place, dash] = chart.styles[name];
  const width = place < 0 ? 2.6 : 1.5;
  return { stroke: colourOf(chart, name), "stroke-width": width, "stroke-dasharray": DASHES[dash] ?? "", fill: "none" };
}

/** Draw axes and the lines that are not hidden; ours come last, above the others. */
function drawPanel(svg, panel, chart, hidden) {
  svg.replaceChildren();
  const lines = panel.lines.filter((line) => !hidden.has(line.name)).sort((a, b) => a.ours - b.ours);
  const x = scaleOf(panel.lines.flatMap((line) => line.x), panel.logX, EDGE.left, WIDTH - EDGE.right);
  const ys = lines.flatMap((line) => [...line.y, ...line.low, ...line.high]);
  const y = scaleOf(ys, panel.logY, HEIGHT - EDGE.bottom, EDGE.top);
  drawAxes(svg, panel, x, y);
  svg.points = [];
  for (const line of lines) drawLine(svg, panel, chart, line, x, y, lines.length <= FEW);
}

function drawAxes(svg, panel, x, y) {
  const bottom = HEIGHT - EDGE.bottom;
  const add = (text, attributes) => svg.append(svgElement("text", attributes, text));
  add(panel.title, { class: "title", x: EDGE.left, y: 15 });
  for (const at of y.ticks) {
    const level = y.of(at);
    svg.append(svgElement("path", { d: `M${EDGE.left} ${level}H${WIDTH - EDGE.right}`, stroke: "var(--line)" }));
    add(brief(at), { x: EDGE.left - 6, y: level + 4, "text-anchor": "end" });
  }
  const ticks = panel.ticks.length ? panel.ticks : x.ticks.map((at) => [at, brief(at)]);
  for (const [at, words] of ticks) add(words, { x: x.of(at), y: bottom + 15, "text-anchor": "middle" });
  for (const [at, words] of panel.marks) {
    const place = x.of(at);
    svg.append(svgElement("path", { d: `M${place} ${EDGE.top}V${bottom}`, stroke: "var(--faint)", "stroke-dasharray": "2 3" }));
    add(words, { x: 0, y: 0, "text-anchor": "end", transform: `translate(${place - 4} ${EDGE.top}) rotate(-90)` });
  }
  svg.append(svgElement("path", { d: `M${EDGE.left} ${bottom}H${WIDTH - EDGE.right}`, stroke: "var(--faint)" }));
  add(panel.x, { class: "axis", x: (EDGE.left + WIDTH - EDGE.right) / 2, y: HEIGHT - 8, "text-anchor": "middle" });
  const middle = (EDGE.top + bottom) / 2;
  add(panel.y, { class: "axis", x: 0, y: 0, "text-anchor": "middle", transform: `translate(12 ${middle}) rotate(-90)` });
}

/** Draw a line with its intervals and points, and remember where the points are; `few`: whether all intervals show. */
function drawLine(svg, panel, chart, line, x, y, few) {
  const stroke = strokeOf(chart, line.name), colour = colourOf(chart, line.name);
  const places = line.x.map((value, i) => [x.of(value), y.of(line.y[i]), i]).filter((p) => p.every(Number.isFinite));
  if (line.low.length) {
    const ends = places.map(([px, , i]) => [px, y.of(line.low[i]), y.of(line.high[i])]).filter((p) => p.every(Number.isFinite));
    if (line.dots || ends.length === 1) {
      const d = ends.map(([px, low, high]) => `M${px} ${low}V${high}`).join("");
      svg.append(svgElement("path", { d, stroke: colour, "stroke-width": 1 }));
    } else {
      const band = [...ends.map(([px, low]) => [px, low]), ...ends.map(([px, , high]) => [px, high]).reverse()];
      const shown = line.ours || few ? "band" : "band folded";
      svg.append(svgElement("polygon", { points: band.join(" "), fill: colour, class: shown, "data-line": line.name }));
    }
  }
  if (!line.dots) {
    const d = places.map(([px, py], k) => `${k ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    svg.append(svgElement("path", { d, class: "line", "data-line": line.name, ...stroke }));
  }
  const radius = places.length > 40 && !line.dots ? 0 : line.ours ? 3.6 : 2.6;
  for (const [px, py, i] of places) {
    if (radius) svg.append(svgElement("circle", { cx: px, cy: py, r: radius, fill: colour }));
    svg.points.push({ px, py, line: line.name, words: wordsOf(panel, line, i) });
  }
}

/** Say what a point is. */
function wordsOf(panel, line, i) {
  const interval = line.low.length ? ` [${short(line.low[i])}, ${short(line.high[i])}]` : "";
  const tick = panel.ticks.find(([at]) => at === line.x[i]);
  const label = line.labels.length ? ` (${line.labels[i]})` : "";
  const n = line.n.length && line.n[i] ? `\nN = ${line.n[i]}` : "";
  return `${line.name}${label}\n${panel.x}: ${tick ? tick[1] : short(line.x[i])}\n${panel.y}: ${short(line.y[i])}${interval}${n}`;
}

/** Show the words of the point at the pointer, or the one that the arrow keys have come to. */
function explainPoints(svg, place, tip) {
  let at = 0;
  const show = (point) => {
    one(svg, ".at")?.remove();
    for (const part of all(svg, "[data-line]")) {
      part.classList.toggle("meant", part.dataset.line === point?.line);
      part.classList.toggle("other", Boolean(point) && part.dataset.line !== point.line);
    }
    tip.hidden = !point;
    if (!point) return;
    svg.append(svgElement("circle", { class: "at", cx: point.px, cy: point.py, r: 6, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 }));
    tip.textContent = point.words;
    const box = svg.getBoundingClientRect(), around = place.getBoundingClientRect(), scale = box.width / WIDTH;
    const left = box.left - around.left + point.px * scale + 12;
    tip.style.left = `${Math.max(0, Math.min(left, around.width - tip.offsetWidth))}px`;
    tip.style.top = `${box.top - around.top + point.py * scale + 12}px`;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), scale = WIDTH / box.width;
    const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
    const far = (point) => Math.hypot(point.px - px, point.py - py);
    const nearest = svg.points.reduce((best, point) => (!best || far(point) < far(best) ? point : best), null);
    show(nearest && far(nearest) < NEAR ? nearest : null);
  });
  svg.addEventListener("pointerleave", () => show(null));
  svg.addEventListener("blur", () => show(null));
  svg.addEventListener("focus", () => show(svg.matches(":focus-visible") ? svg.points[(at = 0)] : null));
  svg.addEventListener("keydown", (event) => {
    const next = moved(svg.points, at, event.key);
    if (next === null) return;
    event.preventDefault();
    show(svg.points[(at = next)]);
  });
}

/** Return the point that an arrow key leads to: along the line, or to the next line. */
function moved(points, at, key) {
  if (!points.length) return null;
  if (key === "ArrowRight") return Math.min(at + 1, points.length - 1);
  if (key === "ArrowLeft") return Math.max(at - 1, 0);
  const step = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (!step) return null;
  const names = [...new Set(points.map((point) => point.line))];
  const name = names[(names.indexOf(points[Math.min(at, points.length - 1)].line) + step + names.length) % names.length];
  return points.findIndex((point) => point.line === name);
}

/** Return a map from values to places, and where its ticks are. */
function scaleOf(values, log, from, to) {
  const good = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  const turned = log ? Math.log10 : (value) => value;
  let low = Math.min(...good.map(turned)), high = Math.max(...good.map(turned));
  if (!good.length) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const room = 0.04 * (high - low);
  [low, high] = [low - room, high + room];
  const of = (value) => (value === null || (log && value <= 0) ? NaN : from + ((turned(value) - low) / (high - low)) * (to - from));
  return { of, ticks: log ? logTicks(low, high) : ticksOf(low, high) };
}

/** Return round values between two ends, about five. */
function ticksOf(low, high) {
  const raw = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * ([1, 2, 5, 10].find((factor) => factor * unit >= raw));
  const first = Math.ceil(low / step), n = Math.floor(high / step) - first + 1;
  return Array.from({ length: n }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function logTicks(low, high) {
  const factors = high - low < 1.5 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil((high - low) / 6));
  const out = [];
  for (let power = Math.floor(low); power <= high; power += every) {
    for (const factor of factors) out.push(factor * 10 ** power);
  }
  return out.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
}

/** Return a number to three digits. */
function short(value) {
  if (value === null) return "nothing";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e4 ? String(Number(value.toPrecision(3))) : value.toExponential(2);
}

/** Return a tick's number. */
function brief(value) {
  return value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5) ? value.toExponential(0) : String(value);
}

function element(made, attributes, text) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function svgElement(kind, attributes, text) {
  return element(document.createElementNS("http://www.w3.org/2000/svg", kind), attributes, text);
}

function html(kind, attributes) {
  return element(document.createElement(kind), attributes);
}

/** Return panels and a legend as one SVG file, in the colours that they have on the screen. */
function asOne(panels, columns, chart, hidden) {
  const names = Object.keys(chart.styles).filter((name) => !hidden.has(name));
  const rows = Math.ceil(panels.length / columns), width = columns * WIDTH + 220;
  const height = Math.max(rows * HEIGHT, 20 + 18 * names.length);
  const whole = svgElement("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height });
  const style = getComputedStyle(document.documentElement);
  whole.append(svgElement("title", {}, chart.title), svgElement("rect", { width, height, fill: "var(--paper)" }));
  panels.forEach((panel, i) => {
    const group = svgElement("g", { transform: `translate(${(i % columns) * WIDTH} ${Math.floor(i / columns) * HEIGHT})` });
    group.append(...[...panel.cloneNode(true).childNodes].filter((node) => !node.matches(".at, .folded")));
    whole.append(group);
  });
  names.forEach((name, i) => {
    const [x, y] = [columns * WIDTH + 10, 20 + 18 * i];
    whole.append(svgElement("path", { d: `M${x} ${y}h24`, ...strokeOf(chart, name) }));
    whole.append(svgElement("text", { x: x + 30, y: y + 4 }, name));
  });
  for (const band of all(whole, ".band")) band.setAttribute("opacity", 0.14);
  for (const text of all(whole, "text")) {
    text.setAttribute("font-family", "sans-serif");
    text.setAttribute("font-size", text.classList.contains("title") ? 12.5 : 11);
    text.setAttribute("fill", text.classList.length ? "var(--ink)" : "var(--faint)");
  }
  const drawn = new XMLSerializer().serializeToString(whole);
  return drawn.replace(/var\((--\w+)\)/g, (_, name) => style.getPropertyValue(name).trim());
}
