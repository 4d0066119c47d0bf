// Panels of report/panels.py drawn by plotly, which is inflated and run when the first of them comes near the window.

import { text } from "./codec.js";
import { el, svg, words } from "./dom.js";
import { number } from "./format.js";
import { colour, onPaper, onTheme, scale } from "./theme.js";

const CONFIG = {
  displaylogo: false,
  responsive: true,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  toImageButtonOptions: { format: "svg" },
};
const PAPER = 310; // pixels: two panels beside each other on a sheet
let loading = null;

// The policy of the page allows this script by its hash, and no other.
function plotly() {
  loading ??= text("plotly").then((source) => {
    const script = document.createElement("script");
    script.textContent = source;
    document.head.append(script);
    script.remove();
    if (!window.Plotly) throw new Error("plotly did not start");
    return window.Plotly;
  });
  return loading;
}

// plotly reads some markup in its labels; words from data must stay words.
function plain(value) {
  return String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
}

function lines(panel) {
  const drawn = [];
  const [gap, middle] = [0.07 * apart(panel), (panel.series.length - 1) / 2];
  const label = new Map((panel.ticks ?? []).map(([x, name]) => [x, plain(name)]));
  for (const [i, one] of panel.series.entries()) {
    const x = panel.kind === "points" ? one.x.map((at) => at + gap * (i - middle)) : one.x; // error bars beside each other
    const banded = panel.kind === "lines" && !one.null && one.low.some((value) => value !== null);
    if (banded) {
      const edge = { x: one.x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
      drawn.push({ ...edge, y: one.low }, { ...edge, y: one.high, fill: "tonexty", fillcolor: `${own(one)}2e` });
    }
    const bars = panel.kind === "points" && {
      error_y: {
        array: one.high.map((high, i) => (high === null ? 0 : high - one.mean[i])),
        arrayminus: one.low.map((low, i) => (low === null ? 0 : one.mean[i] - low)),
        thickness: 1.2,
        width: 4,
      },
    };
    drawn.push({
      x,
      y: one.mean,
      name: plain(one.name) + (one.null ? ", uniform" : one.control ? ", random control" : ""),
      mode: one.null ? "lines" : one.loose ? "markers" : "lines+markers",
      opacity: one.control ? 0.6 : 1,
      line: { color: own(one), width: one.null ? 1.2 : 2, dash: one.null ? "dot" : one.arm ? "dash" : "solid" },
      marker: { color: own(one), size: one.loose ? 8 : 6, symbol: one.control ? "x-thin" : one.arm ? "circle-open" : "circle", line: { color: own(one), width: one.control || one.arm ? 1.8 : 0 } },
      customdata: one.mean.map((_, k) => [number(one.low[k]), number(one.high[k]), one.n[k], label.get(one.x[k]) ?? plain(one.x[k])]),
      cliponaxis: false,
      hovertemplate: `${plain(panel.x)} %{customdata[3]}: <b>%{y:.3~g}</b> [%{customdata[0]}, %{customdata[1]}] n=%{customdata[2]}`,
      ...bars,
    });
  }
  return drawn;
}

// The least distance between two places of a panel.
function apart(panel) {
  const places = [...new Set(panel.series.flatMap((one) => one.x))].sort((a, b) => a - b);
  return Math.min(...places.slice(1).map((x, i) => x - places[i]), places.length > 1 ? Infinity : 1);
}

function bars(panel) {
  return panel.series.map((one) => ({
    type: "bar",
    x: panel.at,
    y: one.mean,
    name: plain(one.name),
    marker: { color: one.colour, line: { width: 0 } },
    hovertemplate: `${plain(panel.x)} %{x}: <b>%{y:.1%}</b>`,
  }));
}

function heat(panel) {
  return [
    {
      type: "heatmap",
      z: panel.values,
      x: panel.columns.map(plain),
      y: panel.rows.map(plain),
      zmin: 0,
      zmax: panel.top,
      colorscale: scale(),
      showscale: false,
      xgap: 1,
      ygap: 1,
      hovertemplate: `${plain(panel.y)} %{y}, ${plain(panel.x)} %{x}: <b>%{z:.3~g}</b><extra></extra>`,
    },
  ];
}

// Black is a model's colour on white paper, and would not be seen on a dark page.
function own(one) {
  return one.colour === "#000000" ? colour("ink") : one.colour;
}

function layout(panel) {
  const [ink, soft, line] = [colour("ink"), colour("soft"), colour("line")];
  const axis = { gridcolor: line, linecolor: line, zeroline: false, ticks: "", automargin: true, tickfont: { color: soft } };
  const made = {
    ...(onPaper() ? { autosize: false, width: PAPER } : { autosize: true, width: undefined }),
    height: panel.kind === "heat" ? 300 : 260,
    margin: { l: 44, r: 10, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Inter, sans-serif", size: 12, color: ink },
    hoverlabel: { bgcolor: colour("card"), bordercolor: line, font: { color: ink }, namelength: 40 },
    showlegend: false,
    dragmode: "zoom",
    xaxis: { ...axis, title: { text: plain(panel.x), standoff: 6, font: { color: soft, size: 12 } } },
    yaxis: { ...axis, title: { text: plain(panel.y), standoff: 6, font: { color: soft, size: 12 } } },
    shapes: [],
  };
  if (panel.kind === "lines" || panel.kind === "points") Object.assign(made.xaxis, ticks(panel), { showgrid: false });
  if (panel.kind === "bars") {
    made.barmode = "stack";
    made.bargap = 0.12;
    Object.assign(made.xaxis, { type: "category", showgrid: false });
    Object.assign(made.yaxis, { tickformat: ".0%", range: [0, 1] });
  }
  if (panel.kind === "heat") heatAxes(panel, made);
  if (panel.range) made.yaxis.range = panel.range;
  else if (panel.zero) made.yaxis.rangemode = "tozero";
  if (panel.reference !== undefined && panel.reference !== null) {
    const at = { x0: 0, x1: 1, xref: "paper", y0: panel.reference, y1: panel.reference };
    made.shapes.push({ type: "line", ...at, line: { color: soft, width: 1, dash: "dot" }, layer: "below" });
  }
  return made;
}

function heatAxes(panel, made) {
  for (const name of ["xaxis", "yaxis"]) {
    Object.assign(made[name], { type: "category", showgrid: false, tickfont: { size: 10, color: colour("soft") } });
  }
  if (panel.down) {
    made.yaxis.autorange = "reversed";
    made.xaxis.tickangle = -90;
  }
  if (panel.frame !== null && panel.frame !== undefined) {
    const column = { x0: panel.frame - 0.5, x1: panel.frame + 0.5, y0: -0.5, y1: panel.rows.length - 0.5 };
    made.shapes.push({ type: "rect", ...column, line: { color: colour("gold"), width: 2 } });
  }
}

// Places with names, or the places there are, or every so many layers.
function ticks(panel) {
  const places = panel.ticks ?? (panel.kind === "points" ? [...new Set(panel.series.flatMap((one) => one.x))].map((x) => [x, x]) : null);
  if (!places) return { dtick: steps(panel) };
  const named = { tickmode: "array", tickvals: places.map(([x]) => x), ticktext: places.map(([, name]) => plain(name)) };
  if (panel.log) return { ...named, type: "log" };
  if (panel.kind === "lines") return named;
  const [pad, all] = [0.45 * apart(panel), places.map(([x]) => x)];
  return { ...named, range: [Math.min(...all) - pad, Math.max(...all) + pad] };
}

function steps(panel) {
  const most = Math.max(1, ...panel.series.map((one) => one.x.length));
  return [1, 2, 4, 5, 10, 20, 50].find((n) => most / n <= 9) ?? 100;
}

const KINDS = { lines, points: lines, bars, heat };

// What a panel shows, in a sentence, for those who do not see it; the numbers are in the table below.
function spoken(panel) {
  if (panel.kind === "heat") return `${panel.title}: ${panel.z} by ${panel.y} and ${panel.x}, colours from 0 to ${number(panel.top)}`;
  const each = panel.series.map((one) => {
    const known = one.mean.filter((value) => value !== null);
    if (!known.length) return `${one.name}: nothing measured`;
    return `${one.name}${one.null ? " under uniform attention" : ""}: ${number(Math.min(...known))} to ${number(Math.max(...known))}`;
  });
  return `${panel.title || panel.y}: ${panel.y} by ${panel.x}. ${each.join("; ")}`;
}

function swatch(one, kind) {
  if (kind === "bars") return svg("svg", { viewBox: "0 0 12 12", class: "swatch" }, svg("rect", { x: 1, y: 1, width: 10, height: 10, rx: 2, fill: one.colour }));
  const dash = one.null ? "1.5 2.5" : one.arm ? "6 3" : "none";
  const stroke = one.colour === "#000000" ? "currentColor" : one.colour;
  if (one.control) return svg("svg", { viewBox: "0 0 26 12", class: "swatch wide" }, svg("path", { d: "M9 2 L17 10 M17 2 L9 10", stroke, "stroke-width": 1.8 }));
  const mark = svg("circle", { cx: 13, cy: 6, r: 3, fill: one.arm ? "none" : stroke, stroke, "stroke-width": 1.5 });
  const line = svg("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke, "stroke-width": one.null ? 1.2 : 2, "stroke-dasharray": dash });
  return svg("svg", { viewBox: "0 0 26 12", class: "swatch wide" }, line, ...(one.null ? [] : [mark]));
}

function legend(figure) {
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

const drawn = new Set();

async function draw(holder, panel) {
  if (drawn.has(holder)) return;
  drawn.add(holder);
  const Plotly = await plotly();
  await Plotly.newPlot(holder, KINDS[panel.kind](panel), layout(panel), CONFIG);
  holder.dataset.drawn = "true";
}

function redraw(holder, panel) {
  window.Plotly.react(holder, KINDS[panel.kind](panel), layout(panel), CONFIG);
}

// Builds the frames at once; drawing waits until a frame is near the window, or the browser has nothing else to do.
export function figures(root, list) {
  const waiting = [];
  for (const figure of list) {
    const place = root.querySelector(`[data-figure="${CSS.escape(figure.id)}"]`);
    const grid = el("div", { class: "panels" });
    place.style.setProperty("--panel", `${figure.width}px`);
    place.dataset.panels = String(figure.panels.length);
    for (const panel of figure.panels) {
      const holder = el("div", { class: "chart", role: "figure", "aria-label": spoken(panel) });
      grid.append(el("div", { class: "panel" }, panel.title ? el("h4", {}, words(panel.title)) : null, holder));
      waiting.push([holder, panel]);
    }
    place.append(legend(figure), grid);
  }
  return waiting;
}

export function startDrawing(waiting) {
  const panels = new Map(waiting);
  const stale = new Set();
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        near.unobserve(entry.target);
        if (stale.delete(entry.target)) redraw(entry.target, panels.get(entry.target));
        else draw(entry.target, panels.get(entry.target));
      }
    },
    { rootMargin: "400px" },
  );
  for (const holder of panels.keys()) near.observe(holder);
  const idle = window.requestIdleCallback ?? ((act) => setTimeout(act, 200));
  const rest = waiting.map((one) => one);
  const next = () => {
    const one = rest.shift();
    if (one) draw(...one).then(() => idle(next));
  };
  setTimeout(() => idle(next), 600);
  onTheme(() => {
    for (const [holder, panel] of waiting) {
      if (onPaper()) (holder.dataset.drawn ? redraw : draw)(holder, panel);
      else if (holder.dataset.drawn) {
        stale.add(holder); // in other colours when it comes near: drawing takes its time
        near.observe(holder);
      }
    }
  });
}
