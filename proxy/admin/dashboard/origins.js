// The known origins and their states, page by page.

import { get } from "./api.js";
import { byId, el, fill, foreign, hush, moment, plural, route, tell } from "./dom.js";
import { answerOf, stateLine } from "./words.js";

const page = 50;
let asking = new AbortController();

export function start() {
  const form = byId("search");
  const search = () => { location.hash = route("origins", { q: form.elements.q.value.trim() }); };
  let pending;
  form.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(search, 300);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(pending);
    search();
  });
}

export const hide = () => asking.abort();

export async function show(query) {
  asking.abort();
  asking = new AbortController();
  const q = query.get("q") ?? "", after = query.get("after") ?? "";
  const field = byId("search").elements.q;
  if (document.activeElement !== field) field.value = q; // else the user is typing
  try {
    list(await get("policies", { limit: page, q, after }, asking.signal), q, after);
    hush(byId("origins-notice"));
  } catch (problem) {
    if (problem.name !== "AbortError") tell(byId("origins-notice"), problem, () => show(query));
  }
}

function list({ policies, next }, q, after) {
  fill(byId("origins-rows"), policies.map(row));
  byId("origins-rows").parentElement.hidden = policies.length === 0;
  byId("origins-empty").hidden = policies.length > 0;
  fill(byId("origins-empty"), el("p", {}, next
    ? "None of the origins searched so far matches. The next page continues the search."
    : q || after ? "No known origin matches. An origin is known once a client or an explanation has asked for it."
    : "No origins yet. The first request to an origin adds it here, with what its robots.txt says and how long that holds."));
  turn(byId("first-page"), after !== "", { q });
  turn(byId("next-page"), Boolean(next), { q, after: next });
  byId("origins-count").textContent = policies.length ? plural(policies.length, "origin") + (next || after ? " on this page" : "") : "";
}

function turn(link, there, query) {
  link.hidden = !there;
  link.href = route("origins", query);
}

function row(policy) {
  const cell = (name, ...content) => el("td", { role: "cell", class: name }, ...content);
  return el("tr", { role: "row", class: policy.state },
    cell("origin", el("a", { href: route("origin", { origin: policy.origin }) }, foreign(policy.origin, 200))),
    cell("stands", stateLine(policy)),
    cell("answer", answerOf(policy)),
    cell("fetched", el("span", { class: "label" }, "fetched "), policy.fetched_at ? moment(policy.fetched_at) : "never"));
}
