// One trace, unpacked: what stands where, and who gets how much, by step, layer (0 is the mean) and position.

import { codesOf, flag, unpacked, valuesOf } from "./codec.js";
import { piece } from "./format.js";

export const ABSENT = 0;
export const MASK = 1;
export const TOKEN = 2;
export const OTHER = 3;

function sound(low, top) {
  return top > low ? { low, top } : { low: 0, top: top || 1 };
}

export class View {
  static async open(name) {
    const { header, arrays } = await unpacked(name);
    return new View(header, arrays);
  }

  constructor(header, arrays) {
    Object.assign(this, header);
    this.length = header.ids.length;
    this.rows = header.layers.length + 1;
    this.state = arrays.state;
    this.anchorBits = arrays.anchors;
    const stride = header.groups.length * this.rows * this.length;
    this.codes = arrays.share ? codesOf(arrays.share, stride) : null;
    this.nulls = arrays.null ? codesOf(arrays.null, header.groups.length * this.length) : null;
    this.values = valuesOf(header.levels);
    this.goldName = header.gold ? `doc${header.gold}` : null;
    this.evidenceSet = new Set(header.evidence);
    this.specialSet = new Set(header.special);
    this.otherAt = new Map(header.other.map(([step, key, id]) => [step * this.length + key, id]));
    this.committedAt = new Map();
    this.commit = new Map();
    for (const [place, number, sure] of header.committed) {
      const step = this.heldStep(number);
      this.commit.set(place, { step, number, sure });
      if (!this.committedAt.has(step)) this.committedAt.set(step, new Set());
      this.committedAt.get(step).add(place);
    }
    this.ranges = new Map();
  }

  // The held step in which something that happened at a step of the run is shown: the last that is not after it.
  heldStep(number) {
    let found = 0;
    this.steps.forEach((held, i) => {
      if (held <= number) found = i;
    });
    return found;
  }

  // The place of a group in the arrays; null where it asks nothing in this trace.
  group(name) {
    const place = this.groups.indexOf(this.same[name] ?? name);
    return place < 0 ? null : place;
  }

  row(layer) {
    if (layer === "mean") return 0;
    let best = 0;
    this.layers.forEach((held, i) => {
      if (best === 0 || Math.abs(held - layer) < Math.abs(this.layers[best - 1] - layer)) best = i + 1;
    });
    return best;
  }

  place(group, step, row, key) {
    return ((step * this.groups.length + group) * this.rows + row) * this.length + key;
  }

  share(group, step, row, key) {
    if (group === null || !this.codes) return NaN;
    return this.values[this.codes[this.place(group, step, row, key)]];
  }

  anchor(group, step, row, key) {
    return group !== null && Boolean(this.anchorBits) && flag(this.anchorBits, this.place(group, step, row, key)) === 1;
  }

  uniform(group, step, key) {
    if (group === null || !this.nulls) return NaN;
    return this.values[this.nulls[(step * this.groups.length + group) * this.length + key]];
  }

  stateAt(step, key) {
    return this.state[step * this.length + key];
  }

  // The ends of the colour scale over all steps, so that steps can be compared: the share that a tenth of all positions
  // do not exceed, and the largest.
  range(group, row) {
    const name = `${group}/${row}`;
    if (!this.ranges.has(name)) this.ranges.set(name, sound(...this.ends(group, row)));
    return this.ranges.get(name);
  }

  // Over all layers, for the map of layers.
  rangeOfLayers(group) {
    const name = `${group}/layers`;
    if (!this.ranges.has(name)) {
      const each = Array.from({ length: this.rows - 1 }, (_, i) => this.range(group, i + 1));
      this.ranges.set(name, sound(Math.min(...each.map((one) => one.low)), Math.max(...each.map((one) => one.top))));
    }
    return this.ranges.get(name);
  }

  // The layer in which a token receives the largest share; "mean" where there are none.
  peak(group) {
    const tops = this.layers.map((_, i) => this.range(group, i + 1).top);
    return tops.length ? this.layers[tops.indexOf(Math.max(...tops))] : "mean";
  }

  ends(group, row) {
    if (group === null || !this.codes) return [0, 0];
    const counts = new Uint32Array(this.values.length);
    for (let step = 0; step < this.steps.length; step += 1) {
      const first = this.place(group, step, row, 0);
      for (let at = first; at < first + this.length; at += 1) counts[this.codes[at]] += 1;
    }
    counts[0] = 0; // undefined
    let left = 0.1 * counts.reduce((sum, count) => sum + count, 0);
    const low = counts.findIndex((count) => (left -= count) < 0);
    let top = counts.length - 1;
    while (top > 0 && !counts[top]) top -= 1;
    return top ? [this.values[low], this.values[top]] : [0, 0];
  }

  rank(group, step, row, key) {
    const mine = this.share(group, step, row, key);
    let above = 0;
    for (let other = 0; other < this.length; other += 1) {
      if (this.share(group, step, row, other) > mine) above += 1;
    }
    return above + 1;
  }

  // The token that receives most; null where nobody asks.
  strongest(group, step, row) {
    let best = null;
    let most = -1;
    for (let key = 0; key < this.length; key += 1) {
      const share = this.share(group, step, row, key);
      if (share > most) [best, most] = [key, share];
    }
    return best;
  }

  kind(key) {
    const name = this.regions[this.region_of[key]];
    if (name.startsWith("doc")) return name === this.goldName ? "gold" : "document";
    return ["bos", "question", "answer"].includes(name) ? name : "template";
  }

  regionName(key) {
    return this.regions[this.region_of[key]];
  }

  // As it is read: document 3 (gold), question, answer, template.
  regionTitle(key) {
    const name = this.regionName(key);
    if (!/^doc\d+$/.test(name)) return name;
    return `document ${name.slice(3)}${name === this.goldName ? " (gold)" : ""}`;
  }

  // Stretches of one region: [name, first, last].
  stretches() {
    const made = [];
    for (let key = 0; key < this.length; key += 1) {
      const name = this.regionName(key);
      if (made.length && made[made.length - 1][0] === name) made[made.length - 1][2] = key;
      else made.push([name, key, key]);
    }
    return made;
  }

  // What a token is called in another trace of the same question: region, text as it is shown (tokenisers mark words in
  // ways of their own), and which of its kind it is there.
  address(key) {
    const text = piece(this.tokens[key]);
    let nth = 0;
    for (let k = 0; k < key; k += 1) {
      if (this.region_of[k] === this.region_of[key] && piece(this.tokens[k]) === text) nth += 1;
    }
    return { region: this.regionName(key), text, nth };
  }

  find({ region, text, nth }) {
    let left = nth;
    for (let k = 0; k < this.length; k += 1) {
      if (this.regionName(k) === region && piece(this.tokens[k]) === text) {
        if (left === 0) return k;
        left -= 1;
      }
    }
    return null;
  }
}
