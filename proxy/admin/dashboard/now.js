// Now: what may be wrong, the last hour, what is most frequent, and decisions as they are made.
// The API filters the decisions, so that a filter applies to all that it keeps.

import { address, get } from "./api.js";
import * as chart from "./chart.js";
import { detailsOf } from "./decision.js";
import { byId, clock, count, duration, el, fill, foreign, full, hush, plain, plural, route, tell } from "./dom.js";
import { identityNames } from "./identities.js";
import * as signs from "./signs.js";
import * as top from "./top.js";
import { chip, kindOf, phrase } from "./words.js";

const shown = 200; // rows
const saved = 2000; // decisions in a file: all that are kept
const kept = 1000; // decisions that wait to be shown
const few = 20; // rows that fade in; more would keep the browser busy
const flushEvery = 500; // ms
const drawEvery = 10_000; // ms
const retryEvery = 3000; // ms
const typingPause = 300; // ms

let arrived = []; // not shown yet, the oldest first
let missed = 0; // decisions that the stream left out
let paused = false;
let under = false; // the pointer is over the list
let state = "connecting"; // of the stream
let open = false; // the view is shown
let last = ""; // the ID of the last decision received
let filter = {}; // that the list and the stream have
let source = null, retry, flushing, drawing, typing;

export function start() {
  chart.start();
  top.start();
  const form = byId("filters");
  form.addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(choose, event.target instanceof HTMLSelectElement ? 0 : typingPause);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    choose();
  });
  byId("pause").addEventListener("click", pause);
  byId("newer").addEventListener("click", () => flush(true));
  const list = byId("decisions");
  list.addEventListener("pointerenter", (event) => { under = event.pointerType === "mouse"; });
  list.addEventListener("pointerleave", () => { under = false; });
  list.addEventListener("click", toggle);
  // In a hidden page, the stream would take one of the browser's few connections for nothing.
  document.addEventListener("visibilitychange", () => open && (document.hidden ? leave() : enter()));
}

// show sets the filter to that in the address, and to nothing else.
export function show(query) {
  clearTimeout(typing);
  const form = byId("filters");
  if (query.get("identity")) offer(query.get("identity"));
  for (const field of form.elements) field.value = query.get(field.name) ?? "";
  const wanted = set();
  const same = last && JSON.stringify(wanted) === JSON.stringify(filter);
  if (!same) reset(wanted);
  if (open && same) return;
  open = true;
  enter();
}

export function hide() {
  open = false;
  leave();
}

// set returns the filter in the form, without what is empty.
const set = () => Object.fromEntries([...new FormData(byId("filters"))].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));

// choose shows what the form selects.
function choose() {
  const wanted = set();
  if (JSON.stringify(wanted) === JSON.stringify(filter)) return;
  history.replaceState(null, "", route("now", wanted));
  reset(wanted);
  leave();
  enter();
}

// reset begins a list with another filter.
function reset(wanted) {
  filter = wanted;
  last = "";
  missed = 0;
  arrived = [];
  under = false;
  fill(byId("decisions"));
  byId("live-empty").hidden = true;
  for (const format of ["csv", "json"]) byId(`save-${format}`).href = address("decisions", { ...filter, limit: saved, format });
}

function enter() {
  leave(); // the page may have been opened in the background
  connect();
  draw();
  listIdentities();
  flushing = setInterval(flush, flushEvery);
  drawing = setInterval(draw, drawEvery);
}

function leave() {
  source?.abort();
  clearTimeout(retry);
  clearInterval(flushing);
  clearInterval(drawing);
}

async function draw() {
  signs.show();
  top.show();
  try {
    chart.show(await get("activity"));
    hush(byId("activity-notice"));
  } catch (problem) {
    tell(byId("activity-notice"), problem, draw);
  }
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
      const recent = await get("decisions", { ...filter, limit: shown }, mine.signal);
      last = recent.last_id;
      fill(byId("decisions"), recent.decisions.map((d) => row(d, false)));
      empty();
    }
    hush(byId("live-notice"));
    listen(mine);
  } catch (problem) {
    if (problem.name === "AbortError") return;
    told("broken");
    tell(byId("live-notice"), problem);
    if (problem.status !== 400) retry = setTimeout(connect, retryEvery); // else the filter is invalid
  }
}

