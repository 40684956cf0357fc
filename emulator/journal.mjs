// The output journal of one process: the newest frames, at most 1 MiB of decoded bytes, numbered from 1 over both
// streams. Older frames are evicted whether somebody has read them or not, so a process never waits for its journal.
// It neither reads pipes nor knows connections; it tells its listeners that something was added.

/** Decoded bytes that a journal holds. */
export const JOURNAL_BYTES = 1024 * 1024;
/** A reader that still has more than this to read is behind: there is time to wait for it before anything is evicted. */
export const BEHIND_BYTES = 256 * 1024;
/** Decoded bytes of one frame at most. */
export const FRAME_BYTES = 32 * 1024;

export class Journal {
  /** Frames in order; the first #head of them are evicted already. */
  #frames = [];
  #head = 0;
  #bytes = 0;
  #newest = 0;
  #total = 0;
  #listeners = new Set();

  /** The sequence number of the oldest frame that can still be read; newest + 1 when there is none. */
  get oldest() {
    return this.#newest - (this.#frames.length - this.#head) + 1;
  }

  get newest() {
    return this.#newest;
  }

  /** The decoded bytes held now. */
  get bytes() {
    return this.#bytes;
  }

  /** The `output` member of a process: zeros as long as nothing was written. */
  get window() {
    return { oldest_seq: this.#newest === 0 ? 0 : this.oldest, newest_seq: this.#newest, bytes: this.#bytes };
  }

  /**
   * @param {"stdout"|"stderr"} stream
   * @param {Buffer} chunk
   */
  append(stream, chunk) {
    for (let at = 0; at < chunk.length; at += FRAME_BYTES) {
      const payload = chunk.length <= FRAME_BYTES ? chunk : chunk.subarray(at, at + FRAME_BYTES);
      this.#newest++;
      this.#bytes += payload.length;
      this.#total += payload.length;
      this.#frames.push({ stream, payload, size: payload.length, end: this.#total, line: null });
      while (this.#bytes > JOURNAL_BYTES) {
        this.#bytes -= this.#frames[this.#head].size;
        this.#frames[this.#head++] = undefined;
      }
    }
    // Removing evicted frames one by one would make every append linear.
    if (this.#head > 256 && this.#head * 2 > this.#frames.length) {
      this.#frames.splice(0, this.#head);
      this.#head = 0;
    }
    this.notify();
  }

  /**
   * The encoded line of a frame, newline included; encoded once, for all readers.
   * @param {number} seq between `oldest` and `newest`
   * @returns {Buffer}
   */
  line(seq) {
    const frame = this.#frame(seq);
    if (frame.line === null) {
      const base64 = frame.payload.toString("base64");
      frame.line = Buffer.from(
        `{"type":"data","seq":${seq},"stream":"${frame.stream}","data_base64":"${base64}"}\n`, "latin1");
      frame.payload = null;
    }
    return frame.line;
  }

  /**
   * How many decoded bytes a reader that needs `seq` next has not been given.
   * @param {number} seq
   */
  lag(seq) {
    if (seq > this.#newest) return 0;
    if (seq < this.oldest) return this.#bytes;
    const frame = this.#frame(seq);
    return this.#total - frame.end + frame.size;
  }

  /**
   * Calls `listener` after every addition (and `notify`).
   * @param {() => void} listener
   * @returns {() => void} ends it
   */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify() {
    for (const listener of this.#listeners) listener();
  }

  #frame(seq) {
    return this.#frames[this.#frames.length - 1 - (this.#newest - seq)];
  }
}
