// One campaign: how it stands, its tasks, what happens, and what may be asked of it.

import { get, isExport, post } from "./api.js";
import { spendChart } from "./chart.js";
import { el, empty, replace, say } from "./dom.js";
import * as format from "./format.js";
import { Live } from "./live.js";
import { CANDIDATE_COLUMNS, TASK_COLUMNS, badge, copied, filterField, heading, tabs, tile, tiles } from "./parts.js";
import { plans } from "./plan.js";
import { Feed } from "./feed.js";
import { Table, rowsOf } from "./table.js";

const REFRESH_MS = 1000;

export async function showCampaign(page, id, tab) {
  const view = new CampaignView(page, id);
  await view.begin(tab);
  return view;
}

class CampaignView {
  constructor(page, id) {
    Object.assign(this, { page, id, head: el("div"), figures: el("div"), tabs: el("div"), work: el("div"), body: el("div", { cls: "tab-body" }) });
  }

  async begin(tab) {
    this.found = await get(`/campaigns/${this.id}`);
    this.feed = new Feed(await get(`/campaigns/${this.id}/events`, { latest: 200 }));
    this.link = el("span", { cls: "link", title: "The line to the server" });
    this.page.append(this.head, this.figures, this.tabs, this.body);
    this.draw();
    await this.turn(this.id, tab);
    // The page was read before the feed: what came between is told by the stream, once.
    this.live = new Live(this.id, this.feed.cursor, { line: (event) => this.heard(event), state: (state) => this.stands(state), link: (isUp) => this.linked(isUp), problem: (sentence) => this.troubled(sentence) });
  }

  linked(isUp) {
    this.link.className = `link ${isUp ? "up" : "down"}`;
    this.isUp = isUp;
    this.tellLink();
  }

  // The store is locked, moved or replaced; the next state says that it is read again.
  troubled(sentence) {
    this.problem = sentence;
    this.tellLink();
  }

  // Of a campaign that is over nothing new is awaited.
  tellLink() {
    const words = this.found.is_alive ? "live" : "";
    if (this.problem) return replace(this.link, this.problem);
    replace(this.link, this.isUp === false ? "reconnecting …" : this.isUp ? words : "");
  }

  heard(event) {
    this.feed.add(event);
    this.refreshSoon();
  }

  stands(state) {
    if (this.problem) {
      this.problem = null;
      this.tellLink();
    }
    const before = this.found.state;
    this.found = { ...this.found, state };
    this.drawFigures();
    if (state.state !== before.state) this.reread();
    else if (state.tried !== before.tried || state.evaluated !== before.evaluated) this.refreshSoon();
  }

  async reread() {
    this.found = await get(`/campaigns/${this.id}`);
    this.draw();
    this.table?.refresh();
    await this.renew?.();
  }

  // Many verdicts a second are one question a second.
  refreshSoon() {
    this.waiting ??= setTimeout(() => { this.waiting = null; this.reread().catch(() => {}); }, REFRESH_MS);
  }

  draw() {
    const { state, environment, advice, reason } = this.found;
    const device = `${environment.device.name} · ${environment.device.chip}`;
    const focused = document.activeElement?.dataset?.command;
    replace(this.head,
      heading(state.name, badge(state.state), this.link),
      el("p", { cls: "quiet" }, `${format.short(state.id)} · ${state.kind} on ${device} · MLX ${environment.mlx} · ${environment.system}`),
      el("p", { cls: "quiet" }, el("time", { datetime: state.started_at }, format.span(state))),
      reason && el("p", {}, reason),
      el("div", { cls: "actions" }, this.buttons(), advice && copied(advice), state.state === "finished" && copied(`kernelwright report ${format.short(state.id)} --html report.html`)));
    this.tellLink();
    if (focused) this.head.querySelector(`[data-command="${focused}"]`)?.focus();
    this.drawFigures();
    replace(this.work, this.under());
  }

  buttons() {
    if (isExport) return null;
    return this.found.commands.map((command) => el("button", { type: "button", cls: command === "stop" ? "danger" : "", "data-command": command, onclick: () => this.ask(command) }, command[0].toUpperCase() + command.slice(1)));
  }

