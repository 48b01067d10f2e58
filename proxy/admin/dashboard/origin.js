// One origin: what its robots.txt says to a bot, its state, and what it said before.

import { forget, get } from "./api.js";
import { byId, count, date, el, facts, fill, foreign, hush, moment, plain, plural, route, tell } from "./dom.js";
import { fileOf } from "./file.js";
import { agentsIn, identities } from "./identities.js";
import { answerOf, nextTry, stateLine } from "./words.js";

let asking = new AbortController();
let origin = "", agents = [], decided = 0, sha256 = "";

export function start() {
  const form = byId("reader");
  const mark = () => { location.hash = route("origin", { origin, agent: agentsIn(form.elements.agent.value), sha256 }); };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    mark();
  });
  form.elements.identity.addEventListener("change", () => {
    form.elements.agent.value = form.elements.identity.selectedOptions[0].dataset.tokens;
    mark();
  });
  form.elements.only.addEventListener("change", showFile);
  byId("refresh").addEventListener("click", showAll);
  byId("forget").addEventListener("click", drop);
}

export function hide() {
  asking.abort();
  origin = "";
}

export async function show(query) {
  asking.abort();
  asking = new AbortController();
  const another = origin !== query.get("origin");
  origin = query.get("origin") ?? "";
  agents = query.getAll("agent");
  decided = Number(query.get("line"));
  sha256 = query.get("sha256") ?? "";
  fill(byId("origin-title"), foreign(origin, 200));
  document.title = `${plain(origin, 80)} · robotsproxy`;
  byId("reader").elements.agent.value = agents.join(" ");
  if (another) blank();
  await Promise.all([another ? showAll() : showFile(), listIdentities()]);
  if (query.get("part") === "history") byId("origin-history").scrollIntoView();
}

// blank removes what the page says of another origin, since the answers about this one may
// take long, or never come.
function blank() {
  for (const place of ["origin-facts", "sitemaps", "licenses", "file", "file-told", "versions"]) fill(byId(place));
  for (const notice of ["origin-notice", "file-notice", "file-version", "history-notice"]) hush(byId(notice));
  byId("forget").hidden = byId("reader").hidden = true;
}

async function showAll() {
  hush(byId("origin-told"));
  await Promise.all([showState(), showFile(), showHistory()]);
}

// ask gets something about the origin. It shows a problem in notice, with a button that calls
// again.
async function ask(path, query, notice, again) {
  try {
    const answer = await get(path, { origin, ...query }, asking.signal);
    hush(notice);
    return answer;
  } catch (problem) {
    if (problem.name !== "AbortError" && problem.status !== 404) tell(notice, problem, again);
    return problem.status === 404 ? null : undefined; // null: the origin is not known
  }
}

async function showState() {
  const policy = await ask("policy", {}, byId("origin-notice"), showState);
  if (policy !== undefined) stand(policy);
}

// stand shows the state of a policy, which is null if the origin is not known.
function stand(policy) {
  byId("forget").hidden = !policy;
  if (policy === null) {
    facts(byId("origin-facts"), [["State", "Not known. The next request to it, or an explanation, fetches its robots.txt."]]);
    addresses("sitemaps", [], "–");
    addresses("licenses", [], "–");
    return;
  }
  facts(byId("origin-facts"), [
    ["State", stateLine(policy)],
    ["robots.txt", answerOf(policy)],
    ["Fetched", policy.fetched_at && date(policy.fetched_at)],
    ["Expires", policy.expires_at && date(policy.expires_at)],
    ["Unreachable", policy.unreachable_since && date(policy.unreachable_since)],
    ["Next try", policy.next_try && nextTry(policy)],
    ["SHA-256", policy.sha256 && el("code", { title: policy.sha256 }, policy.sha256.slice(0, 16) + "…")],
  ]);
  addresses("sitemaps", policy.sitemaps ?? [], policy.sha256 ? "None." : "–");
  addresses("licenses", policy.licenses ?? [], policy.sha256 ? "None." : "–");
}

const listed = 100;

// addresses shows them without links, since strangers wrote them.
function addresses(place, all, none) {
  fill(byId(place), all.slice(0, listed).map((one) => el("li", {}, foreign(one, 300))),
    all.length === 0 && el("li", { class: "aside" }, none),
    all.length > listed && el("li", { class: "aside" }, `and ${count(all.length - listed)} more`));
}

async function showFile() {
  const view = await ask("rules", { agent: agents, sha256 }, byId("file-notice"), showFile);
  if (view !== undefined) read(view);
}

