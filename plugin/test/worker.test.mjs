// How a worker ends without having been asked to, and what the next one finds.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Environment, startEndpoint } from "./support/environment.mjs";
import { Host } from "./support/host.mjs";

/** Starts a command that never ends and has a child in a session of its own; resolves when both run. */
async function startEndless(environment, lease) {
  let heard;
  const started = new Promise((resolve) => (heard = resolve));
  const running = environment.run(lease, "setsid sleep 1000 & echo started; sleep 1000", {}, heard);
  running.catch(() => {});
  await Promise.race([started, running]);
  return { running };
}

it("terminates what a killed worker left running before it hands out the lease again", async (t) => {
  const emulator = await startEndpoint(t);
  const first = await Host.start(t);
  const environment = new Environment(first, emulator);
  const lease = await environment.acquire();
  const { running } = await startEndless(environment, lease);
  await first.kill();
  await assert.rejects(running, /^Error: The worker ended \(SIGKILL\)/);
  assert.ok((await emulator.hostPids()).length >= 2, "the command outlives its worker");

  const second = await Host.start(t);
  const resumed = await environment.through(second).resume(lease);
  assert.deepEqual(await emulator.hostPids(), [], "nothing runs any more when the lease is handed out");
  assert.deepEqual(resumed, { providerLeaseId: lease.providerLeaseId, metadata: { ...lease.metadata, resumedLease: true } });
  const { stdout } = await environment.through(second).run(resumed, "echo again");
  assert.equal(stdout, "again\n");
  assert.deepEqual(await second.shutdown(), [0, null]);
});

it("does not hand out a lease on which something may still run", async (t) => {
  const emulator = await startEndpoint(t, {
    hooks: { request: ({ route }) => (route === "terminate" ? { status: 403 } : undefined) },
  });
  const first = await Host.start(t);
  const environment = new Environment(first, emulator);
  const lease = await environment.acquire();
  await startEndless(environment, lease);
  await first.kill();

  const second = environment.through(await Host.start(t));
  await assert.rejects(second.resume(lease), { message: "CreateOS command cleanup failed; process termination is unconfirmed." });
  await assert.rejects(second.resume(lease), { message: "CreateOS lease cleanup must finish before resume." });
  await assert.rejects(second.run(lease, "echo never"), { message: "CreateOS lease is closing or requires cleanup." });
  assert.deepEqual(await second.destroy(lease), { providerLeaseId: lease.providerLeaseId, state: "destroyed" });
  assert.deepEqual(await emulator.hostPids(), []);
});

it("ends its commands and itself when Paperclip is gone", async (t) => {
  const emulator = await startEndpoint(t);
  const host = await Host.start(t);
  const environment = new Environment(host, emulator);
  const lease = await environment.acquire();
  const { running } = await startEndless(environment, lease);
  assert.deepEqual(await host.hangUp(), [0, null]);
  await assert.rejects(running);
  assert.deepEqual(await emulator.hostPids(), []);
});
