// Wiring for the tests of leases and syncs: a provider with an emulator behind it, as a host would call it, and files on
// both sides. What is right or wrong is the tests' business.
import { execFileSync } from "node:child_process";
import { lstat, mkdtemp, readFile, readdir, readlink, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { startEmulator } from "../../emulator/index.mjs";
import { createProvider } from "./package.mjs";
import { conceal } from "./secrets.mjs";

/** Where a sandbox has its workspace. */
export const WORKSPACE = "/paperclip-workspace";

/** A host with a provider, whose endpoint lives as long as the test. */
export class Host {
  /** @param {import("node:test").TestContext} t @param {{emulator?: object, config?: object, options?: object}} [settings] */
  static async start(t, { emulator = {}, config = {}, options = {} } = {}) {
    const endpoint = await startEmulator({ stateDelayMs: 1, ...emulator });
    t.after(() => endpoint.close());
    return new Host(endpoint, config, { pacing: false, ...options });
  }

  constructor(emulator, config, options) {
    conceal(emulator.key, new URL(emulator.url).host);
    this.emulator = emulator;
    this.options = options;
    this.base = {
      driverKey: "createos", companyId: "company", environmentId: "environment",
      config: { apiUrl: emulator.url, apiKey: emulator.key, shape: "s-1vcpu-1gb", timeoutMs: 60_000, ...config },
    };
    this.restart();
  }

  /** A worker that knows nothing of the one before. */
  restart() {
    this.provider = createProvider(this.options);
    return this.provider;
  }

  async acquire(more = {}) {
    this.lease = await this.provider.acquireLease({ ...this.base, runId: "run", ...more });
    return this.lease;
  }

  /** The parameters that name the lease to a release or a resume. */
  named(lease = this.lease) {
    return { ...this.base, providerLeaseId: lease.providerLeaseId, leaseMetadata: lease.metadata };
  }

  /** Runs a script in the lease's sandbox and gives what it printed. */
  async bash(script, more = {}) {
    const { exitCode, stdout, stderr } = await this.provider.execute({
      ...this.base, lease: this.lease, command: "/bin/bash", args: ["-c", script], cwd: WORKSPACE, ...more,
    });
    if (exitCode !== 0) throw new Error(`The script exited with ${exitCode}: ${stderr}`);
    return stdout;
  }

  syncIn(files, { commands, warn, signal } = {}) {
    return this.#sync("syncIn", files, commands, warn, signal);
  }

  syncOut(files, { commands, warn, signal } = {}) {
    return this.#sync("syncOut", files, commands, warn, signal);
  }

  async #sync(direction, files, postUploadCommands, warn, signal) {
    const operations = [{ operationId: "operation", files: [files].flat(), postUploadCommands }];
    const { operations: [moved] } = await this.provider[direction]({ ...this.base, lease: this.lease, operations }, warn, signal);
    return moved;
  }

  /**
   * What transfers left outside of the sandbox's workspace, and hidden in it. The endpoint ends an upload that was cut in its
   * own time, so that what is left of one can be seen for a moment.
   */
  async leftovers() {
    return this.bash(`ls -A /tmp; find ${WORKSPACE} -name '.createos-*'`);
  }
}

/** A directory of the test's own. */
export async function temporary(t) {
  const directory = await mkdtemp(path.join(os.tmpdir(), "createos-sync-test-"));
  t.after(() => {
    execFileSync("chmod", ["-R", "u+rwX", directory]);
    return rm(directory, { recursive: true, force: true });
  });
  return directory;
}

/**
 * What is below a directory, sorted: `path mode content`, `path -> target`, `path/ mode`. Names and contents are bytes, one
 * character each.
 */
export async function tree(directory, inside = "") {
  const lines = [];
  const at = (name) => Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(name, "latin1")]);
  for (const name of (await readdir(at(inside), "latin1")).sort()) {
    const shown = inside === "" ? name : `${inside}/${name}`;
    const info = await lstat(at(shown));
    const mode = (info.mode & 0o777).toString(8);
    if (info.isSymbolicLink()) lines.push(`${shown} -> ${await readlink(at(shown), "latin1")}`);
    else if (info.isDirectory()) lines.push(`${shown}/ ${mode}`, ...await tree(directory, shown));
    else lines.push(`${shown} ${mode} ${(await readFile(at(shown))).toString("latin1")}`);
  }
  return lines;
}
