// Renders what a command prints as the bytes of its connect stream, ahead of any measurement. Owns the text and the
// frames; how they are sent, server.mjs knows. A sandbox is named after what its commands print:
// KIND-BYTES-FRAME, where KIND is `ascii` or `cjk`, BYTES the size of the output and FRAME that of a frame's payload.

const TEXTS = {
  ascii: "the quick brown fox jumps over the lazy dog 0123456789\n",
  // Three and four bytes a character, which frames cut anywhere.
  cjk: "漢字とカナの混ざった出力です😀🚀一行目\n",
};

/** @param {"ascii" | "cjk"} kind @param {number} bytes @param {number} frame */
export function sandboxOf(kind, bytes, frame) {
  return `${kind}-${bytes}-${frame}`;
}

/** The NDJSON of a sandbox's commands. @param {string} sandbox */
export function render(sandbox) {
  const found = /^(ascii|cjk)-(\d+)-(\d+)$/.exec(sandbox);
  if (!found) throw new Error(`No command prints ${sandbox}`);
  const [kind, bytes, frame] = [/** @type {"ascii" | "cjk"} */ (found[1]), Number(found[2]), Number(found[3])];
  const unit = Buffer.from(TEXTS[kind]);
  const text = Buffer.alloc(unit.length + frame, unit);
  const parts = [];
  for (let at = 0, seq = 1; at < bytes; at += frame, seq++) {
    const start = at % unit.length;
    const payload = text.subarray(start, start + Math.min(frame, bytes - at)).toString("base64");
    parts.push(Buffer.from(`{"type":"data","seq":${seq},"stream":"stdout","data_base64":"${payload}"}\n`, "latin1"));
  }
  parts.push(Buffer.from('{"type":"exit","exit_code":0}\n'));
  return Buffer.concat(parts);
}
