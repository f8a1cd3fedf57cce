// The gallery of all inputs, a page at a time, and what is true of all of them at once.

import { h, s, fill, percent, between, count } from "./dom.js";
import { seriesSvg } from "./scenes.js";

const SORTS = [["order", "as they came"], ["pns", "both (PNS)"], ["keep", "keep"], ["change", "change"], ["size", "size of the subset"], ["prediction", "prediction"], ["id", "name"]];

/** Show the gallery: `state` is what the address says, `go(changes)` changes it, `link(view, state)` makes addresses. */
export async function galleryPage(state, ask, go, link) {
  const query = Object.fromEntries(Object.entries(state).filter(([, value]) => value !== null && value !== "" && value !== undefined));
  const [found, all] = await Promise.all([ask.records(query), ask.all("")]);
  const field = (words, control) => h("label", {}, h("span", {}, words), control);
  const pick = (name, options, value) => h("select", { name, onchange: (event) => go({ [name]: event.target.value, page: null }) },
    options.map(([key, words]) => h("option", { value: key, selected: String(value ?? "") === String(key) }, words)));
  const amount = (name, words, attributes, scale = 1) => field(words, h("input", { type: "number", name, ...attributes, value: state[name] === null || state[name] === undefined ? "" : Math.round(state[name] * scale),
    onchange: (event) => go({ [name]: event.target.value === "" ? null : String(Number(event.target.value) / scale), page: null }) }));
  const controls = h("form", { class: "controls", onsubmit: (event) => event.preventDefault(), "aria-label": "Which inputs are shown" },
    field("Name", h("input", { type: "search", name: "words", value: state.words ?? "", maxlength: 80, onchange: (event) => go({ words: event.target.value || null, page: null }) })),
    all.classes.length > 1 ? field("Explained", pick("target", [["", "any"], ...all.classes.map(({ name, n }) => [name, `${name} (${count(n)})`])], state.target)) : null,
    all.features ? field("Has in its subset", pick("feature", [["", "anything"], ...all.features.filter(({ n }) => n).map(({ f, name, n }) => [f, `${name} (${count(n)})`])], state.feature)) : null,
    amount("low", "PNS from %", { min: 0, max: 100 }, 100), amount("high", "to %", { min: 0, max: 100 }, 100),
    amount("least", "Size from", { min: 0 }), amount("most", "to", { min: 0 }),
    field("Sort by", pick("sort", SORTS, state.sort ?? "order")),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "down", checked: Boolean(Number(state.down ?? 0)), onchange: (event) => go({ down: event.target.checked ? "1" : null, page: null }) }), h("span", {}, "highest first")));
  const last = Math.max(0, Math.ceil(found.found / found.size) - 1);
  const turn = (to, words, can) => h("a", { class: `button${can ? "" : " off"}`, href: can ? link("gallery", { ...state, page: to || null }) : null, "aria-disabled": can ? null : "true" }, words);
  const pager = () => h("nav", { class: "pager", "aria-label": "Pages" }, turn(0, "First", found.page > 0), turn(found.page - 1, "Previous", found.page > 0),
    h("span", {}, `Page ${count(found.page + 1)} of ${count(last + 1)}`), turn(found.page + 1, "Next", found.page < last), turn(last, "Last", found.page < last));
  const cards = found.records.map((each) => recordCard(each, link));
  const element = h("section", { class: "gallery" }, h("h1", {}, "Inputs"), controls,
    h("p", { role: "status", class: "faint" }, found.found === found.n ? `${count(found.n)} inputs` : `${count(found.found)} of ${count(found.n)} inputs`),
    found.found ? h("ul", { class: `cards ${found.look}` }, cards.map(({ element: card }) => card)) : h("p", {}, "No input is like that. ", h("a", { href: link("gallery", {}) }, "Show all")),
    last > 0 ? pager() : null);
  preview(cards, ask);
  return element;
}

function recordCard(each, link) {
  const look = h("div", { class: "thumb", "aria-hidden": "true" });
  const names = h("p", { class: "names" });
  const outcome = h("span", { class: "outcome" }, each.target);
  const p = (words, value) => h("span", {}, h("small", {}, words), h("b", {}, percent(value)));
  const bar = h("div", { class: "fill" });
  bar.style.width = `${100 * (each.pns ?? 0)}%`;
  const element = h("li", { class: "card" }, h("a", { href: link("input", { i: each.i }) }, look, h("h2", {}, each.id), outcome, names,
    h("div", { class: "gauge", "aria-hidden": "true" }, bar),
    h("p", { class: "three" }, p("keep", each.keep), p("change", each.change), p("both", each.pns), h("span", {}, h("small", {}, "size"), h("b", {}, count(each.size))))));
  return { element, look, names, outcome, i: each.i };
}

