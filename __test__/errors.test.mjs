// What an error is: its class, message, details, output and stack; and what it never is: a way for secrets to get out.
import assert from "node:assert/strict";
import net from "node:net";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import { data, exit, startEndpoint, STREAM_HEAD, chunk } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { unwatched as addon } from "./support/package.mjs";
import { conceal, scan, SECRET } from "./support/secrets.mjs";

/** An endpoint for one test, an environment there, and what the one command came to. */
async function failing(t, handlers, options, command) {
  const endpoint = await startEndpoint(handlers, { t });
  const environment = new Environment(endpoint);
  const error = await environment.run(command, { reconnect: { attempts: 1, delayMs: 1 }, cleanupTimeoutMs: 2000, ...options }).then(
    (result) => assert.fail(`It did not fail but came to ${JSON.stringify(result)}`), (error) => error);
  return { endpoint, environment, error };
}

const status = (code) => (exchange) => exchange.fail(code);

describe("errors", () => {
  test("three classes, told apart by instanceof and by name", () => {
    const error = new addon.CreateosError("m");
    const api = new addon.CreateosApiError("m", { status: 418 });
    const cleanup = new addon.CreateosCleanupError("m");
    assert.deepEqual([error, api, cleanup].map(({ name, message }) => [name, message]), [["CreateosError", "m"], ["CreateosApiError", "m"], ["CreateosCleanupError", "m"]]);
    for (const each of [error, api, cleanup]) {
      assert.ok(each instanceof addon.CreateosError && each instanceof Error);
      assert.ok(!Object.hasOwn(each, "name"), "the name is the class's");
      assert.ok(!("code" in each));
      assert.deepEqual(each.details, { operation: null, tries: 0, attempts: [] });
    }
    assert.equal(api.status, 418);
    assert.ok(!("status" in error) && !("status" in cleanup));
    assert.ok(!(error instanceof addon.CreateosApiError) && !(api instanceof addon.CreateosCleanupError));
    assert.match(error.stack, /^CreateosError: m\n/);
  });

  for (const [route, operation, command] of [
    ["upload", "file transfer", { stdin: "x" }], ["create", "process creation"], ["stdinClose", "stdin close"], ["connect", "output connection"],
  ]) {
    for (const code of [400, 401, 403, 404, 418, 422, 429, 304, 300, 499]) {
      if (route === "connect" && code === 429) continue;
      test(`HTTP ${code} for ${operation} is an API error that says so`, async (t) => {
        const { error, endpoint } = await failing(t, { [route]: status(code) }, {}, command);
        assert.deepEqual([error.constructor, error.message, error.status], [
          addon.CreateosApiError, `CreateOS request failed (HTTP ${code}) during ${operation}.`, code,
        ]);
        assert.deepEqual(error.details, { operation, tries: 1, attempts: [{ status: code }] });
        assert.equal(endpoint.of(route).length, 1, "it was asked once");
        assert.equal("output" in error, route === "stdinClose" || route === "connect", "output is there if the command had started");
        assert.ok(!("code" in error));
      });
    }
  }

  for (const code of [500, 502, 503, 599]) {
    test(`HTTP ${code} for a process creation confirms nothing`, async (t) => {
      const { error } = await failing(t, { create: status(code) });
      assert.deepEqual([error.constructor, error.message], [
        addon.CreateosCleanupError, "CreateOS process creation could not be confirmed; destroy the lease before reusing it.",
      ]);
      assert.deepEqual(error.details, { operation: "process creation", tries: 1, attempts: [{ status: code }] });
    });
  }

  for (const [what, body, message] of [
    ["is no JSON", "<html>", "CreateOS returned invalid JSON."], ["is an array", "[]", "CreateOS returned invalid JSON."],
    ["is empty", "", "CreateOS returned invalid JSON."],
    ["is no success", { status: "fail", data: { x: SECRET } }, "CreateOS returned an unsuccessful response."],
    ["has no data", { status: "success" }, "CreateOS returned an invalid response."],
    ["has data that is a list", { status: "success", data: [] }, "CreateOS returned an invalid response."],
  ]) {
    test(`an answer that ${what} is told by its own message`, async (t) => {
      const { error } = await failing(t, { stdinClose: (exchange) => exchange.answer(200, body) });
      assert.deepEqual([error.constructor, error.message], [addon.CreateosError, message]);
      assert.deepEqual(error.details, { operation: "stdin close", tries: 1, attempts: [{ failure: "protocol" }] });
    });
  }

  for (const id of [undefined, null, 5, "", "a/b", "x".repeat(201), {}, ["x"]]) {
    test(`a process ID ${JSON.stringify(id)?.slice(0, 20)} leaves the creation unconfirmed`, async (t) => {
      const { error } = await failing(t, { create: (exchange) => exchange.success({ process_id: id }) });
      assert.equal(error.constructor, addon.CreateosCleanupError);
      assert.equal(error.details.operation, "process creation");
    });
  }

  test("a compressed answer is refused with an error that says so", async (t) => {
    const { error, endpoint } = await failing(t, { stdinClose: (exchange) => exchange.answer(200, "\x1f\x8b", { "content-encoding": "gzip" }) });
    assert.match(error.message, /compress/);
    assert.ok(endpoint.requests.every(({ headers }) => !("accept-encoding" in headers)), "none was asked for");
  });

  test("a connection that fails again and again tells all its tries", async (t) => {
    const answers = [503, 429, 500];
    const { error, endpoint } = await failing(t, {
      connect: (exchange) => (answers.length > 0 ? exchange.fail(answers.shift()) : exchange.reset()),
    }, { reconnect: { attempts: 3, delayMs: 1 } });
    assert.deepEqual([error.constructor, error.message], [addon.CreateosError, "CreateOS process output connection failed."]);
    const { operation, tries, attempts } = error.details;
    assert.deepEqual([operation, tries], ["output connection", endpoint.of("connect").length]);
    // The last one may have broken a connection that was reused, and was then sent once more.
    assert.deepEqual(attempts, [{ status: 503 }, { status: 429 }, { status: 500 }, ...Array(tries - 3).fill({ failure: "reset" })]);
    assert.ok(tries === 4 || tries === 5);
  });

  test("`details` counts all tries and lists the last 16", async (t) => {
    const { error } = await failing(t, { connect: (exchange) => exchange.fail(exchange.count === 31 ? 502 : 503) }, { reconnect: { attempts: 30, delayMs: 0 } });
    assert.equal(error.details.tries, 31);
    assert.deepEqual(error.details.attempts, [...Array(15).fill({ status: 503 }), { status: 502 }]);
  });

  test("an endpoint that nobody listens on is `refused`", async () => {
    const server = net.createServer();
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${server.address().port}`;
    await new Promise((resolve) => server.close(resolve));
    const environment = new Environment({ url, key: `key-${SECRET}` });
    await assert.rejects(environment.run({ stdin: "x" }), (error) => {
      assert.equal(error.message, "CreateOS connection failed.");
      assert.deepEqual(error.details, { operation: "file transfer", tries: 1, attempts: [{ failure: "refused" }] });
      return true;
    });
    await assert.rejects(environment.run(), { name: "CreateosCleanupError", details: { operation: "process creation", tries: 1, attempts: [{ failure: "refused" }] } });
  });

  test("a host that cannot be resolved is `dns`", async () => {
    const environment = new Environment({ url: "https://no-such-host.invalid", key: `key-${SECRET}` });
    await assert.rejects(environment.run({ stdin: "x" }), { message: "CreateOS connection failed.", details: { operation: "file transfer", tries: 1, attempts: [{ failure: "dns" }] } });
  });

  test("a server that speaks no TLS is `tls`, one that speaks no HTTP is `protocol`", async (t) => {
    const plain = await startEndpoint({}, { t, connected: (socket) => void socket.once("data", () => socket.end("what?\r\n\r\n")) ?? false });
    const secure = new Environment({ url: plain.url.replace("http", "https"), key: `key-${SECRET}` });
    await assert.rejects(secure.run({ stdin: "x" }), { message: "CreateOS connection failed.", details: { operation: "file transfer", tries: 1, attempts: [{ failure: "tls" }] } });
    await assert.rejects(new Environment(plain).run({ stdin: "x" }), { message: "CreateOS connection failed.", details: { operation: "file transfer", tries: 1, attempts: [{ failure: "protocol" }] } });
  });

  test("errors of a command that had started carry what it had printed, hidden from print", async (t) => {
    const { error } = await failing(t, {
      connect: (exchange) => exchange.count === 1 ? exchange.stream(data(1, "out"), data(2, "err", "stderr"), { type: "error", error: `${SECRET}` }) : exchange.fail(404),
    });
    assert.equal(error.message, "CreateOS process stream reported an error.");
    assert.deepEqual(error.output, { stdout: "out", stderr: "err", truncated: false });
    assert.ok(!Object.keys(error).includes("output"));
    assert.ok(!JSON.stringify(error).includes("out\""));
    assert.ok(!inspect(error).includes("stderr"));
  });

  test("errors keep the last 4,194,304 units of what was printed and say that there was more", async (t) => {
    const piece = "x".repeat(512 * 1024);
    const { error } = await failing(t, { connect: (exchange) => exchange.stream(...Array.from({ length: 9 }, (_, i) => data(i + 1, piece)), { type: "error" }) });
    assert.equal(error.output.stdout.length, 4_194_304);
    assert.equal(error.output.truncated, true);
  });

  const TROUBLE = {
    "an unknown event": ["CreateOS returned an unknown process event.", [{ type: SECRET }]],
    "a line that is no JSON": ["CreateOS returned an invalid process frame.", SECRET],
    "a bad number": ["CreateOS process sequence is invalid.", [{ ...data(1, "x"), seq: 0 }]],
    "a hole": ["CreateOS process output has a sequence gap.", [data(2, "x")]],
    "a bad stream": ["CreateOS process output is invalid.", [data(1, "x", SECRET)]],
    "an exit without a status": ["CreateOS process exit status is missing.", [{ type: "exit", signal: SECRET }]],
  };
  for (const [what, [message, frames]] of Object.entries(TROUBLE)) {
    test(`${what} in the stream ends the command and its process`, async (t) => {
      const { error, endpoint } = await failing(t, {
        connect: (exchange) => (typeof frames === "string" ? exchange.raw(Buffer.concat([STREAM_HEAD, chunk(`${frames}\n`)])) : exchange.stream(...frames)),
      });
      assert.deepEqual([error.constructor, error.message], [addon.CreateosError, message]);
      assert.equal(endpoint.of("terminate").length, 1);
      assert.deepEqual(error.output, { stdout: "", stderr: "", truncated: false });
    });
  }

  test("a line over 1,048,576 bytes is too large, one of just that is not", async (t) => {
    const line = (length) => `{"type":"heartbeat","pad":"${"x".repeat(length - 29)}"}\n`;
    assert.equal(line(1_048_576).length, 1_048_577);
    const { error } = await failing(t, { connect: (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, chunk(line(1_048_577))])) });
    assert.equal(error.message, "CreateOS process frame is too large.");
    const endpoint = await startEndpoint({ connect: (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, chunk(line(1_048_576) + JSON.stringify(exit()) + "\n")])) }, { t });
    assert.equal((await new Environment(endpoint).run()).exitCode, 0);
  });

  for (const code of [204, 205]) {
    test(`HTTP ${code} for the stream is an empty stream`, async (t) => {
      const { error } = await failing(t, { connect: (exchange) => exchange.raw(`HTTP/1.1 ${code} Nothing\r\n${code === 205 ? "content-length: 0\r\n" : ""}\r\n`) });
      assert.equal(error.message, "CreateOS returned an empty process stream.");
    });
  }

  test("an unconfirmed termination outranks what led to it", async (t) => {
    const { error } = await failing(t, { connect: status(404), terminate: status(403) });
    assert.deepEqual([error.constructor, error.message], [addon.CreateosCleanupError, "CreateOS command cleanup failed; process termination is unconfirmed."]);
    assert.deepEqual(error.details, { operation: "process cleanup", tries: 1, attempts: [{ status: 403 }] });
    assert.ok("output" in error);
  });

  test("a termination is asked for again until the tree is gone", async (t) => {
    const answers = [(exchange) => exchange.fail(503), (exchange) => exchange.success({ tree_exited: false }), (exchange) => exchange.reset(), (exchange) => exchange.success({ tree_exited: true })];
    const { error, endpoint } = await failing(t, { connect: status(404), terminate: (exchange) => answers[exchange.count - 1](exchange) }, { cleanupTimeoutMs: 15_000 });
    assert.equal(error.constructor, addon.CreateosApiError);
    assert.equal(endpoint.of("terminate").length, 4);
  });

  test("stacks start at the caller's frame, with the error's name and message", async (t) => {
    const endpoint = await startEndpoint({ create: status(418) }, { t });
    const environment = new Environment(endpoint);
    const client = environment.client();
    const provider = addon.createProvider({ pacing: false });
    conceal(endpoint.key);
    const first = (stack) => stack.split("\n").find((line) => /^\s+at /.test(line));
    const here = async function callsThePackage() {
      return [
        await addon.execute(client, environment.params()).catch((error) => error),
        await provider.execute(environment.params()).catch((error) => error),
        await addon.execute(client, null).catch((error) => error),
        await provider.execute({}).catch((error) => error),
        await addon.release(null, true).catch((error) => error),
        await provider.release({ ...environment.held(), companyId: "other" }, true).catch((error) => error),
      ];
    };
    const errors = [...await here()];
    for (const error of errors) {
      scan(error);
      assert.match(first(error.stack), /callsThePackage/, error.stack);
      assert.ok(error.stack.startsWith(`${error.name}: ${error.message}\n`));
      assert.ok(!error.stack.includes("index.js"));
    }
    for (const call of [() => addon.parseConfig({}), () => new addon.CreateosClient({}), () => addon.shellQuote("\0"), () => addon.shellQuote(5),
      () => addon.createProvider({ pacing: 1 }), () => new addon.CreateosClient({}, { pacing: 1 })]) {
      const caller = function callsThePackage() {
        return call();
      };
      let caught;
      try {
        caller();
      } catch (error) {
        caught = error;
      }
      assert.ok(caught instanceof Error);
      assert.match(caught.stack, /callsThePackage/);
    }
  });

  test("an error is what it is also where stacks are off, or somebody else's", async (t) => {
    const client = new Environment(await startEndpoint({ create: status(418) }, { t })).client();
    const { stackTraceLimit, prepareStackTrace } = Error;
    const restore = () => Object.assign(Error, { stackTraceLimit, prepareStackTrace });
    t.after(restore);
    for (const settings of [{ stackTraceLimit: 0 }, { stackTraceLimit: undefined }, { prepareStackTrace: (_, sites) => sites }, { prepareStackTrace: () => null }]) {
      Object.assign(Error, settings);
      const failing = addon.execute(client, null);
      restore();
      const error = await failing.catch((error) => error);
      assert.equal(error.name, "CreateosError");
      assert.match(error.stack, /^CreateosError: Invalid CreateOS command parameters\.(\n|$)/);
    }
  });

  test("a method that has lost its provider rejects", async () => {
    const provider = addon.createProvider({ pacing: false });
    for (const method of ["execute", "release", "releaseLease", "destroyLease", "resumeLease", "syncIn", "syncOut", "shutdown"]) {
      const { [method]: lost } = provider;
      await assert.rejects(lost({}), TypeError);
    }
  });

  test("nothing that the package makes shows a key or a URL when it is printed", (t) => {
    const environment = new Environment({ url: "https://hidden.example.test", key: `key-${SECRET}` });
    const config = addon.parseConfig(environment.config);
    for (const value of [config, environment.client(), environment.client().config, environment.provider(), addon, { nested: [{ config }] }]) scan(value);
    assert.equal(inspect(config), "{\n  shape: 's-1vcpu-1gb',\n  rootfs: null,\n  region: null,\n  timeoutMs: 300000,\n  reuseLease: false\n}");
    t.diagnostic("both are still there to be used");
    assert.deepEqual([config.apiUrl, config.apiKey], ["https://hidden.example.test", `key-${SECRET}`]);
  });
});
