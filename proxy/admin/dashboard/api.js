// Requests to the API. The browser adds the credentials of its login.

// A Problem says why a request failed, in words for the page's reader.
export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// address returns a URL of the API. It is absolute, since browsers refuse to fetch URLs
// relative to a page that was opened as http://user:token@host/.
export function address(path, query = {}) {
  const url = new URL("/api/v1/" + path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one != null && one !== "") url.searchParams.append(name, one);
  }
  return url;
}

async function ask(method, path, query, signal) {
  let answer;
  try {
    answer = await fetch(address(path, query), { method, signal, headers: { Accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "robotsproxy does not answer. Check that it is running, then try again.");
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  throw new Problem(answer.status, await reason(answer));
}

async function reason(answer) {
  if (answer.status === 401) return "The admin token is required. Reload the page and log in with any user name and the token as the password.";
  const problem = await answer.json().catch(() => ({}));
  return sentence(problem.detail || problem.title || `The answer was ${answer.status} without a reason. The log may say more.`);
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// get returns an object. It throws a Problem, or an AbortError if signal ends the request.
export const get = (path, query, signal) => ask("GET", path, query, signal);

// forget drops an origin's policy.
export const forget = (origin) => ask("DELETE", "policy", { origin });
