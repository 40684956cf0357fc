// All sandboxes of an emulator, by id; those that are gone are remembered for a while, so that `GET` can say so.
import { Failure } from "./failure.mjs";
import { Sandbox } from "./sandbox.mjs";

const REMEMBERED = 1000;

export class Sandboxes {
  /** @type {Map<string, Sandbox>} */
  #alive = new Map();
  /** @type {Map<string, {view: Record<string, unknown>}>} */
  #destroyed = new Map();
  #surroundings;
  #closed = false;

  /** @param {import("./sandbox.mjs").Surroundings} surroundings */
  constructor(surroundings) {
    this.#surroundings = surroundings;
  }

  create(request) {
    if (this.#closed) throw new Failure(503, "the emulator is closing");
    const sandbox = new Sandbox(request, this.#surroundings);
    this.#alive.set(sandbox.id, sandbox);
    return sandbox;
  }

  all() {
    return [...this.#alive.values()];
  }

  /**
   * @param {string} id
   * @param {{destroyed?: boolean}} [options] whether one that is gone will do
   * @returns {Sandbox}
   */
  get(id, { destroyed = false } = {}) {
    const found = this.#alive.get(id) ?? (destroyed ? this.#destroyed.get(id) : undefined);
    if (!found) throw new Failure(404, "no such sandbox");
    return found;
  }

  /** @param {Sandbox} sandbox */
  async destroy(sandbox) {
    await sandbox.destroy();
    if (!this.#alive.delete(sandbox.id)) return;
    this.#destroyed.set(sandbox.id, { view: sandbox.view });
    if (this.#destroyed.size > REMEMBERED) this.#destroyed.delete(this.#destroyed.keys().next().value);
  }

  /** Destroys all, and lets none be created any more. */
  async close() {
    this.#closed = true;
    await Promise.all(this.all().map((sandbox) => this.destroy(sandbox)));
  }

  kill() {
    for (const sandbox of this.#alive.values()) sandbox.kill();
  }
}
