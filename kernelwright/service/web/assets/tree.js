// A task's candidates as the tree in which they descend from each other, for mouse and arrow keys.

import { get } from "./api.js";
import { el, replace } from "./dom.js";
import * as format from "./format.js";

const MOST = 200;

export class Tree {
  constructor(taskId, first, choose) {
    this.taskId = taskId;
    this.choose = choose;
    this.items = new Map();
    this.root = el("ul", { role: "tree", cls: "tree", "aria-label": "Lineage", onkeydown: (event) => this.key(event) });
    this.fill(this.root, first, null, 1);
    this.root.querySelector("[role=treeitem]")?.setAttribute("tabindex", "0");
    this.element = this.root;
  }

  fill(group, nodes, parent, level) {
    const more = nodes.length === MOST ? el("li", { role: "none" }, el("button", { type: "button", cls: "more", onclick: (event) => this.more(event, group, parent, level) }, "more …")) : null;
    group.append(...nodes.map((node) => this.item(node, level)), ...(more ? [more] : []));
  }

  async more(event, group, parent, level) {
    const button = event.currentTarget.parentElement;
    const offset = group.querySelectorAll(":scope > [role=treeitem]").length;
    const nodes = await get(`/tasks/${this.taskId}/tree`, { parent, offset, limit: MOST });
    button.remove();
    this.fill(group, nodes, parent, level);
  }

  item(node, level) {
    const kind = format.statusKind(node.status);
    const label = el("div", { cls: "node", onclick: (event) => this.click(event, node) },
      el("span", { cls: `twist ${node.children ? "" : "leaf"}`, "aria-hidden": "true" }),
      el("span", { cls: `spot ${kind}`, "aria-hidden": "true" }),
      el("span", { cls: "idea" }, el("span", { cls: "text" }, node.idea || "(no words)"), el("span", { cls: "under" }, `${format.short(node.id)} · ${node.author}`)),
      node.is_champion ? el("span", { cls: "badge good" }, "champion") : null,
      el("span", { cls: "figure" }, node.rank ? format.rank(node.rank) : (node.status ?? "not judged")));
    const item = el("li", { role: "treeitem", tabindex: "-1", "aria-level": level, "aria-selected": "false", "aria-label": `${node.idea || "no words"}, ${node.status ?? "not judged"}, ${format.rank(node.rank)}${node.is_champion ? ", champion" : ""}`, "aria-expanded": node.children ? "false" : null, "data-id": node.id }, label);
    item.node = node;
    this.items.set(node.id, item);
    return item;
  }

  click(event, node) {
    const item = this.items.get(node.id);
    if (event.target.closest(".twist") && node.children) this.turn(item);
    else this.pick(item);
  }

  async turn(item, open = item.getAttribute("aria-expanded") !== "true") {
    if (!item.node.children) return;
    item.setAttribute("aria-expanded", String(open));
    let group = item.querySelector(":scope > ul");
    if (open && !group) {
      group = el("ul", { role: "group" });
      item.append(group);
      item.filled = this.fillFrom(item, group);
    }
    if (group) group.hidden = !open;
    await item.filled;
  }

  async fillFrom(item, group) {
    const nodes = await get(`/tasks/${this.taskId}/tree`, { parent: item.node.id, offset: 0, limit: MOST });
    this.fill(group, nodes, item.node.id, Number(item.getAttribute("aria-level")) + 1);
  }

  // The first child of an open candidate, once it is there; null if the focus went on meanwhile.
  async firstChild(item) {
    await item.filled;
    return document.activeElement === item ? item.querySelector("[role=treeitem]") : null;
  }

  pick(item, isQuiet = false) {
    for (const other of this.items.values()) {
      other.setAttribute("tabindex", other === item ? "0" : "-1");
      other.setAttribute("aria-selected", String(other === item));
    }
    if (!isQuiet) {
      item.focus({ preventScroll: true });
      item.firstElementChild.scrollIntoView({ block: "nearest" });
      this.choose(item.node);
    }
  }

  // Opens the way to a candidate, from its first ancestor on.
  async reveal(path) {
    for (const id of path.slice(0, -1)) {
      const item = this.items.get(id);
      if (!item) return;
      await this.turn(item, true);
    }
    const last = this.items.get(path.at(-1));
    if (last) this.pick(last, true);
  }

  visible() {
    return [...this.root.querySelectorAll("[role=treeitem]")].filter((item) => !item.parentElement.closest("ul[hidden]"));
  }

  async key(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
    const shown = this.visible();
    const place = shown.indexOf(item);
    const isOpen = item.getAttribute("aria-expanded") === "true";
    const to = {
      ArrowDown: () => shown[place + 1], ArrowUp: () => shown[place - 1], Home: () => shown[0], End: () => shown.at(-1),
      ArrowLeft: () => (isOpen ? void this.turn(item, false) : item.parentElement.closest("[role=treeitem]")),
      ArrowRight: () => (isOpen ? this.firstChild(item) : void this.turn(item, true)),
      Enter: () => item, " ": () => item,
    }[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    const next = await to();
    if (next) this.pick(next);
  }
}
