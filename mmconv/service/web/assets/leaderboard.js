/* Runs of one benchmark, the best first: the address names them, the column and what may differ. */
"use strict";
(() => {
  const { byId, make } = dom;
  const form = byId("board-form");
  const asked = new URLSearchParams(location.search);
  const runs = asked.get("runs") ?? "";
  let reading = 0;

  function query() {
    const chosen = [...new FormData(form)].filter(([, value]) => value);
    return new URLSearchParams([["runs", runs], ...chosen]);
  }

  /* The names of runs become links to their pages. */
  function link(place, names) {
    for (const head of place.querySelectorAll("tbody th")) {
      const id = names[head.textContent];
      if (id) head.replaceChildren(make("a", { href: jobs.address({ id }) }, head.textContent));
    }
  }

  async function show() {
    const mine = ++reading;
    const place = byId("findings");
    place.setAttribute("aria-busy", "true");
    byId("status").textContent = "The runs are being ranked…";
    const board = await shell.attempt(() => api.get(`/web/leaderboard?${query()}`));
    if (mine !== reading) return;
    byId("status").textContent = "";
    place.setAttribute("aria-busy", "false");
    if (!board) return place.replaceChildren();
    // The server wrote it; names of models are escaped in it, and the page's policy runs no script.
    place.innerHTML = board.html;
    link(place, board.runs);
    const now = form.elements.sort.value;
    shell.options(form.elements.sort, board.columns, "main score");
    form.elements.sort.value = now;
    return undefined;
  }

  form.addEventListener("change", () => {
    history.replaceState(null, "", `?${query()}`);
    show();
  });
  form.addEventListener("submit", (event) => event.preventDefault());

  async function start() {
    const sort = asked.get("sort") ?? "";
    form.elements.sort.append(make("option", { value: sort }, sort || "main score"));
    for (const box of form.querySelectorAll("input")) box.checked = asked.getAll("despite").includes(box.value);
    byId("to-compare").href = `/compare?runs=${runs.split(",").map(encodeURIComponent).join(",")}`;
    if (runs) await show();
    else byId("status").textContent = "Choose runs in the list first.";
    document.documentElement.dataset.ready = "";
  }

  start();
})();
