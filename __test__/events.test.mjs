// What `onEvent` is told, call by call: everything that operators ask about, in order, and nothing that is secret.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";
import { chunk, data, exit, HEALTHY, LAST_CHUNK, lines, startEndpoint, STREAM_HEAD } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { listener, told } from "./support/events.mjs";
import { Host, temporary, WORKSPACE } from "./support/lease.mjs";
import { execute } from "./support/package.mjs";
import { SECRET } from "./support/secrets.mjs";

const event = told("execute");
const PROCESS = "proc_1";
const STARTED = event("cleanup", PROCESS, { state: "started" });
const CONFIRMED = event("cleanup", PROCESS, { state: "confirmed" });
const UNCONFIRMED = event("cleanup", PROCESS, { state: "unconfirmed" });
const CONNECTED = event("connected", PROCESS);

/** A command that has secrets everywhere. */
const COMMAND = { command: SECRET, args: [SECRET], env: { NAME: SECRET }, cwd: `/${SECRET}`, stdin: SECRET };

/** What commands print here, and no event repeats. */
const PRINTED = "printed-by-the-command";

/** A command that has begun to print and goes on. */
const running = (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, chunk(lines(data(1, PRINTED)))]));

/** Runs a command and gives what was told, and how the call settled. */
async function observe(t, handlers, { options = {}, command = COMMAND, ...more } = {}) {
  const endpoint = await startEndpoint(handlers, { t });
  const { onEvent, events } = listener();
  const environment = new Environment(endpoint);
  const client = environment.client({ onEvent: more.onEvent ? (event) => { onEvent(event); more.onEvent(event); } : onEvent, ...options });
  const settled = await execute(client, environment.params(command), more.signal, more.log).then((value) => ({ value }), (error) => ({ error }));
  assert.ok(!JSON.stringify(events).includes(PRINTED));
  return { endpoint, environment, client, events, ...settled };
}

