// Worker threads: the addon in several of them, terminated in the middle of what they do, loaded again, and the main
// thread untouched by all that. In programs of their own, whose exit code tells a crash from a failed expectation.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { data, startEndpoint } from "./support/endpoint.mjs";
import { emulatorForFile, until } from "./support/sandbox.mjs";
import { runProgram, startProgram } from "./support/program.mjs";
import { SOAK } from "./support/soak.mjs";

/** Rounds of eight workers. */
const ROUNDS = SOAK ? 100 : 12;

/** A worker with three commands that stream for ever; it says so once all of them have printed something. */
const WORKER = `
  const { workerData, parentPort } = require("node:worker_threads");
  const addon = require(workerData.root + "/index.js");
  const { config, params } = workerData;
  let streaming = 0;
  const logger = () => {
    let first = true;
    return () => {
      if (first && ++streaming === 3) parentPort.postMessage("streaming");
      first = false;
    };
  };
  const provider = addon.createProvider({ pacing: false });
  const client = new addon.CreateosClient(addon.parseConfig(config), { pacing: false });
  for (let i = 0; i < 3; i++) (i === 0 ? provider.execute(params, logger()) : addon.execute(client, params, null, logger())).catch(() => {});`;

const SPAWN = `
  import { Worker } from "node:worker_threads";
  const source = ${JSON.stringify(WORKER)};
  const spawn = () => {
    const worker = new Worker(source, { eval: true, execArgv: [], workerData: { root: process.cwd(), config: environment.config, params: environment.params(bash("yes")) } });
    return { worker, streaming: new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject)) };
  };`;

describe("worker threads", async () => {
  const endpoint = await startEndpoint({
    connect: async (exchange) => {
      if (exchange.path.includes("sb_quiet")) return exchange.stream(data(1, "quiet"), { type: "exit", exit_code: 0 });
      await exchange.head();
      for (let seq = 1; !exchange.socket.destroyed; seq++) {
        await exchange.frames(data(seq, `line ${seq}\n`.repeat(50)));
        await new Promise(setImmediate);
      }
    },
  });

  test(`eight are terminated in the middle of their streams, and loaded again, ${ROUNDS} times of ${ROUNDS}`, async () => {
    const { code, signal, stderr, stdout } = await runProgram(`${SPAWN}
      const quiet = { ...environment.params(), lease: { providerLeaseId: "sb_quiet" } };
      for (let round = 0; round < ${ROUNDS}; round++) {
        const workers = Array.from({ length: 8 }, spawn);
        await Promise.all(workers.map(({ streaming }) => streaming));
        const [{ stdout }] = await Promise.all([addon.execute(client, quiet), ...workers.map(({ worker }) => worker.terminate())]);
        if (stdout !== "quiet") throw new Error("The main thread's command failed.");
      }
      process.stdout.write((await addon.execute(client, quiet)).stdout);`, endpoint);
    assert.deepEqual([code, signal, stderr, stdout], [0, null, "", "quiet"]);
  });

  test("the commands of a terminated worker are ended at the endpoint", async (t) => {
    const mine = await startEndpoint({ connect: endpoint.handlers.connect }, { t });
    const { child, exited } = startProgram(`${SPAWN}
      const { worker, streaming } = spawn();
      await streaming;
      await worker.terminate();
      // The main thread goes on, and so does the end of what the worker left.
      setInterval(() => {}, 1000);`, mine);
    await mine.seen("terminate", 3);
    child.kill();
    assert.deepEqual([(await exited).stderr, mine.of("create").length, mine.of("terminate").length], ["", 3, 3]);
  });

  for (const where of ["its log callback", "its event callback", "code of its own"]) {
    test(`a release by the main thread does not wait for a worker that is blocked in ${where}`, async (t) => {
      const mine = await startEndpoint({ connect: endpoint.handlers.connect }, { t });
      const { code, stderr, stdout } = await runProgram(`
        import { Worker } from "node:worker_threads";
        import { once } from "node:events";
        const gate = new Int32Array(new SharedArrayBuffer(4));
        const worker = new Worker(${JSON.stringify(`
          const { workerData, parentPort } = require("node:worker_threads");
          const addon = require(workerData.root + "/index.js");
          const { config, params, where, gate } = workerData;
          const block = () => {
            parentPort.postMessage("blocked");
            Atomics.wait(gate, 0, 0);
          };
          let printed = 0;
          const client = new addon.CreateosClient(addon.parseConfig(config), {
            pacing: false,
            onEvent: ({ type }) => type === "connected" && where === "its event callback" && block(),
          });
          const log = () => {
            if (++printed !== 3) return;
            if (where === "its log callback") block();
            else setImmediate(block);
          };
          addon.execute(client, params, null, where === "its event callback" ? null : log).catch((error) => parentPort.postMessage(error.message));`)},
          { eval: true, execArgv: [], workerData: { root: process.cwd(), config: environment.config, params: environment.params(), where: "${where}", gate } });
        await once(worker, "message");
        await addon.release(environment.held(), true);
        await addon.release(environment.held(), true);
        const answer = once(worker, "message");
        Atomics.store(gate, 0, 1);
        Atomics.notify(gate, 0);
        process.stdout.write((await answer)[0]);`, mine);
      assert.deepEqual([code, stderr, stdout], [0, "", "CreateOS command was cancelled."]);
      assert.deepEqual([mine.of("terminate").length, mine.of("destroySandbox").length], [1, 2]);
    });
  }

  test("a process that ends while workers stream ends as it was asked to", async () => {
    for (let i = 0; i < 10; i++) {
      const { code, signal } = await runProgram(`${SPAWN}
        const workers = Array.from({ length: 4 }, spawn);
        await Promise.all(workers.map(({ streaming }) => streaming));
        process.exit(3);`, endpoint);
      assert.deepEqual([code, signal], [3, null]);
    }
  });

  test("a worker that ends by itself has all its output", async () => {
    const { code, stdout } = await runProgram(`
      import { Worker } from "node:worker_threads";
      const worker = new Worker(${JSON.stringify(`
        const { workerData, parentPort } = require("node:worker_threads");
        const addon = require(workerData.root + "/index.js");
        const live = [];
        const client = new addon.CreateosClient(addon.parseConfig(workerData.config), { pacing: false });
        addon.execute(client, workerData.params, null, (stream, text) => live.push(text)).then(({ stdout }) => parentPort.postMessage([live.join(""), stdout]));`)},
        { eval: true, execArgv: [], workerData: { root: process.cwd(), config: environment.config, params: environment.params() } });
      const ended = new Promise((resolve) => worker.once("exit", resolve));
      worker.once("message", (message) => process.stdout.write(JSON.stringify(message)));
      await ended;`, endpoint, { lease: "sb_quiet" });
    assert.deepEqual([code, stdout], [0, '["quiet","quiet"]']);
  });

  describe("with real commands", async () => {
    const host = await emulatorForFile();
    test("the processes of a terminated worker are gone", async () => {
      const sandbox = await host.sandbox();
      const { child, exited, printed } = startProgram(`${SPAWN}
        const { worker, streaming } = spawn();
        await streaming;
        await worker.terminate();
        process.stdout.write("terminated");
        setInterval(() => {}, 1000);`, host, { lease: sandbox.id });
      await printed("terminated");
      await until(async () => (await host.emulator.hostPids()).length === 0, "processes were left");
      child.kill();
      await exited;
    });
  });
});