function listen(mine) {
  const stream = new EventSource(address("decisions/stream", { ...filter, after: last }));
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

// still reports whether the list must not move: somebody points at it or reads a decision.
const still = () => paused || under || byId("decisions").querySelector(".details") !== null;

// flush shows all decisions that have arrived since the last time, unless the list stands still.
function flush(always = false) {
  const news = always || !still() ? arrived.reverse() : [];
  if (news.length > 0) {
    arrived = [];
    for (const identity of new Set(news.map((d) => d.identity))) offer(identity);
    const body = byId("decisions");
    body.prepend(...news.slice(0, shown).map((d) => row(d, news.length <= few)));
    while (body.querySelectorAll("tr.decision").length > shown) body.lastChild.remove();
    empty();
  }
  note();
}

function note() {
  byId("newer").hidden = arrived.length === 0;
  byId("newer").textContent = `Show ${arrived.length === kept ? "at least " : ""}${count(arrived.length)} new`;
  byId("stream-note").textContent = missed > 0 ? `${plural(missed, "decision")} missed` : "";
}

function empty() {
  const place = byId("live-empty"), none = byId("decisions").rows.length === 0;
  place.hidden = !none;
  byId("decisions").parentElement.hidden = none;
  if (!none) return;
  if (Object.keys(filter).length > 0) {
    fill(place, el("p", {}, "None of the decisions that are kept matches the filter."),
      el("button", { type: "button", click: () => { location.hash = route("now"); } }, "Show all"));
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
  const line = el("tr", { role: "row", class: `decision ${kind}${isNew ? " new" : ""}` },
    cell("when", el("button", { type: "button", class: "opener", "aria-expanded": "false", "aria-label": `${clock(d.time)}, all about this decision`, title: full(d.time) }, el("time", { datetime: d.time }, clock(d.time)))),
    cell("verdict", chip(kind)),
    cell("identity", foreign(d.identity, 60)),
    cell("agent", foreign(d.agent, 60)),
    cell("method", el("span", { title: d.door && `By the door: ${d.door}` }, foreign(d.method, 20))),
    cell("url", el("a", { href: route("explain", { url: d.url, identity: d.identity, agent: d.agent }), title: plain(d.url, 1000) }, foreign(d.url, 300))),
    cell("why", why(d, kind), d.edge && el("span", { class: "aside", title: "What the site did although its robots.txt allows the request" }, `site: ${d.edge}`, d.price && ` (${plain(d.price, 100)})`), d.error && el("span", { class: kind === "held" ? "error aside" : "error", title: plain(d.error, 1000) }, foreign(d.error, 200))),
    cell("status number", d.status ? String(d.status) : el("span", { title: "The client left before it got a response" }, "left")),
    cell("wait number", el("span", { class: "label" }, "wait "), duration(d.wait_ms)));
  about.set(line, d);
  return line;
}

const about = new WeakMap(); // the decision of each row

// toggle opens or closes a decision. A click on a link, or one that ends a selection of text,
// does neither.
function toggle(event) {
  const line = event.target.closest("tr.decision");
  if (!line || event.target.closest("a") || !event.target.closest("button") && String(getSelection())) return;
  const button = line.querySelector("button.opener"), opened = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!opened));
  if (opened) line.nextElementSibling.remove();
  else line.after(detailsOf(about.get(line)));
}

// why shows the rule or the reason, with a link to the origin's robots.txt.
function why(d, kind) {
  const [text, line] = d.preference ? [d.preference, d.preference_line] : [d.rule, d.line];
  let words = phrase(d.reason);
  if (kind === "held") words = "its turn comes too late"; // no rule held it back
  else if (text) words = [el("code", {}, foreign(text, 160)), line && el("span", { class: "aside" }, ` line ${line}`)];
  const inRobots = !text?.startsWith("tdmrep: ");
  return el("a", { href: route("origin", { origin: d.origin, agent: d.agent, line: inRobots && line, sha256: d.robots_sha256 }), title: text && plain(text, 1000) }, words);
}
