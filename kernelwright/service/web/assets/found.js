// What a search in the store finds.

import { get } from "./api.js";
import { el, empty } from "./dom.js";
import * as format from "./format.js";
import { badge, heading, taskName } from "./parts.js";

export async function showFound(page, text) {
  const field = document.getElementById("find");
  if (field && field !== document.activeElement) field.value = text;
  const found = await get("/search", { q: text });
  const none = !found.tasks.length && !found.candidates.length && !found.campaigns.length;
  page.append(heading(`Search: ${text}`), ...[
    none && empty("Nothing in the store fits."),
    part("Campaigns", found.campaigns.map((c) => [el("a", { href: `#/campaign/${c.id.slice(0, 16)}` }, c.name), " ", badge(c.state)])),
    part("Tasks", found.tasks.map((t) => [el("a", { href: `#/task/${t.task.id.slice(0, 16)}` }, taskName(t.task)), t.champion_id ? badge("champion", "good") : null])),
    part("Candidates", found.candidates.map((c) => [el("a", { href: `#/task/${c.task.id.slice(0, 16)}/${c.candidate_id.slice(0, 16)}` }, c.idea || format.short(c.candidate_id), el("span", { cls: "under" }, `${format.short(c.candidate_id)} · ${c.task.name} · ${c.author}`)), badge(c.status ?? c.state)])),
  ].filter(Boolean));
}

function part(title, items) {
  return items.length ? el("section", {}, el("h2", {}, title), el("ul", { cls: "hits" }, items.map((item) => el("li", {}, item)))) : null;
}
