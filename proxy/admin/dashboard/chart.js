// The last hour by minute. Allowed and refused requests are stacked; those that had to wait
// have a strip of their own. Patterns distinguish them too, not only colours.

import { byId, clock, count, el, fill, plural } from "./dom.js";

const frame = { left: 40, right: 8, top: 10, bars: 130, gap: 26, strip: 34, bottom: 20 };
const height = frame.top + frame.bars + frame.gap + frame.strip + frame.bottom;

// The labels beside the lines have room for a few characters.
const short = new Intl.NumberFormat("en", { notation: "compact" });

let minutes = [];
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

// show draws the minutes, the oldest first.
export function show(activity) {
  minutes = activity;
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

function draw() {
  const chart = byId("chart"), width = chart.clientWidth;
  if (width === 0 || minutes.length === 0) return;
  const base = frame.top + frame.bars, stripBase = base + frame.gap + frame.strip;
  const top = ceiling(Math.max(...minutes.map((m) => m.allowed + m.refused)));
  const topWait = ceiling(Math.max(...minutes.map((m) => m.waited)));
  const parts = [hatch(), mark("chart-chosen", frame.top, stripBase - frame.top)];
  for (const share of [0, 0.5, 1]) parts.push(...line(width, base - share * frame.bars, short.format(share * top)));
  parts.push(...line(width, stripBase, "0"), ...line(width, stripBase - frame.strip, short.format(topWait)),
    svg("text", { x: frame.left, y: base + frame.gap - 6, class: "strip" }, "waited"));
  minutes.forEach((m, i) => {
    const bar = (name, from, to, scale, bottom) => to > from && parts.push(svg("rect", {
      class: `bar ${name}`, ...(name === "refused" && { fill: "url(#hatch)" }),
      x: frame.left + i * step() + 0.5, width: Math.max(1, step() - 1.5), y: bottom - to * scale, height: (to - from) * scale,
    }));
    bar("allowed", 0, m.allowed, frame.bars / top, base);
    bar("refused", m.allowed, m.allowed + m.refused, frame.bars / top, base);
    bar("waited", 0, m.waited, frame.strip / topWait, stripBase);
  });
  parts.push(...times(stripBase + 15));
  chart.replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...parts));
  choose(chosen);
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
  byId("chart-told").textContent = m
    ? `${clock(m.time, false)}: ${count(m.allowed)} allowed, ${count(m.refused)} refused, ${count(m.waited)} waited`
    : "Waited: for 0.1 s or more, for a robots.txt or for their turn.";
  shade?.setAttribute("x", frame.left + chosen * step());
  shade?.setAttribute("width", m ? step() : 0);
}
