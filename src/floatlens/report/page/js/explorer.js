// The explorer: controls, keys, and one or two panes that follow one state.

import { json } from "./codec.js";
import { byId, calm, el, options } from "./dom.js";
import { Pane } from "./pane.js";
import { Player } from "./player.js";
import { State } from "./state.js";
import { onTheme } from "./theme.js";
import { View } from "./view.js";

const GROUPS = { all: "all tokens", masked: "masked tokens", committed: "committed tokens", answer: "answer tokens" };
const OPENING = ["answer", "masked", "all"]; // the first of these that the first model has
const WIDE = 900; // pixels from which two models stand beside each other at first

// In the place of the panes, and on the console for those who can do something about it.
export function sayFailed(error) {
  console.error(error);
  byId("x-panes").replaceChildren(el("p", { class: "failed", role: "alert" }, `The explorer does not work here: ${error.message}`));
}

export class Explorer {
  constructor() {
    this.data = json("explorer");
    this.held = new Set(this.data.views);
    this.views = new Map();
    this.panes = [];
    this.loads = 0;
    this.loading = true;
    this.state = new State();
    this.digits = this.data.error < 0.003 ? 3 : 2;
    const have = this.diffusionFirst(this.modelsOf(0));
    Object.assign(this.state.values, { a: have[0] ?? 0, b: innerWidth >= WIDE ? this.unlike(have) : -1 });
    Object.assign(this.state.values, this.sound(State.read(location.hash) ?? {}));
    this.player = new Player(() => this.state.get("step"), () => this.last(), (step) => this.state.set({ step }));
    this.controls();
    this.state.onChange((changed) => this.changed(changed));
    addEventListener("hashchange", (event) => {
      const asked = State.read(new URL(event.newURL).hash); // not location: the view may have gone on since
      if (asked) this.state.set(this.sound(asked));
    });
    onTheme(() => this.panes.forEach((pane) => pane.update(false)));
    this.ready = this.load(!State.read(location.hash));
    if (State.read(location.hash)) byId("explore").scrollIntoView();
  }

  // Which models hold an example.
  modelsOf(example) {
    return this.data.models.map((_, i) => i).filter((i) => this.held.has(`view-${i}-${example}`));
  }

  // A model that writes over many steps is what there is to watch.
  diffusionFirst(models) {
    const first = models.find((i) => this.data.models[i].kind === "mdm");
    return first === undefined ? models : [first, ...models.filter((i) => i !== first)];
  }

  // What to show beside the first model: one of the other kind, where there is one; -1 for nothing.
  unlike([first, ...others]) {
    const kind = (i) => this.data.models[i].kind;
    return others.find((i) => kind(i) !== kind(first)) ?? others[0] ?? -1;
  }

  // Only what is in this page.
  sound(asked) {
    const found = { ...asked };
    const example = found.example ?? this.state.get("example");
    if (!(example < this.data.examples.length)) delete found.example;
    const have = this.modelsOf(found.example ?? this.state.get("example"));
    for (const name of ["a", "b"]) if (name in found && found[name] !== -1 && !have.includes(found[name])) delete found[name];
    if (!("a" in found) && !have.includes(this.state.get("a"))) found.a = have[0];
    if (!("b" in found) && !have.includes(this.state.get("b"))) found.b = -1;
    if ("group" in found && !this.data.groups.includes(found.group)) delete found.group;
    return found;
  }

  controls() {
    const set = (name, read = Number) => (event) => this.state.set(this.sound({ [name]: read(event.target.value) }));
    options(byId("x-example"), this.data.examples.map((one, i) => [i, this.question(one, i)]), this.state.get("example"));
    options(byId("x-group"), this.data.groups.map((name) => [name, GROUPS[name]]), this.state.get("group"));
    byId("x-example").addEventListener("change", (event) => this.state.set(this.sound({ example: Number(event.target.value), token: null })));
    byId("x-a").addEventListener("change", set("a"));
    byId("x-b").addEventListener("change", (event) => this.state.set({ b: Number(event.target.value) }));
    byId("x-layer").addEventListener("change", set("layer", (value) => (value === "mean" ? value : Number(value))));
    byId("x-group").addEventListener("change", set("group", String));
    byId("x-step").addEventListener("input", (event) => {
      this.player.pause();
      this.state.set({ step: Number(event.target.value) });
    });
    byId("x-back").addEventListener("click", () => this.move(-1));
    byId("x-next").addEventListener("click", () => this.move(1));
    document.addEventListener("keydown", (event) => this.key(event));
    this.words();
  }

