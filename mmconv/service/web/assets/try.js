/* A dialogue with models side by side: images, a few turns, and with references the ablations. */
"use strict";
(() => {
  const { byId, make, button } = dom;
  const TURNS = 3;
  const MOST_TURNS = 8;
  const MOST_MODELS = 4;
  const AGAIN_SECONDS = 1;
  const EXAMPLES = ["What is in the image?", "What follows from that?", "Write a line about it."];
  const form = byId("try-form");
  let stop = null;
  let choices = null;
  let images = [];
  let last = null;

  /* ---- models ---- */

  function addModel(name) {
    const at = byId("models").children.length;
    const select = make("select", { name: "model" });
    shell.options(select, choices.models, at ? "none" : undefined, choices.unusable);
    if (choices.models.includes(name)) select.value = name;
    byId("models").append(make("label", { class: "field" }, at ? `Model ${at + 1}` : "Model", select));
    byId("add-model").hidden = at + 1 >= MOST_MODELS;
    return select;
  }

  const models = () => [...new Set([...byId("models").querySelectorAll("select")].map((each) => each.value))].filter(Boolean);

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

  /* ---- images: each a file until it is uploaded, or the id of one that the server has ---- */

  function addImages(files) {
    const pictures = [...files].filter((file) => file.type.startsWith("image/"));
    images.push(...pictures.map((file) => ({ file, address: URL.createObjectURL(file) })));
    showImages();
  }

  function showImages() {
    byId("previews").replaceChildren(...images.map((image, at) => make("li", {},
      make("img", { class: "preview", src: image.address, alt: `Image ${at + 1} of the dialogue` }),
      button(`Remove image ${at + 1}`, () => {
        images = images.filter((each) => each !== image);
        showImages();
        form.elements.images.focus();
      }))));
  }

  async function upload(image, signal) {
    if (image.id) return `image:${image.id}`;
    const sent = { method: "POST", body: image.file, headers: { "Content-Type": "application/octet-stream" }, signal };
    try {
      image.id = (await (await api.send("/v1/images", sent)).json()).id;
    } catch (error) {
      if (error instanceof api.Problem) error.param = "images";
      throw error;
    }
    return `image:${image.id}`;
  }

  /* What is asked: the body of a dialogue but for the model, and the models. */
  async function request(signal) {
    const asked = turns();
    const body = { turns: asked, conditions: conditions(asked), images: await Promise.all(images.map((each) => upload(each, signal))) };
    const sampling = {};
    for (const field of shell.fieldsOf(form)) {
      const [group, name] = field.name.split(".");
      const value = shell.valueOf(field);
      if (value !== undefined && group === "system") body.system = value;
      if (value !== undefined && group === "sampling") sampling[name] = value;
    }
    if (Object.keys(sampling).length) body.sampling = sampling;
    if (form.elements.judge.value) {
      body.judge = form.elements.judge.value;
      body.prompts = form.elements.prompts.value;
      if (form.elements.caption.value.trim()) body.caption = form.elements.caption.value.trim();
    }
    return { models: models(), body };
  }

  /* ---- its address, which fills in the form again ---- */

  const permalink = ({ models: names, body }) => `#${encodeURIComponent(JSON.stringify({ models: names, ...body }))}`;

  async function restore() {
    let asked;
    try {
      asked = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return;  // not a link of ours
    }
    const [first, ...others] = asked.models;
    byId("models").replaceChildren();
    for (const name of [first, ...others]) addModel(name);
    byId("turns").replaceChildren();
    for (let at = 0; at < Math.max(TURNS, asked.turns.length); at += 1) addTurn();
    const values = { system: asked.system, judge: asked.judge, prompts: asked.prompts, caption: asked.caption };
    asked.turns.forEach((turn, at) => {
      for (const [part, text] of Object.entries(turn)) values[`turns[${at}].${part}`] = text;
    });
    for (const [name, value] of Object.entries(asked.sampling ?? {})) values[`sampling.${name}`] = value;
    for (const [name, value] of Object.entries(values)) {
      if (value === undefined) continue;
      form.elements[name].value = value;
      const box = form.elements[name].closest("details");
      if (box) box.open = true;
    }
    const ids = asked.images.map((name) => name.replace("image:", ""));
    const known = await Promise.all(ids.map(async (id) => ({ id, address: await api.picture(`/v1/images/${id}`) })));
    images = known.filter((each) => each.address);
    showImages();
    if (images.length < known.length) throw new api.Problem(404, { message: "an image of this link is gone from the server" });
  }

  /* ConvBench's prompts need more than a dialogue has to have; some judges read no others. */
  function showPrompts(judge) {
    const { prompts } = form.elements;
    const only = choices.convbench_judges.includes(judge);
    for (const option of prompts.options) option.disabled = only && option.value !== "convbench";
    if (only) prompts.value = "convbench";
    const note = byId("prompts-note");
    note.hidden = prompts.value !== "convbench";
    note.textContent = `${only ? `${judge} judges by ConvBench's prompts only. ` : ""}They need an image, its caption, three turns and a reference for each.`;
  }

  /* The turns as chats whose answers are streamed into the column. */
  async function converse({ turns: asked, images: names, system, sampling }, shown, signal) {
    const messages = system ? [{ role: "system", content: system }] : [];
    for (const [at, { instruction }] of asked.entries()) {
      const pictures = at ? [] : names.map((url) => ({ type: "image_url", image_url: { url } }));
      messages.push({ role: "user", content: [...pictures, { type: "text", text: instruction }] });
      const answer = { text: "", thought: "", problem: "Waiting…", waits: true, verdicts: [] };
      shown.turns.push({ n: at + 1, asked: [{ role: "user", text: instruction }], answers: [answer] });
      drawSoon();
      const body = { model: shown.model, messages, stream: true, stream_options: { include_usage: true }, ...sampling };
      try {
        for await (const { choices: [choice], usage } of api.stream("/v1/chat/completions", body, signal)) {
          answer.text += choice?.delta.content ?? "";
          answer.thought += choice?.delta.reasoning_content ?? "";
          answer.cut = choice?.finish_reason === "length" || answer.cut;
          if (answer.text) answer.problem = null;
          if (usage) answer.facts = `${usage.completion_tokens} tokens`;
          drawSoon();
        }
      } catch (error) {
        Object.assign(answer, { problem: error.message, waits: false });
        drawSoon();
        if (!at || !(error instanceof api.Problem)) throw error;
        return;
      }
      answer.problem = null;
      messages.push({ role: "assistant", content: answer.text });
    }
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

  function column(model, result) {
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
    return { model, condition: result.condition, turns: shown, verdicts: result.overall.map(verdict) };
  }

  function deltas(result, many) {
    const known = result.deltas.filter((each) => each.value !== null);
    return known.map((each) => {
      const subject = `${many ? `${result.model}, ` : ""}${each.grading}, ${each.turn ? `turn ${each.turn}` : "the conversation"}`;
      return make("li", {}, `${subject}: ${signed(each.value)} with ${each.goal} given, against ${each.start}`);
    });
  }

  /* With a sign, and a minus as printers set it. */
  const signed = (value) => `${value > 0 ? "+" : ""}${value}`.replace("-", "\u2212");

  function answered(name) {
    const asked = last.columns.filter((each) => each.model === name).flatMap((each) => each.turns)
      .flatMap((turn) => turn.answers).filter((each) => !each.given);
    const texts = asked.filter((each) => !each.problem).length;
    const most = Math.max(asked.length, last.body.turns.length);
    return `${name} ${texts === most ? "answered" : `answered ${texts} of ${most} turns`}.`;
  }

  let drawing = 0;

  const drawSoon = () => { drawing ||= requestAnimationFrame(draw); };

  function draw() {
    cancelAnimationFrame(drawing);
    drawing = 0;
    const { columns, models: names } = last;
    const conditionsOf = new Set(columns.map((each) => each.condition));
    const title = (each) => [names.length > 1 ? each.model : "", conditionsOf.size > 1 ? each.condition.replace("_", " ") : ""];
    byId("dialogue").replaceChildren(...conversation.draw(columns, {
      title: (each) => title(each).filter(Boolean).join(", "),
      colour: (each) => `var(--series-${(columns.indexOf(each) % 5) + 1})`,
      turnName: (number) => `turn ${number}`,
      tags: () => [],
      level: 3,
      overall: "whole conversation",
      given: "reference",
      words: [],
      open: false,
    }));
  }

  /* ---- asking ---- */

  /* Clear the previous answer: an answer must not appear under another question. */
  function clearAnswer() {
    byId("answer").hidden = byId("changes").hidden = true;
    for (const id of ["answer-note", "deltas", "dialogue"]) byId(id).replaceChildren();
  }

  function busy(is) {
    byId("ask").disabled = is;
    byId("cancel").hidden = !is;
    byId("answer-actions").hidden = is;
    byId("answer").setAttribute("aria-busy", String(is));
  }

  /* One model's dialogue, in columns of its own. A judge or a reference needs all of it at once. */
  async function ask(model, body, signal) {
    if (!body.judge && body.conditions.length === 1 && !body.turns.some((turn) => turn.reference)) {
      const shown = { model, condition: "free", turns: [], verdicts: [] };
      last.columns.push(shown);
      last.columns.sort((one, two) => last.models.indexOf(one.model) - last.models.indexOf(two.model));
      await converse(body, shown, signal);
    } else {
      const result = await hold({ model, ...body }, signal);
      last.columns.push(...result.conditions.map((each) => column(model, each)));
      byId("deltas").append(...deltas(result, last.models.length > 1));
      byId("changes").hidden = !byId("deltas").children.length;
      byId("changes").open = last.models.length === 1;
    }
    draw();
  }

  /* Ask all models. What one fails with is shown in its column; it is an error if all fail. */
  async function askAll(signal) {
    const { body, models: names } = last;
    const ended = await Promise.allSettled(names.map((model) => ask(model, body, signal)));
    if (signal.aborted) throw new DOMException("", "AbortError");
    const failed = ended.filter((each) => each.status === "rejected").map((each) => each.reason);
    if (failed.length === names.length || failed.some((error) => !(error instanceof api.Problem))) throw failed[0];
    ended.forEach(({ reason }, at) => {
      if (!reason) return;
      last.columns = last.columns.filter((each) => each.model !== names[at]);
      const turn = { n: 1, asked: [{ role: "user", text: body.turns[0].instruction }], answers: [{ problem: reason.message }] };
      last.columns.push({ model: names[at], condition: "free", turns: [turn], verdicts: [] });
    });
    const place = (each) => names.indexOf(each.model);
    last.columns.sort((one, two) => place(one) - place(two));
    draw();
    byId("answer-note").textContent = names.map(answered).join(" ");
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    shell.clearFaults(form);
    clearAnswer();
    const silent = turns().length ? turns().findIndex((turn) => !turn.instruction) : 0;
    const param = silent >= 0 ? `turns[${silent}].instruction` : "model";
    if (silent >= 0 || !models().length) {
      shell.blame(form, new api.Problem(400, { message: silent >= 0 ? "say something" : "choose a model", param }));
      return;
    }
    stop = new AbortController();
    busy(true);
    byId("answer").hidden = false;
    byId("answer-note").textContent = "Waiting for the models…";
    try {
      last = { ...(await request(stop.signal)), columns: [] };
      await askAll(stop.signal);
      history.replaceState(null, "", permalink(last));
      byId("permalink").href = permalink(last);
      dom.reveal(byId("answer"));
    } catch (error) {
      clearAnswer();
      if (error.name !== "AbortError") blame(error);
    } finally {
      busy(false);
    }
  });

  /* A chat names the fields of sampling without the word before them. */
  function blame(error) {
    if (form.elements[`sampling.${error.param}`]) error.param = `sampling.${error.param}`;
    shell.blame(form, error);
  }

  function save() {
    const answers = last.columns.map(({ model, condition, turns: all, verdicts }) => ({
      model, condition, verdicts, turns: all.map(({ asked, answers: [answer] }) => ({ instruction: asked[0].text, ...answer })),
    }));
    const text = JSON.stringify({ models: last.models, ...last.body, answers }, null, 2);
    api.keep(new Blob([text], { type: "application/json" }), "dialogue.json");
  }

  byId("cancel").addEventListener("click", () => stop?.abort());
  byId("add-turn").addEventListener("click", () => {
    addTurn();
    byId("turns").lastElementChild.querySelector("textarea").focus();
  });
  byId("add-model").addEventListener("click", () => addModel().focus());
  byId("save").addEventListener("click", save);
  for (const name of ["judge", "prompts"]) {
    form.elements[name].addEventListener("change", () => showPrompts(form.elements.judge.value));
  }
  form.elements.images.addEventListener("change", ({ target }) => {
    addImages(target.files);
    target.value = "";
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    form.addEventListener(name, (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      form.classList.toggle("dropping", name === "dragover");
      if (name === "drop") addImages(event.dataTransfer.files);
    });
  }
  document.addEventListener("paste", ({ clipboardData }) => {
    // a spreadsheet copies its cells as a picture too: those are meant as text
    if (!clipboardData.types.includes("text/plain")) addImages(clipboardData.files);
  });

  async function begin() {
    for (let at = 0; at < TURNS; at += 1) addTurn();
    choices = await shell.attempt(() => api.get("/web/choices"));
    if (!choices) return;
    addModel();
    shell.options(form.elements.judge, choices.models, "none", choices.unusable);
    await shell.attempt(restore);
    showPrompts(form.elements.judge.value);
    shell.allows(choices, "chat", "ask models", byId("ask"));
    document.documentElement.dataset.ready = "";
  }

  begin();
})();
