// Connections that were good and are not any more: everything but the create request goes on, on a fresh one.
import assert from "node:assert/strict";
import { constants } from "node:http2";
import { describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { data, exit, HEALTHY, routeOf, startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { startHttp2Endpoint } from "./support/http2.mjs";
import { trustAuthority } from "./support/tls.mjs";

trustAuthority();

const ROUTES = ["upload", "stdinClose", "connect", "exec", "terminate", "getSandbox", "pause", "destroySandbox"];

/** Handlers that let `end` end every connection on which a second request comes, and else do what `own` does. */
function againstReuse(end, own = {}) {
  return Object.fromEntries([...ROUTES, "create"].map((route) => [route, (exchange) => (exchange.onConnection > 1 ? end(exchange) : (own[route] ?? HEALTHY[route])(exchange))]));
}

const ENDS = {
  "are reset": (exchange) => exchange.reset(),
  "are closed": (exchange) => exchange.fin(),
};

describe("connections that are used a second time", () => {
  for (const [what, end] of Object.entries(ENDS)) {
    test(`and ${what} then: a command with standard input succeeds`, async (t) => {
      const endpoint = await startEndpoint(againstReuse(end, { connect: (exchange) => exchange.stream(data(1, "x"), exit(5)) }), { t });
      const environment = new Environment(endpoint);
      const provider = environment.provider();
      for (let i = 0; i < 20; i++) {
        const { stdout, exitCode } = await provider.execute(environment.params({ stdin: "in" }));
        assert.deepEqual([stdout, exitCode], ["x", 5]);
      }
      assert.equal(endpoint.of("create").length, 20);
      for (const route of ["upload", "stdinClose", "connect", "exec"]) assert.ok(endpoint.of(route).length <= 40, `${route} is sent once more at most`);
      assert.ok(endpoint.requests.some(({ onConnection }) => onConnection > 1), "connections were reused");
    });

    test(`and ${what} then: a timeout's cleanup is confirmed`, async (t) => {
      const endpoint = await startEndpoint(againstReuse(end, {
        connect: async (exchange) => {
          await exchange.head();
          await exchange.frames(data(1, "x"));
          await exchange.gone();
        },
      }), { t });
      const environment = new Environment(endpoint);
      const client = environment.client();
      for (let i = 0; i < 10; i++) {
        const { timedOut, stdout } = await environment.run({ stdin: "in", timeoutMs: 150 }, { client });
        assert.deepEqual([timedOut, stdout], [true, "x"]);
      }
    });

    test(`and ${what} then: pause and deletion succeed`, async (t) => {
      let paused = false;
      const endpoint = await startEndpoint(againstReuse(end, {
        pause: (exchange) => exchange.success({}).then(() => (paused = true)),
        getSandbox: (exchange) => exchange.success({ id: "sb_test", status: paused ? "paused" : "running" }),
      }), { t });
      const environment = new Environment(endpoint, { reuseLease: true });
      for (let i = 0; i < 5; i++) {
        paused = false;
        await environment.provider().release(environment.held(), false);
        assert.ok(paused);
        await environment.provider().release(environment.held(), true);
      }
    });
  }

  test("and break twice are one failure too many", async (t) => {
    const endpoint = await startEndpoint({ stdinClose: (exchange) => exchange.reset() }, { t });
    const environment = new Environment(endpoint);
    await environment.run({ stdin: "x" }).then(() => assert.fail("It did not fail."), (error) => {
      assert.equal(error.message, "CreateOS connection failed.");
      assert.equal(error.details.tries, endpoint.of("stdinClose").length);
      assert.ok(error.details.tries <= 2);
    });
  });
});

describe("connections that the server closes when they have been idle", () => {
  test("exactly while the next request is written: all commands succeed", async (t) => {
    const IDLE = 60;
    const timers = new Map();
    const endpoint = await startEndpoint({}, { t });
    for (const route of [...ROUTES, "create"]) {
      endpoint.handlers[route] = async (exchange) => {
        clearTimeout(timers.get(exchange.transport));
        await HEALTHY[route](exchange);
        timers.set(exchange.transport, setTimeout(() => exchange.transport.end(), IDLE));
      };
    }
    t.after(() => timers.forEach((timer) => clearTimeout(timer)));
    const environment = new Environment(endpoint);
    for (let i = 0; i < 60; i++) {
      assert.equal((await environment.run({ stdin: "x" })).exitCode, 0);
      // Around the server's limit, to the millisecond and a little more.
      await delay(IDLE - 4 + (i % 8));
    }
    assert.equal(endpoint.of("create").length, 60);
  });
});

describe("HTTP/2 connections that go away", () => {
  for (const [what, end] of [
    ["by GOAWAY without having looked at the request", (exchange) => exchange.goaway(constants.NGHTTP2_NO_ERROR, 0)],
    ["by a reset", (exchange) => exchange.reset()],
    ["by a refused stream", (exchange) => exchange.rst(constants.NGHTTP2_REFUSED_STREAM)],
  ]) {
    test(`${what}: requests but the creation are sent once more`, async (t) => {
      const seen = new Set();
      const handlers = Object.fromEntries(ROUTES.map((route) => [route, (exchange) => {
        // Every second request of its kind, on whatever connection, if another came over that before.
        const reused = seen.has(exchange.connection);
        seen.add(exchange.connection);
        return reused && exchange.count % 2 === 0 ? end(exchange) : HEALTHY[routeOf(exchange.method, exchange.path)](exchange);
      }]));
      const endpoint = await startHttp2Endpoint(handlers, { t });
      const environment = new Environment(endpoint);
      for (let i = 0; i < 20; i++) assert.equal((await environment.run({ stdin: "x" })).exitCode, 0);
      assert.equal(endpoint.of("create").length, 20);
      assert.ok(endpoint.requests.every(({ alpn }) => alpn === "h2"));
    });
  }

  test("a GOAWAY does not touch the streams that are open: they end in their own time", async (t) => {
    const handlers = {};
    const endpoint = await startHttp2Endpoint(handlers, { t });
    const environment = new Environment(endpoint);
    handlers.connect = async (exchange) => {
      await exchange.head();
      await exchange.frames(data(1, "before "));
      exchange.goaway(constants.NGHTTP2_NO_ERROR, exchange.stream2.id, false);
      // Others come and go meanwhile, over another connection.
      handlers.connect = HEALTHY.connect;
      for (let i = 0; i < 5; i++) assert.equal((await environment.run({ stdin: "x" })).exitCode, 0);
      // With the exit frame the client has all that it wants, and leaves.
      await exchange.frames(data(2, "after"), exit(7));
    };
    const { stdout, exitCode } = await environment.run();
    assert.deepEqual([stdout, exitCode], ["before after", 7]);
    assert.equal(endpoint.of("connect").length, 6);
  });
});
