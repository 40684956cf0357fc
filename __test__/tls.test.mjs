// TLS as a program meets it: whom it trusts by its environment, what a connection that cannot be trusted fails with, and
// HTTP/2, which both sides agree upon where they can.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { constants } from "node:http2";
import os from "node:os";
import path from "node:path";
import { describe, test } from "node:test";
import { data, exit, HEALTHY, lines, startEndpoint } from "./support/endpoint.mjs";
import { Environment, recorder } from "./support/environment.mjs";
import { startHttp2Endpoint } from "./support/http2.mjs";
import { runProgram } from "./support/program.mjs";
import { AUTHORITY, ELSEWHERE, EXPIRED, TLS, trustAuthority } from "./support/tls.mjs";

/** What the environment says of certificates, by default nothing. */
const NOTHING = { NODE_EXTRA_CA_CERTS: undefined, SSL_CERT_FILE: undefined, SSL_CERT_DIR: undefined, NODE_USE_SYSTEM_CA: undefined };
const NOWHERE = { SSL_CERT_FILE: "/nowhere/certificates.pem", SSL_CERT_DIR: "/nowhere" };

/** Runs one command, and makes an acquisition and an upload, in a program of its own; gives what came of each. */
async function outcomes(endpoint, env, more = {}) {
  const { code, stdout, stderr } = await runProgram(`
    const provider = environment.provider();
    const told = (call) => call.then(({ exitCode, providerLeaseId }) => exitCode ?? providerLeaseId, ({ name, message, details }) => ({ name, message, details }));
    const command = await told(run());
    const acquired = await told(provider.acquireLease({ ...environment.scope, runId: "run" }));
    const uploaded = await told(run({ stdin: "input" }));
    process.stdout.write(JSON.stringify({ command, acquired, uploaded }));`, endpoint, { env: { ...NOTHING, ...env }, ...more });
  assert.deepEqual([code, stderr], [0, ""]);
  return JSON.parse(stdout);
}

const ALL_WELL = { command: 0, acquired: "sb_1", uploaded: 0 };

function distrusted(failure = "tls") {
  const details = (operation) => ({ operation, tries: 1, attempts: [{ failure }] });
  const unconnected = (operation) => ({ name: "CreateosError", message: "CreateOS connection failed.", details: details(operation) });
  return {
    // A request that was handed over may have arrived: of a creation that has to be said, whatever the reason is.
    command: {
      name: "CreateosCleanupError", message: "CreateOS process creation could not be confirmed; destroy the lease before reusing it.",
      details: details("process creation"),
    },
    acquired: unconnected("sandbox lifecycle"), uploaded: unconnected("file transfer"),
  };
}

describe("a private authority", () => {
  for (const [what, env] of [
    ["NODE_EXTRA_CA_CERTS", { NODE_EXTRA_CA_CERTS: AUTHORITY }],
    ["SSL_CERT_FILE", { SSL_CERT_FILE: AUTHORITY }],
    ["NODE_EXTRA_CA_CERTS, whatever else points to nothing", { NODE_EXTRA_CA_CERTS: AUTHORITY, ...NOWHERE }],
    ["SSL_CERT_FILE, though NODE_EXTRA_CA_CERTS points to nothing that is a certificate", { SSL_CERT_FILE: AUTHORITY, NODE_EXTRA_CA_CERTS: "/dev/null" }],
  ]) {
    test(`is trusted by ${what}`, async (t) => {
      assert.deepEqual(await outcomes(await startEndpoint({}, { t, tls: TLS }), env), ALL_WELL);
    });
  }

  // A container that has no certificates at all, as `scratch` and `slim` images do.
  const under = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none /etc/ssl && exec \"$0\" \"$@\""];
  const canHide = process.platform === "linux" && spawnSync(under[0], [...under.slice(1), "test", "!", "-e", "/etc/ssl/certs"]).status === 0;
  for (const NODE_USE_SYSTEM_CA of [undefined, "1"]) {
    test(`is trusted where there is no certificate store${NODE_USE_SYSTEM_CA ? ", though it is asked for" : ""}`, { skip: !canHide && "this needs a mount of its own" }, async (t) => {
      const endpoint = await startEndpoint({}, { t, tls: TLS });
      assert.deepEqual(await outcomes(endpoint, { NODE_EXTRA_CA_CERTS: AUTHORITY, NODE_USE_SYSTEM_CA }, { under }), ALL_WELL);
    });
  }
});

