// A panel of plots/plotly_renderer.py as plotly wants it: traces and a layout.

import { number } from "./format.js";
import { symbol } from "./marks.js";
import { colour, onPaper, scale } from "./theme.js";

const PAPER = 310; // pixels: two panels beside each other on a sheet
const DASHES = { solid: "solid", dashed: "dash", dashdot: "dashdot", dotted: "dot" };

// plotly reads some markup in its labels; words from data must stay words.
function plain(value) {
  return String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
}

// Black is a model's colour on white paper, and would not be visible on a dark page.
function own(one) {
  return one.colour === "#000000" ? colour("ink") : one.colour;
}

// The label of an axis in one line.
function flat(axis) {
  return plain(axis.label).replace(/\n/g, " ");
}

// A value with its unit, as a hover says it.
function said(axis, value) {
  if (value === null || value === undefined) return "–";
  return axis.percent ? `${number(100 * value)} %` : `${number(value)}${axis.unit}`;
}

// No <b> in a hovertemplate: plotly would set a style attribute, which the policy refuses.
function series(panel) {
  const spread = panel.series.filter((one) => one.kind !== "line");
  const names = new Map((panel.x.ticks ?? []).map(([at, name]) => [at, plain(name)]));
  return panel.series.flatMap((one) => {
    const shift = one.kind === "line" ? 0 : beside(panel, spread.length) * (spread.indexOf(one) - (spread.length - 1) / 2);
    const x = one.x.map((at) => at + shift);
    const say = (at) => said(panel.y, at);
    const from = (k) => (one.kind === "dumbbell" ? `${say(one.start[k])} to ` : "");
    const about = one.mean.map((mean, k) => [names.get(one.x[k]) ?? plain(one.x[k]), from(k) + say(mean), `${say(one.low[k])}, ${say(one.high[k])}`, one.n[k]]);
    const main = {
      x,
      y: one.mean,
      name: plain(one.name) + { null: ", uniform", count: ", count control", mass: ", mass control", shuffled: "", "": "" }[one.role],
      mode: mode(one),
      opacity: ["count", "mass"].includes(one.role) ? 0.6 : 1,
      line: { color: own(one), width: one.role ? 1.2 : 2, dash: one.role && one.role !== "shuffled" ? "dot" : DASHES[one.stroke] },
      marker: { color: own(one), size: 7, symbol: symbol(one), line: { color: own(one), width: one.role || one.hollow ? 1.6 : 0 } },
      customdata: about,
      cliponaxis: false,
      hovertemplate: `${flat(panel.x)} %{customdata[0]}: %{customdata[1]} [%{customdata[2]}] n=%{customdata[3]}`,
      ...(one.kind !== "line" && errors(one)),
    };
    return [...(one.kind === "line" && !one.role ? band(one) : []), ...(one.kind === "dumbbell" ? stems(one, x) : []), main];
  });
}

function mode(one) {
  if (one.role === "null" || !one.marker) return "lines";
  return one.kind === "points" || one.kind === "dumbbell" ? "markers" : "lines+markers";
}

