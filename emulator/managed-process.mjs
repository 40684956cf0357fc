// A managed process: a command with a journal, kept after its end until it is deleted or too many have ended. It knows
// states and answers; the HTTP calls are in routes/processes.mjs, the streaming of the journal in connect.mjs.
import { Command } from "./command.mjs";
import { Failure } from "./failure.mjs";
import { BEHIND_BYTES, Journal } from "./journal.mjs";
import { terminateTree } from "./terminate.mjs";

/** Bytes of standard input that may wait for a process that does not read. */
const INPUT_WAITING = 4 * 1024 * 1024;
/** How often a tree that outlived its leader is looked at while somebody waits for its end. */
const TREE_LOOK_MS = 50;

export class ManagedProcess {
  journal = new Journal();
  /** @type {Command} */
  #command;
  #request;
  #clock;
  #created;
  #finished = null;
  #inputClosed = false;
  #inputSeq = 0;
  #terminating = null;
  #exitWaiters = new Set();
  #readers = new Set();
  #holding = false;
  #readerGraceMs;
  /** The last time that a reader was known to be interested; the newest frame that one was given. */
  #lastSign = Date.now();
  #given = 0;
  #signTimer = null;

  /**
   * @param {string} id
   * @param {{cmd: string, args: string[], cwd: string, env: Record<string, string>}} request
   * @param {import("./sandbox.mjs").Surroundings} surroundings
   * @param {import("./isolation/index.mjs").SandboxRoot} root
   */
  static async start(id, request, { isolation, table, pipes, clock, readerGraceMs }, root) {
    const process = new ManagedProcess();
    process.id = id;
    process.#request = request;
    process.#clock = clock;
    process.#readerGraceMs = readerGraceMs;
    process.#created = new Date(clock.now()).toISOString();
    process.#command = await Command.start({
      root, isolation, table, pipes, id,
      argv: [request.cmd, ...request.args], cwd: request.cwd, env: request.env,
      onOutput: (stream, chunk) => process.#output(stream, chunk),
      onExit: () => process.#exited(),
    });
    return process;
  }

  #output(stream, chunk) {
    this.journal.append(stream, chunk);
    this.#pace();
  }

  #exited() {
    this.#finished = new Date(this.#clock.now()).toISOString();
    for (const waiter of this.#exitWaiters) waiter();
    this.#exitWaiters.clear();
    this.journal.notify();
  }

  // A process never waits for its journal. But on one machine it can write a whole journal in a millisecond, before a
  // reader that has just been told of it can connect, and faster than one that keeps up in general is scheduled. Output
  // should not be lost to that: for a while, the pipe is not read. A reader that makes no progress (its own rule, see
  // connect.mjs) is not waited for, nor is one that does not (re)connect within the same time.
  #pace() {
    const waits = this.#readers.size > 0 ? [...this.#readers].some((reader) => reader.isBehind()) : this.#awaitsReader();
    if (waits === this.#holding) return;
    this.#holding = waits;
    if (waits) this.#command.pause();
    else this.#command.resume();
  }

  /** Whether there is output that nobody has been given, and a reader may still come for it. */
  #awaitsReader() {
    const left = this.#lastSign + this.#readerGraceMs - Date.now();
    if (left <= 0 || this.journal.lag(this.#given + 1) < BEHIND_BYTES) return false;
    this.#signTimer ??= setTimeout(() => {
      this.#signTimer = null;
      this.#pace();
    }, left).unref();
    return true;
  }

  /**
   * @param {{isBehind: () => boolean}} reader
   * @returns {{given: (seq: number) => void, progress: () => void, leave: () => void}} what it tells of itself
   */
  addReader(reader) {
    this.#readers.add(reader);
    return {
      given: (seq) => (this.#given = Math.max(this.#given, seq)),
      progress: () => this.#pace(),
      leave: () => {
        this.#readers.delete(reader);
        this.#lastSign = Date.now();
        this.#pace();
      },
    };
  }

  get hasReaders() {
    return this.#readers.size > 0;
  }

  /** The leader's end, null while it runs. */
  get exit() {
    return this.#command.exit;
  }

  /** The process as `GET …/processes` and `…/wait` show it. */
  async view() {
    const treeExited = await this.#command.treeExited();
    const { exit } = this;
    return {
      process_id: this.id,
      kind: "process",
      pid: this.#command.pid,
      state: exit ? "exited" : this.#terminating ? "terminating" : "running",
      leader_exited: exit !== null,
      tree_exited: treeExited,
      created_at: this.#created,
      finished_at: this.#finished,
      exit_code: exit?.signal ? null : exit?.code ?? null,
      signal: exit?.signal ?? null,
      cmd: this.#request.cmd,
      args: this.#request.args,
      cwd: this.#request.cwd,
      output: this.journal.window,
    };
  }

  /**
   * @param {Buffer} bytes
   * @returns {number} the number of this input
   */
  input(bytes) {
    if (this.#inputClosed) throw new Failure(409, "standard input is closed");
    if (this.exit) throw new Failure(409, "the process has exited");
    if (this.#command.stdin.writableLength + bytes.length > INPUT_WAITING) {
      throw new Failure(409, "the process does not read its standard input");
    }
    this.#command.stdin.write(bytes);
    return ++this.#inputSeq;
  }

  closeInput() {
    if (this.#inputClosed) throw new Failure(409, "standard input is closed already");
    this.#inputClosed = true;
    if (!this.exit) this.#command.stdin.end();
  }

  /** @param {NodeJS.Signals} signal */
  signal(signal) {
    if (!this.#command.signal(signal)) throw new Failure(409, "the process has exited");
  }

  /**
   * @param {"leader"|"tree"} scope
   * @param {AbortSignal} signal ends the waiting
   */
  async waitFor(scope, signal) {
    while (!this.exit && !signal.aborted) await this.#nextExit(signal);
    if (scope === "leader") return;
    while (!signal.aborted && !(await this.#command.treeExited())) {
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, TREE_LOOK_MS);
        signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
      });
    }
  }

  #nextExit(signal) {
    return new Promise((resolve) => {
      const done = () => {
        this.#exitWaiters.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#exitWaiters.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }

  /** The living processes of the tree. */
  tree() {
    return this.#command.tree();
  }

  /** @param {number} graceMs @returns {Promise<boolean>} whether the whole tree has ended */
  async terminate(graceMs) {
    this.#terminating ??= terminateTree(this.#command, graceMs, this.#clock).finally(() => (this.#terminating = null));
    return this.#terminating;
  }
}
