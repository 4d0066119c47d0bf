// A panel of report/panels.py as plotly wants it: traces and a layout.

import { number } from "./format.js";
import { symbol } from "./marks.js";
import { colour, onPaper, scale } from "./theme.js";

const PAPER = 310; // pixels: two panels beside each other on a sheet

// plotly reads some markup in its labels; words from data must stay words.
function plain(value) {
  return String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
}

// No <b> in a hovertemplate: plotly would set a style attribute, which the policy refuses.
function lines(panel) {
  const drawn = [];
  const [gap, middle] = [0.07 * apart(panel), (panel.series.length - 1) / 2];
  const label = new Map((panel.ticks ?? []).map(([x, name]) => [x, plain(name)]));
  for (const [i, one] of panel.series.entries()) {
    const x = panel.kind === "points" ? one.x.map((at) => at + gap * (i - middle)) : one.x; // error bars beside each other
    const under = panel.kind === "lines" ? covering(panel, i) : 0;
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
      line: { color: own(one), width: one.null || one.control ? 1.2 : 2 + 2.5 * under, dash: one.null || one.control ? "dot" : one.arm ? "dash" : "solid" },
      marker: { color: own(one), size: (one.loose ? 9 : 7) + 5 * under, symbol: symbol(one), line: { color: own(one), width: one.control || one.arm ? 1.8 : 0 } },
      customdata: one.mean.map((_, k) => [number(one.low[k]), number(one.high[k]), one.n[k], label.get(one.x[k]) ?? plain(one.x[k])]),
      cliponaxis: false,
      hovertemplate: `${plain(panel.x)} %{customdata[3]}: %{y:.3~g} [%{customdata[0]}, %{customdata[1]}] n=%{customdata[2]}`,
      ...bars,
    });
  }
  return drawn;
}

// How many of the lines that are drawn later lie on this one at most of its places; it is made wider, to be seen below.
function covering(panel, i) {
  const one = panel.series[i];
  const known = panel.series.flatMap((each) => each.mean).filter((value) => value !== null);
  const close = 0.01 * (Math.max(...known) - Math.min(...known));
  return panel.series.slice(i + 1).filter((other) => {
    if (Boolean(other.null) !== Boolean(one.null)) return false;
    const at = new Map(other.x.map((x, k) => [x, other.mean[k]]));
    const shared = one.x.map((x, k) => [one.mean[k], at.get(x) ?? null]).filter(([a, b]) => a !== null && b !== null);
    return shared.length > 0 && shared.filter(([a, b]) => Math.abs(a - b) <= close).length > shared.length / 2;
  }).length;
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
    hovertemplate: `${plain(panel.x)} %{x}: %{y:.1%}`,
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
      hovertemplate: `${plain(panel.y)} %{y}, ${plain(panel.x)} %{x}: %{z:.3~g}<extra></extra>`,
    },
  ];
}

// Black is a model's colour on white paper, and would not be seen on a dark page.
function own(one) {
  return one.colour === "#000000" ? colour("ink") : one.colour;
}

export function layout(panel) {
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
  if (panel.ratio) Object.assign(made.yaxis, ratios(panel.range));
  else if (panel.range) made.yaxis.range = panel.range;
  else if (panel.zero) made.yaxis.rangemode = "tozero";
  if (panel.reference !== undefined && panel.reference !== null) {
    const at = { x0: 0, x1: 1, xref: "paper", y0: panel.reference, y1: panel.reference };
    made.shapes.push({ type: "line", ...at, line: { color: soft, width: 1, dash: "dot" }, layer: "below" });
  }
  return made;
}

// A logarithmic axis, on which twice and half are equally far from 1.
function ratios([low, high]) {
  const fine = [0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3];
  const coarse = [-3, -2, -1, 0, 1, 2, 3].flatMap((power) => [1, 2, 5].map((n) => n * 10 ** power));
  const shown = (high / low < 4 ? fine : coarse).filter((ratio) => ratio >= low && ratio <= high);
  return { type: "log", range: [Math.log10(low), Math.log10(high)], tickmode: "array", tickvals: shown, ticktext: shown.map((one) => number(one)) };
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

export function traces(panel) {
  return KINDS[panel.kind](panel);
}
