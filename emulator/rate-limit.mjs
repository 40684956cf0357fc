// The endpoint's rate limit: at most `requests` in any window of `perMs`, as a sliding window over the times of the
// accepted requests. Everything that reaches the emulator comes from loopback, so there is one caller and one window.
// It only counts and judges; answering 429 is the server's part.

export class RateLimit {
  #requests;
  #perMs;
  #clock;
  /** Times of accepted requests, oldest at #head. */
  #times = [];
  #head = 0;

  /**
   * @param {{requests: number, perMs: number}} limit
   * @param {import("./index.mjs").Clock} clock
   */
  constructor({ requests, perMs }, clock) {
    if (!Number.isInteger(requests) || requests < 1 || !Number.isFinite(perMs) || perMs <= 0) {
      throw new TypeError("rateLimit: {requests: integer above 0, perMs: number above 0}.");
    }
    this.#requests = requests;
    this.#perMs = perMs;
    this.#clock = clock;
  }

  /**
   * Counts one request. Refused requests do not count, so a caller that waits as it is told gets through.
   * @returns {number} 0 if accepted, else the whole seconds to wait (the value of `Retry-After`).
   */
  take() {
    const now = this.#clock.now();
    while (this.#head < this.#times.length && this.#times[this.#head] <= now - this.#perMs) this.#head++;
    if (this.#head > 1024) this.#times.splice(0, this.#head), (this.#head = 0);
    if (this.#times.length - this.#head < this.#requests) {
      this.#times.push(now);
      return 0;
    }
    return Math.max(1, Math.ceil((this.#times[this.#head] + this.#perMs - now) / 1000));
  }
}
