// The explorer by itself, as notebooks show it.

import { Explorer } from "./explorer.js";
import { startTheme } from "./theme.js";

// A frame has no size before it is laid out, and how many models are shown first depends on it.
const laidOut = new ResizeObserver(() => {
  laidOut.disconnect();
  startTheme(null);
  new Explorer().ready.then(() => {
    document.documentElement.dataset.ready = "true";
  });
});
laidOut.observe(document.documentElement);