// tellVersion says that the file shown is not the one in force.
function tellVersion(view) {
  const place = byId("file-version");
  hush(place);
  if (!sha256 || view && !view.first_seen) return;
  fill(place, ...view ? ["An earlier version, seen from ", date(view.first_seen), " to ", date(view.last_seen), ". "] : ["This version is no longer kept. "],
    el("a", { href: route("origin", { origin, agent: agents }) }, "Show the one in force"));
  place.hidden = false;
}

// read shows the robots.txt as an agent reads it. It is null if the origin is not known.
function read(view) {
  const place = byId("file");
  const lines = view?.lines ?? [];
  tellVersion(view);
  byId("reader").hidden = lines.length === 0;
  fill(byId("file-told"), lines.length ? told(view) : "");
  fill(place, lines.length
    ? fileOf(lines, { decided, only: byId("reader").elements.only.checked })
    : el("p", { class: "empty" }, sha256 ? "There is no text of this version." : view ? "No text is in force now. The state says why." : "Nothing is known about this origin."));
  place.querySelector(".decided")?.scrollIntoView({ block: "nearest" });
}

// told says which group applies to which agent.
function told({ agents, agent, group, lines }) {
  const who = el("strong", {}, foreign(agents.join(", "), 100));
  if (!group) return el("span", {}, "No group for ", who, ": everything is allowed.");
  const rules = lines.filter((line) => line.group && line.rule).length;
  return el("span", {}, plural(rules, "rule"), " for ", agent && agent !== "*" ? el("strong", {}, foreign(agent, 60)) : who, ", in the group of ", el("strong", {}, foreign(group, 60)));
}

// listIdentities offers the default identity and those with product tokens of their own, and
// selects the one that the agents belong to.
async function listIdentities() {
  const named = (await identities()).filter(({ name, product_tokens: own }) => own.length > 0 && name !== "default")
    .map(({ name, product_tokens: own }) => ({ name, tokens: own.join(" ") }));
  const offered = [{ name: "default", tokens: "" }, ...named], asked = agents.join(" ");
  if (!offered.some(({ tokens }) => tokens === asked)) offered.push({ name: "–", tokens: asked });
  fill(byId("reader").elements.identity,
    offered.map(({ name, tokens }) => el("option", { value: name, "data-tokens": tokens, selected: tokens === asked }, plain(name, 60))));
}

async function showHistory() {
  const history = await ask("history", {}, byId("history-notice"), showHistory);
  if (history === undefined) return;
  fill(byId("versions"), history?.versions.length ? history.versions.map(version) : [el("p", { class: "empty" }, "No answer yet. Every distinct answer is kept here, with its differences from the one before.")]);
}

function version(v, i, all) {
  const details = el("details", { open: i === 0, class: "version" },
    el("summary", {}, el("strong", {}, String(v.status)), v.sha256 ? el("code", {}, v.sha256.slice(0, 8)) : el("span", { class: "aside" }, "no text"),
      el("span", { class: "aside" }, "first seen ", moment(v.first_seen), ", last seen ", moment(v.last_seen))));
  if (v.diff) details.append(el("h3", {}, "Changes"), diff(v.diff));
  else if (v.text) details.append(el("p", { class: "aside" }, i === all.length - 1 ? "This is the first answer that is kept." : "The answer before had no text, or the same."));
  if (v.text) details.append(el("details", {}, el("summary", {}, "Text"), excerpt(v.text)));
  return details;
}

const signs = { "+": "added", "-": "removed", "@": "place" };
const excerptLength = 20_000;

function diff(text) {
  const lines = text.split("\n").filter((line) => !/^(---|\+\+\+|\\) /.test(line)).slice(0, 500);
  if (lines.at(-1) === "") lines.pop();
  return el("pre", { class: "diff", tabindex: 0, role: "group", "aria-label": "Difference" },
    lines.map((line) => el("span", { class: signs[line[0]] }, foreign(line, 500))));
}

function excerpt(text) {
  return el("pre", { tabindex: 0 }, text.slice(0, excerptLength).split(/\r\n|\r|\n/).map((line) => [foreign(line, 500), "\n"]).flat(),
    text.length > excerptLength && el("span", { class: "cut" }, `… ${count(text.length - excerptLength)} more characters`));
}

async function drop() {
  try {
    await forget(origin);
    byId("origin-told").textContent = "Forgotten. The next request to it fetches its robots.txt.";
    byId("origin-told").hidden = false;
    sha256 = "";
    stand(null);
    read(null);
  } catch (problem) {
    tell(byId("origin-notice"), problem, drop);
  }
}
