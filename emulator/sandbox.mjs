// One sandbox: its states and their changes, its root, its processes. Changes of state are asynchronous, as the
// endpoint's are: the call is answered while the change is on its way, and `GET` tells when it is done.
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { LaunchError } from "./command.mjs";
import { Failure } from "./failure.mjs";
import { ManagedProcess } from "./managed-process.mjs";
import { removeDirectory } from "./work-directory.mjs";
import { sendSignal } from "./signals.mjs";
import { stopAll, terminateTree } from "./terminate.mjs";

/** Ended processes that a sandbox keeps for `GET` and reconnects, by count and by journal bytes. */
const KEPT_PROCESSES = 1024;
const KEPT_BYTES = 128 * 1024 * 1024;

/**
 * @typedef {object} Surroundings what every part of one emulator shares
 * @property {import("./isolation/index.mjs").Isolation} isolation
 * @property {import("./proc.mjs").ProcessTable} table
 * @property {import("./pipes.mjs").PipePool} pipes
 * @property {import("./index.mjs").Clock} clock
 * @property {string} directory where sandboxes have their directories
 * @property {number} stateDelayMs
 * @property {number} heartbeatMs
 * @property {number} readerGraceMs
 */

/** What the name of a shape says: `s-0.25vcpu-512mb`. */
function sizeOf(shape) {
  const [, cpus, memory, unit] = /^s-([\d.]+)vcpu-(\d+)(mb|gb)$/.exec(shape) ?? ["", "1", "1", "gb"];
  return { vcpu: Number(cpus), mem_mib: Number(memory) * (unit === "gb" ? 1024 : 1) };
}

export const newId = (prefix) => `${prefix}_${randomBytes(12).toString("hex")}`;

export class Sandbox {
  id = newId("sb");
  status = "creating";
  /** @type {Map<string, ManagedProcess>} */
  processes = new Map();
  /** Commands of `exec` calls, which nobody can ask for afterwards. @type {Set<import("./command.mjs").Command>} */
  commands = new Set();
  #surroundings;
  #request;
  #directory;
  /** @type {import("./isolation/index.mjs").SandboxRoot|null} */
  #root = null;
  #opened;
  #stopped = new Set();
  #destroyed = null;
  #times = {};

  /**
   * @param {Record<string, any>} request the body of the create call, checked
   * @param {Surroundings} surroundings
   */
  constructor(request, surroundings) {
    this.#request = request;
    this.#surroundings = surroundings;
    this.#directory = path.join(surroundings.directory, this.id);
    this.#stamp("created_at");
    this.#opened = this.#open();
  }

  async #open() {
    try {
      await mkdir(this.#directory, { mode: 0o755 });
      const [root] = await Promise.all([this.#surroundings.isolation.open(this.#directory), this.#delay()]);
      this.#root = root;
      this.#become("creating", "running", "running_at");
    } catch {
      this.#become("creating", "failed");
    }
  }

  #become(from, to, stamp) {
    // A change that is overtaken by the sandbox's destruction has no effect.
    if (this.status !== from) return;
    this.status = to;
    if (stamp) this.#stamp(stamp);
  }

  #stamp(name) {
    this.#times[name] = new Date(this.#surroundings.clock.now()).toISOString();
  }

  #delay() {
    return new Promise((resolve) => this.#surroundings.clock.setTimeout(resolve, this.#surroundings.stateDelayMs));
  }

  get view() {
    const { shape, rootfs, region, name, ingress_enabled: ingress } = this.#request;
    return {
      id: this.id, status: this.status, name: name ?? this.id, shape, rootfs: rootfs ?? "default",
      ...(region === undefined ? {} : { region }), ingress_enabled: ingress === true,
      ...sizeOf(shape), disk_mib: 1024, egress: [], envs: Object.keys(this.declaredEnv), ...this.#times,
    };
  }

  /** The environment declared at creation, whose keys alone a command may override. */
  get declaredEnv() {
    return this.#request.envs ?? this.#request.env ?? {};
  }

  /** Where the sandbox's own `/` is for the emulator. */
  get rootPath() {
    return this.#root.root;
  }

