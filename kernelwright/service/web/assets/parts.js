// Small pieces that several views show.

import { el } from "./dom.js";
import * as format from "./format.js";

export function heading(title, ...beside) {
  return el("div", { cls: "heading" }, el("h1", { tabindex: "-1" }, title), beside);
}

export function badge(words, kind = format.statusKind(words)) {
  return el("span", { cls: `badge ${kind}` }, words);
}

export function tile(label, value, note = "") {
  return el("div", { cls: "tile" }, el("dt", {}, label), el("dd", {}, el("span", { cls: "figure" }, value), note && el("span", { cls: "note" }, note)));
}

export function tiles(...found) {
  return el("dl", { cls: "tiles" }, found);
}

export function gainCell(gain) {
  if (!gain) return el("span", { cls: "quiet" }, "–");
  if (!format.beatsMlx(gain)) return el("span", { cls: "quiet" }, format.MLX_IS_BEST);
  const width = Math.min(Math.log2(gain.ratio) / 3, 1) * 56;
  const bar = el("progress", { cls: "meter", max: "56", value: width.toFixed(1), "aria-hidden": "true" });
  const range = format.interval(gain);
  return el("span", { cls: "gain" }, bar, el("b", { cls: "good" }, format.ratio(gain)), range && el("span", { cls: "note" }, range));
}

export function tabs(label, places, current) {
  return el("nav", { cls: "tabs", "aria-label": label }, places.filter(Boolean).map(([key, words, href]) => el("a", { href, "aria-current": key === current ? "page" : null }, words)));
}

export function taskName(task) {
  return [task.name, el("span", { cls: "under" }, `${task.signature} · ${task.shapes}`)];
}

export const TASK_COLUMNS = [
  { key: "name", head: "task", order: "name", first: "ascending", cls: "wide", cell: (row) => el("a", { href: `#/task/${row.task.id.slice(0, 16)}` }, taskName(row.task)) },
  { key: "gain", head: "gain", order: "gain", first: "descending", cls: "gain-column", cell: (row) => gainCell(row.speedup) },
  { key: "best", head: "best", order: "best", first: "ascending", cls: "number", cell: (row) => format.rank(row.best) },
  { key: "tried", head: "tried", order: "tried", first: "descending", cls: "number rare", cell: (row) => format.count(row.tried) },
  { key: "right", head: "right", order: "right", first: "descending", cls: "number optional", cell: (row) => format.count(row.right) },
  { key: "spent", head: "spent", order: "spent", first: "descending", cls: "number optional", cell: (row) => (row.spend.calls ? format.paid(row.spend.known_microdollars / 1e6, row.spend.microdollars / 1e6) : "–") },
];

export const CANDIDATE_COLUMNS = [
  { key: "idea", head: "idea", order: "idea", first: "ascending", cls: "wide", cell: (row) => el("a", { href: `#/task/${row.task.id.slice(0, 16)}/${row.candidate_id.slice(0, 16)}` }, row.idea || "(no words)", el("span", { cls: "under" }, `${format.short(row.candidate_id)} · ${row.task.name}`)) },
  { key: "status", head: "verdict", order: "status", first: "ascending", cell: (row) => badge(row.status ?? row.state, row.status ? format.statusKind(row.status) : "done") },
  { key: "rank", head: "time", order: "rank", first: "ascending", cls: "number", cell: (row) => format.rank(row.rank) },
  { key: "author", head: "author", order: "author", first: "ascending", cls: "optional author-column", cell: (row) => row.author },
  { key: "at", head: "when", order: "at", first: "descending", cls: "optional number", cell: (row) => el("time", { datetime: row.at }, format.moment(row.at)) },
];

export function copied(command) {
  return el("button", { type: "button", cls: "command", title: "Copy", onclick: async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard?.writeText(command);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
  } }, el("code", {}, command), el("span", { cls: "note" }, "copy"));
}

export function filterField(label, onInput) {
  let waiting = 0;
  return el("input", { type: "search", cls: "filter", placeholder: label, "aria-label": label, maxlength: "200", oninput: (event) => {
    clearTimeout(waiting);
    const text = event.target.value;
    waiting = setTimeout(() => onInput(text), 200);
  } });
}
