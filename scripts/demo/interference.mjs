// Cuts output connections on purpose, by a hook of the emulator.

/** @typedef {import("../../emulator/index.mjs").HookAction} HookAction */

export class Interference {
  /** What happens to the next output connections, one after the other. @type {HookAction[]} */
  #planned = [];
  #other;

  /** @param {import("../../emulator/index.mjs").Hooks} other asked first; what it wants done goes */
  constructor(other) {
    this.#other = other;
  }

  /** @returns {import("../../emulator/index.mjs").Hooks} */
  get hooks() {
    return {
      request: async (request) => {
        const cut = request.route === "connect" ? this.#planned.shift() : undefined;
        return { ...cut, ...(await this.#other.request?.(request)) };
      },
    };
  }

  /** @param {HookAction[]} actions */
  plan(...actions) {
    this.#planned = actions;
  }

  /** How many of the planned actions are still to come. */
  get pending() {
    return this.#planned.length;
  }
}
