// Real pipes for the standard streams of commands. Node.js connects a child by socket pairs, which a command cannot
// open again: `echo hi > /dev/stderr` fails on a socket. Node.js cannot make a pipe either, so others do, in batches:
// `mkfifo` for output; for input a shell, whose here-documents are pipes that the emulator opens through /proc, as
// opening a FIFO whose writer has gone would wait for ever. It owns file descriptors, not processes.
import { execFile, spawn } from "node:child_process";
import { constants, closeSync, fstatSync, openSync, readSync, unlinkSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const FIFO_BATCH = 48;
const { O_RDONLY, O_WRONLY, O_RDWR, O_NONBLOCK } = constants;

// A shell can name descriptors of one digit.
const DESCRIPTORS = [3, 4, 5, 6, 7, 8, 9];
const HOLD_PIPES = `exec ${DESCRIPTORS.map((fd) => `${fd}<<E`).join(" ")}
${DESCRIPTORS.map(() => "-\nE\n").join("")}echo ready; read -r end`;

/** @typedef {{ours: number, theirs: number}} Pipe the emulator's and the command's file descriptor */

export class PipePool {
  #directory;
  #fifos = [];
  /** @type {Pipe[]} */
  #inputs = [];
  #filling = { fifos: null, inputs: null };
  #count = 0;

  /** @param {string} directory an existing directory that only this pool uses */
  constructor(directory) {
    this.#directory = directory;
  }

  /**
   * A pipe from a command to the emulator.
   * The command's end is in blocking mode: the flag belongs to the open file, so the two ends are opened apart.
   * @returns {Promise<Pipe>}
   */
  async output() {
    const fifo = await this.#take("fifos", this.#fifos, () => this.#makeFifos());
    const ours = openSync(fifo, O_RDONLY | O_NONBLOCK);
    const theirs = openSync(fifo, O_WRONLY);
    unlinkSync(fifo);
    return { ours, theirs };
  }

  /**
   * A pipe from the emulator to a command.
   * @returns {Promise<Pipe>}
   */
  input() {
    return this.#take("inputs", this.#inputs, () => this.#makeInputs());
  }

  /** Closes the pipes that nobody has taken. */
  close() {
    for (const { ours, theirs } of this.#inputs.splice(0)) {
      closeSync(ours);
      closeSync(theirs);
    }
  }

  async #take(kind, ready, make) {
    while (ready.length === 0) {
      this.#filling[kind] ??= make().then((made) => ready.push(...made)).finally(() => (this.#filling[kind] = null));
      await this.#filling[kind];
    }
    return ready.pop();
  }

  async #makeFifos() {
    const names = Array.from({ length: FIFO_BATCH }, () => path.join(this.#directory, String(this.#count++)));
    await run("mkfifo", ["-m", "600", "--", ...names]);
    return names;
  }

  async #makeInputs() {
    const shell = spawn("/bin/sh", ["-c", HOLD_PIPES], { stdio: ["pipe", "pipe", "ignore"], cwd: "/", detached: true });
    const ended = new Promise((resolve) => shell.on("exit", resolve).on("error", resolve));
    shell.stdin.on("error", () => {});
    await Promise.race([new Promise((resolve) => shell.stdout.once("data", resolve)), ended]);
    const made = DESCRIPTORS.map((fd) => openEnds(`/proc/${shell.pid}/fd/${fd}`)).filter((pipe) => pipe !== null);
    shell.stdin.destroy();
    return made.length > 0 ? made : [openFifo((await this.#makeFifos()).pop())];
  }
}

/** Both ends of the pipe that another process holds, emptied; null where a here-document is no pipe. */
function openEnds(name) {
  try {
    const first = openSync(name, O_RDONLY | O_NONBLOCK);
    try {
      if (!fstatSync(first).isFIFO()) return null;
      readSync(first, Buffer.alloc(16), 0, 16, null);
      return { ours: openSync(name, O_WRONLY | O_NONBLOCK), theirs: openSync(name, O_RDONLY) };
    } finally {
      closeSync(first);
    }
  } catch {
    return null;
  }
}

function openFifo(fifo) {
  // Opening a FIFO for both directions never waits (fifo(7)); then neither does opening its ends.
  const both = openSync(fifo, O_RDWR | O_NONBLOCK);
  const theirs = openSync(fifo, O_RDONLY);
  const ours = openSync(fifo, O_WRONLY | O_NONBLOCK);
  closeSync(both);
  unlinkSync(fifo);
  return { ours, theirs };
}
