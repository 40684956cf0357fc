// Three threads run commands at once. One of them is terminated in the middle of its command.

import assert from "node:assert/strict";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { createProvider } from "createos-native";
import { startEmulator } from "createos-native/emulator";

const emulator = await startEmulator();
const config = { apiUrl: emulator.url, apiKey: emulator.key, shape: "s-1vcpu-1gb" };
const scope = { driverKey: "createos", companyId: "acme", environmentId: "test", config };
const provider = createProvider();
const lease = await provider.acquireLease({ ...scope, runId: "run-1" });

const start = () => new Worker(new URL("worker.js", import.meta.url), { workerData: { scope, lease } });

/** What a command printed in that thread. */
async function run(worker, source) {
  worker.postMessage({ id: source, source });
  for (;;) {
    const [{ id, stdout }] = await once(worker, "message");
    if (id === source && stdout !== undefined) return stdout;
  }
}

const workers = [start(), start()];
assert.deepEqual(await Promise.all(workers.map((worker, i) => run(worker, `echo from ${i}`))), ["from 0\n", "from 1\n"]);

const endless = start();
endless.postMessage({ id: "endless", source: "echo begun; exec sleep 600" });
const [{ text }] = await once(endless, "message");
assert.equal(text, "begun\n");
await Promise.all([endless, ...workers].map((worker) => worker.terminate()));

// The lease is destroyed by the thread that acquired it; by then nothing runs on it any more.
await provider.destroyLease({ ...scope, providerLeaseId: lease.providerLeaseId, leaseMetadata: lease.metadata });
await provider.shutdown();
await emulator.close();
console.log("worker-threads: ok");
