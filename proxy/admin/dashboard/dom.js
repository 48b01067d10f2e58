// Functions that build the page. What comes from a site or a client becomes a text node: no
// string is ever parsed as markup.

// el makes an element. An attribute that is a function listens to the event of that name. An
// attribute or a child that is false, null or undefined is left out.
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== false && value != null) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...those(children));
  return element;
}

const those = (children) => children.flat().filter((child) => child !== false && child != null);

// fill replaces what an element contains.
export const fill = (element, ...children) => element.replaceChildren(...those(children));

export const byId = (id) => document.getElementById(id);

// Characters that are invisible, or that reorder the text around them: controls, format
// characters such as U+202E, line separators and lone surrogates.
const unseen = /([\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}])/u;
const allUnseen = new RegExp(unseen, "gu");
const codeOf = (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

// foreign shows at most max characters of a text that somebody else wrote, from left to right.
// It shows invisible characters as their codes.
export function foreign(text, max = 400) {
  const cut = text.length > max;
  const parts = (cut ? text.slice(0, max) : text).split(unseen);
  return el("bdi", { dir: "ltr" },
    parts.filter(Boolean).map((part) => part !== "\t" && unseen.test(part) ? el("span", { class: "code" }, codeOf(part)) : part),
    cut && el("span", { class: "cut" }, `… ${count(text.length - max)} more characters`));
}

// plain returns what foreign shows, as a string.
export function plain(text, max = 400) {
  const whole = text.replace(allUnseen, (c) => `‹${codeOf(c)}›`);
  return whole.length > max ? whole.slice(0, max) + "…" : whole;
}

// count returns a number with separators.
export const count = (n) => n.toLocaleString("en");

// plural returns a number with its noun.
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

const spans = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function span(seconds) {
  for (const [length, unit] of spans) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return "0 s";
}

// moment shows a time relative to now. Its title is the exact time.
export function moment(iso) {
  const seconds = (new Date(iso) - Date.now()) / 1000;
  return exact(iso, seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`);
}

// distance shows how far a time is from now.
export const distance = (iso) => exact(iso, span(Math.abs(new Date(iso) - Date.now()) / 1000));

// date shows a time relative to now, and its date.
export const date = (iso) => el("span", { class: "standing" }, moment(iso), el("span", { class: "aside" }, full(iso)));

// Made once, since a list of decisions has hundreds of times.
const dates = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium" });
const clocks = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const minutes = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// full returns a time with its date.
export const full = (iso) => dates.format(new Date(iso));

const exact = (iso, words) => el("time", { datetime: iso, title: full(iso) }, words);

// clock returns the time of day.
export const clock = (iso, seconds = true) => (seconds ? clocks : minutes).format(new Date(iso));

// duration returns milliseconds with a unit.
export function duration(ms) {
  if (ms < 0.05) return "0 ms";
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

// route returns the address of a view of this page.
export function route(view, query = {}) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one != null && one !== false && one !== "") pairs.append(name, one);
  }
  return `#/${view}${pairs.size > 0 ? "?" + pairs : ""}`;
}

// facts fills a description list with the pairs that have a value.
export function facts(list, pairs) {
  fill(list, pairs.filter(([, value]) => value != null && value !== "" && value !== false)
    .map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}

// tell shows a problem, and a button if it can be tried again. It leaves the same message in
// place, so that screen readers don't read it twice.
export function tell(place, problem, again) {
  if (!place.hidden && place.firstChild?.textContent === plain(problem.message, 600)) return;
  fill(place, el("p", {}, plain(problem.message, 600)), again && el("button", { type: "button", click: again }, "Try again"));
  place.hidden = false;
}

// hush hides a message.
export const hush = (place) => { place.hidden = true; fill(place); };
