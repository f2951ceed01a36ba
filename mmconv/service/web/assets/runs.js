/* The list of runs: searched, filtered and sorted here, as the address says. It is read again every
   few seconds; a run that has not changed keeps its row. */
"use strict";
(() => {
  const { byId, make, count } = dom;
  const SOON_SECONDS = 2;
  const LATER_SECONDS = 10;
  const MOST_COMPARED = 16;
  const MOST_RANKED = 64;
  const REMEMBERED = "mmconv-compared";
  const BRIEF = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };

  const filters = byId("filters");
  const chosen = new Set(JSON.parse(sessionStorage.getItem(REMEMBERED) ?? "[]"));
  const rows = new Map();
  let runs = [];
  let choices = null;
  let sort = "";
  let rising = false;

  /* ---- the address says which ---- */

  function readAddress() {
    const asked = new URLSearchParams(location.search);
    for (const field of shell.fieldsOf(filters)) {
      const value = asked.get(field.name) ?? "";
      // it becomes one of the choices when the runs are there
      if (field.tagName === "SELECT") field.append(make("option", { value }, value));
      field.value = value;
    }
    sort = asked.get("sort") ?? "";
    rising = asked.get("order") === "rising";
  }

  function writeAddress() {
    const set = [...new FormData(filters), ["sort", sort], ["order", rising ? "rising" : ""]].filter(([, value]) => value);
    history.replaceState(null, "", set.length ? `?${new URLSearchParams(set)}` : location.pathname);
  }

  const value = (name) => filters.elements[name].value;

  /* ---- what a run is found and sorted by ---- */

  const judgeOf = (run) => run.request.models.judge ?? "";
  const nameOf = (run) => run.model ?? run.id;
  const timeOf = (run) => run.ended ?? run.updated;

  function details(run) {
    const said = [run.title, run.request.data, judgeOf(run) && `judged by ${judgeOf(run)}`];
    said.push(...jobs.settings(run.request).map(([name, text]) => `${name} ${text}`));
    if (run.lost) said.push(`${count(run.lost, "call")} lost`);
    return [...new Set(said.filter(Boolean))].join(" · ");
  }

  const FILTERS = {
    q: (run, words) => {
      const text = [nameOf(run), run.id, run.state, details(run), ...run.tags, run.note].join(" ").toLowerCase();
      return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
    },
    benchmark: (run, wanted) => run.benchmark === wanted,
    model: (run, wanted) => nameOf(run) === wanted,
    judge: (run, wanted) => judgeOf(run) === wanted,
    state: (run, wanted) => run.state === wanted,
    tag: (run, wanted) => run.tags.includes(wanted),
    since: (run, day) => new Date(timeOf(run)) >= new Date(`${day}T00:00`),
  };

  const passes = (run, but) => Object.entries(FILTERS)
    .every(([name, fits]) => name === but || !value(name) || fits(run, value(name)));

  /* The table of numbers that is shown: the chosen one, or the first that any of these runs has. */
  function board(some) {
    const titles = [...new Set(some.flatMap((run) => run.numbers.map((each) => each.title)))];
    const title = titles.includes(value("numbers")) ? value("numbers") : (titles[0] ?? "");
    const shown = new Map(some.map((run) => [run.id, run.numbers.find((each) => each.title === title)?.columns ?? {}]));
    const names = [...new Set([...shown.values()].flatMap(Object.keys))];
    return { title, titles, names, cell: (run, name) => shown.get(run.id)[name] };
  }

  const SORTS = { run: nameOf, state: (run) => run.state, ended: timeOf };

  function sorted(some, numbers) {
    const by = sort || "ended";
    const key = SORTS[by] ?? ((run) => numbers.cell(run, by)?.[0] ?? null);
    const sign = rising ? 1 : -1;
    const compare = (one, two) => {
      // runs without a number come last in either order
      if (one === null || two === null) return (one === null) - (two === null);
      return sign * (typeof one === "string" ? one.localeCompare(two, "en", { numeric: true }) : one - two);
    };
    return [...some].sort((one, two) => compare(key(one), key(two)));
  }

  /* ---- the table ---- */

  function choice(run) {
    const box = make("input", { type: "checkbox", "aria-label": `Choose ${nameOf(run)} on ${run.request.data}` });
    box.checked = chosen.has(run.id);
    box.addEventListener("change", () => choose([run], box.checked));
    return box;
  }

  function choose(some, whether) {
    for (const { id } of some) {
      if (whether) chosen.add(id);
      else chosen.delete(id);
    }
    sessionStorage.setItem(REMEMBERED, JSON.stringify([...chosen]));
    for (const [id, { node }] of rows) {
      const box = node.querySelector("input");
      if (box) box.checked = chosen.has(id);
    }
    tellChosen();
  }

  function tellChosen() {
    const text = (word) => (chosen.size ? `${word} ${count(chosen.size, "run")}` : word);
    byId("compare").textContent = chosen.size ? text("Compare") : "Compare";
    byId("compare").disabled = chosen.size < 2 || chosen.size > MOST_COMPARED;
    byId("rank").disabled = chosen.size < 2 || chosen.size > MOST_RANKED;
    byId("clear").hidden = !chosen.size;
  }

  function numberCell(cell) {
    if (!cell) return make("td", { class: "number nought" });
    const [, text, interval, counts, why] = cell;
    const title = [counts, why].filter(Boolean).join("; ");
    return make("td", { class: "number", title: title || null }, text,
      interval ? make("span", { class: "interval" }, interval) : "",
      why ? make("span", { class: "counts" }, counts) : "");
  }

  function stateCell(run) {
    const cell = make("td", { class: "words state" }, jobs.badge(run));
    if (jobs.active(run) || run.state === "stopped") cell.append(jobs.progress(run));
    if (run.error) cell.append(make("p", { class: "problem lines" }, run.error));
    if (choices && jobs.owns(run, choices)) cell.append(make("div", { class: "actions" }, ...jobs.actions(run, read)));
    return cell;
  }

  function row(run, numbers) {
    const name = make("a", { href: jobs.address(run), class: "name" }, nameOf(run));
    const head = make("th", { scope: "row" },
      make("div", { class: "run-head" }, run.benchmark ? choice(run) : make("span"),
        make("div", {}, name, make("p", { class: "hint", title: run.folder ?? null }, details(run)), ...jobs.notes(run))));
    return make("tr", { class: "run", "data-run": run.id, "data-state": run.state }, head,
      ...numbers.names.map((each) => numberCell(numbers.cell(run, each))),
      stateCell(run), make("td", { class: "words when" }, jobs.when(timeOf(run), BRIEF)));
  }

  function head(key, text, kind) {
    const is = (sort || "ended") === key;
    const item = make("th", { scope: "col", class: kind, "aria-sort": is ? (rising ? "ascending" : "descending") : null });
    const act = dom.button(text, () => {
      rising = is ? !rising : key === "run" || key === "state";
      sort = key;
      show();
      byId("heads").querySelector(`[data-key="${CSS.escape(key)}"]`).focus();
    });
    act.className = "sort";
    act.dataset.key = key;
    item.append(act);
    return item;
  }

  function heads(some, numbers) {
    const all = make("input", { type: "checkbox", "aria-label": "Choose all finished runs that are listed" });
    const finished = some.filter(jobs.hasResult);
    all.checked = finished.length > 0 && finished.every((run) => chosen.has(run.id));
    all.addEventListener("change", () => choose(finished, all.checked));
    const first = head("run", "run", "words");
    first.prepend(all, " ");
    const cells = [first, ...numbers.names.map((name) => head(name, name)), head("state", "state", "words"), head("ended", "date", "words")];
    return [make("tr", {}, ...cells)];
  }

  /* ---- the fields ---- */

  function offer(name, any, pairs) {
    const field = filters.elements[name];
    const now = field.value;
    const known = new Map([["", any], ...pairs]);
    // what the address asks for stays, even if no run has it
    if (now && !known.has(now)) known.set(now, now);
    field.replaceChildren(...[...known].map(([key, text]) => make("option", { value: key }, text)));
    field.value = now;
  }

  function fields(numbers) {
    const pairs = (key, text = key) => [...new Map(runs.filter(key).map((run) => [key(run), text(run)]))]
      .sort((one, two) => one[1].localeCompare(two[1], "en", { numeric: true }));
    offer("benchmark", "any", pairs((run) => run.benchmark, (run) => run.title));
    offer("model", "any", pairs(nameOf));
    offer("judge", "any", pairs(judgeOf));
    offer("state", "any", ["queued", "running", "done", "stopped", "failed"].map((each) => [each, each]));
    const tags = [...new Set(runs.flatMap((run) => run.tags))].sort();
    offer("tag", "any", tags.map((each) => [each, each]));
    offer("numbers", numbers.titles[0] ?? "none", numbers.titles.slice(1).map((each) => [each, each]));
  }

  /* ---- all of it ---- */

  const CONTROLS = "a, button, input";

  function show() {
    const listed = runs.filter((run) => passes(run));
    const numbers = board(listed);
    fields(numbers);
    writeAddress();
    const order = sorted(listed, numbers);
    const held = document.activeElement?.closest("#runs tr");
    const place = held ? [...held.querySelectorAll(CONTROLS)].indexOf(document.activeElement) : -1;
    const nodes = order.map((run) => {
      const text = JSON.stringify([numbers.title, numbers.names, run]);
      if (rows.get(run.id)?.text !== text) rows.set(run.id, { text, node: row(run, numbers) });
      return rows.get(run.id).node;
    });
    const body = byId("runs");
    if (nodes.length !== body.rows.length || nodes.some((node, at) => node !== body.rows[at])) body.replaceChildren(...nodes);
    if (held && !held.contains(document.activeElement)) {
      const fresh = nodes.find((node) => node.dataset.run === held.dataset.run);
      (fresh?.querySelectorAll(CONTROLS)[place] ?? fresh?.querySelector("a"))?.focus();
    }
    byId("heads").replaceChildren(...heads(listed, numbers));
    body.parentElement.hidden = !nodes.length;
    tellCount(listed.length);
  }

  function tellCount(listed) {
    const whole = count(runs.length, "run");
    let text = listed === runs.length ? whole : `${listed} of ${whole}`;
    if (!listed) text = runs.length ? `No run matches. There are ${whole}.` : "There are no runs yet.";
    if (byId("status").textContent !== text) byId("status").textContent = text;
  }

  async function read() {
    const page = await shell.attempt(() => api.get("/web/runs"));
    if (page) {
      runs = page.data;
      const ids = new Set(runs.map((run) => run.id));
      choose([...chosen].filter((id) => !ids.has(id)).map((id) => ({ id })), false);
      show();
    }
    document.documentElement.dataset.ready = "";
  }

  async function follow() {
    for (;;) {
      await api.pause(runs.some(jobs.active) ? SOON_SECONDS : LATER_SECONDS);
      if (!document.hidden) await read();
    }
  }

  const address = (page) => `/${page}?runs=${[...chosen].map(encodeURIComponent).join(",")}`;
  byId("compare").addEventListener("click", () => location.assign(address("compare")));
  byId("rank").addEventListener("click", () => location.assign(address("leaderboard")));
  byId("clear").addEventListener("click", () => choose([...chosen].map((id) => ({ id })), false));
  filters.addEventListener("input", show);
  filters.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("visibilitychange", () => { if (!document.hidden) read(); });

  async function start() {
    choices = await shell.attempt(() => api.get("/web/choices"));
    readAddress();
    tellChosen();
    if (choices && !shell.allows(choices, "read", "see runs")) {
      byId("status").textContent = "";
      document.documentElement.dataset.ready = "";
      return;
    }
    await read();
    follow();
  }

  start();
})();
