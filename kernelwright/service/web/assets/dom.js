// Builds elements; text enters as text only, so nothing that was stored becomes markup or turns what is read around.

const SVG = "http://www.w3.org/2000/svg";

// What a link may begin with; everything else, such as javascript:, is left out.
const LINKS = /^(#|\/|https:\/\/)/;

// Control characters but tab and line feed, and marks that turn the direction of writing: a comment with them reads as code.
const STEERING = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

function spelled(character) {
  const code = character.charCodeAt(0).toString(16);
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
