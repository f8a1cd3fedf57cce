// What an input looks like: its features are parts of a drawing, clicked in and out. One function for each kind.

import { h, s, fill } from "./dom.js";

/**
 * Draw a scene. `act.toggle(f)` takes a feature in or out; `act.point(f)` is told which one the pointer or the arrow
 * keys are at. Returns the element, the features' places, and `paint(chosen, at)`; null where the list is all there is.
 */
export function drawScene(scene, act, label) {
  const kinds = { image: drawImage, graph: drawGraph, text: drawText, series: drawSeries };
  const draw = kinds[scene.kind];
  return draw ? walkable(draw(scene, act, label), act, label) : null;
}

/** Let the arrow keys walk from feature to feature, and the space bar take one in or out. */
function walkable(drawn, act, label) {
  const { element, places } = drawn;
  const features = [...places.keys()];
  let at = null;
  element.tabIndex = 0;
  element.setAttribute("role", "application");
  element.setAttribute("aria-roledescription", "picture of features");
  element.setAttribute("aria-label", `${label}. Arrow keys move, space takes a feature in or out.`);
  element.addEventListener("keydown", (event) => {
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (way && features.length) {
      event.preventDefault();
      at = at === null ? features[0] : drawn.reading ? readingStep(features, at, way) : nearest(places, at, way);
      act.point(at, true);
    } else if ((event.key === " " || event.key === "Enter") && at !== null) {
      event.preventDefault();
      act.toggle(at);
    }
  });
  element.addEventListener("blur", () => { at = null; act.point(null); });
  return drawn;
}

function readingStep(features, at, [x, y]) {
  const step = features.indexOf(at) + (x + y > 0 ? 1 : -1);
  return features[Math.min(features.length - 1, Math.max(0, step))];
}

/** Return the nearest feature in a direction; the same where there is none. */
function nearest(places, from, [dx, dy]) {
  const [x, y] = places.get(from);
  let best = from, least = Infinity;
  for (const [f, [u, v]] of places) {
    const along = (u - x) * dx + (v - y) * dy, aside = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
    if (f === from || along <= 1e-9) continue;
    const far = along + 2.5 * aside;
    if (far < least) { least = far; best = f; }
  }
  return best;
}

// --- Images -----------------------------------------------------------------------------------------------------------

function drawImage(scene, act) {
  const { width, height } = scene;
  const bytes = Uint8Array.from(atob(scene.features), (c) => c.charCodeAt(0));
  const of = new Int32Array(bytes.buffer);
  const side = Math.max(1, Math.floor(560 / Math.max(width, height)));
  const canvas = h("canvas", { class: "image", width: width * side, height: height * side });
  const context = canvas.getContext("2d");
  const picture = new Image();
  let last = [new Set(), null], pixels = null;
  picture.addEventListener("load", () => {
    const small = h("canvas", { width, height });
    const inside = small.getContext("2d");
    inside.drawImage(picture, 0, 0);
    pixels = inside.getImageData(0, 0, width, height).data;
    paint(...last);
  });
  picture.src = scene.picture;
  const places = new Map(), sums = new Map();
  of.forEach((f, at) => {
    if (f < 0) return;
    const sum = sums.get(f) ?? [0, 0, 0];
    sum[0] += at % width; sum[1] += Math.floor(at / width); sum[2] += 1;
    sums.set(f, sum);
  });
  for (const [f, [x, y, n]] of sums) places.set(f, [x / n, y / n]);

  function paint(chosen, at) {
    last = [chosen, at];
    if (!pixels) return;
    const out = new ImageData(width, height);
    const any = chosen.size > 0;
    for (let k = 0; k < of.length; k++) {
      let [r, g, b] = [pixels[4 * k], pixels[4 * k + 1], pixels[4 * k + 2]];
      if (any && !chosen.has(of[k])) {
        const grey = 0.6 * 255 + 0.4 * (0.299 * r + 0.587 * g + 0.114 * b);
        [r, g, b] = [grey * 0.859, grey * 0.894, grey * 0.933];
      }
      out.data.set([r, g, b, 255], 4 * k);
    }
    const small = h("canvas", { width, height });
    small.getContext("2d").putImageData(out, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, width * side, height * side);
    if (places.size <= 400) edges((f, g) => f !== g, "rgba(120, 130, 140, .35)", 1); // a grid of single pixels hides them
    if (any) edges((f, g) => chosen.has(f) !== chosen.has(g), "#ff7a1a", 3);
    if (at !== null) edges((f, g) => (f === at) !== (g === at), "#ffffff", 5), edges((f, g) => (f === at) !== (g === at), "#1c2733", 2);
  }

  function edges(apart, stroke, wide) {
    context.strokeStyle = stroke;
    context.lineWidth = wide;
    context.beginPath();
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const f = of[y * width + x];
        const right = x + 1 < width ? of[y * width + x + 1] : -2, below = y + 1 < height ? of[(y + 1) * width + x] : -2;
        if (right !== -2 ? apart(f, right) : apart(f, -2) && wide > 1) { context.moveTo((x + 1) * side, y * side); context.lineTo((x + 1) * side, (y + 1) * side); }
        if (below !== -2 ? apart(f, below) : apart(f, -2) && wide > 1) { context.moveTo(x * side, (y + 1) * side); context.lineTo((x + 1) * side, (y + 1) * side); }
        if (x === 0 && wide > 1 && apart(f, -2)) { context.moveTo(0, y * side); context.lineTo(0, (y + 1) * side); }
        if (y === 0 && wide > 1 && apart(f, -2)) { context.moveTo(x * side, 0); context.lineTo((x + 1) * side, 0); }
      }
    }
    context.stroke();
  }

  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * width), y = Math.floor(((event.clientY - box.top) / box.height) * height);
    const f = x >= 0 && y >= 0 && x < width && y < height ? of[y * width + x] : -1;
    return f < 0 ? null : f;
  };
  canvas.addEventListener("pointermove", (event) => act.point(under(event)));
  canvas.addEventListener("pointerleave", () => act.point(null));
  canvas.addEventListener("click", (event) => { const f = under(event); if (f !== null) act.toggle(f); });
  return { element: h("div", { class: "scene" }, canvas), places, paint, key: "Orange outline: in the subset; everything else is faint." };
}

