// How a command that does not end by itself is ended: its deadline, an abort, and what is left of its processes: nothing.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { bash, recorder } from "./support/environment.mjs";
import { execute } from "./support/package.mjs";
import { abortOn, awaiting, emulatorForFile } from "./support/sandbox.mjs";

const CANCELLED = { name: "CreateosError", message: "CreateOS command was cancelled." };

/** Prints a line for each of three generations, among them one that has left the session and one that ignores signals. */
const FAMILY = `
  trap '' TERM
  (trap '' TERM; (setsid bash -c 'trap "" TERM HUP; echo grandchild; sleep 600') & echo child; sleep 600) &
  sleep 600 & echo leader; wait`;
const BORN = /^(leader|child|grandchild)\n(leader|child|grandchild)\n(leader|child|grandchild)\n$/;

function lives(pid) {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

describe("the end of a command", async () => {
  const host = await emulatorForFile();
  const sandbox = await host.sandbox();

  /** Runs the family until all of it lives, has `end` end it, and checks by their numbers that none is left. */
  async function endsWhole(end) {
    const log = recorder();
    let announce;
    const born = new Promise((resolve) => (announce = resolve));
    const watch = (stream, text) => {
      log(stream, text);
      if (BORN.test(log.text("stdout"))) announce();
    };
    const running = end(watch, born);
    await born;
    const pids = await host.emulator.hostPids();
    assert.ok(pids.length >= 3, "the whole family lives");
    const settled = await running.then((value) => ({ value }), (error) => ({ error }));
    assert.deepEqual(pids.filter(lives), [], "nobody of it lives");
    assert.deepEqual(await host.emulator.hostPids(), []);
    return settled;
  }

  test("a timeout ends children and grandchildren and returns the output so far", async () => {
    const { value } = await endsWhole((log) => sandbox.run({ ...bash(FAMILY), timeoutMs: 4000 }, { log }));
    assert.match(value.stdout, BORN);
    assert.deepEqual({ ...value, stdout: "" }, {
      exitCode: null, signal: null, timedOut: true, stdout: "", stderr: "", metadata: { processId: value.metadata.processId, outputTruncated: false },
    });
    assert.match(value.metadata.processId, /^proc_/);
  });

  test("an abort ends children and grandchildren and rejects with the output so far", async () => {
    const controller = new AbortController();
    const { error } = await endsWhole((log, born) => {
      born.then(() => controller.abort());
      return sandbox.run(bash(FAMILY), { log, signal: controller.signal });
    });
    assert.deepEqual([error.name, error.message], [CANCELLED.name, CANCELLED.message]);
    assert.match(error.output.stdout, BORN);
    assert.deepEqual([error.output.stderr, error.output.truncated], ["", false]);
  });

  test("a release ends children and grandchildren first", async () => {
    const mine = await host.sandbox();
    const provider = mine.provider();
    const { log, seen } = awaiting("up");
    const running = provider.execute(mine.params(bash("sleep 600 & echo up; sleep 600")), log);
    const ended = assert.rejects(running, CANCELLED);
    await seen;
    const pids = await host.emulator.hostPids();
    await provider.release(mine.held(), true);
    await ended;
    assert.deepEqual(pids.filter(lives), []);
    assert.equal(await mine.state(), "destroyed");
  });

  test("the environment's timeout is the deadline where the command has none", async () => {
    const impatient = await host.sandbox({ timeoutMs: 500 });
    for (const run of [() => impatient.run(bash("echo x; sleep 600")), () => impatient.provider().execute(impatient.params(bash("echo x; sleep 600")))]) {
      const { timedOut, stdout } = await run();
      assert.deepEqual([timedOut, stdout], [true, "x\n"]);
    }
  });

  test("a provider keeps to the deadline also when there is a signal, the module does not", async () => {
    const { signal } = new AbortController();
    const { timedOut } = await sandbox.provider().execute(sandbox.params({ ...bash("sleep 600"), timeoutMs: 300 }), null, signal);
    assert.equal(timedOut, true);
    const result = await execute(sandbox.client(), sandbox.params({ ...bash("sleep 0.6; echo late"), timeoutMs: 300 }), signal);
    assert.deepEqual([result.timedOut, result.stdout], [false, "late\n"]);
  });

  // Each takes the second of grace that a tree has; they need not wait for each other.
  describe("by its reason", { concurrency: 4 }, () => {
    for (const [what, reason, timedOut] of [
      ["no reason", undefined, false],
      ["a TimeoutError", new DOMException("late", "TimeoutError"), true],
      ["an AbortError", new DOMException("enough", "AbortError"), false],
      ["an error named TimeoutError", Object.assign(new Error("late"), { name: "TimeoutError" }), true],
      ["any object named TimeoutError", { name: "TimeoutError" }, true],
      ["an error", new Error("mine"), false],
      ["a string", "TimeoutError", false],
      ["null", null, false],
      ["a number", 0, false],
      ["a symbol", Symbol("TimeoutError"), false],
    ]) {
      test(`an abort with ${what} is ${timedOut ? "a timeout" : "a cancellation"}`, async () => {
        const { signal, log } = abortOn("up", reason);
        const running = sandbox.run(bash("echo up; sleep 600"), { signal, log });
        if (timedOut) assert.deepEqual([(await running).timedOut, (await running).stdout], [true, "up\n"]);
        else await assert.rejects(running, CANCELLED);
      });
    }
  });

  test("AbortSignal.timeout is a timeout, alone and as one of many", async () => {
    const alone = await sandbox.run(bash("sleep 600"), { signal: AbortSignal.timeout(200) });
    assert.equal(alone.timedOut, true);
    const any = await sandbox.run(bash("sleep 600"), { signal: AbortSignal.any([new AbortController().signal, AbortSignal.timeout(200)]) });
    assert.equal(any.timedOut, true);
  });

  test("a signal that was aborted before makes no request", async () => {
    const before = host.emulator.requests.length;
    await assert.rejects(sandbox.run(bash("echo x"), { signal: AbortSignal.abort() }), (error) => {
      assert.equal(error.message, CANCELLED.message);
      assert.ok(!("output" in error), "nothing had started");
      return true;
    });
    const late = AbortSignal.abort(new DOMException("late", "TimeoutError"));
    assert.deepEqual(await sandbox.run(bash("echo x"), { signal: late }), {
      exitCode: null, signal: null, timedOut: true, stdout: "", stderr: "", metadata: { processId: null, outputTruncated: false },
    });
    assert.equal(host.emulator.requests.length, before);
  });

  test("a signal's other listeners stay as they are", async () => {
    const controller = new AbortController();
    const seen = [];
    controller.signal.onabort = () => seen.push("onabort");
    controller.signal.addEventListener("abort", () => seen.push("listener"));
    const { log, seen: up } = awaiting("up");
    const running = sandbox.run(bash("echo up; sleep 600"), { signal: controller.signal, log });
    const ended = assert.rejects(running, CANCELLED);
    await up;
    controller.abort();
    await ended;
    assert.deepEqual(seen, ["onabort", "listener"]);
  });

  test("an abort after the end changes nothing", async () => {
    const controller = new AbortController();
    const result = await sandbox.run(bash("echo x"), { signal: controller.signal });
    controller.abort();
    assert.equal(result.stdout, "x\n");
  });

  test("standard input that was staged is removed after a timeout, too", async () => {
    const { timedOut } = await sandbox.run({ ...bash("cat; sleep 600"), stdin: "x", timeoutMs: 500 });
    assert.equal(timedOut, true);
    assert.equal((await sandbox.run(bash("ls /tmp | grep -c paperclip-"))).stdout, "0\n");
  });

  test("after the exit frame a timeout changes nothing, and the removal of staged files is waited for 2 s at most", async (t) => {
    host.interfere(t, ({ route }) => (route === "exec" ? { hang: true } : undefined));
    const begun = performance.now();
    const result = await sandbox.run({ ...bash("cat; exit 7"), stdin: "in", timeoutMs: 1500 });
    assert.deepEqual([result.exitCode, result.timedOut, result.stdout], [7, false, "in"]);
    assert.ok(performance.now() - begun < 8000);
  });
});
