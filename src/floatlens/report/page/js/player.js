// Play and pause: one step after the other, faster where there are many, at the speed that was asked for.

import { byId } from "./dom.js";

const [SLOWEST, FASTEST, WHOLE] = [900, 120, 16_000]; // milliseconds: of a step, of a step, of all steps

export class Player {
  // `step()` is where it is, `last()` the last one, `go(step)` goes there.
  constructor(step, last, go) {
    Object.assign(this, { step, last, go, timer: null });
    this.button = byId("x-play");
    this.speed = byId("x-speed");
    this.button.addEventListener("click", () => this.toggle());
    this.speed.addEventListener("change", () => {
      if (this.timer) this.start();
    });
  }

  get pace() {
    const even = Math.min(SLOWEST, Math.max(FASTEST, WHOLE / (this.last() + 1)));
    return even / Number(this.speed.value);
  }

  toggle() {
    if (this.timer) return this.pause();
    if (this.step() >= this.last()) this.go(0);
    this.start();
  }

  start() {
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      if (this.step() < this.last()) this.go(this.step() + 1);
      if (this.step() >= this.last()) this.pause();
    }, this.pace);
    this.sign();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.sign();
  }

  sign() {
    this.button.textContent = this.timer ? "❚❚" : "▶\ufe0e";
    this.button.setAttribute("aria-label", this.timer ? "Pause" : "Play");
  }
}