describe("the events of a command", () => {
  test("that runs without trouble are its connection", async (t) => {
    const { events, environment } = await observe(t, {});
    assert.deepEqual(events, [CONNECTED]);
    const own = listener();
    await environment.provider({ onEvent: own.onEvent }).execute(environment.params(COMMAND));
    assert.deepEqual(own.events, [{ ...CONNECTED, processId: "proc_2" }]);
  });

  test("over lost connections tell why and how often", async (t) => {
    let reset;
    const again = (reason, attempt, facts) => event("reconnecting", PROCESS, { reason, ...facts, attempt, delayMs: 0 });
    const script = [
      (exchange) => exchange.stream(data(1, "a")),
      (exchange) => exchange.fail(503),
      (exchange) => exchange.fail(302, { location: "/" }),
      (exchange) => exchange.fail(429, { "retry-after": "0" }),
      async (exchange) => {
        reset = () => exchange.reset();
        await exchange.raw(Buffer.concat([STREAM_HEAD, chunk(lines(data(2, "b")))]));
      },
      (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, chunk('{"type":"exi'), LAST_CHUNK])),
      (exchange) => exchange.stream(exit(3)),
    ];
    const { events, value } = await observe(t, { connect: (exchange) => script[exchange.count - 1](exchange) }, {
      options: { reconnect: { attempts: 9, delayMs: 0 } },
      log: (_stream, text) => text.includes("b") && reset(),
    });
    assert.equal(value.exitCode, 3);
    assert.deepEqual(events, [
      CONNECTED, again("ended", 1), again("http", 2, { status: 503 }), again("protocol", 3),
      event("throttled", PROCESS, { cause: "rate-limit", waitMs: 0 }), again("http", 4, { status: 429 }),
      CONNECTED, again("reset", 1), CONNECTED, again("ended", 2), CONNECTED,
    ]);
  });

  test("with growing delays tell how long each is, and giving up is no reconnecting", async (t) => {
    const { events, error } = await observe(t, { connect: (exchange) => exchange.fail(500) }, { options: { reconnect: { attempts: 3, delayMs: 5 } } });
    assert.equal(error.message, "CreateOS process output connection failed.");
    const again = (attempt, delayMs) => event("reconnecting", PROCESS, { reason: "http", status: 500, attempt, delayMs });
    assert.deepEqual(events, [again(1, 5), again(2, 10), again(3, 20), STARTED, CONFIRMED]);
  });

  test("on a silent connection tell that it was idle", async (t) => {
    const { events } = await observe(t, { connect: (exchange) => (exchange.count < 3 ? exchange.head() : exchange.stream(exit())) }, { options: { idleTimeoutMs: 300 } });
    const idle = (attempt) => event("reconnecting", PROCESS, { reason: "idle", attempt, delayMs: 0 });
    assert.deepEqual(events, [CONNECTED, idle(1), CONNECTED, idle(2), CONNECTED]);
  });

  test("that is asked to wait by Retry-After tell how long", async (t) => {
    const { events } = await observe(t, { connect: (exchange) => (exchange.count === 1 ? exchange.fail(429, { "retry-after": "1" }) : exchange.stream(exit())) });
    assert.deepEqual(events, [
      event("throttled", PROCESS, { cause: "rate-limit", waitMs: 1000 }),
      event("reconnecting", PROCESS, { reason: "http", status: 429, attempt: 1, delayMs: 1000 }),
      CONNECTED,
    ]);
  });

  test("that waits for an earlier Retry-After tell so, whoever was asked to", async (t) => {
    const { events, error, environment } = await observe(t, { create: (exchange) => (exchange.count === 1 ? exchange.fail(429, { "retry-after": "2" }) : HEALTHY.create(exchange)) },
      { options: { pacing: {} }, command: {} });
    assert.equal(error.status, 429);
    assert.deepEqual(events, [event("throttled", null, { cause: "rate-limit", waitMs: 2000 })]);
    const later = listener();
    await environment.run({}, { pacing: {}, onEvent: later.onEvent });
    const [{ waitMs }, ...rest] = later.events;
    assert.deepEqual([later.events[0], ...rest], [event("throttled", null, { cause: "hold", waitMs }), { ...CONNECTED, processId: "proc_2" }]);
    assert.ok(Number.isInteger(waitMs) && waitMs > 0 && waitMs <= 2000, `${waitMs}`);
  });

  test("that waits for the budget tell so", async (t) => {
    const pacing = { requestsPerMinute: 40, burst: 1 };
    const { events } = await observe(t, {}, { options: { pacing }, command: {} });
    const throttled = events.filter(({ type }) => type === "throttled");
    // The first request finds the budget untouched; a machine that is slow enough fills it up again for the others.
    for (const { waitMs } of throttled) assert.ok(Number.isInteger(waitMs) && waitMs > 0 && waitMs <= 1500, `${waitMs}`);
    assert.ok(throttled.length > 0);
    assert.deepEqual(throttled, throttled.map(({ waitMs }) => event("throttled", PROCESS, { cause: "budget", waitMs })));
    assert.deepEqual(events, [...throttled, CONNECTED]);
  });

  test("that is timed out tell that its end is confirmed", async (t) => {
    const controller = new AbortController();
    const { events, value } = await observe(t, { connect: running }, { signal: controller.signal, onEvent: () => controller.abort(new DOMException("", "TimeoutError")) });
    assert.equal(value.timedOut, true);
    assert.deepEqual(events, [CONNECTED, STARTED, CONFIRMED]);
  });

  test("that cannot be ended tell that nobody knows", async (t) => {
    const controller = new AbortController();
    const { events, error } = await observe(t, { connect: running, terminate: (exchange) => exchange.fail(403) }, { signal: controller.signal, onEvent: () => controller.abort() });
    assert.equal(error.message, "CreateOS command cleanup failed; process termination is unconfirmed.");
    assert.deepEqual(events, [CONNECTED, STARTED, UNCONFIRMED]);
  });

  test("that is ended at the second try tell what the first met", async (t) => {
    const { events } = await observe(t, {
      connect: (exchange) => exchange.fail(404),
      terminate: (exchange) => (exchange.count === 1 ? exchange.fail(429, { "retry-after": "1" }) : HEALTHY.terminate(exchange)),
    });
    assert.deepEqual(events, [STARTED, event("throttled", PROCESS, { cause: "rate-limit", waitMs: 1000 }), CONFIRMED]);
  });

  test("of which nobody knows whether it was created tell that, and that nothing was begun against it", async (t) => {
    const { events, error } = await observe(t, { create: (exchange) => exchange.reset() });
    assert.equal(error.name, "CreateosCleanupError");
    assert.deepEqual(events, [{ ...UNCONFIRMED, processId: null }]);
  });

  test("that was never started are none", async (t) => {
    const { events, endpoint, client, environment } = await observe(t, {}, { command: { command: "" } });
    await assert.rejects(execute(client, { ...environment.params(), lease: { providerLeaseId: `../${SECRET}` } }));
    assert.deepEqual([events, endpoint.requests], [[], []]);
  });

  test("come before its promise settles, and none after, also when it is aborted while it exits", async (t) => {
    let exits;
    const endpoint = await startEndpoint({ connect: async (exchange) => {
      const allowed = new Promise((resolve) => (exits = resolve));
      await running(exchange);
      await allowed;
      await exchange.frames(exit());
      await exchange.end();
    } }, { t });
    const environment = new Environment(endpoint);
    let settled, late = 0, events = 0;
    const client = environment.client({ onEvent: () => {
      events++;
      if (settled) late++;
    } });
    let cancelled = 0;
    for (let round = 0; round < 400; round++) {
      settled = false;
      const controller = new AbortController();
      const abort = () => controller.abort();
      const log = () => {
        exits();
        [abort, () => setImmediate(abort), () => setTimeout(abort), () => setTimeout(abort, 1), () => setTimeout(abort, 2)][round % 5]();
      };
      await execute(client, environment.params(), controller.signal, log).catch(() => cancelled++).finally(() => (settled = true));
      if (round % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(late, 0);
    // What is cancelled is cleaned up.
    assert.equal(events, 400 + 2 * cancelled);
    t.diagnostic(`${cancelled} of 400 were cancelled`);
  });
});

