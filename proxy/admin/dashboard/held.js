// What pace holds now: part of the view Now.

import { get } from "./api.js";
import { byId, count, el, fill, foreign, moment } from "./dom.js";
import { holder } from "./words.js";

const most = 10; // rows

export async function show() {
  let held, total;
  try {
    ({ held, total } = await get("pace", { limit: most }));
  } catch {
    return; // the activity tells that the API does not answer
  }
  byId("held").hidden = total === 0;
  byId("held-told").textContent = total > most ? `${most} of ${count(total)}, those held for longest` : "";
  fill(byId("held-rows"), held.map((h) => el("tr", {},
    el("td", {}, foreign(h.origin, 200)),
    el("td", {}, foreign(h.identity, 60)),
    el("td", {}, h.held_until ? moment(h.held_until) : "another request ends"),
    el("td", { class: "number" }, count(h.waiting)),
    el("td", {}, holder(h.held_by)))));
}
