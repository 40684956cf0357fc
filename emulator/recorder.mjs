// What came in, for tests to look at: bounded in number and size, and something to wait on.

/** Bytes kept of a body. */
const BODY_BYTES = 64 * 1024;

export class Recorder {
  /** @type {import("./index.mjs").RecordedRequest[]} */
  requests = [];
  #limit;
  #attempts = new Map();
  #waiters = new Set();

  /** @param {number} limit requests kept, the newest ones */
  constructor(limit) {
    this.#limit = limit;
  }

  /**
   * @param {import("node:http").IncomingMessage} req
   * @param {string} route
   * @returns {import("./index.mjs").RecordedRequest}
   */
  record(req, route) {
    const attempt = (this.#attempts.get(route) ?? 0) + 1;
    this.#attempts.set(route, attempt);
    const seen = { route, method: req.method, path: req.url, headers: req.headers, body: Buffer.alloc(0), attempt };
    this.#keep(seen);
    return seen;
  }

  /**
   * Adds to the body of a request.
   * @param {import("./index.mjs").RecordedRequest} seen
   * @param {Buffer} bytes
   */
  addBody(seen, bytes) {
    const room = BODY_BYTES - seen.body.length;
    if (room > 0) seen.body = Buffer.concat([seen.body, bytes.subarray(0, room)]);
  }

  #keep(seen) {
    this.requests.push(seen);
    // In steps, since taking one from the front moves all the others.
    if (this.requests.length >= this.#limit * 2) this.requests.splice(0, this.requests.length - this.#limit);
    for (const waiter of [...this.#waiters]) waiter();
  }

  /**
   * Resolves once `count` requests of a route have come in since the start.
   * @param {string} route
   * @param {number} count
   * @param {number} timeoutMs
   */
  waitFor(route, count, timeoutMs) {
    return new Promise((resolve, reject) => {
      const look = () => {
        if ((this.#attempts.get(route) ?? 0) < count) return;
        clearTimeout(timer);
        this.#waiters.delete(look);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#waiters.delete(look);
        reject(new Error(`There were fewer than ${count} ${route} requests within ${timeoutMs} ms.`));
      }, timeoutMs);
      this.#waiters.add(look);
      look();
    });
  }
}
