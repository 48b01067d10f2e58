// Now: the last hour, and decisions as they are made.

import { address, get } from "./api.js";
import * as chart from "./chart.js";
import * as held from "./held.js";
import { byId, clock, count, duration, el, fill, foreign, full, hush, plain, plural, route, tell } from "./dom.js";
import { identityNames } from "./identities.js";
import { chip, kindOf, phrase } from "./words.js";

const kept = 5000; // decisions that filters apply to
const shown = 200; // rows
const few = 20; // rows that fade in; more would keep the browser busy
const flushEvery = 500; // ms
const drawEvery = 10_000; // ms
const retryEvery = 3000; // ms
const warnEvery = 60_000; // ms

let decisions = []; // the newest first
let arrived = []; // not shown yet, the oldest first
let missed = 0; // decisions that the stream left out
let paused = false;
let state = "connecting"; // of the stream
let open = false; // the view is shown
let last = ""; // the ID of the last decision received
let source = null, retry, flushing, drawing, warning;

export function start() {
  chart.start();
  byId("filters").addEventListener("input", rebuild);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("pause").addEventListener("click", pause);
  // In a hidden page, the stream would take one of the browser's few connections for nothing.
  document.addEventListener("visibilitychange", () => open && (document.hidden ? leave() : enter()));
}

export function show(query) {
  const filters = byId("filters");
  if (query.get("identity")) offer(query.get("identity"));
  for (const name of ["identity", "verdict", "host"]) {
    if (query.has(name)) filters.elements[name].value = query.get(name);
  }
  if (open) return rebuild();
  open = true;
  enter();
}

export function hide() {
  open = false;
  leave();
}

function enter() {
  leave(); // the page may have been opened in the background
  connect();
  drawActivity();
  listIdentities();
  warn();
  flushing = setInterval(flush, flushEvery);
  drawing = setInterval(drawActivity, drawEvery);
  warning = setInterval(warn, warnEvery);
}

function leave() {
  source?.abort();
  clearTimeout(retry);
  clearInterval(flushing);
  clearInterval(drawing);
  clearInterval(warning);
}

async function drawActivity() {
  held.show();
  try {
    chart.show((await get("activity")).minutes);
    hush(byId("activity-notice"));
  } catch (problem) {
    tell(byId("activity-notice"), problem, drawActivity);
  }
}

// warn shows which overrides have ended or end soon.
async function warn() {
  let warnings;
  try {
    warnings = (await get("overrides")).overrides.map((o) => o.warning).filter(Boolean);
  } catch {
    return; // the activity tells that the API does not answer
  }
  const place = byId("overrides-notice");
  fill(place, el("ul", {}, warnings.map((text) => el("li", {}, foreign(text, 600)))));
  place.hidden = warnings.length === 0;
}

async function listIdentities() {
  for (const name of await identityNames()) offer(name);
}

// offer adds an identity to the filter's choices.
function offer(name) {
  const select = byId("filters").elements.identity;
  if (![...select.options].some((option) => option.value === name)) select.append(el("option", { value: name }, plain(name, 60)));
}

// connect gets the last decisions, then the stream of those that follow last.
async function connect() {
  const mine = (source = new AbortController());
  try {
    if (!last) {
      const recent = await get("decisions", { limit: shown }, mine.signal);
      arrived = recent.decisions.reverse();
      last = recent.last_id;
      flush(true);
    }
    hush(byId("live-notice"));
    listen(mine);
  } catch (problem) {
    if (problem.name === "AbortError") return;
    told("broken");
    tell(byId("live-notice"), problem);
    retry = setTimeout(connect, retryEvery);
  }
}

function listen(mine) {
  const stream = new EventSource(address("decisions/stream", { after: last }));
  mine.signal.addEventListener("abort", () => stream.close());
  stream.addEventListener("open", () => told("live"));
  stream.addEventListener("message", (event) => {
    last = event.lastEventId;
    arrived.push(JSON.parse(event.data));
    if (arrived.length > kept) arrived.shift();
  });
  stream.addEventListener("dropped", (event) => {
    last = event.lastEventId;
    missed += JSON.parse(event.data).dropped;
  });
  stream.addEventListener("error", () => {
    told("broken");
    if (stream.readyState === EventSource.CLOSED) retry = setTimeout(connect, retryEvery); // else the browser does
  });
}

const lights = { connecting: "connecting …", live: "live", paused: "paused", broken: "connection broke; reconnecting …" };

function told(news) {
  state = news;
  const light = state === "live" && paused ? "paused" : state;
  byId("stream-state").className = `light ${light}`;
  byId("stream-state").textContent = lights[light];
}

