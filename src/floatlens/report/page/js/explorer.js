// The explorer: controls, playing, keys, and one or two panes that follow one state.

import { json } from "./codec.js";
import { byId, calm, el, options } from "./dom.js";
import { Pane } from "./pane.js";
import { State } from "./state.js";
import { onTheme } from "./theme.js";
import { View } from "./view.js";

const GROUPS = { all: "all tokens", masked: "masked tokens", committed: "written tokens", answer: "the answer" };
const PACE = 900; // milliseconds per step

export class Explorer {
  constructor() {
    this.data = json("explorer");
    this.held = new Set(this.data.views);
    this.views = new Map();
    this.panes = [];
    this.timer = null;
    this.state = new State();
    this.digits = this.data.error < 0.003 ? 3 : 2;
    this.state.values.a = this.modelsOf(0)[0] ?? 0;
    this.state.values.b = this.data.models.length > 1 && innerWidth >= 900 ? (this.modelsOf(0)[1] ?? -1) : -1;
    Object.assign(this.state.values, this.sound(State.read(location.hash) ?? {}));
    this.controls();
    this.state.onChange((changed) => this.changed(changed));
    addEventListener("hashchange", (event) => {
      const asked = State.read(new URL(event.newURL).hash); // not location: a late write may have changed it since
      if (asked) this.state.set(this.sound(asked));
    });
    onTheme(() => this.panes.forEach((pane) => pane.update(false)));
    this.ready = this.load();
    if (State.read(location.hash)) byId("explore").scrollIntoView();
  }

  // Which models hold an example.
  modelsOf(example) {
    return this.data.models.map((_, i) => i).filter((i) => this.held.has(`view-${i}-${example}`));
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
    const texts = this.data.examples.map((one, i) => {
      const question = one.question ?? `prompt ${i + 1}`;
      const place = one.gold ? ` (gold ${one.gold} of ${one.documents})` : "";
      return [i, `${i + 1}. ${question.length > 90 ? `${question.slice(0, 90)}…` : question}${place}`];
    });
    options(byId("x-example"), texts, this.state.get("example"));
    options(byId("x-group"), this.data.groups.map((name) => [name, GROUPS[name]]), this.state.get("group"));
    byId("x-example").addEventListener("change", set("example"));
    byId("x-a").addEventListener("change", set("a"));
    byId("x-b").addEventListener("change", (event) => this.state.set({ b: Number(event.target.value) }));
    byId("x-layer").addEventListener("change", set("layer", (value) => (value === "mean" ? value : Number(value))));
    byId("x-group").addEventListener("change", set("group", String));
    byId("x-step").addEventListener("input", (event) => {
      this.pause();
      this.state.set({ step: Number(event.target.value) });
    });
    byId("x-play").addEventListener("click", () => this.toggle());
    byId("x-back").addEventListener("click", () => this.move(-1));
    byId("x-next").addEventListener("click", () => this.move(1));
    byId("x-rule").textContent = this.data.rule;
    byId("x-exact").textContent = `Shares are exact to ${Number((100 * this.data.error).toPrecision(1))} %.`;
    const out = this.data.left_out;
    byId("x-left").textContent = out ? `${out} more ${out === 1 ? "question is" : "questions are"} in the runs and not in this page.` : "";
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const inside = byId("explore").contains(event.target);
    const free = event.target === document.body && this.visible();
    if ((!inside && !free) || event.ctrlKey || event.metaKey || event.altKey) return;
    const kind = event.target.tagName;
    if (kind === "SELECT" || (kind === "INPUT" && event.key !== " ")) return;
    if ((kind === "BUTTON" || kind === "SUMMARY") && (event.key === " " || event.key === "Enter")) return;
    const acts = {
      " ": () => this.toggle(),
      ArrowRight: () => this.move(1),
      ArrowLeft: () => this.move(-1),
      ".": () => this.move(1),
      ",": () => this.move(-1),
      Home: () => this.state.set({ step: 0 }),
      End: () => this.state.set({ step: this.last() }),
      ArrowUp: inside && kind !== "PRE" ? () => this.layer(1) : null,
      ArrowDown: inside && kind !== "PRE" ? () => this.layer(-1) : null,
      Escape: () => this.state.set({ token: null }),
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

  last() {
    return Math.max(0, ...this.panes.map((pane) => pane.view.steps.length - 1));
  }

  move(by) {
    this.pause();
    this.state.set({ step: Math.max(0, Math.min(this.last(), this.state.get("step") + by)) });
  }

  layer(by) {
    const names = ["mean", ...(this.panes[0]?.view.layers ?? [])];
    const at = names.indexOf(this.state.get("layer")) + by;
    if (at >= 0 && at < names.length) this.state.set({ layer: names[at] });
  }

  toggle() {
    if (this.timer) return this.pause();
    if (this.state.get("step") >= this.last()) this.state.set({ step: 0 });
    this.timer = setInterval(() => {
      if (this.state.get("step") >= this.last()) this.pause();
      else this.state.set({ step: this.state.get("step") + 1 });
    }, PACE);
    this.sign();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.sign();
  }

  sign() {
    const button = byId("x-play");
    button.textContent = this.timer ? "❚❚" : "▶";
    button.setAttribute("aria-label", this.timer ? "Pause" : "Play");
  }

  changed(changed) {
    if (["example", "a", "b"].some((name) => changed.has(name))) {
      if (changed.has("example")) this.state.values.token = null;
      this.ready = this.load();
      return;
    }
    if (changed.has("token")) this.select();
    this.show(changed.has("step"));
  }

  async load() {
    this.pause();
    const { example } = this.state.values;
    const wanted = [this.state.get("a"), this.state.get("b")].filter((model) => model >= 0);
    const names = wanted.map((model) => `view-${model}-${example}`);
    const views = await Promise.all(names.map((name) => this.open(name)));
    if (example !== this.state.get("example")) return; // another was chosen meanwhile
    this.panes.forEach((pane) => pane.close());
    const picked = (pane, key, changes) => this.picked(pane, key, changes);
    this.panes = wanted.map((model, i) => new Pane(this.data.models[model], views[i], this.data.examples[example], this.state, this.digits, picked));
    byId("x-panes").replaceChildren(...this.panes.map((pane) => pane.box));
    byId("x-panes").dataset.count = String(this.panes.length);
    this.choices();
    if (this.state.get("step") > this.last()) this.state.values.step = this.last();
    this.select();
    this.show(false);
  }

  open(name) {
    if (!this.views.has(name)) this.views.set(name, View.open(name));
    return this.views.get(name);
  }

  choices() {
    const have = this.modelsOf(this.state.get("example"));
    const named = have.map((i) => [i, this.data.models[i].label]);
    options(byId("x-a"), named, this.state.get("a"));
    options(byId("x-b"), [[-1, "nothing"], ...named], this.state.get("b"));
    byId("x-b").parentElement.hidden = have.length < 2;
    const layers = [...new Set(this.panes.flatMap((pane) => pane.view.layers))].sort((x, y) => x - y);
    options(byId("x-layer"), [["mean", "mean of all"], ...layers.map((layer) => [layer, `layer ${layer}`])], this.state.get("layer"));
    byId("x-example").value = String(this.state.get("example"));
  }

  // A token that was picked in one pane is picked everywhere; again, and it is let go.
  picked(pane, key, changes) {
    const mine = this.panes[0] === pane ? key : this.panes[0].view.find(pane.view.address(key));
    const again = pane.selected === key && !Object.keys(changes).length;
    this.state.set({ ...changes, token: again ? null : mine });
    if (mine === null && !again) pane.select(key);
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
  }
}
