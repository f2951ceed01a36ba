/* The list of runs. Those that are under way are followed, a few at a time: a browser keeps no more
   than six connections to a server, and other tabs need some. */
"use strict";
(() => {
  const { byId, make, count } = dom;
  const FOLLOWED = 2;
  const LOOK_SECONDS = 10;
  const MOST_COMPARED = 16;

  const runs = new Map();
  const followed = new Map();
  const chosen = new Set(JSON.parse(sessionStorage.getItem("mmconv-compared") ?? "[]"));
  let choices = null;
  let next = null;
  let reading = 0;

  /* ---- the address says which ---- */

  const filters = byId("filters");
  const query = () => new URLSearchParams(
    [...new FormData(filters)].filter(([name, value]) => value && name !== "chosen"));

  function readAddress() {
    for (const [name, value] of new URLSearchParams(location.search)) {
      const field = filters.elements[name];
      if (!field) continue;
      if (![...field.options].some((each) => each.value === value)) field.append(make("option", { value }, value));
      field.value = value;
    }
  }

  /* ---- one run ---- */

  function choice(run) {
    const box = make("input", { type: "checkbox", name: "chosen", value: run.id, "aria-label": `Compare ${run.model} on ${run.request.data}` });
    box.checked = chosen.has(run.id);
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(run.id);
      else chosen.delete(run.id);
      sessionStorage.setItem("mmconv-compared", JSON.stringify([...chosen]));
      tellChosen();
    });
    return box;
  }

  function details(run) {
    const { request } = run;
    const said = jobs.settings(request).map(([name, value]) => `${name} ${value}`);
    if (request.models.judge) said.unshift(`judged by ${request.models.judge}`);
    if (run.lost) said.push(`${count(run.lost, "call")} lost`);
    return said.join(" · ");
  }

  function row(run) {
    const item = make("li", { class: "run", "data-run": run.id, "data-state": run.state });
    const name = make("a", { href: jobs.address(run), class: "name" }, `${run.model} on ${run.request.data}`);
    item.append(
      jobs.hasResult(run) ? choice(run) : make("span"),
      make("div", { class: "what" }, make("div", { class: "first" }, name, jobs.badge(run)),
        make("p", { class: "hint" }, details(run))),
      run.error ? make("p", { class: "problem lines" }, run.error) : jobs.progress(run),
      make("p", { class: "hint when" }, jobs.when(run.created)),
      make("div", { class: "actions" }, ...(choices && jobs.owns(run, choices) ? jobs.actions(run, update) : [])));
    return item;
  }

  const CONTROLS = "a, button, input";

  function update(run) {
    const known = JSON.stringify(runs.get(run.id)) === JSON.stringify(run);
    runs.set(run.id, run);
    const old = byId("runs").querySelector(`[data-run="${CSS.escape(run.id)}"]`);
    if (known || !old) return;
    const focused = [...old.querySelectorAll(CONTROLS)].indexOf(document.activeElement);
    const fresh = row(run);
    old.replaceWith(fresh);
    // What had the focus keeps it; where it is there no more, the run's name gets it.
    if (focused >= 0) (fresh.querySelectorAll(CONTROLS)[focused] ?? fresh.querySelector("a")).focus();
    follow();
  }

  function tellChosen() {
    byId("compare").disabled = chosen.size < 2 || chosen.size > MOST_COMPARED;
    byId("compare").textContent = chosen.size ? `Compare ${count(chosen.size, "run")}` : "Compare";
  }

  /* ---- all of them ---- */

  function list() {
    byId("runs").replaceChildren(...[...runs.values()].map(row));
    byId("older").hidden = !next;
    const none = query().size ? "No run matches." : "There are no runs yet.";
    byId("status").textContent = runs.size ? `${count(runs.size, "run", Boolean(next))}, newest first` : none;
    document.documentElement.dataset.ready = "";
    follow();
  }

  async function read(after) {
    const mine = ++reading;
    const asked = query();
    if (after) asked.set("after", after);
    const page = await shell.attempt(() => api.get(`/v1/runs?${asked}`));
    if (!page || mine !== reading) return;
    if (!after) runs.clear();
    for (const run of page.data) runs.set(run.id, run);
    next = page.next;
    list();
  }

  /* ---- following ---- */

  function follow() {
    const under = [...runs.values()].filter(jobs.active).sort((one) => (one.state === "running" ? -1 : 1));
    for (const run of under.slice(0, FOLLOWED)) {
      if (followed.has(run.id) || followed.size >= FOLLOWED || document.hidden) continue;
      const stop = new AbortController();
      followed.set(run.id, stop);
      jobs.watch(run, stop.signal, update)
        .catch((error) => shell.show(error))
        .finally(() => { followed.delete(run.id); follow(); });
    }
  }

  /* The newest runs as they are now: those of others, and those that are not followed. */
  async function renew() {
    const mine = reading;
    const page = await api.get(`/v1/runs?${query()}`).catch(() => null);
    if (!page || mine !== reading) return;
    const fresh = page.data.filter((run) => !runs.has(run.id));
    page.data.forEach(update);
    if (!fresh.length) return;
    const old = [...runs.values()].filter((run) => !fresh.includes(run));
    runs.clear();
    for (const run of [...fresh, ...old]) runs.set(run.id, run);
    list();
  }

  async function look() {
    for (;;) {
      await api.pause(LOOK_SECONDS);
      if (!document.hidden) await renew();
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return renew().then(follow);
    for (const stop of followed.values()) stop.abort();
    return undefined;
  });

  filters.addEventListener("change", (event) => {
    if (event.target.name === "chosen") return;
    history.replaceState(null, "", query().size ? `?${query()}` : location.pathname);
    read();
  });
  filters.addEventListener("submit", (event) => event.preventDefault());
  byId("older").addEventListener("click", () => read([...runs.keys()].at(-1)));
  byId("compare").addEventListener("click", () => {
    location.assign(`/compare?runs=${[...chosen].map(encodeURIComponent).join(",")}`);
  });

  async function start() {
    choices = await shell.attempt(() => api.get("/web/choices"));
    if (choices) {
      shell.options(filters.elements.model, choices.models, "any");
      const benchmarks = new Map(choices.data.map((each) => [each.benchmark.id, each.benchmark.name]));
      filters.elements.benchmark.append(...[...benchmarks].map(([value, text]) => make("option", { value }, text)));
    }
    readAddress();
    tellChosen();
    if (choices && !shell.allows(choices, "read", "see runs")) {
      byId("status").textContent = "";
      document.documentElement.dataset.ready = "";
      return;
    }
    await read();
    look();
  }

  start();
})();
