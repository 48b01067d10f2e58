// The known origins and their states, page by page, and which robots.txt files have changed.

import { forget, get } from "./api.js";
import { byId, count, el, fill, foreign, hush, moment, plain, plural, route, tell } from "./dom.js";
import { answerOf, stateLine } from "./words.js";

const page = 50;
const changesShown = 5;
const askEvery = 10_000; // ms
const typingPause = 300; // ms
let asking = new AbortController(), again, under = false, shown = new URLSearchParams();

export function start() {
  const form = byId("search");
  const search = () => {
    const { q, state, sort } = form.elements;
    location.hash = route("origins", { q: q.value.trim(), state: state.value, sort: sort.value });
  };
  let pending;
  form.addEventListener("input", (event) => {
    clearTimeout(pending);
    pending = setTimeout(search, event.target instanceof HTMLSelectElement ? 0 : typingPause);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(pending);
    search();
  });
  const rows = byId("origins-rows");
  rows.addEventListener("pointerenter", (event) => { under = event.pointerType === "mouse"; });
  rows.addEventListener("pointerleave", () => { under = false; });
}

export function hide() {
  asking.abort();
  clearInterval(again);
  hush(byId("origins-told"));
}

export async function show(query) {
  hide();
  shown = query;
  for (const field of byId("search").elements) {
    if (field.name && document.activeElement !== field) field.value = query.get(field.name) ?? ""; // else the user is typing
  }
  again = setInterval(() => !under && !document.hidden && refresh(), askEvery); // the list stands still under the pointer
  await refresh();
}

async function refresh() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking, query = shown;
  const [q, after, state, sort] = ["q", "after", "state", "sort"].map((name) => query.get(name) ?? "");
  try {
    const [known, changed] = await Promise.all([
      get("policies", { limit: page, q, after, state, sort }, signal),
      get("changes", { limit: changesShown }, signal),
    ]);
    list(known, { q, after, state, sort });
    listChanges(changed);
    hush(byId("origins-notice"));
  } catch (problem) {
    if (problem.name !== "AbortError") tell(byId("origins-notice"), problem, refresh);
  }
}

function list({ policies, next, partial }, { q, after, state, sort }) {
  const rows = byId("origins-rows"), focused = rows.contains(document.activeElement) && document.activeElement.id;
  fill(rows, policies.map(row));
  if (focused) byId(focused)?.focus();
  rows.parentElement.hidden = policies.length === 0;
  byId("origins-empty").hidden = policies.length > 0;
  fill(byId("origins-empty"), el("p", {}, next
    ? "None of the origins searched so far matches. The next page continues the search."
    : q || after || state ? "No known origin matches. An origin is known once a client or an explanation has asked for it."
    : "No origins yet. The first request to an origin adds it here, with what its robots.txt says and how long that holds."));
  turn(byId("first-page"), after !== "", { q, state });
  turn(byId("next-page"), Boolean(next), { q, state, after: next });
  byId("origins-count").textContent = (policies.length ? plural(policies.length, "origin") + (next || after || sort && policies.length === page ? " on this page" : "") : "") +
    (partial ? ". There are too many origins to sort all of them: search for some." : "");
}

function turn(link, there, query) {
  link.hidden = !there;
  link.href = route("origins", query);
}

function row(policy) {
  const cell = (name, ...content) => el("td", { role: "cell", class: name }, ...content);
  const { origin } = policy;
  return el("tr", { role: "row", class: policy.state },
    cell("origin", el("a", { id: `at-${origin}`, href: route("origin", { origin }) }, foreign(origin, 200))),
    cell("stands", stateLine(policy)),
    cell("answer", answerOf(policy)),
    cell("fetched", el("span", { class: "label" }, "fetched "), policy.fetched_at ? moment(policy.fetched_at) : "never"),
    cell("forget", el("button", { id: `forget-${origin}`, type: "button", class: "danger small", "aria-label": `Forget ${plain(origin, 200)}`, title: "The next request to it fetches its robots.txt. Its history stays.", click: () => drop(origin) }, "Forget")));
}

async function drop(origin) {
  try {
    await forget(origin);
    fill(byId("origins-told"), foreign(origin, 200), " is forgotten. The next request to it fetches its robots.txt.");
    byId("origins-told").hidden = false;
    await refresh();
  } catch (problem) {
    tell(byId("origins-notice"), problem, () => drop(origin));
  }
}

function listChanges({ changes, total }) {
  byId("changes-told").textContent = total > changesShown ? `${changesShown} of ${count(total)}, the newest` : "";
  fill(byId("changes-rows"), total === 0 ? el("li", { class: "aside" }, "No robots.txt has changed.") : changes.map((c) => el("li", {},
    el("a", { href: route("origin", { origin: c.origin, part: "history" }) }, foreign(c.origin, 200)),
    el("span", { class: "aside" }, ` ${c.status} · `, moment(c.time)))));
}