function pause() {
  paused = !paused;
  byId("pause").classList.toggle("on", paused);
  byId("pause").textContent = paused ? "Resume" : "Pause";
  told(state);
  flush();
}

// flush shows all decisions that have arrived since the last time.
function flush(always = false) {
  note();
  if (paused || arrived.length === 0 && !always) return;
  const news = arrived.reverse();
  arrived = [];
  decisions = [...news, ...decisions].slice(0, kept);
  for (const identity of new Set(news.map((d) => d.identity))) offer(identity);
  const body = byId("decisions");
  body.prepend(...news.filter(wanted()).slice(0, shown).map((d) => row(d, news.length <= few)));
  while (body.rows.length > shown) body.lastChild.remove();
  empty();
}

function note() {
  const parts = [];
  if (paused) parts.push(`${arrived.length === kept ? "at least " : ""}${count(arrived.length)} new`);
  if (missed > 0) parts.push(`${plural(missed, "decision")} missed`);
  byId("stream-note").textContent = parts.join(" · ");
}

// wanted returns the filter that is set.
function wanted() {
  const { identity, verdict, host } = Object.fromEntries(new FormData(byId("filters")));
  const part = host.trim().toLowerCase();
  return (d) => (!identity || d.identity === identity) && (!verdict || kindOf(d) === verdict) && (!part || d.origin.includes(part));
}

function rebuild() {
  const set = Object.fromEntries(new FormData(byId("filters")));
  history.replaceState(null, "", route("now", set));
  fill(byId("decisions"), decisions.filter(wanted()).slice(0, shown).map((d) => row(d, false)));
  empty();
}

function empty() {
  const place = byId("live-empty"), none = byId("decisions").rows.length === 0;
  place.hidden = !none;
  byId("decisions").parentElement.hidden = none;
  if (!none) return;
  if (decisions.length > 0) {
    fill(place, el("p", {}, `None of the last ${plural(decisions.length, "decision")} matches the filter.`),
      el("button", { type: "button", click: () => { byId("filters").reset(); rebuild(); } }, "Show all"));
    return;
  }
  fill(place, el("p", {}, "No requests yet. Point a client at the proxy; each request appears here when it has ended:"), el("pre", {}, firstRequest()));
}

function firstRequest() {
  const proxy = document.body.dataset.proxy;
  return `curl -x http://${proxy} http://example.com/\n\n# https needs the CA\ncurl -so ca.pem ${location.origin}/ca.pem\ncurl -x http://${proxy} --cacert ca.pem https://example.com/`;
}

function row(d, isNew) {
  const cell = (name, ...content) => el("td", { role: "cell", class: name }, ...content);
  const kind = kindOf(d);
  return el("tr", { role: "row", class: `${kind}${isNew ? " new" : ""}` },
    cell("when", el("time", { datetime: d.time, title: full(d.time) }, clock(d.time))),
    cell("verdict", chip(kind)),
    cell("identity", foreign(d.identity, 60)),
    cell("agent", foreign(d.agent, 60)),
    cell("method", el("span", { title: d.door && `By the door: ${d.door}` }, foreign(d.method, 20))),
    cell("url", el("a", { href: route("explain", { url: d.url, identity: d.identity, agent: d.agent }), title: plain(d.url, 1000) }, foreign(d.url, 300))),
    cell("why", why(d, kind), d.edge && el("span", { class: "aside", title: "What the site did although its robots.txt allows the request" }, `site: ${d.edge}`, d.price && ` (${plain(d.price, 100)})`), d.error && el("span", { class: kind === "held" ? "error aside" : "error", title: plain(d.error, 1000) }, foreign(d.error, 200))),
    cell("status number", d.status ? String(d.status) : el("span", { title: "The client left before it got a response" }, "left")),
    cell("wait number", el("span", { class: "label" }, "wait "), duration(d.wait_ms)));
}

// why shows the rule or the reason, with a link to the origin's robots.txt.
function why(d, kind) {
  const [text, line] = d.preference ? [d.preference, d.preference_line] : [d.rule, d.line];
  let words = phrase(d.reason);
  if (kind === "held") words = "its turn comes too late"; // no rule held it back
  else if (text) words = [el("code", {}, foreign(text, 160)), line && el("span", { class: "aside" }, ` line ${line}`)];
  const inRobots = !text?.startsWith("tdmrep: ");
  return el("a", { href: route("origin", { origin: d.origin, agent: d.agent, line: inRobots && line }), title: text && plain(text, 1000) }, words);
}
