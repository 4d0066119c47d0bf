// What a figure's signs mean, and what its panels say to those who do not see them.

import { el, svg, words } from "./dom.js";
import { number } from "./format.js";
import { mark, stroke } from "./marks.js";

// A panel in a sentence; the numbers are in the table below.
export function spoken(panel) {
  if (panel.kind === "heat") return `${panel.title}: ${panel.z} by ${panel.y} and ${panel.x}, colours from 0 to ${number(panel.top)}`;
  const each = panel.series.map((one) => {
    const known = one.mean.filter((value) => value !== null);
    if (!known.length) return `${one.name}: nothing measured`;
    return `${one.name}${one.null ? " under uniform attention" : ""}: ${number(Math.min(...known))} to ${number(Math.max(...known))}`;
  });
  return `${panel.title || panel.y}: ${panel.y} by ${panel.x}. ${each.join("; ")}`;
}

function wide(...parts) {
  return svg("svg", { viewBox: "0 0 26 12", class: "swatch wide", "aria-hidden": "true" }, ...parts);
}

// As it is drawn: a line where there is a line, a marker where there are markers.
function swatch(one, kind) {
  if (kind === "bars") return svg("svg", { viewBox: "0 0 12 12", class: "swatch", "aria-hidden": "true" }, svg("rect", { x: 1, y: 1, width: 10, height: 10, rx: 2, fill: one.colour }));
  const ink = stroke(one);
  if (one.control) return wide(svg("path", { d: "M9 2 L17 10 M17 2 L9 10", stroke: ink, "stroke-width": 1.8 }));
  const dash = one.null ? "1.5 2.5" : one.arm ? "6 3" : "none";
  const line = svg("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: ink, "stroke-width": one.null ? 1.2 : 2, "stroke-dasharray": dash });
  if (one.null) return wide(line);
  return wide(...(one.loose ? [] : [line]), mark(one, 13, 6, 3.2, 1.5));
}

export function legend(figure) {
  const entries = new Map();
  for (const panel of figure.panels) {
    if (panel.kind === "heat") entries.set("heat", [panel, null]);
    for (const one of panel.series ?? []) {
      const label = one.null ? "dotted: the same under uniform attention" : one.control ? "cross: random control" : one.name;
      if (!entries.has(label)) entries.set(label, [panel, one]);
    }
  }
  const made = el("ul", { class: "legend" });
  const last = ([, [, one]]) => (one?.null || one?.control ? 1 : 0);
  for (const [label, [panel, one]] of [...entries].sort((x, y) => last(x) - last(y))) {
    if (one) made.append(el("li", {}, swatch(one, panel.kind), words(label)));
    else made.append(el("li", {}, "0", el("span", { class: "ramp", "aria-hidden": "true" }), `${number(panel.top)} ${panel.z}`));
  }
  return made;
}
