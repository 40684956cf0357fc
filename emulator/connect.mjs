// One connection to a process's output: replays the journal from a sequence number, then follows it live, and ends with
// the exit frame. It reads the journal only as fast as its socket takes it, and says so when output was evicted before
// it came to it.
import { BEHIND_BYTES } from "./journal.mjs";

/** Bytes written to a socket in one go. */
const BATCH_BYTES = 256 * 1024;
const HEARTBEAT = Buffer.from('{"type":"heartbeat"}\n');

export class Reader {
  #process;
  #out;
  #next;
  #heartbeatMs;
  #graceMs;
  #clock;
  #full = false;
  #stalled = false;
  #graceTimer = null;
  #heartbeatTimer = null;
  #registration;
  #stopListening;
  #done = false;

  /**
   * @param {import("./managed-process.mjs").ManagedProcess} process
   * @param {number} after the last sequence number that the client has
   * @param {import("./response.mjs").Response} out
   * @param {import("./sandbox.mjs").Surroundings} surroundings
   */
  constructor(process, after, out, { heartbeatMs, readerGraceMs, clock }) {
    this.#process = process;
    this.#next = after + 1;
    this.#out = out;
    this.#heartbeatMs = heartbeatMs;
    this.#graceMs = readerGraceMs;
    this.#clock = clock;
    out.head(200, { "content-type": "application/x-ndjson" });
    out.onClose(() => this.#finish());
    out.onDrain(() => {
      this.#full = false;
      this.#stalled = false;
      clearTimeout(this.#graceTimer);
      this.#graceTimer = null;
      this.#pump();
      this.#registration.progress();
    });
    this.#registration = process.addReader(this);
    this.#stopListening = process.journal.listen(() => this.#pump());
    this.#beat();
    this.#pump();
  }

  /** Whether reading the process's pipe should wait for this reader: behind, but known to make progress. */
  isBehind() {
    if (this.#done || !this.#full || this.#stalled || this.#graceMs === 0) return false;
    if (this.#process.journal.lag(this.#next) < BEHIND_BYTES) return false;
    this.#graceTimer ??= setTimeout(() => {
      this.#graceTimer = null;
      this.#stalled = this.#full;
      this.#registration.progress();
    }, this.#graceMs);
    return true;
  }

  #pump() {
    const { journal } = this.#process;
    while (!this.#done && !this.#full && this.#next <= journal.newest) {
      if (this.#next < journal.oldest) {
        this.#end({ type: "error", error: "output_offset_expired", oldest_available_seq: journal.oldest });
        return;
      }
      this.#send(this.#batch());
      this.#registration.given(this.#next - 1);
      // Cut by a hook, for instance: what would follow is not given to anybody.
      if (this.#out.closed) return this.#finish();
    }
    if (!this.#done && !this.#full && this.#process.exit) this.#end(exitFrame(this.#process.exit));
  }

  /** The lines that come next, as many as go out at once. */
  *#batch() {
    const { journal } = this.#process;
    for (let bytes = 0; bytes < BATCH_BYTES && this.#next <= journal.newest;) {
      const line = journal.line(this.#next++);
      bytes += line.length;
      yield line;
    }
  }

  /** @param {Iterable<Buffer>} lines */
  #send(lines) {
    this.#full = !this.#out.writeAll(lines);
    this.#beat();
  }

  /** (Re)starts the time after which silence is filled with a heartbeat. */
  #beat() {
    this.#clock.clearTimeout(this.#heartbeatTimer);
    this.#heartbeatTimer = this.#clock.setTimeout(() => {
      if (this.#full) this.#beat();
      else this.#send([HEARTBEAT]);
    }, this.#heartbeatMs);
  }

  /** @param {object} last the frame after which there are no more */
  #end(last) {
    this.#finish();
    this.#out.write(Buffer.from(`${JSON.stringify(last)}\n`));
    this.#out.end();
  }

  #finish() {
    if (this.#done) return;
    this.#done = true;
    this.#clock.clearTimeout(this.#heartbeatTimer);
    clearTimeout(this.#graceTimer);
    this.#stopListening();
    this.#registration.leave();
  }
}

function exitFrame({ code, signal }) {
  return signal ? { type: "exit", signal } : { type: "exit", exit_code: code };
}
