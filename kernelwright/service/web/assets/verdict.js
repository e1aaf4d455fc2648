// What the evaluator found: stages, failures, accuracy, counters, times.

import { el, empty } from "./dom.js";
import * as format from "./format.js";
import { badge } from "./parts.js";

const SHOWN = 5;

export function verdicts(found) {
  if (!found.evaluations.length) return empty("It has not been evaluated yet.");
  return found.evaluations.slice(0, SHOWN).map((known) => verdict(known));
}

function verdict({ evaluation, created_at: at }) {
  const device = `${evaluation.device.name} (${evaluation.device.chip})`;
  return el("section", { cls: "verdict" },
    el("h3", {}, badge(evaluation.status), ` ${device}, `, el("time", { datetime: at }, format.moment(at)), `, ${format.seconds(evaluation.duration_s)}`),
    failures(evaluation),
    el("ol", { cls: "stages" }, evaluation.stages.map((s) => el("li", { cls: s.passed ? "good" : "bad" }, el("span", { cls: "tick", "aria-hidden": "true" }, s.passed ? "✓" : "✗"), el("b", {}, s.stage), el("span", { cls: "hidden" }, s.passed ? "passed" : "failed"), el("span", { cls: "quiet" }, s.summary), el("span", { cls: "figure" }, `${(s.duration_s * 1000).toFixed(0)} ms`)))),
    accuracy(evaluation.accuracy), counters(evaluation.counters),
    evaluation.predicted_us === null ? null : el("p", {}, `Predicted ~${format.microseconds(evaluation.predicted_us)}`, evaluation.bound ? `, bound by ${evaluation.bound}` : "", `, ${format.COSTS}.`),
    samples(evaluation.samples), speedups(evaluation.speedups));
}

function failures(evaluation) {
  const parts = [];
  for (const d of evaluation.diagnostics) parts.push(el("pre", { cls: "problem", tabindex: "0" }, `${d.file}:${d.line}:${d.column}: ${d.severity}: ${d.message}${d.source_line ? `\n${d.source_line}` : ""}`));
  for (const r of evaluation.reports) parts.push(el("p", { cls: "problem" }, `${r.file}:${r.line}: ${r.kind}: ${r.message}`));
  for (const m of evaluation.mismatches) parts.push(el("p", { cls: "problem" }, `output ${m.output}: ${m.words} (${m.shapes.join(", ")}, ${m.case})`));
  return parts;
}

function grid(label, heads, lines) {
  if (!lines.length) return null;
  return el("div", { cls: "scroller natural", tabindex: "0", role: "group", "aria-label": `${label}, scrollable` }, el("table", { cls: "plain-table" }, el("caption", {}, label), el("thead", {}, el("tr", {}, heads.map((h, i) => el("th", { scope: "col", cls: i ? "number" : "" }, h)))), el("tbody", {}, lines.map((cells) => el("tr", {}, cells.map((cell, i) => (i ? el("td", { cls: "number" }, cell) : el("th", { scope: "row" }, cell))))))));
}

const exact = (value) => (value === null ? "–" : value.toPrecision(2));

const accuracy = (rows) => grid("Accuracy against float64", ["output", "worst absolute", "worst relative", "by row", "MLX by row", "allowed"], rows.map((a) => [String(a.output), exact(a.maximum_absolute), exact(a.maximum_relative), exact(a.row_relative), exact(a.reference_row_relative), exact(a.bound)]));

const sum = (buffers, name) => buffers.reduce((total, b) => total + b[name], 0);

const counters = (rows) => grid("Counted work", ["launch", "groups", "threads", "read", "written", "float ops", "special", "barriers"], rows.map((c) => [c.kernel, format.count(c.threadgroups), format.count(c.threads), format.bytes(sum(c.buffers, "bytes_read")), format.bytes(sum(c.buffers, "bytes_written")), format.count(c.float_operations), format.count(c.special_operations), format.count(c.barriers)]));

function samples(sets) {
  return grid("Measured times", ["arm", "median", "least", "most", "samples"], sets.filter((s) => s.nanoseconds.length).map((s) => {
    const sorted = [...s.nanoseconds].sort((a, b) => a - b);
    return [s.arm, ...[sorted[Math.floor(sorted.length / 2)], sorted[0], sorted.at(-1)].map((ns) => format.microseconds(ns / 1000)), format.count(sorted.length)];
  }));
}

const speedups = (rows) => grid("Against MLX", ["baseline", "ratio", "interval", "kind"], rows.map((s) => [s.baseline, format.ratio(s), format.interval(s) || "–", s.kind]));
