/* Which samples are listed, and in which order: scores, findings, filters. Nothing is drawn here.

   `index` is the document of all samples, `state` what a reader has chosen, by the fields' names. */
"use strict";
const selection = (index, state) => {
  // What tells scores of one metric apart stands behind its name.
  const named = (metric, apart, name = metric) => (apart ? `${name} (${apart})` : name);
  const labels = new Map(index.columns.map(([, , metric, , apart]) => [named(metric, apart), named(metric, apart, index.labels[metric])]));
  const label = (name) => labels.get(name) ?? index.labels[name] ?? name;
  const turnName = (turn) =>
    turn === 0 ? (index.levels[0] ?? "whole conversation")
      : `turn ${turn}${index.levels[turn] ? `, ${index.levels[turn]}` : ""}`;

  /* ---- scores ---- */

  const keyOf = (run, condition, metric, turn) => `${run}|${condition}|${metric}|${turn}`;
  const placeOf = new Map(index.columns.map(([run, under, of, at, apart], place) => [keyOf(run, under, named(of, apart), at), place]));
  const judged = index.columns.filter(([, , metric]) => !index.endings.includes(metric));
  const metrics = [...new Set(judged.map(([, , metric, , apart]) => named(metric, apart)))];
  const scale = metrics.includes(index.scale) ? index.scale : (metrics[0] ?? "");
  const turns = [...new Set(index.columns.filter(([, , metric, turn, apart]) => named(metric, apart) === scale && turn !== null).map(([, , , turn]) => turn))]
    .sort((one, two) => (one || Infinity) - (two || Infinity)).map(String);
  const keys = index.facets.map((facet) =>
    facet.values.map(([at, value]) => (facet.turned ? `${at}:${value}` : value)));

  function columns({ run, condition, metric, turn }) {
    const places = [];
    index.columns.forEach(([inRun, under, of, at, apart], place) => {
      if (run !== undefined && inRun !== run) return;
      if (condition && under !== condition) return;
      if (metric ? of !== metric && named(of, apart) !== metric : index.endings.includes(of)) return;
      if (turn && String(at) !== turn) return;
      places.push(place);
    });
    return places;
  }

  const numbers = (sample, places) =>
    places.map((place) => sample.s[place]).filter((value) => typeof value === "number");
  const reasons = (sample, places) =>
    places.map((place) => sample.s[place]).filter((value) => typeof value === "string");
  const score = (sample, run, condition, metric, turn) =>
    sample.s[placeOf.get(keyOf(run, condition, metric, turn))];

  const range = index.samples.flatMap((sample) => numbers(sample, columns({ metric: scale })))
    .reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

  /* Where a score lies between the lowest and the highest, from 0 to 1. */
  const shade = (value) => (range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : 0.5);

  // Several runs are set side by side under one condition at a time.
  const condition = () => state.condition || (index.runs.length > 1 ? index.conditions[0] : "");
  const metric = () => state.metric || scale;
  const picked = () => ({ condition: condition(), metric: state.metric, turn: state.turn });

  /* Differences of a metric between two runs or two conditions. The whole conversation counts only
     where it is chosen: given turns raise it by themselves. */
  function differences(sample, from, to) {
    const chosen = state.turn ? [state.turn] : turns.filter((turn) => turn !== "0");
    return chosen
      .map((turn) => [score(sample, ...from, metric(), turn), score(sample, ...to, metric(), turn)])
      .filter((pair) => pair.every((value) => typeof value === "number"))
      .map(([before, after]) => after - before);
  }

  function compared(sample, name) {
    const first = index.conditions[0];
    if (name.startsWith("run")) {
      return differences(sample, [0, condition()], [Number(name.slice(3)), condition()]);
    }
    return index.runs.flatMap((_, run) => differences(sample, [run, first], [run, name]));
  }

  const FINDINGS = {
    better: (sample, name) => compared(sample, name).some((change) => change > 0),
    worse: (sample, name) => compared(sample, name).some((change) => change < 0),
    same: (sample, name) => {
      const changes = compared(sample, name);
      return changes.length > 0 && changes.every((change) => change === 0);
    },
    mark: (sample, name) => (sample.m ?? []).includes(Number(name)),
    cut: (sample) => numbers(sample, columns({ ...picked(), metric: "truncated" })).some(Boolean),
    filtered: (sample) => numbers(sample, columns({ ...picked(), metric: "filtered" })).some(Boolean),
    failed: (sample) =>
      reasons(sample, columns({ ...picked(), metric: "truncated" })).some((why) => /^(failed|skipped)/.test(why)),
    unread: (sample) => reasons(sample, columns(picked())).includes("unparsed"),
    missing: (sample) => reasons(sample, columns(picked())).length > 0,
  };

  /* What can be looked for, in groups: [title, [[value, text], ...]]. */
  function findings() {
    if (!index.columns.length) return [];
    const [first, ...others] = index.conditions;
    const groups = [];
    const compare = (key, text) => [[`better:${key}`, `better ${text}`], [`worse:${key}`, `worse ${text}`], [`same:${key}`, `the same ${text}`]];
    index.runs.slice(1).forEach((name, at) => groups.push([`${name} against ${index.runs[0]}`, compare(`run${at + 1}`, `with ${name}`)]));
    for (const name of others) groups.push([`${label(name)} against ${label(first)}`, compare(name, `with ${label(name)}`)]);
    if (index.marks.length) groups.push(["Failures", index.marks.map((mark, at) => [`mark:${at}`, mark])]);
    groups.push(["Lost", [["cut", "answer cut off"], ["filtered", "answer filtered"], ["failed", "answer failed"], ["unread", "verdict unreadable"], ["missing", "score missing"]]]);
    return groups;
  }

  /* ---- filters ---- */

  function passes(sample) {
    if (state.show) {
      const [name, of] = state.show.split(":");
      if (FINDINGS[name] && !FINDINGS[name](sample, of)) return false;
    }
    if (state.from || state.to) {
      const low = state.from ? Number(state.from) : -Infinity;
      const high = state.to ? Number(state.to) : Infinity;
      const places = columns({ ...picked(), metric: metric() });
      if (!numbers(sample, places).some((value) => value >= low && value <= high)) return false;
    }
    return index.facets.every((facet, number) => {
      const wanted = state[facet.name];
      return !wanted || sample.f[number].some((id) => keys[number][id] === wanted);
    });
  }

  const mean = (values) => (values.length ? values.reduce((sum, each) => sum + each, 0) / values.length : null);

  function sortKey(sample) {
    if (state.sort.startsWith("gain")) {
      const goal = state.condition && state.condition !== index.conditions[0] ? state.condition : index.conditions[1];
      const change = mean(index.runs.length > 1 ? compared(sample, `run${state.sort.slice(4) || 1}`) : compared(sample, goal));
      return change === null ? null : -change;
    }
    const value = mean(numbers(sample, columns({ ...picked(), metric: metric() })));
    return value === null || state.sort === "low" ? value : -value;
  }

  /* The places of the samples that are listed; `found` holds those that a search has found. */
  function arranged(found) {
    const order = index.samples.map((_, at) => at)
      .filter((at) => (!found || found.has(at)) && passes(index.samples[at]));
    if (!state.sort) return order;
    const sortKeys = new Map(order.map((at) => [at, sortKey(index.samples[at])]));
    const key = (at) => sortKeys.get(at) ?? Infinity;
    return order.sort((one, two) => (key(one) === key(two) ? one - two : key(one) - key(two)));
  }

  /* A sample's tags that belong to a turn, or (without a number) to all of it. */
  function tagsOf(sample, number) {
    return index.facets.flatMap((facet, place) =>
      sample.f[place]
        .map((id) => facet.values[id])
        .filter(([at]) => (number === undefined ? !at : at === number && number !== 0))
        .map(([, value]) => [facet.name, value]));
  }

  return { label, turnName, metrics, scale, turns, keys, score, shade, condition, findings, arranged, tagsOf };
};
