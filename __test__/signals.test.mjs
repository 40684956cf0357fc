// Abort signals at every moment of a command: one outcome each, and nothing left behind on the signal.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, test } from "node:test";
import { data, exit, HEALTHY, startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { execute } from "./support/package.mjs";
import { SOAK } from "./support/soak.mjs";

const CANCELLED = "CreateOS command was cancelled.";
const CREATION = "CreateOS process creation could not be confirmed; destroy the lease before reusing it.";
const listeners = (signal) => getEventListeners(signal, "abort").length;

/** Calls and failures of the process that no test expects. */
const warnings = [];
process.on("warning", (warning) => warnings.push(warning));

describe("an abort", async () => {
  for (const [phase, message, requests] of [
    ["upload", CANCELLED, { create: 0, terminate: 0 }],
    ["create", CREATION, { create: 1, terminate: 0 }],
    ["stdinClose", CANCELLED, { terminate: 1 }],
    ["connect", CANCELLED, { terminate: 1 }],
  ]) {
    test(`during ${phase}: ${message}`, async (t) => {
      const endpoint = await startEndpoint({ [phase]: (exchange) => exchange.hang() }, { t });
      const environment = new Environment(endpoint);
      const controller = new AbortController();
      const run = assert.rejects(environment.run({ stdin: "x" }, { signal: controller.signal }), { message });
      await endpoint.seen(phase);
      assert.equal(listeners(controller.signal), 1);
      controller.abort();
      await run;
      assert.equal(listeners(controller.signal), 0);
      for (const [route, count] of Object.entries(requests)) assert.equal(endpoint.of(route).length, count, route);
      assert.equal(endpoint.of("exec").length, 1, "what was staged is removed");
    });
  }

  test("during the cleanup after an error changes nothing", async (t) => {
    const controller = new AbortController();
    const endpoint = await startEndpoint({ connect: (exchange) => exchange.fail(404), terminate: async (exchange) => {
      controller.abort();
      await new Promise((resolve) => setTimeout(resolve, 50));
      await exchange.success({ tree_exited: true });
    } }, { t });
    await assert.rejects(new Environment(endpoint).run({}, { signal: controller.signal }), { message: "CreateOS request failed (HTTP 404) during output connection." });
  });

  test("during the removal after an exit changes nothing", async (t) => {
    const controller = new AbortController();
    const endpoint = await startEndpoint({ exec: async (exchange) => {
      controller.abort();
      await new Promise((resolve) => setTimeout(resolve, 50));
      await HEALTHY.exec(exchange);
    } }, { t });
    assert.equal((await new Environment(endpoint).run({ stdin: "x" }, { signal: controller.signal })).exitCode, 0);
  });

  test("in the pause before a reconnect ends the command at once", async (t) => {
    const endpoint = await startEndpoint({ connect: (exchange) => exchange.fail(503, { "retry-after": "600" }) }, { t });
    const controller = new AbortController();
    const run = assert.rejects(new Environment(endpoint).run({}, { signal: controller.signal }), { message: CANCELLED });
    await endpoint.seen("connect");
    setTimeout(() => controller.abort(), 50);
    const begun = performance.now();
    await run;
    assert.ok(performance.now() - begun < 5000);
  });

  test("while waiting for its turn takes no slot and makes no request", async (t) => {
    const endpoint = await startEndpoint({}, { t });
    const environment = new Environment(endpoint);
    // Three requests a command; the budget is used up by the first.
    const pacing = { requestsPerMinute: 1, burst: 3 };
    await environment.run({}, { pacing });
    const before = endpoint.requests.length;
    const controller = new AbortController();
    const runs = Array.from({ length: 20 }, () => assert.rejects(environment.run({}, { pacing, signal: controller.signal }), { message: CANCELLED }));
    setTimeout(() => controller.abort(), 100);
    await Promise.all(runs);
    assert.equal(endpoint.requests.length, before);
  });

  test("exactly at the exit frame, 1,000 times: one outcome each, and the process is terminated or has exited", async (t) => {
    let controller;
    const endpoint = await startEndpoint({ connect: async (exchange) => {
      await exchange.head();
      const mine = controller;
      const spin = exchange.count % 40;
      await exchange.frames(data(1, "x"), exit(3));
      // From before the frame has arrived to after it was seen.
      setTimeout(() => mine.abort(), 0.05 * spin);
      if (spin % 3 === 0) mine.abort();
      await exchange.end();
    } }, { t });
    const environment = new Environment(endpoint);
    const client = environment.client();
    const outcomes = { exited: 0, cancelled: 0 };
    for (let i = 0; i < 1000; i++) {
      controller = new AbortController();
      let settlements = 0;
      const outcome = await execute(client, environment.params(), controller.signal).then(({ exitCode, timedOut, stdout }) => {
        settlements++;
        assert.deepEqual([exitCode, timedOut, stdout], [3, false, "x"]);
        return "exited";
      }, (error) => {
        settlements++;
        assert.equal(error.message, CANCELLED);
        return "cancelled";
      });
      outcomes[outcome]++;
      assert.equal(settlements, 1);
      assert.equal(listeners(controller.signal), 0);
    }
    assert.equal(endpoint.of("terminate").length, outcomes.cancelled, "what was cancelled, and only that, was terminated");
    t.diagnostic(JSON.stringify(outcomes));
  });

  test("of AbortSignal.any and AbortSignal.timeout leaves no listener on any of them", async (t) => {
    const endpoint = await startEndpoint({ connect: (exchange) => exchange.hang() }, { t });
    const environment = new Environment(endpoint);
    const controller = new AbortController();
    const any = AbortSignal.any([controller.signal, AbortSignal.timeout(60_000)]);
    const run = assert.rejects(environment.run({}, { signal: any }), { message: CANCELLED });
    await endpoint.seen("connect");
    controller.abort();
    await run;
    const late = AbortSignal.timeout(100);
    assert.equal((await environment.run({}, { signal: late })).timedOut, true);
    assert.deepEqual([any, late].map(listeners), [0, 0]);
  });

  test("one signal ends all of its commands, and a command that has ended takes no other's abort away", async (t) => {
    const endpoint = await startEndpoint({ connect: (exchange) => (exchange.path.includes("sb_short") ? HEALTHY.connect(exchange) : exchange.hang()) }, { t });
    const long = new Environment(endpoint);
    const short = new Environment(endpoint, {}, "sb_short");
    const controller = new AbortController();
    const { signal } = controller;
    const ended = Promise.all(Array.from({ length: 30 }, () => assert.rejects(long.run({}, { signal }), { message: CANCELLED })));
    await endpoint.seen("connect", 30);
    await Promise.all(Array.from({ length: 30 }, () => short.run({}, { signal })));
    assert.equal(listeners(signal), 1);
    controller.abort();
    await ended;
    assert.equal(listeners(signal), 0);
  });

  test("a reason that throws when it is looked at is a cancellation", async (t) => {
    const endpoint = await startEndpoint({ connect: (exchange) => exchange.hang() }, { t });
    const controller = new AbortController();
    const run = assert.rejects(new Environment(endpoint).run({}, { signal: controller.signal }), { message: CANCELLED });
    await endpoint.seen("connect");
    controller.abort({ get name() { throw new Error("mine"); } });
    await run;
  });

  const CALLS = SOAK ? 20_000 : 2000;
  test(`one signal for ${CALLS} calls: no listener left, no warning, flat memory`, async (t) => {
    const endpoint = await startEndpoint({}, { t });
    const environment = new Environment(endpoint);
    const client = environment.client();
    const { signal } = new AbortController();
    let most = 0;
    let warm = 0;
    for (let done = 0; done < CALLS; done += 50) {
      const runs = Array.from({ length: 50 }, () => execute(client, environment.params(), signal));
      most = Math.max(most, listeners(signal));
      for (const { exitCode } of await Promise.all(runs)) assert.equal(exitCode, 0);
      endpoint.requests.length = 0;
      globalThis.gc?.();
      if (done === Math.floor(CALLS / 4 / 50) * 50) warm = process.memoryUsage().rss;
    }
    assert.equal(most, 1, "one listener, however many calls share the signal");
    assert.equal(listeners(signal), 0);
    const grown = (process.memoryUsage().rss - warm) / 2 ** 20;
    t.diagnostic(`${grown.toFixed(1)} MiB more after three quarters of the calls`);
    assert.ok(grown < 64, `${grown} MiB`);
  });

  test("gave no warning, not of too many listeners either", () => assert.deepEqual(warnings, []));
});
