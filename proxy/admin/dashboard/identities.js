// The identities that requests are assigned to: a view of them, and suggestions for others.

import { get } from "./api.js";
import { byId, el, fill, foreign, hush, tell } from "./dom.js";

let asking = new AbortController();

export function start() {}

export const hide = () => asking.abort();

export async function show() {
  asking.abort();
  asking = new AbortController();
  try {
    const view = await get("identities", {}, asking.signal);
    fill(byId("identities-rows"), view.identities.map(row));
    hush(byId("identities-notice"));
  } catch (problem) {
    if (problem.name !== "AbortError") tell(byId("identities-notice"), problem, show);
  }
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
