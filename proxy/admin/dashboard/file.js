// A robots.txt: each line with its number, how often it has decided, and whether it applies
// to the bot in question.

import { count, el, foreign, plural } from "./dom.js";

const portion = 1000; // lines that are added at a time

// fileOf shows lines from /api/v1/rules, with the deciding line marked. With around, it shows
// so many lines on either side of that one; with only, those that apply to the bot.
export function fileOf(lines, { decided = 0, around = Infinity, only = false } = {}) {
  const wanted = lines.filter(({ line, group }) => (!only || group) && Math.abs(line - decided) <= around);
  const body = el("tbody");
  const table = el("table", { class: "file" },
    el("thead", { class: "unseen" }, el("tr", {}, ...["Line", "Decided", "Text"].map((name) => el("th", { scope: "col" }, name)))), body);
  const more = el("button", { type: "button", class: "more", click: () => add() });
  let next = 0;
  const add = (upTo = next + portion) => {
    body.append(...wanted.slice(next, upTo).map((line) => row(line, decided)));
    next = Math.min(upTo, wanted.length);
    more.hidden = next === wanted.length;
    more.textContent = `Show more: ${plural(wanted.length - next, "line")} left`;
  };
  add(Math.max(portion, wanted.findIndex(({ line }) => line === decided) + 20));
  return el("div", { class: "file-frame", tabindex: 0, role: "group", "aria-label": "robots.txt by line" }, table, more);
}

function row({ line, text, group, hits }, decided) {
  const kind = [group && "counts", line === decided && "decided"].filter(Boolean).join(" ");
  return el("tr", { class: kind },
    el("td", { class: "number" }, String(line)),
    el("td", { class: "hits number", title: hits && `Decided ${plural(hits, "request")} lately` }, hits ? `${count(hits)}×` : ""),
    el("td", { class: "text" },
      group && el("span", { class: "unseen" }, line === decided ? "This line decides: " : "Applies: "),
      el("code", {}, foreign(text, 1000))));
}