// --- Graphs -----------------------------------------------------------------------------------------------------------

function drawGraph(scene, act) {
  const across = 620, room = 26;
  const scale = across - 2 * room;
  const high = Math.max(0.12, ...scene.nodes.map((node) => node.y));
  const spots = new Map(scene.nodes.map((node) => [node.id, [room + node.x * scale, room + node.y * scale]]));
  const tall = 2 * room + high * scale;
  const lines = scene.edges.map((edge) => ({ edge, line: s("line", { class: "edge" }), hit: s("line", { class: "hit", "data-f": edge.f }, s("title", {})) }));
  const circles = scene.nodes.map((node) => {
    const long = node.name.length > 4;
    const circle = s("g", { class: node.explained ? "node explained" : "node" }, s("circle", { r: node.explained ? 13 : 10 }),
      s("text", { "text-anchor": "middle", y: long ? -14 : 3.5, class: long ? "beside" : null }, node.name));
    return { node, circle };
  });
  const head = s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 17, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" }, s("path", { d: "M0 0L8 4L0 8Z", class: "head" }));
  const svg = s("svg", { viewBox: `0 0 ${across} ${tall}`, class: "graph" }, s("defs", {}, head), lines.map(({ line }) => line), lines.map(({ hit }) => hit), circles.map(({ circle }) => circle));
  const places = new Map();
  let last = [new Set(), null];

  function lay() {
    for (const { edge, line, hit } of lines) {
      const [x1, y1] = spots.get(edge.u), [x2, y2] = spots.get(edge.v);
      for (const each of [line, hit]) for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) each.setAttribute(name, value.toFixed(1));
      places.set(edge.f, [(x1 + x2) / 2, (y1 + y2) / 2]);
    }
    for (const { node, circle } of circles) circle.setAttribute("transform", `translate(${spots.get(node.id).map((x) => x.toFixed(1)).join(" ")})`);
  }

  function paint(chosen, at) {
    last = [chosen, at];
    for (const { edge, line, hit } of lines) {
      line.setAttribute("class", `edge${chosen.has(edge.f) ? " in" : ""}${edge.f === at ? " at" : ""}`);
      line.setAttribute("stroke-width", String(chosen.has(edge.f) ? 4.5 : 1.2 + 2 * edge.share));
      if (edge.arrow) line.setAttribute("marker-end", "url(#arrow)");
      hit.setAttribute("class", "hit");
    }
  }

  for (const { edge, hit } of lines) {
    hit.addEventListener("click", () => act.toggle(edge.f));
    hit.addEventListener("pointerenter", () => act.point(edge.f));
    hit.addEventListener("pointerleave", () => act.point(null));
  }
  for (const { node, circle } of circles) {
    circle.addEventListener("pointerdown", (event) => {
      circle.setPointerCapture(event.pointerId);
      const drag = (move) => {
        const box = svg.getBoundingClientRect();
        const x = ((move.clientX - box.left) / box.width) * across, y = ((move.clientY - box.top) / box.height) * tall;
        spots.set(node.id, [Math.min(across - 12, Math.max(12, x)), Math.min(tall - 12, Math.max(12, y))]);
        lay();
        paint(...last);
      };
      circle.addEventListener("pointermove", drag);
      const end = () => circle.removeEventListener("pointermove", drag);
      circle.addEventListener("pointerup", end, { once: true });
      circle.addEventListener("pointercancel", end, { once: true });
    });
  }
  lay();
  const more = scene.hidden ? ` ${scene.hidden} edges are not drawn.` : "";
  return { element: h("div", { class: "scene" }, svg), places, paint, key: `Thick blue: in the subset; wider: higher score; orange: the explained node. Nodes can be dragged.${more}` };
}