/** Fetch what cards look like, a few at a time, once they are on the page. */
async function preview(cards, ask) {
  for (let start = 0; start < cards.length; start += 12) {
    const some = cards.slice(start, start + 12);
    let found;
    try { found = await ask.previews(some.map(({ i }) => i)); } catch { return; }
    found.previews.forEach((told, k) => {
      const { look, names, outcome } = some[k];
      outcome.textContent = told.outcome;
      names.textContent = told.names.join(", ");
      if (told.shown.kind === "picture") fill(look, h("img", { src: told.shown.picture, alt: "", class: "pixels" }));
      else if (told.shown.kind === "text") fill(look, h("q", {}, told.shown.text));
      else if (told.shown.kind === "series") fill(look, seriesSvg(told.shown, null, { wide: 220, left: 4, tall: 40, ticks: false }).svg);
      else look.hidden = true;
    });
  }
}

/** Show what is true of all inputs, or of those explained for a class. */
export async function globalPage(state, ask, go, link) {
  const all = await ask.all(state.target ?? "");
  const name = state.target ? { target: state.target } : {};
  const classes = all.classes.length > 1 ? h("form", { class: "controls", onsubmit: (event) => event.preventDefault() }, h("label", {}, h("span", {}, "Explained"),
    h("select", { name: "target", onchange: (event) => go({ target: event.target.value || null }) },
      h("option", { value: "" }, "any"), all.classes.map((each) => h("option", { value: each.name, selected: each.name === state.target }, `${each.name} (${count(each.n)})`)))),
    h("label", {}, h("span", {}, "Find a feature"), h("input", { type: "search", oninput: (event) => find(event.target.value) }))) : h("form", { class: "controls", onsubmit: (event) => event.preventDefault() },
    h("label", {}, h("span", {}, "Find a feature"), h("input", { type: "search", oninput: (event) => find(event.target.value) })));
  const rows = (all.features ?? []).map((each) => {
    const bar = h("div", { class: "fill" }), whisker = h("div", { class: "whisker" });
    bar.style.width = `${100 * each.share}%`;
    whisker.style.left = `${100 * each.low}%`;
    whisker.style.width = `${100 * (each.high - each.low)}%`;
    return [each.name.toLowerCase(), h("tr", {}, h("th", { scope: "row" }, h("a", { href: link("gallery", { ...name, feature: each.f }) }, each.name)),
      h("td", { class: "wide" }, h("div", { class: "gauge", "aria-hidden": "true" }, bar, whisker)), h("td", { class: "number" }, percent(each.share), h("small", {}, between(each.low, each.high))), h("td", { class: "number" }, count(each.n)))];
  });
  const find = (words) => rows.forEach(([each, row]) => { row.hidden = !each.includes(words.toLowerCase()); });
  return h("section", { class: "global" }, h("h1", {}, "All inputs"), classes,
    h("p", { class: "faint" }, `${count(all.n)} inputs${state.target ? `, explained for ${state.target}` : ""}. A bar leads to the inputs behind it.`),
    h("div", { class: "charts" },
      bars("both (PNS) of the subset", all.pns, ({ low, high }) => `${Math.round(100 * low)} to ${Math.round(100 * high)} %`, ({ low, high }) => link("gallery", { ...name, low, high: high < 1 ? high - 1e-9 : 1 })),
      bars("size of the subset", all.sizes, ({ low, high }) => (low === high ? String(low) : `${low} to ${high}`), ({ low, high }) => link("gallery", { ...name, least: low, most: high }))),
    all.undefined ? h("p", { class: "faint" }, `PNS is undefined for ${count(all.undefined)}.`) : null,
    all.features ? [h("h2", {}, "How often each feature is in the subset"), h("div", { class: "scroll" }, h("table", { class: "often" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "feature"), h("th", { scope: "col" }, ""), h("th", { scope: "col", class: "number" }, "share, 95 % interval"), h("th", { scope: "col", class: "number" }, "inputs"))), h("tbody", {}, rows.map(([, row]) => row))))]
      : h("p", {}, "Features differ from input to input here, so that they cannot be counted over all of them."));
}

function bars(title, bins, words, address) {
  const wide = 420, tall = 170, foot = 30, top = 18;
  const most = Math.max(1, ...bins.map(({ n }) => n));
  const step = wide / Math.max(1, bins.length);
  const parts = bins.map((bin, k) => {
    const height = bin.n ? Math.max(2, ((tall - foot - top) * bin.n) / most) : 0;
    return s("a", { href: address(bin), "aria-label": `${words(bin)}: ${count(bin.n)}` },
      s("rect", { class: "back", x: k * step, y: top - 16, width: step, height: tall - foot - top + 16 }),
      s("rect", { class: "bin", x: k * step + 2, y: tall - foot - height, width: Math.max(1, step - 4), height }),
      s("text", { x: (k + 0.5) * step, y: tall - foot - height - 4, "text-anchor": "middle" }, bin.n ? count(bin.n) : ""),
      s("text", { x: (k + 0.5) * step, y: tall - foot + 15, "text-anchor": "middle", class: "tick" }, step < 40 && k % 2 ? "" : words(bin).replace(" to ", "-").replace(" %", "")));
  });
  return h("figure", {}, h("figcaption", {}, title), s("svg", { viewBox: `0 0 ${wide} ${tall}`, class: "bars", role: "group", "aria-label": title }, parts));
}
