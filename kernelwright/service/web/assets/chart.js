// Charts as SVG of our own: the roofline with every candidate, and spend over time.

import { el, empty, svg } from "./dom.js";
import * as format from "./format.js";
import { tile, tiles } from "./parts.js";

let WIDTH = 640;
let HEIGHT = 340;
const EDGE = { left: 82, right: 18, top: 18, bottom: 44 };

// On a phone a chart is drawn smaller rather than scaled down with its words.
function measure() {
  const isNarrow = matchMedia("(max-width: 640px)").matches;
  [WIDTH, HEIGHT] = isNarrow ? [360, 290] : [640, 340];
}

const logScale = (low, high, from, to) => (value) => from + ((Math.log10(value) - Math.log10(low)) / (Math.log10(high) - Math.log10(low))) * (to - from);
const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

function decades(low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.floor(Math.log10(high)); power += 1) found.push(10 ** power);
  return found;
}

const plain = (value) => (value >= 1000 ? format.count(value) : String(Number(value.toPrecision(2))));

function frame(title, about, role, ...parts) {
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, cls: "chart", role, "aria-label": `${title}. ${about}` }, parts);
}

function axes(x, y, xTicks, yTicks, xLabel, yLabel, tell = plain, tellX = plain) {
  const [left, right, top, bottom] = [EDGE.left, WIDTH - EDGE.right, EDGE.top, HEIGHT - EDGE.bottom];
  return [
    xTicks.map((tick) => svg("g", {}, svg("line", { cls: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom }), svg("text", { x: x(tick), y: bottom + 16, cls: "tick middle" }, tellX(tick)))),
    yTicks.map((tick) => svg("g", {}, svg("line", { cls: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }), svg("text", { x: left - 8, y: y(tick) + 4, cls: "tick end" }, tell(tick)))),
    svg("text", { x: (left + right) / 2, y: HEIGHT - 8, cls: "axis middle" }, xLabel),
    svg("text", { x: 13, y: (top + bottom) / 2, cls: "axis middle", transform: `rotate(-90 13 ${(top + bottom) / 2})` }, yLabel),
  ];
}

export function roofline(found, chosen, taskId) {
  if (!found || !found.points.length) return empty("Nothing was counted for this task, so there is no roofline.");
  measure();
  const ridge = found.peak_gflops / found.bandwidth_gb_s;
  const xs = found.points.map((p) => p.intensity);
  const ys = found.points.map((p) => p.gflops);
  const [xLow, xHigh] = [Math.min(...xs, ridge) / 2.5, Math.max(...xs, ridge) * 4];
  const [yLow, yHigh] = [Math.min(...ys) / 3, found.peak_gflops * 2];
  const x = logScale(xLow, xHigh, EDGE.left, WIDTH - EDGE.right);
  const y = logScale(yLow, yHigh, HEIGHT - EDGE.bottom, EDGE.top);
  const start = Math.max(xLow, yLow / found.bandwidth_gb_s);
  // Above the slope, where neither the other figure nor a candidate is.
  const middle = Math.sqrt(start * ridge);
  const roof = `M${x(start)} ${y(start * found.bandwidth_gb_s)}L${x(ridge)} ${y(found.peak_gflops)}L${x(xHigh)} ${y(found.peak_gflops)}`;
  const measured = found.points.filter((p) => p.kind === "measured").length;
  const drawn = frame(`Roofline of ${found.chip}`, `${found.points.length} candidates.`, "group",
    axes(x, y, decades(xLow, xHigh), decades(yLow, yHigh), "operations per byte of memory", "GFLOP/s"),
    svg("path", { d: roof, cls: "roof" }),
    svg("text", { x: WIDTH - EDGE.right - 4, y: y(found.peak_gflops) - 7, cls: "tick end" }, `${format.count(Math.round(found.peak_gflops))} GFLOP/s`),
    svg("text", { x: x(middle) - 8, y: y(middle * found.bandwidth_gb_s) - 4, cls: "tick end" }, `${format.count(found.bandwidth_gb_s)} GB/s`),
    [...found.points].sort((a, b) => weight(a, chosen) - weight(b, chosen)).map((point) => dot(point, x, y, chosen, taskId)));
  const kinds = measured === found.points.length ? "Times were measured." : measured ? `Hollow points are predicted from counted work, not timed, ${format.COSTS}.` : `All times are predicted from counted work, ${format.COSTS}; nothing was timed.`;
  const cut = found.total > found.points.length ? ` The best ${format.count(found.points.length)} of ${format.count(found.total)} are drawn.` : "";
  return el("figure", { cls: "plot" }, drawn, el("figcaption", {}, `${format.many(found.points.length, "candidate")} on ${found.chip}; the line is the most that its memory and its arithmetic allow. ${kinds}${cut}`));
}