// --- Texts ------------------------------------------------------------------------------------------------------------

function drawText(scene, act) {
  const pieces = [], places = new Map();
  const element = h("div", { class: "scene words" }, scene.runs.map((run) => {
    if (run.f < 0) return document.createTextNode(run.text);
    const piece = h("span", { class: "word", "data-f": run.f, onclick: () => act.toggle(run.f), onpointerenter: () => act.point(run.f), onpointerleave: () => act.point(null) }, run.text);
    pieces.push([run.f, piece]);
    if (!places.has(run.f)) places.set(run.f, [places.size, 0]);
    return piece;
  }));
  const paint = (chosen, at) => {
    for (const [f, piece] of pieces) piece.setAttribute("class", `word${chosen.has(f) ? " in" : ""}${f === at ? " at" : ""}`);
  };
  return { element, places, paint, reading: true, key: "Blue and underlined: in the subset." };
}

// --- Series -----------------------------------------------------------------------------------------------------------

/** Draw the lines of a series; windows where `act` is given. */
export function seriesSvg(scene, act, { wide = 760, left = 58, tall = null, ticks = true } = {}) {
  const each = tall ?? (scene.panels.length === 1 ? 150 : scene.panels.length <= 3 ? 96 : 64);
  const gap = 12, foot = ticks ? 22 : 2;
  const across = (x) => left + x * (wide - left - 8);
  const parts = [], windows = [];
  let top = 2;
  for (const panel of scene.panels) {
    const named = panel.name && ticks ? 16 : 0;
    if (named) parts.push(s("text", { x: left, y: top + 12, class: "name" }, panel.name));
    top += named;
    const down = (v) => top + each * (1 - (v - panel.low) / ((panel.high - panel.low) || 1));
    if (act) {
      for (const { start, end, f } of panel.windows) {
        const box = s("rect", { class: "window", "data-f": f, x: across(start), y: top, width: Math.max(1.5, across(end) - across(start)), height: each });
        windows.push({ f, box, at: [(across(start) + across(end)) / 2, top + each / 2] });
        parts.push(box);
      }
    }
    parts.push(s("path", { class: "frame", d: `M${left} ${top}V${top + each}H${wide - 8}` }));
    let path = "", pen = "M";
    panel.values.forEach((value, k) => {
      if (value === null) { pen = "M"; return; }
      path += `${pen}${across(panel.times[k]).toFixed(1)} ${down(value).toFixed(1)}`;
      pen = "L";
    });
    parts.push(s("path", { class: "plot", d: path }));
    if (ticks) {
      const known = panel.values.filter((value) => value !== null);
      for (const value of known.length ? [Math.max(...known), Math.min(...known)] : []) parts.push(s("text", { x: left - 6, y: down(value) + 4, "text-anchor": "end" }, String(Number(value.toPrecision(3)))));
    }
    top += each + gap;
  }
  if (ticks) for (const { at, text } of scene.ticks) parts.push(s("text", { x: Math.min(across(at), wide - 20), y: top + 4, "text-anchor": "middle" }, text));
  return { svg: s("svg", { viewBox: `0 0 ${wide} ${top - gap + foot}`, class: "series" }, parts), windows };
}

