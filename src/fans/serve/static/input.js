// The page of one input: the sentence, its features, the three figures, the curve, trials and methods.

import { h, fill, percent, between, sentence, short, tabs, themeButton } from "./dom.js";
import { figuresPanel } from "./figures.js";
import { curvePanel, figuresAt, placeOf, subsetAt } from "./curve.js";
import { drawScene, featureList } from "./scenes.js";
import { markBest, methodsTable, trialsPanel } from "./trials.js";

const TABS = [["trials", "Trials"], ["methods", "Methods side by side"], ["details", "Details"]];

/**
 * Show one input. `ask` answers questions: `ask.score(subset, tolerance)`, `ask.curve()`, `ask.trials(subset)`,
 * `ask.method(name)`; `ask.state(changes, push)` keeps the state where it is found again.
 */
export function inputPage(view, state, ask) {
  const can = view.model.available;
  const page = { curve: undefined, subset: new Set(view.subset), k: null, t: null, at: null, figures: view.figures, asked: 0, from: "own" };
  const scores = new Map();

  const act = {
    toggle(f) {
      if (!can) { why.classList.add("told"); figures.said.textContent = view.model.why; return; }
      const subset = new Set(page.subset);
      if (!subset.delete(f)) subset.add(f);
      choose(subset, page.t, true);
      figures.said.textContent = `${list.name(f)} ${page.subset.has(f) ? "is in" : "is out"}`;
    },
    point(f, aloud = false) {
      page.at = f;
      paint();
      hint.textContent = f === null ? "" : `${list.name(f)}: ${page.subset.has(f) ? "in" : "out"}`;
      if (aloud && f !== null) figures.said.textContent = hint.textContent;
    },
  };

  const figures = figuresPanel();
  const list = featureList(view, act);
  const scene = drawScene(view.scene, act, `${view.title}: ${view.n_features} ${view.units[1]}`);
  const hint = h("p", { class: "hint", "aria-hidden": "true" });
  const about = h("p", { class: "about" });
  const sentenceNow = h("p", { class: "finding" });
  const strip = h("p", { class: "strip", "aria-hidden": "true" });
  const back = h("button", { type: "button", class: "reset", hidden: true, onclick: () => choose(new Set(view.subset), page.curve?.used ?? null, true) }, "Back to the explanation's own");
  const why = h("p", { class: "why", hidden: can }, view.model.why);
  const along = h("div", { class: "curve-place" }, h("p", { class: "faint" }, "The curve is being computed ..."));
  const panel = h("div", { role: "tabpanel", id: "panel", class: "panel", tabindex: 0 });
  const bar = h("div", {});
  let sliders = null;

  function paint() {
    list.paint(page.subset, page.at, can);
    scene?.paint(page.subset, page.at);
  }

  function explained() {
    const which = page.curve && page.t !== null ? page.curve.tolerances[page.t] : view.tolerance;
    const by = view.change === "label" ? "class" : "prediction";
    const stays = view.change === "label" ? "stays" : view.change === "fall" ? `falls by at most ${short(which)}` : `stays within ${short(which)}`;
    const moves = view.change === "label" ? "changes" : view.change === "fall" ? "falls by more" : "moves by more";
    const all = page.subset.size ? "everything else" : "everything";
    return { keep: `${all} changed, the ${by} ${stays}`, change: `only these changed, the ${by} ${moves}`, both: `both at once (PNS), ${percent(view.confidence)} interval` };
  }

  function show() {
    const empty = !page.subset.size;
    figures.show(page.figures, explained(), view.confidence, empty);
    const n = page.subset.size, of = `${n} of ${view.n_features} ${view.units[view.n_features === 1 ? 0 : 1]}`;
    const own = page.from === "own";
    strip.textContent = ["keep", "change", "both"].map((name) => `${name} ${empty && name !== "keep" ? "-" : percent(page.figures[name][0])}`).join("   ");
    about.textContent = { own: `The explanation's own subset: ${of}.`, along: `The ${of} that rank highest.`, asked: `Your own subset: ${of}, asked of the model.` }[page.from];
    back.hidden = own;
    if (own) fill(sentenceNow, sentence(view.finding));
    else if (page.said) fill(sentenceNow, sentence(page.said));
    else fill(sentenceNow, document.createTextNode(`With ${of}${page.from === "along" ? " that rank highest" : ""}: keep ${percent(page.figures.keep[0])}${empty ? "" : `, change ${percent(page.figures.change[0])}, both ${percent(page.figures.both[0])} ${between(page.figures.both[1], page.figures.both[2])}`}.`));
    sentenceNow.classList.toggle("asked", !own);
    const mark = page.from === "asked" ? { size: n, p: page.figures.both[0] } : null;
    if (sliders) sliders.show(page.k, page.t, mark);
    paint();
  }

  /** Take a subset, at a tolerance: what is known is shown at once, else the model is asked. */
  async function choose(subset, t, push) {
    page.subset = subset;
    page.t = t ?? page.curve?.used ?? null;
    const k = page.curve ? placeOf(page.curve, subset) : same(subset, view.subset) ? null : -1;
    const known = page.curve ? k >= 0 : k === null;
    page.k = page.curve && k >= 0 ? k : null;
    const turn = ++page.asked;
    if (push) remember(true);
    if (known) {
      const own = same(subset, view.subset) && (!page.curve || page.t === page.curve.used);
      Object.assign(page, { from: own ? "own" : "along", said: null, figures: own ? view.figures : figuresAt(page.curve, k, page.t) });
      figures.busy(false);
      show();
      refresh();
      return;
    }
    paint();
    back.hidden = false;
    const value = page.curve && page.t !== page.curve.used ? page.curve.tolerances[page.t] : null;
    const key = `${[...subset].sort((a, b) => a - b)}/${value}`;
    figures.busy(true);
    try {
      const found = scores.get(key) ?? await ask.score([...subset], value);
      if (turn !== page.asked) return;
      scores.set(key, found);
      Object.assign(page, { from: found.own ? "own" : "asked", figures: found.figures, said: found.own ? null : found.said });
      show();
      refresh();
    } catch (error) {
      if (turn === page.asked && error.name !== "AbortError") figures.fail(error.message);
    } finally {
      if (turn === page.asked) figures.busy(false);
    }
  }

  function move(k, t, done) {
    const mine = page.k === null && page.from === "asked";
    if (mine && k === page.lastK) { if (done) choose(page.subset, t, true); return; } // the tolerance of one's own subset
    page.lastK = k;
    page.asked++;
    figures.busy(false);
    const own = k === page.curve.chosen && t === page.curve.used;
    Object.assign(page, { k, t, subset: new Set(subsetAt(page.curve, k)), said: null, from: own ? "own" : "along", figures: own ? view.figures : figuresAt(page.curve, k, t) });
    show();
    if (done) { remember(true); refresh(); }
  }

  function remember(push) {
    const own = same(page.subset, view.subset) && (page.t === null || page.t === page.curve?.used);
    const sub = !own && (page.k === null) ? [...page.subset].sort((a, b) => a - b).join(".") : null;
    ask.state({ k: own || page.k === null ? null : page.k, t: own || page.t === null || page.t === page.curve?.used ? null : page.t, subset: sub }, push);
    exporter?.setAttribute("href", ask.exportAddress(sub, page.k, page.t));
  }

  // --- Tabs -----------------------------------------------------------------------------------------------------------

  let open = state.tab && TABS.some(([key]) => key === state.tab) ? state.tab : null, shownFor = null;

  function openTab(key) {
    open = key;
    shownFor = null;
    ask.state({ tab: key }, true);
    drawTabs();
    refresh();
  }

  function drawTabs() {
    fill(bar, tabs("More of this input", TABS, open ?? "trials", openTab));
    panel.setAttribute("aria-labelledby", `tab-${open ?? "trials"}`);
  }

  async function refresh() {
    const key = open ?? "trials";
    if (key === "details") {
      shownFor = key;
      fill(panel, details());
    } else if (key === "methods") {
      if (shownFor !== key) { shownFor = key; await methods(); }
    } else {
      const mine = `trials/${[...page.subset].sort((a, b) => a - b)}`;
      if (shownFor === mine) return;
      shownFor = mine;
      if (!page.subset.size) { fill(panel, h("p", { class: "faint" }, "Nothing is in the subset, so that there is nothing to change alone.")); return; }
      if (!ask.canTry) { fill(panel, h("p", { class: "faint" }, "Trials are drawn anew by the model, and there is none to ask here.")); return; }
      if (!open && !page.visible) { fill(panel, h("button", { type: "button", onclick: () => { page.visible = true; shownFor = null; refresh(); } }, "Show some trials of this subset")); return; }
      fill(panel, h("p", { class: "faint" }, "Some trials are being drawn ..."));
      try {
        const found = await ask.trials([...page.subset]);
        if (shownFor === mine) fill(panel, h("p", { class: "faint" }, "The nearest trials that moved the prediction and that did not, in equal numbers as far as there are any: their numbers estimate nothing."), trialsPanel(found, view.target));
      } catch (error) {
        if (shownFor === mine && error.name !== "AbortError") fill(panel, h("p", { class: "error", role: "alert" }, error.message));
      }
    }
  }

  async function methods() {
    const rows = [{ method: view.method, label: `${view.method} (this explanation)`, subset: view.subset, count: `${view.subset.length} of ${view.n_features} ${view.units[view.n_features === 1 ? 0 : 1]}`,
      names: view.lists ? view.features.filter((each) => view.subset.includes(each.f)).slice(0, 5).map((each) => each.name) : [], n_names: view.lists ? view.subset.length : 0, figures: view.figures, rows: null }];
    if (!can || !view.rivals.length) {
      fill(panel, markBest(methodsTable(rows, view.units, null), rows), h("p", { class: "faint" }, can ? "No other method fits these inputs." : "Other methods need the model, and there is none to ask here."));
      return;
    }
    rows.push(...view.rivals.map(({ name, label }) => ({ method: name, label })));
    const draw = () => { if (open === "methods") fill(panel, markBest(methodsTable(rows, view.units, (subset) => choose(new Set(subset), page.curve?.used ?? null, true)), rows)); };
    draw();
    for (const row of rows.slice(1)) {
      if (open !== "methods" || !document.contains(panel)) return;
      try {
        Object.assign(row, await ask.method(row.method), { label: row.label });
      } catch (error) {
        if (error.name === "AbortError") return;
        row.error = error.message;
      }
      draw();
    }
  }

  function details() {
    return [h("p", {}, view.facts), h("p", { class: "faint" }, view.legend)];
  }

  // --- Together -------------------------------------------------------------------------------------------------------

  const exporter = ask.exportAddress ? h("a", { class: "button", href: ask.exportAddress(null, null, null), download: "" }, "Save as one HTML file") : null;
  const listing = view.lists ? list.element : h("details", { class: "more" }, h("summary", {}, `List of ${view.units[1]}`), list.element);
  const element = h("article", { class: "input" },
    h("h1", {}, view.title, h("span", { class: "outcome" }, view.outcome)),
    sentenceNow,
    view.nothing ? h("p", { class: "nothing" }, view.nothing) : null,
    why,
    h("div", { class: "columns" },
      h("div", { class: "look" }, scene ? [scene.element, h("p", { class: "faint key" }, scene.key), hint] : null, listing, strip),
      h("aside", { class: "judge" }, h("div", { class: "head" }, about, back), figures.element, along)),
    bar, panel,
    exporter ? h("p", { class: "export" }, exporter) : null);

  drawTabs();
  show();
  start();

  function answers(subset) {
    return can || Boolean(ask.knows?.(subset));
  }

  async function start() {
    const wanted = state.subset !== null && state.subset !== undefined ? new Set(state.subset) : null;
    if (wanted && can && !same(wanted, view.subset)) choose(wanted, null, false);
    else refresh();
    let found = null;
    try { found = await ask.curve(); } catch (error) { if (error.name === "AbortError") return; found = { curve: null, why: error.message }; }
    page.curve = found.curve ?? null;
    if (!page.curve) { fill(along, h("p", { class: "faint" }, found.why ?? "No curve of PNS against size was kept.")); return; }
    sliders = curvePanel(page.curve, view.units, move);
    fill(along, sliders.element);
    const within = (value, n, otherwise) => (Number.isInteger(value) && value >= 0 && value < n ? value : otherwise);
    const t = within(state.t, page.curve.tolerances.length, page.curve.used);
    page.lastK = within(state.k, page.curve.sizes.length, page.curve.chosen);
    if (page.from === "own" && page.subset.size === view.subset.length && same(page.subset, view.subset) && !wanted) {
      move(page.lastK, t, false);
    } else if (wanted && answers(wanted)) choose(wanted, t, false);
    else { page.t = t; show(); }
    remember(false);
    refresh();
  }

  return element;
}

