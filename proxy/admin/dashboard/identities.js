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

export const identityNames = async () => (await identities()).map(({ name }) => name);
