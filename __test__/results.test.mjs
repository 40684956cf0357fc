// Results of any length. Those that are long become JavaScript's strings as they are, where Node.js can do that: they must
// be whole, go when nobody needs them, and outlive neither their thread nor their memory.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { data, exit, startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { runProgram } from "./support/program.mjs";

const LIMIT = 4_194_304;
const FRAME = 600_000;

const PATTERNS = { ascii: "abc", latin: "äéß", wide: "漢字" };
const LONGEST = 3 * LIMIT;

/** Text no two places of which look the same. */
const texts = new Map(Object.entries(PATTERNS).map(([name, pattern]) => {
  let made = "";
  for (let i = 0; made.length < LONGEST; i++) made += `${i}${pattern}\n`;
  return [name, made];
}));

/** What a sandbox prints, by its ID: `sb_`, a pattern's name, `_` and a length. Frames may cut a character anywhere. */
const frames = new Map();
function framesOf(sandbox) {
  if (!frames.has(sandbox)) {
    const [, pattern, units] = sandbox.split("_");
    const bytes = Buffer.from(texts.get(pattern).slice(0, Number(units)));
    frames.set(sandbox, Array.from({ length: Math.ceil(bytes.length / FRAME) }, (_, i) => data(i + 1, bytes.subarray(i * FRAME, (i + 1) * FRAME))));
  }
  return frames.get(sandbox);
}

describe("a result", async () => {
  const endpoint = await startEndpoint({
    connect: (exchange) => exchange.stream(...framesOf(/sb_\w+/.exec(exchange.path)[0]), exit(0)),
  });
  const environment = new Environment(endpoint);

  for (const pattern of Object.keys(PATTERNS)) {
    test(`of any length is what was printed: ${PATTERNS[pattern]}`, async () => {
      for (const units of [1, 65_535, 65_536, 65_537, 700_000, LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 70_000, LONGEST]) {
        const { stdout, metadata } = await environment.run({ lease: { providerLeaseId: `sb_${pattern}_${units}` } });
        assert.ok(stdout === texts.get(pattern).slice(0, units).slice(-LIMIT), `${units} units`);
        assert.equal(metadata.outputTruncated, units > LIMIT);
      }
    });
  }

  test("goes when nobody needs it, without being asked to", async () => {
    const { code, stderr, stdout } = await runProgram(`
      const resident = () => process.memoryUsage().rss / 2 ** 20;
      const several = async (count) => {
        for (let i = 0; i < count; i++) await run({ lease: { providerLeaseId: i % 4 ? "sb_ascii_4194304" : "sb_wide_4194304" } });
      };
      await several(40);
      const before = resident();
      await several(120);
      process.stdout.write(String(resident() - before));`, endpoint);
    assert.deepEqual([code, stderr], [0, ""]);
    // All of them together are 600 MiB.
    assert.ok(Number(stdout) < 150, `${stdout} MiB are left`);
  });

  test("may be held by a worker thread that ends, or is terminated", async () => {
    const { code, signal, stderr, stdout } = await runProgram(`
      import { once } from "node:events";
      import { Worker } from "node:worker_threads";
      const source = ${JSON.stringify(`
        const { workerData, parentPort } = require("node:worker_threads");
        const addon = require(workerData.root + "/index.js");
        const client = new addon.CreateosClient(addon.parseConfig(workerData.config), { pacing: false });
        globalThis.held = [];
        Promise.all(["sb_ascii_4194304", "sb_wide_300000"].map(async (providerLeaseId) => {
          held.push((await addon.execute(client, { ...workerData.params, lease: { providerLeaseId } })).stdout);
        })).then(() => {
          parentPort.postMessage(held);
          if (workerData.stays) setInterval(() => {}, 1000);
        });`)};
      for (let i = 0; i < 8; i++) {
        const stays = i % 2 === 0;
        const worker = new Worker(source, { eval: true, execArgv: [], workerData: { root: process.cwd(), config: environment.config, params: environment.params(), stays } });
        const ended = once(worker, "exit");
        const [[first, second]] = await once(worker, "message");
        if (first.length + second.length !== 4194304 + 300000) throw new Error("A result is not whole.");
        if (stays) await worker.terminate();
        await ended;
      }
      process.stdout.write("done");`, endpoint);
    assert.deepEqual([code, signal, stderr, stdout], [0, null, "", "done"]);
  });
});
