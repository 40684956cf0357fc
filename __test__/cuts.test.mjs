// A command's output over connections that are cut anywhere: result and log are always those of the uncut run.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { chunk, data, exit, LAST_CHUNK, lines, startEndpoint, STREAM_HEAD } from "./support/endpoint.mjs";
import { Environment, recorder } from "./support/environment.mjs";
import { execute } from "./support/package.mjs";
import { randomFrom } from "./support/random.mjs";
import { SOAK } from "./support/soak.mjs";

/** Mixed output of both streams, with characters that fall apart between frames, and an exit code. */
const FRAMES = [
  data(1, "first line\n"), data(2, Buffer.from([0xf0, 0x9f])), data(3, "warning: \u00e4\n", "stderr"), data(4, Buffer.from([0x98, 0x80, 0x0a])),
  data(5, Buffer.from([0xe2, 0x82]), "stderr"), data(6, "a"), data(7, Buffer.from([0xac]), "stderr"), data(8, ""), data(9, "no newline at the end"), exit(42),
];
const EXPECTED = {
  log: [["stdout", "first line\n"], ["stderr", "warning: \u00e4\n"], ["stdout", "\u{1f600}\n"], ["stdout", "a"], ["stderr", "\u20ac"], ["stdout", "no newline at the end"]],
  stdout: "first line\n\u{1f600}\nano newline at the end", stderr: "warning: \u00e4\n\u20ac", exitCode: 42,
};
EXPECTED.log = EXPECTED.log.reduce((all, [stream, text]) => {
  if (all.at(-1)?.[0] === stream) all.at(-1)[1] += text;
  else all.push([stream, text]);
  return all;
}, []);

/** What is left of the frames after `after`, as the bytes of a whole response. */
const rest = (after) => Buffer.concat([STREAM_HEAD, ...FRAMES.filter((frame) => !frame.seq || frame.seq > after).map((frame) => chunk(lines(frame))), LAST_CHUNK]);

async function cut(exchange, bytes, how) {
  await exchange.raw(bytes);
  if (how === "reset") setImmediate(() => exchange.reset());
  else exchange.fin();
}

describe("output over cut connections", async () => {
  const handlers = {};
  const endpoint = await startEndpoint(handlers);
  const environment = new Environment(endpoint);
  const client = environment.client({ reconnect: { attempts: 3, delayMs: 0 } });

  async function identical(what, params = environment.params()) {
    const log = recorder();
    const result = await execute(client, params, null, log).catch((error) => assert.fail(`${what}: ${error.message} ${JSON.stringify(error.details)}`));
    const { stdout, stderr, exitCode } = result;
    assert.deepEqual({ log: log.merged(), stdout, stderr, exitCode }, EXPECTED, what);
  }

  test("the uncut run", async () => {
    handlers.connect = (exchange) => exchange.raw(rest(Number(exchange.query.after)));
    await identical("uncut");
  });

  for (const how of ["reset", "clean end"]) {
    test(`cut by a ${how} at every byte of the response, head included`, async () => {
      const whole = rest(0);
      for (let at = 0; at <= whole.length; at++) {
        let connections = 0;
        handlers.connect = (exchange) => (connections++ === 0 ? cut(exchange, whole.subarray(0, at), how) : exchange.raw(rest(Number(exchange.query.after))));
        await identical(`cut at ${at} of ${whole.length}`);
      }
    });
  }

  test("cut by an end of the body that is proper HTTP, at every byte of the body", async () => {
    const body = Buffer.from(lines(...FRAMES));
    for (let at = 0; at <= body.length; at++) {
      let connections = 0;
      handlers.connect = (exchange) => (connections++ === 0
        ? exchange.raw(Buffer.concat([STREAM_HEAD, ...(at > 0 ? [chunk(body.subarray(0, at))] : []), LAST_CHUNK]))
        : exchange.raw(rest(Number(exchange.query.after))));
      await identical(`ended at ${at} of ${body.length}`);
    }
  });

  test("byte by byte", async () => {
    handlers.connect = async (exchange) => {
      for (const byte of rest(Number(exchange.query.after))) await exchange.raw(Buffer.from([byte]));
    };
    await identical("byte by byte");
    handlers.connect = async (exchange) => {
      await exchange.head();
      for (const byte of Buffer.from(lines(...FRAMES))) await exchange.write(Buffer.from([byte]));
      await exchange.end();
    };
    await identical("a chunk for each byte");
  });

  test("a server that ignores `after` and always begins anew", async () => {
    const whole = rest(0);
    for (let at = 200; at < whole.length; at += 7) {
      let connections = 0;
      handlers.connect = (exchange) => (connections++ < 2 ? cut(exchange, whole.subarray(0, at), at % 2 ? "reset" : "end") : exchange.raw(whole));
      await identical(`cut at ${at}`);
    }
  });

  const RUNS = SOAK ? 20_000 : 2000;
  test(`${RUNS} runs with random cuts of random kinds, replays that overlap, and pieces of random size`, async () => {
    for (let seed = 1; seed <= RUNS; seed++) {
      const random = randomFrom(seed);
      handlers.connect = async (exchange) => {
        // Frames that were read already may come again.
        const after = Math.max(0, Number(exchange.query.after) - random(4));
        const whole = rest(after);
        const fresh = Number(exchange.query.after) + 1;
        // Progress is made often enough for three failures in a row never to happen: every third connection is whole.
        const length = exchange.count % 3 === 0 || fresh > 9 ? whole.length : random(whole.length + 1);
        for (let at = 0; at < length;) {
          const next = Math.min(length, at + 1 + random(200));
          await exchange.raw(whole.subarray(at, next));
          at = next;
        }
        if (length < whole.length) await cut(exchange, "", random(2) ? "reset" : "end");
      };
      await identical(`seed ${seed}`);
    }
  });

  test("more failures than are tolerated, each after new output, end nothing", async () => {
    handlers.connect = (exchange) => {
      const after = Number(exchange.query.after);
      const frame = FRAMES[after];
      return exchange.raw(Buffer.concat([STREAM_HEAD, chunk(lines(frame)), LAST_CHUNK]));
    };
    await identical("a connection for each frame");
  });

  for (const [what, connect, message] of [
    ["are not answered", (exchange) => exchange.fail(503), "CreateOS process output connection failed."],
    ["end without output", (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, LAST_CHUNK])), "CreateOS process stream ended without an exit status."],
    ["end within a line", (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, chunk('{"type":"da'), LAST_CHUNK])), "CreateOS process stream ended without an exit status."],
  ]) {
    test(`four connections in a row that ${what} are too many: ${message}`, async () => {
      const before = endpoint.of("connect").length;
      handlers.connect = connect;
      await assert.rejects(execute(client, environment.params()), { name: "CreateosError", message });
      assert.equal(endpoint.of("connect").length, before + 4);
    });
  }

  test("a lost exit frame is had from the process", async (t) => {
    t.after(() => delete handlers.wait);
    const body = Buffer.from(lines(...FRAMES.slice(0, -1)));
    handlers.connect = (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, ...(exchange.query.after === "0" ? [chunk(body)] : []), LAST_CHUNK]));
    handlers.wait = (exchange) => exchange.success({ tree_exited: true, exit_code: 42, signal: null, output: { newest_seq: 9 } });
    const terminated = endpoint.of("terminate").length;
    await identical("without an exit frame");
    assert.equal(endpoint.of("terminate").length, terminated);
  });
});