describe("a connection that cannot be trusted is a failure of TLS", () => {
  for (const [what, tls, env] of [
    ["an unknown authority", TLS, {}],
    ["an unknown authority, without any certificate store", TLS, NOWHERE],
    ["an unknown authority, though Node.js is told not to care", TLS, { NODE_TLS_REJECT_UNAUTHORIZED: "0" }],
    ["a certificate of another name", ELSEWHERE, { NODE_EXTRA_CA_CERTS: AUTHORITY }],
    ["a certificate that has expired", EXPIRED, { NODE_EXTRA_CA_CERTS: AUTHORITY }],
  ]) {
    test(`with ${what}`, async (t) => {
      const endpoint = await startEndpoint({}, { t, tls });
      assert.deepEqual(await outcomes(endpoint, env), distrusted());
      assert.deepEqual(endpoint.requests, [], "nothing was sent, the key least of all");
    });
  }

  test("with a server that speaks plain HTTP", async (t) => {
    const endpoint = await startEndpoint({}, { t, connected: (transport) => void transport.once("data", () => transport.end("HTTP/1.1 400 Bad Request\r\n\r\n")) });
    assert.deepEqual(await outcomes({ url: endpoint.url.replace("http:", "https:"), key: endpoint.key }, { NODE_EXTRA_CA_CERTS: AUTHORITY }), distrusted());
  });
});

describe("the end of a TLS connection", () => {
  trustAuthority();

  /** A body that lasts to the end of its connection: TLS alone can tell whether that was all of it. */
  const untilTheEnd = (text) => `HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${text}`;
  /** With close_notify and without. */
  const ENDS = { whole: (exchange) => exchange.socket.end(), cut: (exchange) => exchange.transport.end() };

  for (const [how, end] of Object.entries(ENDS)) {
    test(`makes an output without a last newline ${how}`, async (t) => {
      const text = lines(data(1, "x"), exit(7)).trimEnd();
      const endpoint = await startEndpoint({
        connect: async (exchange) => {
          if (exchange.count > 1) return exchange.stream(data(2, "y"), exit(8));
          await exchange.raw(untilTheEnd(text));
          end(exchange);
        },
      }, { t, tls: TLS });
      const { stdout, exitCode } = await new Environment(endpoint).run({}, { reconnect: { delayMs: 0 } });
      assert.deepEqual([stdout, exitCode], how === "whole" ? ["x", 7] : ["xy", 8]);
      assert.equal(endpoint.of("connect").at(-1).query.after, how === "whole" ? "0" : "1");
    });

    test(`makes a download ${how}`, async (t) => {
      const directory = await mkdtemp(path.join(os.tmpdir(), "createos-tls-test-"));
      t.after(() => rm(directory, { recursive: true }));
      const target = path.join(directory, "file");
      const endpoint = await startEndpoint({
        download: async (exchange) => {
          await exchange.raw(untilTheEnd("content"));
          end(exchange);
        },
      }, { t, tls: TLS });
      const environment = new Environment(endpoint);
      const files = [{ sourcePath: "/paperclip-workspace/file", targetPath: target, kind: "file" }];
      const synced = environment.provider().syncOut({ ...environment.scope, lease: environment.params().lease, operations: [{ operationId: "operation", files }] });
      if (how === "cut") {
        await assert.rejects(synced, { message: "CreateOS connection failed.", details: { operation: "file transfer", tries: 1, attempts: [{ failure: "reset" }] } });
        await assert.rejects(readFile(target), { code: "ENOENT" });
      } else {
        await synced;
        assert.equal(await readFile(target, "utf8"), "content");
      }
    });
  }
});

