// Builds elements; text enters as text only, so nothing that was stored becomes markup.

const SVG = "http://www.w3.org/2000/svg";

// What a link may begin with; everything else, such as javascript:, is left out.
const LINKS = /^(#|\/|https:\/\/)/;

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
    else element.setAttribute(name === "cls" ? "class" : name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

let clearing = 0;

export function say(sentence, isError = false) {
  const line = document.getElementById("said");
  line.textContent = sentence;
  line.classList.toggle("bad", isError);
  line.classList.add("shown");
  clearTimeout(clearing);
  clearing = setTimeout(() => line.classList.remove("shown"), 6000);
}

export function empty(sentence, command = "") {
  return el("p", { cls: "empty" }, sentence, command && el("code", {}, command));
}
