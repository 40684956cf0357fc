// Output of real commands on its way to the caller: whole, in order, in time, in pieces of the promised kind, and in the
// async context of the call.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { bash, recorder } from "./support/environment.mjs";
import { execute } from "./support/package.mjs";
import { awaiting, emulatorForFile } from "./support/sandbox.mjs";

describe("output of real commands", async () => {
  const KEPT = 4_194_304;
  const LONGEST = 262_144;
  // The emulator shares its CPU, and its thread, with the client: being slow must not pass for not reading.
  const host = await emulatorForFile({ readerGraceMs: 30_000 });
  const sandbox = await host.sandbox();

  const digest = (text) => createHash("sha256").update(text).digest("hex");

  test("30 MB arrive whole in the log, and their last 4,194,304 units in the result", async () => {
    const log = recorder();
    const { stdout, metadata, exitCode } = await sandbox.run({ command: "seq", args: ["-f", "%014.0f", "2000000"] }, { log });
    const lines = Array.from({ length: 2_000_000 }, (_, i) => `${String(i + 1).padStart(14, "0")}\n`).join("");
    assert.equal(lines.length, 30_000_000);
    assert.equal(digest(log.text("stdout")), digest(lines));
    assert.deepEqual([stdout.length, metadata.outputTruncated, exitCode], [KEPT, true, 0]);
    assert.ok(stdout === lines.slice(-KEPT), "the result is the end");
  });

  test("output beyond the journal arrives whole while the command is connected", async () => {
    const log = recorder();
    // The journal holds 1 MiB; each line is of one stream.
    const script = 'for i in $(seq 40); do head -c 100000 /dev/zero | tr "\\0" "$((i % 10))"; head -c 50000 /dev/zero | tr "\\0" "$((i % 10))" >&2; done';
    const result = await sandbox.run(bash(script), { log });
    const expected = (size) => Array.from({ length: 40 }, (_, i) => String((i + 1) % 10).repeat(size)).join("");
    assert.ok(log.text("stdout") === expected(100_000));
    assert.ok(log.text("stderr") === expected(50_000));
    assert.ok(result.stdout === expected(100_000) && result.stderr === expected(50_000));
    assert.equal(result.metadata.outputTruncated, false);
  });

  test("log calls are never empty, never too long, never cut inside a character, and of known streams", async () => {
    const log = recorder();
    // Three bytes, four bytes, one: any cut into fixed sizes falls inside characters.
    const script = "for i in $(seq 60000); do printf '\u20ac\u{1f600}x'; done; for i in $(seq 60000); do printf '\u{1f600}' >&2; done";
    const { stdout, stderr } = await sandbox.run(bash(script), { log });
    assert.ok(stdout === "\u20ac\u{1f600}x".repeat(60_000) && stderr === "\u{1f600}".repeat(60_000));
    assert.ok(log.text("stdout") === stdout && log.text("stderr") === stderr);
    for (const [stream, text] of log.calls) {
      assert.ok(stream === "stdout" || stream === "stderr");
      assert.ok(text.length > 0 && text.length <= LONGEST);
      assert.ok(text.isWellFormed?.() ?? !/[\ud800-\udfff]/u.test(text));
    }
  });

  test("both streams keep their true order", async () => {
    const log = recorder();
    // A sleep between them: two pipes have no order of their own.
    await sandbox.run(bash("for i in 1 2 3 4 5; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done"), { log });
    assert.deepEqual(log.merged(), [1, 2, 3, 4, 5].flatMap((i) => [["stdout", `o${i}\n`], ["stderr", `e${i}\n`]]));
  });

  test("output is there as soon as it was printed, not at the end", async () => {
    const first = awaiting("ready");
    const running = sandbox.run(bash("echo ready; until [ -e /tmp/go ]; do sleep 0.02; done; rm /tmp/go; echo done"), { log: first.log });
    await first.seen;
    // The command can only go on because its output was seen before it ended.
    await sandbox.run({ command: "touch", args: ["/tmp/go"] });
    assert.equal((await running).stdout, "ready\ndone\n");
  });

  test("every log call comes before the promise settles", async () => {
    for (let i = 0; i < 20; i++) {
      let settled = false;
      let late = 0;
      const log = () => settled && late++;
      const result = await sandbox.run({ command: "seq", args: ["20000"] }, { log }).finally(() => (settled = true));
      await new Promise((resolve) => setTimeout(resolve, 5));
      assert.equal(late, 0);
      assert.equal(result.exitCode, 0);
    }
  });

  test("bytes that are no UTF-8 become U+FFFD, and what is unfinished at the end, too", async () => {
    const log = recorder();
    const { stdout } = await sandbox.run(bash("printf '\\xff\\xfea\\xc3'; sleep 0.1; printf '\\xa4\\xef\\xbb\\xbf\\xf0\\x9f\\x98'"), { log });
    assert.equal(stdout, "\ufffd\ufffda\u00e4\ufeff\ufffd");
    assert.equal(log.text("stdout"), stdout);
  });

  test("a character in two halves, from before and after a cut connection, is one", async (t) => {
    let connections = 0;
    host.interfere(t, ({ route }) => {
      if (route !== "connect" || ++connections > 1) return undefined;
      return { cutAfter: JSON.stringify({ type: "data", seq: 1, stream: "stdout", data_base64: "aGFsZiDw" }).length + 1 };
    });
    const { stdout } = await sandbox.run(bash("printf 'half \\xf0'; sleep 0.3; printf '\\x9f\\x98\\x80'"), { reconnect: { delayMs: 10 } });
    assert.equal(stdout, "half \u{1f600}");
    assert.equal(connections, 2);
  });

  test("two executions at the same time each see their own store in every log call", async () => {
    const storage = new AsyncLocalStorage();
    const one = (name) => storage.run({ name }, async () => {
      const seen = new Set();
      let calls = 0;
      const log = () => {
        calls++;
        seen.add(storage.getStore()?.name);
      };
      const { exitCode } = await execute(sandbox.client(), sandbox.params(bash("for i in $(seq 30); do echo $i; sleep 0.01; done")), null, log);
      assert.equal(storage.getStore()?.name, name, "after the call the context is the caller's, too");
      return { seen: [...seen], calls, exitCode };
    });
    const provider = sandbox.provider();
    const three = storage.run({ name: "three" }, async () => {
      const seen = new Set();
      await provider.execute(sandbox.params(bash("for i in $(seq 30); do echo $i; sleep 0.01; done")), () => seen.add(storage.getStore()?.name));
      return [...seen];
    });
    const [first, second] = await Promise.all([one("one"), one("two")]);
    assert.deepEqual([first.seen, second.seen, await three], [["one"], ["two"], ["three"]]);
    assert.ok(first.calls > 1 && second.calls > 1);
  });

  test("a log call outside any context has none", async () => {
    const storage = new AsyncLocalStorage();
    const seen = new Set();
    const running = sandbox.run(bash("echo x; sleep 0.1; echo y"), { log: () => seen.add(storage.getStore()) });
    await storage.run("elsewhere", () => running);
    assert.deepEqual([...seen], [undefined]);
  });

  test("what a log call starts belongs to the call's context as well", async () => {
    const storage = new AsyncLocalStorage();
    const later = await storage.run("mine", () => new Promise((resolve, reject) => {
      sandbox.run(bash("echo x"), { log: () => queueMicrotask(() => setTimeout(() => resolve(storage.getStore()), 1)) }).catch(reject);
    }));
    assert.equal(later, "mine");
  });

  test("`null` as log and as signal is none", async () => {
    assert.equal((await execute(sandbox.client(), sandbox.params(bash("echo x")), null, null)).stdout, "x\n");
    assert.equal((await sandbox.provider().execute(sandbox.params(bash("echo x")), null, null)).stdout, "x\n");
  });

  test("a released connection to a chatty command does not mix into the next one", async () => {
    for (let i = 0; i < 10; i++) {
      const [a, b] = await Promise.all([sandbox.run(bash(`yes a${i} | head -c 200000`)), sandbox.run(bash(`yes b${i} | head -c 200000`))]);
      assert.ok(/^(a\d\n)+$/.test(a.stdout.slice(0, 199_998)) && a.stdout.length === 200_000);
      assert.ok(/^(b\d\n)+$/.test(b.stdout.slice(0, 199_998)) && b.stdout.length === 200_000);
    }
  });
});