function drawSeries(scene, act) {
  const { svg, windows } = seriesSvg(scene, act);
  const places = new Map();
  for (const { f, box, at } of windows) {
    if (!places.has(f)) places.set(f, at);
    box.addEventListener("click", () => act.toggle(f));
    box.addEventListener("pointerenter", () => act.point(f));
    box.addEventListener("pointerleave", () => act.point(null));
  }
  const paint = (chosen, at) => {
    for (const { f, box } of windows) box.setAttribute("class", `window${chosen.has(f) ? " in" : ""}${f === at ? " at" : ""}`);
  };
  return { element: h("div", { class: "scene" }, svg), places, paint, key: `Shaded and framed: in the subset. ${scene.left_out ? `${scene.left_out}.` : ""}` };
}

// --- The list of features, of every kind --------------------------------------------------------------------------------

/** List features with their values and scores; arrow keys move, the space bar takes one in or out. */
export function featureList(view, act) {
  const scores = view.features.map((each) => [each.score ?? 0, each.half ?? 0]);
  const low = Math.min(0, ...scores.map(([score, half]) => score - half)), high = Math.max(0, ...scores.map(([score, half]) => score + half));
  const span = high - low || 1;
  const rows = new Map(), valued = view.lists && view.scene.kind !== "graph"; // an edge is there: it has no value
  view.features.forEach((each, k) => {
    const bar = h("span", { class: "bar" }), score = each.score ?? 0;
    const part = (kind, from, to) => {
      const strip = h("span", { class: kind });
      strip.style.left = `${(100 * (from - low)) / span}%`;
      strip.style.width = `${(100 * (to - from)) / span}%`;
      return strip;
    };
    bar.append(part("score", Math.min(0, score), Math.max(0, score)));
    if (each.half !== null && each.half > 0.005 * span) bar.append(part("whisker", score - each.half, score + each.half));
    const row = h("div", { role: "option", class: "feature", "data-f": each.f, tabindex: k ? -1 : 0, "aria-selected": "false",
      onclick: () => act.toggle(each.f), onpointerenter: () => act.point(each.f), onpointerleave: () => act.point(null), onfocus: () => act.point(each.f) },
      h("span", { class: "tick", "aria-hidden": "true" }), h("span", { class: "named" }, each.name), h("span", { class: "value" }, valued ? each.value : ""),
      h("span", { class: "number" }, each.score_text), bar, h("span", { class: "number" }, each.direction), h("span", { class: "number" }, each.stability));
    rows.set(each.f, row);
  });
  const order = [...rows.keys()];
  const list = h("div", { role: "listbox", "aria-multiselectable": "true", class: "features", "aria-label": `${view.units[1]}, the highest scores first`,
    onkeydown: (event) => {
      const from = order.findIndex((f) => rows.get(f) === document.activeElement);
      const to = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: order.length - 1, PageDown: Math.min(from + 10, order.length - 1), PageUp: Math.max(from - 10, 0) }[event.key];
      if (event.key === " " || event.key === "Enter") { event.preventDefault(); if (from >= 0) act.toggle(order[from]); }
      if (to === undefined || to < 0 || to >= order.length) return;
      event.preventDefault();
      for (const row of rows.values()) row.tabIndex = -1;
      const row = rows.get(order[to]);
      row.tabIndex = 0;
      row.focus();
    } }, [...rows.values()]);
  const head = h("div", { class: "feature head", "aria-hidden": "true" }, h("span", {}), h("span", {}, view.units[0]), h("span", {}, valued ? "value" : ""), h("span", { class: "number" }, view.score_label), h("span", {}),
    h("span", { class: "number" }, "if changed"), h("span", { class: "number" }, "chosen in"));
  const element = h("div", { class: "listing" }, head, list, view.n_more > 0 ? h("p", { class: "faint" }, `${view.n_more.toLocaleString("en")} more ${view.units[1]} are not listed.`) : null);
  return {
    element,
    paint(chosen, at, can) {
      for (const [f, row] of rows) {
        row.setAttribute("aria-selected", String(chosen.has(f)));
        row.classList.toggle("in", chosen.has(f));
        row.classList.toggle("at", f === at);
        row.toggleAttribute("aria-disabled", !can);
        fill(row.firstChild, chosen.has(f) ? document.createTextNode("✓") : null);
      }
    },
    name: (f) => view.features.find((each) => each.f === f)?.name ?? `${view.units[0]} ${f + 1}`,
  };
}
