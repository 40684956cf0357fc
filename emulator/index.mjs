// A CreateOS endpoint for this machine that runs real processes: for demos, tests, and plugin developers without an
// account. This file puts the parts together and takes them apart again. The way of a request: server.mjs (who, which
// call) -> routes/ (what) -> sandbox.mjs and managed-process.mjs (state) -> command.mjs (the running command) ->
// isolation/ (where it runs); its output comes back by journal.mjs and connect.mjs.
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { createClock } from "./clock.mjs";
import { TREE_VARIABLE } from "./command.mjs";
import { chooseIsolation } from "./isolation/index.mjs";
import { PipePool } from "./pipes.mjs";
import { ProcessTable } from "./proc.mjs";
import { RateLimit } from "./rate-limit.mjs";
import { Recorder } from "./recorder.mjs";
import { Sandboxes } from "./sandboxes.mjs";
import { createServer } from "./server.mjs";
import { makeWorkDirectory, removeAbandoned, removeDirectory, removeDirectorySync } from "./work-directory.mjs";

/**
 * @param {import("./index.mjs").EmulatorOptions} [options]
 * @returns {Promise<import("./index.mjs").Emulator>}
 */
export async function startEmulator({
  port = 0, key = randomBytes(24).toString("base64url"), rateLimit = false, clock: clockOption, hooks = {},
  isolation: wanted = "auto", stateDelayMs = 20, heartbeatMs = 15_000, readerGraceMs = 1_000, keptRequests = 10_000,
} = {}) {
  const clock = createClock(clockOption);
  const limit = rateLimit ? new RateLimit(rateLimit, clock) : null;
  const isolation = await chooseIsolation(wanted);
  removeAbandoned();
  const directory = makeWorkDirectory();
  const pipeDirectory = path.join(directory, "pipes");
  mkdirSync(pipeDirectory, { mode: 0o700 });
  const table = isolation.mark ? new ProcessTable(["pid", isolation.mark]) : new ProcessTable([], TREE_VARIABLE);
  const surroundings = {
    isolation, clock, directory, stateDelayMs, heartbeatMs, readerGraceMs, table, pipes: new PipePool(pipeDirectory),
  };
  const sandboxes = new Sandboxes(surroundings);
  const recorder = new Recorder(keptRequests);
  const server = createServer({ key, sandboxes, surroundings, rateLimit: limit, hooks, recorder });

  // A program that ends without closing the emulator still leaves neither processes nor files.
  const atExit = () => {
    sandboxes.kill();
    removeDirectorySync(directory);
  };
  process.once("exit", atExit);
  const cleanUp = async () => {
    await sandboxes.close();
    surroundings.pipes.close();
    server.closeAllConnections();
    await removeDirectory(directory);
    process.off("exit", atExit);
  };

  try {
    await new Promise((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  } catch (error) {
    await cleanUp();
    throw error;
  }
  let closing = null;
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    key,
    isolation: isolation.kind,
    warnings: [...isolation.warnings],
    requests: recorder.requests,
    waitForRequest: (route, count = 1, timeoutMs = 10_000) => recorder.waitFor(route, count, timeoutMs),
    hostPids: async () => (await Promise.all(sandboxes.all().map((sandbox) => sandbox.hostPids()))).flat(),
    close() {
      closing ??= (async () => {
        const closed = new Promise((resolve) => server.close(resolve));
        await cleanUp();
        await closed;
      })();
      return closing;
    },
  };
}
