// Chooses between the tour and a single command, and ends either early on a signal, leaving no sandbox behind.

import { constants } from "node:os";
import { runCommand } from "./command.mjs";
import { UsageError } from "./endpoint.mjs";
import { run } from "./tour.mjs";

/**
 * @param {string[]} words the command and its arguments; none for the tour
 * @param {import("../../emulator/index.mjs").Hooks} [hooks] for the tour's emulator, see there
 * @returns {Promise<number>} the exit status
 */
export async function main(words, hooks) {
  const interrupted = new AbortController();
  let status = 0;
  const end = (/** @type {NodeJS.Signals} */ name) => {
    // A second signal means now.
    if (interrupted.signal.aborted) process.exit(status);
    status = 128 + constants.signals[name];
    interrupted.abort();
  };
  for (const name of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) process.on(name, end);
  // Whoever read the output is gone, as with `| head`.
  process.stdout.on("error", () => end("SIGPIPE"));
  try {
    const { signal } = interrupted;
    const outcome = words.length > 0 ? await runCommand(words, { signal }) : (await run({ signal, hooks })) ? 0 : 1;
    return status || outcome;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(error.message);
    return 1;
  } finally {
    for (const name of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) process.off(name, end);
  }
}

