// How verdicts and states are called, everywhere on the page.

import { date, distance, el, foreign, moment } from "./dom.js";

// A kind is what became of a request. Each has a sign of its own, so that nobody
// depends on colours.
export const kinds = {
  allowed: { sign: "✓", word: "allowed" },
  refused: { sign: "✕", word: "refused" },
  reported: { sign: "◐", word: "would be refused", hint: "Let through: the identity's mode is report" },
  held: { sign: "‖", word: "held back", hint: "Allowed, but its turn would have come too late" },
};

// kindOf is the kind of a decision or of a verdict, which knows of no mode.
export function kindOf(d) {
  if (d.verdict === "allowed") return d.refused ? "held" : "allowed";
  return d.refused === false ? "reported" : "refused";
}

export function chip(kind) {
  const { sign, word, hint } = kinds[kind];
  return el("span", { class: `chip ${kind}`, title: hint }, el("span", { "aria-hidden": "true" }, sign), word);
}

const reasons = {
  rule: "a rule decides",
  no_rule: "no rule matches",
  no_group: "no group for this bot",
  too_costly: "too long to match",
  robots_txt: "robots.txt itself",
  unavailable: "no robots.txt there",
  unreachable: "robots.txt unreachable",
  unreachable_expired: "unreachable for too long to refuse",
  status: "configured for that status",
  tunnel: "tunnel can't be read",
  override: "operator's override",
  exempt: "identity's mode is off",
};

// because names a reason in a few words; one that the page does not know stays as
// the API calls it.
export const because = (reason) => reasons[reason] ?? reason;

const explanations = {
  rule: "The longest rule of its group that matches the path decides; of two as long, Allow.",
  no_rule: "The group that addresses this bot has no rule that matches, so the URL is allowed.",
  no_group: "The robots.txt addresses neither this bot nor everyone (*), so the URL is allowed.",
  too_costly: "To match this URL with the robots.txt's many wildcards would take too long, so it is disallowed.",
  robots_txt: "A robots.txt may always be fetched.",
  unavailable: "The site has no robots.txt (a 4xx answer or too many redirects), so there are no rules.",
  unreachable: "The robots.txt can't be had, so everything is disallowed until it can.",
  unreachable_expired: "The robots.txt couldn't be had for so long that nothing is disallowed any more.",
  status: "The configuration says what this status of the robots.txt means (robots.statuses).",
  tunnel: "What is in the tunnel can't be read, and only a part of the site is allowed.",
  override: "The configuration has its own word on this origin (overrides), which comes before the site's.",
  exempt: "The identity's mode is off: nobody is asked.",
};

export const explanation = (reason) => explanations[reason] ?? "";

const states = {
  fresh: { sign: "●", word: "fresh" },
  due: { sign: "◔", word: "due", hint: "The next request has it fetched again, and does not wait" },
  expired: { sign: "◌", word: "expired", hint: "The next request has it fetched again, and waits for that" },
  unreachable: { sign: "○", word: "unreachable", hint: "The last fetch of its robots.txt has failed" },
};

// stateLine is how an origin's policy stands, with its times.
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

// nextTry says when an unreachable robots.txt is asked for again. When its time has come,
// a request has yet to want it.
export const nextTry = (policy, write = date) => Date.parse(policy.next_try) > Date.now() ? write(policy.next_try) : "with the next request";

const holds = (policy) => Date.parse(policy.expires_at) > Date.now();

const outcomes = {
  "": "nothing known",
  rules: "its rules decide",
  unavailable: "there is none: all allowed",
  unreachable: "all disallowed",
  unreachable_expired: "all allowed again",
  status: "as configured for this status",
};

// answerOf says what the robots.txt answered.
export function answerOf(policy) {
  return el("span", { class: "standing" },
    el("span", {}, policy.status ? `${policy.status} · ` : "", outcomes[policy.outcome] ?? policy.outcome),
    Boolean(policy.cause) && el("span", { class: "aside" }, foreign(policy.cause, 160)));
}