function band(one) {
  if (one.low.every((value) => value === null)) return [];
  const edge = { x: one.x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  return [{ ...edge, y: one.low }, { ...edge, y: one.high, fill: "tonexty", fillcolor: `${own(one)}2e` }];
}

function errors(one) {
  const reach = (ends, sign) => ends.map((end, k) => (end === null ? 0 : Math.max(0, sign * (end - one.mean[k]))));
  return { error_y: { array: reach(one.high, 1), arrayminus: reach(one.low, -1), thickness: 1, width: 3 } };
}

// From where each began, marked by a dash, to where it is now.
function stems(one, x) {
  const quiet = { hoverinfo: "skip", showlegend: false, cliponaxis: false };
  const line = { color: own(one), width: 4 };
  const path = x.flatMap((at) => [at, at, null]);
  const dash = { color: own(one), size: 10, symbol: "line-ew", line: { color: own(one), width: 2 } };
  return [
    { ...quiet, x: path, y: one.start.flatMap((from, k) => [from, one.mean[k], null]), mode: "lines", line, opacity: 0.4 },
    { ...quiet, x, y: one.start, mode: "markers", marker: dash, name: "start" },
  ];
}

// How far series with error bars stand apart, so that none covers another.
function beside(panel, count) {
  const places = [...new Set(panel.series.flatMap((one) => one.x))].sort((a, b) => a - b);
  const gap = Math.min(1, ...places.slice(1).map((x, i) => x - places[i]));
  return Math.min(0.12, 0.6 / count) * gap;
}

function bars({ bars: held, x }) {
  const names = new Map((x.ticks ?? []).map(([at, name]) => [at, plain(name)]));
  return held.stacks.map((one) => ({
    type: "bar",
    x: held.x,
    y: one.mean,
    width: held.width,
    name: plain(one.name),
    customdata: held.x.map((at) => names.get(at) ?? String(at)),
    marker: { color: one.colour, line: { width: 0 } },
    hovertemplate: `${flat(x)} %{customdata}: %{y:.1%}`,
  }));
}

function heat({ heat: held, x, y }) {
  const dots = (places, marker) => ({ x: places.map(([at]) => at), y: places.map(([, at]) => at), mode: "markers", marker, hoverinfo: "skip" });
  const cells = {
    type: "heatmap",
    z: held.values,
    x: held.columns.map((_, i) => i),
    y: held.rows.map((_, i) => i),
    customdata: held.rows.map((row) => held.columns.map((column) => [plain(row), plain(column)])),
    zmin: held.low,
    zmax: held.top,
    colorscale: scale(),
    showscale: false,
    xgap: 1,
    ygap: 1,
    hovertemplate: `${flat(y)} %{customdata[0]}, ${flat(x)} %{customdata[1]}: %{z:.3~g}<extra></extra>`,
  };
  const marked = { color: colour("anchor"), size: 4 };
  const committed = { color: colour("card"), size: 5, line: { color: colour("ink"), width: 1 } };
  return [cells, ...(held.marked.length ? [dots(held.marked, marked)] : []), ...(held.dots.length ? [dots(held.dots, committed)] : [])];
}

export function traces(panel) {
  return [...series(panel), ...(panel.bars ? bars(panel) : []), ...(panel.heat ? heat(panel) : [])];
}

// -- layout -----------------------------------------------------------------------------------------------------------

export function layout(panel) {
  const [ink, soft, line] = [colour("ink"), colour("soft"), colour("line")];
  const base = { gridcolor: line, linecolor: line, zeroline: false, ticks: "", automargin: true };
  const made = {
    ...(onPaper() ? { autosize: false, width: PAPER } : { autosize: true, width: undefined }),
    height: panel.heat ? 300 : 260,
    margin: { l: 44, r: 10, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Inter, sans-serif", size: 12, color: ink },
    hoverlabel: { bgcolor: colour("card"), bordercolor: line, font: { color: ink }, namelength: 40 },
    showlegend: false,
    dragmode: "zoom",
    xaxis: { ...base, ...axis(panel.x, panel), showgrid: false },
    yaxis: { ...base, ...axis(panel.y, panel) },
    shapes: [],
    annotations: [],
  };
  if (panel.bars) Object.assign(made, { barmode: "stack" });
  if (panel.heat) heatAxes(panel, made);
  const dotted = { color: soft, width: 1, dash: "dot" };
  if (panel.reference !== null) {
    made.shapes.push({ type: "line", x0: 0, x1: 1, xref: "paper", y0: panel.reference, y1: panel.reference, line: dotted, layer: "below" });
  }
  for (const [at, name] of panel.marks) {
    made.shapes.push({ type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", line: dotted, layer: "below" });
    if (name) made.annotations.push({ x: at, y: 1, yref: "paper", text: plain(name), showarrow: false, xanchor: "left", font: { size: 10, color: soft } });
  }
  return made;
}

function axis(given, panel) {
  const soft = colour("soft");
  const found = { title: { text: plain(given.label).replace(/\n/g, "<br>"), standoff: 6, font: { color: soft, size: 12 } }, tickfont: { color: soft } };
  const logarithmic = given.scale !== "linear";
  if (logarithmic) found.type = "log";
  if (given.ticks) Object.assign(found, { tickmode: "array", tickvals: given.ticks.map(([at]) => at), ticktext: given.ticks.map(([, name]) => plain(name)) });
  else if (given === panel.x) found.dtick = steps(panel);
  if (given.percent) found.tickformat = ".0~%";
  const [low, high] = given.range ?? [null, null];
  if (low !== null && high !== null) found.range = logarithmic ? [Math.log10(low), Math.log10(high)] : [low, high];
  else if (low === 0) found.rangemode = "tozero";
  return found;
}

// Every so many layers.
function steps(panel) {
  const most = Math.max(1, ...panel.series.map((one) => one.x.length));
  return [1, 2, 4, 5, 10, 20, 50].find((n) => most / n <= 9) ?? 100;
}

function heatAxes(panel, made) {
  const { rows, columns, down, frame } = panel.heat;
  for (const name of ["xaxis", "yaxis"]) Object.assign(made[name], { showgrid: false, tickfont: { size: 10, color: colour("soft") } });
  made.xaxis.range = [-0.5, columns.length - 0.5];
  made.yaxis.range = down ? [rows.length - 0.5, -0.5] : [-0.5, rows.length - 0.5];
  if ((panel.x.ticks ?? []).some(([, name]) => name.length > 3)) made.xaxis.tickangle = -90;
  if (frame === null) return;
  const line = { color: colour("gold"), width: 2 };
  made.shapes.push({ type: "rect", x0: frame - 0.5, x1: frame + 0.5, y0: -0.5, y1: rows.length - 0.5, line });
  made.shapes.push({ type: "rect", x0: -0.5, x1: columns.length - 0.5, y0: frame - 0.5, y1: frame + 0.5, line });
}
