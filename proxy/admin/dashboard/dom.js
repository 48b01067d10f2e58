// What the page is built with. Whatever comes from a site or a client becomes a
// text node here: no string is ever read as markup.

// el makes an element. An attribute that is a function listens to the event of
// that name; false, null and undefined leave an attribute or a child out.
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

// fill puts these in the place of what an element holds.
export const fill = (element, ...children) => element.replaceChildren(...those(children));

export const byId = (id) => document.getElementById(id);

// Characters that can't be seen, or that turn the text around them: controls,
// format characters such as U+202E, line separators and halves of a pair.
const unseen = /([\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}])/u;
const allUnseen = new RegExp(unseen, "gu");
const codeOf = (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

// foreign shows text that somebody else wrote, up to max characters of it, with
// what can't be seen as its code. It stays left to right.
export function foreign(text, max = 400) {
  const cut = text.length > max;
  const parts = (cut ? text.slice(0, max) : text).split(unseen);
  return el("bdi", { dir: "ltr" },
    parts.filter(Boolean).map((part) => part !== "\t" && unseen.test(part) ? el("span", { class: "code" }, codeOf(part)) : part),
    cut && el("span", { class: "cut" }, `… ${count(text.length - max)} more characters`));
}

// plain is foreign for where there is room for a string alone.
export function plain(text, max = 400) {
  const whole = text.replace(allUnseen, (c) => `‹${codeOf(c)}›`);
  return whole.length > max ? whole.slice(0, max) + "…" : whole;
}

// count writes a number so that it can be read.
export const count = (n) => n.toLocaleString("en");

// plural is a number with its noun.
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

const spans = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function span(seconds) {
  for (const [length, unit] of spans) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return "0 s";
}

// moment is a time as people say it, with the exact one where the mouse rests.
export function moment(iso) {
  const seconds = (new Date(iso) - Date.now()) / 1000;
  return exact(iso, seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`);
}

// distance is how far from now a time is.
export const distance = (iso) => exact(iso, span(Math.abs(new Date(iso) - Date.now()) / 1000));

// date is a moment with its date and time.
export const date = (iso) => el("span", { class: "standing" }, moment(iso), el("span", { class: "aside" }, full(iso)));

// Made once: a list of decisions writes hundreds of times at once.
const dates = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium" });
const clocks = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const minutes = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// full is a time with its date.
export const full = (iso) => dates.format(new Date(iso));

const exact = (iso, words) => el("time", { datetime: iso, title: full(iso) }, words);

// clock is the time of the day.
export const clock = (iso, seconds = true) => (seconds ? clocks : minutes).format(new Date(iso));

// duration writes milliseconds.
export function duration(ms) {
  if (ms < 0.05) return "0 ms";
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

// route is the address of a view of this page.
export function route(view, query = {}) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one != null && one !== "") pairs.append(name, one);
  }
  return `#/${view}${pairs.size > 0 ? "?" + pairs : ""}`;
}

// facts fills a list of terms with those that have a value.
export function facts(list, pairs) {
  fill(list, pairs.filter(([, value]) => value != null && value !== "" && value !== false)
    .map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}

// tell says what went wrong, and offers to try again. What it has said already it does
// not say again: it is read aloud.
export function tell(place, problem, again) {
  if (!place.hidden && place.firstChild?.textContent === plain(problem.message, 600)) return;
  fill(place, el("p", {}, plain(problem.message, 600)), again && el("button", { type: "button", click: again }, "Try again"));
  place.hidden = false;
}

export const hush = (place) => { place.hidden = true; fill(place); };
