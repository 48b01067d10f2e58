// All fields of a decision: what a row of the view Now opens to.

import { count, duration, el, facts, foreign, full, route } from "./dom.js";
import { chip, kindOf, sentence } from "./words.js";

// detailsOf returns the row that follows that of a decision.
export function detailsOf(d) {
  const list = el("dl", { class: "facts" }), text = (value, max = 2500) => value && foreign(value, max), code = (value) => value && el("code", {}, foreign(value, 2500));
  const line = (n) => n ? el("span", { class: "aside" }, ` line ${n}`) : "";
  facts(list, [
    ["URL", code(d.url)],
    ["Verdict", el("span", { class: "standing" }, chip(kindOf(d)), el("span", {}, sentence(d.reason)))],
    ["Rule", d.rule && el("span", {}, code(d.rule), line(d.line))],
    ["Preference", d.preference && el("span", {}, code(d.preference), line(d.preference_line))],
    ["Cause", text(d.cause)],
    ["Error", text(d.error)],
    ["Override", (d.override_reason || d.override_by) && el("span", {}, foreign([d.override_reason, d.override_by && `by ${d.override_by}`].filter(Boolean).join(", "), 700))],
    ["Ended", full(d.time)],
    ["Client", [d.client, d.door && ` by the door ${d.door}`].filter(Boolean).join("")],
    ["Identity", text(d.identity, 100)],
    ["Agent", text(d.agent)],
    ["Method", text(d.method, 100)],
    ["Status", d.status ? String(d.status) : "The client left before it got a response"],
    ["Site", d.edge && `${d.edge}, although its robots.txt allows the request`],
    ["Price", text(d.price, 500)],
    ["Size", `${count(d.bytes)} bytes`],
    ["Took", `${duration(d.duration_ms)}, of them ${duration(d.wait_ms)} waiting${d.paced_ms ? ` (${duration(d.paced_ms)} for its turn${d.paced_by ? `: ${d.paced_by}` : ""})` : ""}`],
    ["Signed", d.signed && `by the key ${d.signed}…`],
    ["Version", d.robots_sha256 && el("code", {}, d.robots_sha256)],
  ]);
  return el("tr", { role: "row", class: "details" }, el("td", { role: "cell", colspan: 9 }, list, el("p", { class: "links" },
    d.robots_sha256 && el("a", { href: route("origin", { origin: d.origin, agent: d.agent, line: d.line || d.preference_line, sha256: d.robots_sha256 }) }, "The robots.txt that decided"),
    el("a", { href: route("origin", { origin: d.origin, agent: d.agent }) }, "The origin now"),
    el("a", { href: route("explain", { url: d.url, identity: d.identity, agent: d.agent }) }, "How it would be decided now"),
    el("a", { href: route("now", { host: d.origin }) }, "All decisions on this origin"))));
}
