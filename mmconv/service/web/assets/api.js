/* Requests to this server with the tab's token, its errors, and its streams of events. */
"use strict";
const api = (() => {
  const NAME = "mmconv-token";
  const AGAIN_SECONDS = 2;
  const KEPT_PICTURES = 300;
  const { byId } = dom;

  /* What the API says went wrong; `param` names the field of the request, if it is about one. */
  class Problem extends Error {
    constructor(status, error) {
      super(error.message);
      Object.assign(this, { status, param: error.param ?? null, code: error.code ?? null });
    }
  }

  /* ---- the token ---- */

  const token = () => sessionStorage.getItem(NAME);

  function forget() {
    sessionStorage.removeItem(NAME);
    location.reload();
  }

  const dialog = byId("token-dialog");
  const field = byId("token");
  let asked = null;

  /* Ask the reader for a token, once for all requests that wait. */
  function askToken(why) {
    if (!asked) {
      asked = Promise.withResolvers();
      if (why) byId("token-why").textContent = why;
      dialog.showModal();
    }
    return asked.promise;
  }

  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = field.value.trim();
    field.setCustomValidity(/^[\x21-\x7e]+$/.test(typed) ? "" : "A token has no blanks and no special characters.");
    if (!event.target.reportValidity()) return;
    sessionStorage.setItem(NAME, typed);
    asked.resolve();
    dialog.close();
  });
  field.addEventListener("input", () => field.setCustomValidity(""));
  dialog.addEventListener("close", () => {
    field.value = "";
    // After `resolve` this has no effect.
    asked.reject(new Problem(401, { message: "this server needs a token" }));
    asked = null;
  });

  /* ---- requests ---- */

  async function problemOf(answer) {
    try {
      return new Problem(answer.status, (await answer.json()).error);
    } catch {
      return new Problem(answer.status, { message: `The server answered with ${answer.status}.` });
    }
  }

  async function reach(path, options) {
    try {
      return await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, { message: "The server cannot be reached." });
    }
  }

  /* The answer, if it is a good one; raises `Problem`. */
  async function send(path, options = {}) {
    if (document.body.dataset.tokens === "needed" && !token()) await askToken();
    for (;;) {
      const used = token();
      const headers = { ...options.headers };
      if (used) headers.Authorization = `Bearer ${used}`;
      const answer = await reach(path, { ...options, headers });
      if (answer.status !== 401) byId("forget").hidden = !used;
      if (answer.ok) return answer;
      const problem = await problemOf(answer);
      if (answer.status !== 401) throw problem;
      // Another request may have asked for a better one meanwhile.
      if (token() === used) {
        sessionStorage.removeItem(NAME);
        byId("forget").hidden = true;
      }
      if (!token()) await askToken(`${dom.capital(problem.message)}.`);
    }
  }

  const get = async (path, options) => (await send(path, options)).json();

  async function post(path, body, options = {}) {
    const headers = { "Content-Type": "application/json" };
    const answer = await send(path, { method: "POST", headers, body: JSON.stringify(body), ...options });
    return answer.json();
  }

  const remove = async (path) => (await send(path, { method: "DELETE" })).json();

  /* ---- events ---- */

  const pause = (seconds, signal) => new Promise((resolve) => {
    const waiting = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => { clearTimeout(waiting); resolve(); }, { once: true });
  });

  /* The server's events as [name, value]; an EventSource could not send the token. */
  async function* parsed(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s)));
        if (fields.data && fields.data !== "[DONE]") yield [fields.event, JSON.parse(fields.data)];
      }
    }
  }

  /* Events until one is called `end`; a stream that breaks off is taken up again. */
  async function* events(path, signal) {
    while (!signal.aborted) {
      try {
        const answer = await send(path, { signal });
        for await (const [name, value] of parsed(answer.body)) {
          yield [name, value];
          if (name === "end") return;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Problem && error.status >= 400 && error.status < 500) throw error;
      }
      await pause(AGAIN_SECONDS, signal);
    }
  }

  /* The events that answer a posted body; one with an error raises `Problem`. */
  async function* stream(path, body, signal) {
    const headers = { "Content-Type": "application/json" };
    const answer = await send(path, { method: "POST", headers, body: JSON.stringify(body), signal });
    try {
      for await (const [, value] of parsed(answer.body)) {
        if (value.error) throw new Problem(answer.status, value.error);
        yield value;
      }
    } catch (error) {
      if (error instanceof Problem || signal.aborted) throw error;
      throw new Problem(0, { message: "The connection broke off." });
    }
  }

  /* ---- files ---- */

  const pictures = new Map();

  /* An image's address within this tab, or null if it cannot be loaded. */
  function picture(path) {
    if (!pictures.has(path)) {
      const loading = send(path).then(async (answer) => URL.createObjectURL(await answer.blob()), () => null);
      pictures.set(path, loading);
      if (pictures.size > KEPT_PICTURES) {
        const [oldest, gone] = pictures.entries().next().value;
        pictures.delete(oldest);
        gone.then((address) => address && URL.revokeObjectURL(address));
      }
    }
    return pictures.get(path);
  }

  /* Hand a file to the reader: in a new tab, or under a name to keep. */
  const save = async (path, name) => keep(await (await send(path)).blob(), name);

  function keep(blob, name) {
    const address = URL.createObjectURL(blob);
    const link = dom.make("a", { href: address, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }

  return { Problem, token, forget, send, get, post, remove, events, stream, pause, picture, save, keep };
})();
