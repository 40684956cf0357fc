// One response on its way out, and what a hook may do to it: transform its bytes, cut it after so many of them, or lose
// it altogether. Handlers write to it as if nothing could happen; the faults are applied here and nowhere else.
import { delivered } from "./delivered.mjs";

export class Response {
  #res;
  #faults;
  #left;
  #over = false;
  #drain = () => {};

  /**
   * @param {import("node:http").ServerResponse} res
   * @param {import("./index.mjs").HookAction} faults
   */
  constructor(res, faults = {}) {
    this.#res = res;
    this.#faults = faults;
    this.#left = faults.cutAfter ?? Infinity;
    res.on("error", () => {});
    res.on("drain", () => this.#drain());
  }

  get headSent() {
    return this.#res.headersSent || this.#over;
  }

  get closed() {
    return this.#over || this.#res.destroyed;
  }

  /** @param {number} status @param {Record<string, string|number>} headers */
  head(status, headers) {
    if (this.#over) return;
    if (this.#faults.lost) return this.#reset();
    // A response that may be cut or changed cannot promise its length.
    const { "content-length": length, ...rest } = headers;
    const exact = this.#left === Infinity && !this.#faults.transform && length !== undefined;
    this.#res.writeHead(status, exact ? headers : rest);
    this.#res.flushHeaders();
    if (this.#left <= 0) this.#cut();
  }

  /** @param {Buffer} bytes @returns {boolean} false: wait for `onDrain` */
  write(bytes) {
    return this.writeAll([bytes]);
  }

  /**
   * Writes chunks in one go; what a hook does to bytes, it does to each, and none is asked for after a cut. They are
   * joined rather than written to a corked response: there, `false` says how much is held back and not what the socket
   * takes, and a Node.js without the fix of nodejs/node#60432 (22 is one) has no "drain" follow once all has gone out.
   * @param {Iterable<Buffer>} chunks
   * @returns {boolean} false: wait for `onDrain`
   */
  writeAll(chunks) {
    if (this.closed) return true;
    const passed = [];
    for (const chunk of chunks) {
      const bytes = this.#changed(chunk);
      passed.push(bytes.subarray(0, this.#left));
      this.#left -= bytes.length;
      if (this.#left <= 0) {
        this.#over = true;
        this.#res.write(Buffer.concat(passed), () => this.#cut());
        return true;
      }
    }
    const all = Buffer.concat(passed);
    return all.length === 0 || this.#res.write(all);
  }

  end() {
    if (!this.closed) this.#res.end();
    this.#over = true;
  }

  /** @param {() => void} listener */
  onDrain(listener) {
    this.#drain = listener;
  }

  /** @param {() => void} listener called once, however the response ends */
  onClose(listener) {
    this.#res.once("close", listener);
  }

  /** @param {number} status @param {unknown} envelope @param {Record<string, string>} [headers] */
  json(status, envelope, headers = {}) {
    const body = Buffer.from(JSON.stringify(envelope));
    this.head(status, { "content-type": "application/json", "content-length": body.length, ...headers });
    this.write(body);
    this.end();
  }

  /** @param {Buffer} bytes as a hook wants them to go out */
  #changed(bytes) {
    return this.#faults.transform ? Buffer.from(this.#faults.transform(bytes) ?? "") : bytes;
  }

  /** Ends the response as the hook wants it: cleanly, though incomplete, or by a reset. */
  #cut() {
    this.#over = true;
    if (this.#faults.how === "end") this.#res.end();
    else if (this.#res.socket) delivered(this.#res.socket).then(() => this.#reset());
  }

  #reset() {
    this.#over = true;
    this.#res.socket?.resetAndDestroy();
  }
}
