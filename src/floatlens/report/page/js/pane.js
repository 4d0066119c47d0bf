// One model in the explorer: its tokens, its two maps and its numbers, all of one trace and one state.

import { el, words } from "./dom.js";
import { percent, piece } from "./format.js";
import { Heat } from "./heat.js";
import { dot } from "./marks.js";
import { Readout } from "./readout.js";
import { Tokens } from "./tokens.js";

export class Pane {
  constructor(model, view, example, state, digits, picked) {
    Object.assign(this, { model, view, state, picked });
    this.hovered = null;
    const point = (key) => this.point(key === null ? null : { key });
    this.readout = new Readout(digits);
    this.tokens = new Tokens(view, example.titles, (key) => this.pick({ key }), point, this.readout.id);
    this.steps = new Heat(view, "", view.steps.length, (row) => String(view.steps[row]),
      (row, key) => this.pick({ key, step: row }), (row, key) => this.point(row === null ? null : { key, step: row }));
    this.layers = new Heat(view, "", view.layers.length, (row) => String(view.layers[row]),
      (row, key) => this.pick({ key, row: row + 1 }), (row, key) => this.point(row === null ? null : { key, row: row + 1 }));
    this.where = el("span", { class: "where" });
    const thin = [];
    if (view.steps.length < view.of_steps) thin.push(`${view.steps.length} of ${view.of_steps} steps`);
    if (view.layers.length < view.of_layers) thin.push(`${view.layers.length} of ${view.of_layers} layers`);
    const note = thin.length ? el("p", { class: "thin" }, `To keep the page small it holds ${thin.join(" and ")}, evenly spaced.`) : null;
    this.empty = el("p", { class: "empty", hidden: true }, "No tokens of this kind at this step.");
    const head = el("header", {}, el("h3", {}, dot(model), " ", words(model.label)), this.where);
    const maps = el("div", { class: "maps" }, this.steps.box, this.layers.box, this.readout.box, note);
    this.box = el("article", { class: "pane" }, head, this.empty, this.tokens.answer, el("div", { class: "both" }, this.tokens.prompt, maps));
    this.box.setAttribute("aria-label", model.label);
    this.watch = new ResizeObserver(() => this.maps());
    this.watch.observe(this.steps.box);
  }

  close() {
    this.watch.disconnect();
  }

  // Where the shared state is in this trace: a shorter run stays at its last step, a layer it lacks is the nearest.
  get at() {
    const step = Math.min(this.state.get("step"), this.view.steps.length - 1);
    return { group: this.view.group(this.state.get("group")), step, row: this.view.row(this.state.get("layer")) };
  }

  pick({ key, step, row }) {
    const changes = {};
    if (step !== undefined) changes.step = step;
    if (row !== undefined) changes.layer = this.view.layers[row - 1];
    this.picked(this, key, changes);
  }

  point(where) {
    this.hovered = where;
    for (const part of [this.steps, this.layers, this.tokens]) part.point(where ? where.key : null);
    this.numbers();
  }

  select(key) {
    this.selected = key;
    this.tokens.select(key);
    this.update(false);
  }

  update(flashing) {
    const { group, step, row } = this.at;
    const { view } = this;
    const over = this.state.get("step") >= view.steps.length;
    this.tokens.update(group, step, row, flashing, over);
    this.empty.hidden = view.strongest(group, step, row) !== null;
    const of = row ? `layer ${view.layers[row - 1]}` : "mean of layers";
    this.where.textContent = `step ${view.steps[step]}${over ? ", finished" : ""} · ${of}`;
    this.maps();
    this.numbers();
  }

  maps() {
    const { group, step, row } = this.at;
    const { view } = this;
    const best = view.strongest(group, step, row);
    const strongest = best === null ? "no attention at this step" : `strongest now: ${piece(view.tokens[best])} at position ${best}`;
    const selected = this.selected ?? null;
    const [range, wide] = [view.range(group, row), view.rangeOfLayers(group)];
    const ends = ({ low, top }) => `colours from ${percent(low, 1)} to ${percent(top, 2)}`;
    const of = row ? `layer ${view.layers[row - 1]}` : "mean of layers";
    this.steps.caption.textContent = `Every step × position, ${of}; ${ends(range)}`;
    this.layers.caption.textContent = `Every layer × position, step ${view.steps[step]}; ${ends(wide)}`;
    this.steps.draw({
      share: (s, key) => view.share(group, s, row, key),
      anchor: (s, key) => view.anchor(group, s, row, key),
      range, selected, cursor: step,
      spoken: `Attention received by every position at every step, ${of}; ${strongest}`,
    });
    this.layers.draw({
      share: (l, key) => view.share(group, step, l + 1, key),
      anchor: (l, key) => view.anchor(group, step, l + 1, key),
      range: wide, selected, cursor: row ? row - 1 : null,
      spoken: `Attention received by every position in every layer, step ${view.steps[step]}; ${strongest}`,
    });
  }

  numbers() {
    const now = this.at;
    const { view } = this;
    if (this.hovered) {
      const { key, step = now.step, row = now.row } = this.hovered;
      this.readout.show(view, key, now.group, step, row, "pointed at");
    } else if (this.selected !== null && this.selected !== undefined) {
      this.readout.show(view, this.selected, now.group, now.step, now.row, "selected");
    } else {
      const best = view.strongest(now.group, now.step, now.row);
      if (best === null) this.readout.clear();
      else this.readout.show(view, best, now.group, now.step, now.row, "strongest");
    }
  }
}
