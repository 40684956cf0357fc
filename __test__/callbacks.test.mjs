// Log functions that misbehave: they kill neither the process nor the command, and are told of once.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { data, exit, startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { runProgram } from "./support/program.mjs";

describe("a log function", async () => {
  // Alternating streams, so that no two chunks can be joined.
  const PIECES = Array.from({ length: 30 }, (_, i) => [i % 2 ? "stderr" : "stdout", `${i};`]);
  const endpoint = await startEndpoint({
    connect: (exchange) => exchange.stream(...PIECES.map(([stream, text], i) => data(i + 1, text, stream)), exit(6)),
  });
  const environment = new Environment(endpoint);
  const own = Object.assign(new Error("mine"), { name: "MineError" });

  /** Runs a command with a log function of this body and checks that all calls were made all the same. */
  async function unharmed(body, provider) {
    const calls = [];
    const warnings = [];
    const listener = (warning) => warnings.push(warning);
    process.on("warning", listener);
    const log = (stream, text) => {
      calls.push([stream, text]);
      return body(calls.length);
    };
    const result = await (provider ? environment.provider().execute(environment.params(), log) : environment.run({}, { log }));
    // Warnings are emitted a tick later, and promises that are rejected later still.
    await new Promise((resolve) => setTimeout(resolve, 30));
    process.off("warning", listener);
    assert.deepEqual(calls, PIECES);
    assert.deepEqual([result.exitCode, result.stdout.length + result.stderr.length], [6, PIECES.flatMap(([, text]) => [...text]).length]);
    return warnings;
  }

  for (const provider of [false, true]) {
    const of = provider ? "a provider's execute" : "execute";
    for (const [what, body, reason] of [
      ["throws", () => { throw own; }, /MineError: mine/],
      ["rejects", () => Promise.reject(own), /MineError: mine/],
      ["rejects later", () => new Promise((_, reject) => setTimeout(reject, 5, own)), /MineError: mine/],
      ["is async and throws", async () => { throw own; }, /MineError: mine/],
      ["throws undefined", () => { throw undefined; }, /no error/],
      ["throws null", () => { throw null; }, /no error/],
      ["throws text", () => { throw "text"; }, /no error/],
      ["throws an object that throws when it is looked at", () => { throw new Proxy({}, { get() { throw own; }, getPrototypeOf() { throw own; } }); }, /./],
      ["throws an error whose message throws", () => { throw Object.defineProperty(new Error(), "message", { get() { throw own; } }); }, /./],
      ["returns a thenable whose then throws", () => ({ then() { throw own; } }), /MineError: mine/],
      ["returns a thenable whose then cannot be read", () => Object.defineProperty({}, "then", { get() { throw own; } }), /MineError: mine/],
      ["throws in its third call only", (n) => { if (n === 3) throw own; }, /MineError: mine/],
    ]) {
      test(`of ${of} that ${what} is told of once, and all its calls are made`, async () => {
        const warnings = await unharmed(body, provider);
        assert.equal(warnings.length, 1);
        assert.equal(warnings[0].code, "CREATEOS_LOG_CALLBACK");
        assert.match(warnings[0].message, reason);
      });
    }

    for (const [what, body] of [["nothing", () => {}], ["a promise that never settles", () => new Promise(() => {})], ["false", () => false], ["a promise that is fulfilled", () => Promise.resolve(1)]]) {
      test(`of ${of} that returns ${what} is not told of`, async () => assert.deepEqual(await unharmed(body, provider), []));
    }
  }

  test("that starts other commands gets their results", async () => {
    const inner = [];
    await environment.run({}, { log: () => void inner.push(environment.run()) });
    const results = await Promise.all(inner);
    assert.equal(results.length, PIECES.length);
    assert.ok(results.every(({ exitCode }) => exitCode === 6));
  });

  test("that releases its own lease ends its command", async (t) => {
    const slow = await startEndpoint({ connect: async (exchange) => {
      await exchange.head();
      await exchange.frames(data(1, "x"));
      await exchange.gone();
    } }, { t });
    const there = new Environment(slow);
    const provider = there.provider();
    let released;
    await assert.rejects(provider.execute(there.params(), () => (released = provider.release(there.held(), true))), { message: "CreateOS command was cancelled." });
    await released;
  });

  test("that aborts the signal ends its command, and gets nothing more after the rejection", async (t) => {
    const endless = await startEndpoint({ connect: async (exchange) => {
      await exchange.head();
      for (let seq = 1; !exchange.socket.destroyed; seq++) {
        await exchange.frames(data(seq, "x".repeat(100), seq % 2 ? "stdout" : "stderr"));
        await new Promise(setImmediate);
      }
    } }, { t });
    const there = new Environment(endless);
    for (let i = 0; i < 20; i++) {
      const controller = new AbortController();
      let settled = false;
      let late = 0;
      const log = () => {
        controller.abort();
        if (settled) late++;
      };
      await assert.rejects(there.run({}, { log, signal: controller.signal }).finally(() => (settled = true)), { message: "CreateOS command was cancelled." });
      await new Promise((resolve) => setTimeout(resolve, 5));
      assert.equal(late, 0);
    }
  });

  for (const [what, statement, expected] of [
    ["process.exit(3)", "process.exit(3)", { code: 3, signal: null, stdout: "" }],
    ["process.exit(0)", "process.exit(0)", { code: 0, signal: null, stdout: "" }],
    ["throws in every call with --throw-deprecation and --unhandled-rejections=strict", "{ throw new Error('x'); }", { code: 0, signal: null, stdout: "6" }],
    ["an exception of its own, outside the call", "{ queueMicrotask(() => { throw new Error('own'); }); }", { code: 1, signal: null, stdout: "" }],
  ]) {
    test(`that calls for the end of the process has its way: ${what}`, async () => {
      const { code, signal, stdout, stderr } = await runProgram(
        `run({}, () => ${statement}).then(({ exitCode }) => process.stdout.write(String(exitCode)));`, endpoint,
        { flags: ["--unhandled-rejections=strict", "--no-warnings"] });
      assert.deepEqual({ code, signal, stdout }, expected, stderr);
    });
  }
});