const weight = (point, chosen) => (point.candidate_id === chosen ? 2 : point.is_champion ? 1 : 0);

function dot(point, x, y, chosen, taskId) {
  const cls = ["dot", point.kind, point.is_champion && "champion", point.candidate_id === chosen && "chosen"].filter(Boolean).join(" ");
  const words = `${format.short(point.candidate_id)}: ${point.kind === "measured" ? "" : "~"}${format.microseconds(point.microseconds)}, ${point.idea}`;
  // Keyboards reach candidates through the tree; a thousand stops in a picture would be a maze.
  return svg("a", { href: `#/task/${taskId}/${point.candidate_id.slice(0, 16)}`, tabindex: "-1" }, svg("circle", { cls, cx: x(point.intensity).toFixed(1), cy: y(point.gflops).toFixed(1), r: point.candidate_id === chosen ? 7 : 5 }, svg("title", {}, words)));
}

export function spendChart(curve) {
  const paid = curve.payments;
  const byModel = new Map();
  for (const p of paid) {
    const sum = byModel.get(p.model) ?? { calls: 0, tokens: 0, known: 0, dollars: 0, failed: 0 };
    byModel.set(p.model, { calls: sum.calls + 1, tokens: sum.tokens + p.tokens, known: sum.known + p.known_dollars, dollars: sum.dollars + p.dollars, failed: sum.failed + p.is_failed });
  }
  if (!paid.length) return empty("No model was asked, so nothing was spent.");
  measure();
  const isMoney = curve.dollars > 0;
  const begin = Date.parse(curve.started_at);
  const end = Math.max(Date.parse(curve.ended_at), Date.parse(paid.at(-1).at));
  const most = isMoney ? curve.dollars : curve.tokens;
  const x = scale(0, (end - begin) / 1000, EDGE.left, WIDTH - EDGE.right);
  const y = scale(0, most, HEIGHT - EDGE.bottom, EDGE.top);
  let sum = 0;
  let path = `M${x(0)} ${y(0)}`;
  for (const p of paid) {
    const at = x((Date.parse(p.at) - begin) / 1000).toFixed(1);
    path += `L${at} ${y(sum).toFixed(1)}`;
    sum += isMoney ? p.dollars : p.tokens;
    path += `L${at} ${y(sum).toFixed(1)}`;
  }
  path += `L${x((end - begin) / 1000)} ${y(sum)}`;
  const ticks = WIDTH < 500 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const span = (end - begin) / 1000;
  const about = isMoney ? format.paid(curve.known_dollars, curve.dollars) : `${format.count(curve.tokens)} tokens`;
  return [
    tiles(tile("spent", format.paid(curve.known_dollars, curve.dollars)), tile("tokens", format.count(curve.tokens)), tile("calls", format.count(paid.length))),
    el("figure", { cls: "plot" }, frame("Spend over time", `${about} in all.`, "img",
      axes(x, y, ticks.map((t) => t * span), ticks.map((t) => t * most), "time since the start", isMoney ? "dollars" : "tokens", isMoney ? (v) => `$${v.toFixed(most < 0.1 ? 4 : 2)}` : (v) => format.count(Math.round(v)), (v) => format.seconds(v)),
      svg("path", { d: `${path}L${x(span)} ${y(0)}Z`, cls: "area" }), svg("path", { d: path, cls: "curve" })),
    el("figcaption", {}, `What models were paid from the start of the campaign on; each step is one reply, at its worst case where none came whole.`)),
    el("div", { cls: "scroller natural", tabindex: "0", role: "region", "aria-label": "Spend by model, scrollable" }, el("table", { cls: "plain-table" }, el("thead", {}, el("tr", {}, ["model", "calls", "failed", "tokens", "dollars"].map((h, i) => el("th", { scope: "col", cls: i ? "number" : "" }, h)))),
      el("tbody", {}, [...byModel].map(([model, m]) => el("tr", {}, el("th", { scope: "row" }, model), [format.count(m.calls), format.count(m.failed), format.count(m.tokens), format.paid(m.known, m.dollars)].map((v) => el("td", { cls: "number" }, v))))))),
  ];
}
