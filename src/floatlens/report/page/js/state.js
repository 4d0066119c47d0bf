// What the explorer shows, in one place: a change is told to all who listen, and written to the address of the page.

const FIELDS = { example: "e", a: "a", b: "b", layer: "l", group: "g", step: "s", token: "t" };
const WHOLE = ["example", "a", "b", "step"];
const MARK = "#explore:";
const [BURST, SPAN, LATER] = [24, 10_000, 300]; // so many changes of the address in a span, then only the last of them

export class State {
  constructor() {
    this.values = { example: 0, a: 0, b: -1, layer: "mean", group: "all", step: 0, token: null };
    this.listeners = [];
    this.waiting = null;
    this.written = [];
  }

  get(name) {
    return this.values[name];
  }

  onChange(act) {
    this.listeners.push(act);
  }

  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.values[name] !== changes[name]);
    if (!changed.length) return;
    Object.assign(this.values, changes);
    this.listeners.forEach((act) => act(new Set(changed)));
    this.address();
  }

  // The view as an address names it.
  get view() {
    return Object.entries(FIELDS)
      .filter(([name]) => this.values[name] !== null && this.values[name] !== -1)
      .map(([name, short]) => `${short}=${encodeURIComponent(this.values[name])}`)
      .join("&");
  }

  // At once, so that address and view never differ; but browsers refuse addresses that change at every frame.
  address() {
    const now = performance.now();
    this.written = this.written.filter((at) => now - at < SPAN);
    clearTimeout(this.waiting);
    if (this.written.length < BURST) this.write();
    else this.waiting = setTimeout(() => this.write(), LATER);
  }

  write() {
    this.written.push(performance.now());
    try {
      history.replaceState(null, "", MARK + this.view);
    } catch (error) {
      if (error.name !== "SecurityError") throw error; // a frame without an address of its own: nothing to share
    }
  }

  // What an address asks for; null where it is not about the explorer. Values that make no sense are left out.
  static read(hash) {
    if (!hash.startsWith(MARK)) return null;
    const given = new URLSearchParams(hash.slice(MARK.length));
    const found = { b: -1, token: null }; // an address that does not name them means none
    for (const [name, short] of Object.entries(FIELDS)) {
      const value = given.get(short);
      if (value === null) continue;
      const number = /^\d{1,6}$/.test(value) ? Number(value) : null;
      if (WHOLE.includes(name) || name === "token") {
        if (number !== null) found[name] = number;
      } else if (name === "layer") {
        if (value === "mean" || number !== null) found.layer = number === null ? "mean" : number;
      } else if (/^[a-z]{1,12}$/.test(value)) found[name] = value;
    }
    return found;
  }
}
