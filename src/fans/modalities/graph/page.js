// Lets the nodes of every drawn graph be moved: by the pointer, or by the keyboard (arrows choose, Shift+arrows move).
"use strict";
for (const svg of document.querySelectorAll(".fans figure.graph svg")) {
  const [, , drawn, tall] = svg.getAttribute("viewBox").split(" ").map(Number);
  const wide = Math.max(drawn, 560); // a narrow drawing gets room beside it
  svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  svg.setAttribute("width", wide);
  const step = 10; // of the keyboard, in units of the drawing
  const places = new Map(); // of each node: where it is, where it was drawn, and what is drawn of it
  for (const circle of svg.querySelectorAll("circle[data-node]")) {
    const x = Number(circle.getAttribute("cx"));
    const y = Number(circle.getAttribute("cy"));
    places.set(circle.dataset.node, { x, y, home: [x, y], circle, shapes: [circle] });
  }
  for (const text of svg.querySelectorAll("text[data-node]")) places.get(text.dataset.node).shapes.push(text);
  const lines = [...svg.querySelectorAll("line[data-ends]")].map((line) => [line, ...line.dataset.ends.split(" ")]);
  const reset = svg.parentElement.querySelector("button");

  function put(node, x, y) {
    const place = places.get(node);
    const margin = Number(place.circle.getAttribute("r")) + 1;
    place.x = Math.min(Math.max(x, margin), wide - margin);
    place.y = Math.min(Math.max(y, margin), tall - margin);
    const [x0, y0] = place.home;
    for (const shape of place.shapes) shape.setAttribute("transform", `translate(${place.x - x0} ${place.y - y0})`);
    for (const [line, u, v] of lines) {
      if (u === node) line.setAttribute("x1", place.x), line.setAttribute("y1", place.y);
      if (v === node) line.setAttribute("x2", place.x), line.setAttribute("y2", place.y);
    }
    reset.hidden = false;
  }

  function back() {
    for (const [node, place] of places) put(node, ...place.home);
    reset.hidden = true;
  }

  function at(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [point.x, point.y];
  }

  /** The node that is nearest in a direction, or null. */
  function next(from, dx, dy) {
    let best = null;
    let least = Infinity;
    for (const [node, place] of places) {
      const [x, y] = [place.x - from.x, place.y - from.y];
      const along = x * dx + y * dy;
      const far = Math.hypot(x, y) * (1 + Math.abs(x * dy - y * dx) / Math.max(along, 1e-9));
      if (along > 0 && far < least) [best, least] = [node, far];
    }
    return best;
  }

  function choose(node) {
    for (const [other, place] of places) place.circle.setAttribute("tabindex", other === node ? "0" : "-1");
  }

  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  let held = null; // the node that the pointer moves, and by how much it was taken beside its middle
  for (const [node, place] of places) {
    const { circle } = place;
    circle.setAttribute("role", "img");
    circle.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = at(event);
      held = { node, dx: place.x - x, dy: place.y - y };
      circle.setPointerCapture(event.pointerId);
    });
    circle.addEventListener("pointermove", (event) => {
      if (!held || held.node !== node) return;
      const [x, y] = at(event);
      put(node, x + held.dx, y + held.dy);
    });
    for (const end of ["pointerup", "pointercancel"]) circle.addEventListener(end, () => (held = null));
    circle.addEventListener("focus", () => choose(node));
    circle.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return back();
      const way = ways[event.key];
      if (!way || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      if (event.shiftKey) return put(node, place.x + step * way[0], place.y + step * way[1]);
      const other = next(place, ...way);
      if (other !== null) places.get(other).circle.focus();
    });
  }
  reset.addEventListener("click", back);
  svg.setAttribute("role", "group"); // a picture with parts now
  svg.classList.add("movable");
  svg.parentElement.querySelector(".how").hidden = false;
  const first = svg.querySelector("circle.explained") ?? svg.querySelector("circle[data-node]");
  if (first) choose(first.dataset.node);
}
