// Endpoints that say nothing: half-open peers, and each phase of a command that hangs. Deadlines, aborts and idle
// timeouts come in time, and cleanup finds its way around what is dead.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { data, exit, startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { awaiting, until } from "./support/sandbox.mjs";

const CANCELLED = { name: "CreateosError", message: "CreateOS command was cancelled." };
const CREATION = { name: "CreateosCleanupError", message: "CreateOS process creation could not be confirmed; destroy the lease before reusing it." };
const CLEANUP = { name: "CreateosCleanupError", message: "CreateOS command cleanup failed; process termination is unconfirmed." };

const hang = (exchange) => exchange.hang();
const silent = async (exchange) => {
  await exchange.head();
  await exchange.frames(data(1, "up"));
  await exchange.gone();
};

/** The promise's outcome and how long it took. */
async function timed(promise) {
  const begun = performance.now();
  const outcome = await promise.then((value) => ({ value }), (error) => ({ error }));
  return { ...outcome, took: performance.now() - begun };
}

const CLEANUP_MS = 1500;
const TIMEOUT_MS = 700;

describe("a half-open peer", { concurrency: 6 }, () => {
  for (const [phase, connect] of [["before the head of its answer", hang], ["in the middle of its stream", silent]]) {
    for (const [how, end] of [["the deadline", { timeoutMs: TIMEOUT_MS }], ["an abort", {}]]) {
      test(`${phase}: ${how} comes in time, and cleanup uses another connection`, async (t) => {
        const endpoint = await startEndpoint({ connect }, { t });
        const environment = new Environment(endpoint);
        const controller = new AbortController();
        const run = timed(environment.run(end, end.timeoutMs ? {} : { signal: controller.signal }));
        await endpoint.seen("connect");
        controller.abort();
        const { value, error, took } = await run;
        if (end.timeoutMs) assert.equal(value.timedOut, true);
        else assert.deepEqual([error.name, error.message], [CANCELLED.name, CANCELLED.message]);
        assert.ok(took < TIMEOUT_MS + 3000, `${took} ms`);
        const [dead] = endpoint.of("connect");
        assert.notEqual(endpoint.of("terminate")[0].connection, dead.connection);
      });
    }

    test(`${phase}: the idle timeout connects anew, as often as need be, which is no failure`, async (t) => {
      const endpoint = await startEndpoint({ connect: (exchange) => (exchange.count < 12 ? connect(exchange) : exchange.stream(data(1, "up"), data(2, "!"), exit(3))) }, { t });
      const environment = new Environment(endpoint);
      const { stdout, exitCode } = await environment.run({}, { idleTimeoutMs: 50, reconnect: { attempts: 0 } });
      assert.deepEqual([stdout, exitCode], ["up!", 3]);
      assert.equal(endpoint.of("connect").length, 12);
      await until(() => endpoint.of("connect").every(({ socket, count }) => socket.destroyed || count === 12), "dead connections were kept open");
    });
  }

  test("bytes of any kind keep a stream from being idle", async (t) => {
    const endpoint = await startEndpoint({ connect: async (exchange) => {
      await exchange.head();
      for (let i = 0; i < 12; i++) {
        await exchange.write(i % 2 ? "\n" : '{"type":"heartbeat"}\n');
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      await exchange.frames(exit());
    } }, { t });
    assert.equal((await new Environment(endpoint).run({}, { idleTimeoutMs: 1000 })).exitCode, 0);
    assert.equal(endpoint.of("connect").length, 1);
  });

  test("with an idle timeout of 0 nothing is connected anew", async (t) => {
    const endpoint = await startEndpoint({ connect: silent }, { t });
    assert.equal((await new Environment(endpoint).run({ timeoutMs: 600 }, { idleTimeoutMs: 0 })).timedOut, true);
    assert.equal(endpoint.of("connect").length, 1);
  });

  test("a server that accepts and never shakes hands is given up after ten seconds", async (t) => {
    const endpoint = await startEndpoint({}, { t, connected: () => false });
    const environment = new Environment({ url: endpoint.url.replace("http", "https"), key: endpoint.key });
    const { error, took } = await timed(environment.run());
    assert.equal(error.message, CREATION.message);
    assert.deepEqual(error.details, { operation: "process creation", tries: 1, attempts: [{ failure: "timeout" }] });
    assert.ok(took > 8000 && took < 20_000, `${took} ms`);
  });
});

// They only wait, so they may wait together.
describe("a phase that hangs", { concurrency: 12 }, () => {
  /** Settled within its deadline, the time for cleanup and a second, as the contract says. */
  const inTime = (took) => assert.ok(took < TIMEOUT_MS + CLEANUP_MS + 1000, `it took ${took} ms`);
  const command = { stdin: "x", timeoutMs: TIMEOUT_MS };

  for (const [phase, handlers, expected, requests] of [
    ["upload", { upload: hang }, "timeout", { create: 0, terminate: 0 }],
    ["creation", { create: hang }, CREATION, { create: 1, terminate: 0 }],
    ["end of standard input", { stdinClose: hang }, "timeout", { terminate: 1 }],
    ["connection", { connect: hang }, "timeout", { terminate: 1 }],
    ["stream", { connect: silent }, "timeout", { terminate: 1 }],
    ["termination", { connect: silent, terminate: hang }, CLEANUP, {}],
    ["removal after a timeout", { connect: silent, exec: hang }, "timeout", { terminate: 1, exec: 1 }],
    ["termination and removal", { connect: silent, terminate: hang, exec: hang }, CLEANUP, { exec: 1 }],
    ["upload and removal", { upload: hang, exec: hang }, "timeout", { create: 0, exec: 1 }],
    ["creation and removal", { create: hang, exec: hang }, CREATION, { create: 1, exec: 1 }],
  ]) {
    for (const by of ["deadline", "TimeoutError", "abort", "provider"]) {
      test(`${phase}, ended by ${by === "provider" ? "a provider's deadline" : `${by === "deadline" ? "a" : "an"} ${by}`}`, async (t) => {
        const endpoint = await startEndpoint(handlers, { t });
        const environment = new Environment(endpoint);
        const options = { cleanupTimeoutMs: CLEANUP_MS };
        const signal = { TimeoutError: () => AbortSignal.timeout(TIMEOUT_MS), abort: () => {
          const controller = new AbortController();
          setTimeout(() => controller.abort(), TIMEOUT_MS);
          return controller.signal;
        } }[by]?.();
        const run = by === "provider" ? environment.provider(options).execute(environment.params(command)) : environment.run(command, { signal, ...options });
        const { value, error, took } = await timed(run);
        inTime(took);
        if (expected !== "timeout") assert.deepEqual([error?.name, error?.message], [expected.name, expected.message]);
        else if (by === "abort") assert.deepEqual([error?.name, error?.message], [CANCELLED.name, CANCELLED.message]);
        else assert.deepEqual([value?.timedOut, value?.exitCode], [true, null]);
        for (const [route, count] of Object.entries(requests)) assert.equal(endpoint.of(route).length, count, route);
      });
    }
  }

  test("the removal after an exit costs two seconds at most and changes nothing", async (t) => {
    const endpoint = await startEndpoint({ connect: (exchange) => exchange.stream(data(1, "x"), exit(9)), exec: hang }, { t });
    const { value, took } = await timed(new Environment(endpoint).run({ stdin: "x", timeoutMs: 500 }));
    assert.deepEqual([value.exitCode, value.timedOut, value.stdout], [9, false, "x"]);
    assert.ok(took < 5000, `${took} ms`);
  });

  test("the environment's timeout bounds cleanup where it is the smaller one, the command's own never does", async (t) => {
    const endpoint = await startEndpoint({ connect: silent, terminate: (exchange) => (exchange.count < 4 ? exchange.fail(503) : exchange.success({ tree_exited: true })) }, { t });
    assert.equal((await new Environment(endpoint).run({ timeoutMs: 1000 })).timedOut, true);
    const other = await startEndpoint({ connect: silent, terminate: hang }, { t });
    const { error, took } = await timed(new Environment(other, { timeoutMs: 400 }).run());
    assert.equal(error.message, CLEANUP.message);
    assert.ok(took < 4000, `${took} ms`);
  });

  test("another command on the same endpoint is not held up by those that hang", async (t) => {
    const endpoint = await startEndpoint({ connect: (exchange) => (exchange.path.includes("sb_stuck") ? exchange.hang() : exchange.stream(exit(0))) }, { t });
    const stuck = new Environment(endpoint, {}, "sb_stuck");
    const controller = new AbortController();
    const { log } = awaiting("");
    const ended = Promise.all(Array.from({ length: 100 }, () => assert.rejects(stuck.run({}, { signal: controller.signal, log }), CANCELLED)));
    await endpoint.seen("connect", 100);
    assert.equal((await new Environment(endpoint).run()).exitCode, 0);
    controller.abort();
    await ended;
  });
});