  async ask(command) {
    if (command === "stop" && !confirm("Stop this campaign? It ends in order and can be resumed from the terminal.")) return;
    try {
      say((await post(`/campaigns/${this.id}/${command}`)).sentence);
      await this.reread();
    } catch (error) {
      say(error.message, true);
    }
  }

  drawFigures() {
    const { state, limits, under_way: now, waiting } = this.found;
    const of = (limit, words) => (limit ? `of ${words(limit)}` : "");
    replace(this.figures, tiles(
      tile("tried", format.count(state.tried)),
      limits.evaluations ? tile("judged", format.count(state.evaluated), of(limits.evaluations, format.count)) : null,
      tile("right", format.count(state.correct), state.tried ? `${Math.round((100 * state.correct) / state.tried)} %` : ""),
      tile("time", format.seconds(state.seconds), of(limits.seconds, format.seconds)),
      tile("spent", format.paid(state.known_dollars, state.dollars), of(limits.dollars, format.dollars)),
      this.found.is_alive ? tile("now", format.count(now.length), `${waiting} waiting`) : null,
    ));
  }

  async turn(_, tab = "tasks") {
    const base = `#/campaign/${this.id}`;
    replace(this.tabs, tabs("Parts of the campaign", [
      ["tasks", "Tasks", base], ["candidates", "Candidates", `${base}/candidates`], ["activity", "Activity", `${base}/activity`],
      ["spend", "Spend", `${base}/spend`], ["plan", "Plan", `${base}/plan`],
    ], tab));
    const build = { tasks: () => this.tasks(), candidates: () => this.candidates(), activity: () => [this.work, this.feed.element], spend: () => this.whole("spend", spendChart), plan: () => this.whole("plans", (found) => plans(this.id, found)) }[tab];
    this.table = null;
    this.renew = null;
    this.tab = tab;
    const parts = await (build ?? (() => empty("There is no such part.")))();
    if (this.tab === tab) replace(this.body, parts);
    this.table?.later();
  }

  shown() {
    this.table?.later();
  }

  tasks() {
    this.table = new Table({
      label: "Tasks", path: `/campaigns/${this.id}/tasks`, columns: TASK_COLUMNS.map((c) => ({ ...c })), order: "gain",
      open: (row) => `#/task/${row.task.id.slice(0, 16)}`, noun: rowsOf("task"), empty: "No task yet.",
    });
    return [el("div", { cls: "tools" }, filterField("Filter tasks", (text) => this.table?.search(text))), this.table.element];
  }

  candidates() {
    this.table = new Table({
      label: "Candidates", path: "/candidates", query: { campaign: this.id }, columns: CANDIDATE_COLUMNS.map((c) => ({ ...c })), order: "at",
      open: (row) => `#/task/${row.task.id.slice(0, 16)}/${row.candidate_id.slice(0, 16)}`, noun: rowsOf("candidate"), empty: "Nothing has been tried yet.",
    });
    return [el("div", { cls: "tools" }, filterField("Filter by idea, author or id", (text) => this.table?.search(text))), this.table.element];
  }

  under() {
    const now = this.found.under_way;
    if (!now.length) return null;
    return el("section", {}, el("h2", {}, "Under way"), el("ul", { cls: "plain" }, now.map((work) => el("li", {}, badge(work.state, "warn"), " ", el("a", { href: `#/candidate/${work.candidate_id.slice(0, 16)}` }, format.short(work.candidate_id)), ` ${work.task} `, el("span", { cls: "quiet" }, work.idea)))));
  }

  // A part that is read whole is drawn again when it says something else.
  async whole(name, draw) {
    const part = el("div", { cls: "whole" });
    let known = "";
    const renew = async () => {
      const found = await get(`/campaigns/${this.id}/${name}`);
      const text = JSON.stringify(found);
      if (text !== known) replace(part, draw(found));
      known = text;
    };
    this.renew = renew;
    await renew();
    return part;
  }

  close() {
    clearTimeout(this.waiting);
    this.live?.close();
  }
}
