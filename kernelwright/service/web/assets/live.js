// Follows a campaign's log by server-sent events; the browser reconnects where it was by itself.

import { isExport } from "./api.js";

export class Live {
  constructor(id, cursor, { line, state, link, problem }) {
    this.seen = new Set();
    this.cursor = cursor;
    this.id = id;
    this.hear = { line, state, link, problem };
    if (!isExport) this.open();
  }

  open() {
    const after = this.cursor ? `?after=${encodeURIComponent(this.cursor)}` : "";
    this.source = new EventSource(`/api/v1/campaigns/${this.id}/stream${after}`);
    this.source.onopen = () => this.hear.link(true);
    this.source.onerror = () => this.failed();
    this.source.addEventListener("line", (event) => this.take(JSON.parse(event.data)));
    this.source.addEventListener("problem", (event) => this.hear.problem(JSON.parse(event.data).error));
    this.source.addEventListener("state", (event) => this.hear.state(JSON.parse(event.data)));
  }

  take({ cursor, event }) {
    this.cursor = cursor;
    if (this.seen.has(event.id)) return;
    this.seen.add(event.id);
    this.hear.line(event);
  }

  // A server that refuses ends the source for good; one that is gone leaves it to try again.
  failed() {
    this.hear.link(false);
    if (this.source.readyState !== EventSource.CLOSED || this.isOver) return;
    clearTimeout(this.again);
    this.again = setTimeout(() => this.open(), 1000);
  }

  close() {
    this.isOver = true;
    clearTimeout(this.again);
    this.source?.close();
  }
}