describe("the events of a release", () => {
  const released = (call, state) => told(call)("released", null, { state });

  test("are that its sandbox is destroyed or stopped", async (t) => {
    let state = "running";
    const endpoint = await startEndpoint({
      getSandbox: (exchange) => exchange.success({ id: "sb_test", status: state }),
      pause: (exchange) => {
        state = "paused";
        return exchange.success({});
      },
    }, { t });
    const { onEvent, events } = listener();
    const environment = new Environment(endpoint, { reuseLease: true });
    const provider = environment.provider({ onEvent });
    await provider.release(environment.held(), false);
    await provider.releaseLease(environment.held());
    await provider.destroyLease(environment.held());
    await provider.release(environment.held(), true);
    await provider.releaseLease({ ...environment.held(), providerLeaseId: null });
    endpoint.handlers.getSandbox = (exchange) => exchange.fail(404);
    await provider.releaseLease(environment.held());
    assert.deepEqual(events, [
      released("release", "stopped"), released("releaseLease", "stopped"), released("destroyLease", "destroyed"),
      released("release", "destroyed"), released("releaseLease", "destroyed"),
    ]);
  });

  test("that fails are none, but what held it up", async (t) => {
    const endpoint = await startEndpoint({ destroySandbox: (exchange) => exchange.fail(exchange.count === 1 ? 500 : 429, { "retry-after": "7" }) }, { t });
    const { onEvent, events } = listener();
    const environment = new Environment(endpoint);
    const provider = environment.provider({ onEvent });
    for (const status of [500, 429]) await assert.rejects(provider.destroyLease(environment.held()), { status });
    assert.deepEqual(events, [told("destroyLease")("throttled", null, { cause: "rate-limit", waitMs: 7000 })]);
  });

  test("come after those of the commands that it ended", async (t) => {
    const endpoint = await startEndpoint({ connect: running }, { t });
    const { onEvent, events } = listener();
    const environment = new Environment(endpoint);
    let release;
    const provider = environment.provider({ onEvent: (event) => {
      onEvent(event);
      if (event.type === "connected") release = provider.releaseLease(environment.held());
    } });
    await assert.rejects(provider.execute(environment.params()), { message: "CreateOS command was cancelled." });
    assert.deepEqual(await release, { providerLeaseId: "sb_test", state: "destroyed" });
    assert.deepEqual(events, [CONNECTED, STARTED, CONFIRMED, released("releaseLease", "destroyed")]);
  });
});

