// Pace: what is held now, by what and until when, and who waits for a turn.

import { get } from "./api.js";
import { byId, count, el, fill, foreign, hush, moment, plural, tell } from "./dom.js";
import { holder } from "./words.js";

const most = 200; // rows
const askEvery = 2000; // ms

let asking = new AbortController(), again;

export function start() {
  document.addEventListener("visibilitychange", () => !byId("pace").hidden && (document.hidden ? hide() : show()));
}

export function hide() {
  asking.abort();
  clearTimeout(again);
}

export async function show() {
  hide();
  asking = new AbortController();
  try {
    list(await get("pace", { limit: most }, asking.signal));
    hush(byId("pace-notice"));
  } catch (problem) {
    if (problem.name === "AbortError") return;
    tell(byId("pace-notice"), problem, show);
  }
  again = setTimeout(show, askEvery);
}

function list({ held, total }) {
  byId("pace-told").textContent = total === 0
    ? "Nothing is held, and nobody waits for a turn."
    : total > most ? `${most} of ${count(total)}, those held for longest.` : `${plural(total, "bot")} held, or waiting, each at one origin.`;
  fill(byId("pace-rows"), held.map(row));
  byId("pace-rows").parentElement.hidden = total === 0;
}

function row(h) {
  const cell = (name, label, ...content) => el("td", { role: "cell", class: name }, el("span", { class: "label" }, label), ...content);
  const time = (iso) => iso ? moment(iso) : "–";
  const turn = h.waiting > 0 && !h.next_turn ? "when another request ends" : time(h.next_turn);
  return el("tr", { role: "row" },
    cell("origin", "", foreign(h.origin, 200)),
    cell("identity", "", foreign(h.identity, 60)),
    cell("number", "waiting ", count(h.waiting)),
    cell("number", "delay ", h.delay ? `${Number(h.delay.toPrecision(3))} s` : "–"),
    cell("turn", "next turn ", turn),
    cell("turn", "last turn ", time(h.last_turn)),
    cell("turn", "held until ", h.held_by === "delay" ? "–" : h.held_until ? moment(h.held_until) : "another request ends"),
    cell("by", "by ", holder(h.held_by)));
}
