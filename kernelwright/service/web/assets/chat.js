// Conversations with models, read like a chat.

import { el, empty } from "./dom.js";
import * as format from "./format.js";

export function conversations(held) {
  if (!held.length) return empty("No model was asked about this task.");
  return held.map((talk) => el("section", { cls: "talk" },
    el("h2", {}, `${[talk.purpose.role, talk.number || ""].join(" ").trim()} · ${talk.model}`),
    el("p", { cls: "quiet" }, `${format.many(talk.cost.calls, "call")} · ${format.tokens(talk.known.tokens, talk.cost.tokens)} tokens · ${format.paid(talk.known.dollars, talk.cost.dollars)}`),
    el("details", { cls: "opening" }, el("summary", {}, "What the model is told first"), [["always", talk.opening.system], ["about the task", talk.opening.context]].map(([label, text]) => (text ? [el("h3", {}, label), el("pre", { tabindex: "0" }, text)] : null))),
    el("ol", { cls: "chat" }, said("user", [prose(talk.opening.request)]), talk.turns.map(turn))));
}

function turn(found) {
  const parts = [];
  if (found.reasoning) parts.push(el("details", { cls: "thinks" }, el("summary", {}, "thinks"), prose(found.reasoning)));
  for (const result of found.results) parts.push(el("div", { cls: `result ${result.is_error ? "bad" : ""}` }, el("span", { cls: "badge" }, result.is_error ? "tool, failed" : "tool"), prose(result.text)));
  if (found.text) parts.push(prose(found.text));
  for (const call of found.calls) parts.push(asked(call));
  return said(found.speaker, parts);
}

function said(speaker, parts) {
  const who = speaker === "assistant" ? "model" : "kernelwright";
  return el("li", { cls: `turn ${who}` }, el("span", { cls: "who" }, who), el("div", { cls: "bubble" }, parts));
}

const LONG = 1200;

function prose(text) {
  if (text.length <= LONG) return el("pre", { cls: "prose", tabindex: text.length > 80 ? "0" : null }, text);
  return el("details", { cls: "long" }, el("summary", {}, `${text.slice(0, 160).trim()} …`), el("pre", { cls: "prose", tabindex: "0" }, text));
}

function asked(call) {
  let told = call.arguments;
  try {
    told = readable(JSON.parse(call.arguments));
  } catch {
    // What a model sent as arguments may be no JSON, and is shown as it came.
  }
  return el("div", { cls: "call" }, el("span", { cls: "badge warn" }, `→ ${call.name}`), prose(told));
}

// Sources are lines, not one long string.
function readable(value) {
  const kernels = value?.program?.kernels;
  if (!Array.isArray(kernels)) return JSON.stringify(value, null, 2).replaceAll("\\n", "\n");
  const bodies = kernels.map((kernel) => {
    const { source = "", header = "", ...launch } = kernel ?? {};
    return [JSON.stringify(launch), header, source].filter(Boolean).join("\n");
  });
  return [value.program.idea, ...bodies].filter(Boolean).join("\n\n");
}
