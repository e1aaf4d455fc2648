// Metal source with its lines, and the difference between two sources.

import { el } from "./dom.js";

const pieces = (line) => line.map((span) => (span.kind ? el("span", { cls: `s-${span.kind}` }, span.text) : span.text));

export function sources(texts) {
  return texts.map((text) => block(`${text.kernel}, ${text.part}`, el("table", { cls: "code", role: "presentation" }, el("tbody", {}, text.lines.map((line, index) => el("tr", {}, el("td", { cls: "number-cell", "data-line": index + 1 }), el("td", { cls: "text" }, pieces(line))))))));
}

export function difference(found) {
  return found.parts.map((part) => {
    const words = part.added || part.removed ? `+${part.added} −${part.removed}` : "unchanged";
    return block(`${part.kernel}, ${part.part} · ${words}`, el("table", { cls: "code diff", role: "presentation" }, el("tbody", {}, folded(part.rows).map(row))));
  });
}

const MARKS = { same: " ", removed: "−", added: "+" };

function row(found) {
  if (found.folded) return el("tr", { cls: "folded" }, el("td", { colspan: "4" }, `${found.folded} equal lines`));
  return el("tr", { cls: found.change }, el("td", { cls: "number-cell", "data-line": found.old ?? "" }), el("td", { cls: "number-cell", "data-line": found.new ?? "" }), el("td", { cls: "mark" }, el("span", { cls: "hidden" }, found.change === "same" ? "" : found.change), el("span", { "aria-hidden": "true" }, MARKS[found.change])), el("td", { cls: "text" }, pieces(found.line)));
}

const AROUND = 4;

// Long runs of equal lines are folded, but for a few around each change.
function folded(rows) {
  const near = new Set();
  rows.forEach((r, i) => { if (r.change !== "same") for (let j = i - AROUND; j <= i + AROUND; j += 1) near.add(j); });
  const shown = [];
  let skipped = 0;
  const end = () => { if (skipped) shown.push({ folded: skipped }); skipped = 0; };
  rows.forEach((r, i) => { if (near.has(i)) { end(); shown.push(r); } else skipped += 1; });
  end();
  return shown;
}

function block(title, body) {
  return el("section", { cls: "block" }, el("h3", {}, title), el("div", { cls: "scroller natural", tabindex: "0", role: "region", "aria-label": `${title}, scrollable` }, body));
}