  words() {
    byId("x-rule").textContent = this.data.rule;
    byId("x-rule-words").textContent = `Anchors are ${this.data.rule_words}.`;
    byId("x-exact").textContent = `Shares are accurate to ${Number((100 * this.data.error).toPrecision(1))} %.`;
    const out = this.data.left_out;
    byId("x-left").textContent = out ? `${out} more ${out === 1 ? "question of the runs is" : "questions of the runs are"} not on this page.` : "";
  }

  question(one, i) {
    const text = one.question ?? `prompt ${i + 1}`;
    const place = one.gold ? ` (gold ${one.gold} of ${one.documents})` : "";
    return `${i + 1}. ${text.length > 90 ? `${text.slice(0, 90)}…` : text}${place}`;
  }

  key(event) {
    const inside = byId("explore").contains(event.target);
    const free = event.target === document.body && this.visible();
    if ((!inside && !free) || event.ctrlKey || event.metaKey || event.altKey) return;
    const kind = event.target.tagName;
    if (kind === "SELECT" || (kind === "INPUT" && event.key !== " ")) return;
    if ((kind === "BUTTON" || kind === "SUMMARY") && (event.key === " " || event.key === "Enter")) return;
    const acts = {
      ArrowRight: () => this.move(1),
      ArrowLeft: () => this.move(-1),
      Escape: () => this.letGo(),
      ...(inside && { // elsewhere these scroll the page, or are letters that somebody dictates
        " ": () => this.player.toggle(),
        ".": () => this.move(1),
        ",": () => this.move(-1),
        Home: () => this.move(-Infinity),
        End: () => this.move(Infinity),
        ArrowUp: () => this.layer(1),
        ArrowDown: () => this.layer(-1),
      }),
    };
    const act = acts[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  }

  visible() {
    const box = byId("x-panes").getBoundingClientRect();
    return box.top < innerHeight * 0.8 && box.bottom > innerHeight * 0.2;
  }

  // Of all panes; one that lacks a layer shows the nearest it has.
  get layers() {
    return [...new Set(this.panes.flatMap((pane) => pane.view.layers))].sort((x, y) => x - y);
  }

  shortest() {
    return Math.min(...this.panes.map((pane) => pane.view.steps.length - 1));
  }

  last() {
    return Math.max(0, ...this.panes.map((pane) => pane.view.steps.length - 1));
  }

  move(by) {
    this.player.pause();
    this.state.set({ step: Math.max(0, Math.min(this.last(), this.state.get("step") + by)) });
  }

  layer(by) {
    const names = ["mean", ...this.layers];
    const at = names.indexOf(this.state.get("layer")) + by;
    if (at >= 0 && at < names.length) this.state.set({ layer: names[at] });
  }

  changed(changed) {
    if (["example", "a", "b"].some((name) => changed.has(name))) this.ready = this.load().catch(sayFailed);
    if (this.loading) return; // shown when it is there
    this.snap();
    if (changed.has("token")) this.select();
    this.show(changed.has("step"));
  }

  // To a step and a layer that are there: an address, or another model, may ask for others.
  snap() {
    const { step, layer } = this.state.values;
    const { layers } = this;
    const near = layers.reduce((best, one) => (Math.abs(one - layer) < Math.abs(best - layer) ? one : best), layers[0] ?? "mean");
    Object.assign(this.state.values, { step: Math.min(step, this.last()), layer: layer === "mean" ? layer : near });
  }

  // Panes for the models and the example of the state. Views come in any order; what was asked for last is shown.
  async load(opening = false) {
    this.player.pause();
    this.loading = true;
    this.loads += 1;
    const mine = this.loads;
    const { example, a, b } = this.state.values;
    const wanted = [a, b].filter((model) => model >= 0);
    const views = await Promise.all(wanted.map((model) => this.open(`view-${model}-${example}`)));
    if (mine !== this.loads) return;
    this.panes.forEach((pane) => pane.close());
    const picked = (pane, key, changes) => this.picked(pane, key, changes);
    this.panes = wanted.map((model, i) => new Pane(this.data.models[model], views[i], this.data.examples[example], this.state, this.digits, picked));
    byId("x-panes").replaceChildren(...this.panes.map((pane) => pane.box));
    byId("x-panes").dataset.count = String(this.panes.length);
    this.loading = false;
    const asked = this.state.view;
    if (opening) this.openOn(views[0]);
    this.snap();
    if (!opening && this.state.view !== asked) this.state.address();
    this.choices();
    this.select();
    this.show(false);
  }

  // Without an address: the queries that write, in the layer where a token receives most from them.
  openOn(view) {
    const group = OPENING.find((name) => this.data.groups.includes(name) && view.group(name) !== null) ?? "all";
    const layer = view.peak(view.group(group));
    const all = (step) => this.panes.every((pane) => pane.view.strongest(pane.view.group(group), step, pane.view.row(layer)) !== null);
    const step = view.steps.findIndex((_, i) => all(Math.min(i, this.shortest())));
    Object.assign(this.state.values, { group, layer, step: Math.max(0, step) });
  }

  open(name) {
    if (!this.views.has(name)) this.views.set(name, View.open(name));
    return this.views.get(name);
  }

  choices() {
    const have = this.modelsOf(this.state.get("example"));
    const named = have.map((i) => [i, this.data.models[i].label]);
    options(byId("x-a"), named, this.state.get("a"));
    options(byId("x-b"), [[-1, "none"], ...named], this.state.get("b"));
    byId("x-b").parentElement.hidden = have.length < 2;
    options(byId("x-layer"), [["mean", "mean of layers"], ...this.layers.map((layer) => [layer, `layer ${layer}`])], this.state.get("layer"));
    byId("x-example").value = String(this.state.get("example"));
  }

  // A token that was picked in one pane is picked everywhere; again, and it is let go.
  picked(pane, key, changes) {
    if (pane.selected === key && !Object.keys(changes).length) return this.letGo();
    const mine = this.panes[0] === pane ? key : this.panes[0].view.find(pane.view.address(key));
    this.state.set({ ...changes, token: mine });
    if (mine === null) this.panes.forEach((one) => one.select(one === pane ? key : null)); // the first model does not have it
  }

  // Also what is selected in one pane alone, of which the state knows nothing.
  letGo() {
    this.state.set({ token: null });
    this.select();
  }

  select() {
    const key = this.state.get("token");
    const [first, second] = this.panes;
    const sound = key !== null && key < first.view.length ? key : null;
    first.select(sound);
    if (second) second.select(sound === null ? null : second.view.find(first.view.address(sound)));
  }

  show(moved) {
    const last = this.last();
    const step = this.state.get("step");
    const slider = byId("x-step");
    slider.max = String(last);
    slider.value = String(step);
    const longest = this.panes.reduce((best, pane) => (pane.view.steps.length > best.view.steps.length ? pane : best), this.panes[0]);
    const number = longest.view.steps[Math.min(step, longest.view.steps.length - 1)];
    slider.setAttribute("aria-valuetext", `step ${number}`);
    byId("x-where").textContent = `step ${number} of ${longest.view.steps[longest.view.steps.length - 1]}`;
    byId("x-back").setAttribute("aria-disabled", String(step === 0)); // not disabled, which would drop the focus
    byId("x-next").setAttribute("aria-disabled", String(step >= last));
    byId("x-layer").value = String(this.state.get("layer"));
    byId("x-group").value = this.state.get("group");
    this.panes.forEach((pane) => pane.update(moved && !calm.matches));
    byId("explore").dataset.shown = `${this.state.get("example")}/${step}`;
    byId("explore").dataset.view = this.state.view;
  }
}
