// Figures of plots/plotly_renderer.py drawn by plotly, which is inflated and run when the first comes near the window.

import { text } from "./codec.js";
import { el, words } from "./dom.js";
import { legend, spoken } from "./legend.js";
import { onPaper, onTheme } from "./theme.js";
import { layout, traces } from "./traces.js";

// No button sends anything: plotly's own configuration would offer to share a chart on its servers.
const CONFIG = {
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  responsive: true,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  toImageButtonOptions: { format: "svg" },
};
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

// At once, where plotly is there already.
function drawNow(Plotly, holder, panel) {
  if (holder.dataset.drawn) return;
  Plotly.newPlot(holder, traces(panel), layout(panel), CONFIG);
  holder.dataset.drawn = "true";
}

async function draw(holder, panel) {
  try {
    drawNow(await plotly(), holder, panel);
  } catch (error) {
    console.error(error);
    holder.replaceChildren(el("p", { class: "failed", role: "alert" }, `This figure could not be drawn: ${error.message}`));
  }
}

function redraw(holder, panel) {
  window.Plotly.react(holder, traces(panel), layout(panel), CONFIG);
}

// Builds the frames at once; drawing waits until a frame is near the window, or the browser has nothing else to do.
export function figures(root, sections) {
  return sections.flatMap((section) => {
    const holder = root.querySelector(`[data-figures="${CSS.escape(section.id)}"]`);
    return section.figures.flatMap((figure) => frame(holder, figure));
  });
}

function frame(holder, figure) {
  const waiting = [];
  const place = el("figure", { id: `figure-${figure.id}`, "data-panels": figure.panels.length }, el("figcaption", {}, words(figure.title)));
  const grid = el("div", { class: "panels" });
  place.style.setProperty("--panel", `${figure.width}px`);
  for (const panel of figure.panels) {
    const chart = el("div", { class: "chart", role: "figure", "aria-label": spoken(panel) });
    grid.append(el("div", { class: "panel" }, panel.title ? el("h3", {}, words(panel.title)) : null, chart));
    waiting.push([chart, panel]);
  }
  place.append(legend(figure), grid, el("p", { class: "small-print" }, words(figure.note)));
  holder.append(place);
  return waiting;
}

// A sheet is laid out as soon as this returns, and nothing can be waited for: what plotly is not there for says so
// itself (report.css).
function onSheet(holder, panel) {
  if (holder.dataset.drawn) redraw(holder, panel);
  else if (window.Plotly) drawNow(window.Plotly, holder, panel);
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
      if (onPaper()) onSheet(holder, panel);
      else if (holder.dataset.drawn) {
        stale.add(holder); // in other colours when it comes near: drawing takes its time
        near.observe(holder);
      }
    }
  });
}
