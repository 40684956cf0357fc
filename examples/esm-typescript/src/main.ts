import assert from "node:assert/strict";
import { createProvider, parseConfig, type ScopeParams } from "createos-native";
import { startEmulator, type Emulator } from "createos-native/emulator";
import { script } from "./commands.js";

const emulator: Emulator = await startEmulator();
const config = parseConfig({ apiUrl: emulator.url, apiKey: emulator.key, shape: "s-1vcpu-1gb" });
const scope: ScopeParams = { driverKey: "createos", companyId: "acme", environmentId: "test", config: { ...config } };
const provider = createProvider({ idleTimeoutMs: 60_000 });

const lease = await provider.acquireLease({ ...scope, runId: "run-1" });
assert.deepEqual(await script(provider, scope, lease, "seq 1 3", 60_000), { ok: true, lines: ["1", "2", "3"] });
assert.deepEqual(await script(provider, scope, lease, "echo before; exec sleep 600", 5_000), { ok: false, lines: ["before"] });
await provider.destroyLease({ ...scope, providerLeaseId: lease.providerLeaseId, leaseMetadata: lease.metadata });

await provider.shutdown();
await emulator.close();
console.log("esm-typescript: ok");
