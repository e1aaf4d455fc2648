// A table of any length: only the rows in sight are asked for and drawn.

import { el, replace } from "./dom.js";
import { rows as ask } from "./api.js";
import { count } from "./format.js";

const PAGE = 100;
const SPARE = 8;
const KEPT_PAGES = 30;

// columns: { key, head, cell(row), order?, first: "descending" | "ascending", cls? }
export class Table {
  constructor({ label, path, query = {}, columns, order, open, empty, noun }) {
    Object.assign(this, { label, path, query, columns, open, noun });
    this.emptySentence = empty;
    this.order = order;
    this.descending = columns.find((c) => c.order === order)?.first !== "ascending";
    this.pages = new Map();
    this.total = null;
    this.active = 0;
    this.asking = new Set();
    this.generation = 0;
    this.build();
  }

  build() {
    this.head = el("tr", {}, this.columns.map((column) => this.headCell(column)));
    this.above = el("tr", { cls: "spacer", "aria-hidden": "true" }, el("td", { colspan: this.columns.length }));
    this.below = this.above.cloneNode(true);
    this.body = el("tbody", {});
    this.table = el("table", { cls: "rows", "aria-label": this.label }, el("thead", {}, this.head), this.body);
    this.scroller = el("div", {
      cls: "scroller", tabindex: "0", role: "region", "aria-label": `${this.label}, scrollable`,
      onscroll: () => this.later(), onkeydown: (event) => this.key(event),
    }, this.table);
    this.counted = el("p", { cls: "counted" });
    this.element = el("div", { cls: "table" }, this.scroller, this.counted);
    new ResizeObserver(() => this.later()).observe(this.scroller);
    this.refresh();
  }

  headCell(column) {
    const cell = el("th", { scope: "col", cls: column.cls });
    if (!column.order) return replace(cell, column.head);
    column.cell_ = cell;
    const button = el("button", { type: "button", onclick: () => this.sort(column) }, column.head, el("span", { cls: "arrow", "aria-hidden": "true" }));
    this.mark(column);
    return replace(cell, button);
  }

  mark(column) {
    const isOwn = column.order === this.order;
    const direction = isOwn ? (this.descending ? "descending" : "ascending") : "none";
    column.cell_.setAttribute("aria-sort", direction);
  }

  sort(column) {
    this.descending = this.order === column.order ? !this.descending : column.first !== "ascending";
    this.order = column.order;
    this.columns.filter((c) => c.order).forEach((c) => this.mark(c));
    this.renew();
  }

  search(text) {
    this.query = { ...this.query, q: text };
    this.renew();
  }

  // Asks for other rows or another order, from the top; the old rows are dimmed until the answer is there.
  renew() {
    this.table.setAttribute("aria-busy", "true");
    this.scroller.scrollTop = 0;
    this.active = 0;
    this.refresh();
  }

  // Asks anew for what is in sight; what is shown stays until the answer is there.
  refresh() {
    this.generation += 1;
    this.asking.clear();
    this.stale = new Set(this.pages.keys());
    return this.load();
  }

  get rowHeight() {
    return parseFloat(getComputedStyle(this.scroller).getPropertyValue("--row")) || 52;
  }

  sight() {
    const first = Math.max(Math.floor(this.scroller.scrollTop / this.rowHeight) - SPARE, 0);
    const room = Math.ceil((this.scroller.clientHeight || 600) / this.rowHeight) + 2 * SPARE;
    return [first, Math.min(first + room, this.total ?? room)];
  }

  later() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => { this.drawing = 0; this.load(); });
  }

  async load() {
    const [first, end] = this.sight();
    const wanted = [];
    for (let page = Math.floor(first / PAGE); page * PAGE < Math.max(end, 1); page += 1) wanted.push(page);
    this.draw();
    await Promise.all(wanted.filter((page) => (!this.pages.has(page) || this.stale.has(page)) && !this.asking.has(page)).map((page) => this.fetchPage(page)));
  }

  async fetchPage(page) {
    const generation = this.generation;
    this.asking.add(page);
    try {
      const query = { ...this.query, order: this.order, descending: this.descending, offset: page * PAGE, limit: PAGE };
      const found = await ask(this.path, query);
      if (generation !== this.generation) return;
      this.pages.set(page, found.items);
      this.stale.delete(page);
      this.total = found.total;
      while (this.pages.size > KEPT_PAGES) this.pages.delete(this.pages.keys().next().value);
      this.draw();
    } catch (error) {
      if (generation === this.generation) replace(this.counted, error.message);
    } finally {
      if (generation === this.generation) {
        this.asking.delete(page);
        this.table.removeAttribute("aria-busy");
      }
    }
  }

  row(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  draw() {
    if (this.total === null) return;
    const [first, end] = this.sight();
    const focused = this.body.contains(document.activeElement) ? Number(document.activeElement.closest("tr")?.dataset.index) : -1;
    const drawn = [];
    for (let index = first; index < end; index += 1) drawn.push(this.line(index, this.row(index)));
    this.above.firstChild.style.height = `${first * this.rowHeight}px`;
    this.below.firstChild.style.height = `${Math.max(this.total - end, 0) * this.rowHeight}px`;
    replace(this.body, first ? this.above : null, drawn, end < this.total ? this.below : null);
    this.table.setAttribute("aria-rowcount", this.total + 1);
    replace(this.counted, this.total ? this.noun(this.total) : this.emptySentence);
    this.element.classList.toggle("is-empty", !this.total);
    // Short tables end with their last row.
    this.scroller.style.setProperty("--whole", `${this.head.offsetHeight + this.total * this.rowHeight + 2}px`);
    if (focused >= 0) this.body.querySelector(`tr[data-index="${focused}"] a`)?.focus({ preventScroll: true });
  }

  line(index, row) {
    const cells = row ? this.columns.map((c) => el("td", { cls: c.cls, "data-head": c.head }, c.cell(row))) : [el("td", { colspan: this.columns.length, cls: "waiting" }, "…")];
    return el("tr", { "data-index": index, "aria-rowindex": index + 2, onclick: (event) => this.click(event, row) }, cells);
  }

  click(event, row) {
    if (row && this.open && !event.target.closest("a,button") && !String(getSelection())) location.hash = this.open(row);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const isEdge = event.key === "Home" || event.key === "End";
    if ((!step && !isEdge) || event.target.closest("thead")) return;
    event.preventDefault();
    const inside = event.target.closest("tr")?.dataset.index;
    const from = inside === undefined ? this.active - Math.sign(step ?? 0) : Number(inside);
    const to = event.key === "Home" ? 0 : event.key === "End" ? this.total - 1 : from + step;
    this.focus(Math.min(Math.max(to, 0), Math.max(this.total - 1, 0)));
  }

  async focus(index) {
    this.active = index;
    const top = index * this.rowHeight;
    const room = this.scroller.clientHeight - this.head.offsetHeight - this.rowHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
    await this.load();
    this.body.querySelector(`tr[data-index="${index}"] a`)?.focus({ preventScroll: true });
  }
}

export const rowsOf = (noun) => (total) => `${count(total)} ${noun}${total === 1 ? "" : "s"}`;
