// Builds elements; text enters as text only, so nothing that was stored becomes markup or turns what is read around.

const SVG = "http://www.w3.org/2000/svg";

// What a link may begin with; everything else, such as javascript:, is left out.
const LINKS = /^(#|\/|https:\/\/)/;

// Control characters but tab and line feed, and characters that leave no mark, as printable.py lists them: a comment with them reads as code.
const STEERING = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

function spelled(character) {
  const code = character.codePointAt(0).toString(16);
  if (code.length > 4) return `\\U${code.padStart(8, "0")}`;
  return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
}

// Spells what would steer the text around it, as the terminal does.
const printable = (text) => String(text).replace(STEERING, spelled);

const shown = (children) => children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false).map((c) => (c instanceof Node ? c : printable(c)));

export function el(name, given = {}, ...children) {
  return filled(document.createElement(name), given, children);
}

export function svg(name, given = {}, ...children) {
  return filled(document.createElementNS(SVG, name), given, children);
}

function filled(element, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "href" && !LINKS.test(value)) continue;
    else element.setAttribute(name === "cls" ? "class" : name, value === true ? "" : printable(value));
  }
  element.append(...shown(children));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...shown(children));
  return element;
}

let clearing = 0;

export function say(sentence, isError = false) {
  const line = document.getElementById("said");
  line.textContent = printable(sentence);
  line.classList.toggle("bad", isError);
  line.classList.add("shown");
  clearTimeout(clearing);
  clearing = setTimeout(() => line.classList.remove("shown"), 6000);
}

export function empty(sentence, command = "") {
  return el("p", { cls: "empty" }, sentence, command && el("code", {}, command));
}
