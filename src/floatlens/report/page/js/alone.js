// The explorer by itself, as notebooks show it.

import { Explorer, sayFailed } from "./explorer.js";
import { startTheme } from "./theme.js";

async function explore() {
  try {
    await new Explorer().ready;
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    sayFailed(error);
  }
}

// A frame has no size before it is laid out, and how many models are shown first depends on it.
const laidOut = new ResizeObserver(() => {
  laidOut.disconnect();
  startTheme(null);
  explore();
});
laidOut.observe(document.documentElement);