  /** Host numbers of all processes in the sandbox but its process 1. */
  async #members() {
    const snapshot = await this.#surroundings.table.snapshot();
    if (this.#root.pid === 0) {
      return (await Promise.all([...this.processes.values(), ...this.commands].map((one) => one.tree()))).flat();
    }
    const init = snapshot.select(({ pid }) => pid === this.#root.pid)[0];
    if (!init) return [];
    return snapshot.select(({ namespaces }) => namespaces.pid === init.namespaces.pid)
      .filter(({ pid }) => pid !== this.#root.pid);
  }

  async hostPids() {
    return this.#root && this.#destroyed === null ? (await this.#members()).map(({ pid }) => pid) : [];
  }

  /** Waits for a sandbox that is being created; any other state but running refuses. */
  async requireRunning() {
    if (this.status === "creating") await this.#opened;
    if (this.status !== "running") throw new Failure(409, `the sandbox is ${this.status}`, { state: this.status });
  }

  pause() {
    if (this.status !== "running") throw new Failure(409, `a sandbox that is ${this.status} cannot be paused`);
    this.status = "pausing";
    Promise.all([stopAll(() => this.#members()), this.#delay()]).then(([stopped]) => {
      this.#stopped = stopped;
      this.#become("pausing", "paused", "paused_at");
    });
  }

  resume() {
    if (this.status !== "paused") throw new Failure(409, `a sandbox that is ${this.status} cannot be resumed`);
    this.status = "resuming";
    Promise.all([this.#continue(), this.#delay()]).then(() => this.#become("resuming", "running", "last_resumed_at"));
  }

  /** Continues what the pause has stopped, and nothing that had been stopped before. */
  async #continue() {
    for (const { pid } of await this.#members()) if (this.#stopped.has(pid)) sendSignal(pid, "SIGCONT");
    this.#stopped.clear();
  }

  /**
   * Runs `start` with what a command needs, and turns what goes wrong into answers.
   * @template T
   * @param {{cwd?: string, env?: Record<string, string>}} request
   * @param {(settings: {cwd: string, env: Record<string, string>, root: import("./isolation/index.mjs").SandboxRoot}) => Promise<T>} start
   * @returns {Promise<T>}
   */
  async launch({ cwd, env = {} }, start) {
    await this.requireRunning();
    for (const key of Object.keys(env)) {
      if (!Object.hasOwn(this.declaredEnv, key)) {
        throw new Failure(400, `the environment variable ${key} was not declared when the sandbox was created`);
      }
    }
    const root = this.#root;
    try {
      return await start({ root, cwd: cwd || root.workspace, env: { ...this.#baseEnv(), ...this.declaredEnv, ...env } });
    } catch (error) {
      if (!(error instanceof LaunchError)) throw error;
      if (error.reason === "directory") throw new Failure(400, "the working directory does not exist");
      if (error.reason === "arguments") throw new Failure(400, "the arguments and environment are too long");
      throw new Failure(this.status === "running" ? 500 : 409, "the command could not be started");
    }
  }

  // Nothing else of the emulator's own environment is passed on: it may hold credentials.
  #baseEnv() {
    const PATH = process.env.PATH || "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    return { PATH, HOME: this.#root.home, USER: "root", LOGNAME: "root", SHELL: "/bin/bash", LANG: "C.UTF-8" };
  }

  /** @param {{cmd: string, args: string[], cwd?: string, env?: Record<string, string>}} request */
  async createProcess(request) {
    return this.launch(request, async ({ root, cwd, env }) => {
      const id = newId("proc");
      const process = await ManagedProcess.start(id, { ...request, cwd, env }, this.#surroundings, root);
      this.processes.set(id, process);
      this.#forgetEnded();
      return process;
    });
  }

  #forgetEnded() {
    const ended = [...this.processes.values()].filter((process) => process.exit && !process.hasReaders);
    let bytes = ended.reduce((sum, process) => sum + process.journal.bytes, 0);
    while (ended.length > KEPT_PROCESSES || bytes > KEPT_BYTES) {
      const oldest = ended.shift();
      bytes -= oldest.journal.bytes;
      this.processes.delete(oldest.id);
    }
  }

  /** Ends everything in the sandbox and removes its directory; resolves when nothing is left. */
  destroy() {
    this.#destroyed ??= (async () => {
      this.status = "destroying";
      await this.#opened;
      if (this.#root?.pid === 0) {
        await Promise.all([
          ...[...this.processes.values()].map((process) => process.terminate(0)),
          ...[...this.commands].map((command) => terminateTree(command, 0, this.#surroundings.clock)),
        ]);
      }
      await this.#root?.close();
      await removeDirectory(this.#directory);
      this.status = "destroyed";
      this.#stamp("destroyed_at");
    })();
    return this.#destroyed;
  }

  /** Kills everything at once, without waiting: for the end of the program. */
  kill() {
    this.#root?.kill();
  }
}
