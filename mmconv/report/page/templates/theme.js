/* Light or dark: as the system says until the button `theme` is used, which is remembered. */
"use strict";
const theme = (() => {
  const NAME = "mmconv-theme";
  const root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  function set(chosen) {
    if (chosen) root.dataset.theme = chosen;
    dom.byId("theme").textContent = dark() ? "Light" : "Dark";
  }

  function change() {
    set(dark() ? "light" : "dark");
    dom.remember(NAME, root.dataset.theme);
  }

  function start() {
    set(dom.remembered(NAME));
    dom.byId("theme").addEventListener("click", change);
  }

  return { start, change };
})();
