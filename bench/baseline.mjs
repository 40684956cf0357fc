// A plain JavaScript client of the same protocol, built as the TypeScript provider is: the global `fetch`, one
// `JSON.parse` a line, a regular expression for base64, one slice of the kept text a frame, one request per 300 ms.
// Runs a command; has neither cleanup nor leases, which cost nothing while output streams.

import { StringDecoder } from "node:string_decoder";

const TAIL = 4_194_304;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const FAILURES = 3;

/** What is kept of a long text: its end, cut anew for each frame. @param {string} tail @param {string} text */
const trimAlways = (tail, text) => (tail + text).slice(-TAIL);

/** The same text in the end, cut only when there is twice as much. @param {string} tail @param {string} text */
function trimLate(tail, text) {
  const joined = tail + text;
  return joined.length > 2 * TAIL ? joined.slice(-TAIL) : joined;
}

/** @typedef {(stream: string, text: string) => unknown} Log */

export class Baseline {
  #url;
  #interval;
  #trim;
  #next = 0;

  /** @param {{apiUrl: string, paced: boolean, trim: "always" | "late"}} options */
  constructor({ apiUrl, paced, trim }) {
    this.#url = apiUrl;
    this.#interval = paced ? 300 : 0;
    this.#trim = trim === "always" ? trimAlways : trimLate;
  }

  /** @param {string} method @param {string} path @param {object} [body] */
  async #request(method, path, body) {
    if (this.#interval > 0) {
      const now = performance.now();
      const at = Math.max(now, this.#next);
      this.#next = at + this.#interval;
      if (at > now) await new Promise((resolve) => setTimeout(resolve, at - now));
    }
    const headers = { "x-api-key": "key", ...(body && { "content-type": "application/json" }) };
    const response = await fetch(`${this.#url}/v1${path}`, { method, headers, body: body && JSON.stringify(body), redirect: "error" });
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    return response;
  }

  /** @param {string} method @param {string} path @param {object} [body] */
  async #data(method, path, body) {
    const envelope = await (await this.#request(method, path, body)).json();
    if (envelope.status !== "success") throw new Error("unsuccessful");
    return envelope.data;
  }

  /** @param {string} sandbox @param {Log} log */
  async execute(sandbox, log) {
    const processes = `/sandboxes/${sandbox}/processes`;
    const { process_id: id } = await this.#data("POST", processes, { cmd: "/bin/bash", args: ["-lc", "exec env 'true'"] });
    await this.#data("POST", `${processes}/${id}/stdin/close`);
    const state = new Following(log, this.#trim);
    for (let failures = 0; ; ) {
      const before = state.seq;
      try {
        const response = await this.#request("GET", `${processes}/${id}/connect?after=${state.seq}`);
        if (await state.read(/** @type {ReadableStream<Uint8Array>} */ (response.body))) return state.result();
      } catch (error) {
        if (error instanceof ProtocolError || ++failures > FAILURES) throw error;
      }
      if (state.seq > before) failures = 0;
    }
  }
}

class ProtocolError extends Error {}

/** A process's output so far. */
class Following {
  seq = 0;
  #log;
  #trim;
  /** @type {number | null} */
  #exitCode = null;
  #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  #tails = { stdout: "", stderr: "" };

  /** @param {Log} log @param {typeof trimAlways} trim */
  constructor(log, trim) {
    this.#log = log;
    this.#trim = trim;
  }

  result() {
    const { stdout, stderr } = this.#tails;
    return { exitCode: this.#exitCode, stdout: stdout.slice(-TAIL), stderr: stderr.slice(-TAIL) };
  }

  /** Whether the process has exited. @param {ReadableStream<Uint8Array>} body */
  async read(body) {
    const decoder = new TextDecoder();
    let buffered = "";
    for await (const chunk of body) {
      buffered += decoder.decode(chunk, { stream: true });
      const lines = buffered.split("\n");
      buffered = /** @type {string} */ (lines.pop());
      for (const line of lines) {
        if (line.trim() !== "" && this.#frame(JSON.parse(line))) return true;
      }
    }
    return false;
  }

  /** Whether it was the last one. @param {any} frame */
  #frame(frame) {
    if (frame.type === "exit") {
      this.#exitCode = frame.exit_code;
      for (const stream of /** @type {const} */ (["stdout", "stderr"])) this.#write(stream, this.#decoders[stream].end());
      return true;
    }
    if (frame.type !== "data") return false;
    if (!Number.isSafeInteger(frame.seq) || frame.seq < 1) throw new ProtocolError("sequence");
    if (frame.seq <= this.seq) return false;
    if (frame.seq !== this.seq + 1) throw new ProtocolError("gap");
    const stream = /** @type {"stdout" | "stderr"} */ (frame.stream);
    if (!(stream in this.#tails) || !BASE64.test(frame.data_base64)) throw new ProtocolError("output");
    this.seq = frame.seq;
    this.#write(stream, this.#decoders[stream].write(Buffer.from(frame.data_base64, "base64")));
    return false;
  }

  /** @param {"stdout" | "stderr"} stream @param {string} text */
  #write(stream, text) {
    if (text === "") return;
    this.#tails[stream] = this.#trim(this.#tails[stream], text);
    this.#log(stream, text);
  }
}
