// The words for verdicts and states, which are the same everywhere on the page.

import { byId, date, distance, el, foreign, moment } from "./dom.js";

// A kind is what became of a request. Each has a sign of its own, so that nobody has to rely on
// colours.
export const kinds = {
  allowed: { sign: "✓", word: "allowed" },
  refused: { sign: "✕", word: "refused" },
  reported: { sign: "◐", word: "would be refused", hint: "Let through, since the mode of the identity or of preferences is report" },
  held: { sign: "‖", word: "held back", hint: "Allowed, but its turn would come too late" },
};

// kindOf returns the kind of a decision, or of a verdict in mode enforce.
export function kindOf(d) {
  if (d.would_refuse && !d.refused) return "reported";
  if (d.refused && (d.verdict === "allowed" || d.status === 429)) return "held"; // the latter in mode report
  return d.verdict === "allowed" ? "allowed" : "refused";
}

export function chip(kind) {
  const { sign, word, hint } = kinds[kind];
  return el("span", { class: `chip ${kind}`, title: hint }, el("span", { "aria-hidden": "true" }, sign), word);
}

// The words for reasons are the gate's, and part of the page.
const reasons = new Map(Array.from(byId("reasons").children, ({ dataset }) => [dataset.reason, dataset]));

// phrase names a reason in a few words. It returns a reason that the page does not know as it
// is.
export const phrase = (reason) => reasons.get(reason)?.phrase ?? reason;

// sentence explains a reason.
export const sentence = (reason) => reasons.get(reason)?.sentence ?? "";

const holders = {
  "retry-after": "the origin, which has asked for a pause (Retry-After)",
  back_off: "its failures in a row (pace.back_off)",
  max_per_day: "the requests of the last 24 hours (pace.max_per_day)",
  delay: "the delay after the request before",
  max_in_flight: "the requests in flight (pace.max_in_flight)",
};

// holder says what holds the requests to an origin.
export const holder = (by) => holders[by] ?? by;

const states = {
  fresh: { sign: "●", word: "fresh" },
  due: { sign: "◔", word: "due", hint: "The next request starts a fetch, and does not wait for it" },
  expired: { sign: "◌", word: "expired", hint: "The next request waits for a fetch" },
  unreachable: { sign: "○", word: "unreachable", hint: "The last fetch of its robots.txt failed" },
};

// stateLine shows the state of an origin's policy, with its times.
export function stateLine(policy) {
  const { state } = policy;
  const { sign, word, hint } = states[state] ?? { sign: "?", word: state };
  const aside = (...words) => el("span", { class: "aside" }, ...words);
  const times = [];
  if (state === "unreachable") times.push(aside("for ", distance(policy.unreachable_since)));
  if (holds(policy)) times.push(aside(state === "unreachable" ? "its copy holds for " : "for ", distance(policy.expires_at)));
  if (policy.next_try) times.push(aside("next try ", nextTry(policy, moment)));
  return el("span", { class: "standing" },
    el("span", { class: `state ${state}`, title: hint }, el("span", { "aria-hidden": "true" }, sign), word), times);
}

// nextTry says when an unreachable robots.txt is fetched again. Once that time has come, the
// next request fetches it.
export const nextTry = (policy, write = date) => Date.parse(policy.next_try) > Date.now() ? write(policy.next_try) : "with the next request";

const holds = (policy) => Date.parse(policy.expires_at) > Date.now();

const outcomes = {
  "": "nothing is known",
  rules: "its rules decide",
  unavailable: "there is none: everything allowed",
  unreachable: "everything disallowed",
  unreachable_expired: "everything allowed again",
  status: "as configured for this status",
};

// answerOf shows how the origin answered for its robots.txt.
export function answerOf(policy) {
  return el("span", { class: "standing" },
    el("span", {}, policy.status ? `${policy.status} · ` : "", outcomes[policy.outcome] ?? policy.outcome),
    Boolean(policy.cause) && el("span", { class: "aside" }, foreign(policy.cause, 160)));
}
