// Runs one command in a sandbox of its own: its output passes through as it comes, its exit status is the demo's.

import { constants } from "node:os";
import { CreateosError, createProvider } from "../../index.js";
import { openEndpoint } from "./endpoint.mjs";
import { paramsFor } from "./params.mjs";

/** As long as a command may be given: whoever runs one by hand ends it by hand. */
const TIMEOUT_MS = 86_400_000;

/**
 * @param {string[]} words
 * @param {object} [options]
 * @param {NodeJS.ProcessEnv} [options.env]
 * @param {AbortSignal} [options.signal]
 * @returns {Promise<number>} the exit status; 128 and the signal's number after a signal, as shells have it
 */
export async function runCommand([command, ...args], { env = process.env, signal } = {}) {
  const endpoint = await openEndpoint(env);
  try {
    for (const warning of endpoint.emulator?.warnings ?? []) console.error(`Warning: ${warning}`);
    const params = { ...paramsFor(endpoint, await endpoint.createSandbox(signal)), command, args, timeoutMs: TIMEOUT_MS };
    const result = await createProvider().execute(params, (stream, text) => process[stream].write(text), signal);
    if (result.timedOut) console.error("The command was ended after 24 hours.");
    const number = /** @type {Record<string, number | undefined>} */ (constants.signals)[result.signal ?? ""];
    return result.exitCode ?? (number === undefined ? 1 : 128 + number);
  } catch (error) {
    if (!(error instanceof CreateosError) && !signal?.aborted) throw error;
    if (!signal?.aborted) console.error(/** @type {Error} */ (error).message);
    return 1;
  } finally {
    const left = await endpoint.destroySandboxes();
    await endpoint.close();
    if (left.length > 0) console.error(`The sandbox could not be deleted; its state is ${left.join(", ")}.`);
  }
}
