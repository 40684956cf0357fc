// How events are told: to whom, in which context, at what cost, and what happens when a listener misbehaves.
import assert from "node:assert/strict";
import { AsyncLocalStorage, createHook } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, test } from "node:test";
import { data, exit, startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { CHANNELS, listener, told } from "./support/events.mjs";
import { CreateosClient, createProvider, execute, parseConfig, release } from "./support/package.mjs";
import { runProgram } from "./support/program.mjs";
import { scan } from "./support/secrets.mjs";
import { SOAK } from "./support/soak.mjs";

/** Ends its stream early five times, so that there are events to tell of. */
const cut = (exchange) => {
  const after = Number(exchange.query.after);
  return exchange.stream(after < 5 ? data(after + 1, "x") : exit(6));
};
const OPTIONS = { reconnect: { delayMs: 0 } };

/** What a command with such an output is told of. */
const TYPES = [...Array.from({ length: 5 }, () => ["connected", "reconnecting"]).flat(), "connected"];

/** Subscribes to all channels as long as the test runs. */
function subscriber(t, channels = CHANNELS) {
  const published = [];
  const listen = (event, name) => void published.push([name, scan(event)]);
  for (const channel of channels) subscribe(channel, listen);
  const stop = () => channels.forEach((channel) => unsubscribe(channel, listen));
  t.after(stop);
  return { published, stop };
}

describe("who listens", async () => {
  const endpoint = await startEndpoint({ connect: cut });
  const environment = new Environment(endpoint);

  test("by a channel gets the same events, from every call of the thread", async (t) => {
    const { published, stop } = subscriber(t);
    const { onEvent, events } = listener();
    await environment.run({}, { onEvent, ...OPTIONS });
    assert.deepEqual(events.map(({ type }) => type), TYPES);
    assert.deepEqual(published.map(([channel]) => channel), TYPES.map((type) => `createos:${type}`));
    for (const [i, [, event]] of published.entries()) assert.equal(event, events[i], "the same object");

    published.length = 0;
    await environment.run({}, OPTIONS);
    await environment.provider(OPTIONS).execute(environment.params());
    await release(environment.held(), true);
    assert.deepEqual(published.map(([, { type }]) => type), [...TYPES, ...TYPES, "released"]);
    assert.deepEqual(published.at(-1)[1], told("release")("released", null, { state: "destroyed" }));

    published.length = 0;
    stop();
    await environment.run({}, OPTIONS);
    assert.deepEqual(published, []);
  });

  test("to one channel gets its events alone", async (t) => {
    const { published } = subscriber(t, ["createos:reconnecting"]);
    await environment.run({}, OPTIONS);
    assert.deepEqual(published.map(([, { reason, attempt }]) => [reason, attempt]), Array(5).fill(["ended", 1]));
  });

  test("is called in the async context of the call", async (t) => {
    const storage = new AsyncLocalStorage();
    const contexts = new Set();
    const look = (event) => void contexts.add(`${event.processId} ${storage.getStore()}`);
    subscribe("createos:connected", look);
    t.after(() => unsubscribe("createos:connected", look));
    const client = environment.client({ ...OPTIONS, onEvent: look });
    const provider = environment.provider({ ...OPTIONS, onEvent: look });
    const results = await Promise.all(["a", "b", "c"].map((name) => storage.run(name, async () => {
      const mine = [await execute(client, environment.params()), await provider.execute(environment.params())];
      return mine.map(({ metadata }) => `${metadata.processId} ${name}`);
    })));
    assert.deepEqual([...contexts].sort(), results.flat().sort());
  });

  for (const [what, body, reason] of [
    ["throws", () => { throw new Error("mine"); }, /^A CreateOS event callback failed \(Error: mine\)\./],
    ["rejects", async () => { throw new Error("mine"); }, /Error: mine/],
    ["throws nothing", () => { throw undefined; }, /no error/],
    ["throws what throws when it is looked at", () => { throw new Proxy({}, { getPrototypeOf() { throw new Error("mine"); } }); }, /no error/],
    ["returns a thenable that cannot be read", () => Object.defineProperty({}, "then", { get() { throw new Error("mine"); } }), /Error: mine/],
  ]) {
    test(`and ${what} is told of once a call, and gets all events all the same`, async (t) => {
      const { published } = subscriber(t);
      const warnings = [];
      const warn = (warning) => warnings.push(warning);
      process.on("warning", warn);
      t.after(() => process.off("warning", warn));
      const types = [];
      const onEvent = ({ type }) => {
        types.push(type);
        return body();
      };
      for (const run of [() => environment.run({}, { onEvent, ...OPTIONS }), () => environment.provider({ onEvent, ...OPTIONS }).execute(environment.params())]) {
        assert.equal((await run()).exitCode, 6);
      }
      await new Promise((resolve) => setTimeout(resolve, 30));
      assert.deepEqual([types, published.length], [[...TYPES, ...TYPES], 2 * TYPES.length]);
      assert.deepEqual(warnings.map(({ code }) => code), Array(2).fill("CREATEOS_EVENT_CALLBACK"));
      for (const { message } of warnings) assert.match(message, reason);
    });
  }

  test("may start other commands, and end its own", async () => {
    const inner = [];
    const { exitCode } = await environment.run({}, { ...OPTIONS, onEvent: () => void inner.push(environment.run({}, OPTIONS)) });
    assert.equal(exitCode, 6);
    assert.equal((await Promise.all(inner)).length, TYPES.length);
    const controller = new AbortController();
    const { onEvent, events } = listener();
    await assert.rejects(environment.run({}, { ...OPTIONS, reconnect: { delayMs: 60_000 }, signal: controller.signal, onEvent: (event) => {
      onEvent(event);
      if (event.type === "reconnecting") controller.abort();
    } }), { message: "CreateOS command was cancelled." });
    assert.deepEqual(events.map(({ type, state }) => state ?? type), ["connected", "reconnecting", "started", "confirmed"]);
  });

  test("is a function, or an error names the option", () => {
    const config = parseConfig(environment.config);
    for (const onEvent of [null, true, {}, "x"]) {
      const error = { name: "RangeError", message: "onEvent must be a function" };
      assert.throws(() => createProvider({ onEvent }), error);
      assert.throws(() => new CreateosClient(config, { pacing: false, onEvent }), error);
    }
  });

  test("and is busy is waited for once 1,024 events are waiting", async (t) => {
    const endless = await startEndpoint({ connect: (exchange) => exchange.stream(data(Number(exchange.query.after) + 1, "x")) }, { t });
    const { code } = await runProgram(`
      const busy = () => {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000);
        process.exit(5);
      };
      addon.execute(environment.client({ reconnect: { delayMs: 0 }, onEvent: busy }), environment.params());`, endless);
    assert.equal(code, 5);
    // Two events each.
    const connections = endless.of("connect").length;
    assert.ok(connections <= 514, `${connections} connections`);
    t.diagnostic(`${connections} connections`);
  });

  test("may end the process", async () => {
    const { code, signal, stdout, stderr } = await runProgram(`
      const client2 = environment.client({ reconnect: { delayMs: 0 }, onEvent: () => process.exit(3) });
      addon.execute(client2, environment.params()).then(() => process.stdout.write("settled"));`, endpoint);
    assert.deepEqual({ code, signal, stdout, stderr }, { code: 3, signal: null, stdout: "", stderr: "" });
  });
});

describe("what listening costs", async () => {
  const endpoint = await startEndpoint({ connect: cut });
  const environment = new Environment(endpoint);

  /** How often native code made something to call JavaScript by during a command, and how often it called by it. */
  async function counted(run) {
    const made = new Map();
    const ours = new Set();
    let calls = 0;
    const hook = createHook({
      init(id, type) {
        if (!/napi/i.test(type)) return;
        made.set(type, (made.get(type) ?? 0) + 1);
        ours.add(id);
      },
      before(id) {
        if (ours.has(id)) calls++;
      },
    }).enable();
    try {
      await run();
    } finally {
      hook.disable();
    }
    return { made: [...made.values()].reduce((sum, count) => sum + count, 0), calls };
  }

  test("nobody who does not: neither a function to call nor a call", async (t) => {
    const client = environment.client(OPTIONS);
    const listening = environment.client({ ...OPTIONS, onEvent: () => {} });
    const run = (by, log) => counted(() => execute(by, environment.params(), null, log));
    await run(client);
    const silent = await run(client);
    const told = await run(listening);
    t.diagnostic(`without a listener ${JSON.stringify(silent)}, with one ${JSON.stringify(told)}`);
    subscriber(t, ["createos:released"]);
    const subscribed = await run(client);
    // A command without log and listener crosses over once: to settle its promise.
    assert.deepEqual([silent.made, told.made, subscribed.made], [1, 2, 2]);
    // Node.js may look for a call once more than there is one.
    assert.ok(silent.calls <= 2, `${silent.calls} calls`);
    for (const { calls } of [told, subscribed]) assert.ok(calls > TYPES.length, `${calls} calls`);
  });
});

const ROUNDS = SOAK ? 60 : 6;

describe("worker threads that listen", async () => {
  // Connections that end at once, each with something new, so that there is no end of events.
  const endpoint = await startEndpoint({ connect: (exchange) => exchange.stream(data(Number(exchange.query.after) + 1, "x")) });

  test(`are terminated in the middle of an event, ${ROUNDS} rounds of six, and nothing is harmed`, async () => {
    const source = `
      const { workerData: { root, config, params }, parentPort } = require("node:worker_threads");
      const addon = require(root + "/index.js");
      require("node:diagnostics_channel").subscribe("createos:connected", () => {});
      let events = 0;
      const onEvent = () => {
        if (++events === 20) parentPort.postMessage("telling");
        return new Promise((_, reject) => setTimeout(reject, 1, new Error("x")));
      };
      const options = { pacing: false, reconnect: { delayMs: 0 }, onEvent };
      const provider = addon.createProvider(options);
      const client = new addon.CreateosClient(addon.parseConfig(config), options);
      provider.execute(params).catch(() => {});
      addon.execute(client, params).catch(() => {});`;
    const { code, signal, stdout } = await runProgram(`
      import { Worker } from "node:worker_threads";
      for (let round = 0; round < ${ROUNDS}; round++) {
        const workers = Array.from({ length: 6 }, () => new Worker(${JSON.stringify(source)}, {
          eval: true, execArgv: [], workerData: { root: process.cwd(), config: environment.config, params: environment.params() },
        }));
        await Promise.all(workers.map((worker) => new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject))));
        await Promise.all(workers.map((worker) => worker.terminate()));
      }
      process.stdout.write("unharmed", () => process.exit(0));`, endpoint);
    assert.deepEqual([code, signal, stdout], [0, null, "unharmed"]);
  });
});
