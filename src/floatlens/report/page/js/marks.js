// Models by shape as well as by colour: the markers of the printed figures (plots/style.py), hollow where the model is
// autoregressive.

import { svg } from "./dom.js";

// By the name that matplotlib gives it: plotly's name, and a path around 0, 0 that is two units wide.
const SHAPES = {
  o: ["circle", "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z"],
  s: ["square", "M-.88-.88H.88V.88H-.88Z"],
  D: ["diamond", "M0-1.2L1.2 0L0 1.2L-1.2 0Z"],
  "^": ["triangle-up", "M0-1.1L1.1.9H-1.1Z"],
  v: ["triangle-down", "M0 1.1L1.1-.9H-1.1Z"],
  "<": ["triangle-left", "M-1.1 0L.9-1.1V1.1Z"],
};

export function symbol(one) {
  if (one.role === "mass") return "x-thin";
  if (one.role === "count") return "cross-thin";
  return SHAPES[one.marker || "o"][0] + (one.hollow ? "-open" : "");
}

// Black is a model's colour on white paper, and would not be seen on a dark page.
export function stroke(one) {
  return one.colour === "#000000" ? "currentColor" : one.colour;
}

export function mark(one, x, y, size, width) {
  const [, path] = SHAPES[one.marker || "o"];
  const place = `translate(${x} ${y}) scale(${size})`;
  return svg("path", { d: path, transform: place, fill: one.hollow ? "none" : stroke(one), stroke: stroke(one), "stroke-width": width / size });
}

export function dot(model) {
  return svg("svg", { viewBox: "0 0 12 12", class: "dot", "aria-hidden": "true", "data-marker": model.marker }, mark(model, 6, 6, 4, 2));
}
