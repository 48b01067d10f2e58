// The lists of what is most frequent: part of the view Now.

import { get } from "./api.js";
import { byId, count, duration, el, fill, foreign, hush, plain, plural, route, tell } from "./dom.js";
import { phrase } from "./words.js";

const most = 5; // rows
const dayEvery = 60_000; // ms; the counts of a day take longer to read

let told = null, askedDay = 0;

export function start() {
  const form = byId("top-choice");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.list.addEventListener("change", draw);
  form.elements.period.addEventListener("change", () => show(true));
}

// show asks for the lists again, those of a day only once a minute unless it is now.
export async function show(now = false) {
  const period = byId("top-choice").elements.period.value;
  if (period === "day" && !now && Date.now() - askedDay < dayEvery) return;
  askedDay = Date.now();
  try {
    const top = await get("top", { period, limit: most });
    if (period !== byId("top-choice").elements.period.value) return;
    told = top;
    hush(byId("top-notice"));
    draw();
  } catch (problem) {
    if (now) tell(byId("top-notice"), problem, () => show(true)); // else the activity tells it
  }
}

const lists = {
  rules: (r) => [
    r.refused + r.would_be_refused,
    el("a", { href: r.rule ? route("now", { host: r.origin, outcome: outcomeOf(r), reason: r.reason }) : route("now", { host: r.origin, outcome: outcomeOf(r) }) },
      r.rule || r.preference ? el("code", {}, foreign(r.rule || r.preference, 120)) : r.reason === "pace" ? "its turn came too late" : phrase(r.reason)),
    el("span", { class: "aside" }, site(r.origin), r.refused === 0 && ", would be refused"),
  ],
  origins: (o) => [o.requests, o.origin ? el("a", { href: route("origin", { origin: o.origin }) }, foreign(o.origin, 120)) : site(""), refusals(o)],
  identities: (i) => [i.requests, el("a", { href: route("now", { identity: i.identity }) }, foreign(i.identity, 60)), refusals(i)],
  waits: (w) => [
    duration(w.paced_seconds * 1000),
    el("a", { href: route("now", { identity: w.identity, host: w.origin }) }, foreign(w.identity, 60)),
    el("span", { class: "aside" }, "for ", site(w.origin), `: ${plural(w.paced, "request")}`, w.refused_for_pace > 0 && `, ${count(w.refused_for_pace)} held back`),
  ],
};

const outcomeOf = (r) => r.refused === 0 ? "would_refuse" : r.reason === "pace" ? "late" : "refused";
const site = (origin) => origin ? foreign(origin, 120) : "sites not told apart";
const refusals = (t) => el("span", { class: "aside" }, t.refused > 0 && `${count(t.refused)} refused`);

const nothing = { rules: "Nothing was refused.", origins: "Nothing was asked.", identities: "Nobody asked.", waits: "Nobody waited for a turn." };

function draw() {
  if (!told) return;
  const list = byId("top-choice").elements.list.value;
  fill(byId("top-rows"), told[list].length === 0
    ? el("li", { class: "aside" }, nothing[list])
    : told[list].slice(0, most).map((entry) => {
      const [n, what, about] = lists[list](entry);
      return el("li", { title: plain(what.textContent + " " + about.textContent, 400) }, el("span", { class: "number" }, typeof n === "number" ? count(n) : n), what, " ", about);
    }));
}
