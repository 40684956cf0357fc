"use strict";
// Runs commands with a provider and tells by the error's class what can be done about it.

const assert = require("node:assert/strict");
const { CreateosApiError, CreateosCleanupError, CreateosError, createProvider } = require("createos-native");

/** What went wrong, and whether another sandbox would help. */
function remedyOf(error) {
  if (error instanceof CreateosCleanupError) return "destroy the lease";
  if (error instanceof CreateosApiError) return error.status === 404 ? "acquire another lease" : `HTTP ${error.status}`;
  if (error instanceof CreateosError) return error.message;
  throw error;
}

async function main() {
  // The emulator is an ES module.
  const { startEmulator } = await import("createos-native/emulator");
  const emulator = await startEmulator();
  const config = { apiUrl: emulator.url, apiKey: emulator.key, shape: "s-1vcpu-1gb" };
  const scope = { driverKey: "createos", companyId: "acme", environmentId: "test", config };
  const provider = createProvider();

  const lease = await provider.acquireLease({ ...scope, runId: "run-1" });
  const { exitCode, stdout } = await provider.execute({ ...scope, lease, command: "sh", args: ["-c", "echo hello; exit 3"] });
  assert.deepEqual({ exitCode, stdout }, { exitCode: 3, stdout: "hello\n" });

  const receipt = await provider.destroyLease({ ...scope, providerLeaseId: lease.providerLeaseId, leaseMetadata: lease.metadata });
  assert.equal(receipt.state, "destroyed");
  const late = await provider.execute({ ...scope, lease, command: "true" }).catch(remedyOf);
  assert.equal(late, "acquire another lease");
  assert.equal(await provider.execute({ ...scope, lease, command: "" }).catch(remedyOf), "A sandbox command is required.");

  await provider.shutdown();
  await emulator.close();
  console.log("commonjs: ok");
}

main();
