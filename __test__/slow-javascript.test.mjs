// JavaScript that is busy while output comes in: nothing is lost or out of order, memory stays bounded, and what does not
// need JavaScript goes on. The client is a program of its own, so that the endpoint is not blocked with it.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { chunk, exit, lines, startEndpoint } from "./support/endpoint.mjs";
import { startProgram } from "./support/program.mjs";
import { emulatorForFile } from "./support/sandbox.mjs";

const MIB = 2 ** 20;

/** In the program: blocks its only thread. */
const BLOCK = "const block = (ms) => { for (const end = performance.now() + ms; performance.now() < end;); };";

/** `total` bytes in frames of 512 KiB, each full of its number, as fast as they are taken; resolves to their digest. */
async function flood(exchange, total) {
  const hash = createHash("sha256");
  await exchange.head();
  const size = 512 * 1024;
  for (let seq = 1; seq <= total / size; seq++) {
    const piece = Buffer.alloc(size, `${String(seq).padStart(15, "0")}\n`);
    hash.update(piece);
    // With a stream in between, for the order to be seen.
    await exchange.raw(chunk(`{"type":"data","seq":${seq},"stream":"${seq % 8 ? "stdout" : "stderr"}","data_base64":"${piece.toString("base64")}"}\n`));
    if (exchange.socket.destroyed) return null;
  }
  await exchange.write(lines(exit(0)));
  await exchange.end();
  return hash.digest("hex");
}

