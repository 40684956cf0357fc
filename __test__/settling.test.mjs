// What is waited for has settled before the wait is over: a release and a shutdown tell their callers last.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { STREAM_HEAD, chunk, data, lines, startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { CreateosCleanupError, release } from "./support/package.mjs";

const CANCELLED = { name: "CreateosError", message: "CreateOS command was cancelled." };

/** A command that prints something and goes on. */
const running = (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, chunk(lines(data(1, "up")))]));

/** Starts commands and waits until all of them run; `settled` counts those that have settled. */
async function several(count, start) {
  const runs = { settled: 0, outcomes: [] };
  await Promise.all(Array.from({ length: count }, () => new Promise((up) => {
    const run = start(up).catch((error) => error);
    runs.outcomes.push(run.then((outcome) => (runs.settled++, outcome)));
  })));
  return runs;
}

describe("settling", () => {
  test("every command has settled when a shutdown resolves", async (t) => {
    const endpoint = await startEndpoint({ connect: running, terminate: (exchange) => exchange.fail(403) }, { t });
    const environment = new Environment(endpoint);
    for (let round = 0; round < 20; round++) {
      const provider = environment.provider();
      const runs = await several(4, (up) => provider.execute(environment.params(), up));
      await provider.shutdown();
      assert.equal(runs.settled, 4);
      for (const outcome of await Promise.all(runs.outcomes)) assert.ok(outcome instanceof CreateosCleanupError);
    }
  });

  test("every command has settled when a release does", async (t) => {
    const endpoint = await startEndpoint({ connect: running, terminate: (exchange) => exchange.fail(403) }, { t });
    const environment = new Environment(endpoint, { reuseLease: true });
    for (let round = 0; round < 20; round++) {
      const provider = environment.provider();
      const runs = await several(2, (up) => provider.execute(environment.params(), up));
      await assert.rejects(provider.release(environment.held(), false), { message: "CreateOS process cleanup is unconfirmed; destroy this lease before reusing it." });
      assert.equal(runs.settled, 2);
      await Promise.all(runs.outcomes);
    }
  });

  test("a release ends what the module's execute begins while it waits", async (t) => {
    let confirm;
    const endpoint = await startEndpoint({ connect: running, terminate: async (exchange) => {
      if (exchange.count === 1) await new Promise((resolve) => (confirm = resolve));
      await exchange.success({ tree_exited: true });
    } }, { t });
    const environment = new Environment(endpoint);
    const start = (up) => environment.run({}, { log: up, signal: new AbortController().signal });
    const early = await several(1, start);
    const released = release(environment.held(), true);
    await endpoint.seen("terminate");
    const late = await several(1, start);
    confirm();
    await released;
    for (const outcome of await Promise.all([...early.outcomes, ...late.outcomes])) assert.equal(outcome.message, CANCELLED.message);
    assert.equal(endpoint.of("destroySandbox").length, 1);
    assert.equal(endpoint.of("terminate").length, 2);
  });

  test("a request that was not answered when its time was up counts as one", async (t) => {
    const endpoint = await startEndpoint({ create: (exchange) => exchange.hang() }, { t });
    const unanswered = (operation) => ({ name: "CreateosCleanupError", details: { operation, tries: 1, attempts: [{ failure: "timeout" }] } });
    await assert.rejects(new Environment(endpoint).run({ timeoutMs: 300 }), unanswered("process creation"));
    delete endpoint.handlers.create;
    Object.assign(endpoint.handlers, { connect: (exchange) => exchange.fail(404), terminate: (exchange) => exchange.hang() });
    await assert.rejects(new Environment(endpoint, { timeoutMs: 600 }).run(), unanswered("process cleanup"));
  });
});
