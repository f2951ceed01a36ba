/* The browser of samples: filters, search, keys. What models wrote is only ever set as text.
   The page's data are blocks of gzipped JSON; one is unpacked when a sample of it is looked at. */
"use strict";
(() => {
  const SHOWN_AT_ONCE = 150;
  const BLOCKS_KEPT = 64;
  const COLOURS = ["series-1", "series-2", "series-3", "series-4", "series-5"];
  const byId = (id) => document.getElementById(id);

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== false && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== ""));
    return node;
  }

  /* ---- data ---- */

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  const blocks = new Map();
  const arriving = new Map();

  // Files beside the page call this: a page on a disk may load scripts, and nothing else.
  window.mmconvBlock = (number, texts, pictures) => arriving.get(number)?.({ texts, pictures });

  function loadBeside(number) {
    return new Promise((resolve, reject) => {
      const file = `${index.folder}/${number}.js`;
      arriving.set(number, resolve);
      const script = make("script", { src: file });
      script.onerror = () => reject(new Error(`${file} is not beside this page.`));
      document.head.append(script);
    });
  }

  async function readBlock(number) {
    const texts = byId(`texts-${number}`);
    const packed = texts
      ? { texts: texts.textContent, pictures: JSON.parse(byId(`pictures-${number}`).textContent) }
      : await loadBeside(number);
    return { samples: await unpack(packed.texts), pictures: packed.pictures };
  }

  function block(number) {
    if (!blocks.has(number)) {
      blocks.set(number, readBlock(number));
      if (blocks.size > BLOCKS_KEPT) blocks.delete(blocks.keys().next().value);
    }
    return blocks.get(number);
  }

  const blockOf = (at) => Math.floor(at / index.block);
  const sampleAt = async (at) => (await block(blockOf(at))).samples[at % index.block];

  async function picture(at, name) {
    const data = (await block(blockOf(at))).pictures[name];
    return data ? `data:image/webp;base64,${data}` : null;
  }

  /* ---- state: what is chosen, and the address that says so ---- */

  let index = null;
  let found = null;
  let order = [];
  let shownRows = SHOWN_AT_ONCE;
  let allOpen = false;
  const state = {};

  function readAddress() {
    const text = location.hash.slice(1);
    if (!text.includes("=")) return false;
    for (const name of Object.keys(state)) delete state[name];
    for (const [name, value] of new URLSearchParams(text)) if (value) state[name] = value;
    return true;
  }

  function writeAddress() {
    const set = Object.entries(state).filter(([, value]) => value);
    const text = new URLSearchParams(set).toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }

  /* ---- scores ---- */

  const label = (name) => index.labels[name] ?? name;
  const turnName = (turn) =>
    turn === 0 ? (index.levels[0] ?? "whole conversation")
      : `turn ${turn}${index.levels[turn] ? `, ${index.levels[turn]}` : ""}`;

  function columns({ run, condition, metric, turn }) {
    const places = [];
    index.columns.forEach(([inRun, under, of, at], place) => {
      if (run !== undefined && inRun !== run) return;
      if (condition && under !== condition) return;
      if (metric ? of !== metric : index.endings.includes(of)) return;
      if (turn && String(at) !== turn) return;
      places.push(place);
    });
    return places;
  }

  const numbers = (sample, places) =>
    places.map((place) => sample.s[place]).filter((value) => typeof value === "number");
  const reasons = (sample, places) =>
    places.map((place) => sample.s[place]).filter((value) => typeof value === "string");

  const placeOf = new Map();
  const keyOf = (run, condition, metric, turn) => `${run}|${condition}|${metric}|${turn}`;
  const score = (sample, run, condition, metric, turn) =>
    sample.s[placeOf.get(keyOf(run, condition, metric, turn))];

  /* Differences of the first metric (or the one chosen) between two runs or two conditions. The
     whole conversation counts only where it is chosen: given turns raise it by themselves. */
  function differences(sample, from, to) {
    const metric = state.metric || index.scale;
    const turns = state.turn ? [state.turn] : index.turns.filter((turn) => turn !== "0");
    return turns
      .map((turn) => [score(sample, ...from, metric, turn), score(sample, ...to, metric, turn)])
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
    failed: (sample) =>
      reasons(sample, columns({ ...picked(), metric: "truncated" })).some((why) => /^(failed|skipped)/.test(why)),
    unread: (sample) => reasons(sample, columns(picked())).includes("unparsed"),
    missing: (sample) => reasons(sample, columns(picked())).length > 0,
  };

  // Several runs are set side by side under one condition at a time.
  const condition = () => state.condition || (index.runs.length > 1 ? index.conditions[0] : "");
  const picked = () => ({ condition: condition(), metric: state.metric, turn: state.turn });

  /* ---- filters ---- */

  function passes(sample, at) {
    if (found && !found.has(at)) return false;
    if (state.show) {
      const [name, of] = state.show.split(":");
      if (FINDINGS[name] && !FINDINGS[name](sample, of)) return false;
    }
    if (state.from || state.to) {
      const low = state.from ? Number(state.from) : -Infinity;
      const high = state.to ? Number(state.to) : Infinity;
      const places = columns({ ...picked(), metric: state.metric || index.scale });
      if (!numbers(sample, places).some((value) => value >= low && value <= high)) return false;
    }
    return index.facets.every((facet, number) => {
      const wanted = state[facet.name];
      return !wanted || sample.f[number].some((id) => facet.keys[id] === wanted);
    });
  }

  function mean(values) {
    return values.length ? values.reduce((sum, each) => sum + each, 0) / values.length : null;
  }

  function sortKey(sample) {
    if (state.sort === "gain") {
      const goal = state.condition && state.condition !== index.conditions[0] ? state.condition : index.conditions[1];
      const change = mean(index.runs.length > 1 ? compared(sample, "run1") : compared(sample, goal));
      return change === null ? null : -change;
    }
    const value = mean(numbers(sample, columns({ ...picked(), metric: state.metric || index.scale })));
    return value === null || state.sort === "low" ? value : -value;
  }

  function arrange() {
    order = index.samples.map((_, at) => at).filter((at) => passes(index.samples[at], at));
    if (!state.sort) return;
    const keys = new Map(order.map((at) => [at, sortKey(index.samples[at])]));
    order.sort((one, two) => (keys.get(one) ?? Infinity) - (keys.get(two) ?? Infinity) || one - two);
  }

  function* textsIn(value) {
    if (typeof value === "string") yield value;
    else if (Array.isArray(value)) for (const each of value) yield* textsIn(each);
    else if (value) {
      for (const name of ["text", "about", "thought", "problem", "asked", "answers", "verdicts", "turns", "columns"]) {
        yield* textsIn(value[name]);
      }
    }
  }

  let searching = 0;
  async function search() {
    const mine = ++searching;
    const words = (state.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      found = null;
      return true;
    }
    const hits = new Set();
    const last = blockOf(index.samples.length - 1);
    for (let number = 0; number <= last; number += 1) {
      const { samples } = await block(number).catch(() => ({ samples: [] }));
      if (mine !== searching) return false;
      samples.forEach((sample, place) => {
        const text = [sample.id, ...textsIn(sample)].join("\n").toLowerCase();
        if (words.every((word) => text.includes(word))) hits.add(number * index.block + place);
      });
    }
    found = hits;
    return true;
  }

  /* ---- the list ---- */

  function shade(value) {
    const [low, high] = index.range;
    return high > low ? `${Math.round((100 * (value - low)) / (high - low))}%` : "50%";
  }

  /* A square for each turn (across) under each condition of each run (down). */
  function matrix(sample) {
    const rows = index.runs.flatMap((_, run) => index.conditions.map((condition) => [run, condition]));
    if (!index.turns.length || index.turns.length > 12 || rows.length > 6) return null;
    const box = make("span", { class: "matrix", "aria-hidden": "true", style: `grid-template-columns: repeat(${index.turns.length}, auto)` });
    for (const [run, condition] of rows) {
      for (const turn of index.turns) {
        const value = score(sample, run, condition, index.scale, turn);
        const told = `${label(condition)}, ${turnName(Number(turn))}: ${value ?? "no score"}`;
        const kind = typeof value === "number" ? null : typeof value === "string" ? "lost" : "none";
        box.append(make("i", { class: kind, title: kind === "none" ? null : told, style: kind ? null : `--shade: ${shade(value)}` }));
      }
    }
    return box;
  }

  function row(at) {
    const sample = index.samples[at];
    const link = make("a", { href: address({ sample: sample.i }), class: index.pictured ? null : "plain", "aria-current": state.sample === sample.i ? "true" : null });
    if (index.pictured) {
      const image = make("img", { alt: "", width: 48, height: 48, class: "blank" });
      pictures.observe(image);
      image.dataset.at = at;
      link.append(image);
    }
    link.append(make("span", {}, make("span", { class: "name" }, sample.i), make("span", { class: "snippet" }, sample.t)));
    const box = matrix(sample);
    if (box) link.append(box);
    return make("li", {}, link);
  }

  const pictures = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      pictures.unobserve(entry.target);
      const at = Number(entry.target.dataset.at);
      const name = index.samples[at].p;
      if (name) picture(at, name).then((source) => source && entry.target.setAttribute("src", source), () => {});
    }
  });

  const address = (change) => `#${new URLSearchParams(Object.entries({ ...state, ...change }).filter(([, value]) => value))}`;

  function list() {
    byId("list").replaceChildren(...order.slice(0, shownRows).map(row));
    byId("more").hidden = order.length <= shownRows;
    const whole = index.samples.length;
    byId("count").textContent = order.length === whole ? `${whole} samples` : `${order.length} of ${whole} samples`;
  }

  function markCurrent() {
    for (const link of byId("list").querySelectorAll("a[aria-current]")) link.removeAttribute("aria-current");
    const place = order.findIndex((at) => index.samples[at].i === state.sample);
    if (place < 0) return;
    if (place >= shownRows) {
      shownRows = place + SHOWN_AT_ONCE;
      list();
    }
    const link = byId("list").children[place].firstElementChild;
    link.setAttribute("aria-current", "true");
    const pane = byId("list").parentElement;
    const top = link.getBoundingClientRect().top - pane.getBoundingClientRect().top + pane.scrollTop;
    if (top < pane.scrollTop || top + link.offsetHeight > pane.scrollTop + pane.clientHeight) {
      pane.scrollTop = top - pane.clientHeight / 3;
    }
  }

  /* ---- one sample ---- */

  /* Text with the words that are searched for marked. */
  function marked(text) {
    const words = (state.q ?? "").split(/\s+/).filter(Boolean);
    if (!words.length) return [text];
    const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const parts = text.split(new RegExp(`(${escaped.join("|")})`, "gi"));
    return parts.map((part, place) => (place % 2 ? make("mark", {}, part) : part));
  }

  function verdict(each) {
    const name = each.call.split("/")[0].replace(/_[AB]$/, "");
    const summary = make("summary", {}, make("span", { class: "how" }, `${name} `));
    if (each.said === undefined) summary.append(make("span", { class: "problem" }, each.problem));
    else summary.append(make("b", {}, each.said));
    if (each.tries) summary.append(make("span", { class: "how" }, ` (read after ${each.tries} tries)`));
    const open = allOpen || (state.q && each.text.toLowerCase().includes(state.q.toLowerCase()));
    return make("details", { class: "verdict", open: open ? "" : null }, summary, make("p", {}, ...marked(each.text)));
  }

  function answer(each) {
    const box = make("div", { class: each.given ? "answer given" : "answer" });
    if (each.given) box.append(make("p", { class: "label" }, index.given));
    if (each.prompt) box.append(make("p", { class: "small" }, `asked by the prompt file ${each.prompt}`));
    if (each.thought) {
      box.append(make("details", { class: "verdict" }, make("summary", {}, "thought aloud"), make("p", {}, ...marked(each.thought))));
    }
    if (each.problem) box.append(make("p", { class: "problem" }, each.problem));
    else box.append(make("p", { class: "text" }, ...(each.text ? marked(each.text) : [make("i", {}, "(empty)")])));
    if (each.facts || each.cut) {
      box.append(make("p", { class: "small" }, each.cut ? make("span", { class: "cut" }, "cut off ") : "", each.facts ?? ""));
    }
    box.append(...(each.verdicts ?? []).map(verdict));
    return box;
  }

  /* What the data say of a sample: its caption, its references. */
  function told({ name, text }) {
    return make("details", { class: "verdict" }, make("summary", {}, name), make("p", {}, ...marked(text)));
  }

  function columnTitle(column) {
    const many = index.conditions.length > 1;
    const parts = [index.runs.length > 1 ? index.runs[column.run] : "", many ? label(column.condition) : ""];
    return parts.filter(Boolean).join(" · ");
  }

  function colour(column) {
    const place = index.runs.length > 1 ? column.run : index.conditions.indexOf(column.condition);
    return `var(--${COLOURS[place % COLOURS.length]})`;
  }

  function question(message) {
    if (message.role !== "system") return make("p", { class: "asked" }, ...marked(message.text));
    return make("details", { class: "asked" }, make("summary", {}, "system prompt"), make("p", {}, ...marked(message.text)));
  }

  /* Questions that all columns share stand above them, once. */
  function turn(number, cells, tags) {
    const asked = JSON.stringify(cells.find(([, each]) => each)[1].asked);
    const shared = cells.every(([, each]) => !each || JSON.stringify(each.asked) === asked);
    const title = [turnName(number), ...tags].join(" · ");
    const box = make("section", { class: "turn" }, make("h4", {}, title.charAt(0).toUpperCase() + title.slice(1)));
    if (shared) box.append(...JSON.parse(asked).map(question));
    box.append(side(cells, (each) => [...(shared ? [] : each.asked.map(question)), ...each.answers.map(answer)]));
    return box;
  }

  function side(cells, fill) {
    const box = make("div", { class: "columns", style: `--columns: ${cells.length}` });
    for (const [column, each] of cells) {
      const title = columnTitle(column);
      const head = title ? make("h5", { style: `--colour: ${colour(column)}` }, title) : "";
      box.append(make("div", { class: "column" }, head, ...(each ? fill(each) : [])));
    }
    return box;
  }

  function conversation(sample, entry) {
    const chosen = sample.columns.filter((column) => !condition() || column.condition === condition());
    const shown = chosen.length ? chosen : sample.columns;
    const all = new Set(shown.flatMap((column) => column.turns.map((each) => each.n)));
    const boxes = [...all].sort((one, two) => one - two).map((number) => {
      const cells = shown.map((column) => [column, column.turns.find((each) => each.n === number)]);
      return turn(number, cells, tagsOf(entry, number).map(([, value]) => value));
    });
    if (shown.some((column) => column.verdicts.length)) {
      const title = index.levels[0] ?? "Verdicts";
      const box = make("section", { class: "turn" }, make("h4", {}, title.charAt(0).toUpperCase() + title.slice(1)));
      box.append(side(shown.map((column) => [column, column]), (column) => column.verdicts.map(verdict)));
      boxes.push(box);
    }
    return boxes;
  }

  /* A sample's tags that belong to a turn, or (without a number) to all of it. */
  function tagsOf(entry, number) {
    return index.facets.flatMap((facet, place) =>
      entry.f[place]
        .map((id) => facet.values[id])
        .filter(([at]) => (number === undefined ? !at : at === number && number !== 0))
        .map(([, value]) => [facet.name, value]));
  }

  async function detail() {
    const at = index.samples.findIndex((sample) => sample.i === state.sample);
    const pane = byId("detail");
    if (at < 0) {
      pane.replaceChildren(make("p", {}, state.sample ? `There is no sample ${state.sample} in this page.` : "No sample is open."));
      return;
    }
    const entry = index.samples[at];
    let sample;
    try {
      sample = await sampleAt(at);
    } catch (error) {
      pane.replaceChildren(make("p", { class: "problem" }, error.message));
      return;
    }
    if (entry.i !== state.sample) return;
    const images = await Promise.all((sample.pictures ?? []).map((name) => picture(at, name)));
    const head = make("div", { class: "detail-head" });
    images.forEach((source) => head.append(source
      ? make("img", { src: source, alt: `The picture of sample ${entry.i}` })
      : make("p", { class: "small" }, "The picture could not be had.")));
    const marks = (entry.m ?? []).map((mark) => make("li", { class: "mark" }, index.marks[mark]));
    const tags = tagsOf(entry).map(([name, value]) => make("li", { title: name }, value));
    head.append(make("div", { class: "about" },
      make("h3", {}, `Sample ${entry.i}`),
      tags.length + marks.length ? make("ul", { class: "tags" }, ...tags, ...marks) : "",
      make("div", { class: "steps" }, button("Previous", () => step(-1)), button("Next", () => step(1)),
        button(allOpen ? "Close rationales" : "Open rationales", openAll)),
      ...sample.about.map(told)));
    pane.replaceChildren(head, ...conversation(sample, entry));
  }

  function button(text, act) {
    const made = make("button", { type: "button" }, text);
    made.addEventListener("click", act);
    return made;
  }

  /* ---- moving about ---- */

  async function open(name) {
    state.sample = name;
    writeAddress();
    markCurrent();
    await detail();
  }

  function step(by) {
    if (!order.length) return;
    const now = order.findIndex((at) => index.samples[at].i === state.sample);
    const next = now < 0 ? 0 : Math.min(order.length - 1, Math.max(0, now + by));
    open(index.samples[order[next]].i);
    reveal(byId("detail"));
  }

  function reveal(node) {
    const top = node.getBoundingClientRect().top;
    if (top < 0 || top > innerHeight * 0.6) node.scrollIntoView({ behavior: "instant" });
  }

  function openAll() {
    allOpen = !allOpen;
    detail();
  }

  async function refresh() {
    if (!(await search())) return;
    arrange();
    shownRows = SHOWN_AT_ONCE;
    list();
    if (!order.some((at) => index.samples[at].i === state.sample)) {
      state.sample = order.length ? index.samples[order[0]].i : "";
    }
    writeAddressIfUsed();
    markCurrent();
    await detail();
  }

  let used = false;
  const writeAddressIfUsed = () => used && writeAddress();

  /* ---- the filters' fields ---- */

  function choice(name, title, groups) {
    const select = make("select", { name });
    for (const [group, options] of groups) {
      const made = options.map(([value, text]) => make("option", { value }, text));
      if (group) select.append(make("optgroup", { label: group }, ...made));
      else select.append(...made);
    }
    return make("label", {}, title, select);
  }

  const any = (text) => ["", [["", text]]];

  function facetChoice(facet) {
    const groups = new Map();
    facet.values.forEach(([at, value], id) => {
      const group = facet.turned ? turnName(at) : "";
      if (!groups.has(group)) groups.set(group, new Map());
      groups.get(group).set(facet.keys[id], value);
    });
    const sorted = [...groups].map(([group, options]) => [group, [...options].sort((one, two) => one[1].localeCompare(two[1]))]);
    return choice(facet.name, facet.name.charAt(0).toUpperCase() + facet.name.slice(1), [any("any"), ...sorted]);
  }

  function findings() {
    const [first, ...others] = index.conditions;
    const groups = [any("all")];
    const compare = (key, text) => [[`better:${key}`, `better ${text}`], [`worse:${key}`, `worse ${text}`], [`same:${key}`, `the same ${text}`]];
    index.runs.slice(1).forEach((name, at) => groups.push([`${name} against ${index.runs[0]}`, compare(`run${at + 1}`, `with ${name}`)]));
    for (const name of others) groups.push([`${label(name)} against ${label(first)}`, compare(name, `with ${label(name)}`)]);
    if (index.marks.length) groups.push(["Failures", index.marks.map((mark, at) => [`mark:${at}`, mark])]);
    groups.push(["Lost", [["cut", "answer cut off"], ["failed", "answer failed"], ["unread", "verdict unreadable"], ["missing", "score missing"]]]);
    return groups;
  }

  function fields() {
    const made = [];
    const conditions = index.conditions.map((name) => [name, label(name)]);
    made.push(choice("show", "Show", findings()));
    if (index.turns.length > 1) made.push(choice("turn", "Turn", [any("any"), ["", index.turns.map((at) => [at, turnName(Number(at))])]]));
    if (conditions.length > 1) made.push(choice("condition", "Condition", index.runs.length > 1 ? [["", [["", conditions[0][1]], ...conditions.slice(1)]]] : [any("all"), ["", conditions]]));
    if (index.metrics.length > 1) made.push(choice("metric", "Metric", [any(label(index.scale)), ["", index.metrics.filter((name) => name !== index.scale).map((name) => [name, label(name)])]]));
    made.push(...index.facets.map(facetChoice));
    const from = make("input", { type: "number", name: "from", step: "any", "aria-label": "score from" });
    const to = make("input", { type: "number", name: "to", step: "any", "aria-label": "score to" });
    made.push(make("label", {}, "Score from, to", make("span", {}, from, " ", to)));
    const sorts = [["", "as run"], ["low", "lowest score first"], ["high", "highest score first"]];
    if (conditions.length > 1 || index.runs.length > 1) sorts.push(["gain", "largest gain first"]);
    made.push(choice("sort", "Sort", [["", sorts]]));
    const reset = button("Reset", () => {
      for (const name of Object.keys(state)) if (name !== "sample") delete state[name];
      showState();
      refresh();
    });
    byId("choices").append(...made, reset);
  }

  function showState() {
    byId("query").value = state.q ?? "";
    for (const field of byId("choices").querySelectorAll("select, input")) field.value = state[field.name] ?? "";
  }

  /* ---- light and dark ---- */

  const root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  function setTheme(theme) {
    if (theme) root.dataset.theme = theme;
    byId("theme").textContent = dark() ? "Light" : "Dark";
  }

  function switchTheme() {
    setTheme(dark() ? "light" : "dark");
    try {
      localStorage.setItem("mmconv-theme", root.dataset.theme);
    } catch {
      // a page that may not remember starts with the system's choice again
    }
  }

  function rememberedTheme() {
    try {
      return localStorage.getItem("mmconv-theme");
    } catch {
      return null;
    }
  }

  /* ---- events ---- */

  const KEYS = {
    j: () => step(1),
    ArrowRight: () => step(1),
    k: () => step(-1),
    ArrowLeft: () => step(-1),
    v: openAll,
    t: switchTheme,
    "/": () => {
      byId("query").focus();
      byId("samples").scrollIntoView({ behavior: "instant" });
    },
    "?": () => byId("help").showModal(),
  };

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (!KEYS[event.key]) return;
    event.preventDefault();
    used = true;
    KEYS[event.key]();
  }

  function listen() {
    let waiting = 0;
    document.addEventListener("keydown", key);
    byId("query").addEventListener("input", (event) => {
      state.q = event.target.value;
      used = true;
      clearTimeout(waiting);
      waiting = setTimeout(refresh, 150);
    });
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("choices").addEventListener("change", (event) => {
      state[event.target.name] = event.target.value;
      used = true;
      refresh();
    });
    byId("more").addEventListener("click", () => {
      shownRows += SHOWN_AT_ONCE;
      list();
      markCurrent();
    });
    byId("theme").addEventListener("click", switchTheme);
    byId("help-button").addEventListener("click", () => byId("help").showModal());
    addEventListener("hashchange", follow);
    addEventListener("beforeprint", () => {
      for (const each of document.querySelectorAll("#detail details")) each.open = true;
    });
  }

  /* Go where the address says: to a sample, to a choice of samples, or to a section. */
  async function follow() {
    if (!readAddress()) return;
    used = true;
    showState();
    await refresh();
    reveal(state.sample ? byId("detail") : byId("samples"));
  }

  function prepare() {
    index.columns.forEach((column, place) => placeOf.set(keyOf(...column), place));
    index.metrics = [...new Set(index.columns.map(([, , metric]) => metric))].filter((name) => !index.endings.includes(name));
    if (!index.metrics.includes(index.scale)) index.scale = index.metrics[0] ?? "";
    const turns = index.columns.filter(([, , metric]) => metric === index.scale).map(([, , , turn]) => turn);
    index.turns = [...new Set(turns.filter((turn) => turn !== null))].sort((one, two) => (one || Infinity) - (two || Infinity)).map(String);
    const values = index.samples.flatMap((sample) => numbers(sample, columns({ metric: index.scale })));
    index.range = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
    index.pictured = index.samples.some((sample) => sample.p);
    for (const facet of index.facets) {
      facet.keys = facet.values.map(([at, value]) => (facet.turned ? `${at}:${value}` : value));
    }
  }

  async function start() {
    setTheme(rememberedTheme());
    index = await unpack(byId("index").textContent);
    prepare();
    fields();
    listen();
    const asked = readAddress();
    showState();
    if (matchMedia("(max-width: 48rem)").matches) byId("more-filters").open = false;
    await refresh();
    if (asked) {
      used = true;
      byId("samples").scrollIntoView({ behavior: "instant" });
    }
    root.dataset.ready = "";
  }

  start();
})();