describe("with real sandboxes, the events", () => {
  /** A host whose events are remembered. */
  async function observed(t, emulator = {}) {
    const { onEvent, events } = listener();
    return { host: await Host.start(t, { emulator, options: { onEvent } }), events };
  }

  test("of a command that runs into its timeout", async (t) => {
    const { host, events } = await observed(t);
    await host.acquire();
    assert.deepEqual(events, []);
    const { timedOut, metadata } = await host.provider.execute({ ...host.base, lease: host.lease, command: "sleep", args: ["600"], timeoutMs: 5000 });
    assert.equal(timedOut, true);
    const mine = told("execute", host.lease.providerLeaseId);
    assert.deepEqual(events, [
      mine("connected", metadata.processId), mine("cleanup", metadata.processId, { state: "started" }), mine("cleanup", metadata.processId, { state: "confirmed" }),
    ]);
  });

  test("of a probe are its command's connection and the end of its sandbox", async (t) => {
    const { host, events } = await observed(t);
    assert.equal((await host.provider.probe(host.base)).ok, true);
    const [{ leaseId, processId }] = events;
    assert.match(`${leaseId} ${processId}`, /^sb_\w+ proc_\w+$/);
    const mine = told("probe", leaseId);
    assert.deepEqual(events, [mine("connected", processId), mine("cleanup", null, { state: "started" }), mine("cleanup", null, { state: "confirmed" })]);
  });

  test("of an acquisition that fails are the end of its sandbox, if it is one", async (t) => {
    const { host, events } = await observed(t, { hooks: { request: ({ route, attempt }) => ({ exec: { status: 503 }, destroySandbox: attempt === 2 && { status: 500 } })[route] || undefined } });
    for (const state of ["confirmed", "unconfirmed"]) {
      events.length = 0;
      await assert.rejects(host.acquire());
      const mine = told("acquireLease", events[0].leaseId);
      assert.deepEqual(events, [mine("cleanup", null, { state: "started" }), mine("cleanup", null, { state })]);
    }
  });

  test("of a resume are the ends of what an earlier worker left", async (t) => {
    const { host, events } = await observed(t);
    const { providerLeaseId } = await host.acquire();
    const connected = [1, 2].map(() => host.provider.execute({ ...host.base, lease: host.lease, command: "sleep", args: ["600"] }).catch(() => {}));
    while (events.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    const left = events.splice(0).map(({ processId }) => processId).sort();
    host.restart();
    await host.provider.resumeLease(host.named());
    const ended = events.filter(({ call }) => call === "resumeLease");
    for (const processId of left) {
      const mine = told("resumeLease", providerLeaseId);
      assert.deepEqual(ended.filter((event) => event.processId === processId), ["started", "confirmed"].map((state) => mine("cleanup", processId, { state })));
    }
    assert.equal(ended.length, 4);
    await Promise.all(connected);
  });

  test("of a sync are its commands' connections", async (t) => {
    const { host, events } = await observed(t);
    const { providerLeaseId } = await host.acquire();
    const directory = await temporary(t);
    await writeFile(path.join(directory, "file"), "content");
    await host.syncIn({ sourcePath: path.join(directory, "file"), targetPath: `${WORKSPACE}/file`, kind: "file" }, { commands: [{ command: "true" }] });
    await host.syncOut({ sourcePath: `${WORKSPACE}/file`, targetPath: path.join(directory, "back"), kind: "file" });
    assert.ok(events.length >= 3);
    for (const { call, processId, ...rest } of events) {
      assert.match(processId, /^proc_/);
      assert.match(call, /^sync(In|Out)$/);
      assert.deepEqual(rest, { type: "connected", leaseId: providerLeaseId });
    }
    assert.equal(new Set(events.map(({ processId }) => processId)).size, events.length);
  });
});
