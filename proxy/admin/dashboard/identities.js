// The identities that requests are assigned to, the overrides, and the clients that do not trust
// the CA: a view of them, and suggestions for others.

import { get } from "./api.js";
import { byId, count, date, el, fill, foreign, hush, tell } from "./dom.js";

let asking = new AbortController();

export function start() {}

export const hide = () => asking.abort();

export async function show(query) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  try {
    const [view, { overrides }, status] = await Promise.all(["identities", "overrides", "status"].map((path) => get(path, {}, signal)));
    fill(byId("identities-rows"), view.identities.map(row));
    listOverrides(overrides);
    listDistrusting(status);
    hush(byId("identities-notice"));
    const part = ["distrusting", "overrides"].find((name) => name === query.get("part"));
    if (part) {
      byId(part).scrollIntoView();
      byId(part).querySelector("h2").focus({ preventScroll: true });
    }
  } catch (problem) {
    if (problem.name !== "AbortError") tell(byId("identities-notice"), problem, () => show(query));
  }
}

function listDistrusting({ distrusting, distrusting_total: total }) {
  byId("distrusting").hidden = total === 0;
  byId("distrusting-told").textContent = total > distrusting.length ? `${distrusting.length} of ${count(total)}` : "";
  fill(byId("distrusting-rows"), distrusting.map(({ client, host }) => el("tr", {}, el("td", {}, client), el("td", {}, foreign(host, 200)))));
}

function listOverrides(overrides) {
  const cell = (name, label, ...content) => el("td", { role: "cell", class: name }, el("span", { class: "label" }, label), ...content);
  const warnings = overrides.map((o) => o.warning).filter(Boolean), place = byId("overrides-notice");
  fill(place, el("ul", {}, warnings.map((text) => el("li", {}, foreign(text, 600)))));
  place.hidden = warnings.length === 0;
  fill(byId("overrides-rows"), overrides.map((o) => el("tr", { role: "row" },
    cell("origin", "", foreign(o.origin, 200)),
    cell("says", "", o.verdict ?? el("span", {}, "by ", foreign(o.robots_file, 200))),
    cell("until", "until ", o.expires_at ? date(o.expires_at) : "–"),
    cell("grounds", "", foreign([o.reason, o.by && `by ${o.by}`].filter(Boolean).join(", ") || "–", 700)))));
  byId("overrides-rows").parentElement.hidden = overrides.length === 0;
  byId("overrides-empty").hidden = overrides.length > 0;
}

function row({ name, mode, product_tokens: tokens, signing }) {
  const cell = (column, label, ...content) => el("td", { role: "cell", class: column }, el("span", { class: "label" }, label), ...content);
  return el("tr", { role: "row" },
    cell("identity", "", foreign(name, 60)),
    cell("mode", "mode ", mode),
    cell("tokens", "as ", tokens.length > 0 ? foreign(tokens.join(", "), 300) : "that of its User-Agent"),
    cell("signing", "signs: ", ...signing ? signer(signing) : ["no"]));
}

// signer shows by which key requests are signed, where that is found, and in which form.
const signer = ({ key, agent, form }) => [el("code", { title: key }, key.slice(0, 8)), " at ", foreign(agent, 300), `, form ${form}`];

// identities returns the identities as the API lists them. If the API does not answer, it
// returns none, since they are only suggestions.
export async function identities() {
  try {
    return (await get("identities")).identities;
  } catch {
    return [];
  }
}

// agentsIn returns the agents in a text: product tokens, or one whole User-Agent.
export function agentsIn(text) {
  const words = text.trim().split(/[\s,]+/).filter(Boolean);
  return words.some((word) => /[/:;#"()<>@[\]{}\\=?]/.test(word)) ? [text.trim()] : words;
}

export const identityNames = async () => (await identities()).map(({ name }) => name);