describe("a blocked event loop", async () => {
  test("of 5 s while 256 MiB are sent: all of it arrives in order, and memory grows by less than 64 MiB", async (t) => {
    let digest;
    const endpoint = await startEndpoint({ connect: async (exchange) => (exchange.path.includes("sb_small") ? exchange.stream(exit()) : (digest = await flood(exchange, 256 * MIB))) }, { t });
    const { exited } = startProgram(`${BLOCK}
      import { createHash } from "node:crypto";
      await addon.execute(client, { ...environment.params(), lease: { providerLeaseId: "sb_small" } });
      globalThis.gc();
      const before = process.memoryUsage().rss;
      const hash = createHash("sha256");
      let length = 0, calls = 0, longest = 0, blocked = false;
      const result = await run({}, (stream, text) => {
        hash.update(text);
        length += text.length;
        calls++;
        longest = Math.max(longest, text.length);
        if (!blocked) block(5000);
        blocked = true;
        // What is garbage by now is the test's own affair, not the package's.
        if (calls % 64 === 0) globalThis.gc();
      });
      const grown = process.resourceUsage().maxRSS * 1024 - before;
      process.stdout.write(JSON.stringify({ digest: hash.digest("hex"), length, longest, grown, out: result.stdout.length, err: result.stderr.length }));`,
      endpoint, { flags: ["--expose-gc"] });
    const { code, stdout, stderr } = await exited;
    assert.deepEqual([code, stderr], [0, ""]);
    const seen = JSON.parse(stdout);
    assert.deepEqual([seen.digest, seen.length], [digest, 256 * MIB]);
    assert.ok(seen.longest <= 262_144);
    assert.deepEqual([seen.out, seen.err], [4_194_304, 4_194_304]);
    t.diagnostic(`memory grew by ${(seen.grown / MIB).toFixed(1)} MiB`);
    assert.ok(seen.grown < 64 * MIB, `memory grew by ${(seen.grown / MIB).toFixed(1)} MiB`);
  });

  test("keeps no deadline from being enforced, and aborts are taken as soon as it is free", async (t) => {
    const endpoint = await startEndpoint({ connect: async (exchange) => {
      await exchange.head();
      await exchange.gone();
    } }, { t });
    const { printed, exited } = startProgram(`${BLOCK}
      const aborter = new AbortController();
      const deadline = addon.execute(client, environment.params({ timeoutMs: 500 }));
      const aborted = addon.execute(client, { ...environment.params(), lease: { providerLeaseId: "sb_aborted" } }, aborter.signal).catch((error) => error.message);
      process.stdout.write("started ");
      // Both commands follow their output before the thread is blocked.
      await new Promise((resolve) => setTimeout(resolve, 200));
      setTimeout(() => aborter.abort(), 1000);
      block(5000);
      const free = performance.now();
      const [{ timedOut }, message] = await Promise.all([deadline, aborted]);
      process.stdout.write(JSON.stringify({ timedOut, message, after: performance.now() - free }));`, endpoint);
    await printed("started");
    await endpoint.seen("terminate", 1);
    const [first] = endpoint.of("terminate");
    assert.ok(!first.path.includes("sb_aborted"), "the deadline came while JavaScript was blocked");
    let ended = false;
    exited.then(() => (ended = true));
    await endpoint.seen("terminate", 2);
    assert.ok(!ended);
    const { code, stdout } = await exited;
    assert.equal(code, 0);
    const { timedOut, message, after } = JSON.parse(stdout.replace("started ", ""));
    assert.deepEqual([timedOut, message], [true, "CreateOS command was cancelled."]);
    assert.ok(after < 4000, `${after} ms`);
  });

  test("between slow log calls lets timers and aborts through", async (t) => {
    const endpoint = await startEndpoint({ connect: (exchange) => flood(exchange, 128 * MIB) }, { t });
    const { exited } = startProgram(`${BLOCK}
      const aborter = new AbortController();
      let calls = 0, atAbort;
      setTimeout(() => {
        atAbort = calls;
        aborter.abort();
      }, 100);
      const error = await run({}, () => (calls++, block(10)), aborter.signal).catch((error) => error);
      process.stdout.write(JSON.stringify([error.message, atAbort]));`, endpoint);
    const { code, stdout } = await exited;
    assert.equal(code, 0);
    const [message, calls] = JSON.parse(stdout);
    assert.equal(message, "CreateOS command was cancelled.");
    // There are ten in that time, and eight may be on their way; Node.js would do a thousand before it does anything else.
    assert.ok(calls < 200, `${calls} calls`);
  });

  for (const [slow, body] of [["of 4 s", "if (!blocked) block(4000);"], ["of 2 ms in each log call", "block(2);"]]) {
    test(`${slow}: up to 16 MiB that a command prints meanwhile arrive whole, though the journal evicts`, async () => {
      const host = await emulatorForFile();
      const sandbox = await host.sandbox();
      const { exited } = startProgram(`${BLOCK}
        import { createHash } from "node:crypto";
        const hash = createHash("sha256");
        let blocked = false, length = 0;
        const { exitCode, timedOut } = await run(bash("seq -f %014.0f 1000000"), (stream, text) => {
          ${body}
          blocked = true;
          length += text.length;
          hash.update(text);
        });
        process.stdout.write(JSON.stringify({ exitCode, timedOut, length, digest: hash.digest("hex") }));`, host, { lease: sandbox.id });
      const { code, stdout, stderr } = await exited;
      assert.deepEqual([code, stderr], [0, ""]);
      const hash = createHash("sha256");
      for (let i = 1; i <= 1_000_000; i++) hash.update(`${String(i).padStart(14, "0")}\n`);
      assert.deepEqual(JSON.parse(stdout), { exitCode: 0, timedOut: false, length: 15_000_000, digest: hash.digest("hex") });
    });
  }

  test("a reader that is slow all the time gets everything, several commands at once", async (t) => {
    let digest;
    const endpoint = await startEndpoint({ connect: async (exchange) => (digest = await flood(exchange, 24 * MIB)) }, { t });
    const { exited } = startProgram(`${BLOCK}
      import { createHash } from "node:crypto";
      const one = async () => {
        const hash = createHash("sha256");
        await run({}, (stream, text) => { block(1); hash.update(text); });
        return hash.digest("hex");
      };
      process.stdout.write(JSON.stringify(await Promise.all([one(), one(), one(), one()])));`, endpoint);
    const { code, stdout } = await exited;
    assert.equal(code, 0);
    assert.deepEqual(JSON.parse(stdout), Array(4).fill(digest));
  });
});
