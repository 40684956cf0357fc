import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { createProvider } from "createos-native";
import { startEmulator } from "createos-native/emulator";

const bundle = new URL("dist/worker.mjs", import.meta.url);
assert.match(readFileSync(bundle, "utf8"), /from "createos-native"/);

const emulator = await startEmulator();
const config = { apiUrl: emulator.url, apiKey: emulator.key, shape: "s-1vcpu-1gb" };
const scope = { driverKey: "createos", companyId: "acme", environmentId: "test", config };
const provider = createProvider();
const lease = await provider.acquireLease({ ...scope, runId: "run-1" });

const worker = spawn(process.execPath, [bundle.pathname], { stdio: ["pipe", "pipe", "inherit"] });
for (const word of ["one", "two"]) worker.stdin.write(`${JSON.stringify({ ...scope, lease, command: "echo", args: [word] })}\n`);
worker.stdin.end();
const answers = (await text(worker.stdout)).trim().split("\n").map((line) => JSON.parse(line));
assert.deepEqual(answers, [{ exitCode: 0, stdout: "one\n" }, { exitCode: 0, stdout: "two\n" }]);

await provider.destroyLease({ ...scope, providerLeaseId: lease.providerLeaseId, leaseMetadata: lease.metadata });
await emulator.close();
console.log("esbuild-worker: ok");
