// The API behind the page. The browser itself sends what it logged in with.

// A Problem is an answer that is none, in words for whoever looks at the page.
export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// address is absolute by the page's origin: relative to a page that was opened as
// http://user:token@host/ a browser would refuse it.
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
    throw new Problem(0, "robotsproxy does not answer. It may have been stopped: look whether it still runs, then try again.");
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  throw new Problem(answer.status, await reason(answer));
}

async function reason(answer) {
  if (answer.status === 401) return "The admin token is asked for. Reload the page and log in: any user name, the token as password.";
  const problem = await answer.json().catch(() => ({}));
  return sentence(problem.detail || problem.title || `The answer was ${answer.status} without a reason; the log may say more.`);
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// get asks for an object. It throws a Problem, or an AbortError where signal says so.
export const get = (path, query, signal) => ask("GET", path, query, signal);

// forget drops what is known of an origin.
export const forget = (origin) => ask("DELETE", "policy", { origin });
