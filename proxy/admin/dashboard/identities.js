// The identities that requests are assigned to.

import { get } from "./api.js";

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
