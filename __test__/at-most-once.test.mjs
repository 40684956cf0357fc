// A process is created at most once. Whatever happens to the request that creates it, it is not sent a second time, and
// where nobody can say what came of it, the lease is quarantined.
import assert from "node:assert/strict";
import { constants } from "node:http2";
import { describe, test } from "node:test";
import { response, startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { startHttp2Endpoint } from "./support/http2.mjs";
import { trustAuthority } from "./support/tls.mjs";

const UNCONFIRMED = { name: "CreateosCleanupError", message: "CreateOS process creation could not be confirmed; destroy the lease before reusing it." };
const CLOSING = { message: "CreateOS lease is closing or requires cleanup." };
const CREATED = response(200, {}, JSON.stringify({ status: "success", data: { process_id: "proc_1" } }));
const HALF = CREATED.subarray(0, CREATED.length - 20);

trustAuthority();

/** What happens to the request once it was read to its end. */
const RAW = {
  "a reset": (exchange) => exchange.reset(),
  "a clean end": (exchange) => exchange.fin(),
  "half an answer, then a reset": async (exchange) => {
    await exchange.raw(HALF);
    setImmediate(() => exchange.reset());
  },
  "half an answer, then a clean end": async (exchange) => {
    await exchange.raw(HALF);
    exchange.fin();
  },
  "half a head, then a reset": async (exchange) => {
    await exchange.raw("HTTP/1.1 200 O");
    setImmediate(() => exchange.reset());
  },
  "garbage": async (exchange) => {
    await exchange.raw("garbage\r\n\r\n");
    exchange.fin();
  },
  "a 500 that closes the connection": (exchange) => exchange.raw("HTTP/1.1 500 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").then(() => exchange.fin()),
  "a 502": (exchange) => exchange.fail(502),
  "a 503 with Retry-After": (exchange) => exchange.fail(503, { "retry-after": "0" }),
  "a redirect": (exchange) => exchange.fail(307, { location: exchange.path }),
};

const HTTP2 = {
  "a reset of the connection": (exchange) => exchange.reset(),
  "a clean end of the connection": (exchange) => void exchange.transport.end(),
  "a 502": (exchange) => exchange.fail(502),
  "half an answer, then a reset": async (exchange) => {
    exchange.stream2.respond({ ":status": 200 });
    await exchange.write('{"status":"succ');
    setImmediate(() => exchange.reset());
  },
  "half an answer, then RST_STREAM": async (exchange) => {
    exchange.stream2.respond({ ":status": 200 });
    await exchange.write('{"status":"succ');
    exchange.rst(constants.NGHTTP2_INTERNAL_ERROR);
  },
  "RST_STREAM with REFUSED_STREAM": (exchange) => exchange.rst(constants.NGHTTP2_REFUSED_STREAM),
  "RST_STREAM with CANCEL": (exchange) => exchange.rst(constants.NGHTTP2_CANCEL),
  "RST_STREAM with INTERNAL_ERROR": (exchange) => exchange.rst(constants.NGHTTP2_INTERNAL_ERROR),
  "RST_STREAM with NO_ERROR": (exchange) => exchange.rst(constants.NGHTTP2_NO_ERROR),
  "RST_STREAM with ENHANCE_YOUR_CALM": (exchange) => exchange.rst(constants.NGHTTP2_ENHANCE_YOUR_CALM),
  "GOAWAY that says it was not looked at": (exchange) => exchange.goaway(constants.NGHTTP2_NO_ERROR, 0),
  "GOAWAY that says it was looked at": (exchange) => exchange.goaway(constants.NGHTTP2_NO_ERROR, exchange.stream2.id),
  "GOAWAY with an error": (exchange) => exchange.goaway(constants.NGHTTP2_INTERNAL_ERROR, 0),
};

for (const [protocol, start, ends] of [["HTTP/1.1", startEndpoint, RAW], ["HTTP/2 over TLS", startHttp2Endpoint, HTTP2]]) {
  describe(`the create request over ${protocol}`, () => {
    const onlyOnce = async (endpoint, environment, provider) => {
      const before = endpoint.of("create").length;
      await assert.rejects(provider.execute(environment.params()), UNCONFIRMED);
      assert.equal(endpoint.of("create").length, before + 1);
      await assert.rejects(provider.execute(environment.params()), CLOSING, "the lease is quarantined");
      assert.equal(endpoint.of("create").length, before + 1);
      if (protocol !== "HTTP/1.1") for (const request of endpoint.requests) assert.equal(request.alpn, "h2");
    };

    for (const [what, end] of Object.entries(ends)) {
      test(`${what}: on a fresh connection it is sent once`, async (t) => {
        const endpoint = await start({ create: end }, { t });
        const environment = new Environment(endpoint);
        await onlyOnce(endpoint, environment, environment.provider());
      });

      test(`${what}: with connections that are open already it is sent once`, async (t) => {
        const endpoint = await start({}, { t });
        const environment = new Environment(endpoint);
        const provider = environment.provider();
        // Leaves idle connections behind, which were good until now.
        await Promise.all(Array.from({ length: 4 }, () => provider.execute(environment.params({ stdin: "x" }))));
        endpoint.handlers.create = end;
        await onlyOnce(endpoint, environment, provider);
      });

      test(`${what}: after an answer of 502 to the request before it is sent once`, async (t) => {
        const endpoint = await start({ upload: (exchange) => (exchange.count === 1 ? exchange.fail(502) : exchange.success({})) }, { t });
        const environment = new Environment(endpoint);
        const provider = environment.provider();
        await assert.rejects(provider.execute(environment.params({ stdin: "x" })), { status: 502 });
        assert.equal(endpoint.of("create").length, 0);
        endpoint.handlers.create = end;
        await onlyOnce(endpoint, environment, provider);
      });
    }

    test("connections that die as soon as they are used again do not make it two", async (t) => {
      const handlers = {};
      const endpoint = await start(handlers, { t });
      const environment = new Environment(endpoint);
      const provider = environment.provider();
      await provider.execute(environment.params());
      const used = new Set(endpoint.requests.map(({ connection }) => connection));
      handlers.create = (exchange) => (used.has(exchange.connection) ? exchange.reset() : exchange.success({ process_id: "proc_1" }));
      assert.equal((await provider.execute(environment.params())).exitCode, 0);
      assert.equal(endpoint.of("create").length, 2, "one for each command");
    });

    test("a hundred commands whose creation is cut at random are each created at most once", async (t) => {
      let seed = 7;
      const random = (n) => (seed = (seed * 48271) % 0x7fffffff) % n;
      const kinds = Object.values(ends);
      const endpoint = await start({ create: (exchange) => (random(3) ? exchange.success({ process_id: `p${exchange.count}` }) : kinds[random(kinds.length)](exchange)) }, { t });
      const environment = new Environment(endpoint);
      const outcomes = await Promise.allSettled(Array.from({ length: 100 }, (_, i) => environment.run({ args: [`number ${i};`] })));
      const bodies = endpoint.of("create").map(({ body }) => /number \d+;/.exec(body.toString())[0]);
      assert.equal(new Set(bodies).size, bodies.length, "none came twice");
      assert.ok(bodies.length === 100);
      assert.ok(outcomes.some(({ status }) => status === "fulfilled") && outcomes.some(({ status }) => status === "rejected"));
      for (const { status, reason } of outcomes) if (status === "rejected") assert.equal(reason.name, "CreateosCleanupError");
    });
  });
}