function same(set, list) {
  return set.size === list.length && list.every((f) => set.has(f));
}

/** Open the page that was saved as a file: everything it can be asked is within. */
function openExported() {
  const told = JSON.parse(document.getElementById("data").textContent);
  const kept = told.asked ? { subset: told.asked.subset } : {};
  const never = async () => { throw new Error(told.model.why); };
  const ask = {
    score: async (subset, tolerance) => (told.asked && same(new Set(subset), told.asked.subset) && tolerance === told.asked.tolerance ? told.asked : never()),
    knows: (subset) => Boolean(told.asked) && same(subset, told.asked.subset),
    curve: async () => ({ curve: told.curve }),
    trials: async (subset) => (told.trials && same(new Set(subset), told.asked ? told.asked.subset : told.subset) ? told.trials : Promise.reject(new Error("The trials of this subset were not saved."))),
    method: never,
    state() {},
    exportAddress: null,
    canTry: Boolean(told.trials),
  };
  const main = document.getElementById("main");
  document.body.prepend(h("header", { id: "header" }, h("span", { class: "brand" }, "fans"), h("span", { class: "run" }, told.run), h("span", { class: "space" }), themeButton()));
  main.append(inputPage(told, { ...told.state, ...kept, tab: told.trials ? "trials" : "details" }, ask));
}
