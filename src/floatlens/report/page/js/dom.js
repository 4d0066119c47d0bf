// Elements and text. Words from data only ever become text nodes or plain attributes; no function here parses markup.

const ALLOWED = /^(?:aria-[a-z]+|role|id|for|href|type|title|value|min|max|step|tabindex|scope|dir|lang|name|download|hidden|disabled|open|colspan|data-[a-z-]+)$/;

export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (ALLOWED.test(name)) made.setAttribute(name, value === true ? "" : String(value));
    else throw new Error(`el: ${name} is not an attribute that is set here`);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, props = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

// Words from data: set apart from what stands around them, so that right-to-left text stays in its place.
export function words(text, more = {}) {
  return el("bdi", more, text);
}

export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id} in this page`);
  return found;
}

export function options(select, entries, chosen) {
  select.replaceChildren(
    ...entries.map(([value, label]) => {
      const made = el("option", { value }, label);
      made.selected = String(value) === String(chosen);
      return made;
    }),
  );
}

export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const calm = matchMedia("(prefers-reduced-motion: reduce)");
