// The page's frame: its addresses, its search field, and what every view shares.

import { home, isExport } from "./api.js";
import { el, replace, say } from "./dom.js";
import { showCampaign } from "./campaign.js";
import { showCampaigns } from "./campaigns.js";
import { showCompare } from "./compare.js";
import { showFound } from "./found.js";
import { showTask, showCandidate } from "./task.js";
import { showTasks } from "./tasks.js";

const main = document.getElementById("main");
const find = document.getElementById("find");

const VIEWS = [
  [/^$/, showCampaigns],
  [/^campaign\/([0-9a-f]+)(?:\/(\w+))?$/, showCampaign],
  [/^tasks$/, showTasks],
  [/^task\/([0-9a-f]+)(?:\/([0-9a-f]+|conversations|graph))?(?:\/(\w+))?$/, showTask],
  [/^candidate\/([0-9a-f]+)$/, showCandidate],
  [/^compare\/([0-9a-f]+)\/([0-9a-f]+)$/, showCompare],
  [/^search\/(.*)$/, showFound],
];

let leave = null;
let shown = 0;
let view = null;
let place = "";

async function show() {
  const address = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  const [pattern, next] = VIEWS.find(([p]) => p.test(address)) ?? [];
  const found = pattern?.exec(address).slice(1) ?? [];
  // A view that is open may turn to another of its own places without being built anew.
  if (next && next === view && found[0] === place && leave?.turn) return leave.turn(...found);
  leave?.close?.();
  leave = null;
  [view, place] = [next, found[0]];
  const mine = (shown += 1);
  mark(address);
  if (!next) return fail(new Error("There is no such page."));
  main.setAttribute("aria-busy", "true");
  const page = el("div", { cls: "page" });
  try {
    const left = await next(page, ...found);
    if (mine !== shown) return left?.close?.();
    leave = left ?? null;
    replace(main, page);
    const title = page.querySelector("h1");
    document.title = title ? `${title.dataset.title ?? title.textContent} · Kernelwright` : "Kernelwright";
    scrollTo(0, 0);
    if (mine > 1) title?.focus({ preventScroll: true });
    leave?.shown?.();
  } catch (error) {
    if (mine === shown) fail(error);
  } finally {
    if (mine === shown) main.removeAttribute("aria-busy");
  }
  return undefined;
}

function fail(error) {
  main.removeAttribute("aria-busy");
  replace(main, el("div", { cls: "page" }, el("h1", { tabindex: "-1" }, "Nothing to show"), el("p", { cls: "problem", role: "alert" }, error.message), el("p", {}, el("a", { href: home }, "Go to the start"))));
}

function mark(address) {
  for (const link of document.querySelectorAll(".places a")) {
    const to = link.getAttribute("href").replace(/^#\/?/, "");
    const isHere = to === address || (to === "tasks" && /^(task|candidate)/.test(address)) || (to === "" && /^(campaign|compare)/.test(address));
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

find?.form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (find.value.trim()) location.hash = `#/search/${encodeURIComponent(find.value.trim())}`;
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input,textarea,select,[contenteditable]");
  if (event.key === "/" && find && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    find.focus();
  }
});

document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

addEventListener("hashchange", show);
addEventListener("unhandledrejection", (event) => say(event.reason?.message ?? "Something went wrong.", true));
// A file has no server to search, and no other campaigns.
if (isExport) document.querySelectorAll(".find, .places a[href='#/']").forEach((part) => part.remove());
if (isExport && !location.hash) history.replaceState(null, "", home);
show();
