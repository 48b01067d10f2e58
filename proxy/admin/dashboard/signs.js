// The first line of the view Now: whether anything is wrong. Each sign leads to what it counts.

import { get } from "./api.js";
import { byId, el, fill, foreign, plural, route } from "./dom.js";
import { kinds } from "./words.js";

// show asks for the status and draws the signs. The activity tells if the API does not answer.
export async function show() {
  let status;
  try {
    status = await get("status");
  } catch {
    return;
  }
  const signs = signsOf(status);
  fill(byId("signs"), signs.length === 0
    ? el("p", { class: "fine" }, el("span", { "aria-hidden": "true" }, "✓ "), `Nothing looks wrong. ${plural(status.last_hour.requests, "request")} in the last hour.`)
    : el("ul", {}, signs));
  const lenient = byId("lenient");
  lenient.hidden = status.lenient.length === 0;
  fill(lenient, el("p", {}, ...banner(status.lenient)), el("a", { href: route("identities") }, "Identities"));
}

function signsOf(s) {
  const hour = s.last_hour;
  const sign = (n, kind, mark, words, to) => n > 0 && el("li", {}, el("a", { class: `sign ${kind}`, href: to }, el("span", { "aria-hidden": "true" }, mark), words));
  return [
    sign(hour.refused, "refused", kinds.refused.sign, `${hour.refused.toLocaleString("en")} refused`, route("now", { outcome: "refused" })),
    sign(hour.would_be_refused, "reported", kinds.reported.sign, `${hour.would_be_refused.toLocaleString("en")} would be refused`, route("now", { outcome: "would_refuse" })),
    sign(hour.refused_for_pace, "held", kinds.held.sign, `${hour.refused_for_pace.toLocaleString("en")} held back`, route("now", { outcome: "late" })),
    sign(s.held, "held", "◷", s.waiting > 0 ? `${plural(s.waiting, "request")} waiting now` : `${plural(s.held, "bot")} held now`, route("pace")),
    sign(hour.failed, "refused", "!", `${hour.failed.toLocaleString("en")} failed at the origin`, route("now", { outcome: "failed" })),
    sign(hour.unreachable_origins, "refused", "○", `${plural(hour.unreachable_origins, "origin")} unreachable`, route("now", { reason: "unreachable" })),
    sign(s.distrusting_total, "refused", "!", `${plural(s.distrusting_total, "client")} without the CA`, route("identities", { part: "distrusting" })),
    sign(s.override_warnings.length, "reported", "!", `${plural(s.override_warnings.length, "override")} about to end, or over`, route("identities", { part: "overrides" })),
  ].filter(Boolean);
}

// banner says which identities are not stopped.
function banner(lenient) {
  const words = [];
  for (const [mode, means] of [["off", "does not ask robots.txt at all"], ["report", "lets through what robots.txt disallows"]]) {
    const names = lenient.filter((l) => l.mode === mode).map((l) => l.identity);
    if (names.length > 0) words.push("Mode ", el("strong", {}, mode), ` ${means}: `, foreign(names.join(", "), 300), ". ");
  }
  return words;
}
