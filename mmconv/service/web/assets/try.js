/* A dialogue with a model: an image, a few turns, and with references the ablations. */
"use strict";
(() => {
  const { byId, make, button } = dom;
  const TURNS = 3;
  const MOST_TURNS = 8;
  const AGAIN_SECONDS = 1;
  const EXAMPLES = ["What is in the image?", "What follows from that?", "Write a line about it."];
  const form = byId("try-form");
  let stop = null;
  let convbenchOnly = [];

  /* ---- turns ---- */

  function addTurn() {
    const at = byId("turns").children.length;
    const name = `turns[${at}]`;
    const field = (part, title, hint) => make("label", { class: "field" }, title,
      make("textarea", { name: `${name}.${part}`, rows: 2, placeholder: hint }));
    const box = make("fieldset", { class: "turn-fields" }, make("legend", {}, `Turn ${at + 1}`),
      make("div", { class: "pair" },
        field("instruction", "What you say", EXAMPLES[at] ?? ""),
        field("reference", "Reference answer, if you have one", "an answer that counts as right")));
    byId("turns").append(box);
    byId("add-turn").hidden = at + 1 >= MOST_TURNS;
  }

  /* The turns up to the last that says something. */
  function turns() {
    const all = [...byId("turns").children].map((box) => Object.fromEntries(
      [...box.querySelectorAll("textarea")].filter((field) => field.value.trim())
        .map((field) => [field.name.split(".")[1], field.value.trim()])));
    while (all.length && !Object.keys(all.at(-1)).length) all.pop();
    return all;
  }

  /* As many leading references as there are give one condition each. */
  function conditions(asked) {
    const open = asked.findIndex((turn) => !turn.reference);
    const most = Math.min(open < 0 ? asked.length : open, asked.length - 1);
    return [...Array(most + 1).keys()];
  }

  async function upload(signal) {
    const [file] = form.elements.images.files;
    if (!file) return [];
    const sent = { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" }, signal };
    try {
      return [`image:${(await (await api.send("/v1/images", sent)).json()).id}`];
    } catch (error) {
      if (error instanceof api.Problem) error.param = "images";
      throw error;
    }
  }

  async function request(signal) {
    const asked = turns();
    const body = { model: form.elements.model.value, turns: asked, conditions: conditions(asked), images: await upload(signal) };
    if (form.elements.judge.value) {
      body.judge = form.elements.judge.value;
      body.prompts = form.elements.prompts.value;
      if (form.elements.caption.value.trim()) body.caption = form.elements.caption.value.trim();
    }
    return body;
  }

  /* ConvBench's prompts need more than a dialogue has to have; some judges read no others. */
  function showPrompts(judge) {
    const { prompts } = form.elements;
    const only = convbenchOnly.includes(judge);
    for (const option of prompts.options) option.disabled = only && option.value !== "convbench";
    if (only) prompts.value = "convbench";
    const note = byId("prompts-note");
    note.hidden = prompts.value !== "convbench";
    note.textContent = `${only ? `${judge} judges by ConvBench's prompts only. ` : ""}They need an image, its caption, three turns and a reference for each.`;
  }

  /* The result, at once or when the server's queue has come to it. */
  async function hold(body, signal) {
    let job = await api.post("/v1/dialogues", body, { signal });
    while (!job.conditions) {
      if (job.result) return job.result;
      if (job.state === "failed" || job.state === "stopped") {
        throw new api.Problem(0, { message: job.error ?? `the dialogue was ${job.state}` });
      }
      byId("answer-note").textContent = `The dialogue is long and was queued: ${job.state}.`;
      await api.pause(AGAIN_SECONDS, signal);
      if (signal.aborted) throw new DOMException("", "AbortError");
      job = await api.get(`/v1/dialogues/${job.id}`, { signal });
    }
    return job;
  }

  /* ---- the answer, as the browser of samples shows conversations ---- */

  function verdict(each) {
    const name = each.side ? `${each.grading}, shown as ${each.side}` : each.grading;
    if (each.score === null) return { call: name, problem: each.problem ?? each.why ?? each.state, text: each.reply ?? "" };
    const said = each.grading === "pairwise" ? (each.score ? "won" : "lost") : String(each.score);
    return { call: name, said, text: each.rationale };
  }

  function facts(turn) {
    const facts = turn.output_tokens === null ? [] : [`${turn.output_tokens} tokens`];
    return [...facts, ...turn.seen.map((seen) => `sent as ${seen.width} × ${seen.height}`)].join(", ");
  }

  function column(result) {
    const shown = result.turns.map((turn) => ({
      n: turn.turn,
      asked: [{ role: "user", text: turn.instruction }],
      answers: [{
        given: turn.given,
        text: turn.text ?? "",
        problem: turn.failed ? turn.problem : turn.skipped ? `not asked: ${turn.skipped} failed` : null,
        thought: turn.reasoning,
        cut: turn.finish === "length",
        facts: turn.given ? "" : facts(turn),
        verdicts: turn.judgements.map(verdict),
      }],
    }));
    return { condition: result.condition, turns: shown, verdicts: result.overall.map(verdict) };
  }

  function deltas(result) {
    const known = result.deltas.filter((each) => each.value !== null);
    return known.map((each) => {
      const subject = each.turn ? `turn ${each.turn}` : "the conversation";
      return make("li", {}, `${each.grading}, ${subject}: ${signed(each.value)} with ${each.goal} given, against ${each.start}`);
    });
  }

  /* With a sign, and a minus as printers set it. */
  const signed = (value) => `${value > 0 ? "+" : ""}${value}`.replace("-", "\u2212");

  function answered(result) {
    const asked = result.conditions.flatMap((each) => each.turns).filter((turn) => !turn.given);
    const texts = asked.filter((turn) => turn.text !== null).length;
    return `${result.model} ${texts === asked.length ? "answered" : `answered ${texts} of ${asked.length} turns`}.`;
  }

  function show(result) {
    const columns = result.conditions.map(column);
    const names = columns.map((each) => each.condition);
    const many = columns.length > 1;
    byId("dialogue").replaceChildren(...conversation.draw(columns, {
      title: (each) => (many ? each.condition.replace("_", " ") : ""),
      colour: (each) => `var(--series-${(names.indexOf(each.condition) % 5) + 1})`,
      turnName: (number) => `turn ${number}`,
      tags: () => [],
      level: 3,
      overall: "whole conversation",
      given: "reference",
      words: [],
      open: false,
    }));
    const changes = deltas(result);
    byId("deltas").replaceChildren(changes.length ? make("ul", { class: "tags" }, ...changes) : "");
    byId("answer-note").textContent = answered(result);
  }

  /* ---- asking ---- */

  /* Clear the previous answer: an answer must not appear under another question. */
  function clearAnswer() {
    byId("answer").hidden = true;
    for (const id of ["answer-note", "deltas", "dialogue"]) byId(id).replaceChildren();
  }

  function busy(is) {
    byId("ask").disabled = is;
    byId("cancel").hidden = !is;
    byId("answer").setAttribute("aria-busy", String(is));
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    shell.clearFaults(form);
    if (!turns().length) {
      clearAnswer();
      shell.blame(form, new api.Problem(400, { message: "say something", param: "turns[0].instruction" }));
      return;
    }
    stop = new AbortController();
    busy(true);
    byId("answer").hidden = false;
    byId("answer-note").textContent = "Waiting for the model…";
    try {
      show(await hold(await request(stop.signal), stop.signal));
      dom.reveal(byId("answer"));
    } catch (error) {
      clearAnswer();
      if (error.name !== "AbortError") shell.blame(form, error);
    } finally {
      busy(false);
    }
  });

  byId("cancel").addEventListener("click", () => stop?.abort());
  byId("add-turn").addEventListener("click", () => {
    addTurn();
    byId("turns").lastElementChild.querySelector("textarea").focus();
  });
  for (const name of ["judge", "prompts"]) {
    form.elements[name].addEventListener("change", () => showPrompts(form.elements.judge.value));
  }
  form.elements.images.addEventListener("change", () => {
    const preview = byId("preview");
    const [file] = form.elements.images.files;
    if (preview.src) URL.revokeObjectURL(preview.src);
    preview.hidden = !file;
    if (file) preview.src = URL.createObjectURL(file);
    else preview.removeAttribute("src");
  });

  async function begin() {
    for (let at = 0; at < TURNS; at += 1) addTurn();
    const choices = await shell.attempt(() => api.get("/web/choices"));
    if (!choices) return;
    shell.options(form.elements.model, choices.models, undefined, choices.unusable);
    shell.options(form.elements.judge, choices.models, "none", choices.unusable);
    convbenchOnly = choices.convbench_judges;
    showPrompts("");
    shell.allows(choices, "chat", "ask models", byId("ask"));
    document.documentElement.dataset.ready = "";
  }

  begin();
})();
