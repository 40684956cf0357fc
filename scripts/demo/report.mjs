// What the tour prints, and the checks that it made. A check is printed where it is made and once more in the summary;
// nothing can get into the summary in another way.

export class Report {
  /** @type {Array<{passed: boolean | null, text: string}>} */
  #checks = [];
  #write;
  #colour;

  /** @param {{write(text: string): unknown, isTTY?: boolean}} out */
  constructor(out) {
    this.#write = (/** @type {string} */ text) => out.write(text);
    this.#colour = out.isTTY === true && !process.env.NO_COLOR;
  }

  /** @param {number} code @param {string} text */
  #paint(code, text) {
    return this.#colour ? `\x1b[${code}m${text}\x1b[0m` : text;
  }

  /** @param {string} title */
  title(title) {
    this.#write(`\n${this.#paint(1, title)}\n`);
  }

  /** @param {string} text */
  line(text) {
    this.#write(`  ${text}\n`);
  }

  /**
   * A piece of output as it comes in, with the time since its command was started.
   * @param {number} startedAt
   * @param {"stdout" | "stderr"} stream
   * @param {string} text
   */
  output(startedAt, stream, text) {
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(2).padStart(6);
    for (const line of text.trimEnd().split("\n")) {
      this.line(`${this.#paint(2, `${seconds} s`)}  ${this.#paint(stream === "stdout" ? 36 : 33, stream)}  ${line}`);
    }
  }

  /**
   * @param {boolean} passed
   * @param {string} text what is true if it passed
   * @param {string} [found] what was found, told if it did not
   */
  check(passed, text, found) {
    this.#add({ passed, text: passed || found === undefined ? text : `${text} (found: ${found})` });
  }

  /** Something that cannot be checked here. @param {string} text */
  skip(text) {
    this.#add({ passed: null, text: `skipped: ${text}` });
  }

  /** @param {{passed: boolean | null, text: string}} check */
  #add(check) {
    this.#checks.push(check);
    this.#print(check);
  }

  /** @param {{passed: boolean | null, text: string}} check */
  #print({ passed, text }) {
    const mark = passed === null ? "–" : passed ? this.#paint(32, "✓") : this.#paint(31, "✗");
    this.line(`${mark} ${text}`);
  }

  /** @returns {boolean} whether there were checks and none failed */
  summary() {
    const count = (/** @type {boolean | null} */ wanted) => this.#checks.filter(({ passed }) => passed === wanted).length;
    const [passed, failed, skipped] = [count(true), count(false), count(null)];
    this.title("Summary");
    for (const check of this.#checks) this.#print(check);
    this.#write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`);
    return failed === 0 && passed > 0;
  }
}
