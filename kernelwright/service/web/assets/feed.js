// What happened in a campaign, newest first, as sentences.

import { el, replace } from "./dom.js";
import * as format from "./format.js";
import { badge } from "./parts.js";

const MOST_SHOWN = 400;

export class Feed {
  constructor({ items, cursor, total }) {
    this.cursor = cursor;
    this.total = total;
    this.list = el("ol", { cls: "feed" });
    this.count = el("span", {});
    this.element = el("section", { "aria-label": "Activity" }, el("h2", {}, "Activity ", this.count), this.list);
    items.forEach((event) => this.list.prepend(line(event)));
    this.tell();
  }

  add(event) {
    this.total += 1;
    this.list.prepend(line(event));
    while (this.list.childElementCount > MOST_SHOWN) this.list.lastChild.remove();
    this.tell();
  }

  tell() {
    replace(this.count, el("span", { cls: "quiet", "data-events": this.total }, format.many(this.total, "event")));
  }
}

function line(event) {
  let told = {};
  try {
    told = JSON.parse(event.body);
  } catch {
    // Words that are no JSON are shown as they are.
  }
  return el("li", { "data-event": event.id }, el("time", { datetime: event.at }, format.moment(event.at)), el("div", {}, words(event.kind, told) ?? [event.kind, " ", el("span", { cls: "quiet" }, String(event.body).slice(0, 300))]));
}

const candidate = (id) => el("a", { href: `#/candidate/${String(id).slice(0, 16)}` }, format.short(String(id)));

const recalled = (told, noun, count = Object.keys(told).length) => (count ? `Began with ${format.many(count, noun)} of earlier campaigns` : `Began without ${noun}s of earlier campaigns`);

function words(kind, told) {
  switch (kind) {
    case "CampaignBegan": return `Began on ${told.device?.name} with ${told.functions?.join(", ")}`;
    case "FunctionPlanned": return [el("b", {}, told.function), ` cut into ${format.many(told.tasks?.length ?? 0, "task")} by ${told.author}`];
    case "FunctionRefused": return [badge("refused", "warn"), ` ${told.function}: ${told.reason}`];
    case "PlanDrawn": return [el("b", {}, told.function), " drawn with its regions"];
    case "CandidateProposed": return [badge(told.repairs ? "repair" : "proposed", "done"), " ", candidate(told.candidate_id), ` by ${told.author}`, el("span", { cls: "under" }, told.idea)];
    case "CandidateJudged": return [badge(told.status), " ", candidate(told.candidate_id), told.rank ? ` ${format.rank(told.rank)}` : "", told.leads ? [" ", badge("leads", "good")] : "", el("span", { cls: "under" }, told.summary)];
    case "CandidateConfirmed": return [badge(told.status), " ", candidate(told.candidate_id), " after confirmation", el("span", { cls: "under" }, told.summary)];
    case "TaskEnded": return [el("a", { href: `#/task/${String(told.task_id).slice(0, 16)}` }, "Task"), ` ended: ${told.reason}`];
    case "ConversationEnded": return [`The ${told.purpose?.role ?? "model"}'s conversation ended after ${format.many(told.turns ?? 0, "turn")}`, el("span", { cls: "under" }, `${told.model}: ${told.reason}`)];
    case "ReplyAwaited": return ["A reply comes with its batch", el("span", { cls: "under" }, told.place)];
    case "StepCredited": return told.credited?.tries === 0 ? `After the step “${told.credited?.step}” its author was told the last verdict` : `The step “${told.credited?.step}” gained ${told.credited?.gain ? `${(100 * told.credited.gain).toFixed(1)} %` : "nothing"}`;
    case "StepsRemembered": return recalled(told, "step");
    case "LessonsTold": return recalled(told, "lesson");
    case "SchedulesRecalled": return recalled(told, "schedule");
    case "IncumbentsRecalled": return recalled(told, "champion");
    case "Breach": return [badge("breach", "bad"), ` ${told.task}: ${told.idea}`, el("span", { cls: "under" }, told.summary)];
    case "ModelRemarked": return [badge("model", "warn"), ` ${told.sentence}`];
    case "CampaignHeldUp": return [badge("waits", "warn"), ` ${told.reason}`];
    case "CampaignEnded": return `Ended: ${told.reason}`;
    case "PauseAsked": return "Asked to hold still";
    case "GoOnAsked": return "Asked to go on";
    case "StopAsked": return "Asked to stop";
    default: return null;
  }
}