describe("HTTP/2", () => {
  trustAuthority();

  test("is what both sides agree upon, and one connection carries a stream while others come and go", async (t) => {
    let last;
    const endpoint = await startHttp2Endpoint({
      connect: async (exchange) => {
        if (!exchange.path.includes("sb_long")) return exchange.stream(data(1, "short"), exit(0));
        await exchange.head();
        for (let seq = 1; seq <= 40; seq++) {
          await exchange.frames(data(seq, `${seq} `));
          // Between two frames another command comes and goes, over the same connection.
          assert.equal((await short.run({ stdin: "input" })).stdout, "short");
        }
        last = exchange;
        await exchange.frames(exit(7));
      },
    }, { t });
    const [long, short] = [new Environment(endpoint, {}, "sb_long"), new Environment(endpoint)];
    const log = recorder();
    const { stdout, exitCode } = await long.run({}, { log });
    assert.deepEqual([stdout, exitCode], [`${Array.from({ length: 40 }, (_, i) => i + 1).join(" ")} `, 7]);
    assert.equal(log.text("stdout"), stdout);
    assert.ok(endpoint.requests.every(({ alpn }) => alpn === "h2"));
    const shared = endpoint.requests.filter(({ route }) => route !== "create");
    assert.deepEqual(new Set(shared.map(({ connection }) => connection)), new Set([last.connection]));
    const alone = endpoint.of("create").map(({ connection }) => connection);
    assert.equal(new Set([...alone, last.connection]).size, 42, "each creation has a connection of its own");
  });

  test("with more streams open than a connection takes, all of them run", async (t) => {
    let open = 0, begin;
    const all = new Promise((resolve) => (begin = resolve));
    const endpoint = await startHttp2Endpoint({
      connect: async (exchange) => {
        await exchange.head();
        await exchange.frames(data(1, "begun"));
        if (++open === 150) begin();
        await all;
        await exchange.frames(exit(0));
      },
    }, { t, settings: { maxConcurrentStreams: 100 } });
    const environment = new Environment(endpoint);
    const client = environment.client();
    const results = await Promise.all(Array.from({ length: 150 }, () => environment.run({}, { client })));
    assert.deepEqual(new Set(results.map(({ stdout }) => stdout)), new Set(["begun"]));
  });

  for (const [what, leave] of [
    // Streams up to the last one may finish. This server does not let them, since it ends at once.
    ["a GOAWAY and the end of its connection", (exchange) => exchange.goaway(constants.NGHTTP2_NO_ERROR, exchange.stream2.id)],
    ["a GOAWAY with an error", (exchange) => exchange.goaway(constants.NGHTTP2_INTERNAL_ERROR, exchange.stream2.id)],
    ["a RST_STREAM", (exchange) => exchange.rst(constants.NGHTTP2_INTERNAL_ERROR)],
  ]) {
    test(`output that is cut by ${what} goes on where it was`, async (t) => {
      const endpoint = await startHttp2Endpoint({
        connect: async (exchange) => {
          if (exchange.query.after === "1") return exchange.stream(data(2, "after"), exit(7));
          await exchange.head();
          await exchange.frames(data(1, "before "));
          leave(exchange);
        },
      }, { t });
      const { stdout, exitCode } = await new Environment(endpoint).run({}, { reconnect: { delayMs: 0 } });
      assert.deepEqual([stdout, exitCode], ["before after", 7]);
      assert.ok(endpoint.requests.every(({ alpn }) => alpn === "h2"));
    });
  }

  test("is not spoken to a server that has HTTP/1.1 only", async (t) => {
    const endpoint = await startEndpoint({ create: (exchange) => HEALTHY.create(Object.assign(exchange, { alpn: exchange.socket.alpnProtocol })) }, { t, tls: { ...TLS, ALPNProtocols: ["http/1.1"] } });
    assert.equal((await new Environment(endpoint).run()).exitCode, 0);
    assert.equal(endpoint.of("create")[0].alpn, "http/1.1");
  });
});
