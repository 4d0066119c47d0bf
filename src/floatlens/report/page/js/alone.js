// The explorer by itself, as notebooks show it.

import { Explorer } from "./explorer.js";
import { startTheme } from "./theme.js";

startTheme(null);
new Explorer().ready.then(() => {
  document.documentElement.dataset.ready = "true";
});
