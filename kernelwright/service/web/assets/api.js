// Asks the read API; in an exported file the answers are in the file itself.

import { sorted } from "./stored.js";

const held = document.getElementById("held");
const stored = held ? JSON.parse(held.textContent) : null;

export const isExport = stored !== null;
export const home = stored?.home ?? "#/";

export class Refused extends Error {}

export async function get(path, query = {}) {
  if (stored) return fromFile(path, query);
  return asked(`/api/v1${path}${written(query)}`, {});
}

// A page of a table: { items, total }.
export async function rows(path, query) {
  if (!stored) return get(path, query);
  const all = fromFile(path, query.task ? { task: query.task } : {}).items;
  const found = sorted(all, query);
  return { items: found.slice(query.offset, query.offset + query.limit), total: found.length };
}

export async function post(path, query = {}) {
  const address = `/api/v1${path}${written(query)}`;
  return asked(address, { method: "POST", headers: { "X-Kernelwright": "1" } });
}

function written(query) {
  const known = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return known.length ? `?${new URLSearchParams(known)}` : "";
}

async function asked(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Refused("The server does not answer; is `kernelwright serve` still running?");
  }
  const type = response.headers.get("content-type") ?? "";
  if (!response.ok) {
    const said = type.startsWith("application/json") ? await response.json() : {};
    throw new Refused(said.error ?? `The server answered ${response.status}.`);
  }
  return type.startsWith("application/json") ? response.json() : response;
}

function fromFile(path, query) {
  // Ids are known by their first digits there.
  const key = `${path.replace(/[0-9a-f]{17,}/g, (id) => id.slice(0, 16))}${written(query)}`;
  if (key in stored.answers) return stored.answers[key];
  throw new Refused("This file does not hold that; the live page does.");
}

export function fileText(path) {
  return stored?.answers[path];
}
