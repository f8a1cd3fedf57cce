// Which page is shown: the address after # says so, so that it can be sent to somebody, and back goes back.

import { h, fill, themeButton } from "./dom.js";
import { galleryPage, globalPage } from "./gallery.js";
import { inputPage } from "./input.js";

const main = document.getElementById("main");
const header = document.getElementById("header");
const channel = [...crypto.getRandomValues(new Uint32Array(3))].map((part) => part.toString(36)).join("");
let leaving = new AbortController(), clicking = new AbortController(), turn = 0, run = null;

async function asked(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer; is it still running?");
  }
  const told = await answer.json().catch((error) => {
    if (error.name === "AbortError") throw error; // left while the answer was on its way
    throw new Error("The server's answer could not be read.");
  });
  if (!answer.ok) {
    const error = new Error(told.error ?? `The server answered ${answer.status}.`);
    throw error;
  }
  if (told.superseded) throw Object.assign(new Error(told.superseded), { name: "AbortError" });
  return told;
}

const get = (address, query = {}) => asked(`${address}?${new URLSearchParams(query)}`, { signal: leaving.signal });
const post = (address, body, signal = leaving.signal) => asked(address, { method: "POST", signal, headers: { "content-type": "application/json" }, body: JSON.stringify({ ...body, channel }) });

const ask = { records: (query) => get("/api/records", query), all: (target) => get("/api/global", target ? { target } : {}), previews: (of) => get("/api/previews", { of: of.join(",") }) };

/** Return what the address says: the page, and its state. */
function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const state = Object.fromEntries(new URLSearchParams(query ?? ""));
  const [view, i] = path.split("/");
  return view === "input" ? { view, state: { ...state, i: Number(i) } } : view === "all" ? { view, state } : { view: "gallery", state };
}

/** Return the address of a page in a state. */
function link(view, state) {
  const { i, ...rest } = state;
  const known = Object.entries(rest).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(known.map(([name, value]) => [name, String(value)])).toString();
  return `#/${view === "input" ? `input/${i}` : view === "all" ? "all" : ""}${query ? `?${query}` : ""}`;
}

function askOf(i, canTry) {
  return {
    canTry,
    score(subset, tolerance) {
      clicking.abort();
      clicking = new AbortController();
      return post("/api/score", { i, subset, tolerance }, clicking.signal);
    },
    curve: () => post("/api/curve", { i }),
    trials: (subset) => post("/api/trials", { i, subset }),
    method: (method) => post("/api/method", { i, method }),
    state(changes, push) {
      const now = read();
      if (now.view !== "input" || now.state.i !== i) return;
      const address = link("input", { ...now.state, ...changes });
      if (address === location.hash) return;
      if (push) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    },
    exportAddress(subset, k, t) {
      const query = Object.entries({ i, subset, k, t }).filter(([, value]) => value !== null && value !== undefined);
      return `/api/export?${new URLSearchParams(query.map(([name, value]) => [name, String(value)]))}`;
    },
  };
}

async function openInput(state) {
  const view = await get("/api/view", { i: String(state.i) });
  const whole = (text) => (/^\d{1,9}$/.test(text ?? "") ? Number(text) : null);
  const subset = state.subset === undefined ? null : state.subset.split(".").map(whole).filter((f) => f !== null);
  const there = (i, words, key) => h("a", { class: `button${i >= 0 && i < view.n ? "" : " off"}`, href: i >= 0 && i < view.n ? link("input", { i }) : null, "aria-keyshortcuts": key, rel: words.toLowerCase() }, words);
  const nav = h("nav", { class: "pager", "aria-label": "Inputs" }, h("a", { href: "#/", class: "button" }, "All inputs"), there(view.i - 1, "Previous", "["), h("span", {}, `${(view.i + 1).toLocaleString("en")} of ${view.n.toLocaleString("en")}`), there(view.i + 1, "Next", "]"));
  return [nav, inputPage(view, { k: whole(state.k), t: whole(state.t), tab: state.tab, subset }, askOf(view.i, view.model.available))];
}

function drawHeader(view) {
  const tab = (key, words, address) => h("a", { href: address, "aria-current": key === view ? "page" : null }, words);
  fill(header, h("a", { class: "brand", href: "#/" }, "fans"), h("span", { class: "run" }, run?.title ?? ""),
    h("nav", { "aria-label": "Pages" }, tab("gallery", "Inputs", "#/"), tab("all", "All inputs at once", "#/all")), h("span", { class: "space" }), themeButton());
}

async function render() {
  const mine = ++turn;
  leaving.abort();
  clicking.abort();
  leaving = new AbortController();
  const { view, state } = read();
  main.setAttribute("aria-busy", "true");
  try {
    run ??= await get("/api/run");
    drawHeader(view);
    let shown;
    if (view === "input") shown = await openInput(state);
    else {
      const go = (changes) => { location.hash = link(view, { ...read().state, ...changes }); };
      shown = [await (view === "all" ? globalPage : galleryPage)(state, ask, go, link)];
    }
    if (mine !== turn) return;
    const focused = document.activeElement?.getAttribute?.("name");
    fill(main, shown);
    if (focused) main.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus();
    document.title = `${main.querySelector("h1")?.firstChild?.textContent ?? "fans"} - ${run.title}`;
  } catch (error) {
    if (mine !== turn || error.name === "AbortError") return;
    fill(main, h("p", { class: "error", role: "alert" }, error.message), h("p", {}, h("a", { href: "#/" }, "To all inputs")));
  } finally {
    if (mine === turn) main.removeAttribute("aria-busy");
  }
}

addEventListener("popstate", render);
addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const way = { "[": "previous", "]": "next" }[event.key];
  if (way) main.querySelector(`a[rel=${way}][href]`)?.click();
});
render();
