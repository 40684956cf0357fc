// A lease's whole life, as Paperclip's host asks for it over a worker's stdin and stdout.

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { pluginManifestV1Schema } from "@paperclipai/shared";
import manifest from "../dist/manifest.js";
import { Environment, startEndpoint } from "./support/environment.mjs";
import { Host, textOf } from "./support/host.mjs";

/** In the workspace. */
const at = (lease) => ({ cwd: lease.metadata.remoteCwd });

describe("a worker of the plugin", () => {
  let cleanups, emulator, host, environment, folder;

  before(async () => {
    cleanups = [];
    const t = { after: (cleanup) => cleanups.unshift(cleanup) };
    folder = mkdtempSync(path.join(os.tmpdir(), "createos-plugin-files-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    emulator = await startEndpoint(t);
    host = await Host.start(t);
    environment = new Environment(host, emulator);
  });

  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  it("offers every call of a sandbox provider that the manifest promises", () => {
    const calls = [
      "ValidateConfig", "Probe", "AcquireLease", "ResumeLease", "ReleaseLease", "DestroyLease", "RealizeWorkspace", "Execute",
      "SyncIn", "SyncOut",
    ];
    assert.deepEqual(host.initialized, { ok: true, supportedMethods: ["health", "shutdown", ...calls.map((name) => `environment${name}`)] });
    pluginManifestV1Schema.parse(manifest);
    const { entrypoints, id, version, environmentDrivers: [driver] } = manifest;
    const { paperclipPlugin, ...packed } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
    assert.deepEqual([id, driver.driverKey, driver.kind], ["paperclip.createos-sandbox-provider", "createos", "sandbox_provider"]);
    assert.deepEqual([entrypoints.worker, version], [paperclipPlugin.worker, packed.version]);
  });

  it("says whether settings can be used, and fills in the manifest's defaults", async () => {
    const apiKey = "reference-to-a-secret";
    const config = { apiUrl: emulator.url, apiKey, shape: "s-1vcpu-1gb" };
    const { timeoutMs, reuseLease } = manifest.environmentDrivers[0].configSchema.properties;
    assert.deepEqual(await host.call("environmentValidateConfig", { driverKey: "createos", config }), {
      ok: true,
      normalizedConfig: { ...config, rootfs: null, region: null, timeoutMs: timeoutMs.default, reuseLease: reuseLease.default },
    });
    const refused = await host.call("environmentValidateConfig", { driverKey: "createos", config: { ...config, timeoutMs: 0 } });
    assert.equal(refused.ok, false);
    assert.match(refused.errors.join(), /timeout/i);
  });

  it("probes an environment with a sandbox that is gone afterwards", async () => {
    const { ok, summary } = await environment.call("Probe");
    assert.ok(ok, summary);
    const { ok: reached } = await new Environment(host, { ...emulator, key: "another-key" }).call("Probe");
    assert.equal(reached, false, "a key that the endpoint does not take");
    const asked = (route) => emulator.requests.filter((request) => request.route === route).length;
    assert.deepEqual([asked("createSandbox"), asked("destroySandbox")], [2, 1], "the refused one made no sandbox");
    assert.deepEqual(await host.call("health").then(({ status, details }) => [status, details.running]), ["ok", 0]);
  });

  it("carries a lease from acquisition over pause and resume to destruction", async () => {
    const lease = await environment.acquire();
    const { marker, ...metadata } = lease.metadata;
    assert.deepEqual(metadata, {
      provider: "createos", apiUrl: emulator.url, companyId: "acme", environmentId: "staging", shape: "s-1vcpu-1gb", rootfs: null,
      region: null, remoteCwd: "/paperclip-workspace", shellCommand: "bash", reuseLease: true,
    });
    const { cwd } = await environment.call("RealizeWorkspace", { lease, workspace: { localPath: folder, mode: "shared" } });
    assert.equal(cwd, "/paperclip-workspace");

    const source = path.join(folder, "source");
    mkdirSync(path.join(source, "node_modules"), { recursive: true });
    writeFileSync(path.join(source, "prompt.txt"), "Straße\u2028next");
    writeFileSync(path.join(source, "run.sh"), "#!/bin/bash\nwc -c < prompt.txt\n");
    writeFileSync(path.join(source, "node_modules", "left"), "behind");
    chmodSync(path.join(source, "run.sh"), 0o750);
    symlinkSync("prompt.txt", path.join(source, "link"));
    const { operations: [sentIn] } = await environment.call("SyncIn", {
      lease,
      operations: [{
        operationId: "in", files: [{ sourcePath: source, targetPath: `${cwd}/project`, kind: "directory", exclude: ["node_modules"] }],
        postUploadCommands: [{ command: "cp run.sh copied.sh", cwd: `${cwd}/project` }],
      }],
    });
    assert.deepEqual([sentIn.operationId, sentIn.filesTransferred], ["in", 2]);

    const params = { cwd: `${cwd}/project`, env: { WHO: "it's" } };
    const ran = await environment.run(lease, './copied.sh; ls; echo "$WHO" >&2; exit 3', params);
    assert.deepEqual([ran.exitCode, ran.stdout, ran.stderr], [3, "14\ncopied.sh\nlink\nprompt.txt\nrun.sh\n", "it's\n"]);
    assert.deepEqual([textOf(ran.live, "stdout"), textOf(ran.live, "stderr")], [ran.stdout, ran.stderr]);

    const target = path.join(folder, "target");
    const { operations: [sentOut] } = await environment.call("SyncOut", {
      lease, operations: [{ operationId: "out", files: [{ sourcePath: `${cwd}/project`, targetPath: target, kind: "directory" }] }],
    });
    assert.deepEqual([sentOut.operationId, sentOut.filesTransferred], ["out", 3]);
    assert.equal(readFileSync(path.join(target, "prompt.txt"), "utf8"), "Straße\u2028next");
    assert.equal(statSync(path.join(target, "copied.sh")).mode & 0o777, 0o750);
    assert.equal(readlinkSync(path.join(target, "link")), "prompt.txt");

    const { providerLeaseId } = lease;
    assert.deepEqual(await environment.release(lease), { providerLeaseId, state: "stopped" });
    const resumed = await environment.resume(lease);
    assert.deepEqual(resumed, { providerLeaseId, metadata: { ...lease.metadata, resumedLease: true } });
    assert.equal((await environment.run(resumed, "cat project/prompt.txt", { cwd })).stdout, "Straße\u2028next");
    assert.deepEqual(await environment.destroy(resumed), { providerLeaseId, state: "destroyed" });
    assert.deepEqual(await environment.resume(lease), { providerLeaseId: null, metadata: { expired: true } });
    assert.match(marker, /^[0-9a-f-]{36}$/);
  });

  it("says by the logger what of a directory did not travel", async () => {
    const lease = await environment.acquire();
    await environment.run(lease, "mkdir out; ln -s /usr/bin/python3 out/python; echo kept > out/kept", at(lease));
    const target = path.join(folder, "venv");
    await environment.call("SyncOut", {
      lease, operations: [{ operationId: "out", files: [{ sourcePath: "/paperclip-workspace/out", targetPath: target, kind: "directory" }] }],
    });
    assert.equal(readFileSync(path.join(target, "kept"), "utf8"), "kept\n");
    const [{ level, meta }] = host.logged;
    assert.deepEqual([host.logged.length, level, meta.entry], [1, "warn", "python"]);
    await environment.destroy(lease);
  });

  it("answers two companies side by side, each call with its own live output", async () => {
    const theirs = new Environment(host, emulator, { company: "zenith" });
    const [a, b] = await Promise.all([environment.acquire(), theirs.acquire()]);
    assert.notEqual(a.providerLeaseId, b.providerLeaseId);

    // Both are let go only when both have been heard.
    const script = (name) => `echo ${name} 1; echo ${name} 1 >&2; until [ -e go ]; do sleep 0.02; done; echo ${name} 2`;
    const heard = [];
    const start = (owner, lease, name) => new Promise((resolve) => {
      heard.push(owner.run(lease, script(name), at(lease), resolve));
    });
    await Promise.race([Promise.all([start(environment, a, "acme"), start(theirs, b, "zenith")]), Promise.all(heard)]);
    await Promise.all([environment.run(a, "touch go", at(a)), theirs.run(b, "touch go", at(b))]);
    const [acme, zenith] = await Promise.all(heard);
    for (const [name, { exitCode, stdout, stderr, live }] of Object.entries({ acme, zenith })) {
      assert.deepEqual([exitCode, stdout, stderr], [0, `${name} 1\n${name} 2\n`, `${name} 1\n`]);
      assert.deepEqual([textOf(live, "stdout"), textOf(live, "stderr")], [stdout, stderr]);
    }

    await assert.rejects(theirs.run(a, "echo never"), { message: "CreateOS execution requires a lease from this environment." });
    await assert.rejects(theirs.destroy(a), { message: "CreateOS lease does not belong to this environment." });
    await Promise.all([environment.destroy(a), theirs.destroy(b)]);
  });

  it("tells a failure by its message alone", async () => {
    const lease = { providerLeaseId: "sb-gone", metadata: { provider: "createos", apiUrl: emulator.url, companyId: "acme", environmentId: "staging" } };
    await assert.rejects(environment.run(lease, "true"), { message: "CreateOS request failed (HTTP 404) during process creation." });
    await assert.rejects(environment.call("AcquireLease", { runId: "run-2", requestedExpiresAt: "2030-01-01T00:00:00Z" }), {
      message: "CreateOS does not yet support leases with a guaranteed expiration deadline.",
    });
  });

  it("ends all commands and then itself when it is shut down", async () => {
    const lease = await environment.acquire();
    let heard;
    const started = new Promise((resolve) => (heard = resolve));
    const running = environment.run(lease, "echo started; sleep 1000 & sleep 1000", {}, heard);
    const failed = assert.rejects(running, { message: "CreateOS command was cancelled." });
    await started;
    assert.deepEqual(await host.shutdown(), [0, null]);
    await failed;
    assert.deepEqual(await emulator.hostPids(), []);
  });

  it("has never said the key, lost a chunk, or printed anything that is no message", () => {
    assert.deepEqual(host.faults(), []);
  });
});
