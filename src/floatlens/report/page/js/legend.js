// What a figure's signs mean, and what its panels say to those who do not see them.

import { el, svg, words } from "./dom.js";
import { number } from "./format.js";
import { mark, stroke } from "./marks.js";

const DASHES = { solid: "none", dashed: "6 3", dashdot: "6 2 1.5 2", dotted: "1.5 2.5" };

// A panel in a sentence; the numbers are in the table below.
export function spoken(panel) {
  const [x, y] = [panel.x, panel.y].map(({ label }) => label.replace(/\n/g, " "));
  if (panel.heat) return `${panel.title}: ${panel.heat.label} by ${y} and ${x}, colours from ${number(panel.heat.low)} to ${number(panel.heat.top)}`;
  const each = [...panel.series, ...(panel.bars?.stacks ?? [])].map((one) => {
    const known = one.mean.filter((value) => value !== null);
    if (!known.length) return `${one.name}: not measured`;
    return `${one.name}${one.role === "null" ? " under uniform attention" : ""}: ${number(Math.min(...known))} to ${number(Math.max(...known))}`;
  });
  return `${panel.title || y}: ${y} by ${x}. ${each.join("; ")}`;
}

// As it is drawn: a line where there is a line, a marker where there are markers.
function swatch(one) {
  if (one.shown === "patch") return svg("svg", { viewBox: "0 0 12 12", class: "swatch", "aria-hidden": "true" }, svg("rect", { x: 1, y: 1, width: 10, height: 10, rx: 2, fill: one.colour }));
  const ink = stroke(one);
  const parts = [];
  if (one.shown === "count") parts.push(svg("path", { d: "M8 6 L18 6 M13 1 L13 11", stroke: ink, "stroke-width": 1.8 }));
  if (one.shown === "mass") parts.push(svg("path", { d: "M9 2 L17 10 M17 2 L9 10", stroke: ink, "stroke-width": 1.8 }));
  const dash = one.shown === "null" ? DASHES.dotted : DASHES[one.stroke];
  if (["line", "null", "shuffled"].includes(one.shown)) parts.push(svg("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: ink, "stroke-width": one.shown === "line" ? 2 : 1.2, "stroke-dasharray": dash }));
  if ((one.shown === "line" || one.shown === "points") && one.marker) parts.push(mark(one, 13, 6, 3.2, 1.5));
  return svg("svg", { viewBox: "0 0 26 12", class: "swatch wide", "aria-hidden": "true" }, ...parts);
}

export function legend(figure) {
  const made = el("ul", { class: "legend" });
  for (const one of figure.legend) made.append(el("li", {}, swatch(one), words(one.name)));
  const heats = new Map(figure.panels.filter((panel) => panel.heat).map(({ heat }) => [`${heat.label} ${heat.low} ${heat.top}`, heat]));
  for (const heat of heats.values()) made.append(el("li", {}, number(heat.low), el("span", { class: "ramp", "aria-hidden": "true" }), `${number(heat.top)} ${heat.label}`));
  return made;
}
