/* How a run is: its state, progress and the buttons that stop it or go on with it. */
"use strict";
const jobs = (() => {
  const { make, button, count } = dom;

  const active = (run) => run.state === "queued" || run.state === "running";
  const address = (run) => `/runs/${encodeURIComponent(run.id)}`;
  const path = (run) => `/v1/runs/${encodeURIComponent(run.id)}`;

  function spell(seconds) {
    if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
    return `${(seconds / 3600).toFixed(1)} h`;
  }

  const number = (value) => value.toLocaleString("en");

  function when(text, how = { dateStyle: "medium", timeStyle: "short" }) {
    const time = new Date(text);
    const shown = time.toLocaleString(undefined, how);
    return make("time", { datetime: text, title: time.toISOString() }, shown);
  }

  function badge(run) {
    const word = run.stopping && active(run) ? "stopping" : run.state;
    return make("span", { class: `badge ${word}` }, word);
  }

  /* A bar of the calls that have ended, and in words how fast and how much longer. */
  function progress(run) {
    const { calls, planned } = run.progress;
    const box = make("div", { class: "progress" });
    if (active(run) || run.state === "stopped") {
      box.append(make("progress", { max: planned || 1, value: run.state === "queued" && !planned ? 0 : calls, "aria-label": "Calls that have ended" }));
    }
    box.append(make("p", { class: "hint" }, callsText(run)));
    return box;
  }

  function callsText(run) {
    const { calls, planned, replies, requested, cached, failed, skipped, rate, seconds_left: left } = run.progress;
    const parts = [];
    if (run.state === "queued" && !planned) return "Waits for its turn.";
    if (run.state !== "done") parts.push(`${number(calls)} of ${count(planned, "call")}`);
    parts.push(count(replies, "answer"));
    if (cached && requested) parts.push(`${number(cached)} of them cached`);
    if (failed) parts.push(`${number(failed)} failed`);
    if (skipped) parts.push(`${number(skipped)} skipped`);
    if (run.state === "running") {
      if (rate) parts.push(`${rate >= 10 ? Math.round(rate) : rate} answers/s`);
      if (left !== null) parts.push(`${spell(left)} left`);
    }
    if (run.state === "done" && run.progress.seconds) parts.push(`in ${spell(run.progress.seconds)}`);
    return parts.join(" · ");
  }

  /* Whether the reader may stop, resume and remove a run; `choices` name the reader. */
  const owns = (run, { caller, scopes }) =>
    scopes.includes("admin") || (scopes.includes("run") && run.owner === caller);

  /* Buttons for what can be done with a run of one's own; `after` gets it as it is then. */
  function actions(run, after) {
    const act = (text, how) => {
      const item = button(text, async () => {
        item.disabled = true;
        const changed = await shell.attempt(how);
        item.disabled = false;
        if (changed) after(changed);
      });
      return item;
    };
    if (active(run)) return run.stopping ? [] : [act("Stop", () => api.remove(path(run)))];
    const again = () => api.post("/v1/runs", run.request);
    if (run.state === "stopped") return [act("Resume", again)];
    if (run.state === "failed") return [act("Try again", again)];
    return run.lost ? [act("Ask again what was lost", again)] : [];
  }

  /* What a run's request sets beyond models and data, as [name, text]. */
  function settings({ conditions, limit, shuffle, samples, trials, seed, options, sampling }) {
    const drawn = Object.entries(sampling ?? {}).flatMap(([role, set]) =>
      Object.entries(set).map(([name, value]) => [`${role === "candidate" ? "" : `${role} `}${name}`, value]));
    return [["at most", limit && count(limit, "sample")], ["drawn by the seed", shuffle], ["samples", samples],
      ["trials", trials], ["seed", seed], ["conditions", conditions],
      ...drawn, ...Object.entries(options ?? {})]
      .filter(([, value]) => value !== undefined && value !== null)
      .map(([name, value]) => [name.replaceAll("_", " "), Array.isArray(value) ? value.join(", ") : String(value)]);
  }

  /* What people wrote about a run. */
  function notes({ note, tags }) {
    const shown = tags.map((tag) => make("span", { class: "badge" }, tag));
    return [tags.length ? make("p", { class: "first" }, ...shown) : "", note ? make("p", { class: "hint lines" }, note) : ""];
  }

  /* Follow a run until it ends; `change` gets it each time that it is another. */
  async function watch(run, signal, change) {
    for await (const [, update] of api.events(`${path(run)}/events`, signal)) change(update);
  }

  /* Samples as they are by now, page by page, for the browser of samples. */
  async function pagedSource(path, picture, query = "") {
    const PAGE = `limit=50${query}`;
    const first = await api.get(`${path}?${PAGE}`);
    const { samples: known } = first.index;
    let next = first.next;

    async function more() {
      const page = await api.get(`${path}?${PAGE}&after=${encodeURIComponent(next)}`);
      known.push(...page.index.samples);
      next = page.next;
      source.more = next && more;
    }

    /* How far the first samples are by now; the names of those that have got on. */
    async function renew() {
      const page = await api.get(`${path}?${PAGE}`);
      const changed = page.index.samples.filter((sample, at) => known[at]?.t !== sample.t);
      page.index.samples.forEach((sample, at) => { known[at] = sample; });
      return new Set(changed.map((sample) => sample.i));
    }

    const address = (name) => `${path}/${name.split("/").map(encodeURIComponent).join("/")}${query.replace("&", "?")}`;
    const source = { index: first.index, sample: (at) => api.get(address(known[at].i)), picture, more: next && more, renew };
    return source;
  }

  /* Runs that are finished, or were and have been taken up again. */
  const hasResult = (run) => run.unscored !== null;

  return { pagedSource, active, owns, address, path, badge, progress, actions, settings, notes, watch, when, hasResult };
})();
