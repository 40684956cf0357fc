// One running command: started inside a sandbox, its three pipes, its leader's end, and the end of its tree. It hands
// output and exit to whoever started it and knows neither journals nor HTTP.
//
// Two lives are told apart. The leader is the program that was asked for; it ends with the exit code or signal that is
// reported. The tree is everything it started, daemons included; it is known by its mark (isolation/index.mjs).
import { spawn } from "node:child_process";
import { closeSync, readSync } from "node:fs";
import { Socket } from "node:net";
import { childrenOf, holdNamespace, innerPid, namespaceOf } from "./proc.mjs";
import { sendSignal } from "./signals.mjs";

// Runs inside the sandbox before the command: it changes directory, reports, and waits for the word to begin, so that
// the emulator knows the leader's number and mark before any of the command's own code runs. Descriptor 2 is the
// control connection until then, and stays that of the command's parent; the command's own stderr comes as 3.
const LAUNCH = `cd -- "$1" 2>/dev/null || { echo directory >&2; exit 125; }
shift; unset OLDPWD; echo ready >&2; read -r go <&2 || exit 125; unset go
exec "$@" 2>&3 3>&-`;

/** The environment variable that marks a tree where there are no namespaces to do it. */
export const TREE_VARIABLE = "CREATEOS_EMULATOR_TREE";
/** The most that a pipe holds (/proc/sys/fs/pipe-max-size): what a leader wrote before its end is within it. */
const PIPE_MAX = 1024 * 1024;

/** A command that could not be started; `reason` says whose fault it is. */
export class LaunchError extends Error {
  /** @param {"directory"|"arguments"|"sandbox"} reason */
  constructor(reason) {
    super(`A command could not be started (${reason}).`);
    this.reason = reason;
  }
}

export class Command {
  #outputs = {};
  #stdin;
  #mark = null;
  /** Keeps the namespace that is the mark, or a stranger's tree could get it while this one is still asked about. */
  #held = null;
  #table;
  #markedBy;
  #treeGone = false;

  /** The leader's number on the host and inside its sandbox. */
  hostPid = 0;
  pid = 0;
  /** @type {{code: number|null, signal: NodeJS.Signals|null}|null} */
  exit = null;

  /**
   * Starts a command and resolves once it runs.
   * @param {object} options
   * @param {import("./isolation/index.mjs").SandboxRoot} options.root
   * @param {import("./isolation/index.mjs").Isolation} options.isolation
   * @param {import("./proc.mjs").ProcessTable} options.table
   * @param {import("./pipes.mjs").PipePool} options.pipes
   * @param {string} options.id
   * @param {string[]} options.argv
   * @param {string} options.cwd
   * @param {Record<string, string>} options.env
   * @param {(stream: "stdout"|"stderr", chunk: Buffer) => void} options.onOutput
   * @param {(exit: {code: number|null, signal: NodeJS.Signals|null}) => void} options.onExit after all of its output
   */
  static async start({ root, isolation, table, pipes, id, argv, cwd, env, onOutput, onExit }) {
    const command = new Command();
    command.#table = table;
    command.#markedBy = isolation.mark;
    const [stdin, stdout, stderr] = await Promise.all([pipes.input(), pipes.output(), pipes.output()]);
    const marked = isolation.mark ? env : { ...env, [TREE_VARIABLE]: id };
    const [program, ...args] = root.enter(["/bin/sh", "-c", LAUNCH, "sh", cwd, ...argv]);
    let child;
    try {
      child = spawn(program, args, {
        cwd: "/", env: marked, detached: true, stdio: [stdin.theirs, stdout.theirs, "pipe", stderr.theirs],
      });
    } catch {
      for (const { ours } of [stdin, stdout, stderr]) closeSync(ours);
      throw new LaunchError("arguments");
    } finally {
      for (const { theirs } of [stdin, stdout, stderr]) closeSync(theirs);
    }
    command.#stdin = new Socket({ fd: stdin.ours, readable: false, writable: true });
    command.#stdin.on("error", () => {});
    for (const [name, { ours }] of Object.entries({ stdout, stderr })) {
      const socket = new Socket({ fd: ours, readable: true, writable: false });
      socket.on("error", () => {});
      socket.on("data", (chunk) => command.exit === null && onOutput(name, chunk));
      command.#outputs[name] = { socket, fd: ours, drain: (chunk) => onOutput(name, chunk) };
    }
    await command.#begin(child, id, onExit);
    return command;
  }

