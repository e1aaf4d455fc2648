// Figures for people, in the words that the command line uses.

export const MLX_IS_BEST = "MLX is best";
export const COSTS = "by costs fitted on an H200, which are carried over to other chips";
const LEAST_GAIN = 1.005;

export const short = (id) => id.slice(0, 8);

function threeDigits(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

export function microseconds(value) {
  return value >= 999.5 ? `${threeDigits(value / 1000)} ms` : `${threeDigits(value)} µs`;
}

export function bytes(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 999.5 || unit === "GB") return unit === "B" ? `${count.toFixed(0)} B` : `${threeDigits(count)} ${unit}`;
    count /= 1000;
  }
  return "";
}

export function rank(found) {
  if (!found) return "–";
  if (found.kind === "traffic") return bytes(found.value);
  return `${found.kind === "measured" ? "" : "~"}${microseconds(found.value)}`;
}

export function beatsMlx(gain) {
  return Boolean(gain) && gain.ratio > LEAST_GAIN;
}

export function gain(found) {
  if (!found) return "–";
  if (!beatsMlx(found)) return MLX_IS_BEST;
  return ratio(found);
}

export function ratio(found) {
  return `${found.kind === "measured" ? "" : "~"}${found.ratio.toFixed(2)}×`;
}

export function interval(found) {
  if (!found || found.kind !== "measured" || found.lower === null || found.upper === null) return "";
  return `[${found.lower.toFixed(2)}, ${found.upper.toFixed(2)}]`;
}

export function seconds(count) {
  if (count < 60) return `${count.toFixed(count < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(count / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(count % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function dollars(amount) {
  return amount === 0 ? "$0" : `$${amount < 0.995 ? amount.toFixed(4) : amount.toFixed(2)}`;
}

// What is known, and how much more it is at most where a reply never came whole.
export function paid(known, most) {
  const told = dollars(known);
  return told === dollars(most) ? told : `${told}, at most ${dollars(most - known)} more`;
}

export function tokens(known, most) {
  return known === most ? count(known) : `${count(known)}, at most ${count(most - known)} more`;
}

export const count = (number) => number.toLocaleString("en");

export function many(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function moment(text) {
  const at = new Date(text);
  const sameDay = at.toDateString() === new Date().toDateString();
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return sameDay ? time : date(at);
}

// A day and a minute on the reader's clock; an earlier year is told.
export function date(text) {
  const at = new Date(text);
  const year = at.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...year })} ${at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
}

// When a campaign began and ended.
export function span(state) {
  const ended = state.ended_at ? date(state.ended_at) : "";
  const began = date(state.started_at);
  if (!ended) return `since ${began}`;
  return new Date(state.started_at).toDateString() === new Date(state.ended_at).toDateString() ? `${began} – ${ended.slice(-5)}` : `${began} – ${ended}`;
}

export const STATUS_KIND = {
  correct: "good", promoted: "good", running: "good", finished: "done", paused: "warn", capped: "warn",
  interrupted: "warn", dead: "bad", failed: "bad", unproven: "warn",
};

export function statusKind(status) {
  return STATUS_KIND[status] ?? (status ? "bad" : "done");
}
