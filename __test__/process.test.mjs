// The package in a process: how it is loaded, that it prints nothing, and every way in which the process can end.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { data, startEndpoint } from "./support/endpoint.mjs";
import { runProgram, startProgram } from "./support/program.mjs";
import { SECRET } from "./support/secrets.mjs";
import { SOAK } from "./support/soak.mjs";

const NAMES = [
  "CreateosApiError", "CreateosCleanupError", "CreateosClient", "CreateosError", "CreateosLoadError", "CreateosProvider", "createProvider", "execute",
  "parseConfig", "release", "shellQuote", "shutdown",
];

describe("the process", async () => {
  // Prints for ever, as fast as it is read.
  const endpoint = await startEndpoint({
    connect: async (exchange) => {
      if (exchange.query.after !== "0" || exchange.path.includes("sb_quiet")) return exchange.stream({ type: "exit", exit_code: 0 });
      await exchange.head();
      for (let seq = 1; !exchange.socket.destroyed; seq++) {
        await exchange.frames(data(seq, `line ${seq}\n`.repeat(100)));
        await new Promise(setImmediate);
      }
    },
  });

  test("every export is there by import and by require, and is the same", async () => {
    const { code, stdout, stderr } = await runProgram(`
      import { createRequire } from "node:module";
      import own, { ${NAMES.join(", ")} } from "./index.js";
      const required = createRequire(process.cwd() + "/x.js")("./index.js");
      const named = { ${NAMES.join(", ")} };
      for (const name of Object.keys(named)) if (named[name] !== required[name] || own[name] !== named[name]) throw new Error(name);
      console.log(Object.keys(required).sort().join());`, endpoint);
    assert.deepEqual([code, stderr], [0, ""]);
    for (const name of NAMES) assert.ok(stdout.trim().split(",").includes(name), name);
  });

  for (const type of ["module", "commonjs"]) {
    test(`a script of kind ${type} ends by itself within a second, though its connections are idle`, async () => {
      const { printed, exited } = startProgram(`
        Promise.all(Array.from({ length: 5 }, () => run({ ${type === "module" ? "" : 'lease: { providerLeaseId: "sb_quiet" }'} })))
          .then((results) => process.stdout.write("done " + results.length));`, endpoint, { type, lease: "sb_quiet" });
      await printed("done 5");
      const begun = performance.now();
      const { code, signal, stderr } = await exited;
      assert.deepEqual([code, signal, stderr], [0, null, ""]);
      assert.ok(performance.now() - begun < 1000);
    });
  }

  test("a script that has only loaded the package, or made clients and providers, ends by itself", async () => {
    const { code, stderr } = await runProgram("addon.createProvider(); new addon.CreateosClient({ apiUrl: 'https://a.test', apiKey: 'k', shape: 's' });", endpoint);
    assert.deepEqual([code, stderr], [0, ""]);
  });

  test("a running command keeps the process alive to its end", async () => {
    const { code, stdout } = await runProgram("run().then(() => process.stdout.write('result'));", endpoint, { lease: "sb_quiet" });
    assert.deepEqual([code, stdout], [0, "result"]);
  });

  test("nothing is ever printed, whatever fails", async () => {
    const failing = await startEndpoint({
      create: (exchange) => [(e) => e.fail(500), (e) => e.fail(404), (e) => e.reset(), (e) => e.raw("garbage\r\n\r\n").then(() => e.fin()), (e) => e.success({ process_id: "p" })][exchange.count % 5](exchange),
      connect: (exchange) => (exchange.count % 2 ? exchange.stream({ type: "error", error: SECRET }) : exchange.raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzzz\r\n")),
      terminate: (exchange) => exchange.fail(400),
      destroySandbox: (exchange) => exchange.fail(500),
    });
    const { code, stdout, stderr } = await runProgram(`
      const provider = environment.provider({ reconnect: { attempts: 1, delayMs: 0 } });
      const failed = [];
      const note = (promise) => promise.then(() => failed.push("none"), (error) => failed.push(error.name));
      for (let i = 0; i < 15; i++) await note(addon.execute(environment.client({ reconnect: { attempts: 1, delayMs: 0 } }), environment.params()));
      await note(provider.execute(environment.params({ timeoutMs: 0 })));
      await note(provider.release(environment.held(), true));
      await note(addon.execute({}, {}));
      await note(run({}, null, AbortSignal.abort()));
      try { addon.parseConfig({}); } catch (error) { failed.push(error.name); }
      try { addon.createProvider(5); } catch (error) { failed.push(error.name); }
      await provider.shutdown();
      if (failed.includes("none") || failed.length !== 21) process.exitCode = 5;`, failing, { env: { RUST_BACKTRACE: "1", RUST_LOG: "trace" } });
    assert.deepEqual([code, stdout, stderr], [0, "", ""]);
  });

  // Again and again, two at a time: a crash at the end of a process is a race.
  const TIMES = SOAK ? 100 : 26;
  for (const [what, statement, expected] of [
    ["process.exit(3) in the middle of a stream", "setTimeout(() => process.exit(3), 20 * Math.random());", { code: 3, signal: null }],
    ["an uncaught exception in the middle of a stream", "process.on('uncaughtExceptionMonitor', () => {}); setTimeout(() => { throw new Error('mine'); }, 20 * Math.random());", { code: 1, signal: null }],
    ["SIGTERM in the middle of a stream", "setTimeout(() => process.kill(process.pid, 'SIGTERM'), 20 * Math.random());", { code: null, signal: "SIGTERM" }],
    ["process.exit(3) from within a log call", "exitIn = Math.floor(10 * Math.random()) + 1;", { code: 3, signal: null }],
  ]) {
    test(`${what} ends the process as it was asked to, ${TIMES} times of ${TIMES}`, async () => {
      const source = `
        let calls = 0, exitIn = 0;
        const log = () => { if (++calls === exitIn) process.exit(3); if (calls === 1) begin(); };
        const begin = () => { ${statement.startsWith("exitIn") ? "" : statement} };
        ${statement.startsWith("exitIn") ? statement : ""}
        for (let i = 0; i < 3; i++) run({}, log);`;
      for (let round = 0; round < TIMES / 2; round++) {
        for (const { code, signal, stderr } of await Promise.all([runProgram(source, endpoint), runProgram(source, endpoint)])) {
          assert.deepEqual({ code, signal }, expected, stderr);
          assert.doesNotMatch(stderr, /panicked|FATAL|fatal error|Segmentation/);
        }
      }
    });
  }

  test("process.exit in a command that is being ended does not wait for it", async () => {
    const stuck = await startEndpoint({ connect: async (exchange) => { await exchange.head(); await exchange.gone(); }, terminate: (exchange) => exchange.hang() });
    const { child, exited } = startProgram("const c = new AbortController(); run({}, null, c.signal).catch(() => {}); process.on('SIGUSR2', () => (c.signal.aborted ? process.exit(4) : c.abort()));", stuck);
    await stuck.seen("connect");
    child.kill("SIGUSR2");
    await stuck.seen("terminate");
    child.kill("SIGUSR2");
    const begun = performance.now();
    const { code, signal } = await exited;
    assert.deepEqual([code, signal], [4, null]);
    assert.ok(performance.now() - begun < 5000);
  });
});
