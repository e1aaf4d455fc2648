// All campaigns and searches, live and past.

import { get, isExport } from "./api.js";
import { el, empty, replace } from "./dom.js";
import * as format from "./format.js";
import { badge, heading, tile, tiles } from "./parts.js";

const LOOK_MS = 3000;

export async function showCampaigns(page) {
  const [found, store] = await Promise.all([get("/campaigns", { limit: 200 }), get("/store")]);
  const list = el("div", { cls: "cards" });
  const compare = el("p", { cls: "compare-bar", role: "status" });
  const chosen = new Set();
  const draw = (campaigns) => replace(list, campaigns.length ? campaigns.map((c) => card(c, chosen, () => offer(compare, chosen))) : empty("No campaign in this store yet; begin one with ", "kernelwright campaign init"));
  draw(found);
  page.append(
    heading("Campaigns", el("span", { cls: "quiet" }, store.url)),
    tiles(
      tile("campaigns", format.count(found.length)),
      tile("tasks", format.count(store.rows.task)),
      tile("candidates", format.count(store.rows.candidate)),
      tile("evaluations", format.count(store.rows.evaluation)),
      tile("champions", format.count(store.rows.champion)),
    ),
    compare,
    list,
  );
  if (isExport) return null;
  let told = JSON.stringify(found);
  const timer = setInterval(async () => {
    if (document.hidden || list.contains(document.activeElement)) return;
    const now = await get("/campaigns", { limit: 200 }).catch(() => null);
    if (now && JSON.stringify(now) !== told) {
      told = JSON.stringify(now);
      draw(now);
    }
  }, LOOK_MS);
  return { close: () => clearInterval(timer) };
}

function card(campaign, chosen, changed) {
  const isLive = campaign.state === "running" || campaign.state === "paused";
  const box = el("input", { type: "checkbox", "aria-label": `Compare ${campaign.name} ${format.short(campaign.id)}`, onchange: (event) => {
    if (event.target.checked) chosen.add(campaign.id);
    else chosen.delete(campaign.id);
    changed();
  } });
  box.checked = chosen.has(campaign.id);
  return el("article", { cls: `card ${isLive ? "live" : ""}` },
    el("div", { cls: "card-head" }, el("h2", {}, el("a", { href: `#/campaign/${campaign.id.slice(0, 16)}` }, campaign.name)), badge(campaign.state)),
    el("p", { cls: "quiet" }, `${format.short(campaign.id)} · ${campaign.kind} on ${campaign.device}`),
    el("p", { cls: "quiet" }, el("time", { datetime: campaign.started_at }, format.span(campaign))),
    el("dl", { cls: "facts" },
      fact("tried", format.count(campaign.tried)), fact("right", format.count(campaign.correct)),
      fact("time", format.seconds(campaign.seconds)), fact("spent", format.paid(campaign.known_dollars, campaign.dollars))),
    el("label", { cls: "pick" }, box, "compare"));
}

const fact = (label, value) => el("div", {}, el("dt", {}, label), el("dd", {}, value));

function offer(line, chosen) {
  const ids = [...chosen];
  if (ids.length === 2) replace(line, el("a", { cls: "button", href: `#/compare/${ids[0].slice(0, 16)}/${ids[1].slice(0, 16)}` }, "Compare the two"));
  else replace(line, ids.length ? `${ids.length} chosen; choose two to compare them.` : "");
}
