// The tour: opens an endpoint, plays the scenes in one sandbox, cleans up and says what came of the checks. A scene that
// throws is a failed check, and the next one is played all the same.

import { CreateosError, createProvider } from "../../index.js";
import { openEndpoint } from "./endpoint.mjs";
import { Interference } from "./interference.mjs";
import { paramsFor } from "./params.mjs";
import { Report } from "./report.mjs";
import { cutConnection, liveOutput, releaseLease, timeout } from "./scenes.mjs";

/**
 * @typedef {object} Stage what a scene has to work with
 * @property {Report} report
 * @property {import("./endpoint.mjs").Endpoint} endpoint
 * @property {Interference} interference
 * @property {import("../../index.js").CreateosProvider} provider
 * @property {string} sandbox
 * @property {ReturnType<typeof paramsFor>} params of calls on the sandbox
 * @property {AbortSignal} [signal] ends the tour early
 */

/**
 * @param {object} [options]
 * @param {NodeJS.ProcessEnv} [options.env] where `CREATEOS_*` are looked up
 * @param {import("../../emulator/index.mjs").Hooks} [options.hooks] further interference with the emulator; a tour whose
 *   endpoint misbehaves must say so, and this is how that is tested
 * @param {{write(text: string): unknown, isTTY?: boolean}} [options.out]
 * @param {AbortSignal} [options.signal] ends the tour early
 * @returns {Promise<boolean>} whether every check passed
 */
export async function run({ env = process.env, hooks = {}, out = process.stdout, signal } = {}) {
  const report = new Report(out);
  const interference = new Interference(hooks);
  const endpoint = await openEndpoint(env, interference.hooks);
  try {
    report.title("createos-native");
    report.line(`Commands run in a sandbox of ${endpoint.description}.`);
    for (const warning of endpoint.emulator?.warnings ?? []) report.line(`Warning: ${warning}`);
    await play(report, endpoint, interference, signal);
  } finally {
    await cleanUp(report, endpoint);
  }
  return report.summary();
}

/**
 * @param {Report} report
 * @param {import("./endpoint.mjs").Endpoint} endpoint
 * @param {Interference} interference
 * @param {AbortSignal} [signal]
 */
async function play(report, endpoint, interference, signal) {
  const provider = createProvider();
  const sandbox = await endpoint.createSandbox(signal);
  const stage = { report, endpoint, interference, provider, sandbox, params: paramsFor(endpoint, sandbox), signal };
  for (const [title, scene] of /** @type {const} */ ([
    ["Output of both streams, live", liveOutput],
    ["A connection that is cut, twice", cutConnection],
    ["A timeout", timeout],
    ["A release", releaseLease],
  ])) {
    report.title(title);
    try {
      await scene(stage);
    } catch (error) {
      // Of its own errors the addon promises that they tell no secrets; of any other, the kind is enough.
      const reason = error instanceof CreateosError ? error.message : error instanceof Error ? error.name : "unknown";
      report.check(false, `${title}: the scene was played to its end`, reason);
    }
  }
  await provider.shutdown();
}

/**
 * @param {Report} report
 * @param {import("./endpoint.mjs").Endpoint} endpoint
 */
async function cleanUp(report, endpoint) {
  report.title("What is left");
  const left = await endpoint.destroySandboxes().catch(() => ["unknown"]);
  report.check(left.length === 0, "every sandbox of the demo is deleted", left.join(", "));
  if (endpoint.emulator) {
    const pids = await endpoint.emulator.hostPids();
    report.check(pids.length === 0, "no process of any sandbox is left on this machine", `${pids.length} processes`);
  }
  await endpoint.close();
}
