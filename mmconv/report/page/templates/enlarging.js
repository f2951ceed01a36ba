/* A picture that opens larger when it is clicked, in the dialog `enlarged`. */
"use strict";
const enlarging = (() => {
  const { byId, make } = dom;

  async function open(shown, alt, larger) {
    const dialog = byId("enlarged");
    const image = make("img", { src: shown, alt });
    const message = make("p", { class: "problem", role: "status" });
    dialog.replaceChildren(make("form", { method: "dialog" }, make("button", {}, "Close")), image, message);
    dialog.onclick = () => dialog.close();
    dialog.showModal();
    try {
      image.src = await larger();
    } catch (error) {
      message.textContent = `This is the small image: ${error.message}`;
    }
  }

  /* The picture as a button; `larger` gives the address of a larger one, once it is wanted. */
  function picture(shown, alt, larger) {
    const button = make("button", { type: "button", class: "enlarge", "aria-haspopup": "dialog", "aria-label": `${alt}, enlarge` },
      make("img", { src: shown, alt }));
    button.addEventListener("click", () => open(shown, alt, larger));
    return button;
  }

  return { picture };
})();
