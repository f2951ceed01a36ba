/* A page that holds its samples: blocks of gzipped JSON, unpacked when one is looked at. */
"use strict";
(async () => {
  const { byId, make } = dom;

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  const arriving = new Map();

  // Files beside the page call this: a page on a disk may load scripts, and nothing else.
  window.mmconvBlock = (number, texts, pictures) => arriving.get(number)?.({ texts, pictures });

  function loadBeside(number) {
    return new Promise((resolve, reject) => {
      const file = `${index.folder}/${number}.js`;
      arriving.set(number, resolve);
      const script = make("script", { src: file });
      script.onload = () => script.remove();
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

  theme.start();
  const index = await unpack(byId("index").textContent);
  const blocks = samples.inBlocks(index, readBlock);

  async function picture(at, name) {
    const data = (await blocks.blockOf(at)).pictures[name];
    return data ? `data:image/webp;base64,${data}` : null;
  }

  // A picture to look at closely; what kind of file it is, browsers tell from its first bytes.
  async function enlarged(at, name) {
    const number = Math.floor(at / index.block);
    const inside = byId(`larger-${number}`);
    const { pictures } = inside ? { pictures: JSON.parse(inside.textContent) } : await loadBeside(index.larger + number);
    return `data:image/jpeg;base64,${pictures[name]}`;
  }

  await samples.show({ index, ...blocks, picture, enlarged });
  document.documentElement.dataset.ready = "";
})();