  /** The handshake with LAUNCH, and what becomes of the child afterwards. */
  #begin(child, id, onExit) {
    return new Promise((resolve, reject) => {
      const control = child.stderr;
      let said = "";
      let started = false;
      const fail = (reason) => {
        this.#closePipes();
        reject(new LaunchError(reason));
      };
      child.on("error", (error) => fail(error.code === "E2BIG" ? "arguments" : "sandbox"));
      // What was said last may still be on its way when the end is known.
      const whenHeard = (then) => (control.closed ? then() : control.once("close", then));
      child.on("exit", (code, signal) => {
        if (!started) return whenHeard(() => fail(said === "directory\n" ? "directory" : "sandbox"));
        // An `unshare` before util-linux 2.40 cannot end by SIGKILL as its child did: it complains and ends with 1.
        if (code !== 1 || !this.#markedBy) return this.#ended({ code, signal }, onExit);
        whenHeard(() => this.#ended(said === "" ? { code, signal } : { code: null, signal: "SIGKILL" }, onExit));
      });
      control.on("error", () => {});
      control.on("data", (text) => {
        said += text;
        if (said !== "ready\n" || started) return;
        said = "";
        started = true;
        this.hostPid = this.#markedBy ? childrenOf(child.pid)[0] ?? 0 : child.pid;
        this.pid = innerPid(this.hostPid);
        this.#mark = this.#markedBy ? namespaceOf(this.hostPid, this.#markedBy) : id;
        if (this.#markedBy) this.#held = holdNamespace(this.hostPid, this.#markedBy);
        control.write("\n");
        resolve();
      });
    });
  }

  #ended(exit, onExit) {
    this.#drain();
    this.exit = exit;
    this.#stdin.destroy();
    onExit(exit);
    // A daemon that is left may go on writing; its output is read, so that it does not stall, and dropped.
    for (const { socket } of Object.values(this.#outputs)) socket.resume();
    // Most trees end with their leader, and what is held for them need not wait until somebody asks.
    void this.tree();
  }

  /** Reads what the leader wrote before it ended; a daemon that holds the pipe open cannot make this wait. */
  #drain() {
    const buffer = Buffer.allocUnsafe(64 * 1024);
    for (const { socket, fd, drain } of Object.values(this.#outputs)) {
      // What the socket has read already comes first.
      socket.pause();
      while (socket.read() !== null);
      if (socket.destroyed) continue;
      for (let total = 0; total < PIPE_MAX;) {
        let length;
        try {
          length = readSync(fd, buffer, 0, buffer.length, null);
        } catch {
          break; // EAGAIN: empty, though still open somewhere.
        }
        if (length === 0) break;
        total += length;
        drain(Buffer.from(buffer.subarray(0, length)));
      }
    }
  }

  #closePipes() {
    this.#stdin.destroy();
    for (const { socket } of Object.values(this.#outputs)) socket.destroy();
  }

  /** Stops reading output for the time being. */
  pause() {
    if (this.exit === null) for (const { socket } of Object.values(this.#outputs)) socket.pause();
  }

  resume() {
    for (const { socket } of Object.values(this.#outputs)) socket.resume();
  }

  /** Standard input; writing to a command that has closed its end is not an error here. */
  get stdin() {
    return this.#stdin;
  }

  /** @param {NodeJS.Signals} signal to the leader alone; false when it has ended */
  signal(signal) {
    if (this.exit !== null) return false;
    // The number may have been given to another process a moment ago.
    if (this.#markedBy && namespaceOf(this.hostPid, this.#markedBy) !== this.#mark) return false;
    sendSignal(this.hostPid, signal);
    return true;
  }

  /** The processes of the tree that are alive. @returns {Promise<import("./proc.mjs").Entry[]>} */
  async tree() {
    if (this.#treeGone) return [];
    const look = async () => (await this.#table.snapshot()).select((entry) =>
      this.#markedBy ? entry.namespaces[this.#markedBy] === this.#mark : entry.marker === this.#mark);
    const alive = await look();
    if (alive.length > 0 || this.exit === null) return alive;
    // A table that is read entry by entry can miss a process that was born behind the reader's back, its parent gone
    // before its turn: once more, then.
    const again = await look();
    if (again.length === 0) {
      // Others may have asked at the same time.
      if (this.#held !== null) closeSync(this.#held);
      this.#held = null;
      this.#treeGone = true;
      this.#closePipes();
    }
    return again;
  }

  /** Whether the leader and everything that it started have ended. */
  async treeExited() {
    return this.exit !== null && (await this.tree()).length === 0;
  }
}
