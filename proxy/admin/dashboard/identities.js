// The identities that requests are told apart by.

import { get } from "./api.js";

// identities are as the API lists them; none where it can't be asked, for they only
// help to choose.
export async function identities() {
  try {
    return (await get("identities")).identities;
  } catch {
    return [];
  }
}

// agentsIn are the agents that somebody has written: product tokens, else one whole
// User-Agent.
export function agentsIn(text) {
  const words = text.trim().split(/[\s,]+/).filter(Boolean);
  return words.some((word) => /[/:;#"()<>@[\]{}\\=?]/.test(word)) ? [text.trim()] : words;
}

export const identityNames = async () => (await identities()).map(({ name }) => name);
