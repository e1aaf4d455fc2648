// Two campaigns side by side.

import { get } from "./api.js";
import { el } from "./dom.js";
import * as format from "./format.js";
import { heading, taskName } from "./parts.js";

export async function showCompare(page, left, right) {
  const found = await get("/compare", { left, right });
  const both = found.tasks.filter((t) => t.left && t.right).length;
  page.append(
    heading("Two campaigns"),
    el("div", { cls: "scroller natural", tabindex: "0", role: "region", "aria-label": "The campaigns, scrollable" }, el("table", { cls: "plain-table" },
      el("thead", {}, el("tr", {}, el("td"), [found.left, found.right].map((c) => el("th", { scope: "col" }, el("a", { href: `#/campaign/${c.id.slice(0, 16)}` }, c.name), el("span", { cls: "under" }, format.short(c.id)))))),
      el("tbody", {}, [
        ["state", (c) => c.state], ["device", (c) => c.device], ["tried", (c) => format.count(c.tried)], ["right", (c) => format.count(c.correct)],
        ["time", (c) => format.seconds(c.seconds)], ["spent", (c) => format.paid(c.known_dollars, c.dollars)],
      ].map(([label, of]) => el("tr", {}, el("th", { scope: "row" }, label), el("td", {}, of(found.left)), el("td", {}, of(found.right))))))),
    el("h2", {}, both ? `${format.many(both, "task")} of both` : "No task of both"),
    el("div", { cls: "scroller natural", tabindex: "0", role: "region", "aria-label": "The tasks, scrollable" }, el("table", { cls: "plain-table" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "task"), [found.left, found.right].map((c) => [el("th", { scope: "col", cls: "number" }, `best, ${format.short(c.id)}`), el("th", { scope: "col", cls: "number" }, "tried")]), el("th", { scope: "col", cls: "number" }, "ratio"))),
      el("tbody", {}, found.tasks.map((t) => el("tr", {}, el("th", { scope: "row", cls: "wide" }, el("a", { href: `#/task/${t.task.id.slice(0, 16)}` }, taskName(t.task))), [t.left, t.right].map((side) => [el("td", { cls: "number" }, format.rank(side?.best)), el("td", { cls: "number" }, side ? format.count(side.tried) : "–")]), el("td", { cls: "number" }, change(t))))))),
    el("p", { cls: "quiet" }, `A ratio above 1 means that the second campaign's best is faster; ~ is predicted from counted work, not timed, ${format.COSTS}. Figures of different kinds are not compared.`),
  );
}

function change(task) {
  if (task.ratio === null) return "–";
  const mark = task.left.best.kind === "measured" ? "" : "~";
  const cls = task.ratio > 1.005 ? "good" : task.ratio < 0.995 ? "bad" : "quiet";
  return el("span", { cls }, `${mark}${task.ratio.toFixed(2)}×`);
}
