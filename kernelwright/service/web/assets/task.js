// One task: its candidates as a tree, and beside it the chosen one.

import { get, isExport, post } from "./api.js";
import { roofline } from "./chart.js";
import { conversations } from "./chat.js";
import { difference, sources } from "./code.js";
import { el, empty, replace, say } from "./dom.js";
import * as format from "./format.js";
import { badge, gainCell, heading, tabs, tile, tiles } from "./parts.js";
import { Tree } from "./tree.js";
import { verdicts } from "./verdict.js";

const WHOLE = ["conversations", "graph"];

export async function showCandidate(page, id) {
  const { candidate } = await get(`/candidates/${id}`);
  history.replaceState(null, "", `#/task/${candidate.task.id.slice(0, 16)}/${candidate.id.slice(0, 16)}`);
  return showTask(page, candidate.task.id.slice(0, 16), candidate.id.slice(0, 16));
}

export async function showTask(page, id, part, tab) {
  const view = new TaskView(page, id);
  await view.begin(part, tab);
  return view;
}

class TaskView {
  constructor(page, id) {
    Object.assign(this, { page, id, base: `#/task/${id}`, tabs: el("div"), body: el("div", { cls: "tab-body" }), detail: el("div", { cls: "detail" }) });
  }

  async begin(part, tab) {
    this.found = await get(`/tasks/${this.id}`);
    const { task, champions } = this.found;
    this.page.append(
      heading(task.name),
      el("p", { cls: "quiet" }, `${task.signature} · ${task.shapes} · ${format.short(task.id)}`),
      champions.length ? tiles(...champions.slice(0, 3).map((c) => el("div", { cls: "tile" }, el("dt", {}, `champion on ${c.chip}`), el("dd", {}, gainCell(c.speedup), el("span", { cls: "note" }, `${format.rank(c.rank)} · ${c.freshness} · `, el("a", { href: `${this.base}/${c.candidate_id.slice(0, 16)}` }, format.short(c.candidate_id))))))) : "",
      this.tabs, this.body);
    await this.turn(this.id, part, tab);
  }

  async turn(_, part, tab) {
    const isWhole = WHOLE.includes(part);
    replace(this.tabs, tabs("Parts of the task", [["lineage", "Lineage", this.base], ["conversations", "Conversations", `${this.base}/conversations`], ["graph", "Graph", `${this.base}/graph`]], isWhole ? part : "lineage"));
    if (part === "conversations") return void replace(this.body, conversations(await get(`/tasks/${this.id}/conversations`)));
    if (part === "graph") return void replace(this.body, el("pre", { cls: "graph", tabindex: "0" }, this.found.graph_text));
    if (!this.tree) await this.grow();
    if (!this.body.contains(this.tree.element)) replace(this.body, el("div", { cls: "split" }, el("section", { "aria-label": "Lineage", cls: "side" }, el("h2", {}, "Lineage"), this.tree.element), this.detail));
    const chosen = part ?? this.found.path.at(-1) ?? this.found.first[0]?.id;
    if (chosen) await this.choose(chosen, tab ?? (part ? this.tab : undefined) ?? "source");
    else replace(this.detail, empty("Nothing has been tried for this task yet."));
    return undefined;
  }

  async grow() {
    this.tree = new Tree(this.id, this.found.first, (node) => { location.hash = `${this.base}/${node.id.slice(0, 16)}/${this.tab ?? "source"}`; });
    this.roof = get(`/tasks/${this.id}/roofline`).catch(() => null);
  }

  async choose(id, tab) {
    this.tab = tab;
    const mine = (this.choice = Symbol(id));
    const isNew = !this.candidate?.candidate.id.startsWith(id);
    const found = isNew ? await get(`/candidates/${id}`) : this.candidate;
    if (mine !== this.choice) return;
    this.candidate = found;
    const path = [found.candidate.id, ...found.lineage.map((c) => c.id)].reverse();
    if (isNew) await this.tree.reveal(path);
    const body = await this.part(found, tab);
    if (mine !== this.choice) return;
    replace(this.detail, this.head(found), this.choices(found, tab), el("div", { cls: "tab-body" }, body));
  }

  head(found) {
    const { candidate, gain, lineage } = found;
    const verdict = found.evaluations[0]?.evaluation;
    return el("header", {},
      el("h2", {}, candidate.idea || format.short(candidate.id)),
      el("p", { cls: "quiet" }, verdict ? badge(verdict.status) : badge("not judged", "done"), ` ${format.short(candidate.id)} by ${candidate.author}`, lineage[0] ? [", from ", el("a", { href: `${this.base}/${lineage[0].id.slice(0, 16)}` }, format.short(lineage[0].id))] : ""),
      gain ? el("p", {}, gainLine(gain)) : null,
      verdict && !verdict.stages.every((s) => s.passed) ? el("p", { cls: "problem" }, verdict.summary) : null,
      isExport ? null : el("div", { cls: "actions" }, this.exporting(found)));
  }

  exporting(found) {
    const verdict = found.evaluations[0]?.evaluation;
    if (!verdict || !["correct", "promoted"].includes(verdict.status)) return null;
    const formats = ["module", "package", "metal", "mlxfn", "swift", "cpp", "huggingface"];
    const select = el("select", { "aria-label": "Export as" }, formats.map((f) => el("option", { value: f }, f)));
    const isSlower = found.gain && !format.beatsMlx(found.gain);
    return [select, el("button", { type: "button", onclick: () => this.take(found.candidate.id, select.value, isSlower) }, "Export")];
  }

  async take(id, formatName, isSlower) {
    if (isSlower && !confirm("MLX is faster than this kernel. Export it all the same?")) return;
    try {
      const response = await post(`/candidates/${id}/export`, { format_name: formatName, slower: isSlower ? "true" : "" });
      const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? "kernel.zip";
      const address = URL.createObjectURL(await response.blob());
      const link = document.createElement("a");
      link.href = address;
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
      say(`Saved ${name}.`);
    } catch (error) {
      say(error.message, true);
    }
  }

  choices(found, tab) {
    const base = `${this.base}/${found.candidate.id.slice(0, 16)}`;
    return tabs("Parts of the candidate", [["source", "Source", `${base}/source`], found.lineage.length ? ["diff", "Changes", `${base}/diff`] : null, ["verdict", "Verdict", `${base}/verdict`], ["roofline", "Roofline", `${base}/roofline`]], tab);
  }

  async part(found, tab) {
    const id = found.candidate.id.slice(0, 16);
    if (tab === "diff") return found.lineage.length ? difference(await get(`/candidates/${id}/diff`)) : empty("It descends from no other candidate.");
    if (tab === "verdict") return verdicts(found);
    if (tab === "roofline") return roofline(await this.roof, found.candidate.id, this.id);
    return sources(await get(`/candidates/${id}/source`));
  }
}

function gainLine(gain) {
  const mark = gain.kind === "measured" ? "" : "~";
  if (gain.kind === "traffic") return `${format.ratio(gain)} fewer bytes than ${gain.baseline} (counted, not timed)`;
  const times = gain.kernel_us === null ? "" : `: ${mark}${format.microseconds(gain.mlx_us)} → ${mark}${format.microseconds(gain.kernel_us)}`;
  const range = format.interval(gain);
  return [el("b", { cls: format.beatsMlx(gain) ? "good" : "" }, format.ratio(gain)), range && ` ${range}`, ` over ${gain.baseline} on ${gain.chip} (${gain.kind === "predicted" ? `predicted, ${format.COSTS}` : gain.kind})${times}`];
}
