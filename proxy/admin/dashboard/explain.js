// Explain: whether a bot may fetch a URL, and which line of which file says so.

import { get } from "./api.js";
import { byId, date, el, facts, fill, foreign, hush, plain, route, tell } from "./dom.js";
import { fileOf } from "./file.js";
import { agentsIn, identities } from "./identities.js";
import { chip, holder, kindOf, phrase, sentence } from "./words.js";

let asking = new AbortController();

export function start() {
  const form = byId("question");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { url, identity, agent } = form.elements, purpose = new FormData(form).getAll("purpose");
    const to = route("explain", { url: url.value.trim(), identity: identity.value, agent: agentsIn(agent.value), purpose });
    if (to === location.hash) show(new URLSearchParams(to.split(/\?(.*)/s)[1]));
    else location.hash = to;
  });
}

export const hide = () => asking.abort();

export async function show(query) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const form = byId("question"), url = query.get("url") ?? "", identity = query.get("identity") ?? "", agent = query.getAll("agent"), purpose = query.getAll("purpose");
  form.elements.url.value = url;
  form.elements.agent.value = agent.join(" ");
  for (const box of form.elements.purpose) box.checked = purpose.includes(box.value);
  hush(byId("explain-notice"));
  fill(byId("explained"));
  const known = await identities();
  if (signal.aborted) return;
  offer(form.elements.identity, known, identity);
  if (!url) return;
  fill(byId("explained"), el("p", { class: "empty" }, "Asking …"));
  try {
    const verdict = await get("verdict", { url, identity, agent, purpose }, signal);
    const view = decidingLine(verdict) && verdict.robots_sha256 ? await get("rules", { origin: verdict.origin, agent: verdict.agent }, signal) : null;
    const mode = known.find(({ name }) => name === verdict.identity)?.mode;
    fill(byId("explained"), answer(verdict, mode, view && view.sha256 === verdict.robots_sha256 ? view.lines : []));
  } catch (problem) {
    if (problem.name === "AbortError") return;
    fill(byId("explained"));
    tell(byId("explain-notice"), problem);
  }
}

// offer lists the identities and selects the one in the address, which it adds if there is
// none of that name.
function offer(select, known, asked) {
  const names = known.map(({ name }) => name).filter((name) => name !== "default");
  if (asked && asked !== "default" && !names.includes(asked)) names.push(asked);
  fill(select, el("option", { value: "" }, "default"),
    names.map((name) => el("option", { value: name, selected: name === asked }, plain(name, 60))));
}

function answer(v, mode, lines) {
  const kind = kindOf(mode === "report" && v.verdict !== "allowed" ? { ...v, would_refuse: true } : v), list = el("dl", { class: "facts" });
  facts(list, [
    ["URL", el("code", {}, foreign(v.url, 1000))],
    ["Identity", `${plain(v.identity, 60)}${mode ? `, mode ${mode}` : ""}`],
    ["Agent", foreign(v.agent, 100)],
    ["Group", v.group && foreign(v.group, 100)],
    ["Preference", v.preference && foreign(v.preference, 500)],
    ["Its file", v.preference_url && el("code", {}, foreign(v.preference_url, 300))],
    ["Crawl delay", v.crawl_delay != null && `${v.crawl_delay} s`],
    ["Held until", v.held_until && date(v.held_until)],
    ["Held by", v.held_by && holder(v.held_by)],
    ["robots.txt", v.robots_url && el("code", {}, foreign(v.robots_url, 300))],
    ["Its status", v.robots_status],
    ["Fetched", v.fetched_at && date(v.fetched_at)],
    ["Override by", v.override_by && foreign(v.override_by, 100)],
    ["Its reason", v.override_reason && foreign(v.override_reason, 500)],
    ["Expires", v.expires_at && date(v.expires_at)],
  ]);
  return el("div", { class: `panel answer ${kind}` },
    el("h2", { class: "verdict-line" }, chip(kind), ...ground(v)),
    el("p", {}, v.would_refuse ? `${sentence("preference")} In preferences.mode report it is let through.` : sentence(v.reason)),
    el("div", { class: "columns" }, list, lines.length > 0 && fileOf(lines, { decided: decidingLine(v), around: 6 })),
    el("p", {}, el("a", { href: route("origin", { origin: v.origin, agent: v.agent, line: decidingLine(v) }) }, "All about ", foreign(v.origin, 200))));
}

// decidingLine is the line of robots.txt that refuses the use or, if none there does, the rule's.
const decidingLine = (v) => (v.preference_url === v.robots_url && v.preference_line) || v.line;

// ground shows the preference or the rule that a verdict follows from, else the reason.
function ground(v) {
  if (v.preference) return [el("code", {}, foreign(v.preference, 500)), v.preference_line && el("span", { class: "aside" }, `on line ${v.preference_line}`)];
  if (!v.rule) return [el("span", {}, phrase(v.reason))];
  return [el("code", {}, foreign(v.rule, 500)), el("span", { class: "aside" }, `on line ${v.line}${v.reason === "rule" ? "" : `: ${phrase(v.reason)}`}`)];
}
