// The last hour by minute. Allowed and refused requests are stacked; those that had to wait
// have a strip of their own. Patterns distinguish them too, not only colours.

import { byId, clock, count, el, fill, plural } from "./dom.js";

const frame = { left: 40, right: 8, top: 14, bars: 66, gap: 22, strip: 20, bottom: 18 };
const height = frame.top + frame.bars + frame.gap + frame.strip + frame.bottom;

const few = 5; // minutes of which none is unusual

// The labels beside the lines have room for a few characters.
const short = new Intl.NumberFormat("en", { notation: "compact" });

let minutes = [];
let started = 0; // when the program began to count, in ms
let chosen = -1; // the minute whose figures are shown; -1: none

function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// start draws the chart when its size changes, and handles pointer and keys.
export function start() {
  const chart = byId("chart");
  new ResizeObserver(draw).observe(chart);
  chart.addEventListener("pointermove", (event) => {
    const x = event.clientX - chart.getBoundingClientRect().left - frame.left;
    choose(Math.floor(x / step()));
  });
  chart.addEventListener("pointerleave", () => choose(-1));
  chart.addEventListener("blur", () => choose(-1));
  chart.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: Math.max(0, (chosen < 0 ? minutes.length : chosen) - 1), ArrowRight: Math.min(minutes.length - 1, chosen + 1), Home: 0, End: minutes.length - 1, Escape: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  });
}

// show draws the activity as the API has it.
export function show(activity) {
  minutes = activity.minutes;
  started = Date.parse(activity.started);
  const sum = (name) => minutes.reduce((all, minute) => all + minute[name], 0);
  for (const name of ["allowed", "refused", "waited"]) byId(`total-${name}`).textContent = count(sum(name));
  byId("chart").setAttribute("aria-label",
    `Requests in the last hour by minute: ${count(sum("allowed"))} allowed, ${count(sum("refused"))} refused, ${count(sum("waited"))} waited. The arrow keys move through the minutes. The figures are in the table below.`);
  fill(byId("chart-figures"), minutes.toReversed().filter((m) => m.allowed + m.refused + m.waited > 0).map((m) =>
    el("tr", {}, el("th", { scope: "row" }, clock(m.time, false)), ...["allowed", "refused", "waited"].map((name) => el("td", { class: "number" }, count(m[name]))))));
  draw();
}

const step = () => (byId("chart").clientWidth - frame.left - frame.right) / Math.max(1, minutes.length);

// ceiling returns the least round number that is not below n.
function ceiling(n) {
  if (n <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 3, 4, 6, 8, 10].map((factor) => factor * power).find((round) => round >= n);
}

// topOf returns where the axis of some values ends. A few that are far above all others go
// beyond it, so that the others can still be told apart.
function topOf(values) {
  const ordered = values.filter((n) => n > 0).sort((a, b) => b - a);
  const usual = ordered[Math.ceil(ordered.length / 10)] ?? 0; // all but the highest tenth are as low
  return ceiling(ordered.length >= few && ordered[0] > 4 * usual ? 1.5 * usual : ordered[0] ?? 0);
}

// known reports whether the program ran at the end of a minute.
const known = (m) => Date.parse(m.time) + 60_000 > started;

function draw() {
  const chart = byId("chart"), width = chart.clientWidth;
  if (width === 0 || minutes.length === 0) return;
  const base = frame.top + frame.bars, stripBase = base + frame.gap + frame.strip;
  const top = topOf(minutes.map((m) => m.allowed + m.refused)), topWait = topOf(minutes.map((m) => m.waited));
  const parts = [hatch(), ...before(base), mark("chart-chosen", frame.top, stripBase - frame.top)];
  for (const share of [0, 0.5, 1]) parts.push(...line(width, base - share * frame.bars, short.format(share * top)));
  parts.push(...line(width, stripBase, "0"), ...line(width, stripBase - frame.strip, short.format(topWait)),
    svg("text", { x: frame.left, y: base + frame.gap - 6, class: "strip" }, "waited"));
  minutes.forEach((m, i) => {
    const x = frame.left + i * step();
    const bar = (name, from, to, scale, bottom) => to > from && parts.push(svg("rect", {
      class: `bar ${name}`, ...(name === "refused" && { fill: "url(#hatch)" }),
      x: x + 0.5, width: Math.max(1, step() - 1.5), y: bottom - to * scale, height: (to - from) * scale,
    }));
    // A minute beyond the axis keeps its shares, and has its number above a gap in its bar.
    const stack = (names, all, height, top, bottom) => {
      const scale = height / Math.max(top, all);
      names.reduce((from, name) => (bar(name, from, from + m[name], scale, bottom), from + m[name]), 0);
      if (all > top) parts.push(svg("rect", { class: "gap", x: x - 0.5, width: step() + 0.5, y: bottom - height + 7, height: 3 }),
        svg("text", { class: "beyond", x: Math.min(Math.max(x + step() / 2, frame.left + 12), width - frame.right - 12), y: bottom - height - 3, "text-anchor": "middle" }, short.format(all)));
    };
    stack(["allowed", "refused"], m.allowed + m.refused, frame.bars, top, base);
    stack(["waited"], m.waited, frame.strip, topWait, stripBase);
  });
  parts.push(...times(stripBase + 15));
  chart.replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...parts));
  choose(chosen);
}

// before shades the minutes before the program began to count.
function before(base) {
  const n = minutes.findIndex(known);
  if (n <= 0) return [];
  const width = n * step();
  return [svg("rect", { class: "before", x: frame.left, y: frame.top, width, height: base - frame.top }),
    ...width > 90 ? [svg("text", { x: frame.left + width / 2, y: frame.top + frame.bars / 2, "text-anchor": "middle" }, "before the start")] : []];
}

// hatch returns the pattern of refused requests.
function hatch() {
  return svg("defs", {}, svg("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 5, height: 5, class: "hatch-ground" }), svg("rect", { width: 2.2, height: 5, class: "hatch-line" })));
}

function line(width, y, label) {
  return [svg("line", { x1: frame.left, x2: width - frame.right, y1: y + 0.5, y2: y + 0.5, class: "grid" }),
    svg("text", { x: frame.left - 6, y: y + 4, "text-anchor": "end" }, label)];
}

// times labels every tenth minute below the bars, or every twentieth if they are narrow.
function times(y) {
  const every = step() < 8 ? 20 : 10;
  return minutes.flatMap((m, i) => new Date(m.time).getMinutes() % every === 0
    ? [svg("text", { x: Math.min(frame.left + (i + 0.5) * step(), byId("chart").clientWidth - frame.right - 16), y, "text-anchor": "middle" }, clock(m.time, false))] : []);
}

const mark = (id, y, height) => svg("rect", { id, class: "chosen", x: 0, y, width: 0, height });

// choose shows the figures of a minute.
function choose(i) {
  chosen = i >= 0 && i < minutes.length ? i : -1;
  const m = minutes[chosen], shade = byId("chart-chosen");
  byId("chart-told").textContent = m && !known(m)
    ? `${clock(m.time, false)}: before the start, so nothing is known`
    : m ? `${clock(m.time, false)}: ${count(m.allowed)} allowed, ${count(m.refused)} refused, ${count(m.waited)} waited`
    : "Waited: for 0.1 s or more, for a robots.txt or for their turn.";
  shade?.setAttribute("x", frame.left + chosen * step());
  shade?.setAttribute("width", m ? step() : 0);
}
