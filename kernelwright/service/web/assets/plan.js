// How a campaign's functions were cut into kernels, with the graph where the log holds it.

import { fileText, isExport } from "./api.js";
import { el, empty } from "./dom.js";
import * as format from "./format.js";

export function plans(id, functions) {
  if (!functions.length) return empty("No function was planned yet.");
  return functions.map(({ plan, has_graph: hasGraph }, index) => el("section", { cls: "plan" },
    el("h2", {}, plan.function),
    el("p", { cls: "quiet" }, `${plan.inputs} · ${format.many(plan.nodes, "op")} · ${format.many(plan.tasks.length, "kernel")} by ${plan.author}`),
    hasGraph ? picture(id, plan, index) : el("p", { cls: "quiet" }, "The log keeps no graph with large constants; kernelwright plan draws it with --svg."),
    el("ul", { cls: "plain" }, plan.tasks.map((task, place) => el("li", {}, el("span", { cls: "badge" }, `R${place + 1}`), " ", el("a", { href: `#/task/${task.id.slice(0, 16)}` }, task.name), el("span", { cls: "under" }, `${task.signature} · ${task.shapes}`)))),
    plan.left.length ? el("details", {}, el("summary", {}, `${format.many(plan.left.reduce((sum, l) => sum + l.count, 0), "op")} stay with MLX`), el("ul", {}, plan.left.map((l) => el("li", {}, el("code", {}, l.op), l.count > 1 ? ` ×${l.count}` : "", `: ${l.reason}`)))) : null));
}

function picture(id, plan, index) {
  const path = `/campaigns/${id}/plans/${index}.svg`;
  const text = fileText(path);
  if (isExport && !text) return null;
  const source = isExport ? `data:image/svg+xml;base64,${text}` : `/api/v1${path}`;
  const words = `The graph of ${plan.function} with ${format.many(plan.tasks.length, "region")}`;
  return el("div", { cls: "picture", tabindex: "0", role: "region", "aria-label": `${words}, scrollable` }, el("img", { src: source, alt: words }));
}
